"""Calls of the program's own functions, replaced by what these do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from shoal.lang import plan
from shoal.lang.walk import calls_itself, nodes, rewrite

MOST_PARTS = 500
"""How large an expression may become."""
Part = TypeVar("Part", bound=plan.Op | plan.Expr)


def inlined(part: Part, funcs: Sequence[plan.Func]) -> Part:
    """A part of a plan without calls of functions, as far as these are plain expressions of their parameters."""
    return rewrite(part, lambda node: _body(node, funcs) if isinstance(node, plan.UserCall) else node)


def _body(call: plan.UserCall, funcs: Sequence[plan.Func]) -> plan.Expr:
    if calls_itself(call.func, funcs):
        return call
    body = inlined(funcs[call.func].body, funcs)
    if any(isinstance(part, _NOT_PLAIN) for part in nodes(body)):
        return call
    made: plan.Expr = rewrite(body, lambda node: call.args[node.slot] if isinstance(node, plan.Var) else node)
    return made if sum(1 for _ in nodes(made)) <= MOST_PARTS else call


_NOT_PLAIN = (plan.Agg, plan.MapCall, plan.Subquery, plan.This, plan.UserCall)
"""What sees another current value, or keeps something between calls."""
