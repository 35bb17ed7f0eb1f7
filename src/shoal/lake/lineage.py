"""Lineage: which row each row of an object was first, in the object that the load or change wrote that brought it.

An object without lineage has only new rows. A compaction moves rows, and says of each where it was first, so that a
row has one identity for good: the object that it was first in, and its number there. A merge policy makes one row of
several: that one also lists the rows that it absorbed.

Rows of one origin nearly always keep their order. So the numbers are stored as runs for each origin, not row by row,
and what is left to say is which origin each row has.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from shoal.errors import CorruptData, NotFound
from shoal.ids import SIZE, Id, to_text
from shoal.lake.objects import LINEAGE, DataObject, RowLineage
from shoal.lake.recent import Recent
from shoal.lazy import lazy
from shoal.storage.store import ObjectStore, dropping_damage

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

Numbers: TypeAlias = npt.NDArray[np.uint32]
MOST_INSIDE = 1024
"""Bytes of a lineage that is part of the description of its object, of which commits and pages have many."""
_CAPACITY = 128 << 20
"""Bytes of lineages in the cache."""
_LEVEL = 3
_MOST_CONTENT = 1 << 34
_HEAD = np.dtype("<u4")
_EXPLICIT = 0xFFFFFFFF
"""Stands for the number of runs where the row numbers are listed one by one."""


class Absorbed(NamedTuple):
    """Rows that a merge policy has merged into others."""

    counts: Numbers
    """How many, for each row of the object; theirs follow each other."""
    origins: Numbers
    rows: Numbers


class Lineage(NamedTuple):
    """The identities of all rows of an object, hidden ones included."""

    ids: tuple[Id, ...]
    """The objects that rows were first in."""
    origins: Numbers
    """For each row, the place of its object in `ids`."""
    rows: Numbers
    """For each row, its number in that object."""
    absorbed: Absorbed | None = None


_recent: Recent[Lineage] = Recent(
    _CAPACITY, lambda known: 200 * len(known.ids) + known.origins.nbytes + known.rows.nbytes
)


def lineage_key(pool: str, ident: Id) -> str:
    """The key of the lineage of an object, where it is too large for a description."""
    return f"{pool}/{LINEAGE}/{to_text(ident)}.rows"


def read(store: ObjectStore, pool: str, o: DataObject) -> Lineage | None:
    """Where the rows of an object come from; None if they are new in it."""
    stored = o.lineage
    if stored is None:
        return None
    return _recent.get((o.id, stored.checksum, stored.size), lambda: _fetched(store, pool, o, stored))


def forget() -> None:
    """Forget all lineages that were read."""
    _recent.clear()


def _fetched(store: ObjectStore, pool: str, o: DataObject, stored: RowLineage) -> Lineage:
    if stored.data:
        return _checked(stored.data, f"lineage of {to_text(o.id)}", o, stored)
    key = lineage_key(pool, o.id)
    try:
        data = store.get(key)
    except NotFound:
        raise CorruptData(f"{key}: this lineage is gone (restore it from a backup)") from None
    with dropping_damage(store, key):
        return _checked(data, key, o, stored)


def _checked(data: bytes, where: str, o: DataObject, stored: RowLineage) -> Lineage:
    if len(data) != stored.size or zlib.crc32(data) != stored.checksum:
        raise CorruptData(f"{where}: checksum mismatch (restore this object from a backup)")
    try:
        known = unpack(data)
    except (ValueError, IndexError, OSError, pa.ArrowException):
        raise CorruptData(f"{where}: these bytes are no lineage (restore this object from a backup)") from None
    if len(known.origins) != o.rows:
        raise CorruptData(f"{where}: it is of {len(known.origins)} rows, and its object has {o.rows}")
    return known


def with_lineage(store: ObjectStore, pool: str, o: DataObject, known: Lineage) -> DataObject:
    """The description of a new object that says where its rows come from. What is too large for it is written."""
    data = pack(known)
    stored = RowLineage(data if len(data) <= MOST_INSIDE else b"", len(data), zlib.crc32(data))
    if not stored.data:
        store.put(lineage_key(pool, o.id), data)
    return replace(o, lineage=stored)


# ---- as bytes


def pack(known: Lineage) -> bytes:
    """A lineage as it is stored: the size of the content, and the content compressed by Zstandard."""
    count, width = len(known.origins), _width(len(known.ids))
    runs = _runs(known)
    absorbed = known.absorbed
    head = [count, len(known.ids), _EXPLICIT if runs is None else len(runs[0]), 0]
    parts = [b"".join(known.ids), _planes(known.origins, width)]
    parts += [_planes(known.rows)] if runs is None else [_planes(each) for each in runs]
    if absorbed is not None:
        head[3] = len(absorbed.rows)
        parts += [_planes(absorbed.counts), _planes(absorbed.origins, width), _planes(absorbed.rows)]
    content = np.array(head, _HEAD).tobytes() + b"".join(parts)
    packed: bytes = pa.Codec("zstd", _LEVEL).compress(content, asbytes=True)
    return len(content).to_bytes(8, "little") + packed


def unpack(data: bytes) -> Lineage:
    """The lineage in stored bytes; ValueError if they are none."""
    size = int.from_bytes(data[:8], "little")
    if size >= _MOST_CONTENT:
        raise ValueError("too long")
    content = memoryview(pa.Codec("zstd").decompress(data[8:], size))
    count, ids, runs, merged = np.frombuffer(content[:16], _HEAD).tolist()
    rest = _Planes(content[16:])
    table = tuple(Id(bytes(rest.take(SIZE))) for _ in range(ids))
    width = _width(ids)
    origins = rest.numbers(count, width)
    rows = rest.numbers(count) if runs == _EXPLICIT else _expanded(origins, rest.numbers(runs), rest.numbers(runs))
    absorbed = None
    if merged:
        absorbed = Absorbed(rest.numbers(count), rest.numbers(merged, width), rest.numbers(merged))
    rest.require_end()
    if count and int(origins.max()) >= ids:
        raise ValueError("an origin that is not listed")
    return Lineage(table, origins, rows, absorbed)


def _width(ids: int) -> int:
    """The bytes of a place in the list of origins."""
    return max(0, (max(1, ids) - 1).bit_length() + 7) // 8


def _planes(numbers: Numbers, width: int = 4) -> bytes:
    """Numbers with their lowest bytes first, then their second ones, and so on: like stands beside like."""
    return np.ascontiguousarray(numbers.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :width].T).tobytes()


class _Planes:
    """Content that is read from the front."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._at = content, 0

    def take(self, size: int) -> memoryview:
        part = self._content[self._at : self._at + size]
        if len(part) != size:
            raise ValueError("too short")
        self._at += size
        return part

    def numbers(self, count: int, width: int = 4) -> Numbers:
        planes = np.frombuffer(self.take(count * width), np.uint8).reshape(width, count)
        numbers = np.zeros((count, 4), np.uint8)
        numbers[:, :width] = planes.T
        return numbers.view("<u4").reshape(-1).astype(np.uint32)

    def require_end(self) -> None:
        if self._at != len(self._content):
            raise ValueError("too long")


def _by_origin(origins: Numbers) -> npt.NDArray[np.int64]:
    """The rows of an object, those of one origin together, in their order."""
    least: Any = np.uint8 if not len(origins) or origins.max() < 1 << 8 else np.uint16
    narrow = origins if len(origins) and origins.max() >= 1 << 16 else origins.astype(least)  # sorted by radix
    return np.argsort(narrow, kind="stable")


def _runs(known: Lineage) -> tuple[Numbers, Numbers] | None:
    """The numbers of rows, origin by origin, as runs: the gap before each, and its length. None if they descend."""
    if not len(known.origins):
        return known.rows, known.rows
    order = _by_origin(known.origins)
    origins, rows = known.origins[order], known.rows[order].astype(np.int64)
    is_first = np.concatenate([[True], origins[1:] != origins[:-1]])
    steps = np.diff(rows, prepend=-1)
    steps[is_first] = rows[is_first] + 1
    if (steps < 1).any():
        return None
    starts = np.flatnonzero(is_first | (steps != 1))
    lengths = np.diff(starts, append=len(rows))
    return (steps[starts] - 1).astype(np.uint32), lengths.astype(np.uint32)


def _expanded(origins: Numbers, gaps: Numbers, lengths: Numbers) -> Numbers:
    """The number of each row, from the runs of all origins."""
    if lengths.sum(dtype=np.int64) != len(origins) or not (lengths > 0).all():
        raise ValueError("runs of another number of rows")
    order = _by_origin(origins)
    ordered = origins[order]
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    steps = np.ones(len(origins), np.int64)
    steps[starts] += gaps
    total = np.cumsum(steps)
    firsts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else order
    before = (total - steps)[firsts]
    rows = np.empty(len(origins), np.uint32)
    rows[order] = total - 1 - np.repeat(before, np.diff(firsts, append=len(ordered)))
    return rows
