"""Data objects in row form: ZNG, sorted by the pool key, in segments that can each be read alone.

A segment is a ZNG stream of its own, with its own types and its own checksum; the seek index, a sealed list of
segments, follows the last one inside a control message, so that any reader of ZNG reads the data and nothing else.
"""

from __future__ import annotations

import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from shoal.errors import CorruptData, InvalidInput, NotFound, ShoalError
from shoal.formats import zng
from shoal.ids import Id, new, to_text
from shoal.lake.fields import KSUID, get, get_data, get_id, get_or, uint64
from shoal.lake.keys import (
    EVERYTHING,
    Key,
    KeyRange,
    SortKey,
    compare_in,
    getter,
    is_ranged,
    key_getter,
    sorted_indices,
)
from shoal.lake.sealed import seal, unseal
from shoal.model import types as t
from shoal.model.values import NULL, Value, record
from shoal.model.zcode import encode
from shoal.storage.store import ObjectStore

MIB = 1 << 20
LARGEST_RUN = 256 * MIB
"""How much memory sorting takes at a time, which bounds what an object in row form holds."""
_ZNG = 0
_ROW = 250
"""Bytes of memory that a value takes beside its binary form."""
_MOST_SHAPES = 64
_SHAPE = t.record((("shape", t.TYPE), ("count", t.UINT64)))


@dataclass(frozen=True, slots=True)
class DataObject:
    """What a commit says of a data object."""

    id: Id
    min: Value
    max: Value
    count: int
    size: int
    """Bytes of the values as they are stored, without the seek index."""
    checksum: int
    """CRC-32 of those bytes."""
    value_size: int = 0
    """Bytes of the values before compression."""
    index_size: int = 0
    """Bytes of the seek index that follows them; without one there is one segment."""
    has_key: bool = True
    """False: no value in it has the field that is the pool key."""
    is_ranged: bool = True
    """False: some keys in it are of a kind that ranges say nothing about."""
    shapes: tuple[tuple[t.Type, int], ...] | None = None
    """How many values of which types; None if there are too many types to list."""

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


def data_key(pool: str, ident: Id) -> str:
    """Where a data object is."""
    return f"{pool}/data/{to_text(ident)}.zng"


# ---- as values


@lru_cache(maxsize=256)
def _object_type(low: t.Type, high: t.Type) -> t.Type:
    fields = (
        ("id", KSUID), ("min", low), ("max", high), ("count", t.UINT64), ("size", t.INT64), ("checksum", t.UINT32),
        ("value_size", t.UINT64), ("index_size", t.UINT64), ("has_key", t.BOOL), ("is_ranged", t.BOOL),
        ("shapes", t.array(_SHAPE)),
    )  # fmt: skip
    return t.record(fields)


@lru_cache(maxsize=256)
def _shown_type(low: t.Type, high: t.Type) -> t.Type:
    fields = (("id", KSUID), ("min", low), ("max", high), ("count", t.UINT64), ("size", t.INT64))
    return t.named("data.Object", t.record(fields))


def format_object(o: DataObject) -> Value:
    """All that is known of an object, as it is stored."""
    bounds = o.min.data, o.max.data
    data = (o.id, *bounds, o.count, o.size, o.checksum, o.value_size, o.index_size, o.has_key, o.is_ranged, o.shapes)
    return Value(_object_type(o.min.type, o.max.type), data)


def show_object(o: DataObject) -> Value:
    """An object as meta-queries show it."""
    return Value(_shown_type(o.min.type, o.max.type), (o.id, o.min.data, o.max.data, o.count, o.size))


def parse_object(value: Value, where: str) -> DataObject:
    """The object that a stored record speaks of."""
    shapes = get_or(value, "shapes", None)
    return DataObject(
        get_id(value, "id", where),
        get(value, "min", where),
        get(value, "max", where),
        get_data(value, "count", where),
        get_data(value, "size", where),
        get_data(value, "checksum", where),
        get_or(value, "value_size", 0),
        get_or(value, "index_size", 0),
        get_or(value, "has_key", True),
        get_or(value, "is_ranged", True),
        shapes,
    )


# ---- writing


class ObjectWriter:
    """Takes values in any order and writes sorted objects; those without the pool key go to objects of their own."""

    def __init__(self, store: ObjectStore, pool: str, key: SortKey, object_size: int, seek_stride: int) -> None:
        self._runs = {has_key: _Run(store, pool, key, object_size, seek_stride, has_key) for has_key in (True, False)}
        self._find = getter(key.paths[0])

    def write(self, value: Value) -> None:
        """Take a value."""
        self._runs[self._find(value) is not None].add(value)

    def close(self) -> list[DataObject]:
        """Write what is left; all objects written."""
        return [made for run in self._runs.values() for made in run.close()]

    def discard(self) -> None:
        """Remove what was written, as far as that can be done: no commit has named it."""
        for run in self._runs.values():
            run.discard()


class _Run:
    """Values on the way into one object after the other."""

    def __init__(
        self, store: ObjectStore, pool: str, key: SortKey, object_size: int, seek_stride: int, has_key: bool
    ) -> None:
        self._store = store
        self._pool = pool
        self._key = key
        self._key_of = key_getter(key)
        self._object_size = object_size
        self._seek_stride = seek_stride
        self._has_key = has_key
        self._rows: list[tuple[t.Type, bytes | None]] = []
        self._keys: list[Key] = []
        self._size = 0
        self._made: list[DataObject] = []

    def add(self, value: Value) -> None:
        body = encode(value.type, value.data)
        self._rows.append((value.type, body))
        self._keys.append(self._key_of(value))
        self._size += value_size(body)
        if self._size >= self._object_size or run_size(len(self._rows), self._size) >= LARGEST_RUN:
            self._flush()

    def close(self) -> list[DataObject]:
        if self._rows:
            self._flush()
        return self._made

    def discard(self) -> None:
        for made in self._made:
            with suppress(ShoalError):
                self._store.delete(data_key(self._pool, made.id))

    def _flush(self) -> None:
        keys, rows = self._keys, self._rows
        order = sorted_indices(keys, self._key.order)
        packer = _Packer(self._seek_stride)
        for i in order:
            packer.add(keys[i][0], *rows[i])
        ident = new()
        data, made = packer.close(self._pool, ident, self._key, self._has_key)
        self._store.put(data_key(self._pool, ident), data)
        self._made.append(made)
        self._keys, self._rows, self._size = [], [], 0


class _Packer:
    """Sorted values as segments."""

    def __init__(self, seek_stride: int) -> None:
        self._out = io.BytesIO()
        self._writer = zng.Writer(self._out)
        self._seek_stride = seek_stride
        self._shapes: Counter[t.Type] = Counter()
        self._segments: list[Value] = []
        self._first: Value | None = None
        self._last: Value = NULL
        self._segment_first: Value = NULL
        self._is_ranged = True
        self._begin = self._size = self._count = self._total = self._value_size = 0

    def add(self, key: Value, typ: t.Type, body: bytes | None) -> None:
        if self._first is None:
            self._first = key
        if not self._count:
            self._segment_first = key
        self._last = key
        self._is_ranged = self._is_ranged and is_ranged(key)
        self._writer.write_encoded(typ, body)
        self._shapes[typ] += 1
        self._count += 1
        self._size += value_size(body)
        if self._size >= self._seek_stride:
            self._end_segment()

    def _end_segment(self) -> None:
        self._writer.end_stream()
        end = self._out.tell()
        checksum = zlib.crc32(self._out.getbuffer()[self._begin : end])
        self._segments.append(
            record(
                [
                    ("first", self._segment_first),
                    ("last", self._last),
                    ("offset", uint64(self._begin)),
                    ("size", uint64(end - self._begin)),
                    ("count", uint64(self._count)),
                    ("checksum", Value(t.UINT32, checksum)),
                ]
            )
        )
        self._total += self._count
        self._value_size += self._size
        self._begin, self._size, self._count = end, 0, 0

    def close(self, pool: str, ident: Id, key: SortKey, has_key: bool) -> tuple[bytes, DataObject]:
        """The bytes of the object and what to say of it."""
        if self._count:
            self._end_segment()
        size = self._out.tell()
        checksum = zlib.crc32(self._out.getbuffer())
        if len(self._segments) > 1:
            self._writer.control(zng.Control(_ZNG, seal(self._segments, data_key(pool, ident))))
            self._writer.end_stream()
        first, last = self._first or NULL, self._last
        low, high = (first, last) if key.order == "asc" else (last, first)
        shapes = tuple(self._shapes.items()) if len(self._shapes) <= _MOST_SHAPES else None
        data = self._out.getvalue()
        sizes = size, checksum, self._value_size, len(data) - size
        return data, DataObject(ident, low, high, self._total, *sizes, has_key, self._is_ranged, shapes)


def run_size(count: int, size: int) -> int:
    """The memory that values take on their way into an object."""
    return count * _ROW + size


def value_size(body: bytes | None) -> int:
    """What a value counts for when objects and segments are cut: its bytes and a little."""
    return 2 + len(body or b"")


# ---- reading


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an object that can be read alone, with the keys between which it is."""

    first: Value
    last: Value
    offset: int
    size: int
    count: int
    checksum: int


class Purged(NotFound):
    """A data object that is no longer in the store."""


def read_object(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, wanted: KeyRange = EVERYTHING
) -> Iterator[Value]:
    """The values of an object, in its order: those of the segments that may hold something in the range."""
    name = data_key(pool, o.id)
    for segment in segments(store, name, key, o):
        low, high = (segment.first, segment.last) if key.order == "asc" else (segment.last, segment.first)
        if not o.is_ranged or wanted.may_hold(low, high):
            yield from _read_segment(store, name, segment)


def segments(store: ObjectStore, name: str, key: SortKey, o: DataObject) -> list[Segment]:
    """The segments of an object; one without a seek index is one segment."""
    if not o.index_size:
        return [Segment(o.first(key), o.last(key), 0, o.size, o.count, o.checksum)]
    data = _get(store, name, o.size, o.index_size)
    return [_parse_segment(v, name) for v in unseal(_index_body(data, name), name)]


def _index_body(data: bytes, name: str) -> bytes:
    try:
        messages = list(zng.read_messages(io.BytesIO(data)))
    except InvalidInput as e:
        raise CorruptData(f"{name}: seek index: {e}") from e
    if len(messages) != 1 or not isinstance(messages[0], zng.Control):
        raise CorruptData(f"{name}: the seek index is not where it should be")
    return messages[0].body


def _parse_segment(value: Value, where: str) -> Segment:
    numbers = (get_data(value, name, where) for name in ("offset", "size", "count", "checksum"))
    return Segment(get(value, "first", where), get(value, "last", where), *numbers)


def _read_segment(store: ObjectStore, name: str, segment: Segment) -> list[Value]:
    data = _get(store, name, segment.offset, segment.size)
    if len(data) != segment.size or zlib.crc32(data) != segment.checksum:
        raise CorruptData(f"{name}: the checksum does not fit (restore this object from a copy)")
    try:
        return list(zng.read(io.BytesIO(data)))
    except InvalidInput as e:
        raise CorruptData(f"{name}: {e}") from e


def _get(store: ObjectStore, name: str, start: int, size: int) -> bytes:
    try:
        return store.get_range(name, start, size)
    except NotFound:
        raise Purged(f"{name}: this data object is gone") from None


def in_order(key: SortKey, objects: list[DataObject]) -> list[DataObject]:
    """Objects by the first key of each, in the order of the pool; equal ones in the order of their ids."""
    return [objects[i] for i in sorted_indices([(o.first(key),) for o in objects], key.order)]


def overlaps(key: SortKey, end: Value, o: DataObject) -> bool:
    """Whether an object begins before, or where, others end."""
    return compare_in(key.order, o.first(key), end) <= 0


def object_shapes(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterable[tuple[t.Type, int]]:
    """How many values of which types are in an object: from what its commit says, or by counting."""
    if o.shapes is not None:
        return o.shapes
    return Counter(value.type for value in read_object(store, pool, key, o)).items()
