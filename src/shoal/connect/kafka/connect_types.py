"""What types of Kafka Connect and Debezium stand for: the one table, for schemas in JSON and in Avro.

A type has a base, such as `int64`, and may have a name, such as `io.debezium.time.MicroTimestamp`, that says what the
number means. A name that is not in the table changes nothing: the value has the type of its base. So have, on purpose:

    io.debezium.data.Enum, Uuid, Json, Xml, Ltree        string: the symbols of an enum of a database change with it
    io.debezium.data.geometry.*                          record of x, y, wkb and srid
    io.debezium.time.ZonedTime, Interval, Iso*           string: no type of ours has a zone, or months
    io.debezium.time.Year                                int32

A value that its type cannot hold is not damage: 9999-12-31 stands for "for ever" in many databases, and is beyond a
time of 64 bits. It keeps the type of its base under the name, such as `253402300799000000(=io.debezium...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from itertools import count
from typing import Any

from shoal.errors import InvalidInput
from shoal.formats.avro import logical_types
from shoal.model import types as t
from shoal.model.decimals import format_decimal
from shoal.model.literals import DAYS, parse_time
from shoal.model.node import frozen
from shoal.model.zcode import Data, normal_set

Parameters = Mapping[str, Any]
"""Texts that belong to a name, such as the scale of a decimal."""
_INT64 = range(-(1 << 63), 1 << 63)
_LONGEST_DECIMAL = 1000
"""Bytes of the digits of a decimal; no database goes as far."""
DECIMAL = "org.apache.kafka.connect.data.Decimal"


class Unfit(InvalidInput):
    """A value that is right, but that its type cannot hold."""


@frozen
class Meaning:
    """What values of a base type stand for."""

    type: t.Type
    convert: Callable[[Any], Data]
    """Makes data of a value that fits the base type; Unfit if the type cannot hold it."""
    unfit_type: t.Type
    """The type of values that `type` cannot hold."""
    convert_unfit: Callable[[Any], Data]


def meaning(base: str, name: str | None, parameters: Parameters) -> Meaning | None:
    """What a type stands for; None if the name changes nothing."""
    make = None if name is None else _MEANINGS.get((base, name))
    return None if make is None else make(name or "", parameters)


# ---- what the names mean


def _of(base: t.Type, typ: t.Type, convert: Callable[[Any], Data]) -> Callable[[str, Parameters], Meaning]:
    def make(name: str, parameters: Parameters) -> Meaning:
        return Meaning(typ, convert, t.named(name, base), _same)

    return make


def _same(item: Any) -> Data:
    return item


def _nanoseconds(unit: int) -> Callable[[int], Data]:
    def convert(number: int) -> Data:
        nanoseconds = number * unit
        if nanoseconds not in _INT64:
            raise Unfit("64 bits of nanoseconds cannot hold it")
        return nanoseconds

    return convert


def _days(number: int) -> Data:
    if number not in DAYS:
        raise Unfit("dates reach from year 1 to year 9999")
    return number


def _zoned_timestamp(text: str) -> Data:
    try:
        return parse_time(text)
    except InvalidInput as e:
        raise Unfit(str(e)) from None


def _decimal(name: str, parameters: Parameters) -> Meaning | None:
    """A decimal; the exact text of one that has more digits than a decimal of ours may have."""
    scale = _integer(parameters.get("scale", "0"))
    if scale is None or abs(scale) > _LONGEST_DECIMAL:
        return None
    text = t.named(name, t.STRING)
    if scale > t.MAX_DIGITS:
        return Meaning(text, _decimal_text(scale), text, _decimal_text(scale))
    typ = t.decimal(_precision(parameters, scale), max(scale, 0))
    most, unit, zero = 10**typ.precision, Decimal((0, (1,), -typ.scale)), Decimal((0, (0,), -typ.scale))

    def convert(data: bytes | Decimal) -> Data:
        number = _number(data, scale)
        scaled = number.quantize(unit, context=_EXACT)
        if scaled != number:
            raise InvalidInput(f"{format_decimal(number)} has more than {scale} digits after the point")
        if abs(scaled.scaleb(typ.scale, _EXACT)) >= most:
            raise Unfit(f"{typ.name} cannot hold it")
        return scaled or zero  # there is one zero

    return Meaning(typ, convert, text, _decimal_text(scale))


def _precision(parameters: Parameters, scale: int) -> int:
    """How many digits the decimals have, as far as that is known and ours can have as many."""
    precision = _integer(parameters.get("connect.decimal.precision")) if scale >= 0 else None
    return t.MAX_DIGITS if precision is None else min(max(precision, scale, 1), t.MAX_DIGITS)


_EXACT = Context(prec=4 * _LONGEST_DECIMAL)


def _integer(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def _number(data: bytes | Decimal, scale: int) -> Decimal:
    """The number in the digits of a decimal, or one that was a number before."""
    if isinstance(data, Decimal):
        return data
    if len(data) > _LONGEST_DECIMAL:
        raise InvalidInput(f"a decimal of {len(data)} bytes")
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)


def _decimal_text(scale: int) -> Callable[[Any], Data]:
    return lambda data: format_decimal(_number(data, scale))


def _variable_scale_decimal(name: str, parameters: Parameters) -> Meaning:
    """Each value has a scale of its own, so it is exact text."""

    def convert(fields: Mapping[str, Any]) -> Data:
        scale = fields["scale"]
        if not -_LONGEST_DECIMAL <= scale <= _LONGEST_DECIMAL:
            raise InvalidInput(f"a decimal with scale {scale}")
        return format_decimal(_number(fields["value"], scale))

    typ = t.named(name, t.STRING)
    return Meaning(typ, convert, typ, convert)


def _enum_set(name: str, parameters: Parameters) -> Meaning:
    """The members of a set of a database, which no comma is in."""
    typ = t.set_of(t.STRING)

    def convert(text: str) -> Data:
        return normal_set(t.STRING, text.split(",") if text else [])

    return Meaning(typ, convert, typ, convert)


_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_MILLI, _MICRO, _NANO = 1_000_000, 1000, 1
_MEANINGS: dict[tuple[str, str], Callable[[str, Parameters], Meaning | None]] = {
    ("int32", _DEBEZIUM + "Date"): _of(t.INT32, t.DATE, _days),
    ("int32", _CONNECT + "Date"): _of(t.INT32, t.DATE, _days),
    ("int32", _DEBEZIUM + "Time"): _of(t.INT32, t.DURATION, _nanoseconds(_MILLI)),
    ("int32", _CONNECT + "Time"): _of(t.INT32, t.DURATION, _nanoseconds(_MILLI)),
    ("int64", _DEBEZIUM + "MicroTime"): _of(t.INT64, t.DURATION, _nanoseconds(_MICRO)),
    ("int64", _DEBEZIUM + "NanoTime"): _of(t.INT64, t.DURATION, _nanoseconds(_NANO)),
    ("int64", _DEBEZIUM + "MicroDuration"): _of(t.INT64, t.DURATION, _nanoseconds(_MICRO)),
    ("int64", _DEBEZIUM + "Timestamp"): _of(t.INT64, t.TIME, _nanoseconds(_MILLI)),
    ("int64", _CONNECT + "Timestamp"): _of(t.INT64, t.TIME, _nanoseconds(_MILLI)),
    ("int64", _DEBEZIUM + "MicroTimestamp"): _of(t.INT64, t.TIME, _nanoseconds(_MICRO)),
    ("int64", _DEBEZIUM + "NanoTimestamp"): _of(t.INT64, t.TIME, _nanoseconds(_NANO)),
    ("string", _DEBEZIUM + "ZonedTimestamp"): _of(t.STRING, t.TIME, _zoned_timestamp),
    ("bytes", DECIMAL): _decimal,
    ("struct", "io.debezium.data.VariableScaleDecimal"): _variable_scale_decimal,
    ("string", "io.debezium.data.EnumSet"): _enum_set,
}
"""By base and name."""


# ---- in Avro

_BASES: dict[str, tuple[str, t.Type]] = {
    "int": ("int32", t.INT32),
    "long": ("int64", t.INT64),
    "string": ("string", t.STRING),
    "bytes": ("bytes", t.BYTES),
}


def avro_type(base: str, schema: Any) -> logical_types.Logical | None:
    """What a type of Avro stands for: by its logical type, or by the name that Kafka Connect gives it."""
    logical = logical_types.of(base, schema)
    if logical is not None or base not in _BASES:
        return logical
    named = meaning(_BASES[base][0], schema.get("connect.name"), schema.get("connect.parameters") or {})
    return None if named is None else logical_types.Logical(named.type, named.convert, None)


class UnfitLeaf(Exception):
    """A time that 64 bits of nanoseconds cannot hold, or a date beyond the calendar."""

    def __init__(self, leaf: int) -> None:
        super().__init__(leaf)
        self.leaf = leaf


def keeping(unfit: frozenset[int]) -> Callable[[str, Any], logical_types.Logical | None]:
    """Like `avro_type`, but the leaves with these numbers keep their base type; UnfitLeaf tells which others should."""
    numbers = count()

    def extension(base: str, schema: Any) -> logical_types.Logical | None:
        leaf, logical = next(numbers), avro_type(base, schema)
        if logical is None or logical.type not in (t.TIME, t.DATE, t.DURATION):
            return logical
        if leaf in unfit:
            name = schema.get("connect.name") or f"avro_{schema['logicalType'].replace('-', '_')}"
            return logical_types.Logical(t.named(name, _BASES[base][1]), _same, None)

        def convert(item: Any) -> Data:
            try:
                return logical.convert(item)
            except InvalidInput:
                raise UnfitLeaf(leaf) from None

        return logical_types.Logical(logical.type, convert, None)

    return extension
