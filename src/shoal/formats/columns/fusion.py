"""Rows of several shapes as one table in their layout, and back.

A record that is null itself, which the columns of its fields cannot tell, has -1, -2, ... for shape 0, 1, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Batch, Part, Rows
from shoal.formats.columns.layouts import SHAPE, Form, Layout, Leaf, Path, RecordForm, Slot, Struct
from shoal.formats.columns.parts import rows_by_code
from shoal.formats.columns.physical import arrow_type
from shoal.model import types as t

Mask = kernels.Mask
Codes = np.ndarray[Any, np.dtype[np.int32]]
Places = Codes | Rows
SHAPE_TYPE = pa.int32()


def null_code(shape: Any) -> Any:
    """What stands for a null of a shape; the inverse, too."""
    return -1 - shape


# ---- physical types


def schema(layout: Layout) -> pa.Schema:
    """The columns of a table in a layout."""
    root = layout.root
    fields = [] if root.struct is None else _struct_fields(root.struct)
    return pa.schema([pa.field(SHAPE, SHAPE_TYPE, nullable=False), *fields, *_leaf_fields(root)])


def struct_type(struct: Struct) -> pa.DataType:
    """The physical type of a struct."""
    return pa.bool_() if struct.is_bare else pa.struct(_struct_fields(struct))


def _struct_fields(struct: Struct) -> list[pa.Field]:
    return [column for slot in struct.fields.values() for column in _slot_fields(slot)]


def _slot_fields(slot: Slot) -> Iterator[pa.Field]:
    if slot.struct is not None:
        yield pa.field(slot.struct.column[-1], struct_type(slot.struct))
    yield from _leaf_fields(slot)


def _leaf_fields(slot: Slot) -> list[pa.Field]:
    return [pa.field(leaf.column[-1], arrow_type(leaf.type)) for leaf in slot.leaves.values()]


# ---- field ids

SHAPE_ID = 2_147_483_447
"""The field id of `$shape`: the greatest that table formats do not reserve for columns of their own."""
_FIELD_ID = b"PARQUET:field_id"


@lru_cache(maxsize=128)
def numbered_schema(layout: Layout, ids: tuple[int, ...]) -> pa.Schema:
    """The columns of a table in a layout, with the field ids that Parquet has for them.

    There is an id for each of the columns of the layout. What is inside of a leaf has the ids after that of the leaf,
    one for each element, key, value and field, from the outside in.
    """
    root, numbers = layout.root, iter(ids)
    fields = [] if root.struct is None else _numbered_fields(root.struct, numbers)
    shape = _numbered(pa.field(SHAPE, SHAPE_TYPE, nullable=False), count(SHAPE_ID))
    leaves = [_numbered(leaf, count(next(numbers))) for leaf in _leaf_fields(root)]
    return pa.schema([shape, *fields, *leaves])


def _numbered_fields(struct: Struct, ids: Iterator[int]) -> list[pa.Field]:
    fields = []
    for slot in struct.fields.values():
        if slot.struct is not None:
            metadata = {_FIELD_ID: str(next(ids))}
            inner = pa.bool_() if slot.struct.is_bare else pa.struct(_numbered_fields(slot.struct, ids))
            fields.append(pa.field(slot.struct.column[-1], inner, metadata=metadata))
        fields += [_numbered(leaf, count(next(ids))) for leaf in _leaf_fields(slot)]
    return fields


def _numbered(field: pa.Field, ids: Iterator[int]) -> pa.Field:
    field = field.with_metadata({_FIELD_ID: str(next(ids))})
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_numbered(inner, ids) for inner in field.type]))
    if pa.types.is_list(field.type):
        return field.with_type(pa.list_(_numbered(field.type.value_field, ids)))
    return field


# ---- parts to tables

Held = list[tuple[int, pa.Array]]
"""Chunks of a column, each with the shape that it belongs to."""


class MapAll(Protocol):
    """`map`, or the same on several threads."""

    def __call__(
        self, work: Callable[[Held], pa.Array | None], items: Sequence[Held], /
    ) -> Iterable[pa.Array | None]: ...


class Fuser:
    """Brings parts, the chunks of a column for each shape, together in one table."""

    def __init__(self, layout: Layout, columns: Sequence[pa.ChunkedArray], map_all: MapAll = map) -> None:
        """`columns` are those of the shapes of the layout, in their order; a row is counted through all of them.

        `map_all` may join the chunks of several columns at a time.
        """
        self.layout = layout
        self.lengths = np.array([len(c) for c in columns], np.int64)
        self.leaves: list[Held] = [[] for _ in layout.leaves]
        self.structs: list[list[tuple[int, Mask | int]]] = [[] for _ in layout.structs]
        """Which rows of a chunk have the struct; a number is the length of one of which all have it."""
        for shape, (form, column) in enumerate(zip(layout.forms, columns, strict=True)):
            for chunk in column.chunks:
                self._take_apart(shape, form, chunk)
        self.joined = list(map_all(_join, self.leaves))

    def _take_apart(self, shape: int, form: Form, column: pa.Array) -> None:
        if isinstance(form, Leaf):
            self.leaves[form.index].append((shape, column))
        elif isinstance(form, RecordForm):
            valid = kernels.valid_rows(column) if column.null_count else len(column)
            self.structs[form.struct.index].append((shape, valid))
            if isinstance(column, pa.StructArray):
                for inner, child in zip(form.fields, column.flatten(), strict=True):
                    self._take_apart(shape, inner, child)

    def table(self, rows: Rows) -> pa.Table:
        """These rows, in this order."""
        return _Gatherer(self, rows).table()

    def everything(self) -> pa.Table:
        """All rows, shape after shape."""
        return self.table(np.arange(int(self.lengths.sum()), dtype=np.int64))


def _join(held: Held) -> pa.Array | None:
    return pa.concat_arrays([chunk for _, chunk in held]) if held else None


class _Picked(NamedTuple):
    """Where rows are among those of some shapes, laid end to end."""

    places: Places
    absent: Mask | None
    """Which rows are of other shapes; None if there are none."""
    selection: kernels.Selection


class _Gatherer:
    """Gathers some rows of all columns."""

    def __init__(self, fuser: Fuser, rows: Rows) -> None:
        self._lengths, self._layout = fuser.lengths, fuser.layout
        self._leaves, self._structs, self._joined = fuser.leaves, fuser.structs, fuser.joined
        # Places of rows are kept for each set of shapes: half as many bytes are read in less time, too.
        self._rows: Places = rows.astype(np.int32) if int(self._lengths.sum()) < 1 << 31 else rows
        ends = np.cumsum(self._lengths)
        self._starts = ends - self._lengths
        self._shapes: Codes = np.zeros(len(rows), np.int32)
        if len(self._lengths) > 1:
            self._shapes = np.searchsorted(ends, rows, side="right").astype(np.int32)
        self._picked: dict[tuple[int, ...], _Picked] = {}

    def table(self) -> pa.Table:
        shapes, root = self._shapes, self._layout.root
        columns = [self._codes(shapes)]
        if root.struct is not None:
            columns += self._struct_columns(root.struct)
        columns += [self._leaf(leaf) for leaf in root.leaves.values()]
        return pa.Table.from_arrays(columns, schema=schema(self._layout))

    def _codes(self, shapes: Codes) -> pa.Array:
        nulls = [] if self._layout.root.struct is None else self._structs[self._layout.root.struct.index]
        if all(isinstance(valid, int) for _, valid in nulls):
            return kernels.integers(shapes, SHAPE_TYPE)
        is_null = np.zeros(int(self._lengths.sum()), bool)
        starts = dict(enumerate(self._starts.tolist()))
        for shape, valid in nulls:
            size = valid if isinstance(valid, int) else len(valid)
            if not isinstance(valid, int):
                is_null[starts[shape] : starts[shape] + size] = ~valid
            starts[shape] += size
        return kernels.integers(np.where(is_null[self._rows], null_code(shapes), shapes), SHAPE_TYPE)

    def _struct_columns(self, struct: Struct) -> list[pa.Array]:
        return [column for slot in struct.fields.values() for column in self._slot(slot)]

    def _slot(self, slot: Slot) -> list[pa.Array]:
        columns = [] if slot.struct is None else [self._struct(slot.struct)]
        return columns + [self._leaf(leaf) for leaf in slot.leaves.values()]

    def _struct(self, struct: Struct) -> pa.Array:
        parts = self._structs[struct.index]
        picked, absent, _ = self._pick(parts)
        valid = None if absent is None else ~absent
        if not all(isinstance(own, int) for _, own in parts):
            whole = np.concatenate([np.ones(own, bool) if isinstance(own, int) else own for _, own in parts])
            picked = picked if absent is None else np.where(absent, 0, picked)
            inside = whole[picked] if len(whole) else np.zeros(len(self._rows), bool)
            valid = inside if valid is None else inside & valid
        if struct.is_bare:
            return pa.array(np.ones(len(self._rows), bool), mask=None if valid is None else ~valid)
        nulls = None if valid is None else ~valid
        return kernels.structs(struct_type(struct), self._struct_columns(struct), nulls, len(self._rows))

    def _leaf(self, leaf: Leaf) -> pa.Array:
        joined = self._joined[leaf.index]
        assert joined is not None
        return self._pick(self._leaves[leaf.index]).selection.take(joined)

    def _pick(self, parts: Sequence[tuple[int, Any]]) -> _Picked:
        """Where the rows are among those of these parts."""
        shapes = tuple(dict.fromkeys(shape for shape, _ in parts))
        picked = self._picked.get(shapes)
        if picked is None:
            picked = self._picked[shapes] = self._find(shapes)
        return picked

    def _find(self, shapes: tuple[int, ...]) -> _Picked:
        if len(shapes) == len(self._lengths):
            return _Picked(self._rows, None, kernels.Selection(self._rows))
        moves = np.zeros(len(self._lengths), self._rows.dtype)
        absent = np.ones(len(self._lengths), bool)
        start = 0
        for shape in shapes:
            moves[shape], absent[shape] = start - self._starts[shape], False
            start += self._lengths[shape]
        mask = absent[self._shapes]
        places = self._rows + moves[self._shapes]
        return _Picked(places, mask, kernels.Selection(places, mask))


# ---- tables to parts


class Columns(Protocol):
    """Where the columns of a layout are."""

    def shapes(self) -> pa.Array:
        """The shape of each row."""

    def leaf(self, leaf: Leaf) -> pa.Array:
        """The column of a leaf, in its physical type."""

    def nulls(self, struct: Struct) -> pa.Array | None:
        """Which rows have no such struct; None if none of those that should."""


class TableColumns:
    """The columns of a table in the layout."""

    def __init__(self, table: pa.Table) -> None:
        self._columns: dict[Path, pa.Array] = {
            (name,): kernels.whole(table.column(name)) for name in table.column_names
        }
        """By their names, after those of the structs that they are in; those inside of structs once they were needed.

        Many shapes share a struct, and to take a field out of one combines the nulls of both.
        """

    def shapes(self) -> pa.Array:
        return self._columns[SHAPE,]

    def leaf(self, leaf: Leaf) -> pa.Array:
        return self._find(leaf.column)

    def nulls(self, struct: Struct) -> pa.Array | None:
        column = self._find(struct.column)
        return kernels.booleans(~kernels.valid_rows(column)) if column.null_count else None

    def _find(self, names: Path) -> pa.Array:
        column = self._columns.get(names)
        if column is None:
            column = self._columns[names] = kernels.field(self._find(names[:-1]), names[-1:])
        return column


def to_batch(layout: Layout, columns: Columns) -> Batch:
    """The rows of a table as parts, one for each shape that occurs."""
    codes = columns.shapes().to_numpy()
    parts = []
    nulls = codes < 0
    shapes = np.where(nulls, null_code(codes), codes) if nulls.any() else codes
    for shape, rows in rows_by_code(shapes):
        picked = None if len(rows) == len(codes) else kernels.Selection(rows)
        is_null = nulls[rows] if shapes is not codes else None
        column = _Unfuser(columns, picked, len(rows), is_null).column(layout.shapes[shape], layout.forms[shape])
        parts.append(Part(layout.shapes[shape], column, rows))
    return Batch(tuple(parts), len(codes))


def column_of_shape(columns: Columns, rows: Rows, shape: t.Type, form: Form) -> pa.Array:
    """Some rows as values of a shape, which may lie below the top: in the physical form of their type."""
    return _Unfuser(columns, kernels.Selection(rows), len(rows), None).column(shape, form)


class _Unfuser:
    """Makes the column of one shape."""

    def __init__(self, columns: Columns, rows: kernels.Selection | None, length: int, nulls: Mask | None) -> None:
        self._columns = columns
        self._rows = rows
        self._length = length
        self._nulls = nulls
        """Which records at the top are null."""

    def column(self, shape: t.Type, form: Form) -> pa.Array:
        if form is None:
            return pa.nulls(self._length, arrow_type(t.NULL))
        if isinstance(form, Leaf):
            return self._picked(self._columns.leaf(form))
        under = shape.under
        assert isinstance(under, t.Record)
        mask = self._mask(form.struct)
        if not under.fields:
            return pa.array(np.ones(self._length, bool), mask=mask)
        columns = [self.column(f.type, inner) for f, inner in zip(under.fields, form.fields, strict=True)]
        return kernels.structs(arrow_type(shape), columns, mask, self._length)

    def _mask(self, struct: Struct) -> Mask | None:
        if not struct.column:
            return self._nulls
        nulls = self._columns.nulls(struct)
        return None if nulls is None else self._picked(nulls).to_numpy(zero_copy_only=False)

    def _picked(self, column: pa.Array) -> pa.Array:
        return column if self._rows is None else self._rows.take(column)
