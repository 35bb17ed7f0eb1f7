"""Brings rows of some layout into the form of a table, in Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from shoal.engines.tables.forms import Column, TableForm
from shoal.engines.tables.plain import Style, TooFine, merged, plain_type, text_of, to_common
from shoal.errors import InvalidInput
from shoal.formats.columns.fusion import Columns, Mask, column_of_shape
from shoal.formats.columns.layouts import VALUE, Form, Layout, Leaf, Path, RecordForm, Slot, Struct, bare
from shoal.formats.columns.physical import from_arrow
from shoal.model import types as t

WAY_OUT = "read times as integers, of nanoseconds, with the option times=integers"


def slot_at(root: Slot, path: Path) -> Slot | None:
    """What a layout has at a path; None if it has nothing there."""
    slot: Slot | None = Slot(None, root.leaves) if not path else root
    for name in path:
        slot = None if slot is None or slot.struct is None else slot.struct.fields.get(name)
    return slot


def present_root(layout: Layout, present: Collection[int]) -> Slot:
    """What a layout has for some of its shapes. Columns of the others hold rows that are hidden, and no values."""
    if len(present) == len(layout.shapes):
        return layout.root
    root = Slot()
    for index in sorted(present):
        _add_form(root, layout.forms[index])
    return root


def _add_form(slot: Slot, form: Form) -> None:
    if isinstance(form, Leaf):
        slot.leaves.setdefault(form.type, form)
    elif isinstance(form, RecordForm):
        if slot.struct is None:
            slot.struct = Struct(form.struct.path, form.struct.column, form.struct.index)
        under = form.type.under
        assert isinstance(under, t.Record)
        for field, inner in zip(under.fields, form.fields, strict=True):
            _add_form(slot.struct.fields.setdefault(field.name, Slot()), inner)


def path_name(leaf: Leaf) -> str:
    """What messages call a column."""
    return ".".join(leaf.path) or VALUE


def convert_leaf(typ: t.Type, common: t.Type, column: pa.Array, style: Style, name: str) -> pa.Array:
    """Values of a type in a common type; an error names the column."""
    try:
        return to_common(typ, common, column, style)
    except TooFine as e:
        raise InvalidInput(f"column {name}: {e} ({WAY_OUT})") from None
    except InvalidInput as e:
        raise InvalidInput(f"column {name}: {e}") from None


class Projection:
    """Brings rows of a layout into the form of a table."""

    def __init__(self, form: TableForm, source: Layout, present: Collection[int] | None = None) -> None:
        """`present` are the indexes of the shapes that there are values of."""
        self._form = form
        self._source = source
        self._root = source.root if present is None else present_root(source, present)
        self._leaf_shapes, self._struct_shapes = _holders(source)

    def top_columns(self) -> list[str]:
        """The columns at the top of the source that are needed."""
        paths = {column.path[:1] for column in self._form.columns}
        leaves = [leaf.column[0] for leaf in self._source.leaves if leaf.path[:1] in paths]
        structs = [s.column[0] for s in self._source.structs if s.column and s.path[:1] in paths]
        return list(dict.fromkeys((*leaves, *structs)))

    @cached_property
    def has_record_texts(self) -> bool:
        """Whether records become texts, because other rows of the table have something else in their place."""
        return any(
            _has_record_texts(slot_at(self._root, column.path), column.type)
            for column in self._form.columns
            if not column.is_exact
        )

    def batch(self, columns: Columns) -> pa.RecordBatch:
        """Rows in the form of the table."""
        return _Projecting(
            self._form, self._source, self._root, columns, self._leaf_shapes, self._struct_shapes
        ).batch()


def _has_record_texts(slot: Slot | None, typ: t.Type) -> bool:
    if slot is None or slot.struct is None:
        return False
    if not isinstance(typ, t.Record):
        return True
    return any(_has_record_texts(slot.struct.fields.get(f.name), f.type) for f in typ.fields)


def _holders(layout: Layout) -> tuple[list[set[int]], list[set[int]]]:
    """The shapes that have each leaf, and each struct."""
    leaves: list[set[int]] = [set() for _ in layout.leaves]
    structs: list[set[int]] = [set() for _ in layout.structs]

    def visit(shape: int, form: Form) -> None:
        if isinstance(form, Leaf):
            leaves[form.index].add(shape)
        elif isinstance(form, RecordForm):
            structs[form.struct.index].add(shape)
            for inner in form.fields:
                visit(shape, inner)

    for shape, form in enumerate(layout.forms):
        visit(shape, form)
    return leaves, structs


class _Projecting:
    """One batch on its way."""

    def __init__(
        self,
        form: TableForm,
        source: Layout,
        root: Slot,
        columns: Columns,
        leaf_shapes: list[set[int]],
        struct_shapes: list[set[int]],
    ) -> None:
        self._form, self._layout, self._root, self._columns = form, source, root, columns
        self._leaf_shapes, self._struct_shapes = leaf_shapes, struct_shapes
        self._codes = columns.shapes().to_numpy()
        self._masks: dict[frozenset[int], Mask | None] = {}

    def batch(self) -> pa.RecordBatch:
        arrays = [self._top(column) for column in self._form.columns]
        schema, count = self._form.schema, len(self._codes)
        arrays += [pa.nulls(count, field.type) for field in list(schema)[len(arrays) :]]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _top(self, column: Column) -> pa.Array:
        slot = slot_at(self._root, column.path)
        if not column.is_exact:
            return self._slot(slot, column.path, column.type)
        leaf = None if slot is None else slot.leaves.get(column.type)
        return self._merged([] if leaf is None else [self._leaf(leaf, column.type)], column.type)

    def _slot(self, slot: Slot | None, path: Path, typ: t.Type) -> pa.Array:
        if slot is None:
            return self._merged([], typ)
        if isinstance(typ, t.Record):
            return self._struct(slot.struct, path, typ)
        arrays = [self._leaf(leaf, typ) for leaf in slot.leaves.values()]
        if slot.struct is not None:
            arrays.append(self._record_texts(slot.struct, path))
        return self._merged(arrays, typ)

    def _merged(self, arrays: Sequence[pa.Array], typ: t.Type) -> pa.Array:
        return merged(arrays, plain_type(typ, self._form.style), len(self._codes))

    def _leaf(self, leaf: Leaf, typ: t.Type) -> pa.Array:
        column = self._columns.leaf(leaf)
        absent = self._absent(self._leaf_shapes[leaf.index])
        values = column if absent is None else _blanked(column, absent)
        return convert_leaf(leaf.type, typ, values, self._form.style, path_name(leaf))

    def _struct(self, source: Struct | None, path: Path, typ: t.Record) -> pa.Array:
        if source is None:
            return self._merged([], typ)
        absent = self._absent_struct(source)
        if not typ.fields:
            return pa.array(np.ones(len(self._codes), bool), mask=absent)
        arrays = [self._slot(source.fields.get(f.name), (*path, f.name), f.type) for f in typ.fields]
        fields = list(plain_type(typ, self._form.style))
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=None if absent is None else pa.array(absent))

    def _absent_struct(self, struct: Struct) -> Mask | None:
        absent = self._absent(self._struct_shapes[struct.index])
        nulls = self._columns.nulls(struct)
        if nulls is None:
            return absent
        own: Mask = nulls.to_numpy(zero_copy_only=False)
        return own if absent is None else absent | own

    def _record_texts(self, struct: Struct, path: Path) -> pa.Array:
        """The texts of records, each of its own shape: a field that only others have is not in it."""
        texts: list[str | None] = [None] * len(self._codes)
        for shape in self._struct_shapes[struct.index]:
            rows = np.flatnonzero(self._codes == shape)
            for typ, form in _below(self._layout.shapes[shape], self._layout.forms[shape], path):
                data = from_arrow(typ, column_of_shape(self._columns, rows, typ, form))
                for row, each in zip(rows.tolist(), data, strict=True):
                    texts[row] = None if each is None else text_of(bare(typ), each)
        return pa.array(texts, pa.string())

    def _absent(self, shapes: set[int]) -> Mask | None:
        """Which rows are of none of some shapes; what a column has there may mean nothing."""
        key = frozenset(shapes)
        if key not in self._masks:
            is_everywhere = len(shapes) == len(self._layout.shapes)
            mask = self._codes < 0 if is_everywhere else ~np.isin(self._codes, list(shapes))
            self._masks[key] = mask if mask.any() else None
        return self._masks[key]


def _below(shape: t.Type, form: Form, path: Path) -> Iterator[tuple[t.Type, Form]]:
    """The record type of a shape at a path, and where it lies."""
    for name in path:
        under = shape.under
        if not isinstance(form, RecordForm) or not isinstance(under, t.Record) or name not in under.index:
            return
        index = under.index[name]
        shape, form = under.fields[index].type, form.fields[index]
    if isinstance(form, RecordForm):
        yield shape, form


def _blanked(column: pa.Array, absent: Mask) -> pa.Array:
    """A column with nulls where it means nothing."""
    if column.null_count == len(column) or not (column.is_valid().to_numpy(zero_copy_only=False) & absent).any():
        return column
    return column.take(pa.array(np.arange(len(column)), mask=absent))
