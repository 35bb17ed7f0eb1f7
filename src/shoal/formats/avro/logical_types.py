"""Logical types of Avro: what a number, some text or some bytes stand for. An unknown one is ignored, as Avro says."""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, NamedTuple

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.decimals import format_decimal
from shoal.model.literals import DAYS
from shoal.model.zcode import Data

_MOST, _LEAST = (1 << 63) - 1, -(1 << 63)
_MOST_DIGITS = 1000
"""How many digits, or bytes, a decimal may have; no database goes as far."""


class Logical(NamedTuple):
    """What values of a type of Avro stand for."""

    type: t.Type
    convert: Callable[[Any], Data]
    """Makes data of what Avro has."""
    write: Callable[[Data], Any] | None
    """The inverse, exact or InvalidInput; None if there is none."""


def of(base: str, schema: Any) -> Logical | None:
    """The logical type of a schema that has one; `base` is the type below it."""
    make = _LOGICAL.get((base, schema.get("logicalType")))
    return None if make is None else make(schema)


# ---- numbers and bytes that stand for something


def _decimal(schema: Any) -> Logical | None:
    """A decimal; the exact text of one that has more digits than a decimal of ours may have."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision):
        return None  # what makes no sense is ignored, as Avro says
    if precision > _MOST_DIGITS:
        raise InvalidInput(f"a decimal of {precision} digits")
    is_long = precision > t.MAX_DIGITS
    typ = t.named(f"avro_decimal_{precision}_{scale}", t.STRING) if is_long else t.decimal(precision, scale)
    context, limit = Context(prec=precision), 10**precision

    def convert(data: bytes) -> Data:
        digits = int.from_bytes(data, "big", signed=True) if len(data) <= _MOST_DIGITS else None
        if digits is None or abs(digits) >= limit:
            raise InvalidInput(f"a decimal has more than its {precision} digits")
        number = Decimal(digits).scaleb(-scale, context)
        return format_decimal(number) if is_long else number

    size = schema.get("size")
    return Logical(typ, convert, _decimal_writer(precision, scale, size if isinstance(size, int) else None))


def _decimal_writer(precision: int, scale: int, size: int | None) -> Callable[[Data], bytes]:
    """Writes a number, or the text of one, as the fewest bytes that hold it, or as a fixed number of bytes."""
    context, limit = Context(prec=2 * _MOST_DIGITS), 10**precision

    def write(number: Decimal | str) -> bytes:
        if isinstance(number, str) and not _DECIMAL_TEXT.fullmatch(number):
            raise InvalidInput(f"{number[:100]!r} is not a decimal")
        scaled = Decimal(number).scaleb(scale, context)
        digits = int(scaled)
        if digits != scaled or abs(digits) >= limit:
            raise InvalidInput(f"{number} is not a decimal of {precision} digits, {scale} of them after the point")
        needed = (digits.bit_length() if digits >= 0 else (digits + 1).bit_length()) // 8 + 1
        if size is not None and needed > size:
            raise InvalidInput(f"{number} takes more than {size} bytes")
        return digits.to_bytes(needed if size is None else size, "big", signed=True)

    return write


_DECIMAL_TEXT = re.compile(r"-?\d{1,1000}(\.\d{1,1000})?", re.ASCII)


def _date(schema: Any) -> Logical:
    """A day."""
    return Logical(t.DATE, _checked_day, _same)


def _same(data: Data) -> Any:
    return data


def _checked_day(days: int) -> Data:
    if days not in DAYS:
        raise InvalidInput("a date is out of range: dates reach from year 1 to year 9999")
    return days


def _units(typ: t.Type, scale: int) -> Callable[[Any], Logical]:
    return lambda schema: Logical(typ, _scaled(scale), _unscaled(scale))


def _scaled(scale: int) -> Callable[[int], Data]:
    def convert(number: int) -> Data:
        nanoseconds = number * scale
        if not _LEAST <= nanoseconds <= _MOST:
            raise InvalidInput("a time is out of range: 64 bits of nanoseconds reach from 1677 to 2262")
        return nanoseconds

    return convert


_UNIT_NAMES = {1_000_000: "milliseconds", 1000: "microseconds", 1: "nanoseconds"}


def _unscaled(scale: int) -> Callable[[Data], Any]:
    def write(nanoseconds: int) -> int:
        number, rest = divmod(nanoseconds, scale)
        if rest:
            raise InvalidInput(f"a time is not a whole number of {_UNIT_NAMES[scale]}")
        return number

    return write


def _text_uuid(schema: Any) -> Logical:
    return Logical(t.STRING, str, _same)


def _fixed_uuid(schema: Any) -> Logical | None:
    return Logical(t.STRING, lambda data: str(uuid.UUID(bytes=data)), _uuid_bytes) if schema["size"] == 16 else None


def _uuid_bytes(text: str) -> bytes:
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        parsed = None
    if str(parsed) != text:
        raise InvalidInput(f"{text[:100]!r} is not a UUID as it is usually written")
    return parsed.bytes if parsed is not None else b""


_THREE_NUMBERS = struct.Struct("<III")


def _duration(schema: Any) -> Logical | None:
    """Months, days and milliseconds, of which none can be expressed by another."""
    parts = (("months", t.UINT32), ("days", t.UINT32), ("milliseconds", t.UINT32))
    typ = t.named("avro_duration", t.record(parts))
    return Logical(typ, _THREE_NUMBERS.unpack, _duration_bytes) if schema["size"] == 12 else None


def _duration_bytes(parts: tuple[int | None, ...]) -> bytes:
    if None in parts:
        raise InvalidInput("a part of a duration is null")
    return _THREE_NUMBERS.pack(*parts)


_LOGICAL: dict[tuple[str, Any], Callable[[Any], Logical | None]] = {
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("fixed", "duration"): _duration,
    ("fixed", "uuid"): _fixed_uuid,
    ("string", "uuid"): _text_uuid,
    ("int", "date"): _date,
    ("int", "time-millis"): _units(t.DURATION, 1_000_000),
    ("long", "time-micros"): _units(t.DURATION, 1000),
    ("long", "timestamp-millis"): _units(t.TIME, 1_000_000),
    ("long", "timestamp-micros"): _units(t.TIME, 1000),
    ("long", "timestamp-nanos"): _units(t.TIME, 1),
    ("long", "local-timestamp-millis"): _units(t.TIME, 1_000_000),
    ("long", "local-timestamp-micros"): _units(t.TIME, 1000),
    ("long", "local-timestamp-nanos"): _units(t.TIME, 1),
}
"""By the type below and the name."""
