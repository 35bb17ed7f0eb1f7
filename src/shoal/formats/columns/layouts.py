"""How values of several shapes lie in the columns of one table: the layout of their shapes.

Records at one path share a struct, whose fields are those of all of them. Values that are not records have a column
for each type at their path; names of types make no difference, since the shape of a row restores them. A null
without a type has no column. At the top the fields of records are the columns of the table, and values that are not
records are in columns named `$value`; `$shape` is the index of the shape of each row.

A layout follows from its shapes, in their order, and from the names of its columns, if they are given:

- Fields stand in the order in which the shapes bring them; at one path the struct comes first, the types after it
  in their canonical order.
- Where no names are given, the first column at a path has the name of the field, any other one `field$type`, as far
  as those are free. A pool gives names, so that a column has the same one in all of its objects.
- A struct that no column would be in is a column of bools: true where it is not null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from shoal.errors import CorruptData
from shoal.model import types as t
from shoal.model.node import frozen

SHAPE = "$shape"
VALUE = "$value"
Path: TypeAlias = tuple[str, ...]


@frozen
class Leaf:
    """A column of values of one type."""

    path: Path
    type: t.Type
    """Without names."""
    column: Path
    """The name of the column, after those of the structs that it is in."""
    index: int
    """Its place among the leaves of the layout."""


@dataclass(slots=True)
class Struct:
    """The records at a path, fused; at the top it is the table itself."""

    path: Path
    column: Path
    index: int
    """Its place among the structs of the layout."""
    fields: dict[str, Slot] = field(default_factory=dict)

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing in it, so that it is a column of bools."""
        return not any(slot.struct is not None or slot.leaves for slot in self.fields.values())


@dataclass(slots=True)
class Slot:
    """What there is at a path: a struct for records, and a leaf for each other type."""

    struct: Struct | None = None
    leaves: dict[t.Type, Leaf] = field(default_factory=dict)


@frozen
class RecordForm:
    """Where a record of some shape has its fields."""

    type: t.Type
    struct: Struct
    fields: tuple[Form, ...]


Form: TypeAlias = RecordForm | Leaf | None
"""Where a value of some shape lies; None is a null of no type, which lies nowhere."""


class Layout:
    """The columns for values of some shapes."""

    def __init__(self, shapes: Iterable[t.Type], names: Sequence[str] = ()) -> None:
        """`names` are those of `columns`, in their order; without any, the shapes decide on them."""
        self.shapes: tuple[t.Type, ...] = tuple(shapes)
        self.given = tuple(names)
        """The names, as far as they do not follow from the shapes."""
        self.leaves: list[Leaf] = []
        self.structs: list[Struct] = []
        self.columns: list[Struct | Leaf] = []
        """Structs and leaves as they are nested: a struct before what is in it. The root is not among them."""
        self.root = _Namer(self).root(self.shapes)
        self.forms: tuple[Form, ...] = tuple(form_of(shape, self.root) for shape in self.shapes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in their order."""
        return tuple(node.column[-1] for node in self.columns)


@lru_cache(maxsize=512)
def layout_of(shapes: tuple[t.Type, ...], names: tuple[str, ...] = ()) -> Layout:
    """The layout of some shapes; objects of a pool mostly have the same ones."""
    return Layout(shapes, names)


def named_layout(shapes: tuple[t.Type, ...], names: tuple[str, ...]) -> Layout:
    """The layout of some shapes with these names; if they follow from the shapes, they are not given."""
    derived = layout_of(shapes)
    return derived if names == derived.names else layout_of(shapes, names)


def form_of(shape: t.Type, slot: Slot) -> Form:
    """Where values of a shape lie, given what there is at their path."""
    under = shape.under
    if under is t.NULL:
        return None
    if isinstance(under, t.Record):
        assert slot.struct is not None
        fields = slot.struct.fields
        return RecordForm(shape, slot.struct, tuple(form_of(f.type, fields[f.name]) for f in under.fields))
    return slot.leaves[bare(shape)]


_BARE: t.MemoKey[t.Type] = t.MemoKey("bare")


def bare(typ: t.Type) -> t.Type:
    """A type without names, at any depth: what distinguishes columns at one path."""
    cached = typ.memo.get(_BARE)
    if cached is None:
        cached = typ.memo[_BARE] = _bare(typ.under)
    return cached


def _bare(typ: t.Type) -> t.Type:
    match typ:
        case t.Record(fields=fields):
            return t.record((f.name, bare(f.type)) for f in fields)
        case t.Array(elem=elem):
            return t.array(bare(elem))
        case t.Set(elem=elem):
            return t.set_of(bare(elem))
        case t.Error(inner=inner):
            return t.error(bare(inner))
        case t.Map() | t.Union():
            # Names decide about the order of keys and members, so they stay.
            return typ
    return typ


# ---- which columns there are


@dataclass(slots=True)
class _PathTypes:
    """What stands at a path in some of the shapes."""

    is_record: bool = False
    fields: dict[str, _PathTypes] = field(default_factory=dict)
    types: dict[t.Type, None] = field(default_factory=dict)
    inner: int = 0
    """How many columns the fields take."""

    def add(self, shape: t.Type) -> int:
        """Add what a shape has here; how many more columns that takes."""
        under, before = shape.under, self.count()
        if isinstance(under, t.Record):
            self.is_record = True
            for name, typ in under.fields:
                self.inner += self.fields.setdefault(name, _PathTypes()).add(typ)
        elif under is not t.NULL:
            self.types[bare(shape)] = None
        return self.count() - before

    def count(self) -> int:
        """How many columns it takes."""
        return len(self.types) + (max(1, self.inner) if self.is_record else 0)


class _Namer:
    """Gives names to columns."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._given = iter(layout.given) if layout.given else None

    def root(self, shapes: Sequence[t.Type]) -> Slot:
        types_here = _PathTypes()
        for shape in shapes:
            types_here.add(shape)
        slot, used = Slot(), {SHAPE}
        if types_here.is_record:
            slot.struct = self._struct((), (), types_here, used)
        self._add_leaves(slot, types_here, VALUE, (), (), used, is_first=True)
        if self._given is not None and next(self._given, None) is not None:
            raise CorruptData("a layout with more names than columns")
        return slot

    def _name(self, plain: str, used: set[str]) -> str:
        if self._given is None:
            return free_name(plain, used)
        name = next(self._given, None)
        if name is None:
            raise CorruptData("a layout with fewer names than columns")
        return name

    def _struct(self, path: Path, column: Path, types_here: _PathTypes, used: set[str]) -> Struct:
        struct = Struct(path, column, len(self._layout.structs))
        self._layout.structs.append(struct)
        if path:
            self._layout.columns.append(struct)
        for name, inner in types_here.fields.items():
            struct.fields[name] = self._slot((*path, name), column, inner, used)
        return struct

    def _slot(self, path: Path, above: Path, types_here: _PathTypes, used: set[str]) -> Slot:
        slot = Slot()
        name = path[-1]
        if types_here.is_record:
            slot.struct = self._struct(path, (*above, self._name(name, used)), types_here, set())
        self._add_leaves(slot, types_here, name, path, above, used, is_first=not types_here.is_record)
        return slot

    def _add_leaves(
        self, slot: Slot, types_here: _PathTypes, name: str, path: Path, above: Path, used: set[str], is_first: bool
    ) -> None:
        for typ in t.unique_types(types_here.types):
            plain = name if is_first else f"{name}${type_word(typ)}"
            is_first = False
            leaf = Leaf(path, typ, (*above, self._name(plain, used)), len(self._layout.leaves))
            self._layout.leaves.append(leaf)
            self._layout.columns.append(leaf)
            slot.leaves[typ] = leaf


def type_word(typ: t.Type) -> str:
    """What a type is called in the names of columns."""
    if isinstance(typ, t.Decimal):
        return "decimal"
    return typ.name if isinstance(typ, t.Primitive) else typ.kind


def free_name(name: str, used: set[str]) -> str:
    """A name of a column that is not taken yet, for engines that ignore case.

    A taken one gets `$2`, `$3` and so on; an empty name is `$empty`, and a zero byte `$0`.
    """
    name = name.replace("\0", "$0") or "$empty"
    candidate, number = name, 1
    while candidate.lower() in used:
        number += 1
        candidate = f"{name}${number}"
    used.add(candidate.lower())
    return candidate


def physical_names(typ: t.Record) -> list[str]:
    """The names of the fields of a record where it is one column with its parts."""
    used: set[str] = set()
    return [free_name(f.name, used) for f in typ.fields]


def node_count(typ: t.Type) -> int:
    """How many nodes a column of a type has in Parquet, with groups and without the repeated ones of lists."""
    typ = typ.under
    match typ:
        case t.Record(fields=fields):
            return 1 + sum(node_count(f.type) for f in fields)
        case t.Array(elem=elem) | t.Set(elem=elem):
            return 1 + node_count(elem)
        case t.Map(key=key, value=value):
            return 2 + node_count(key) + node_count(value)
        case t.Union(types=types):
            return 2 + sum(map(node_count, types))
        case t.Error(inner=inner):
            return node_count(inner)
        case _:
            return 1


def choose_shapes(shapes: Sequence[t.Type], most_shapes: int, most_columns: int) -> int:
    """How many of the shapes, from the first on, fit into a layout within these limits."""
    types_here = _PathTypes()
    for place, shape in enumerate(shapes):
        types_here.add(shape)
        if place >= most_shapes or types_here.count() > most_columns:
            return place
    return len(shapes)
