"""Arrow data as columns of values, with plain types or with those of Zed.

A plain type is the one that means the same: a timestamp in any unit is a time, a large string a string. With the types
of Zed, what Zed has no type for comes as a named type that says so, such as `arrow_date32=time`.

Whole columns are converted at a time; only maps, whose keys need their canonical order, are looked
at entry by entry. Data are checked before anything is done with them, since Arrow trusts its data;
some functions of pyarrow end the process even on what it calls valid, and are avoided here. Sizes
that the bytes of a file do not account for (lists of nothing, a long string that a dictionary
repeats) are refused before memory is taken for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import InvalidInput, ShoalError
from shoal.formats.arrow.intervals import has_intervals, stored
from shoal.formats.arrow.scalars import PLAIN_SCALARS, SCALARS, Column, Convert, Numbers, items, null_mask
from shoal.formats.columns.batches import BATCH_ROWS, Batch, Part
from shoal.formats.columns.physical import arrow_type, from_arrow
from shoal.formats.csv.names import unique_names
from shoal.model import types as t
from shoal.model.zcode import normal_map

_BATCH_BYTES = 64 * 1024 * 1024
"""A run of rows is cut shorter than `BATCH_ROWS` if it is longer than this."""
_BARE_ROWS = 1 << 22
_ROWS_PER_BYTE = 64
"""A batch may have this many rows, and as many more for each of its bytes."""
_BARE_ELEMENTS = 1 << 20
"""How many elements without any bytes the lists of one column may hold."""
_REPEATED_BYTES = 1 << 30
"""How large a column may become when repeated values are written out."""
_MAX_ELEMENTS = (1 << 31) - 1


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Whatever pyarrow raises becomes InvalidInput; a failure of the file itself stays what it is."""
    try:
        yield
    except ShoalError:
        raise
    except (pa.ArrowException, OSError, LookupError, ValueError, TypeError, ArithmeticError, MemoryError) as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise
        raise InvalidInput(f"{name}: {' '.join(str(e).split()) or type(e).__name__}") from e


def batches(batch: pa.RecordBatch, types: str | None = None) -> Iterator[Batch]:
    """The rows of an Arrow batch, which may come from anywhere, in runs; `types` is "zed" for the types of Zed."""
    converter = _ZED if types == "zed" else _PLAIN
    size = batch.get_total_buffer_size()  # `nbytes` looks at the data, and crashes on unions of nothing
    if batch.num_rows > _BARE_ROWS + _ROWS_PER_BYTE * size:
        raise pa.ArrowInvalid(f"{batch.num_rows} rows in a batch of {size} bytes")
    batch.validate(full=True)
    record = batch.to_struct_array()
    typ = record.type
    if has_intervals(typ):
        record = record.view(stored(typ))
    step = max(1, min(BATCH_ROWS, _BATCH_BYTES * batch.num_rows // max(1, size)))
    for start in range(0, len(record), step):
        shape, column = converter.convert(typ, record.slice(start, step))
        yield Batch((Part(shape, column, np.arange(len(column))),), len(column))


def shape_of(schema: pa.Schema) -> t.Type:
    """The shape of the rows of a batch with this schema, in plain types."""
    with refusing("arrow"):
        columns = [pa.array([], field.type) for field in schema]
        record = pa.RecordBatch.from_arrays(columns, schema=schema).to_struct_array()
        typ = record.type
        return _PLAIN.convert(typ, record.view(stored(typ)) if has_intervals(typ) else record).type


def plain_column(array: pa.Array) -> Column:
    """A column that is known to be valid, in plain types."""
    typ = array.type
    return _PLAIN.convert(typ, array.view(stored(typ)) if has_intervals(typ) else array)


class _Converter:
    """Converts columns, and those inside them, to plain types or to those of Zed."""

    def __init__(self, scalars: Mapping[int, Convert], has_names: bool) -> None:
        self._scalars = scalars
        self._has_names = has_names

    def convert(self, typ: pa.DataType, array: pa.Array) -> Column:
        """A valid Arrow array as a column. `typ` is its type, `array` may hold integers for intervals."""
        if isinstance(typ, pa.BaseExtensionType):
            return self.convert(typ.storage_type, array.storage)
        scalar = self._scalars.get(typ.id)
        if scalar is not None:
            return scalar(typ, array)
        nested = _NESTED.get(typ.id)
        if nested is None:
            raise pa.ArrowNotImplementedError(f"unimplemented Arrow type: {typ}")
        return nested(self, typ, array)

    def named(self, name: str | None, typ: t.Type) -> t.Type:
        """A type that has a name among those of Zed."""
        return t.named(name, typ) if name and self._has_names else typ


ConvertNested = Callable[[_Converter, Any, pa.Array], Column]


# ---- lists


def _lists(typ: t.Type, offsets: Numbers, values: pa.Array, mask: pa.Array | None) -> Column:
    starts = pa.array(offsets.astype(np.int32), pa.int32())
    return Column(typ, pa.ListArray.from_arrays(starts, values, type=arrow_type(typ), mask=mask))


def _elements(converter: _Converter, typ: pa.DataType, values: pa.Array, start: int, count: int) -> Column:
    """Some elements of lists."""
    if count > _MAX_ELEMENTS or (count > _BARE_ELEMENTS and _is_bare(typ)):
        raise pa.ArrowInvalid(f"lists of {count} elements of type {typ}")
    return converter.convert(typ, values.slice(start, count))


def _is_bare(typ: Any) -> bool:
    """Whether values of this type may take no bytes, so that a small file may claim any number of them."""
    if isinstance(typ, pa.BaseExtensionType):
        return _is_bare(typ.storage_type)
    if pa.types.is_struct(typ) or pa.types.is_union(typ):
        return all(_is_bare(typ.field(i).type) for i in range(typ.num_fields))
    if pa.types.is_fixed_size_list(typ):
        return typ.list_size == 0 or _is_bare(typ.value_type)
    if pa.types.is_fixed_size_binary(typ):
        return bool(typ.byte_width == 0)
    return bool(pa.types.is_null(typ) or pa.types.is_run_end_encoded(typ))


def _offsets(array: pa.Array) -> Numbers:
    """Where lists start and end. A column of no lists need not have any offset at all."""
    return array.offsets.to_numpy().astype(np.int64) if len(array) else np.zeros(1, np.int64)


def _list(name: str | None) -> ConvertNested:
    def convert_list(converter: _Converter, typ: Any, array: pa.Array) -> Column:
        offsets = _offsets(array)
        elem = _elements(converter, typ.value_type, array.values, int(offsets[0]), int(offsets[-1] - offsets[0]))
        zed_type: t.Type = t.array(elem.type)
        return _lists(converter.named(name, zed_type), offsets - offsets[0], elem.array, null_mask(array))

    return convert_list


def _fixed_size_list(converter: _Converter, typ: Any, array: pa.Array) -> Column:
    size = typ.list_size
    elem = _elements(converter, typ.value_type, array.values, array.offset * size, len(array) * size)
    zed_type = converter.named(f"arrow_fixed_size_list_{size}", t.array(elem.type))
    return _lists(zed_type, np.arange(len(array) + 1) * size, elem.array, null_mask(array))


def _list_view(name: str | None) -> ConvertNested:
    """Lists that lie anywhere in their elements, and may share them."""

    def convert_views(converter: _Converter, typ: Any, array: pa.Array) -> Column:
        mask = null_mask(array)
        starts, sizes = array.offsets.to_numpy().astype(np.int64), array.sizes.to_numpy().astype(np.int64)
        if mask is not None:
            sizes[mask.to_numpy(zero_copy_only=False)] = 0
        starts[sizes == 0] = 0
        first, last = int(starts.min(initial=0)), int((starts + sizes).max(initial=0))
        elem = _elements(converter, typ.value_type, array.values, first, last - first)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        if offsets[-1] * 8 > _REPEATED_BYTES:
            raise pa.ArrowInvalid(f"lists of {offsets[-1]} elements of type {typ.value_type}")
        places = np.repeat(starts - first - offsets[:-1], sizes) + np.arange(offsets[-1])
        zed_type: t.Type = t.array(elem.type)
        return _lists(converter.named(name, zed_type), offsets, _take(elem.array, pa.array(places)), mask)

    return convert_views


def _map(converter: _Converter, typ: Any, array: pa.Array) -> Column:
    offsets = _offsets(array)
    start, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    key = _elements(converter, typ.key_type, array.keys, start, count)
    value = _elements(converter, typ.item_type, array.items, start, count)
    zed_type = t.map_of(key.type, value.type)
    offsets -= start
    fields = list(arrow_type(zed_type).value_type)
    entries = pa.StructArray.from_arrays([key.array, value.array], fields=fields)
    if (np.diff(offsets) > 1).any():
        offsets, places = _canonical_order(key, offsets)
        entries = entries.take(places)
    return _lists(zed_type, offsets, entries, null_mask(array))


def _canonical_order(key: Column, offsets: Numbers) -> tuple[Numbers, pa.Array]:
    """Where the entries of each map are, in the order of their keys, the last of a key only."""
    keys = from_arrow(key.type, key.array)
    ends, places = [0], []
    limits = offsets.tolist()
    for start, end in pairwise(limits):
        places += [i for _, i in normal_map(key.type, zip(keys[start:end], range(start, end), strict=True))]
        ends.append(len(places))
    return np.array(ends), pa.array(places, pa.int64())


# ---- records and unions


def _record(converter: _Converter, typ: Any, array: pa.Array) -> Column:
    if not typ.num_fields:
        return Column(t.record(()), pa.array(np.ones(len(array), bool), mask=array.is_null().to_numpy(False)))
    columns = [converter.convert(field.type, _field(array, i)) for i, field in enumerate(typ)]
    names = unique_names([field.name for field in typ])
    zed_type = t.record(zip(names, (column.type for column in columns), strict=True))
    arrays = [column.array for column in columns]
    return Column(
        zed_type, pa.StructArray.from_arrays(arrays, fields=list(arrow_type(zed_type)), mask=null_mask(array))
    )


def _field(array: pa.Array, i: int) -> pa.Array:
    """A field of records, null where the record is: what lies under a null means nothing."""
    typ = array.type.field(i).type
    if isinstance(typ, pa.BaseExtensionType):
        typ = typ.storage_type
    # pyarrow aborts the process if it does this to a type that has no nulls of its own.
    if not array.null_count or pa.types.is_union(typ) or pa.types.is_null(typ) or pa.types.is_run_end_encoded(typ):
        return array.field(i)
    return pc.struct_field(array, [i])


def _union(converter: _Converter, typ: Any, array: pa.Array) -> Column:
    codes = items(array, np.int8)
    dense = typ.mode == "dense"
    places = items(array, np.int32, 2).astype(np.int64) if dense else np.arange(len(array))
    members = []
    for i, code in enumerate(typ.type_codes):
        rows = np.flatnonzero(codes == code)
        used = places[rows]
        first = int(used.min(initial=len(array.field(i))))
        child = array.field(i).slice(first, int(used.max(initial=first - 1)) + 1 - first)
        members.append(_Member(converter.convert(typ.field(i).type, child), rows, used - first))
    return _tagged(t.union(m.column.type for m in members), members, len(array))


class _Member(NamedTuple):
    column: Column
    rows: Numbers
    """Rows of the union that are of this member."""
    places: Numbers
    """Where the column has them."""


def _tagged(typ: t.Union, members: list[_Member], length: int) -> Column:
    """A union column. Members of the same Zed type become one; a null member is the null of the union."""
    tags = np.full(length, -1, np.int16)
    arrays = []
    for tag, kind in enumerate(typ.types):
        same = [m for m in members if m.column.type is kind]
        bases = np.cumsum([0, *(len(m.column.array) for m in same)])
        picks, absent = np.zeros(length, np.int64), np.ones(length, bool)
        for member, base in zip(same, bases.tolist(), strict=False):
            picks[member.rows], absent[member.rows] = member.places + base, False
        array = _take(pa.concat_arrays([m.column.array for m in same]), pa.array(picks, mask=absent))
        tags[array.is_valid().to_numpy(False)] = tag
        arrays.append(array)
    empty = tags < 0
    fields = list(arrow_type(typ))
    return Column(
        typ,
        pa.StructArray.from_arrays([pa.array(tags, mask=empty), *arrays], fields=fields, mask=pa.array(empty)),
    )


# ---- repeated values


def _dictionary(converter: _Converter, typ: Any, array: pa.Array) -> Column:
    if has_intervals(typ.value_type):
        raise pa.ArrowNotImplementedError(f"unimplemented Arrow type: {typ}")
    column = converter.convert(typ.value_type, array.dictionary)
    return Column(column.type, _take(column.array, array.indices))


def _run_end_encoded(converter: _Converter, typ: Any, array: pa.Array) -> Column:
    column = converter.convert(typ.value_type, array.values)
    rows = np.arange(array.offset, array.offset + len(array))
    places = np.searchsorted(array.run_ends.to_numpy(), rows, "right")
    return Column(column.type, _take(column.array, pa.array(places)))


def _take(array: pa.Array, places: pa.Array) -> pa.Array:
    """Elements by their places, if they do not become too much."""
    if len(places) * (array.get_total_buffer_size() + 8) > _REPEATED_BYTES:
        total = pc.sum(pa.array(_weights(array)).take(places)).as_py() or 0
        if total > _REPEATED_BYTES:
            raise pa.ArrowInvalid(f"repeated values grow to {total} bytes")
    return array.take(places)


def _weights(array: pa.Array) -> Numbers:
    """About how many bytes each element takes."""
    typ = array.type
    if pa.types.is_struct(typ):
        return sum((_weights(array.field(i)) for i in range(typ.num_fields)), np.full(len(array), 8))
    if pa.types.is_list(typ):
        sums = np.concatenate(([0], np.cumsum(_weights(array.values))))
        return 8 + np.diff(sums[_offsets(array)])
    if pa.types.is_string(typ) or pa.types.is_binary(typ):
        return 8 + np.asarray(pc.fill_null(pc.binary_length(array), 0), np.int64)
    return np.full(len(array), 8)


_NESTED: dict[int, ConvertNested] = {
    pa.lib.Type_LIST: _list(None),
    pa.lib.Type_LARGE_LIST: _list("arrow_large_list"),
    pa.lib.Type_LIST_VIEW: _list_view(None),
    pa.lib.Type_LARGE_LIST_VIEW: _list_view("arrow_large_list"),
    pa.lib.Type_FIXED_SIZE_LIST: _fixed_size_list,
    pa.lib.Type_MAP: _map,
    pa.lib.Type_STRUCT: _record,
    pa.lib.Type_SPARSE_UNION: _union,
    pa.lib.Type_DENSE_UNION: _union,
    pa.lib.Type_DICTIONARY: _dictionary,
    pa.lib.Type_RUN_END_ENCODED: _run_end_encoded,
}
_ZED = _Converter(SCALARS, has_names=True)
_PLAIN = _Converter(PLAIN_SCALARS, has_names=False)
