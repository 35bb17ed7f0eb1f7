"""Arithmetic in SQL: common types as the interpreter finds them, integers that wrap around, nulls as zeros."""

from __future__ import annotations

from sqlglot import exp

from shoal.engines.interp.expressions.arithmetic import DIVIDE_BY_ZERO, FLOATS, _Refused, promote
from shoal.engines.sql import build
from shoal.engines.sql.build import Sql
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Outcome, Outcomes, Rec, always, const, refuse_exact
from shoal.engines.sql.types import failure, physical, sql_type
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.model.values import Value, text_error

_BITS = {
    t.UINT8: 8, t.INT8: 8, t.UINT16: 16, t.INT16: 16, t.UINT32: 32, t.INT32: 32, t.UINT64: 64, t.INT64: 64,
    t.DURATION: 64, t.TIME: 64,
}  # fmt: skip


def arithmetic(op: str, a: Node, b: Node) -> Outcomes:
    """`a op b` of values that are not errors."""
    if isinstance(a.type.under, t.Union | t.Enum) or isinstance(b.type.under, t.Union | t.Enum):
        raise NotColumnar("arithmetic with a union or an enum")
    typ = _common(a, b)
    if isinstance(typ, Value):
        return const(typ)
    if typ not in _BITS and typ not in FLOATS and not (typ is t.STRING and op == "+"):
        return const(text_error(f"type {format_type(typ)} incompatible with '{op}' operator"))
    if isinstance(a, Rec) or isinstance(b, Rec):
        raise NotColumnar("arithmetic with a record")
    if typ is t.STRING:
        return always(_joined(a, b))
    if typ in _BITS:
        return _whole(op, typ, a, b)
    return _fractions(op, typ, a, b)


_MOST_JOINED = 16
"""How many texts SQL may join into one, those in arguments of formulas counted: DuckDB does not count the values of
expressions towards its memory limit. The interpreter measures what it makes of more."""
_CONCAT = "concat"


def _joined(a: Leaf | Const, b: Leaf | Const) -> Leaf:
    joined = build.call(_CONCAT, *(_or(node, build.text("")) for node in (a, b)))
    if sum(call.name == _CONCAT for call in joined.find_all(exp.Anonymous)) >= _MOST_JOINED:
        raise NotColumnar("a text of many parts")
    return Leaf(t.STRING, joined)


def _common(a: Node, b: Node) -> t.Type | Value:
    """The type to compute in, or the error that there is none."""
    x, y = a.type.under, b.type.under
    refuse_exact(x, y)
    if t.UINT64 in (x, y) and x is not y and {x, y} & {*t.SIGNED, t.DURATION, t.TIME}:
        raise NotColumnar("signed with unsigned numbers of 64 bits")
    try:
        return promote(Value(x, None), Value(y, None))
    except _Refused as e:
        return text_error(str(e))


def _or(node: Leaf | Const, zero: Sql) -> Sql:
    if node.type.under is t.NULL:
        return zero
    return (
        physical(node)
        if isinstance(node, Const) and node.value.data is not None
        else build.or_zero(physical(node), zero)
    )


def _whole(op: str, typ: t.Type, a: Leaf | Const, b: Leaf | Const) -> Outcomes:
    if op == "*" and typ is t.UINT64:
        raise NotColumnar("products of unsigned numbers of 64 bits")
    x, y = (build.cast(_or(n, build.integer(0)), "HUGEINT") for n in (a, b))
    result = t.DURATION if typ is t.TIME and op == "-" else typ
    if op not in ("/", "%"):
        return always(Leaf(result, wrapped(build.binary(op, x, y), typ)))
    zero = build.binary("=", y, build.integer(0))
    divisor = build.call("nullif", y, build.integer(0))
    quotient = wrapped(build.binary("//" if op == "/" else "%", x, divisor), typ)
    return _guarded(zero, b, Leaf(result, quotient))


def _guarded(zero: Sql, divisor: Leaf | Const, result: Leaf) -> Outcomes:
    if isinstance(divisor, Const):
        return always(result) if divisor.value.data else const(DIVIDE_BY_ZERO)
    return Outcome(zero, Const(DIVIDE_BY_ZERO)), Outcome(build.negated(zero), result)


def wrapped(sql: Sql, typ: t.Type) -> Sql:
    """A whole number of any size as one of a type, wrapping around."""
    low, high = t.INT_RANGES[typ]  # type: ignore[index]
    size = high - low + 1
    kind = sql_type(typ)
    number = build.integer
    moved = build.binary("%", build.binary("-", sql, number(low)), number(size))
    around = build.binary("+", build.binary("%", build.binary("+", moved, number(size)), number(size)), number(low))
    fits = build.both(build.binary(">=", sql, number(low)), build.binary("<=", sql, number(high)))
    return build.choose([(fits, build.cast(sql, kind))], build.cast(around, kind))


def _fractions(op: str, typ: t.Type, a: Leaf | Const, b: Leaf | Const) -> Outcomes:
    if op == "%":
        return const(text_error(f"type {format_type(typ)} incompatible with '%' operator"))
    if typ is t.FLOAT16:
        raise NotColumnar("numbers of 16 bits")
    x, y = (build.cast(_or(n, build.integer(0)), "DOUBLE") for n in (a, b))
    kind = sql_type(typ)
    if op != "/":
        quotient = build.binary(op, x, y)
        return always(Leaf(typ, quotient if kind == "DOUBLE" else build.cast(quotient, kind)))
    zero = build.binary("=", y, build.integer(0))
    quotient = build.divided(x, build.call("nullif", y, build.integer(0)))
    return _guarded(zero, b, Leaf(typ, quotient if kind == "DOUBLE" else build.cast(quotient, kind)))


def minus(node: Node) -> Outcomes:
    """`-a` of a number that has a sign."""
    typ = node.type
    if not isinstance(node, Leaf) or (typ not in t.SIGNED and typ not in FLOATS):
        raise NotColumnar("a sign for something else")
    if typ in FLOATS:
        return always(Leaf(typ, build.minus(node.sql)))
    low, _ = t.INT_RANGES[typ]
    is_least = build.binary("=", node.sql, build.integer(low))
    negative = build.minus(build.call("nullif", node.sql, build.integer(low)))
    return (
        Outcome(is_least, failure("unary '-' underflow", node)),
        Outcome(build.negated(is_least), Leaf(typ, build.cast(negative, sql_type(typ)))),
    )
