"""What engines read of a pool with a merge policy.

Objects that one compaction wrote, and that share no key with others, are read as they are. All others are sources that
are computed: the policy is applied to what lies between two keys, wherever the source is read, in this process or in a
task. Which shapes the result has is known only once it was computed, so it is computed when a query is planned, too;
that is kept, and small results with it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from shoal.engines.physical import Source
from shoal.formats.columns.projection import Paths, project_shape
from shoal.ids import Id
from shoal.lake.key_columns import KeyInterval
from shoal.lake.merging import Policy, is_merged, merged_values, parts
from shoal.lake.objects import DataObject, RowMask
from shoal.lake.pools import Pool
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.planner.value_tables import as_table

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.lake import partitioning
else:
    partitioning = lazy("shoal.lake.partitioning")

READ_SIZE = 16 << 20
"""Bytes of values to which a policy is applied at a time."""
KEPT_RECORDS, KEPT_RESULTS = 100_000, 1024
"""How many records of results are kept, and of how many results the shapes."""


@frozen
class Unmerged:
    """What lies between two keys, to which the policy has to be applied."""

    pool: Pool
    objects: tuple[DataObject, ...]
    interval: KeyInterval
    policy: Policy

    @property
    def size(self) -> int:
        """Bytes of the objects as they are stored."""
        return sum(o.size for o in self.objects)

    def records(self) -> list[Value]:
        """What the policy makes of it, in the order of the pool."""
        name = self._name
        with _lock:
            kept = _records.get(name)
            if kept is not None:
                _records.move_to_end(name)
                return kept
        records = list(merged_values(self.pool, self.objects, self.policy, self.interval))
        _keep(name, records)
        return records

    def shapes(self) -> tuple[tuple[t.Type, int], ...]:
        """How many records of which types that are."""
        with _lock:
            shapes = _shapes.get(self._name)
            if shapes is not None:
                _shapes.move_to_end(self._name)
                return shapes
        counts: Counter[t.Type] = Counter()
        for record in self.records():
            counts[record.type] += 1
        return tuple(counts.items())

    @property
    def _name(self) -> _Name:
        objects = tuple((o.id, o.mask) for o in self.objects)
        return self.pool.config.id, objects, self.interval


_Name = tuple[Id, tuple[tuple[Id, RowMask | None], ...], KeyInterval]
_records: OrderedDict[_Name, list[Value]] = OrderedDict()
_shapes: OrderedDict[_Name, tuple[tuple[t.Type, int], ...]] = OrderedDict()
"""Least recently used first. An entry is never stale: objects under their masks, and the policy, do not change."""
_count = [0]
_lock = Lock()


def _keep(name: _Name, records: list[Value]) -> None:
    counts: Counter[t.Type] = Counter(record.type for record in records)
    with _lock:
        _shapes[name] = tuple(counts.items())
        while len(_shapes) > KEPT_RESULTS:
            _shapes.popitem(last=False)
        if len(records) > KEPT_RECORDS or name in _records:
            return
        _records[name] = records
        _count[0] += len(records)
        while _count[0] > KEPT_RECORDS:
            _count[0] -= len(_records.popitem(last=False)[1])


def pieces_of(pool: Pool, objects: Sequence[DataObject], policy: Policy) -> Iterator[tuple[DataObject, ...] | Unmerged]:
    """Objects in the order of the pool: those to read as they are, together where they overlap, and others."""
    for part in parts(pool.config.key, objects):
        if is_merged(part.objects):
            yield part.objects
            continue
        for piece in partitioning.partition_objects(pool, part.objects, READ_SIZE).partitions:
            yield Unmerged(pool, piece.objects, piece.interval, policy)


def source_of(piece: Unmerged, index: int) -> Source:
    """What an engine reads of what has to be merged."""
    shapes = piece.shapes()
    types, counts = tuple(shape for shape, _ in shapes), tuple(count for _, count in shapes)
    read = _MergedRows(piece, types)
    return Source(index, types, counts, table=read, size=piece.size, narrow=_NarrowMerged(index, read, shapes))


@dataclass(frozen=True, slots=True)
class _MergedRows:
    """Computes a source, as a table."""

    piece: Unmerged
    shapes: tuple[t.Type, ...]
    paths: Paths | None = None

    def __call__(self) -> pa.Table:
        return as_table(self.piece.records(), self.shapes, self.paths)


@dataclass(frozen=True, slots=True)
class _NarrowMerged:
    """Makes a source of some fields of these records."""

    index: int
    read: _MergedRows
    counts: tuple[tuple[t.Type, int], ...]

    def __call__(self, paths: Paths) -> Source:
        counts: Counter[t.Type] = Counter()
        for shape, count in self.counts:
            counts[project_shape(shape, paths)] += count
        table = replace(self.read, paths=tuple(paths))
        size = self.read.piece.size
        return Source(self.index, tuple(counts), tuple(counts.values()), table=table, size=size)
