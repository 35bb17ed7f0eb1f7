"""What the row of a value has to be in a table of SQL, found value by value: the measure of what goes by columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from shoal.formats.columns.layouts import VALUE, Layout, Slot, bare
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value


def plain_row(layout: Layout, value: Value) -> dict[str, Any]:
    """The row of a value; times are integers of nanoseconds."""
    root = layout.root
    under = value.type.under
    row: dict[str, Any] = {}
    if root.struct is not None:
        is_record = isinstance(under, t.Record) and value.data is not None
        row |= _fields(root.struct.fields, value if is_record else None)
    row |= _cells(Slot(None, root.leaves), None if isinstance(under, t.Record) else value)
    return row or {VALUE: None}


def _fields(slots: dict[str, Slot], record: Value | None) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, slot in slots.items():
        cells |= _cells(slot, None if record is None else record.field(name))
    return cells


def _cells(slot: Slot, value: Value | None) -> dict[str, Any]:
    """What stands in the columns of a path, of which one at most has something."""
    cells: dict[str, Any] = {}
    if slot.struct is not None:
        is_record = value is not None and isinstance(value.type.under, t.Record) and value.data is not None
        inside: Any = (_fields(slot.struct.fields, value) or True) if is_record else None
        cells[slot.struct.column[-1]] = True if is_record and slot.struct.is_bare else inside
    for typ, leaf in slot.leaves.items():
        is_it = value is not None and not isinstance(value.type.under, t.Record) and bare(value.type) is typ
        cells[leaf.column[-1]] = _plain(typ, value.data) if is_it and value is not None else None
    return cells


def _plain(typ: t.Type, data: Any) -> Any:
    typ = typ.under
    if data is None:
        return None
    match typ:
        case t.Array() | t.Set():
            return [_plain(typ.elem, d) for d in data]
        case t.Record():
            return [_plain(f.type, d) for f, d in zip(typ.fields, data, strict=True)] if typ.fields else True
        case t.Map() if isinstance(typ.key.under, t.Enum) or (
            isinstance(typ.key.under, t.Primitive) and typ.key.under is not t.NULL
        ):
            return [(_plain(typ.key, k), _plain(typ.value, v)) for k, v in data]
        case t.Enum():
            return typ.symbols[data]
        case t.Union():
            return format_value(Value(typ, data).under())
        case t.Primitive() if typ not in (t.IP, t.NET, t.TYPE):
            return data
    return format_value(Value(typ, data))


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
    return int(data) if isinstance(data, Decimal) else data


def same_text(row: dict[str, Any]) -> str:
    """A text that equal rows have in common; a record inside of a list has no names here."""
    return repr(_nameless(row, is_top=True))


def _nameless(data: Any, is_top: bool = False) -> Any:
    if isinstance(data, dict):
        return [(name, _nameless(d)) for name, d in data.items()] if is_top else [_nameless(d) for d in data.values()]
    return [_nameless(d) for d in data] if isinstance(data, list | tuple) else data
