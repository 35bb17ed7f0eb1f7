"""Walking over plans: the parts of an expression, and what can be told from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shoal.lang import plan


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


def rewrite(part: Any, change: Callable[[Any], Any]) -> Any:
    """A plan with every part replaced by what `change` makes of it, innermost first."""
    if isinstance(part, tuple):
        made = tuple(rewrite(item, change) for item in part)
        return part if all(a is b for a, b in zip(part, made, strict=True)) else _same_kind(part, made)
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        old = getattr(part, field.name)
        new = rewrite(old, change)
        if new is not old:
            changes[field.name] = new
    return change(dataclasses.replace(part, **changes) if changes else part)


def _same_kind(part: tuple[Any, ...], made: tuple[Any, ...]) -> tuple[Any, ...]:
    return made if type(part) is tuple else type(part)(*made)


def called(expr: plan.Expr) -> set[int]:
    """The functions of the program that an expression calls itself."""
    return {node.func for node in nodes(expr) if isinstance(node, plan.UserCall)}


def reachable(expr: plan.Expr, funcs: Sequence[plan.Func]) -> set[int]:
    """The functions of the program that an expression calls, directly or not."""
    found: set[int] = set()
    waiting = called(expr)
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting |= called(funcs[index].body)
    return found


def calls_itself(index: int, funcs: Sequence[plan.Func]) -> bool:
    """Whether a function calls itself, directly or not."""
    return index in reachable(funcs[index].body, funcs)


def has_aggregate(expr: plan.Expr, funcs: Sequence[plan.Func]) -> bool:
    """Whether an expression keeps a running aggregate, itself or in a function that it calls."""
    bodies = [expr, *(funcs[i].body for i in reachable(expr, funcs))]
    return any(isinstance(node, plan.Agg) for body in bodies for node in nodes(body))
