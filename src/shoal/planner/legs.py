"""Pipelines that start with the scan of a pool: the legs of a fork as pipelines of their own, the sides of a join."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise

from shoal.lang import plan
from shoal.lang.walk import has_aggregate, legs_of


def part_legs(
    scan: plan.PoolScan, ops: plan.Seq, funcs: tuple[plan.Func, ...]
) -> tuple[tuple[plan.Seq, ...], plan.Seq] | None:
    """`from p | where x | fork (=> a => b) | c` as the sequences `from p | where x | a` and `from p | where x | b`,
    and what follows them: `c`. None if there is no fork or switch, or more than rows one by one before it.
    """
    index = next((i for i, op in enumerate(ops) if not op.traits.is_row_wise), len(ops))
    if index == len(ops):
        return None
    split, before = ops[index], ops[:index]
    if not isinstance(split, plan.Fork | plan.Switch):
        return None
    return tuple(_pushed(scan, (*before, *leg), funcs) for leg in legs_of(split)), ops[index + 1 :]


def _pushed(scan: plan.PoolScan, ops: plan.Seq, funcs: tuple[plan.Func, ...]) -> plan.Seq:
    """A scan and what follows it; the filters right after it are part of it."""
    for index, op in enumerate(ops):
        if not isinstance(op, plan.Filter) or has_aggregate(op.expr, funcs):
            return (scan, *ops[index:])
        both = op.expr if scan.filter is None else plan.Binary("and", scan.filter, op.expr)
        scan = dataclasses.replace(scan, filter=both)
    return (scan,)


def joined_scans(ops: plan.Seq) -> Iterator[plan.PoolScan]:
    """The scans that sides of joins begin with, also of joins on these sides."""
    for op, following in pairwise(ops):
        if isinstance(op, plan.Fork) and isinstance(following, plan.Join):
            for leg in op.legs:
                if leg and isinstance(leg[0], plan.PoolScan):
                    yield leg[0]
                yield from joined_scans(leg)


def from_left_side(seq: plan.Seq) -> plan.Seq:
    """`from ( pool p | a pool q | b ) | join` as `from p | a | join ( from q | b )`."""
    match seq:
        case (plan.Fork(((plan.PoolScan(), *_) as left, right)), plan.Join() as join, *rest):
            return (*left, plan.Fork(((plan.Pass(),), right)), join, *rest)
    return seq
