"""What the row of a value has to be in a table of SQL, found value by value: the measure of what goes by columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from shoal.engines.tables.forms import TableForm
from shoal.formats.columns.layouts import VALUE, bare, physical_names
from shoal.formats.json.writer import to_json
from shoal.model import types as t
from shoal.model.text import format_primitive, format_value
from shoal.model.values import Value


def plain_row(form: TableForm, value: Value) -> dict[str, Any]:
    """The row of a value; times are integers of nanoseconds, dates of days."""
    is_record = isinstance(value.type.under, t.Record)
    row: dict[str, Any] = {}
    for column in form.columns:
        here: Value | None = value
        for name in column.path:
            here = None if here is None else here.field(name)
        row[column.name] = _cell(column.type, here if column.path or not is_record else None)
    return row or {VALUE: None}


def _cell(common: t.Type, value: Value | None) -> Any:
    """A value in a column of a common type."""
    value = None if value is None else value.under()
    if value is None or value.data is None:
        return None
    typ, data = value.type, value.data
    match common:
        case t.Record():
            names = physical_names(common)
            cells = {n: _cell(f.type, value.field(f.name)) for n, f in zip(names, common.fields, strict=True)}
            return cells or True
        case t.Array():
            (elem,) = typ.children()
            return [_cell(common.elem, Value(elem, d)) for d in data]
        case t.Map():
            key, inner = typ.children()
            return [(_cell(common.key, Value(key, k)), _cell(common.value, Value(inner, v))) for k, v in data]
        case t.Decimal():
            return _digits(Decimal(data), common.scale)
    if common is t.STRING:
        return _text(value)
    if common in t.FLOATS:
        return float(data)
    if common is t.TIME and typ is t.DATE:
        return data * 86400 * 10**9
    return format_value(value) if common in (t.IP, t.NET, t.TYPE) else data


def _text(value: Value) -> str:
    typ, data = value.type, value.data
    match typ:
        case t.Enum():
            return typ.symbols[data]
        case t.Primitive():
            if typ is t.STRING:
                return str(data)
            return repr(data) if typ in t.FLOATS else format_primitive(typ, data)
        case t.Error():
            return format_value(Value(bare(typ), data))
    return to_json(value)


def _digits(number: Decimal, scale: int) -> Any:
    return f"{number:.{scale}f}" if scale else int(number)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of a table, as `plain_row` has them."""
    for batch in batches:
        columns = [_steady(column.type, column.to_pylist()) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(batch.schema.names, row, strict=True))


def _steady(typ: Any, data: list[Any]) -> list[Any]:
    if pa.types.is_timestamp(typ):
        return pa.array(data, typ).view(pa.int64()).to_pylist() if data else []
    return [None if d is None else _steady_one(typ, d) for d in data]


def _steady_one(typ: Any, data: Any) -> Any:
    if pa.types.is_struct(typ):
        return {typ.field(i).name: _steady(typ.field(i).type, [data[typ.field(i).name]])[0] for i in range(len(typ))}
    if pa.types.is_map(typ):
        return [(_steady(typ.key_type, [k])[0], _steady(typ.item_type, [v])[0]) for k, v in data]
    if pa.types.is_list(typ):
        return _steady(typ.value_type, data)
    if isinstance(data, date):
        return (data - date(1970, 1, 1)).days
    return _digits(data, typ.scale) if isinstance(data, Decimal) else data


def same_text(row: dict[str, Any]) -> str:
    """A text that equal rows have in common; a record inside of a list has no names here."""
    return repr(_nameless(row, is_top=True))


def _nameless(data: Any, is_top: bool = False) -> Any:
    if isinstance(data, dict):
        return [(name, _nameless(d)) for name, d in data.items()] if is_top else [_nameless(d) for d in data.values()]
    return [_nameless(d) for d in data] if isinstance(data, list | tuple) else data
