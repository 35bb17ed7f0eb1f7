"""Calls of functions by the interpreter, from inside of SQL."""

from __future__ import annotations

from shoal.engines.sql.formulas import computed
from shoal.engines.sql.nodes import Const, Node, Outcomes, Rec, always
from shoal.engines.sql.result_types import results_of
from shoal.lang import plan
from shoal.model import types as t


def called(name: str, *args: Node) -> Outcomes:
    """What a function makes of values."""
    fields = [(f"a{i}", arg) for i, arg in enumerate(args)]
    this = Rec(t.record((field, arg.type) for field, arg in fields), args)
    exprs = [plan.Literal(arg.value) if isinstance(arg, Const) else plan.This((field,)) for field, arg in fields]
    expr = plan.Call(name, tuple(exprs))
    return computed(expr, this, results_of(expr, [always(arg) for arg in args]))
