"""Arguments of functions: their conversion to numbers, and the error values for those that do not fit."""

from __future__ import annotations

from shoal.model import types as t
from shoal.model.cast import cast_primitive, failed_cast
from shoal.model.values import Value, text_error

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


BAD_TYPE_VALUE = text_error("bad type value encoding")
"""What a null of type `type` gives where a type is needed."""


def failure(message: str, on: Value) -> Value:
    """`error({message,on})`, or the bare message where the value nests too deep to be put into anything."""
    return failed_cast(message, on)


def first_non_string(*values: Value) -> Value | None:
    """The first of the values that is not a string, under names or not; a null string is one."""
    return next((v for v in values if v.type.under is not t.STRING), None)


_SHORT_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES = {**_SHORT_ESCAPES, '"': '\\"', "\\": "\\\\"}


def quoted(text: str) -> str:
    r"""A text as messages quote it: `"a\x01é"`."""
    return f'"{"".join(_ESCAPES.get(c) or (c if c.isprintable() else _code(c)) for c in text)}"'


def _code(c: str) -> str:
    code = ord(c)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
