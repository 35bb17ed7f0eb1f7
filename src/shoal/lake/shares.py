"""Range partitioning of objects that overlap: each partition is sorted and written by itself, several in parallel.

A sample of the keys gives the boundaries, so that partitions are about equal and fit into memory, however the objects
overlap. A partition reads those parts of its objects that it needs. An object that would be read by many partitions is
read just once, before, and comes in pieces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from shoal.formats.columns.batches import Batch, batches
from shoal.ids import Id
from shoal.lake import column_form, row_form
from shoal.lake.key_columns import EVERYWHERE, KeyInterval, rows_between
from shoal.lake.keys import comparer
from shoal.lake.object_writer import ObjectWriter
from shoal.lake.objects import LARGEST_RUN, DataObject, Form, Purged, key_of
from shoal.lake.pieces import Piece, SliceInput, Slicing, slice_objects
from shoal.lake.pools import Pool
from shoal.lake.scans import unless_purged
from shoal.lake.workers import Workers, in_packs
from shoal.model.values import Value

SHARE = LARGEST_RUN // 2
"""Bytes of values that are sorted at a time."""
TASK_SHARE = SHARE // 2
"""The same in a task, of which many run at a time: it writes one object, where a process of its own writes two."""
_SAMPLES = 16
"""How many sampled keys a partition has, at least."""
_GOLDEN_RATIO = 0.6180339887
"""The phase of samples moves by this from one object to the next, so that they are spread over the keys."""


@dataclass(frozen=True, slots=True)
class KeyPartition:
    """Those values of some objects whose keys are in an interval."""

    pool: Pool
    objects: tuple[DataObject, ...]
    interval: KeyInterval = EVERYWHERE
    in_pieces: frozenset[Id] = frozenset()
    """Those that it does not read itself."""


class Partitioning(NamedTuple):
    """Partitions in the order of the pool, and the objects that are sliced for them at the boundaries."""

    shares: list[KeyPartition]
    sliced: tuple[SliceInput, ...] = ()
    edges: tuple[Value, ...] = ()


class _Sample(NamedTuple):
    """A key, and how many bytes of values it stands for."""

    key: Value
    size: float


class _Sampled(NamedTuple):
    """An object, and keys of it."""

    object: DataObject
    samples: list[_Sample]
    groups: int
    """In how many parts it can be read; 0 if these have to be found by reading."""


def cut(pool: Pool, objects: Sequence[DataObject], size: int = SHARE) -> Partitioning:
    """Partitions of about `size` bytes."""
    total = sum(o.value_size for o in objects)
    count = -(-total // size)
    if count < 2:
        return Partitioning([KeyPartition(pool, tuple(objects))])
    order, key = pool.config.key.order, pool.config.key
    sampled = [
        _sampled(pool, o, _GOLDEN_RATIO * place % 1, total / count / _SAMPLES) for place, o in enumerate(objects)
    ]
    edges = _edges(pool, [s for found in sampled for s in found.samples], total / count)
    intervals = [KeyInterval(*ends) for ends in zip([None, *edges], [*edges, None], strict=True)]
    held = [[o for o in objects if s.may_hold(order, o.first(key), o.last(key))] for s in intervals]
    spans: dict[Id, int] = defaultdict(int)
    for o in (o for share in held for o in share):
        spans[o.id] += 1
    in_pieces = frozenset(
        s.object.id for s in sampled if s.groups and _is_read_repeatedly(spans[s.object.id], s.groups)
    )
    shares = [
        KeyPartition(pool, tuple(mine), interval, in_pieces.intersection(o.id for o in mine))
        for mine, interval in zip(held, intervals, strict=True)
    ]
    return Partitioning(shares, _placed(objects, in_pieces), tuple(edges))


def _is_read_repeatedly(shares: int, groups: int) -> bool:
    """Whether the shares of an object would read much of it more than once: at each cut a group is read twice."""
    return 2 * (shares - 1) > groups


def _placed(objects: Sequence[DataObject], chosen: frozenset[Id]) -> tuple[SliceInput, ...]:
    made = []
    others = 0
    for o in objects:
        if o.id in chosen:
            made.append(SliceInput(others, o))
        else:
            others += 1
    return tuple(made)


def _edges(pool: Pool, found: list[_Sample], size: float) -> list[Value]:
    """Keys between which there are about `size` bytes."""
    sortable = comparer(pool.config.key.order)
    samples = sorted(found, key=lambda s: sortable((s.key,)))
    edges: list[Value] = []
    held, last = 0.0, samples[0].key
    for sample in samples:
        if held >= size and sortable((last,)) < sortable((sample.key,)):
            edges.append(sample.key)
            held, last = 0.0, sample.key
        held += sample.size
    return edges


def _sampled(pool: Pool, o: DataObject, phase: float, size: float) -> _Sampled:
    """Keys that stand for at most `size` bytes each, as far as the metadata of the object allows."""
    key, name = pool.config.key, key_of(pool.prefix, o)
    row_size = o.value_size / max(1, o.count)
    try:
        if o.form is Form.COLUMNS:
            found, groups = column_form.sample_keys(
                pool.store, pool.prefix, key, o, phase, max(1, int(size / max(1, row_size)))
            )
        else:
            found, groups = [(s.first, s.count) for s in row_form.segments(pool.store, name, key, o)], 0
        return _Sampled(o, [_Sample(first, row_size * count) for first, count in found], groups)
    except Purged:
        return _Sampled(o, [_Sample(o.first(key), o.value_size)], 0)


def read_share(share: KeyPartition, pieces: Iterable[Piece] = ()) -> Iterator[Batch]:
    """The values of a share in columns, one object after the other."""
    pool = share.pool
    purged = frozenset(pool.refs().purged())
    waiting: dict[Id, list[Piece]] = defaultdict(list)
    for piece in pieces:
        waiting[piece.first].append(piece)
    for o in share.objects:
        if o.id in share.in_pieces:
            for piece in waiting.pop(o.id, ()):
                yield piece.batch(o)
            continue
        for batch in unless_purged(pool, o, object_batches(pool, o, share.interval), None, purged):
            found = rows_between(batch, pool.config.key, share.interval)
            if found.length:
                yield found


def object_batches(pool: Pool, o: DataObject, interval: KeyInterval = EVERYWHERE) -> Iterator[Batch]:
    """The values of an object in columns, in its order: of the parts that may hold some in an interval."""
    if o.form is Form.ROWS:
        return batches(row_form.read(pool.store, pool.prefix, pool.config.key, o))
    return column_form.read_interval(pool.store, pool.prefix, pool.config.key, o, interval)


def write_cuts(cuts: Sequence[Partitioning], by: Workers) -> Generator[list[DataObject], None, None]:
    """The new objects of each share, one cut after the other."""
    for has_pieces, run in groupby(cuts, lambda cut: bool(cut.sliced)):
        if not has_pieces:
            yield from by.run(write_share, [share for cut in run for share in cut.shares])
            continue
        for cut in run:
            packs = in_packs(cut.sliced, [placed.object.size for placed in cut.sliced], by.count)
            work = [Slicing(cut.shares[0].pool, pack, cut.edges) for pack in packs]
            yield from by.shuffle(slice_objects, work, write_share, cut.shares)


def write_share(share: KeyPartition, pieces: Iterable[Piece] = ()) -> list[list[DataObject]]:
    """New objects with the values of a share, sorted; nobody sees them before a commit adds them."""
    pool = share.pool
    writer = ObjectWriter(pool.store, pool.prefix, pool.config, as_one_run=True)
    try:
        for batch in read_share(share, pieces):
            writer.write_batch(batch)
        return [writer.close()]
    except BaseException:
        writer.discard()
        raise
