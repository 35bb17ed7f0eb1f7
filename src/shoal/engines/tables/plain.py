"""The plain types of a table: what each type is in SQL, and how values come into a column of a common type.

    ints, floats, bool, string, bytes     themselves (float16 as float32)
    decimal, date                         themselves
    time                                  timestamp, or int64 of nanoseconds where that is asked for
    duration                              int64 of nanoseconds, or a duration
    ip, net, type                         text, as ZSON shows them
    enum                                  text, the symbol
    array, set, record                    list, list in canonical order, struct
    map                                   map; text, if its keys are not plain values
    union                                 the common type of its members
    error                                 text, as ZSON shows it
    {}                                    bool: true where it is not null
    null                                  text, which is always null

In a column of texts that holds values of several types, text is itself, a value with parts is JSON, and any other one
is what it looks like.

Not every engine has every type: those of Spark have no unsigned numbers, which are kept in the next wider type, and
no digits of time below the microsecond, which are an error and never cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import InvalidInput
from shoal.formats.columns.layouts import physical_names
from shoal.formats.columns.physical import arrow_type, from_arrow
from shoal.formats.json.writer import to_json
from shoal.model import types as t
from shoal.model.common import common_type
from shoal.model.text import format_primitive, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data

Times = Literal["nanoseconds", "microseconds", "integers", "instants"]


@dataclass(frozen=True, slots=True)
class Style:
    """What types an engine has."""

    times: Times
    """How a time is kept: as a timestamp in a unit, or as an integer, of nanoseconds."""
    has_unsigned: bool
    has_durations: bool = False


DUCKDB = Style("nanoseconds", has_unsigned=True)
SPARK = Style("microseconds", has_unsigned=False)
SPARK_INTEGERS = Style("integers", has_unsigned=False)
"""Spark, with times as integers."""
FRAMES = Style("instants", has_unsigned=True, has_durations=True)
"""Arrow tables and data frames."""

_TIMES = {
    "nanoseconds": pa.timestamp("ns"),
    "microseconds": pa.timestamp("us", "UTC"),
    "integers": pa.int64(),
    "instants": pa.timestamp("ns", "UTC"),
}
_WIDER = {t.UINT8: pa.int16(), t.UINT16: pa.int32(), t.UINT32: pa.int64(), t.UINT64: pa.decimal128(20, 0)}
_TEXTS = (t.IP, t.NET, t.TYPE)
_DAY = 86400 * 10**9


class TooFine(InvalidInput):
    """A time with more digits than an engine has."""


def plain_type(typ: t.Type, style: Style) -> pa.DataType:
    """The plain type of a type."""
    typ = typ.under
    match typ:
        case t.Primitive():
            if typ is t.TIME:
                return _TIMES[style.times]
            if typ is t.DURATION and style.has_durations:
                return pa.duration("ns")
            if typ in _TEXTS or typ is t.NULL:
                return pa.string()
            return arrow_type(typ) if style.has_unsigned else _WIDER.get(typ, arrow_type(typ))
        case t.Record() if typ.fields:
            names = physical_names(typ)
            return pa.struct([(n, plain_type(f.type, style)) for n, f in zip(names, typ.fields, strict=True)])
        case t.Record():
            return pa.bool_()
        case t.Array() | t.Set():
            return pa.list_(plain_type(typ.elem, style))
        case t.Map() if _has_plain_keys(typ):
            return pa.map_(plain_type(typ.key, style), plain_type(typ.value, style))
        case t.Union():
            return plain_type(common_type([typ]), style)
    return pa.string()


def _has_plain_keys(typ: t.Map) -> bool:
    under = typ.key.under
    return isinstance(under, t.Enum) or (isinstance(under, t.Primitive) and under is not t.NULL)


def is_plain(typ: t.Type, style: Style) -> bool:
    """Whether the physical form of a type is the plain one."""
    typ = typ.under
    match typ:
        case t.Primitive():
            return typ is not t.NULL and bool(arrow_type(typ) == plain_type(typ, style))
        case t.Record():
            return all(is_plain(f.type, style) for f in typ.fields)
        case t.Array() | t.Set():
            return is_plain(typ.elem, style)
    return False


def to_plain(typ: t.Type, column: pa.Array, style: Style) -> pa.Array:
    """A column in the physical form of a type, in its plain type."""
    if is_plain(typ, style):
        return column
    target_type = plain_type(typ, style)
    if column.offset:
        column = pa.concat_arrays([column])
    typ = typ.under
    match typ:
        case t.Primitive() if typ is t.TIME:
            return _times(column, style)
        case t.Primitive() if typ is t.NULL:
            return pa.nulls(len(column), target_type)
        case t.Primitive() if typ is t.DURATION:
            return column.view(target_type)
        case t.Primitive() if typ in _TEXTS:
            return _texts(typ, column)
        case t.Primitive():
            return column.cast(target_type)
        case t.Record():
            fields = [to_plain(f.type, c, style) for f, c in zip(typ.fields, column.flatten(), strict=True)]
            return pa.StructArray.from_arrays(fields, fields=list(target_type), mask=_nulls(column))
        case t.Array() | t.Set():
            values = to_plain(typ.elem, column.values, style)
            return pa.ListArray.from_arrays(column.offsets, values, type=target_type, mask=_nulls(column))
        case t.Map() if _has_plain_keys(typ):
            return _maps(typ, typ.key, typ.value, column, style)
        case t.Enum():
            return pa.array(typ.symbols, pa.string()).take(column)
        case t.Union():
            return _members(typ, common_type([typ]), column, style)
    return _texts(typ, column)


# ---- common types


def to_common(typ: t.Type, common: t.Type, column: pa.Array, style: Style) -> pa.Array:
    """A column in the physical form of a type, in the plain type of a common type that its values have with others."""
    typ = typ.under
    if typ is common:
        return to_plain(typ, column, style)
    if column.offset:
        column = pa.concat_arrays([column])
    match typ, common:
        case t.Union(), _:
            return _members(typ, common, column, style)
        case t.Primitive(), _ if typ is t.NULL:
            return pa.nulls(len(column), plain_type(common, style))
        case t.Enum(), _ if common is t.STRING:
            return to_plain(typ, column, style)
        case _, t.Primitive() if common is t.STRING:
            return _texts(typ, column)
        case t.Record(), t.Record():
            return _records(typ, common, column, style)
        case t.Array() | t.Set(), t.Array():
            values = to_common(typ.elem, common.elem, column.values, style)
            kind = plain_type(common, style)
            return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=_nulls(column))
        case t.Map(), t.Map():
            return _maps(typ, common.key, common.value, column, style)
        case t.Primitive(), t.Primitive() if typ is t.DATE:
            return _times(_first_moments(column), style)
        case t.Decimal(), t.Primitive() if common in t.FLOATS:
            return column.cast(pa.string()).cast(pa.float64())  # casts of decimals are off by a digit at times
        case t.Primitive(), t.Primitive():
            return column.cast(plain_type(common, style), safe=False)
    raise AssertionError((typ, common))


def merged(arrays: Sequence[pa.Array], typ: pa.DataType, length: int) -> pa.Array:
    """One column of several, of which at most one has a value in each row."""
    if not arrays:
        return pa.nulls(length, typ)
    if len(arrays) == 1:
        return arrays[0]
    places, absent = np.zeros(length, np.int64), np.ones(length, bool)
    for number, array in enumerate(arrays):
        rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        places[rows], absent[rows] = rows + number * length, False
    return pa.concat_arrays(arrays).take(pa.array(places, mask=absent))


def _members(typ: t.Union, common: t.Type, column: pa.Array, style: Style) -> pa.Array:
    _, *members = column.flatten()
    arrays = [to_common(m, common, c, style) for m, c in zip(typ.types, members, strict=True)]
    return merged(arrays, plain_type(common, style), len(column))


def _records(typ: t.Record, common: t.Record, column: pa.Array, style: Style) -> pa.Array:
    if not common.fields:
        return column
    kind, mask = plain_type(common, style), _nulls(column)
    if not typ.fields:
        mask = pc.is_null(column)
    columns = dict(zip(typ.index, column.flatten() if typ.fields else (), strict=True))
    arrays = [
        to_common(typ.fields[typ.index[f.name]].type, f.type, columns[f.name], style)
        if f.name in typ.index
        else pa.nulls(len(column), plain_type(f.type, style))
        for f in common.fields
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def _first_moments(dates: pa.Array) -> pa.Array:
    try:
        return pc.multiply_checked(dates.view(pa.int32()).cast(pa.int64()), pa.scalar(_DAY, pa.int64()))
    except pa.ArrowInvalid:
        raise InvalidInput(
            "a date is out of the range of times, from 1677 to 2262, which the column has as well"
        ) from None


def text_of(typ: t.Type, data: Data) -> str:
    """What a value is in a column of texts."""
    typ = typ.under
    match typ:
        case t.Primitive():
            if typ is t.STRING:
                return str(data)
            return repr(data) if typ in t.FLOATS else format_primitive(typ, data)
        case t.Enum():
            return typ.symbols[data]
        case t.Union():
            return text_of(typ.types[data[0]], data[1])
        case t.Error():
            return format_value(Value(typ, data))
    return to_json(Value(typ, data))


# ---- parts


def _times(column: pa.Array, style: Style) -> pa.Array:
    if style.times in ("nanoseconds", "instants"):
        return column.view(_TIMES[style.times])
    units = pc.divide(column, pa.scalar(1000, pa.int64()))
    fine = pc.not_equal(pc.multiply(units, 1000), column)
    if pc.any(fine).as_py():
        value = column.filter(fine)[0].as_py()
        raise TooFine(f"{format_value(Value(t.TIME, value))} has digits below the microsecond")
    return units.view(_TIMES[style.times])


def _maps(typ: t.Map, key: t.Type, value: t.Type, column: pa.Array, style: Style) -> pa.Array:
    entries = column.values
    keys, values = entries.field(0), entries.field(1)
    if keys.null_count:
        raise InvalidInput("a map has a null for a key, which maps of SQL cannot have")
    keys, values = to_common(typ.key, key, keys, style), to_common(typ.value, value, values, style)
    kind = pa.map_(plain_type(key, style), plain_type(value, style))
    return pa.MapArray.from_arrays(column.offsets, keys, values, type=kind, mask=_nulls(column))


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _texts(typ: t.Type, column: pa.Array) -> pa.Array:
    """Values as text. Those of primitive types, which tend to come again, are written once each."""
    if typ is t.STRING:
        return column
    if not isinstance(typ, t.Primitive):
        return pa.array([None if data is None else text_of(typ, data) for data in from_arrow(typ, column)], pa.string())
    coded = column.dictionary_encode()
    return pa.array([text_of(typ, data) for data in from_arrow(typ, coded.dictionary)], pa.string()).take(coded.indices)
