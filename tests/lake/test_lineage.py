"""Lineage: which row each row was first, whatever compactions have done with it; how that is stored and checked."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.conftest import Load

import shoal
from shoal.api.pool import Pool as PoolHandle
from shoal.errors import Conflict, CorruptData
from shoal.ids import Id, new, to_text
from shoal.lake import lineage, object_writer, partitioning, rewriting, vacuum
from shoal.lake.actions import stored as stored_of
from shoal.lake.commits import Note
from shoal.lake.lake import FEATURES, LINEAGES
from shoal.lake.lineage import Absorbed, Lineage, pack, unpack
from shoal.lake.objects import DataObject, RowLineage
from shoal.lake.pools import Pool, open_pool
from shoal.local.lake import stored
from shoal.storage.memory import MemoryStore
from shoal.testing.lineage_checks import contributors, identities, require_origins, traced
from shoal.testing.tiers import examples

ME = Note("me")


def objects(pool: Pool) -> list[DataObject]:
    return list(pool.snapshot(pool.resolve()).objects())


def compact(pool: Pool) -> None:
    rewriting.compact(pool, "main", [o.id for o in objects(pool)], ME)


def numbers(values: list[int]) -> lineage.Numbers:
    return np.array(values, np.uint32)


# ---- as bytes

rows = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2**32 - 1)), max_size=50)


@settings(max_examples=examples(200))
@given(rows, rows, st.booleans(), st.randoms(use_true_random=False))
def test_what_is_packed_is_unpacked(
    own: list[tuple[int, int]], more: list[tuple[int, int]], up: bool, dice: object
) -> None:
    ids = tuple(new() for _ in range(1 + max((code for code, _ in (*own, *more)), default=0)))
    own = sorted(set(own)) if up else own
    counts = [0] * len(own)
    for i in range(len(more)):
        if own:
            counts[i * 7 % len(own)] += 1
    absorbed = Absorbed(numbers(counts), numbers([c for c, _ in more]), numbers([r for _, r in more]))
    known = Lineage(ids, numbers([c for c, _ in own]), numbers([r for _, r in own]), absorbed if own and more else None)
    back = unpack(pack(known))
    assert back.ids == known.ids
    assert np.array_equal(back.origins, known.origins)
    assert np.array_equal(back.rows, known.rows)
    assert (back.absorbed is None) == (known.absorbed is None)
    for one, other in zip(back.absorbed or (), known.absorbed or (), strict=True):
        assert np.array_equal(one, other)


def test_rows_that_keep_their_order_take_a_few_bits() -> None:
    ids, origins = tuple(new() for _ in range(16)), np.random.default_rng(1).integers(0, 16, 100_000)
    places = np.empty(100_000, np.uint32)
    for code in range(16):
        places[origins == code] = np.arange((origins == code).sum())
    data = pack(Lineage(ids, origins.astype(np.uint32), places))
    assert len(data) < 100_000 * 4.5 / 8
    in_a_row = pack(Lineage(ids, np.sort(origins).astype(np.uint32), places[np.argsort(origins, kind="stable")]))
    assert len(in_a_row) < 1000


# ---- what compactions write


def test_a_load_has_no_lineage_and_a_compaction_has(pool: Pool, load: Load) -> None:
    load("{k:1} {k:3}")
    load("{k:2} {k:4}")
    assert all(o.lineage is None for o in objects(pool))
    before = identities(pool, pool.resolve())
    compact(pool)
    (o,) = objects(pool)
    assert o.lineage is not None
    assert identities(pool, pool.resolve()) == before
    require_origins(pool, pool.resolve())


def test_chains_collapse(pool: Pool, load: Load) -> None:
    """The origin is always the first object, however many compactions there were."""
    for k in range(6):
        load(f"{{k:{k}}} {{k:{9 - k}}}")
        before = identities(pool, pool.resolve())
        if k:
            compact(pool)
        assert identities(pool, pool.resolve()) == before
    require_origins(pool, pool.resolve())


def scattered(path: Path) -> PoolHandle:
    """A pool with objects that overlap, in columns and in rows, of records with and without the key."""
    pool = shoal.create("memory://").create("p", key="k", seek_stride=64)
    for part in range(6):
        wide = {f"f{j}": j for j in range(20 if part % 3 == 2 else 1)}
        records = [{"k": i * 37 % 100, "part": part, "i": i, **wide} for i in range(60)]
        pool.load([*records, {"other": part}, {"k": None, "part": part}])
    pq.write_table(pa.table({"k": [5, 1, 3, 1], "part": [9, 9, 9, 8]}), path / "x.parquet")
    pool.attach([str(path / "x.parquet")])
    pool.delete(where="i % 7 == 3")
    return pool


def all_at_once(pool: Pool) -> None:
    compact(pool)


def in_partitions(pool: Pool) -> None:
    every = objects(pool)
    size = sum(o.value_size for o in every) // 5
    work = partitioning.partition_objects(pool, every, size)
    assert len(work.partitions) > 3
    assert work.sliced
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partitioning, "partition_objects", lambda *_: work)
        compact(pool)


def in_repeated_reads(pool: Pool) -> None:
    every = objects(pool)
    work = partitioning.partition_objects(pool, every, sum(o.value_size for o in every) // 5)
    parts = [replace(partition, in_slices=frozenset()) for partition in work.partitions]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partitioning, "partition_objects", lambda *_: partitioning.Partitioning(parts))
        compact(pool)


def after_a_deletion(pool: Pool) -> None:
    """Most rows go, so that objects are written again."""
    compact(pool)


@pytest.mark.parametrize("move", [all_at_once, in_partitions, in_repeated_reads], ids=lambda each: each.__name__)
@pytest.mark.parametrize("inside", [0, 1 << 20], ids=["own object", "in the description"])
def test_rows_keep_their_identities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: Callable[[Pool], None], inside: int
) -> None:
    monkeypatch.setattr(object_writer, "MOST_COLUMNS", 10)
    monkeypatch.setattr(lineage, "MOST_INSIDE", inside)
    handle = scattered(tmp_path)
    pool = stored(handle)
    before = identities(pool, pool.resolve())
    for _ in range(2):
        move(pool)
        lineage.forget()
        assert identities(pool, pool.resolve()) == before
        require_origins(pool, pool.resolve())
        if move is not all_at_once:
            break
    handle.delete(where="i % 3 > 0")
    gone = before.keys() - identities(pool, pool.resolve()).keys()
    assert {(value.field("i") or value).data % 3 > 0 for key, value in before.items() if key in gone} == {True}
    require_origins(pool, pool.resolve())


def test_a_deletion_that_writes_an_object_again_moves_what_is_left(pool: Pool) -> None:
    handle = shoal.create("memory://").create("p", key="k", inline=0)
    handle.load([{"k": k} for k in range(100)])
    target = stored(handle)
    before = identities(target, target.resolve())
    handle.delete(where="k % 4 > 0")
    (o,) = objects(target)
    assert o.mask is None
    after = identities(target, target.resolve())
    assert len(after) == 25
    assert after.items() <= before.items()


@pytest.mark.parametrize("policy", ["dedupe", "replace by v", "aggregate sum(v)", "program sort v | tail 1"])
def test_a_row_that_a_policy_merged_has_all_that_went_into_it(policy: str) -> None:
    handle = shoal.create("memory://").create("p", key="k", policy=policy)
    for part in range(4):
        handle.load([{"k": k, "v": (k * part) % 3} for k in range(part, 20)])
    pool = stored(handle)
    before = contributors(pool, pool.resolve())
    every = {own: value for o in objects(pool) for own, _, value in traced(pool, o)}
    for _ in range(2):
        handle.compact([to_text(o.id) for o in objects(pool)])
        assert contributors(pool, pool.resolve()) == before
        for o in objects(pool):
            for own, more, value in traced(pool, o):
                equal = [each for each in (own, *more) if every[each] == value]
                assert every[own] == value if equal else own == max((own, *more))
        handle.load([{"k": 3, "v": 1}])
        before = contributors(pool, pool.resolve())
        every |= {own: value for o in objects(pool) if o.lineage is None for own, _, value in traced(pool, o)}


def compact_all(handle: PoolHandle) -> None:
    handle.compact([to_text(o.id) for o in objects(stored(handle))])


MOVES: dict[str, tuple[dict[str, Any], Callable[[PoolHandle], object]]] = {
    "a compaction": ({}, compact_all),
    "a compaction by a policy": ({"policy": "aggregate sum(v)"}, compact_all),
    "a compaction of partitions": ({"partition": "v"}, compact_all),
    "a deletion": ({}, lambda handle: handle.delete(where="k > 1")),
    "a compaction elsewhere": ({}, lambda handle: compact(pickle.loads(pickle.dumps(stored(handle))))),
}


@pytest.mark.parametrize(("settings", "move"), MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("is_older", [False, True])
def test_a_lake_that_an_older_version_may_write_to_gets_no_lineage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    move: Callable[[PoolHandle], object],
    is_older: bool,
) -> None:
    with monkeypatch.context() as older:
        if is_older:
            older.setattr("shoal.lake.lake.FEATURES", FEATURES - {LINEAGES})
        shoal.create(str(tmp_path / "lake"))
    handle = shoal.open(str(tmp_path / "lake")).create("p", key="k", inline=0, **settings)
    for _ in range(2):
        handle.load([{"k": k, "v": 0} for k in range(10)])
    handle.create_branch("b")
    handle.branch("b").delete(where="k == 1")
    move(handle)
    assert {o.lineage is None for o in objects(stored(handle))} == {is_older}
    with pytest.raises(Conflict, match="has deleted or rewritten") if is_older else nullcontext():
        handle.merge("b")
    assert bool(list(handle.query("k == 1"))) is is_older


# ---- as it is stored


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lineages are objects of their own."""
    monkeypatch.setattr(lineage, "MOST_INSIDE", 4)


def compacted(pool: Pool, load: Load) -> DataObject:
    load("{k:1} {k:3}")
    load("{k:2}")
    compact(pool)
    lineage.forget()
    (o,) = objects(pool)
    return o


def kept(o: DataObject) -> RowLineage:
    assert o.lineage is not None
    return o.lineage


def read_again(pool: Pool) -> Lineage | None:
    lineage.forget()
    fresh = open_pool(pool.store, pool.config)
    return lineage.read(fresh.store, fresh.prefix, objects(fresh)[0])


def test_a_small_one_is_part_of_the_description(pool: Pool, load: Load) -> None:
    assert kept(compacted(pool, load)).data
    assert not list(pool.store.list(f"{pool.prefix}/lineage/"))
    assert read_again(pool) is not None


@pytest.mark.usefixtures("large")
def test_a_large_one_is_an_object_and_stays_as_long_as_its_object_is_reached(
    pool: Pool, load: Load, store: MemoryStore
) -> None:
    o = compacted(pool, load)
    key = lineage.lineage_key(pool.prefix, o.id)
    assert key in [each.key(pool.prefix) for each in stored_of(o)]
    assert store.size(key) == kept(o).size
    vacuum.collect(pool, 0)
    assert read_again(pool) is not None
    store.put(lineage.lineage_key(pool.prefix, Id(new())), b"left by a crash")
    vacuum.collect(pool, 0)
    assert [each.key for each in store.list(f"{pool.prefix}/lineage/")] == [key]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("data", [None, b"", b"short"], ids=["gone", "empty", "short"])
def test_damage_is_told_by_its_key(pool: Pool, load: Load, store: MemoryStore, data: bytes | None) -> None:
    o = compacted(pool, load)
    key = lineage.lineage_key(pool.prefix, o.id)
    if data is None:
        store.delete(key)
    else:
        store.put(key, data)
    with pytest.raises(CorruptData, match=key):
        lineage.read(store, pool.prefix, o)


def test_a_lineage_that_was_exchanged_for_another_is_named(pool: Pool, load: Load) -> None:
    o = compacted(pool, load)
    known = unpack(kept(o).data)
    other = pack(known._replace(rows=known.rows[::-1].copy()))
    broken = replace(o, lineage=RowLineage(other, len(other), kept(o).checksum))
    lineage.forget()
    with pytest.raises(CorruptData, match=to_text(o.id)):
        lineage.read(pool.store, pool.prefix, broken)


def test_bytes_with_the_right_checksum_that_are_no_lineage_are_damage(pool: Pool, load: Load) -> None:
    o = compacted(pool, load)
    data = kept(o).data
    for wrong in (
        b"x" * 40,
        data[:-3],
        pack(unpack(data)._replace(origins=numbers([9, 9, 9]))),
        pack(Lineage((), numbers([]), numbers([]))),
    ):
        broken = replace(o, id=new(), lineage=RowLineage(wrong, len(wrong), zlib.crc32(wrong)))
        with pytest.raises(CorruptData, match="lineage"):
            lineage.read(pool.store, pool.prefix, broken)
