"""Functions over numbers. A null of a number type counts as 0; durations and times are integers, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from shoal.engines.interp.functions.arguments import amount, failure, to_float, to_int, to_uint, wrap
from shoal.model import types as t
from shoal.model.decimals import EXACT
from shoal.model.values import Value


def absolute(value: Value) -> Value:
    """`abs(-1)` is 1, `abs(1.5(float32))` is `1.5(float32)`."""
    under = value.type.under
    if under in t.FLOATS:
        return Value(value.type, math.fabs(amount(value)))
    if under in t.UNSIGNED:
        return value
    if isinstance(under, t.Decimal):
        return Value(value.type, None if value.data is None else value.data.copy_abs())
    if under in t.INT_RANGES:
        return Value(value.type, wrap(int(abs(amount(value))), under))
    return failure("abs: not a number", value)


def ceil(value: Value) -> Value:
    """`ceil(1.5)` is `2.`; integers stay as they are."""
    return _rounded("ceil", value, math.ceil)


def floor(value: Value) -> Value:
    """`floor(1.5)` is `1.`; integers stay as they are."""
    return _rounded("floor", value, math.floor)


def round_half_away(value: Value) -> Value:
    """`round(-1.5)` is `-2.`; integers stay as they are."""
    return _rounded("round", value, _round)


def _round(number: float) -> int:
    whole = math.trunc(number)
    return whole + (1 if number > 0 else -1) if abs(number - whole) >= 0.5 else whole


def _rounded(name: str, value: Value, rule: Callable[[float], int]) -> Value:
    under = value.type.under
    if under in t.INT_RANGES:
        return value
    if isinstance(under, t.Decimal):
        return _rounded_decimal(name, value, under)
    if under not in t.FLOATS:
        return failure(f"{name}: not a number", value)
    number = float(amount(value))
    return Value(value.type, math.copysign(rule(number), number) if math.isfinite(number) else number)


_ROUNDING = {"ceil": ROUND_CEILING, "floor": ROUND_FLOOR, "round": ROUND_HALF_UP}


def _rounded_decimal(name: str, value: Value, typ: t.Decimal) -> Value:
    """A whole decimal, with one more digit where rounding may carry into it."""
    whole = t.decimal(min(t.MAX_DIGITS, typ.precision - typ.scale + 1), 0)
    return Value(whole, None if value.data is None else value.data.quantize(Decimal(1), _ROUNDING[name], EXACT))


def log(value: Value) -> Value:
    """The natural logarithm: `log(1)` is `0.`."""
    number = to_float(value)
    if number is None:
        return failure("log: not a number", value)
    if number <= 0:
        return failure("log: illegal argument", value)
    return Value(t.FLOAT64, math.log(number))


def sqrt(value: Value) -> Value:
    """The square root; NaN below zero."""
    number = to_float(value)
    if number is None:
        return failure("sqrt: not a number", value)
    return Value(t.FLOAT64, math.nan if number < 0 else math.sqrt(number))


def power(base: Value, exponent: Value) -> Value:
    """`pow(10, 2)` is `100.`; what is too large is infinite, what is not real is NaN."""
    x, y = to_float(base), to_float(exponent)
    if x is None or y is None:
        return failure("pow: not a number", base if x is None else exponent)
    try:
        return Value(t.FLOAT64, math.pow(x, y))
    except OverflowError:
        pass
    except ValueError:
        if x != 0:
            return Value(t.FLOAT64, math.nan)
    is_odd = y.is_integer() and y % 2 == 1
    return Value(t.FLOAT64, math.copysign(math.inf, x) if is_odd else math.inf)


def minimum(first: Value, *others: Value) -> Value:
    """The least: `min(2, 1.9)` is 1, for the first argument's kind of number counts for all."""
    return _reduced("min", first, others, lambda a, b: a < b)


def maximum(first: Value, *others: Value) -> Value:
    """The greatest: `max(1., 2)` is `2.`, for the first argument's kind of number counts for all."""
    return _reduced("max", first, others, lambda a, b: a > b)


_Number = int | float


def _reduced(name: str, first: Value, others: tuple[Value, ...], beats: Callable[[_Number, _Number], bool]) -> Value:
    coerce, typ = _kind_of_number(first.type.under)
    if coerce is None:
        return failure(f"{name}: not a number", first)
    best = amount(first)
    for other in others:
        number = coerce(other)
        if number is None:
            return failure(f"{name}: not a number", other)
        best = best if beats(best, number) else number
    return Value(typ, best if typ is not t.FLOAT64 else float(best))


def _kind_of_number(under: t.Type) -> tuple[Callable[[Value], _Number | None] | None, t.Type]:
    if under in t.UNSIGNED:
        return to_uint, t.UINT64
    if under in t.INT_RANGES:
        return to_int, t.INT64
    return (to_float if under in t.FLOATS else None), t.FLOAT64
