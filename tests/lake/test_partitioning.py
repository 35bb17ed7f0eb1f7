"""A compaction in partitions: whatever the keys are, no value is lost or doubled, and nothing overlaps any more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.api.pool import Pool as PoolHandle
from shoal.formats.columns.batches import Batch
from shoal.ids import Id, to_text
from shoal.lake import object_writer, partitioning
from shoal.lake.identities import Origins
from shoal.lake.keys import compare_in
from shoal.lake.lake import create
from shoal.lake.objects import DataObject, Form, key_of
from shoal.lake.slices import Slice, Slicing, slice_objects
from shoal.local.lake import LocalLake, stored
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.storage.memory import MemoryStore
from shoal.testing.tiers import examples

KEYS = st.sampled_from((
    "1", "2", "3", "7", "-4", "9223372036854775807", "null(int64)", "null", "2.5", "NaN", "-0.", "0.", '"a"', '"b"',
    '""', "3(uint8)", "18446744073709551615(uint64)", "2020-01-01T00:00:00Z", "1s", "10.0.0.1", "::1", "0x0aff", "true",
    "80(port=uint16)", "5((int64,string))", '"z"((int64,string))', "[1]", "{x:1}", 'error("no")', "<int64>",
))  # fmt: skip


class CountingStore(MemoryStore):
    """Objects in memory, and how often each was read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    def get(self, key: str) -> bytes:
        self.reads[key] += 1
        return super().get(key)


def value(key: str | None, number: int) -> Value:
    return parse_value(f"{{n:{number}}}" if key is None else f"{{k:{key},n:{number}}}")


def made_pool(lake: LocalLake, order: str, loads: list[list[str | None]]) -> PoolHandle:
    pool = lake.create("p", key=f"k:{order}")
    for number, keys in enumerate(loads):
        pool.load([value(key, 100 * number + i) for i, key in enumerate(keys)])
    return pool


def objects(pool: PoolHandle) -> list[DataObject]:
    return list(stored(pool).snapshot(stored(pool).resolve()).objects())


@settings(max_examples=examples(25))
@given(
    st.sampled_from(("asc", "desc")),
    st.lists(st.lists(st.one_of(KEYS, st.none()), min_size=1, max_size=12), min_size=2, max_size=5),
    st.sampled_from((1, 40, 200)),
)
def test_partitions_hold_every_value_once(order: str, loads: list[list[str | None]], size: int) -> None:
    lake = shoal.create("memory://")
    assert isinstance(lake, LocalLake)
    pool = made_pool(lake, order, loads)
    before = Counter(map(format_value, lake.query(f"from '{pool.name}'")))
    if len(objects(pool)) < 2:
        return
    partition = partitioning.partition_objects
    with patch.object(partitioning, "partition_objects", lambda pool, chosen, _: partition(pool, chosen, size)):
        pool.compact([to_text(o.id) for o in objects(pool)])
    assert Counter(map(format_value, lake.query(f"from '{pool.name}'"))) == before
    keyed = [o for o in objects(pool) if o.has_key]
    key = stored(pool).config.key
    for one, other in pairwise(keyed):
        assert compare_in(key.order, one.last(key), other.first(key)) <= 0


def test_large_runs_are_partitioned_by_the_keys_of_row_groups() -> None:
    lake = shoal.create("memory://")
    pool = lake.create("p", key="ts", seek_stride=64)
    for part in range(4):
        pool.load([{"ts": (i * 7919 + part) % 10_000, "s": f"text {i}"} for i in range(4000)])
    assert isinstance(pool, PoolHandle)
    loaded = objects(pool)
    work = partitioning.partition_objects(stored(pool), loaded, sum(o.value_size for o in loaded) // 6)
    assert not work.sliced
    assert len(work.partitions) >= 5
    counts = [sum(batch.length for batch, _ in partitioning.read_partition(each)) for each in work.partitions]
    assert sum(counts) == 16_000
    assert max(counts) < 2 * 16_000 / len(counts)


def overlapping(lake: LocalLake, count: int) -> PoolHandle:
    """A pool of objects that all span the same keys, each in one row group."""
    pool = lake.create("p", key="k")
    for part in range(count):
        pool.load([{"k": (i * 7919 + part) % 10_000, "part": part, "s": f"text {i}"} for i in range(1000)])
    return pool


def test_objects_that_span_all_partitions_are_read_once_to_be_sampled_and_once_to_be_sliced() -> None:
    store = CountingStore()
    lake = LocalLake(create(store))
    pool = overlapping(lake, 40)
    loaded = objects(pool)
    before = [format_value(v) for v in lake.query("from p | sort k")]
    size = sum(o.value_size for o in loaded) // 10
    sizes: list[int] = []

    def noted(partition: partitioning.KeyPartition, slices: Iterable[Slice] = ()) -> list[list[DataObject]]:
        written = write(partition, slices)
        sizes.extend(sum(o.value_size for o in group) for group in written)
        return written

    partition, write = partitioning.partition_objects, partitioning.write_partition
    store.reads.clear()
    with (
        patch.object(partitioning, "partition_objects", lambda pool, chosen, _: partition(pool, chosen, size)),
        patch.object(partitioning, "write_partition", noted),
    ):
        pool.compact([to_text(o.id) for o in loaded])
    assert len(sizes) >= 8
    assert max(sizes) < 1.5 * size
    assert {store.reads[key_of(stored(pool).prefix, o)] for o in loaded} == {2}
    assert [format_value(v) for v in lake.query("from p | sort k")] == before


@patch.object(object_writer, "MOST_COLUMNS", 10)
def test_slices_come_in_the_order_of_their_objects() -> None:
    lake = shoal.create("memory://")
    assert isinstance(lake, LocalLake)
    pool = lake.create("p", key="k")
    for part in range(12):
        width = 20 if part % 5 == 4 else 1  # too many fields for columns: an object in row form
        pool.load([{"k": i % 50, "n": 100 * part + i, **{f"f{j}": j for j in range(width)}} for i in range(100)])
    loaded = objects(pool)
    assert {o.form for o in loaded} == set(Form)
    work = partitioning.partition_objects(stored(pool), loaded, 4000)
    slices: dict[int, list[Slice]] = defaultdict(list)
    for number, rows in slice_objects(Slicing(stored(pool), work.sliced, work.boundaries)):
        slices[number].append(rows)
    for number, partition in enumerate(work.partitions):
        assert partition.in_slices
        by_itself = replace(partition, in_slices=frozenset())
        from_slices = partitioning.read_partition(partition, slices[number])
        assert values(from_slices) == values(partitioning.read_partition(by_itself))


def values(read: Iterable[tuple[Batch, Origins]]) -> list[tuple[str, tuple[Id, int]]]:
    """Values, and which rows they are."""
    return [
        (format_value(v), origins.known.origin_of(key))
        for batch, origins in read
        for v, key in zip(batch.values(), origins.keys.tolist(), strict=True)
    ]
