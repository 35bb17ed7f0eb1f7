"""The form of a table: the columns of a layout in plain types, whatever layouts its rows come in.

A layout gives each path and type a column and a name; the form leaves out `$shape`, which SQL has no use for. A table
without any column, as an empty pool is, has one: `$value`, which is always null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from shoal.engines.tables.plain import Style, TooFine, plain_type, to_plain
from shoal.errors import InvalidInput, Unsupported
from shoal.formats.columns.fusion import Columns, Mask
from shoal.formats.columns.layouts import VALUE, Form, Layout, Leaf, Path, RecordForm, Slot, Struct, layout_of
from shoal.model import types as t

MOST_COLUMNS = 10_000
"""What a table may have."""
_WAY_OUT = "read times as integers, of nanoseconds, with the option times=integers"


@dataclass(frozen=True)
class TableForm:
    """The columns of a table. It can be pickled."""

    shapes: tuple[t.Type, ...]
    style: Style
    names: frozenset[str] | None = None
    """The columns to read, in lower case; None for all."""
    layout: Layout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", layout_of(self.shapes))
        if len(self.layout.leaves) > MOST_COLUMNS:
            what = f"{len(self.layout.leaves)} columns are more than the {MOST_COLUMNS} that a table may have"
            raise Unsupported(f"{what} (choose some fields by a query: cut a, b)")

    def __reduce__(self) -> tuple[object, ...]:
        return TableForm, (self.shapes, self.style, self.names)

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types."""
        fields = [field for slot in self.slots() for field in self._fields(slot) if self.is_wanted(field.name)]
        return pa.schema(fields or [pa.field(VALUE, pa.bool_())])

    def slots(self) -> list[Slot]:
        """Those at the top: the fields of records, and values that are not records."""
        root = self.layout.root
        inner = [] if root.struct is None else list(root.struct.fields.values())
        return [*inner, Slot(None, root.leaves)]

    def is_wanted(self, name: str) -> bool:
        """Whether a column at the top is in the table."""
        return self.names is None or name.lower() in self.names

    def leaf_at(self, names: Path) -> Leaf | None:
        """The leaf of a column, by its names, the case of which makes no difference."""
        return self._by_names.get(tuple(name.lower() for name in names))

    @cached_property
    def _by_names(self) -> dict[Path, Leaf]:
        return {tuple(name.lower() for name in leaf.column): leaf for leaf in self.layout.leaves}

    def _fields(self, slot: Slot) -> Iterator[pa.Field]:
        if slot.struct is not None:
            yield pa.field(slot.struct.column[-1], self.struct_type(slot.struct))
        for leaf in slot.leaves.values():
            yield pa.field(leaf.column[-1], plain_type(leaf.type, self.style))

    def struct_type(self, struct: Struct) -> pa.DataType:
        """The plain type of a struct."""
        if struct.is_bare:
            return pa.bool_()
        return pa.struct([field for slot in struct.fields.values() for field in self._fields(slot)])


def source_slot(slot: Slot | None, name: str) -> Slot | None:
    """The slot of a field in another layout; None if there is no such field."""
    return None if slot is None or slot.struct is None else slot.struct.fields.get(name)


class Projection:
    """Brings rows of some layout into the form of a table."""

    def __init__(self, form: TableForm, source: Layout) -> None:
        self._form = form
        self._source = source
        self._leaf_shapes, self._struct_shapes = _holders(source)

    def top_columns(self) -> list[str]:
        """The columns at the top of the source that are needed."""
        leaves = [leaf.column[0] for leaf in self._source.leaves if self.needs(leaf.path)]
        structs = [s.column[0] for s in self._source.structs if s.column and self.needs(s.path)]
        return list(dict.fromkeys((*leaves, *structs)))

    def needs(self, path: Path) -> bool:
        """Whether something at a path goes into the table."""
        return self._form.names is None or any(
            self._form.is_wanted(name) for name in _top_names(self._form.layout.root, path)
        )

    def batch(self, columns: Columns) -> pa.RecordBatch:
        """Rows in the form of the table."""
        return _Projecting(self._form, self._source, columns, self._leaf_shapes, self._struct_shapes).batch()


def _top_names(root: Slot, path: Path) -> list[str]:
    """The names that the columns of a table have for what is at, or under, the first field of a path."""
    slot = root if not path else source_slot(root, path[0])
    if slot is None:
        return []
    struct = [slot.struct.column[0]] if path and slot.struct is not None else []
    return [*struct, *(leaf.column[0] for leaf in slot.leaves.values())]


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
        columns: Columns,
        leaf_shapes: list[set[int]],
        struct_shapes: list[set[int]],
    ) -> None:
        self._form, self._layout, self._columns = form, source, columns
        self._leaf_shapes, self._struct_shapes = leaf_shapes, struct_shapes
        self._codes = columns.shapes().to_numpy()
        self._masks: dict[frozenset[int], Mask | None] = {}

    def batch(self) -> pa.RecordBatch:
        root = self._form.layout.root
        source = self._layout.root
        columns: list[pa.Array] = []
        for name in [] if root.struct is None else root.struct.fields:
            assert root.struct is not None
            columns += self._slot(root.struct.fields[name], source_slot(source, name), is_top=True)
        columns += self._slot(Slot(None, root.leaves), source, is_top=True)
        schema = self._form.schema
        return pa.RecordBatch.from_arrays(columns or [pa.nulls(len(self._codes), schema.field(0).type)], schema=schema)

    def _slot(self, target: Slot, source: Slot | None, is_top: bool = False) -> Iterator[pa.Array]:
        if target.struct is not None and not (is_top and not self._form.is_wanted(target.struct.column[0])):
            yield self._struct(target.struct, None if source is None else source.struct)
        for typ, leaf in target.leaves.items():
            if not is_top or self._form.is_wanted(leaf.column[0]):
                yield self._leaf(leaf, None if source is None else source.leaves.get(typ))

    def _leaf(self, target: Leaf, source: Leaf | None) -> pa.Array:
        if source is None:
            return pa.nulls(len(self._codes), plain_type(target.type, self._form.style))
        column = self._columns.leaf(source)
        absent = self._absent(self._leaf_shapes[source.index])
        try:
            return to_plain(source.type, column if absent is None else _blanked(column, absent), self._form.style)
        except TooFine as e:
            raise InvalidInput(f"column {'.'.join(target.column)}: {e} ({_WAY_OUT})") from None
        except InvalidInput as e:
            raise InvalidInput(f"column {'.'.join(target.column)}: {e}") from None

    def _struct(self, target: Struct, source: Struct | None) -> pa.Array:
        typ = self._form.struct_type(target)
        if source is None:
            return pa.nulls(len(self._codes), typ)
        nulls = self._columns.nulls(source)
        absent = self._absent(self._struct_shapes[source.index])
        if nulls is not None:
            own = nulls.to_numpy(zero_copy_only=False)
            absent = own if absent is None else absent | own
        if target.is_bare:
            return pa.array(np.ones(len(self._codes), bool), mask=absent)
        fields = [array for name, slot in target.fields.items() for array in self._slot(slot, source.fields.get(name))]
        return pa.StructArray.from_arrays(fields, fields=list(typ), mask=None if absent is None else pa.array(absent))

    def _absent(self, shapes: set[int]) -> Mask | None:
        """Which rows are of none of some shapes; what a column has there may mean nothing."""
        key = frozenset(shapes)
        if key not in self._masks:
            is_everywhere = len(shapes) == len(self._layout.shapes)
            mask = self._codes < 0 if is_everywhere else ~np.isin(self._codes, list(shapes))
            self._masks[key] = mask if mask.any() else None
        return self._masks[key]


def _blanked(column: pa.Array, absent: Mask) -> pa.Array:
    """A column with nulls where it means nothing."""
    if column.null_count == len(column) or not (column.is_valid().to_numpy(zero_copy_only=False) & absent).any():
        return column
    return column.take(pa.array(np.arange(len(column)), mask=absent))
