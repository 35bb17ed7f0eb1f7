"""Expressions of constants become constants, unless they would be errors or change from call to call."""

from __future__ import annotations

from typing import TypeGuard

from shoal.lang import plan
from shoal.lang.catalog import Evaluate
from shoal.lang.walk import rewrite
from shoal.model.values import is_error

CHANGING = frozenset({"now", "ksuid", "typename"})
"""Functions that give another value from call to call, or from one input to the next."""


def fold_constants(program: plan.Program, evaluate: Evaluate) -> plan.Program:
    """`x == 60*60` becomes `x == 3600`."""

    def fold(node: plan.Node) -> plan.Node:
        if not is_constant(node):
            return node
        value = evaluate(node, program.funcs)
        return node if is_error(value) else plan.Literal(value)

    return rewrite(program, fold)


def is_constant(node: plan.Node) -> TypeGuard[plan.Expr]:
    """Whether a node is an operation on constants alone."""
    match node:
        case plan.Binary(_, plan.Literal(), plan.Literal()) | plan.Unary(_, plan.Literal()):
            return True
        case plan.Conditional(plan.Literal(), plan.Literal(), plan.Literal()):
            return True
        case plan.Call(name, args):
            return name not in CHANGING and bool(args) and all(isinstance(a, plan.Literal) for a in args)
        case plan.ArrayExpr(elems) | plan.SetExpr(elems):
            return all(isinstance(e, plan.Literal) for e in elems)
        case plan.RecordExpr(elems):
            return all(isinstance(e, plan.Field) and isinstance(e.expr, plan.Literal) for e in elems)
        case plan.MapExpr(entries):
            return all(isinstance(k, plan.Literal) and isinstance(v, plan.Literal) for k, v in entries)
    return False
