"""Checkpoints: trees of pages that hold exactly the objects they should, share what did not change, and are hints."""

from __future__ import annotations

import random

import pytest
from tests.lake.conftest import Load, Read

from shoal.ids import Id, new
from shoal.lake import checkpoints, snapshots
from shoal.lake.actions import patch_of
from shoal.lake.checkpoints import Checkpoints, Item
from shoal.lake.keys import Bound, KeyRange, SortKey, parse_sort_key
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool, open_pool
from shoal.model.values import NULL, Value, int64
from shoal.storage.faults import FaultyStore
from shoal.storage.memory import MemoryStore


def an_object(low: int | None, high: int | None) -> DataObject:
    return DataObject(new(), _key(low), _key(high), 1, 1, 0)


def _key(n: int | None) -> Value:
    return NULL if n is None else int64(n)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PAGE", 4)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("small")
def test_a_tree_holds_what_was_added_and_not_deleted(order: str, seed: int) -> None:
    rng = random.Random(seed)
    key = parse_sort_key(f"k:{order}")
    tree = Checkpoints(MemoryStore(), "p", key)
    items: list[Item] = []
    live: dict[Id, DataObject] = {}
    for _ in range(25):
        low = [rng.choice([rng.randint(0, 20), rng.randint(0, 1000)]) for _ in range(rng.randint(0, 12))]
        adds = [an_object(n, n + rng.randint(0, 9)) for n in low] + [an_object(None, None)] * (rng.random() < 0.2)
        deletes = rng.sample(list(live.values()), min(len(live), rng.randint(0, 8)))
        items = tree.changed(items, patch_of(adds, deletes))
        live = {i: o for i, o in live.items() if o not in deletes} | {o.id: o for o in adds}
        found = list(tree.objects(items))
        assert {o.id for o in found} == set(live)
        assert len(found) == len(live)
        assert _is_sorted(found, key)
        wanted = KeyRange(Bound(int64(5)), Bound(int64(12)))
        assert {o.id for o in tree.objects(items, wanted)} == {
            o.id for o in live.values() if wanted.may_hold(o.min, o.max)
        }


def _is_sorted(objects: list[DataObject], key: SortKey) -> bool:
    firsts = [o.first(key).data for o in objects]
    ranks = [(n is None, n or 0) for n in firsts]
    return ranks == sorted(ranks, reverse=key.order == "desc")


def test_a_new_checkpoint_writes_a_few_pages_and_reading_a_range_reads_a_few() -> None:
    store = MemoryStore()
    tree = Checkpoints(store, "p", parse_sort_key("k"))
    items = tree.changed([], patch_of([an_object(i, i) for i in range(20_000)]))
    counting = FaultyStore(store, lambda number, name, key: None)
    tree = Checkpoints(counting, "p", parse_sort_key("k"))
    items = tree.changed(items, patch_of([an_object(7, 7)]))
    assert len([1 for name, _ in counting.calls if name == "put"]) <= 2
    counting.calls.clear()
    assert next(tree.objects(items)).min.data == 0
    assert len(counting.calls) <= 2


@pytest.fixture
def long_history(monkeypatch: pytest.MonkeyPatch, pool: Pool, load: Load) -> list[Id]:
    monkeypatch.setattr(checkpoints, "PAGE", 4)
    monkeypatch.setattr(snapshots, "CHECKPOINT_EVERY", 8)
    return [load(f"{{k:{i}}}") for i in range(60)]


def test_every_commit_reads_the_same_with_and_without_checkpoints(
    store: MemoryStore, pool: Pool, long_history: list[Id], read: Read
) -> None:
    def check() -> None:
        fresh = open_pool(store, pool.config)
        for i, ident in enumerate(long_history):
            assert read(ident, fresh) == [f"{{k:{n}}}" for n in range(i + 1)]

    check()
    kinds = [f"{pool.prefix}/checkpoints/", f"{pool.prefix}/pages/"]
    assert all(list(store.list(kind)) for kind in kinds)
    for kind in kinds:
        for listed in list(store.list(kind)):
            store.put(listed.key, b"garbage")
        check()
        for listed in list(store.list(kind)):
            store.delete(listed.key)
        check()


def test_opening_a_branch_takes_few_reads(store: MemoryStore, pool: Pool, long_history: list[Id]) -> None:
    counting = FaultyStore(store, lambda number, name, key: None)
    fresh = open_pool(counting, pool.config)
    assert sum(1 for _ in fresh.snapshot(fresh.resolve()).objects()) == 60
    commits = [key for name, key in counting.calls if "/commits/" in key]
    assert len(commits) <= 8


def test_after_damage_the_next_checkpoint_is_good_again(
    store: MemoryStore, pool: Pool, long_history: list[Id], load: Load, read: Read
) -> None:
    for listed in list(store.list(f"{pool.prefix}/checkpoints/")):
        store.put(listed.key, b"garbage")
    fresh = open_pool(store, pool.config)
    for i in range(60, 80):
        load(f"{{k:{i}}}", into=fresh)
    tip = fresh.commits.read(fresh.resolve() or new())
    assert tip.checkpoint is not None
    assert Checkpoints(store, pool.prefix, pool.config.key).open(tip.checkpoint)
    assert len(read("main", open_pool(store, pool.config))) == 80
