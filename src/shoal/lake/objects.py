"""Data objects: what a commit says of them, and where they are.

The bytes of an object are immutable, and sorted by the pool key. It has one of two forms: `column_form` or `row_form`.
Its description changes when rows of it are hidden: the object at a commit is its bytes less its mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from enum import Enum
from functools import lru_cache

from shoal.errors import CorruptData, NotFound
from shoal.ids import SIZE, Id, to_text
from shoal.lake.keys import KeyRange, SortKey, sorted_indices
from shoal.model import types as t
from shoal.model.fields import KSUID, NO_ID, get, get_data, get_id
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.zcode import Data

LARGEST_RUN = 256 << 20
"""How many bytes of values are sorted at a time, which bounds what an object holds."""
LARGE = 48 << 20
"""Bytes of values from which on an object is large enough to be left alone, and a run to be written as several."""
DATA = "data"
"""The folder of a pool that has its data objects."""
MASKS = "masks"
"""The folder of a pool that has large row masks."""
LINEAGE = "lineage"
"""The folder of a pool that has large lineages."""
_SHAPE = t.record((("shape", t.TYPE), ("count", t.UINT64)))
_MASK = t.record((
    ("count", t.UINT64), ("data", t.BYTES), ("id", KSUID), ("size", t.UINT64), ("checksum", t.UINT32),
))  # fmt: skip
_LINEAGE = t.record((("data", t.BYTES), ("size", t.UINT64), ("checksum", t.UINT32)))
_EXTERNAL_FILE = t.record((
    ("uri", t.STRING), ("modified", t.INT64), ("etag", t.STRING), ("constants", t.array(t.BYTES)),
))  # fmt: skip

_NAMED_COLUMNS = "named columns"
"""What a description calls the column form of an object whose shapes alone do not give the names of its columns.

Version 0.1.0 takes names from the shapes, and refuses a form that it does not know.
"""
_TYPED_COLUMNS = "typed columns"
"""Column form with types of columns that versions before 0.2 do not know: they refuse it."""
_WITH = ", "
"""Joins the name of a form and the names of what a reader has to know beside it. Who does not know it refuses it."""
_MASKED = "mask"
_INLINE = "inline"
_EXTERNAL = "external"
_KNOWN = frozenset((_MASKED, _INLINE, _EXTERNAL))


class Form(Enum):
    """How the values of an object lie in the store."""

    COLUMNS = "parquet"
    ROWS = "zng"


@frozen
class RowMask:
    """Which rows of an object are hidden: a Roaring bitmap, here or in an object of its own."""

    count: int
    """How many."""
    data: bytes
    """The bitmap; empty if it is an object of its own."""
    id: Id | None
    """That object."""
    size: int
    checksum: int
    """CRC-32 of the bitmap."""


@frozen
class RowLineage:
    """Which rows the rows of an object were first, packed as in `lineage`: here, or in an object of the same id."""

    data: bytes
    """What is packed; empty if it is an object of its own."""
    size: int
    checksum: int
    """CRC-32 of what is packed."""


@frozen
class External:
    """A file of somebody else that an object stands for: it was attached, and is not in the store of the lake.

    The object is the rows of the file in the order of the pool, and as in any object a row number counts in that order.
    """

    uri: str
    """An absolute path, or the URL of an object in a bucket."""
    modified: int = 0
    """When it was last written to, in nanoseconds since 1970; 0 for one in a bucket."""
    etag: str = ""
    """What a bucket calls this version of it."""
    constants: tuple[bytes | None, ...] = ()
    """The last fields of all records, which the names of folders give, in binary form; the shape has their types."""


@frozen
class DataObject:
    """What a commit says of a data object."""

    id: Id
    min: Value
    max: Value
    count: int
    """How many values it has, without those that are hidden."""
    size: int
    """Bytes of the values as they are stored, without what follows them."""
    checksum: int
    """CRC-32 of those bytes."""
    value_size: int = 0
    """Size used for the object-full threshold: Arrow bytes, or ZNG bytes for small objects."""
    index_size: int = 0
    """Bytes that follow them: the seek index of the row form, if it has one, or the footer of the column form."""
    has_key: bool = True
    """False: no value in it has the field that is the pool key."""
    is_ranged: bool = True
    """False: some keys in it are of a kind that ranges say nothing about."""
    shapes: tuple[tuple[t.Type, int], ...] | None = None
    """How many values of which types, without those that are hidden; None if there are too many types to list.
    The layout of columns follows from all of them, also those of which no value is left."""
    form: Form = Form.ROWS
    index_checksum: int = 0
    """CRC-32 of the footer."""
    zones: bytes = b""
    """The least and greatest value of each column, packed as in `zones`."""
    names: tuple[str, ...] = ()
    """The names of the columns in the order of the layout; none if they follow from the shapes."""
    skipped: int = 0
    """How many records of the input could not be read, and were left out of it and of those written with it."""
    mask: RowMask | None = None
    """Rows that are hidden."""
    inline: bytes | None = None
    """All of its bytes, if they are part of its description: it has no object in the store then. Empty: purged."""
    merged: Id | None = None
    """The application of a merge policy that it is a result of: objects with the same have nothing for each other."""
    external: External | None = None
    """The file that has its bytes, if that was attached. Of it the checksum of the footer is known, no other."""
    lineage: RowLineage | None = None
    """Where its rows come from, if a compaction has moved them here; without it they are new in this object."""
    partition: Value | None = None
    """The value that the partition expression of the pool has for all values in it; None if that is not known."""

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def hidden(self) -> int:
        """How many rows are hidden."""
        return 0 if self.mask is None else self.mask.count

    @property
    def rows(self) -> int:
        """How many rows its bytes have, hidden ones included."""
        return self.count + self.hidden

    def is_same(self, other: DataObject) -> bool:
        """Whether another description is that of the same rows of the same object."""
        return self.id == other.id and self.mask == other.mask

    def may_hold(self, interval: KeyRange) -> bool:
        """Whether something in it can be in a range."""
        return not self.is_ranged or interval.may_hold(self.min, self.max)

    def first(self, key: SortKey) -> Value:
        """The key that a scan in the order of the pool meets first."""
        return self.min if key.order == "asc" else self.max

    def last(self, key: SortKey) -> Value:
        """The key that a scan in the order of the pool meets last."""
        return self.max if key.order == "asc" else self.min


def without_rows(
    o: DataObject, mask: RowMask | None, hidden: int, shapes: tuple[tuple[t.Type, int], ...] | None
) -> DataObject:
    """The description of an object with another mask; `shapes` has the values of each type that are left."""
    size = o.value_size * (o.rows - hidden) // max(1, o.count)
    return replace(o, mask=mask, count=o.rows - hidden, shapes=shapes, value_size=size)


def without_bytes(o: DataObject, is_purged: Callable[[Id], bool]) -> DataObject:
    """The description of an object, without the bytes that are part of it if the object is purged."""
    return replace(o, inline=b"") if o.inline and is_purged(o.id) else o


class Purged(NotFound):
    """A data object that is no longer in the store."""


class Missing(CorruptData):
    """Data that is gone, and was not purged."""


def missing(name: str) -> Missing:
    """The error of an object that is gone although a commit refers to it and nobody purged it."""
    return Missing(f"{name}: this data object is gone, and was not purged (restore it from a backup)")


def data_key(pool: str, ident: Id, form: Form) -> str:
    """The key of a data object in the store."""
    return f"{pool}/{DATA}/{to_text(ident)}.{form.value}"


def data_keys(pool: str, ident: Id) -> list[str]:
    """The keys that a data object may have, given its id alone."""
    return [data_key(pool, ident, form) for form in Form]


def key_of(pool: str, o: DataObject) -> str:
    """The key of this data object."""
    return data_key(pool, o.id, o.form)


# ---- as values


@lru_cache(maxsize=256)
def _object_type(low: t.Type, high: t.Type, extras: tuple[str, ...], partition: t.Type | None) -> t.Type:
    return t.record((
        ("id", KSUID), ("min", low), ("max", high), ("count", t.UINT64), ("size", t.INT64), ("checksum", t.UINT32),
        ("value_size", t.UINT64), ("index_size", t.UINT64), ("has_key", t.BOOL), ("is_ranged", t.BOOL),
        ("shapes", t.array(_SHAPE)), ("form", t.STRING), ("index_checksum", t.UINT32), ("zones", t.BYTES),
        *((name, _EXTRAS[name]) for name in extras), *([] if partition is None else [("partition", partition)]),
    ))  # fmt: skip


_EXTRAS = {
    "names": t.array(t.STRING), "skipped": t.UINT64, "mask": _MASK, "inline": t.BYTES, "merged": KSUID,
    "external": _EXTERNAL_FILE, "lineage": _LINEAGE,
}  # fmt: skip
"""Fields that only some descriptions have: where they say nothing, they are left out."""


@lru_cache(maxsize=256)
def _shown_type(low: t.Type, high: t.Type) -> t.Type:
    shown = (("id", KSUID), ("min", low), ("max", high), ("count", t.UINT64), ("size", t.INT64))
    return t.named("data.Object", t.record(shown))


def format_object(o: DataObject) -> Value:
    """All that is known of an object, as it is stored."""
    extras: dict[str, Data] = {}
    if o.names:
        extras["names"] = o.names
    if o.skipped:
        extras["skipped"] = o.skipped
    if o.mask is not None:
        extras["mask"] = o.mask.count, o.mask.data, o.mask.id or NO_ID, o.mask.size, o.mask.checksum
    if o.inline is not None:
        extras["inline"] = o.inline
    if o.merged is not None:
        extras["merged"] = o.merged
    if o.external is not None:
        extras["external"] = o.external.uri, o.external.modified, o.external.etag, o.external.constants
    if o.lineage is not None:
        extras["lineage"] = o.lineage.data, o.lineage.size, o.lineage.checksum
    last = () if o.partition is None else (o.partition.data,)
    data = (
        o.id, o.min.data, o.max.data, o.count, o.size, o.checksum, o.value_size, o.index_size, o.has_key, o.is_ranged,
        o.shapes, _form_name(o), o.index_checksum, o.zones, *extras.values(), *last,
    )  # fmt: skip
    partition = None if o.partition is None else o.partition.type
    return Value(_object_type(o.min.type, o.max.type, tuple(extras), partition), data)


def _form_name(o: DataObject) -> str:
    """The form of an object, and what a reader has to know to read it."""
    form = _NAMED_COLUMNS if o.names else o.form.value
    if o.form is Form.COLUMNS and any(_has_new_types(shape) for shape, _ in o.shapes or ()):
        form = _TYPED_COLUMNS
    needs = ((_MASKED, o.mask), (_INLINE, o.inline), (_EXTERNAL, o.external))
    return _WITH.join((form, *(name for name, part in needs if part is not None)))


_HAS_NEW_TYPES: t.MemoKey[bool] = t.MemoKey("has new types")


def _has_new_types(typ: t.Type) -> bool:
    """Whether columns of a type have decimals or dates in them."""
    answer = typ.memo.get(_HAS_NEW_TYPES)
    if answer is None:
        answer = t.wire_name(typ) is not None or any(_has_new_types(child) for child in typ.children())
        typ.memo[_HAS_NEW_TYPES] = answer
    return answer


def show_object(o: DataObject) -> Value:
    """An object as meta-queries show it."""
    return Value(_shown_type(o.min.type, o.max.type), (o.id, o.min.data, o.max.data, o.count, o.size))


_REQUIRED = ("id", "min", "max", "count", "size", "checksum")
_FIELDS = tuple(field.name for field in fields(DataObject))
"""A record has a field for each of them; what older objects lack has its default."""


@lru_cache(maxsize=256)
def _indices(typ: t.Type) -> tuple[tuple[str, int], ...] | None:
    """The fields of a description that are known, by name, looked up once for each type; None if it lacks one."""
    if not isinstance(typ, t.Record) or not all(name in typ.index for name in _REQUIRED):
        return None
    return tuple((name, typ.index[name]) for name in _FIELDS if name in typ.index)


def parse_object(value: Value, where: str) -> DataObject:
    """The object that a stored record describes. There may be very many of them."""
    typ, data = value.type.under, value.data
    indices = _indices(typ)
    if indices is None or data is None:
        for name in _REQUIRED:
            get(value, name, where)
        raise CorruptData(f"{where}: a record is not a data object")
    assert isinstance(typ, t.Record)
    by_name = {name: data[index] for name, index in indices if data[index] is not None}
    if typ.fields[typ.index["id"]].type.under is not t.BYTES or len(by_name.get("id", b"")) != SIZE:
        get_id(value, "id", where)
    for name in ("count", "size", "checksum"):
        if name not in by_name:
            get_data(value, name, where)
    by_name["id"] = Id(by_name["id"])
    for name in ("min", "max", *(("partition",) if "partition" in typ.index else ())):
        by_name[name] = Value(typ.fields[typ.index[name]].type, by_name.get(name))
    if "form" in by_name:
        by_name["form"] = _parse_form(by_name["form"], bool(by_name.get("names")), where)
    if "mask" in by_name:
        by_name["mask"] = _parse_mask(Value(typ.fields[typ.index["mask"]].type, by_name["mask"]), where)
    if "merged" in by_name:
        by_name["merged"] = get_id(value, "merged", where)
    if "external" in by_name:
        by_name["external"] = _parse_external(Value(typ.fields[typ.index["external"]].type, by_name["external"]), where)
    if "lineage" in by_name:
        by_name["lineage"] = _parse_lineage(Value(typ.fields[typ.index["lineage"]].type, by_name["lineage"]), where)
    return DataObject(**by_name)


def _parse_form(text: str, has_names: bool, where: str) -> Form:
    name, *needs = text.split(_WITH)
    if not _KNOWN.issuperset(needs):
        raise CorruptData(f"{where}: a data object of unknown form {text!r} (a newer Shoal may know it)")
    if name != _TYPED_COLUMNS and (name == _NAMED_COLUMNS) is not has_names:
        raise CorruptData(f"{where}: names of columns do not go with form {text!r}")
    try:
        return Form.COLUMNS if name in (_NAMED_COLUMNS, _TYPED_COLUMNS) else Form(name)
    except ValueError:
        raise CorruptData(f"{where}: a data object of unknown form {text!r} (a newer Shoal may know it)") from None


def _parse_mask(value: Value, where: str) -> RowMask:
    ident = get_id(value, "id", where)
    count, data, size, checksum = (get_data(value, name, where) for name in ("count", "data", "size", "checksum"))
    return RowMask(count, data, None if ident == NO_ID else ident, size, checksum)


def _parse_lineage(value: Value, where: str) -> RowLineage:
    data, size, checksum = (get_data(value, name, where) for name in ("data", "size", "checksum"))
    return RowLineage(data, size, checksum)


def _parse_external(value: Value, where: str) -> External:
    uri, modified, etag, constants = (get_data(value, name, where) for name in ("uri", "modified", "etag", "constants"))
    return External(uri, modified, etag, tuple(constants))


# ---- in order


def in_order(key: SortKey, objects: list[DataObject]) -> list[DataObject]:
    """Objects by the first key of each, in the order of the pool; equal ones in the order of their ids."""
    return [objects[i] for i in sorted_indices([(o.first(key),) for o in objects], key.order)]
