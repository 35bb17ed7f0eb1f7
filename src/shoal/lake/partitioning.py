"""Range partitioning of objects that overlap: each partition is sorted and written by itself, several in parallel.

A sample of the keys gives the boundaries, so that partitions are about equal and fit into memory, however the objects
overlap. A partition reads the row groups of its objects that it needs. An object that spans many partitions is read
once, before them, and they get it in slices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from shoal.formats.columns.batches import Batch
from shoal.ids import Id, new
from shoal.lake import column_form, external_form, row_form
from shoal.lake.identities import Identities, Origins, joined_origins
from shoal.lake.key_columns import EVERYWHERE, KeyInterval, NumberedBatch, numbered_rows, rows_between
from shoal.lake.keys import comparer
from shoal.lake.masks import shown_rows
from shoal.lake.merging import Policy, compacted_values
from shoal.lake.object_writer import ObjectWriter
from shoal.lake.objects import LARGE, LARGEST_RUN, DataObject, Form, Purged, key_of
from shoal.lake.pool_partitions import shared_partition
from shoal.lake.pools import Pool
from shoal.lake.scans import unless_purged
from shoal.lake.slices import Slice, SliceInput, SlicePart, Slicing, slice_objects
from shoal.lake.workers import Workers, grouped_by_size
from shoal.model.node import frozen
from shoal.model.values import Value

PARTITION_SIZE = LARGEST_RUN // 2
"""Bytes of values that are sorted at a time."""
TASK_PARTITION_SIZE = PARTITION_SIZE // 2
"""The size in a task. Many tasks run at a time, so one writes one object where a process by itself writes two."""
MERGED_SIZE = LARGE
"""The size where a merge policy takes values one by one. What is compacted to become one object is one partition."""
_SAMPLES = 16
"""How many sampled keys a partition has, at least."""
_GOLDEN_RATIO = 0.6180339887
"""The phase of samples moves by this from one object to the next, so that they are spread over the keys."""


@frozen
class KeyPartition:
    """Those values of some objects whose keys are in an interval."""

    pool: Pool
    objects: tuple[DataObject, ...]
    interval: KeyInterval = EVERYWHERE
    in_slices: frozenset[Id] = frozenset()
    """Objects that it gets in slices instead of reading them."""
    policy: Policy | None = None
    """What becomes of records with equal keys; an interval has all records of a key."""
    merged: Id | None = None
    """The application of the policy that this is a part of."""


class Partitioning(NamedTuple):
    """Partitions in the order of the pool, and the objects that are sliced for them at the boundaries."""

    partitions: list[KeyPartition]
    sliced: tuple[SliceInput, ...] = ()
    boundaries: tuple[Value, ...] = ()


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


def partition_objects(pool: Pool, objects: Sequence[DataObject], size: int = PARTITION_SIZE) -> Partitioning:
    """Partitions of about `size` bytes."""
    total = sum(o.value_size for o in objects)
    count = -(-total // size)
    if count < 2:
        return Partitioning([KeyPartition(pool, tuple(objects))])
    order, key = pool.config.key.order, pool.config.key
    sampled = [
        _sampled(pool, o, _GOLDEN_RATIO * number % 1, total / count / _SAMPLES) for number, o in enumerate(objects)
    ]
    boundaries = _boundaries(pool, [sample for keys in sampled for sample in keys.samples], total / count)
    intervals = [KeyInterval(*ends) for ends in zip([None, *boundaries], [*boundaries, None], strict=True)]
    members = [[o for o in objects if s.may_hold(order, o.first(key), o.last(key))] for s in intervals]
    spans: dict[Id, int] = defaultdict(int)
    for o in (o for group in members for o in group):
        spans[o.id] += 1
    in_slices = frozenset(
        s.object.id for s in sampled if s.groups and _is_read_repeatedly(spans[s.object.id], s.groups)
    )
    partitions = [
        KeyPartition(pool, tuple(group), interval, in_slices.intersection(o.id for o in group))
        for group, interval in zip(members, intervals, strict=True)
    ]
    return Partitioning(partitions, _slice_inputs(objects, in_slices), tuple(boundaries))


def partition_to_merge(
    pool: Pool, objects: Sequence[DataObject], policy: Policy, size: int = MERGED_SIZE
) -> Partitioning:
    """Partitions of about `size` bytes to apply a merge policy to. No key is in two of them, and none is sliced."""
    application = new()
    partitions = partition_objects(pool, objects, size).partitions
    return Partitioning(
        [replace(p, in_slices=frozenset(), policy=policy, merged=application) for p in partitions],
    )


def _is_read_repeatedly(partitions: int, groups: int) -> bool:
    """Whether partitions would read much of an object more than once: two read the row group at their boundary."""
    return 2 * (partitions - 1) > groups


def _slice_inputs(objects: Sequence[DataObject], sliced: frozenset[Id]) -> tuple[SliceInput, ...]:
    inputs = []
    others = 0
    for o in objects:
        if o.id in sliced:
            inputs.append(SliceInput(others, o))
        else:
            others += 1
    return tuple(inputs)


def _boundaries(pool: Pool, samples: list[_Sample], size: float) -> list[Value]:
    """Keys between which there are about `size` bytes."""
    sortable = comparer(pool.config.key.order)
    samples = sorted(samples, key=lambda s: sortable((s.key,)))
    boundaries: list[Value] = []
    filled, last = 0.0, samples[0].key
    for sample in samples:
        if filled >= size and sortable((last,)) < sortable((sample.key,)):
            boundaries.append(sample.key)
            filled, last = 0.0, sample.key
        filled += sample.size
    return boundaries


def _sampled(pool: Pool, o: DataObject, phase: float, size: float) -> _Sampled:
    """Keys that stand for at most `size` bytes each, as far as the metadata of the object allows."""
    key, name = pool.config.key, key_of(pool.prefix, o)
    row_size = o.value_size / max(1, o.count)
    try:
        if o.form is Form.COLUMNS:
            sample = column_form.sample_keys if o.external is None else external_form.sample_keys
            most = max(1, int(size / max(1, row_size)))
            rows, groups = sample(pool.store, pool.prefix, key, o, phase, most)
        else:
            rows, groups = [(s.first, s.count) for s in row_form.segments(pool.store, name, key, o)], 0
        return _Sampled(o, [_Sample(first, row_size * count) for first, count in rows], groups)
    except Purged:
        return _Sampled(o, [_Sample(o.first(key), o.value_size)], 0)


def read_partition(partition: KeyPartition, slices: Iterable[Slice] = ()) -> Iterator[tuple[Batch, Origins]]:
    """The values of a partition in columns, one object after the other, and what each of them was before."""
    pool = partition.pool
    known = Identities(pool.store, pool.prefix)
    purged = frozenset(pool.refs().purged())
    objects = {o.id: o for o in partition.objects}
    slices_of: dict[Id, list[Slice]] = defaultdict(list)
    for rows in slices:
        slices_of[rows.first].append(rows)
    for o in partition.objects:
        if o.id in partition.in_slices:
            for rows in slices_of.pop(o.id, ()):
                yield rows.batch(o), joined_origins([_origins_of(known, objects[part.id], part) for part in rows.parts])
            continue
        for numbered in unless_purged(pool, o, object_batches(pool, o, partition.interval), None, purged):
            within = rows_between(numbered, pool.config.key, partition.interval)
            if within.batch.length:
                yield within.batch, known.origins(o, within.rows)


def _origins_of(known: Identities, o: DataObject, part: SlicePart) -> Origins:
    return known.origins(o, shown_rows(known.store, known.pool, o)[part.start : part.start + part.length])


def object_batches(pool: Pool, o: DataObject, interval: KeyInterval = EVERYWHERE) -> Iterator[NumberedBatch]:
    """The values of an object in columns, those with equal keys in its order. Row groups outside of the interval are
    skipped."""
    if o.form is Form.ROWS:
        return numbered_rows(pool.store, pool.prefix, pool.config.key, o)
    if o.external is not None:
        return external_form.unsorted_batches(pool.store, pool.prefix, pool.config.key, o)
    return column_form.read_interval(pool.store, pool.prefix, pool.config.key, o, interval)


def write_partitions(work: Sequence[Partitioning], by: Workers) -> Generator[list[DataObject], None, None]:
    """The new objects of each partition, one partitioning after the other."""
    for has_slices, run in groupby(work, lambda each: bool(each.sliced)):
        if not has_slices:
            yield from by.run(write_partition, [partition for each in run for partition in each.partitions])
            continue
        for each in run:
            groups = grouped_by_size(each.sliced, [item.object.size for item in each.sliced], by.count)
            slicings = [Slicing(each.partitions[0].pool, group, each.boundaries) for group in groups]
            yield from by.shuffle(slice_objects, slicings, write_partition, each.partitions)


def write_partition(partition: KeyPartition, slices: Iterable[Slice] = ()) -> list[list[DataObject]]:
    """New objects with the values of a partition, sorted; nobody sees them before a commit adds them."""
    pool = partition.pool
    if partition.policy is not None:
        return [[replace(o, merged=partition.merged) for o in _write_merged(partition, partition.policy)]]
    writer = pool.writer(as_one_run=True, partition=shared_partition(partition.objects))
    try:
        for batch, origins in read_partition(partition, slices):
            writer.write_batch(batch, origins)
        return [writer.close()]
    except BaseException:
        writer.discard()
        raise


def _write_merged(partition: KeyPartition, policy: Policy) -> list[DataObject]:
    pool = partition.pool
    writer = pool.writer(as_one_run=True)
    assert isinstance(writer, ObjectWriter), "a pool with a merge policy has no partitions"
    try:
        for values, origins in compacted_values(pool, partition.objects, policy, partition.interval):
            writer.write_values(values, origins)
        return writer.close()
    except BaseException:
        writer.discard()
        raise
