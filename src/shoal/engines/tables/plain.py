"""The plain types of a table: what each Zed type is in SQL.

    ints, floats, bool, string, bytes     themselves (float16 as float32)
    time                                  timestamp, or int64 of nanoseconds where that is asked for
    duration                              int64 of nanoseconds
    ip, net, type                         text, as ZSON shows them
    enum                                  text, the symbol
    array, set, record                    list, list in canonical order, struct
    map                                   map; ZSON, if its keys are not plain values
    union, error                          ZSON, of a union that of the value in it
    {}                                    bool: true where it is not null
    null                                  bool, which is always null

Not every engine has every type: those of Spark have no unsigned numbers, which are kept in the next wider type, and
no digits of time below the microsecond, which are an error and never cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import InvalidInput
from shoal.formats.columns.layouts import physical_names
from shoal.formats.columns.physical import arrow_type, from_arrow
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value

Times = Literal["nanoseconds", "microseconds", "integers"]


@dataclass(frozen=True, slots=True)
class Style:
    """What types an engine has."""

    times: Times
    """How a time is kept: as a timestamp in a unit, or as an integer, of nanoseconds."""
    has_unsigned: bool


DUCKDB = Style("nanoseconds", has_unsigned=True)
SPARK = Style("microseconds", has_unsigned=False)
SPARK_INTEGERS = Style("integers", has_unsigned=False)
"""Spark, with times as integers."""

_TIMES = {"nanoseconds": pa.timestamp("ns"), "microseconds": pa.timestamp("us", "UTC"), "integers": pa.int64()}
_WIDER = {t.UINT8: pa.int16(), t.UINT16: pa.int32(), t.UINT32: pa.int64(), t.UINT64: pa.decimal128(20, 0)}
_TEXTS = (t.IP, t.NET, t.TYPE)


class TooFine(InvalidInput):
    """A time with more digits than an engine has."""


def plain_type(typ: t.Type, style: Style) -> pa.DataType:
    """The plain type of a Zed type."""
    typ = typ.under
    match typ:
        case t.Primitive():
            if typ is t.TIME:
                return _TIMES[style.times]
            if typ in _TEXTS:
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
    return pa.string()


def _has_plain_keys(typ: t.Map) -> bool:
    under = typ.key.under
    return isinstance(under, t.Enum) or (isinstance(under, t.Primitive) and under is not t.NULL)


def is_plain(typ: t.Type, style: Style) -> bool:
    """Whether the physical form of a type is the plain one."""
    typ = typ.under
    match typ:
        case t.Primitive():
            return bool(arrow_type(typ) == plain_type(typ, style))
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
        case t.Primitive() if typ in _TEXTS:
            return _texts(typ, column, lambda data: format_value(Value(typ, data)))
        case t.Primitive():
            return column.cast(target_type)
        case t.Record():
            fields = [to_plain(f.type, c, style) for f, c in zip(typ.fields, column.flatten(), strict=True)]
            return pa.StructArray.from_arrays(fields, fields=list(target_type), mask=_nulls(column))
        case t.Array() | t.Set():
            values = to_plain(typ.elem, column.values, style)
            return pa.ListArray.from_arrays(column.offsets, values, type=target_type, mask=_nulls(column))
        case t.Map() if _has_plain_keys(typ):
            return _maps(typ, column, style)
        case t.Enum():
            return pa.array(typ.symbols, pa.string()).take(column)
        case t.Union():
            return _texts(typ, column, lambda data: format_value(Value(typ, data).under()))
    return _texts(typ, column, lambda data: format_value(Value(typ, data)))


def _times(column: pa.Array, style: Style) -> pa.Array:
    if style.times == "nanoseconds":
        return column.view(_TIMES[style.times])
    units = pc.divide(column, pa.scalar(1000, pa.int64()))
    fine = pc.not_equal(pc.multiply(units, 1000), column)
    if pc.any(fine).as_py():
        value = column.filter(fine)[0].as_py()
        raise TooFine(f"{format_value(Value(t.TIME, value))} has digits below the microsecond")
    return units.view(_TIMES[style.times])


def _maps(typ: t.Map, column: pa.Array, style: Style) -> pa.Array:
    entries = column.values
    keys, values = entries.field(0), entries.field(1)
    if keys.null_count:
        raise InvalidInput("a map has a null for a key, which maps of SQL cannot have")
    keys, values = to_plain(typ.key, keys, style), to_plain(typ.value, values, style)
    return pa.MapArray.from_arrays(column.offsets, keys, values, type=plain_type(typ, style), mask=_nulls(column))


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _texts(typ: t.Type, column: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    """Values as text. Those of primitive types, which tend to come again, are written once each."""
    if not isinstance(typ, t.Primitive):
        return pa.array([None if data is None else write(data) for data in from_arrow(typ, column)], pa.string())
    coded = column.dictionary_encode()
    return pa.array([write(data) for data in from_arrow(typ, coded.dictionary)], pa.string()).take(coded.indices)
