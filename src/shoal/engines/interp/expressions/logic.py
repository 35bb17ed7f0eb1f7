"""`and`, `or`, `not` and the conditional. What is not a boolean is an error; a missing left side of `or` is not."""

from __future__ import annotations

from shoal.engines.interp.environment import Env, Eval
from shoal.model import types as t
from shoal.model.values import FALSE, TRUE, Value, is_error, is_missing, structured_error


def as_bool(value: Value) -> Value:
    """TRUE or FALSE; or the error that the value is, or that it makes."""
    if value is TRUE or value is FALSE:
        return value
    if value.type.under is t.BOOL:
        return TRUE if value.data else FALSE
    if is_error(value):
        return value
    return structured_error("not type bool", value)


def is_true(value: Value) -> bool:
    """Whether a filter lets this pass."""
    return value is TRUE or (value is not FALSE and value.type.under is t.BOOL and bool(value.data))


def both(left: Eval, right: Eval) -> Eval:
    """`a and b`."""

    def test(this: Value, env: Env) -> Value:
        a = as_bool(left(this, env))
        return as_bool(right(this, env)) if a is TRUE else a

    return test


def either(left: Eval, right: Eval) -> Eval:
    """`a or b`."""

    def test(this: Value, env: Env) -> Value:
        a = as_bool(left(this, env))
        return as_bool(right(this, env)) if a is FALSE or is_missing(a) else a

    return test


def negated(operand: Eval) -> Eval:
    """`!a`."""

    def test(this: Value, env: Env) -> Value:
        a = as_bool(operand(this, env))
        return FALSE if a is TRUE else TRUE if a is FALSE else a

    return test


def conditional(cond: Eval, then: Eval, otherwise: Eval) -> Eval:
    """`c ? a : b`."""

    def choose(this: Value, env: Env) -> Value:
        value = cond(this, env)
        if value.type.under is not t.BOOL:
            return structured_error("?-operator: bool predicate required", value)
        return then(this, env) if value.data else otherwise(this, env)

    return choose
