"""Data objects: what a commit says of them, and where they are.

An object is immutable, and sorted by the pool key. It has one of two forms: `column_form` or `row_form`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from shoal.errors import CorruptData, NotFound
from shoal.ids import SIZE, Id, to_text
from shoal.lake.keys import KeyRange, SortKey, sorted_indices
from shoal.model import types as t
from shoal.model.fields import KSUID, get, get_data, get_id
from shoal.model.values import Value

LARGEST_RUN = 256 << 20
"""How many bytes of values are sorted at a time, which bounds what an object holds."""
LARGE = 48 << 20
"""Bytes of values from which on an object is large enough to be left alone, and a run to be written as several."""
_SHAPE = t.record((("shape", t.TYPE), ("count", t.UINT64)))


class Form(Enum):
    """How the values of an object lie in the store."""

    COLUMNS = "parquet"
    ROWS = "zng"


@dataclass(frozen=True, slots=True)
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
    """What the values count for where it is decided what makes an object full."""
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
    """The least and greatest value of each column, packed as `zones` tells."""

    def __hash__(self) -> int:
        return hash(self.id)

    def may_hold(self, wanted: KeyRange) -> bool:
        """Whether something in it can be in a range."""
        return not self.is_ranged or wanted.may_hold(self.min, self.max)

    def first(self, key: SortKey) -> Value:
        """The key that a scan in the order of the pool meets first."""
        return self.min if key.order == "asc" else self.max

    def last(self, key: SortKey) -> Value:
        """The key that a scan in the order of the pool meets last."""
        return self.max if key.order == "asc" else self.min


class Purged(NotFound):
    """A data object that is no longer in the store."""


def data_key(pool: str, ident: Id, form: Form) -> str:
    """Where a data object is."""
    return f"{pool}/data/{to_text(ident)}.{form.value}"


def data_keys(pool: str, ident: Id) -> list[str]:
    """Where a data object may be, if nothing but its id is known."""
    return [data_key(pool, ident, form) for form in Form]


def key_of(pool: str, o: DataObject) -> str:
    """Where this data object is."""
    return data_key(pool, o.id, o.form)


# ---- as values


@lru_cache(maxsize=256)
def _object_type(low: t.Type, high: t.Type) -> t.Type:
    fields = (
        ("id", KSUID), ("min", low), ("max", high), ("count", t.UINT64), ("size", t.INT64), ("checksum", t.UINT32),
        ("value_size", t.UINT64), ("index_size", t.UINT64), ("has_key", t.BOOL), ("is_ranged", t.BOOL),
        ("shapes", t.array(_SHAPE)), ("form", t.STRING), ("index_checksum", t.UINT32), ("zones", t.BYTES),
    )  # fmt: skip
    return t.record(fields)


@lru_cache(maxsize=256)
def _shown_type(low: t.Type, high: t.Type) -> t.Type:
    fields = (("id", KSUID), ("min", low), ("max", high), ("count", t.UINT64), ("size", t.INT64))
    return t.named("data.Object", t.record(fields))


def format_object(o: DataObject) -> Value:
    """All that is known of an object, as it is stored."""
    data = (
        o.id, o.min.data, o.max.data, o.count, o.size, o.checksum, o.value_size, o.index_size, o.has_key, o.is_ranged,
        o.shapes, o.form.value, o.index_checksum, o.zones,
    )  # fmt: skip
    return Value(_object_type(o.min.type, o.max.type), data)


def show_object(o: DataObject) -> Value:
    """An object as meta-queries show it."""
    return Value(_shown_type(o.min.type, o.max.type), (o.id, o.min.data, o.max.data, o.count, o.size))


_REQUIRED = ("id", "min", "max", "count", "size", "checksum")
_OPTIONAL: tuple[tuple[str, Any], ...] = (
    ("value_size", 0), ("index_size", 0), ("has_key", True), ("is_ranged", True), ("shapes", None),
    ("form", Form.ROWS.value), ("index_checksum", 0), ("zones", b""),
)  # fmt: skip
"""Fields that older objects lack, with what they mean there."""


@lru_cache(maxsize=256)
def _places(typ: t.Type) -> tuple[tuple[int, ...], tuple[int | None, ...]] | None:
    """Where the fields of a description are, found once for each type; None if it lacks one."""
    if not isinstance(typ, t.Record) or not all(name in typ.index for name in _REQUIRED):
        return None
    return tuple(typ.index[name] for name in _REQUIRED), tuple(typ.index.get(name) for name, _ in _OPTIONAL)


def parse_object(value: Value, where: str) -> DataObject:
    """The object that a stored record speaks of. There may be very many of them."""
    typ, data = value.type.under, value.data
    places = _places(typ)
    if places is None or data is None:
        for name in _REQUIRED:
            get(value, name, where)
        raise CorruptData(f"{where}: a record is no data object")
    assert isinstance(typ, t.Record)
    required, optional = places
    found = [data[place] for place in required]
    if not (len(found[0] or b"") == SIZE and typ.fields[required[0]].type.under is t.BYTES) or None in found[3:]:
        get_id(value, "id", where)
        for name in _REQUIRED[3:]:
            get_data(value, name, where)
    low, high = (Value(typ.fields[place].type, data[place]) for place in required[1:3])
    rest = [
        default if place is None or data[place] is None else data[place]
        for place, (_, default) in zip(optional, _OPTIONAL, strict=True)
    ]
    rest[5] = _parse_form(rest[5], where)
    return DataObject(Id(found[0]), low, high, *found[3:], *rest)


def _parse_form(name: str, where: str) -> Form:
    try:
        return Form(name)
    except ValueError:
        raise CorruptData(f"{where}: a data object of unknown form {name!r} (a newer Shoal may know it)") from None


# ---- in order


def in_order(key: SortKey, objects: list[DataObject]) -> list[DataObject]:
    """Objects by the first key of each, in the order of the pool; equal ones in the order of their ids."""
    return [objects[i] for i in sorted_indices([(o.first(key),) for o in objects], key.order)]
