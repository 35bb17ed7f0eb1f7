"""Rewriting sequences of operators, wherever in a plan they stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from shoal.lang import plan
from shoal.lang.walk import rewrite


def rewrite_sequences(program: plan.Program, change: Callable[[plan.Seq], plan.Seq]) -> plan.Program:
    """The program with every sequence replaced by what `change` makes of it, inner ones first."""

    def inner(part: object) -> object:
        match part:
            case plan.Fork(legs):
                return plan.Fork(tuple(change(leg) for leg in legs))
            case plan.Case(expr, body):
                return plan.Case(expr, change(body))
            case plan.Over(exprs, names, body) if body is not None:
                return plan.Over(exprs, names, change(body))
            case plan.Subquery(names, exprs, body):
                return plan.Subquery(names, exprs, change(body))
        return part

    made: plan.Program = rewrite(program, inner)
    return dataclasses.replace(made, body=change(made.body))


def rewrite_from_outside(program: plan.Program, change: Callable[[plan.Seq], plan.Seq]) -> plan.Program:
    """The same, outer sequences first: those inside are looked for in what `change` has made."""

    def deeper(seq: plan.Seq) -> plan.Seq:
        made: plan.Seq = _rewrite_inside(change(seq), deeper)
        return made

    funcs = _rewrite_inside(program.funcs, deeper)
    return dataclasses.replace(program, funcs=funcs, body=deeper(program.body))


def _rewrite_inside(part: Any, change: Callable[[plan.Seq], plan.Seq]) -> Any:
    """A part of a plan with the outermost sequences in it replaced."""
    if isinstance(part, tuple):
        made = tuple(_rewrite_inside(item, change) for item in part)
        return made if any(a is not b for a, b in zip(part, made, strict=True)) else part
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
