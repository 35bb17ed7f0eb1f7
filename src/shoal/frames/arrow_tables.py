"""Converts values to an Arrow table and back, without loss.

A type that Arrow has is written as it is, a time as `timestamp[ns, UTC]`. Any other type is written as its surface
(`table_types`), with the type in the metadata of the field under the key `zed`. `table_layout` chooses the columns.
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
from shoal.frames.table_layout import Column, is_ours, lay_out, rows
from shoal.frames.table_types import from_surface, is_plain, surface, to_surface
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
        metadata = None if array is not None else {_KEY: format_type(type_of(column)).encode()}
        arrays.append(_surface_array(column) if array is None else array)
        fields.append(pa.field(column.name, arrays[-1].type, metadata=metadata))
    if shapes is not None:
        arrays.append(pa.chunked_array([pa.array(shapes.data, pa.string())]).dictionary_encode())
        fields.append(pa.field(shapes.name, arrays[-1].type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def type_of(column: Column) -> t.Type:
    """The type of a column that has one."""
    assert column.type is not None
    return column.type


def natural_array(column: Column) -> pa.ChunkedArray | None:
    """A column in Arrow's own type, if that reads back as the same values; otherwise None."""
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
    """Convert the nanoseconds in a physical column to times and durations.

    `view` and `cast` would do it, but both damage lists of nulls.
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
    """Whether a type contains a type name that comes from reading Arrow, such as `arrow_date32`."""
    named = isinstance(typ, t.Named) and typ.name.startswith("arrow_")
    return named or any(_is_of_arrow(child) for child in typ.children())


def _exchanged(typ: t.Type, data: Sequence[object]) -> pa.ChunkedArray | None:
    """A column as the Arrow writer writes it; None if it has intervals, which pyarrow cannot open."""
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
    """Whether an Arrow column reads back as this one."""
    read, whole = read_column("x", array, is_small), t.array(type_of(column))
    return read.type is column.type and Value(whole, tuple(read.data)) == Value(whole, tuple(column.data))


# ---- tables to values


def read_table(table: pa.Table) -> Iterator[Value]:
    """The values of a table."""
    return read_batches(table.to_batches())


def read_stream(source: object) -> Iterator[Value]:
    """The values of any object with the Arrow stream interface."""
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
    declared = [_declared_type(field) for field in batch.schema]
    is_simple = not any(declared) and not any(is_ours(name) for name in batch.schema.names)
    for run in batches(batch):
        if is_simple:
            yield from run.values()
        else:
            (part,) = run.parts
            assert isinstance(part.shape, t.Record)
            arrays = (part.column.field(i) for i in range(len(declared)))
            yield from rows([_column(*parts) for parts in zip(part.shape.fields, declared, arrays, strict=True)])


def _declared_type(field: pa.Field) -> t.Type | None:
    """The Zed type in the metadata of a field."""
    text = (field.metadata or {}).get(_KEY)
    try:
        return None if text is None else parse_type(text.decode())
    except (InvalidInput, UnicodeDecodeError):
        return None


def _column(field: t.Field, declared: t.Type | None, array: pa.Array) -> Column:
    """A column in its declared type, if the Arrow type is still the surface of that type."""
    data = from_arrow(field.type, array)
    if declared is None or surface(declared) is not field.type:
        return Column(field.name, field.type, data)
    change = from_surface(declared)
    try:
        return Column(field.name, declared, [change(d) for d in data])
    except InvalidInput as e:
        raise InvalidInput(f"column {field.name!r}, declared as {format_type(declared)}: {e}") from None


def read_column(name: str, array: pa.ChunkedArray, is_small: bool = False) -> Column:
    """Read one column. With `is_small`, types such as large_string are read without their type names."""
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
    """A type without the type names of Arrow's large strings, bytes and lists, which mean nothing in a data frame."""
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
