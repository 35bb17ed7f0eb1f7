"""Data objects in row form: ZNG in segments that can each be read alone.

A segment is a ZNG stream of its own, with its own types and its own checksum. The seek index, a sealed list of
segments, follows the last one as a note, which any reader of ZNG skips.
"""

from __future__ import annotations

import io
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

from shoal.errors import CorruptData, InvalidInput, NotFound
from shoal.formats.zng import stream as zng
from shoal.ids import Id
from shoal.lake.keys import EVERYTHING, KeyRange, SortKey, is_ranged
from shoal.lake.objects import DataObject, Form, Purged, data_key, key_of
from shoal.lake.sealed import seal, unseal
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.fields import get, get_data, uint64
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, record
from shoal.model.zcode import read_uvarint
from shoal.storage.store import ObjectStore, dropping_damage

if TYPE_CHECKING:
    from shoal.lake import masks
else:
    masks = lazy("shoal.lake.masks")

_INDEX = "shoal seek index "
_NO_KEY = SortKey(((),))
_MOST_SHAPES = 64


class Packer:
    """Sorted values as the segments of an object."""

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
            index = seal(self._segments, data_key(pool, ident, Form.ROWS))
            self._writer.note(_INDEX + b64encode(index).decode())
        first, last = self._first or NULL, self._last
        low, high = (first, last) if key.order == "asc" else (last, first)
        shapes = tuple(self._shapes.items()) if len(self._shapes) <= _MOST_SHAPES else None
        data = self._out.getvalue()
        sizes = size, checksum, self._value_size, len(data) - size
        return data, DataObject(ident, low, high, self._total, *sizes, has_key, self._is_ranged, shapes)


def value_size(body: bytes | None) -> int:
    """What a value counts for when objects and segments are cut: its bytes and a little."""
    return 2 + len(body or b"")


# ---- reading


@frozen
class Segment:
    """A part of an object that can be read alone, with the keys between which it is."""

    first: Value
    last: Value
    offset: int
    size: int
    count: int
    checksum: int


def read(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, key_range: KeyRange = EVERYTHING
) -> Iterator[Value]:
    """The values of an object, in its order: those of the segments that may hold something in the range."""
    name, start = key_of(pool, o), 0
    hidden = None if o.mask is None else masks.hidden_rows(store, pool, o)
    for segment in segments(store, name, key, o):
        low, high = (segment.first, segment.last) if key.order == "asc" else (segment.last, segment.first)
        if not o.is_ranged or key_range.may_hold(low, high):
            values = _read_segment(store, name, o, segment)
            kept = None if hidden is None else masks.visible(hidden, start, segment.count)
            yield from values if kept is None else compress(values, kept)
        start += segment.count


def read_all(store: ObjectStore, pool: str, o: DataObject) -> Iterator[Value]:
    """All values of an object, in its order; the caller need not know the pool key."""
    return read(store, pool, _NO_KEY, o)


def read_unmasked(store: ObjectStore, pool: str, o: DataObject) -> Iterator[Value]:
    """All values of an object, in its order, also those that are hidden."""
    return read_all(store, pool, o if o.mask is None else replace(o, mask=None, count=o.rows))


def segments(store: ObjectStore, name: str, key: SortKey, o: DataObject) -> list[Segment]:
    """The segments of an object; one without a seek index is one segment."""
    if not o.index_size:
        return [Segment(o.first(key), o.last(key), 0, o.size, o.rows, o.checksum)]
    data = _get(store, name, o, o.size, o.index_size)
    with dropping_damage(store, name):
        return [_parse_segment(v, name) for v in unseal(_index_body(data, name), name)]


def _index_body(data: bytes, name: str) -> bytes:
    try:
        (kind, payload), (end, _) = zng.frames(io.BytesIO(data))
        if end != zng.END_OF_STREAM:
            raise InvalidInput("more than one frame")
        if kind == zng.CONTROL:  # as version 0.1.0 wrote it: an encoding, the size of the index, the index
            return payload[read_uvarint(payload, 1)[1] :]
        note = zng.parse_note(payload)
        if kind != zng.TYPES or not note.startswith(_INDEX):
            raise InvalidInput("expected a note with the index")
        return b64decode(note.removeprefix(_INDEX), validate=True)
    except (InvalidInput, IndexError, ValueError) as e:
        raise CorruptData(f"{name}: seek index: {e}") from e


def _parse_segment(value: Value, where: str) -> Segment:
    numbers = (get_data(value, name, where) for name in ("offset", "size", "count", "checksum"))
    return Segment(get(value, "first", where), get(value, "last", where), *numbers)


def _read_segment(store: ObjectStore, name: str, o: DataObject, segment: Segment) -> list[Value]:
    data = _get(store, name, o, segment.offset, segment.size)
    with dropping_damage(store, name):
        return _parse_values(data, name, segment)


def _parse_values(data: bytes, name: str, segment: Segment) -> list[Value]:
    if len(data) != segment.size or zlib.crc32(data) != segment.checksum:
        raise CorruptData(f"{name}: checksum mismatch (restore this object from a backup)")
    try:
        return list(zng.read(io.BytesIO(data)))
    except InvalidInput as e:
        raise CorruptData(f"{name}: {e}") from e


def _get(store: ObjectStore, name: str, o: DataObject, start: int, size: int) -> bytes:
    if o.inline is not None:
        if not o.inline:
            raise Purged(f"{name}: this data object is gone")
        return o.inline[start : start + size]
    try:
        return store.get_range(name, start, size)
    except NotFound:
        raise Purged(f"{name}: this data object is gone") from None
