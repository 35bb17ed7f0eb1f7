"""Logical types of Avro: what a number, some text or some bytes stand for. An unknown one is ignored, as Avro says."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.decimals import format_decimal
from shoal.model.literals import DAYS
from shoal.model.zcode import Data

Logical = tuple[t.Type, Callable[[Any], Data]]
"""A type, and what makes data of it."""
_MOST, _LEAST = (1 << 63) - 1, -(1 << 63)
_MOST_DIGITS = 1000
"""How many digits, or bytes, a decimal may have; no database goes as far."""


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

    return typ, convert


def _date(schema: Any) -> Logical:
    """A day."""
    return t.DATE, _checked_day


def _checked_day(days: int) -> Data:
    if days not in DAYS:
        raise InvalidInput("a date is out of range: dates reach from year 1 to year 9999")
    return days


def _units(typ: t.Type, scale: int) -> Callable[[Any], Logical]:
    return lambda schema: (typ, _scaled(scale))


def _scaled(scale: int) -> Callable[[int], Data]:
    def convert(number: int) -> Data:
        nanoseconds = number * scale
        if not _LEAST <= nanoseconds <= _MOST:
            raise InvalidInput("a time is out of range: 64 bits of nanoseconds reach from 1677 to 2262")
        return nanoseconds

    return convert


def _text_uuid(schema: Any) -> Logical:
    return t.STRING, str


def _fixed_uuid(schema: Any) -> Logical | None:
    return (t.STRING, lambda data: str(uuid.UUID(bytes=data))) if schema["size"] == 16 else None


def _duration(schema: Any) -> Logical | None:
    """Months, days and milliseconds, of which none can be expressed by another."""
    parts = (("months", t.UINT32), ("days", t.UINT32), ("milliseconds", t.UINT32))
    typ = t.named("avro_duration", t.record(parts))
    return (typ, struct.Struct("<III").unpack) if schema["size"] == 12 else None


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
