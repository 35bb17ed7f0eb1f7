"""A join learns how its sides are sorted, so that it need not sort them again, and joins in that order."""

from __future__ import annotations

import dataclasses

from shoal.lang import plan
from shoal.lang.walk import rewrite_sequences


def order_joins(program: plan.Program) -> plan.Program:
    """`sort -r a | join (...) on a=b` joins in descending order."""

    def learn(seq: plan.Seq) -> plan.Seq:
        out: list[plan.Op] = []
        for i, op in enumerate(seq):
            before = seq[i - 1] if i else None
            if isinstance(op, plan.Join) and isinstance(before, plan.Fork) and len(before.legs) == 2:
                left = order_of(seq[: i - 1], before.legs[0], op.left_key)
                right = order_of(seq[: i - 1], before.legs[1], op.right_key)
                op = dataclasses.replace(op, left_order=left, right_order=right)
            out.append(op)
        return tuple(out)

    return rewrite_sequences(program, learn)


def order_of(before: plan.Seq, leg: plan.Seq, key: plan.Expr) -> plan.Order | None:
    """The direction in which a leg is sorted by a key, nulls last; None if that is not certain."""
    for op in reversed((*before, *leg)):
        match op:
            case plan.Pass() | plan.Filter() | plan.Head() | plan.Tail() | plan.Uniq(count=False):
                continue
            case plan.Sort(keys, reverse, False) if keys and keys[0].expr == key:
                return turned(keys[0].order, reverse)
            case plan.FileScan(order=order) | plan.HttpScan(order=order) if order and order[0].expr == key:
                return order[0].order
        return None
    return None


def turned(order: plan.Order, reverse: bool) -> plan.Order:
    """An order, or its opposite."""
    if not reverse:
        return order
    return "asc" if order == "desc" else "desc"
