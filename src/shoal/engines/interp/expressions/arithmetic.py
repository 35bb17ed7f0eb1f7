"""Arithmetic. Operands are promoted to a common type; integers wrap around, decimals are exact; null counts as zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.functions.arguments import wrap
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.decimals import compute as compute_decimal
from shoal.model.decimals import decimal_of, result_type
from shoal.model.extent import MAX_TEXT, TOO_LONG
from shoal.model.literals import DAY, round_float
from shoal.model.text import format_type
from shoal.model.values import Value, is_error, structured_error, text_error

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_FLOAT_FOR = {
    t.UINT8: t.FLOAT16, t.UINT16: t.FLOAT16, t.UINT32: t.FLOAT32, t.UINT64: t.FLOAT64,
    t.INT8: t.FLOAT16, t.INT16: t.FLOAT16, t.INT32: t.FLOAT32, t.INT64: t.FLOAT64,
    t.DURATION: t.FLOAT64, t.TIME: t.FLOAT64,
}  # fmt: skip
_SIGNED_FOR = {t.UINT8: t.INT8, t.UINT16: t.INT16, t.UINT32: t.INT32, t.UINT64: t.INT64}
_WIDTH = {
    t.UINT8: 8, t.INT8: 8, t.UINT16: 16, t.INT16: 16, t.UINT32: 32, t.INT32: 32, t.UINT64: 64, t.INT64: 64,
    t.DURATION: 64, t.TIME: 64,
}  # fmt: skip
FLOATS = (t.FLOAT16, t.FLOAT32, t.FLOAT64)
_FLOAT_SIZE = {t.FLOAT16: 2, t.FLOAT32: 4, t.FLOAT64: 8}
DIVIDE_BY_ZERO = text_error("divide by zero")


class _Refused(Exception):
    """Operands that have no common type; the text is the error value's."""


def is_unsigned(typ: t.Type) -> bool:
    """Whether a type is an unsigned integer."""
    return typ in _SIGNED_FOR


def promote(a: Value, b: Value) -> t.Type:
    """The common type of two operands without names and unions."""
    x, y = a.type, b.type
    if x is y or y is t.NULL:
        return x
    if x is t.NULL:
        return y
    if not (t.is_number(x) and t.is_number(y)):
        raise _Refused("incompatible types")
    if isinstance(x, t.Decimal) or isinstance(y, t.Decimal):
        return _promote_decimal(x, y)
    if x in FLOATS or y in FLOATS:
        x, y = _FLOAT_FOR.get(x, x), _FLOAT_FOR.get(y, y)  # type: ignore[call-overload]
    elif is_unsigned(x) != is_unsigned(y):
        for value in (a, b):
            if is_unsigned(value.type) and (value.data or 0) > _INT64_MAX:
                raise _Refused("integer overflow: uint64 value too large for int64")
        x, y = _SIGNED_FOR.get(x, x), _SIGNED_FOR.get(y, y)  # type: ignore[call-overload]
    return x if x.id > y.id else y  # type: ignore[attr-defined]


def _promote_decimal(x: t.Type, y: t.Type) -> t.Type:
    """A decimal and a float are floats; a decimal and an integer are decimals."""
    if x in FLOATS or y in FLOATS:
        return t.FLOAT64
    if decimal_of(x) is None or decimal_of(y) is None:
        raise _Refused("incompatible types")
    return x if isinstance(x, t.Decimal) else y


def _operand(value: Value) -> Value:
    typ = value.type
    if typ is t.INT64 or typ is t.FLOAT64 or typ is t.STRING:
        return value
    if isinstance(typ, t.Enum):
        return Value(t.UINT64, value.data)
    return value.under()


def arithmetic(op: str, left: Eval, right: Eval) -> Eval:
    """`a op b`."""
    on_integers, on_floats = _OPS[op]

    def compute(this: Value, env: Env) -> Value:
        a = left(this, env)
        if is_error(a):
            return a
        b = right(this, env)
        if is_error(b):
            return b
        a, b = _operand(a), _operand(b)
        if a.type is t.DATE or b.type is t.DATE:
            return _with_dates(op, a, b)
        try:
            typ = promote(a, b)
        except _Refused as e:
            return text_error(str(e))
        if isinstance(typ, t.Decimal):
            return _with_decimals(op, a, b)
        x, y = a.data, b.data
        try:
            if typ in _WIDTH:
                result = wrap(on_integers(_whole(x), _whole(y)), typ)
                return Value(t.DURATION if typ is t.TIME and op == "-" else typ, result)
            if typ in FLOATS and on_floats is not None:
                return Value(typ, round_float(on_floats(_fraction(x), _fraction(y)), _FLOAT_SIZE[typ]))
        except ZeroDivisionError:
            return DIVIDE_BY_ZERO
        except OverflowError:
            return Value(typ, math.inf)
        if typ is t.STRING and op == "+":
            joined = (x or "") + (y or "")
            return Value(t.STRING, joined) if len(joined) <= MAX_TEXT else TOO_LONG
        return text_error(f"type {format_type(typ)} incompatible with '{op}' operator")

    return compute


def _with_decimals(op: str, a: Value, b: Value) -> Value:
    """A sum, a difference or a product of decimals is exact. A quotient is a float."""
    x, y = a.data or 0, b.data or 0
    if op == "/":
        return Value(t.FLOAT64, float(x) / float(y)) if y else DIVIDE_BY_ZERO
    one, two = (decimal_of(value.type) or decimal_of(other.type) for value, other in ((a, b), (b, a)))
    assert one is not None
    assert two is not None
    if op == "%":
        return text_error(f"type {format_type(one)} incompatible with '%' operator")
    typ = result_type(op, one, two)
    try:
        return Value(typ, compute_decimal(op, Decimal(x), Decimal(y), typ))
    except InvalidInput as e:
        return text_error(f"decimal overflow: {e}")


def _with_dates(op: str, a: Value, b: Value) -> Value:
    """Dates differ by a duration. With a duration, or next to a time, a date is its first moment in UTC."""
    is_known = a.type in _AROUND_DATES and b.type in _AROUND_DATES
    dates = (a.type is t.DATE) + (b.type is t.DATE)
    times = (a.type is t.TIME) + (b.type is t.TIME)
    is_sum = op == "+" and dates == 1 and not times
    is_difference = op == "-" and (dates + times == 2 or (a.type is t.DATE and b.type in (t.DURATION, t.NULL)))
    if not is_known or not (is_sum or is_difference):
        return text_error(f"type date incompatible with '{op}' operator")
    x, y = (int(v.data or 0) * (DAY if v.type is t.DATE else 1) for v in (a, b))
    amount = x + y if op == "+" else x - y
    if not _INT64_MIN <= amount <= _INT64_MAX:
        return text_error("time overflow: times reach from 1677-09-21 to 2262-04-11")
    return Value(t.DURATION if dates + times == 2 else t.TIME, amount)


_AROUND_DATES = (t.DATE, t.TIME, t.DURATION, t.NULL)


def _whole(data: Any) -> int:
    return data or 0


def _fraction(data: Any) -> float:
    return 0.0 if data is None else float(data)


def _divide(x: int, y: int) -> int:
    """Division towards zero."""
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _remainder(x: int, y: int) -> int:
    """The remainder has the sign of the dividend."""
    rest = abs(x) % abs(y)
    return -rest if x < 0 else rest


_OPS: dict[str, tuple[Callable[[int, int], int], Callable[[float, float], float] | None]] = {
    "+": (lambda x, y: x + y, lambda x, y: x + y),
    "-": (lambda x, y: x - y, lambda x, y: x - y),
    "*": (lambda x, y: x * y, lambda x, y: x * y),
    "/": (_divide, lambda x, y: x / y),
    "%": (_remainder, None),
}


def minus(operand: Eval) -> Eval:
    """`-a`."""

    def compute(this: Value, env: Env) -> Value:
        value = operand(this, env)
        typ = value.type.under
        if value.data is None and t.is_number(typ):
            return value
        if typ in FLOATS:
            return Value(value.type, -value.data)
        if isinstance(typ, t.Decimal):
            return Value(value.type, value.data.copy_negate() if value.data else value.data)
        if typ in _SIGNED_FOR:
            signed = _SIGNED_FOR[typ]
            if value.data >= 1 << (_WIDTH[signed] - 1):
                return structured_error("unary '-' overflow", value)
            return Value(signed, -value.data)
        if typ in (t.INT8, t.INT16, t.INT32, t.INT64):
            if value.data == -(1 << (_WIDTH[typ] - 1)):
                return structured_error("unary '-' underflow", value)
            return Value(typ, -value.data)
        return structured_error("type incompatible with unary '-' operator", value)

    return compute
