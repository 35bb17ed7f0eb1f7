"""Values as an Arrow table and back: what leaves as a table comes back as the very same values.

A type that Arrow has is written as it is, a time as `timestamp[ns, UTC]`. For any other the column
holds its surface, and the metadata of the field has the type under the key `zed`. `layout` tells
which columns there are.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from shoal.errors import InvalidInput
from shoal.formats.arrow import stream as arrow
from shoal.formats.arrow.intervals import has_intervals
from shoal.formats.arrow.reader import batches, refusing
from shoal.formats.arrow.scalars import null_mask
from shoal.formats.arrow.writer import exchange_type
from shoal.formats.columns.batches import BATCH_ROWS
from shoal.formats.columns.physical import from_arrow, to_arrow
from shoal.formats.streams import WriteOptions
from shoal.frames.arrow_layout import Column, is_ours, lay_out, rows
from shoal.frames.surface import from_surface, is_plain, surface, to_surface
from shoal.model import types as t
from shoal.model.parse import parse_type
from shoal.model.text import format_type
from shoal.model.values import Value

_KEY = b"zed"
_SOURCE = "arrow"


# ---- values to tables


def to_table(values: Sequence[Value]) -> pa.Table:
    """A table of values."""
    columns, shapes, _ = lay_out(values)
    fields, arrays = [], []
    for column in columns:
        array = natural_array(column)
        told = None if array is not None else {_KEY: format_type(type_of(column)).encode()}
        arrays.append(_surface_array(column) if array is None else array)
        fields.append(pa.field(column.name, arrays[-1].type, metadata=told))
    if shapes is not None:
        arrays.append(pa.chunked_array([pa.array(shapes.data, pa.string())]).dictionary_encode())
        fields.append(pa.field(shapes.name, arrays[-1].type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def type_of(column: Column) -> t.Type:
    """The type of a column that has one."""
    assert column.type is not None
    return column.type


def natural_array(column: Column) -> pa.ChunkedArray | None:
    """A column as Arrow's own type, if that reads back as the same."""
    typ = type_of(column)
    if is_plain(typ):
        return _surface_array(column)
    if not _is_of_arrow(typ):
        return None
    try:
        array = _exchanged(typ, column.data)
    except InvalidInput:
        return None
    return array if array is not None and reads_as(array, column) else None


def _surface_array(column: Column) -> pa.ChunkedArray:
    typ, change = surface(type_of(column)), to_surface(type_of(column))
    runs = (column.data[i : i + BATCH_ROWS] for i in range(0, len(column.data), BATCH_ROWS))
    return pa.chunked_array(
        [_with_times(typ, to_arrow(typ, [change(d) for d in run])) for run in runs], exchange_type(typ)
    )


def _with_times(typ: t.Type, array: pa.Array) -> pa.Array:
    """A column in physical form, its numbers of nanoseconds as times and durations.

    `view` and `cast` would do, but both of them damage lists of nulls.
    """
    kind = exchange_type(typ)
    if array.type == kind:
        return array
    if typ is t.NULL:
        return pa.nulls(len(array))
    match typ:
        case t.Record():
            fields = [_with_times(f.type, array.field(i)) for i, f in enumerate(typ.fields)]
            return pa.StructArray.from_arrays(fields, fields=list(kind), mask=null_mask(array))
        case t.Array():
            values = _with_times(typ.elem, array.values)
            return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=null_mask(array))
        case _:
            return array.view(kind)


def _is_of_arrow(typ: t.Type) -> bool:
    """Whether a type has a name in it that reading Arrow gives, such as `arrow_date32`."""
    named = isinstance(typ, t.Named) and typ.name.startswith("arrow_")
    return named or any(_is_of_arrow(child) for child in typ.children())


def _exchanged(typ: t.Type, data: Sequence[object]) -> pa.ChunkedArray | None:
    """A column as files for others have it, unless it has intervals, which pyarrow cannot open."""
    with refusing(_SOURCE):
        if has_intervals(exchange_type(typ)):
            return None
    out, record = io.BytesIO(), t.record((("x", typ),))
    writer = arrow.Writer(out, WriteOptions())
    for item in data:
        writer.write(Value(record, (item,)))
    writer.close()
    return pa.ipc.open_stream(out.getvalue()).read_all().column(0)


def reads_as(array: pa.ChunkedArray, column: Column, is_small: bool = False) -> bool:
    """Whether a column of Arrow reads as this one."""
    found, whole = read_column("x", array, is_small), t.array(type_of(column))
    return found.type is column.type and Value(whole, tuple(found.data)) == Value(whole, tuple(column.data))


# ---- tables to values


def read_table(table: pa.Table) -> Iterator[Value]:
    """The values of a table."""
    return read_batches(table.to_batches())


def read_stream(source: object) -> Iterator[Value]:
    """The values of anything that hands out Arrow tables."""
    with refusing(_SOURCE):
        reader = pa.RecordBatchReader.from_stream(source)
    return read_batches(reader)


def read_batches(source: Iterable[pa.RecordBatch]) -> Iterator[Value]:
    """The values of batches."""
    with refusing(_SOURCE):
        for batch in source:
            yield from read_batch(batch)


def read_batch(batch: pa.RecordBatch) -> Iterator[Value]:
    """The values of a batch."""
    told = [_told(field) for field in batch.schema]
    is_simple = not any(told) and not any(is_ours(name) for name in batch.schema.names)
    for run in batches(batch):
        if is_simple:
            yield from run.values()
        else:
            (part,) = run.parts
            assert isinstance(part.shape, t.Record)
            arrays = (part.column.field(i) for i in range(len(told)))
            yield from rows([_column(*found) for found in zip(part.shape.fields, told, arrays, strict=True)])


def _told(field: pa.Field) -> t.Type | None:
    """The type that the metadata of a field tell."""
    text = (field.metadata or {}).get(_KEY)
    try:
        return None if text is None else parse_type(text.decode())
    except (InvalidInput, UnicodeDecodeError):
        return None


def _column(field: t.Field, told: t.Type | None, array: pa.Array) -> Column:
    """A column of the type it was. What is told counts if the column is a surface of that, and has not been changed."""
    data = from_arrow(field.type, array)
    if told is None or surface(told) is not field.type:
        return Column(field.name, field.type, data)
    change = from_surface(told)
    try:
        return Column(field.name, told, [change(d) for d in data])
    except InvalidInput as e:
        raise InvalidInput(f"column {field.name!r}, which is said to be of type {format_type(told)}: {e}") from None


def read_column(name: str, array: pa.ChunkedArray, is_small: bool = False) -> Column:
    """A column by itself. Where `is_small`, types of Arrow for large data come without a name that says so."""
    typ: t.Type = t.NULL
    data: list[object] = []
    with refusing(_SOURCE):
        for chunk in array.chunks:
            for run in batches(pa.record_batch([chunk], ["x"])):
                (part,) = run.parts
                assert isinstance(part.shape, t.Record)
                typ = part.shape.fields[0].type
                data += from_arrow(typ, part.column.field(0))
    return Column(name, _small(typ) if is_small else typ, data)


def _small(typ: t.Type) -> t.Type:
    """A type without the names of Arrow's large strings, bytes and lists, which mean nothing in a data frame."""
    match typ:
        case t.Named(name=name) if name.startswith("arrow_large_"):
            return _small(typ.inner)
        case t.Named():
            return t.named(typ.name, _small(typ.inner))
        case t.Record():
            return t.record((f.name, _small(f.type)) for f in typ.fields)
        case t.Array():
            return t.array(_small(typ.elem))
        case t.Map():
            return t.map_of(_small(typ.key), _small(typ.value))
        case _:
            return typ
