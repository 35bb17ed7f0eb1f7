"""Data objects: what a commit says of them, and where they are.

An object is immutable, and sorted by the pool key. It has one of two forms: `column_form` or `row_form`.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from functools import lru_cache

from shoal.errors import CorruptData, NotFound
from shoal.ids import SIZE, Id, to_text
from shoal.lake.keys import KeyRange, SortKey, sorted_indices
from shoal.model import types as t
from shoal.model.fields import KSUID, get, get_data, get_id
from shoal.model.node import frozen
from shoal.model.values import Value

LARGEST_RUN = 256 << 20
"""How many bytes of values are sorted at a time, which bounds what an object holds."""
LARGE = 48 << 20
"""Bytes of values from which on an object is large enough to be left alone, and a run to be written as several."""
DATA = "data"
"""The folder of a pool that has its data objects."""
_SHAPE = t.record((("shape", t.TYPE), ("count", t.UINT64)))


_NAMED_COLUMNS = "named columns"
_TYPED_COLUMNS = "typed columns"
"""Column form with types of columns that versions before 0.2 do not know: they refuse it."""
"""What a description calls the column form of an object whose shapes alone do not give the names of its columns.

Version 0.1.0 takes names from the shapes, and refuses a form that it does not know.
"""


class Form(Enum):
    """How the values of an object lie in the store."""

    COLUMNS = "parquet"
    ROWS = "zng"


@frozen
class DataObject:
    """What a commit says of a data object."""

    id: Id
    min: Value
    max: Value
    count: int
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
    """How many values of which types; None if there are too many types to list. The layout of columns follows."""
    form: Form = Form.ROWS
    index_checksum: int = 0
    """CRC-32 of the footer."""
    zones: bytes = b""
    """The least and greatest value of each column, packed as in `zones`."""
    names: tuple[str, ...] = ()
    """The names of the columns in the order of the layout; none if they follow from the shapes."""
    skipped: int = 0
    """How many records of the input could not be read, and were left out of it and of those written with it."""

    def __hash__(self) -> int:
        return hash(self.id)

    def may_hold(self, interval: KeyRange) -> bool:
        """Whether something in it can be in a range."""
        return not self.is_ranged or interval.may_hold(self.min, self.max)

    def first(self, key: SortKey) -> Value:
        """The key that a scan in the order of the pool meets first."""
        return self.min if key.order == "asc" else self.max

    def last(self, key: SortKey) -> Value:
        """The key that a scan in the order of the pool meets last."""
        return self.max if key.order == "asc" else self.min


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
def _object_type(low: t.Type, high: t.Type, has_names: bool, has_skipped: bool) -> t.Type:
    return t.record((
        ("id", KSUID), ("min", low), ("max", high), ("count", t.UINT64), ("size", t.INT64), ("checksum", t.UINT32),
        ("value_size", t.UINT64), ("index_size", t.UINT64), ("has_key", t.BOOL), ("is_ranged", t.BOOL),
        ("shapes", t.array(_SHAPE)), ("form", t.STRING), ("index_checksum", t.UINT32), ("zones", t.BYTES),
        *([("names", t.array(t.STRING))] if has_names else []), *([("skipped", t.UINT64)] if has_skipped else []),
    ))  # fmt: skip


@lru_cache(maxsize=256)
def _shown_type(low: t.Type, high: t.Type) -> t.Type:
    shown = (("id", KSUID), ("min", low), ("max", high), ("count", t.UINT64), ("size", t.INT64))
    return t.named("data.Object", t.record(shown))


def format_object(o: DataObject) -> Value:
    """All that is known of an object, as it is stored."""
    form, names = (_NAMED_COLUMNS, (o.names,)) if o.names else (o.form.value, ())
    if o.form is Form.COLUMNS and any(_has_new_types(shape) for shape, _ in o.shapes or ()):
        form = _TYPED_COLUMNS
    data = (
        o.id, o.min.data, o.max.data, o.count, o.size, o.checksum, o.value_size, o.index_size, o.has_key, o.is_ranged,
        o.shapes, form, o.index_checksum, o.zones, *names, *((o.skipped,) if o.skipped else ()),
    )  # fmt: skip
    return Value(_object_type(o.min.type, o.max.type, bool(o.names), bool(o.skipped)), data)


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
    for name in ("min", "max"):
        by_name[name] = Value(typ.fields[typ.index[name]].type, by_name.get(name))
    if "form" in by_name:
        is_named = by_name["form"] == _NAMED_COLUMNS
        if by_name["form"] != _TYPED_COLUMNS and is_named is not bool(by_name.get("names")):
            raise CorruptData(f"{where}: names of columns do not go with form {by_name['form']!r}")
        by_name["form"] = _parse_form(by_name["form"], where)
    return DataObject(**by_name)


def _parse_form(name: str, where: str) -> Form:
    try:
        return Form.COLUMNS if name in (_NAMED_COLUMNS, _TYPED_COLUMNS) else Form(name)
    except ValueError:
        raise CorruptData(f"{where}: a data object of unknown form {name!r} (a newer Shoal may know it)") from None


# ---- in order


def in_order(key: SortKey, objects: list[DataObject]) -> list[DataObject]:
    """Objects by the first key of each, in the order of the pool; equal ones in the order of their ids."""
    return [objects[i] for i in sorted_indices([(o.first(key),) for o in objects], key.order)]
