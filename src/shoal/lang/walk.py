"""Walks over plans: the nodes of a part, what follows from them, and rewriting them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from shoal.lang import plan
from shoal.model.values import FALSE

P = TypeVar("P")


def nodes(part: Any) -> Iterator[Any]:
    """A part of a plan and every part inside it."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        yield part
        for field in dataclasses.fields(part):
            yield from nodes(getattr(part, field.name))
    elif isinstance(part, tuple):
        for item in part:
            yield from nodes(item)


def operators(part: Any) -> Iterator[plan.Op]:
    """The operators in a part of a plan, those inside others too."""
    return (node for node in nodes(part) if isinstance(node, plan.Op))


def depth_of(part: Any) -> int:
    """How deep the parts of a plan nest."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return 1 + max((depth_of(getattr(part, f.name)) for f in dataclasses.fields(part)), default=0)
    if isinstance(part, tuple):
        return max(map(depth_of, part), default=0)
    return 0


def rewrite(part: P, change: Callable[[plan.Node], plan.Node]) -> P:
    """A plan with every node replaced by what `change` makes of it, innermost first.

    What stands for an expression has to be an expression, and so on: `change` keeps the kind of a node.
    """
    changed: P = _rewritten(part, change)
    return changed


def _rewritten(part: Any, change: Callable[[plan.Node], plan.Node]) -> Any:
    if isinstance(part, tuple):
        items = tuple(_rewritten(item, change) for item in part)
        return part if all(a is b for a, b in zip(part, items, strict=True)) else _same_kind(part, items)
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        old = getattr(part, field.name)
        new = _rewritten(old, change)
        if new is not old:
            changes[field.name] = new
    return change(dataclasses.replace(part, **changes) if changes else part)  # type: ignore[arg-type]


def _same_kind(part: tuple[Any, ...], items: tuple[Any, ...]) -> tuple[Any, ...]:
    return items if type(part) is tuple else type(part)(*items)


def rewrite_sequences(program: plan.Program, change: Callable[[plan.Seq], plan.Seq]) -> plan.Program:
    """The program with every sequence of operators replaced by what `change` makes of it, inner ones first."""

    def inner(node: plan.Node) -> plan.Node:
        match node:
            case plan.Fork(legs):
                return plan.Fork(tuple(change(leg) for leg in legs))
            case plan.Case(expr, body):
                return plan.Case(expr, change(body))
            case plan.Over(exprs, names, body) if body is not None:
                return plan.Over(exprs, names, change(body))
            case plan.Subquery(names, exprs, body):
                return plan.Subquery(names, exprs, change(body))
        return node

    changed = rewrite(program, inner)
    return dataclasses.replace(changed, body=change(changed.body))


def rewrite_from_outside(program: plan.Program, change: Callable[[plan.Seq], plan.Seq]) -> plan.Program:
    """Like `rewrite_sequences`, but outer ones first: sequences inside are those of what `change` returned."""

    def deeper(seq: plan.Seq) -> plan.Seq:
        changed: plan.Seq = _rewrite_inside(change(seq), deeper)
        return changed

    funcs = _rewrite_inside(program.funcs, deeper)
    return dataclasses.replace(program, funcs=funcs, body=deeper(program.body))


def _rewrite_inside(part: Any, change: Callable[[plan.Seq], plan.Seq]) -> Any:
    """A part of a plan with the outermost sequences in it replaced."""
    if isinstance(part, tuple):
        items = tuple(_rewrite_inside(item, change) for item in part)
        return items if any(a is not b for a, b in zip(part, items, strict=True)) else part
    if isinstance(part, plan.Literal) or not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        old = getattr(part, field.name)
        match part, field.name:
            case plan.Fork(), "legs":
                new: Any = tuple(change(leg) for leg in old)
            case plan.Case() | plan.Over() | plan.Subquery(), "body":
                new = None if old is None else change(old)
            case _:
                new = _rewrite_inside(old, change)
        if new is not old:
            changes[field.name] = new
    return dataclasses.replace(part, **changes) if changes else part


def legs_of(split: plan.Fork | plan.Switch) -> tuple[plan.Seq, ...]:
    """The legs, each as a sequence over the whole input of the fork or switch."""
    if isinstance(split, plan.Fork):
        return split.legs
    return tuple((_only(split, i), *case.body) for i, case in enumerate(split.cases))


_NOTHING: plan.Seq = (plan.Filter(plan.Literal(FALSE)),)


def _only(switch: plan.Switch, index: int) -> plan.Switch:
    """A switch that passes on the values of one of its cases."""
    bodies = [(plan.Pass(),) if i == index else _NOTHING for i in range(len(switch.cases))]
    cases = (plan.Case(case.expr, body) for case, body in zip(switch.cases, bodies, strict=True))
    return plan.Switch(switch.expr, tuple(cases))


def called(expr: plan.Expr) -> set[int]:
    """The functions of the program that an expression calls itself."""
    return {node.func for node in nodes(expr) if isinstance(node, plan.UserCall)}


def reachable(expr: plan.Expr, funcs: Sequence[plan.Func]) -> set[int]:
    """The functions of the program that an expression calls, directly or not."""
    indexes: set[int] = set()
    pending = called(expr)
    while pending:
        index = pending.pop()
        if index not in indexes:
            indexes.add(index)
            pending |= called(funcs[index].body)
    return indexes


def calls_itself(index: int, funcs: Sequence[plan.Func]) -> bool:
    """Whether a function calls itself, directly or not."""
    return index in reachable(funcs[index].body, funcs)


def has_aggregate(expr: plan.Expr, funcs: Sequence[plan.Func]) -> bool:
    """Whether an expression keeps a running aggregate, itself or in a function that it calls."""
    bodies = [expr, *(funcs[i].body for i in reachable(expr, funcs))]
    return any(isinstance(node, plan.Agg) for body in bodies for node in nodes(body))
