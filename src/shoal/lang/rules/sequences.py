"""Rewriting sequences of operators, wherever in a plan they stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

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
