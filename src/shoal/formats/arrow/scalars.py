"""Arrow columns of values without parts. With the types of Zed, other units than the nanosecond are named types.

A time that does not fit 64 bits of nanoseconds is refused: it would wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.arrow.intervals import DAY_TIME, MONTHS
from shoal.formats.columns.physical import arrow_type, list_array
from shoal.model import types as t
from shoal.model.literals import DAYS

Numbers = np.ndarray[Any, Any]


class Column(NamedTuple):
    """Values of one type, in its physical form."""

    type: t.Type
    array: pa.Array


Convert = Callable[[Any, pa.Array], Column]
"""Makes a Zed column of an Arrow type and an array of it."""


def _as_is(typ: t.Type) -> Convert:
    return lambda _, array: Column(typ, array)


def _cast(typ: t.Type) -> Convert:
    return lambda _, array: Column(typ, array.cast(arrow_type(typ)))


def _view(typ: t.Type) -> Convert:
    """Strings that lie anywhere. pyarrow follows even the views of nulls, which nobody has checked."""

    def convert_views(_: Any, array: pa.Array) -> Column:
        if not array.null_count:
            return Column(typ, array.cast(arrow_type(typ)))
        views = items(array, np.dtype(("<u8", 2))).copy()
        views[array.is_null().to_numpy(False)] = 0
        buffers = [None, pa.py_buffer(views), *array.buffers()[2:]]
        texts = pa.Array.from_buffers(array.type, len(array), buffers).cast(arrow_type(typ))
        return Column(typ, pc.if_else(array.is_valid(), texts, None))

    return convert_views


def _fixed_size_binary(typ: Any, array: pa.Array) -> Column:
    return Column(t.named(f"arrow_fixed_size_binary_{typ.byte_width}", t.BYTES), array.cast(pa.binary()))


# ---- times and durations

SCALES = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
"""Nanoseconds of Arrow's units."""
DAY = 86_400 * SCALES["s"]


def _instants(prefix: str, typ: t.Type) -> Convert:
    """Times or durations in a unit. Zed's own is the nanosecond, which needs no name but for a time of day."""

    def convert_units(arrow: Any, array: pa.Array) -> Column:
        unit: str = arrow.unit
        plain = unit == "ns" and not prefix.startswith("arrow_time64")
        return Column(typ if plain else t.named(f"{prefix}_{unit}", typ), _nanoseconds(arrow, array, SCALES[unit]))

    return convert_units


def _dates(name: str, scale: int) -> Convert:
    return lambda typ, array: Column(t.named(name, t.TIME), _nanoseconds(typ, array, scale))


def _nanoseconds(typ: Any, array: pa.Array, scale: int) -> pa.Array:
    ints = array.view(pa.int32() if typ.bit_width == 32 else pa.int64()).cast(pa.int64())
    try:
        return pc.multiply_checked(ints, pa.scalar(scale, pa.int64()))
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid(f"{typ} is out of range: 64 bits of nanoseconds reach from 1677 to 2262") from None


# ---- numbers in parts


def items(array: pa.Array, dtype: Any, buffer: int = 1) -> Numbers:
    """What a buffer holds for each element of the array."""
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[buffer], dtype, array.offset + len(array))[array.offset :]


def null_mask(array: pa.Array) -> pa.Array | None:
    """Where the nulls are, if there are any."""
    return array.is_null() if array.null_count else None


def _record_of(name: str, fields: tuple[tuple[str, t.Type], ...], dtype: list[tuple[str, str]]) -> Convert:
    """Numbers of a fixed layout, as a named record of its parts."""

    def convert_parts(_: Any, array: pa.Array) -> Column:
        typ = t.named(name, t.record(fields))
        raw, mask = items(array, np.dtype(dtype)), null_mask(array)
        absent = None if mask is None else mask.to_numpy(zero_copy_only=False)
        # The parts are read in their own type, then cast: milliseconds below zero do not fit Zed's uint32.
        parts = [pa.array(raw[n].copy(), mask=absent).cast(arrow_type(part)) for n, part in fields]
        return Column(typ, pa.StructArray.from_arrays(parts, fields=list(arrow_type(typ)), mask=mask))

    return convert_parts


def decimal_name(bits: int, typ: Any) -> str:
    """The name of a decimal type. Its precision and scale are part of it, but for the plain one: whole numbers."""
    plain = (typ.precision, typ.scale) == ({128: 38, 256: 76}[bits], 0)
    return f"arrow_decimal{bits}" if plain else f"arrow_decimal{bits}_{typ.precision}_{typ.scale}"


def _decimal128(typ: Any, array: pa.Array) -> Column:
    parts = (("high", t.INT64), ("low", t.UINT64))
    return _record_of(decimal_name(128, typ), parts, [("low", "<u8"), ("high", "<i8")])(typ, array)


def _small_decimal(typ: Any, array: pa.Array) -> Column:
    wide = pa.decimal128(typ.precision, typ.scale)
    return _decimal128(wide, array.cast(wide))


def _decimal256(decimal: Any, array: pa.Array) -> Column:
    typ = t.named(decimal_name(256, decimal), t.array(t.UINT64))
    words = pa.array(items(array, np.dtype(("<u8", 4))).reshape(-1))
    return Column(typ, list_array(arrow_type(typ), np.full(len(array), 4), words, null_mask(array)))


SCALARS: dict[int, Convert] = {
    pa.lib.Type_NA: lambda typ, array: Column(t.NULL, pa.nulls(len(array), arrow_type(t.NULL))),
    pa.lib.Type_BOOL: _as_is(t.BOOL),
    pa.lib.Type_UINT8: _as_is(t.UINT8),
    pa.lib.Type_UINT16: _as_is(t.UINT16),
    pa.lib.Type_UINT32: _as_is(t.UINT32),
    pa.lib.Type_UINT64: _as_is(t.UINT64),
    pa.lib.Type_INT8: _as_is(t.INT8),
    pa.lib.Type_INT16: _as_is(t.INT16),
    pa.lib.Type_INT32: _as_is(t.INT32),
    pa.lib.Type_INT64: _as_is(t.INT64),
    pa.lib.Type_HALF_FLOAT: _cast(t.FLOAT16),
    pa.lib.Type_FLOAT: _as_is(t.FLOAT32),
    pa.lib.Type_DOUBLE: _as_is(t.FLOAT64),
    pa.lib.Type_STRING: _as_is(t.STRING),
    pa.lib.Type_STRING_VIEW: _view(t.STRING),
    pa.lib.Type_LARGE_STRING: _cast(t.named("arrow_large_string", t.STRING)),
    pa.lib.Type_BINARY: _as_is(t.BYTES),
    pa.lib.Type_BINARY_VIEW: _view(t.BYTES),
    pa.lib.Type_LARGE_BINARY: _cast(t.named("arrow_large_binary", t.BYTES)),
    pa.lib.Type_FIXED_SIZE_BINARY: _fixed_size_binary,
    pa.lib.Type_DATE32: _dates("arrow_date32", DAY),
    pa.lib.Type_DATE64: _dates("arrow_date64", SCALES["ms"]),
    pa.lib.Type_TIMESTAMP: _instants("arrow_timestamp", t.TIME),
    pa.lib.Type_TIME32: _instants("arrow_time32", t.TIME),
    pa.lib.Type_TIME64: _instants("arrow_time64", t.TIME),
    pa.lib.Type_DURATION: _instants("arrow_duration", t.DURATION),
    MONTHS.id: _as_is(t.named("arrow_month_interval", t.INT32)),
    DAY_TIME.id: _record_of(
        "arrow_day_time_interval",
        (("days", t.INT32), ("milliseconds", t.UINT32)),
        [("days", "<i4"), ("milliseconds", "<i4")],
    ),
    pa.lib.Type_INTERVAL_MONTH_DAY_NANO: _record_of(
        "arrow_month_day_nano_interval",
        (("month", t.INT32), ("day", t.INT32), ("nanoseconds", t.INT64)),
        [("month", "<i4"), ("day", "<i4"), ("nanoseconds", "<i8")],
    ),
    pa.lib.Type_DECIMAL32: _small_decimal,
    pa.lib.Type_DECIMAL64: _small_decimal,
    pa.lib.Type_DECIMAL128: _decimal128,
    pa.lib.Type_DECIMAL256: _decimal256,
}


# ---- plain types


def _nameless(convert: Convert) -> Convert:
    """Drops the name of the type that a converter gives."""

    def convert_plain(typ: Any, array: pa.Array) -> Column:
        column = convert(typ, array)
        return Column(column.type.under, column.array)

    return convert_plain


def _plain_dates(typ: Any, array: pa.Array) -> Column:
    # Arrow has checked that date64 has whole days.
    days = array.view(pa.int32()) if typ.bit_width == 32 else pc.divide(array.view(pa.int64()), DAY // SCALES["ms"])
    bounds = pc.min_max(days)
    if len(days) > days.null_count and not (DAYS[0] <= bounds["min"].as_py() and bounds["max"].as_py() <= DAYS[-1]):
        raise pa.ArrowInvalid(f"{typ} is out of range: dates reach from year 1 to year 9999")
    return Column(t.DATE, days.cast(pa.int32()).view(pa.date32()))


def _plain_decimal(otherwise: Convert) -> Convert:
    """Decimals, if they have a type here: `otherwise` converts those with too many digits, or a scale below zero."""

    def convert_plain(typ: Any, array: pa.Array) -> Column:
        if typ.precision > t.MAX_DIGITS or not 0 <= typ.scale <= typ.precision:
            return otherwise(typ, array)
        decimal = t.decimal(typ.precision, typ.scale)
        return Column(decimal, array.cast(arrow_type(decimal)))

    return convert_plain


PLAIN_SCALARS: dict[int, Convert] = {
    **SCALARS,
    **{
        ident: _nameless(SCALARS[ident])
        for ident in (
            pa.lib.Type_LARGE_STRING,
            pa.lib.Type_LARGE_BINARY,
            pa.lib.Type_FIXED_SIZE_BINARY,
            pa.lib.Type_TIMESTAMP,
            pa.lib.Type_DURATION,
        )
    },
    pa.lib.Type_DATE32: _plain_dates,
    pa.lib.Type_DATE64: _plain_dates,
    **{
        ident: _plain_decimal(SCALARS[ident])
        for ident in (
            pa.lib.Type_DECIMAL32,
            pa.lib.Type_DECIMAL64,
            pa.lib.Type_DECIMAL128,
            pa.lib.Type_DECIMAL256,
        )
    },
}
