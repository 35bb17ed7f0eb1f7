"""Casts in SQL, as exact as `model.cast`. The engine reads texts of the usual forms, the interpreter all others."""

from __future__ import annotations

from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql, both, either, negated
from shoal.engines.sql.nodes import (
    Const,
    Leaf,
    Node,
    NotColumnar,
    Outcome,
    Outcomes,
    always,
    is_error,
    on,
    refuse_exact,
)
from shoal.engines.sql.result_types import called
from shoal.engines.sql.types import failure, sql_type
from shoal.model import types as t
from shoal.model.values import Value

_SIGNED_TEXT, _UNSIGNED_TEXT = "[+-]?[0-9]+", "[0-9]+"
_PLAIN_FRACTION = r"[+-]?[0-9]{1,17}(\.[0-9]{1,17})?"
_PLAIN_TIME = r"(19|20)\d\d-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?Z"
_MICROSECOND = 1000


def cast(node: Node, to: Node) -> Outcomes:
    """A value as a primitive type."""
    if is_error(node):
        return always(node)
    if not isinstance(to, Const) or not isinstance(to.value.data, t.Type):
        raise NotColumnar("a cast to what is not known")
    target = to.value.data
    if not isinstance(target.under, t.Primitive) or not isinstance(node, Leaf):
        raise NotColumnar("a cast of values with parts")
    a, b = node.type.under, target.under
    if a is b:
        return always(Leaf(target, node.sql))
    refuse_exact(a, b)
    if a is t.STRING:
        return _of_text(node, target)
    if b is t.STRING and a in (t.INT64, t.BOOL):
        return always(Leaf(target, build.cast(node.sql, "VARCHAR")))
    if not t.is_number(a):
        raise NotColumnar("a cast of no number")
    if b in t.INT_RANGES:
        return _to_whole(node, target)
    if b is t.FLOAT64:
        return always(Leaf(target, build.cast(node.sql, "DOUBLE")))
    if b is t.BOOL:
        return always(Leaf(target, _to_bool(node)))
    raise NotColumnar("a cast to narrow floats, or to a type that is not a number")


def _to_whole(node: Leaf, target: t.Type) -> Outcomes:
    """A number without its fraction, if there is room for it."""
    low, high = t.INT_RANGES[target.under]  # type: ignore[index]
    if node.type.under in t.FLOATS:
        whole = build.call("trunc", build.cast(node.sql, "DOUBLE"))
        above = build.cast(build.text(repr(float(high + 1))), "DOUBLE")
        fits: Cond = both(
            build.negated(build.is_nan(whole)),
            build.binary(">=", whole, build.cast(build.text(repr(float(low))), "DOUBLE")),
            build.binary("<", whole, above),
        )
        return _if_possible(node, target, build.try_cast(whole, sql_type(target)), negated(fits))
    least, most = t.INT_RANGES[node.type.under]  # type: ignore[index]
    result = build.try_cast(node.sql, sql_type(target))
    if low <= least and most <= high:
        return always(Leaf(target, result))
    return _if_possible(node, target, result, build.is_null(result))


def _if_possible(node: Leaf, target: t.Type, result: Sql, is_bad: Cond) -> Outcomes:
    """What was made of a value, or the error around it; of null is made null."""
    assert isinstance(target.under, t.Primitive)
    message = f"cannot cast to {target.under.name}"
    if target.under is t.TIME:
        message += ": coerce to int failed"
    bad = both(build.is_present(node.sql), is_bad)
    return Outcome(bad, failure(message, node)), Outcome(negated(bad), Leaf(target, result))


def _to_bool(node: Leaf) -> Sql:
    if node.type.under not in t.FLOATS:
        return build.binary("<>", node.sql, build.integer(0))
    number = build.cast(node.sql, "DOUBLE")
    # A fraction counts as 0, a NaN does not.
    result = either(
        build.is_nan(number),
        build.binary(">=", number, build.integer(1)),
        build.binary("<=", number, build.integer(-1)),
    )
    assert not isinstance(result, bool)
    return result


# ---- texts


def _of_text(node: Leaf, target: t.Type) -> Outcomes:
    b = target.under
    if b in t.SIGNED or b in t.UNSIGNED:
        form = _UNSIGNED_TEXT if b in t.UNSIGNED else _SIGNED_TEXT
        result = build.choose([(_has_form(node.sql, form), build.try_cast(node.sql, sql_type(target)))])
        return _if_possible(node, target, result, build.is_null(result))
    if b is t.FLOAT64:
        return _usual_or_called(node, target, _PLAIN_FRACTION, build.try_cast(node.sql, "DOUBLE"))
    if b is t.TIME:
        moment = build.call("epoch_us", build.try_cast(node.sql, "TIMESTAMP"))
        return _usual_or_called(node, target, _PLAIN_TIME, build.binary("*", moment, build.integer(_MICROSECOND)))
    raise NotColumnar("a text of another form")


def _has_form(sql: Sql, pattern: str) -> Sql:
    return build.call("regexp_full_match", sql, build.text(pattern))


def _usual_or_called(node: Leaf, target: t.Type, pattern: str, read: Sql) -> Outcomes:
    """Texts of a form as the engine reads them; the interpreter is called for the others."""
    usual = build.choose([(_has_form(node.sql, pattern), read)])
    is_other = both(build.is_present(node.sql), build.is_null(usual))
    other = Leaf(node.type, build.choose([(is_other, node.sql)], build.null("VARCHAR")))
    to = Const(Value(t.TYPE, target))
    return (Outcome(negated(is_other), Leaf(target, usual)), *on(is_other, called("cast", other, to)))
