"""Numbers out of values, as functions with numeric arguments take them: a null is 0, a text may spell a number.

Integers wrap around at 64 bits. A float without an integer (NaN, infinities, beyond 64 bits) becomes
the least int64.
"""

from __future__ import annotations

from shoal.model import types as t
from shoal.model.cast import cast_primitive
from shoal.model.values import Value

MIN_INT64 = -(2**63)


def wrap(number: int, typ: t.Type) -> int:
    """The integer as its primitive type holds it: 128 is -128 as an int8."""
    bounds: tuple[int, int] = t.INT_RANGES[typ]  # type: ignore[index]
    return (number - bounds[0]) % (bounds[1] - bounds[0] + 1) + bounds[0]


def to_int(value: Value) -> int | None:
    """An int64, or None if the value is neither a number nor the text of one."""
    value = value.under()
    number = _number(value)
    if number is None:
        return _spelled_integer(value, t.INT64)
    if isinstance(number, float):
        return int(number) if -(2.0**63) <= number < 2.0**63 else MIN_INT64
    return wrap(number, t.INT64)


def to_uint(value: Value) -> int | None:
    """A uint64, or None if the value is neither a number nor the text of one; a negative integer is None, too."""
    value = value.under()
    number = _number(value)
    if number is None:
        return _spelled_integer(value, t.UINT64)
    if isinstance(number, float):
        return int(number) % 2**64 if -(2.0**63) <= number < 2.0**64 else 2**63
    return number if number >= 0 else None


def to_float(value: Value) -> float | None:
    """A float64, or None if the value is neither a number nor the text of one."""
    value = value.under()
    number = _number(value)
    if number is not None:
        return float(number)
    if value.type is not t.STRING or value.data is None:
        return None
    cast = cast_primitive(value, t.FLOAT64)
    return cast.data if cast.type is t.FLOAT64 else None


def amount(value: Value) -> int | float:
    """The data of a number, 0 for a null."""
    return 0 if value.data is None else value.data


def _number(value: Value) -> int | float | None:
    return amount(value) if t.is_number(value.type) else None


def _spelled_integer(value: Value, to: t.Primitive) -> int | None:
    if value.type is not t.STRING or value.data is None:
        return None
    number = cast_primitive(value, to)
    return number.data if number.type is to else None
