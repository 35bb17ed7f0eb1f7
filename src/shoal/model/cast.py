"""Casting to primitive types. A cast never raises: what cannot be cast becomes an error value around it.

Texts are read as Go's standard library reads them, since the language took its meaning from there:
`int64("+5")` is fine and `uint64("+5")` is not, `bool("T")` is true, `float64("infinity")` is a number.
Times are read from any common layout; where month and day could be either, the month comes first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

from shoal.errors import InvalidInput
from shoal.lazy import lazy_pattern
from shoal.model import types as t
from shoal.model.decimals import format_decimal, of_number, parse_decimal
from shoal.model.literals import (
    DAY,
    SECOND,
    parse_date,
    parse_duration,
    parse_ip,
    parse_net,
    parse_time,
    quote,
    round_float,
)
from shoal.model.parse import parse_value
from shoal.model.text import format_type, format_value
from shoal.model.values import Value, is_error, structured_error, text_error
from shoal.model.zcode import Data, encode


class _Refusal(InvalidInput):
    """A cast that fails with a message of its own."""


def is_castable(to: t.Type) -> bool:
    """Whether `cast_primitive` knows this target: any primitive but null, under names or not."""
    return to.under in _CASTS or isinstance(to.under, t.Decimal)


def cast_primitive(value: Value, to: t.Type) -> Value:
    """`value` as a primitive type, which may have a name. A union is not looked into; `shape.cast` does that."""
    under = to.under
    if value.data is None or value.type.under is under:
        return Value(to, value.data)
    try:
        return Value(to, _to_decimal(value, under) if isinstance(under, t.Decimal) else _CASTS[under](value))
    except _Refusal as e:
        return failed_cast(str(e), value)
    except (InvalidInput, ValueError, OverflowError, KeyError):
        return cannot_cast(value, under)


def cast_named(value: Value, name: str) -> Value:
    """`value` with its type under a name of its own; a name it had before is gone."""
    if is_error(value):
        return value
    if name in t.PRIMITIVES:
        return text_error(f"bad type name {quote(name)}: primitive type name")
    try:
        return Value(t.named(name, value.type.under), value.data)
    except InvalidInput as e:
        return text_error(str(e))


def cannot_cast(value: Value, to: t.Type) -> Value:
    """The error for a value that has no meaning as `to`."""
    return failed_cast(f"cannot cast to {to.name if isinstance(to, t.Primitive) else format_type(to)}", value)


def failed_cast(message: str, value: Value) -> Value:
    """An error around `value`, or without it where it nests too deep to be put into anything."""
    try:
        return structured_error(message, value)
    except InvalidInput:
        return text_error(message)


# ---- numbers

_SIGNED_TEXT = lazy_pattern(r"[+-]?[0-9]+")
_UNSIGNED_TEXT = lazy_pattern(r"[0-9]+")
_DECIMAL_TEXT = lazy_pattern(r"[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?")
_HEX_TEXT = lazy_pattern(r"[+-]?0[xX](?=\.?[0-9a-fA-F])[0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+")
_SPECIAL_TEXT = lazy_pattern(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)


def _number(value: Value) -> int | float | Decimal:
    """The amount of a number, a duration or a time; anything else is refused."""
    if not t.is_number(value.type):
        raise InvalidInput("not a number")
    return value.data  # type: ignore[no-any-return]


def _whole(value: Value, text: re.Pattern[str] = _SIGNED_TEXT) -> int:
    """A number without its fraction, or the number that a decimal text spells. NaN and infinities raise."""
    if value.type.under is not t.STRING:
        return int(_number(value))
    if not text.fullmatch(value.data):
        raise InvalidInput("not an integer")
    return int(value.data)


def _in_range(n: int, to: t.Primitive) -> int:
    low, high = t.INT_RANGES[to]
    if not low <= n <= high:
        raise InvalidInput("integer out of range")
    return n


def _integer_cast(to: t.Primitive) -> Callable[[Value], Data]:
    text = _UNSIGNED_TEXT if to in t.UNSIGNED else _SIGNED_TEXT
    return lambda value: _in_range(_whole(value, text), to)


def _float_cast(*sizes: int) -> Callable[[Value], Data]:
    def cast(value: Value) -> float:
        number = _go_float(value.data) if value.type.under is t.STRING else float(_number(value))
        for size in sizes:
            number = round_float(number, size)
        return number

    return cast


def _go_float(text: str) -> float:
    """A float as Go spells it: decimal or hexadecimal, `_` between digits, NaN and infinities in any case."""
    if _SPECIAL_TEXT.fullmatch(text):
        return float(text)
    if _HEX_TEXT.fullmatch(text):
        return float.fromhex(text)
    if not _DECIMAL_TEXT.fullmatch(text):
        raise InvalidInput(f"invalid floating point: {quote(text)}")
    number = float(text)
    if math.isinf(number):
        raise InvalidInput(f"floating point out of range: {quote(text)}")
    return number


_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _to_bool(value: Value) -> bool:
    if value.type.under is t.STRING:
        return _BOOLS[value.data]
    return not -1 < _number(value) < 1  # a fraction counts as 0, a NaN does not


# ---- durations and times


def _to_duration(value: Value) -> int:
    if value.type.under is not t.STRING:
        return _in_range(_whole(value), t.DURATION)
    try:
        return parse_duration(value.data)
    except InvalidInput:
        return _in_range(int(_go_float(value.data)), t.DURATION)


def _to_decimal(value: Value, to: t.Decimal) -> Decimal:
    if value.type.under is t.STRING:
        return parse_decimal(value.data.strip(), to)
    return of_number(_number(value), to)


def _to_date(value: Value) -> int:
    """The day of a time in UTC, or the day that a text names: by itself, or with a time in any common layout."""
    under = value.type.under
    if under is t.STRING:
        try:
            return parse_date(value.data)
        except InvalidInput:
            return parse_any_time(value.data) // DAY
    if under is not t.TIME:
        raise InvalidInput("not a date")
    return int(value.data // DAY)


def _to_time(value: Value) -> int:
    if value.type.under is t.DATE:
        return _in_range(value.data * DAY, t.TIME)
    if value.type.under is t.STRING:
        try:
            return parse_any_time(value.data)
        except InvalidInput:
            return _in_range(int(_go_float(value.data)), t.TIME)
    number = _number(value)
    try:
        return _in_range(int(number), t.TIME)
    except (InvalidInput, ValueError, OverflowError):
        raise _Refusal("cannot cast to time: coerce to int failed") from None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIX_UNITS = {10: SECOND, 13: 1_000_000, 16: 1_000, 19: 1}
"""Nanoseconds in the unit of a Unix time, by its number of digits."""
_LONGEST_TIME = 100

_MONTHS = {"janfebmaraprmayjunjulaugsepoctnovdec"[3 * i : 3 * i + 3]: i + 1 for i in range(12)}
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t|tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_DAY = r"(?P<d>\d{1,2})"
_NTH_DAY = _DAY + "(?:st|nd|rd|th)?"
_YEAR = r"(?P<y>\d{4}|\d\d)"
_CLOCK = r"(?P<h>\d{1,2}):(?P<m>\d{1,2})(?::(?P<s>\d{1,2})(?:[.,:](?P<frac>\d+))?)?(?: ?(?P<half>[ap]m))?"
_ZONE = (
    r"(?: ?(?:z|(?P<zone>(?-i:[A-Z]{3,5}))?(?P<offset>[+-]\d\d(?::?\d\d)?)?))"
    r"(?: (?:(?-i:[A-Z]{3,5})|[+-]\d\d(?:\d\d)?|\([^()]*\)))?(?: m=[+-][\d.]+)?"
)
_TAIL = rf"(?:(?:t|,? +(?:at )?){_CLOCK})?{_ZONE}"
_LAYOUTS = [
    lazy_pattern(layout, re.IGNORECASE | re.ASCII)
    for layout in (
        rf"(?P<y>\d{{4}})(?P<sep>[-/.:])(?P<mo>\d{{1,2}})(?P=sep){_DAY}{_TAIL}",
        r"(?P<y>\d{4})[-.](?P<mo>\d{1,2})",
        r"(?P<y>\d{4})",
        rf"(?P<mo>\d{{1,2}})(?P<sep>[/.]){_DAY}(?P=sep){_YEAR}{_TAIL}",
        rf"(?:{_WEEKDAY},? )?{_NTH_DAY}[- ]{_MONTH}[- ]{_YEAR}{_TAIL}",
        rf"{_DAY}/{_MONTH}/{_YEAR}(?:[: ]{_CLOCK})?{_ZONE}",
        rf"(?P<y>\d{{4}})-{_MONTH}-{_DAY}{_TAIL}",
        rf"(?:{_WEEKDAY},? )?{_MONTH}\.? +{_NTH_DAY},? +'?{_YEAR}{_TAIL}",
        rf"{_WEEKDAY},? {_MONTH} +{_DAY} {_CLOCK}{_ZONE} (?P<y>\d{{4}})",
        rf"(?P<y>\d{{4}})年(?P<mo>\d{{1,2}})月{_DAY}日{_TAIL}",
        r"(?P<y>\d{4})(?P<mo>\d\d)(?P<d>\d\d)(?:(?P<h>\d\d)(?P<m>\d\d)(?P<s>\d\d))?",
        rf"(?P<y>\d\d)(?P<mo>\d\d)(?P<d>\d\d) {_CLOCK}",
    )
]


def parse_any_time(text: str) -> int:
    """Nanoseconds since 1970 of a time in any common layout; without a zone it is UTC."""
    try:
        return parse_time(text)
    except InvalidInput:
        pass
    if len(text) in _UNIX_UNITS and _UNSIGNED_TEXT.fullmatch(text):
        return _in_range(int(text) * _UNIX_UNITS[len(text)], t.TIME)
    for layout in _LAYOUTS if len(text) <= _LONGEST_TIME else ():
        if m := layout.fullmatch(text):
            return _instant({k: v for k, v in m.groupdict().items() if v}, text)
    raise InvalidInput(f"invalid time: {quote(text)}")


def _instant(parts: dict[str, str], text: str) -> int:
    year = int(parts["y"])
    if len(parts["y"]) == 2:
        year += 1900 if year >= 69 else 2000
    month = _MONTHS[parts["month"][:3].lower()] if "month" in parts else int(parts.get("mo", "1"))
    day, minute, second = (int(parts.get(k, default)) for k, default in (("d", "1"), ("m", "0"), ("s", "0")))
    try:
        since = datetime(year, month, day, _hour(parts), minute, second, tzinfo=UTC) - _EPOCH
        seconds = since.days * 86400 + since.seconds - _offset(parts)
        return _in_range(seconds * SECOND + int(parts.get("frac", "")[:9].ljust(9, "0")), t.TIME)
    except ValueError as e:
        raise InvalidInput(f"invalid time: {quote(text)} ({e})") from e


def _hour(parts: dict[str, str]) -> int:
    hour = int(parts.get("h", "0"))
    if "half" not in parts:
        return hour
    if hour > 12:
        raise ValueError("hour out of range")
    return hour % 12 + (12 if parts["half"][0] in "pP" else 0)


def _offset(parts: dict[str, str]) -> int:
    """Seconds east of UTC. A zone's name counts for nothing, but for UTC, which outdoes an offset beside it."""
    offset = parts.get("offset", "+00").replace(":", "")
    hours, minutes = int(offset[1:3]), int(offset[3:] or "0")
    if hours > 24 or minutes > 59:
        raise ValueError("zone out of range")
    seconds = 0 if parts.get("zone") == "UTC" else hours * 3600 + minutes * 60
    return -seconds if offset[0] == "-" else seconds


# ---- the others


def _to_string(value: Value) -> str:
    """Text of its own for bytes and symbols, the canonical text for all else, decorators included."""
    if value.type.under is t.BYTES:
        try:
            return str(value.data, "utf-8")
        except UnicodeDecodeError:
            raise _Refusal("cannot cast to string: invalid UTF-8") from None
    if isinstance(value.type, t.Enum):
        return value.type.symbols[value.data]
    if isinstance(value.type.under, t.Decimal):
        return format_decimal(value.data)
    return format_value(value)


def _from_string(parse: Callable[[str], Data]) -> Callable[[Value], Data]:
    def cast(value: Value) -> Data:
        if value.type.under is not t.STRING:
            raise InvalidInput("not a string")
        return parse(value.data)

    return cast


def _parse_type_value(text: str) -> t.Type:
    try:
        value = parse_value(text)
    except InvalidInput as e:
        raise _Refusal(str(e)) from None
    if value.type.under is not t.TYPE or value.data is None:
        raise InvalidInput("not a type value")
    return value.data  # type: ignore[no-any-return]


_CASTS: dict[t.Type, Callable[[Value], Data]] = {
    **{to: _integer_cast(to) for to in (*t.UNSIGNED, *t.SIGNED)},
    t.FLOAT16: _float_cast(4, 2),  # by way of float32, which may round twice
    t.FLOAT32: _float_cast(4),
    t.FLOAT64: _float_cast(),
    t.BOOL: _to_bool,
    t.DURATION: _to_duration,
    t.TIME: _to_time,
    t.DATE: _to_date,
    t.STRING: _to_string,
    t.BYTES: lambda value: encode(value.type, value.data),
    t.IP: _from_string(parse_ip),
    t.NET: _from_string(parse_net),
    t.TYPE: _from_string(_parse_type_value),
}
