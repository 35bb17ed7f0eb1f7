"""The objects at a commit: by key, by id, by what changed, whatever happens to checkpoints."""

from __future__ import annotations

import pytest
from tests.lake.conftest import Load

from shoal.ids import Id, new
from shoal.lake import changes
from shoal.lake.commits import Note
from shoal.lake.keys import Bound, KeyRange
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool, open_pool
from shoal.lake.snapshots import CHECKPOINT_EVERY
from shoal.model.values import int64
from shoal.storage.memory import MemoryStore

ME = Note("tester")


def objects(pool: Pool, commit: Id | None) -> list[DataObject]:
    return list(pool.snapshot(commit).objects())


def keys(pool: Pool, commit: Id | None) -> list[int]:
    return [o.min.data for o in objects(pool, commit)]


def within(low: int, high: int) -> KeyRange:
    return KeyRange(Bound(int64(low)), Bound(int64(high)))


def test_the_beginning_has_no_objects(pool: Pool) -> None:
    snapshot = pool.snapshot(None)
    assert list(snapshot.objects()) == []
    assert snapshot.count() == 0
    assert snapshot.by_id() == {}


def test_objects_come_in_the_order_of_the_pool_and_by_range(pool: Pool, load: Load) -> None:
    for text in ("{k:7} {k:9}", "{k:1} {k:3}", "{k:4}"):
        tip = load(text)
    snapshot = pool.snapshot(tip)
    assert keys(pool, tip) == [1, 4, 7]
    assert [o.min.data for o in snapshot.objects(within(3, 5))] == [1, 4]
    assert [o.min.data for o in snapshot.objects(within(10, 20))] == []
    assert snapshot.count() == 3


def test_a_snapshot_finds_objects_by_id(pool: Pool, load: Load) -> None:
    load("{k:1}")
    first = objects(pool, pool.resolve())[0]
    tip = load("{k:2}")
    snapshot = pool.snapshot(tip)
    assert snapshot.find([first.id, new()]) == {first.id: first}
    assert snapshot.find([]) == {}
    assert set(snapshot.by_id()) == {o.id for o in objects(pool, tip)}
    assert snapshot.has(first)


def test_what_was_deleted_is_there_before_and_not_after(pool: Pool, load: Load) -> None:
    before = load("{k:1}")
    (gone,) = objects(pool, before)
    after = changes.delete(pool, "main", [gone.id], ME)
    assert pool.snapshot(before).has(gone)
    assert not pool.snapshot(after).has(gone)
    assert pool.snapshot(after).count() == 0


def test_the_difference_between_commits_leads_from_one_to_the_other(pool: Pool, load: Load) -> None:
    first = load("{k:1}")
    (one,) = objects(pool, first)
    pool.names.create_branch("dev", first)
    on_main = load("{k:2}")
    on_dev = changes.delete(pool, "dev", [one.id], ME)
    forward = pool.snapshots.between(first, on_main)
    assert ([o.min.data for o in forward.adds], forward.deletes) == ([2], ())
    across = pool.snapshots.between(on_main, on_dev)
    assert across.adds == ()
    assert {o.min.data for o in across.deletes} == {1, 2}
    assert [o.id for o in pool.snapshots.between(None, first).adds] == [one.id]
    nothing = pool.snapshots.between(on_main, on_main)
    assert (nothing.adds, nothing.deletes) == ((), ())


def test_a_checkpoint_is_due_every_few_commits_and_children_name_it(pool: Pool, load: Load) -> None:
    commits = [pool.commits.read(load(f"{{k:{k}}}")) for k in range(CHECKPOINT_EVERY + 2)]
    due = [number for number, commit in enumerate(commits, 1) if pool.snapshots.is_due(commit)]
    assert due == [CHECKPOINT_EVERY]
    last_due = commits[CHECKPOINT_EVERY - 1]
    assert pool.snapshots.is_whole(last_due.id)
    assert not pool.snapshots.is_whole(commits[0].id)
    assert commits[-1].checkpoint == last_due.id
    assert commits[-1].since == (commits[-2].id,)
    assert pool.snapshots.hints(commits[-1]) == (last_due.id, (commits[-2].id, commits[-1].id))
    assert pool.snapshots.hints(None) == (None, ())


@pytest.mark.parametrize("change", ["damage", "loss"])
def test_a_state_is_read_without_the_checkpoint_that_is_gone(
    store: MemoryStore, pool: Pool, load: Load, change: str
) -> None:
    for k in range(CHECKPOINT_EVERY + 1):
        tip = load(f"{{k:{k}}}")
    expected = keys(pool, tip)
    for listed in list(store.list(f"{pool.prefix}/checkpoints/")):
        if change == "loss":
            store.delete(listed.key)
        else:
            store.put(listed.key, store.get(listed.key)[:-1])
    again = open_pool(store, pool.config)
    assert keys(again, tip) == expected == list(range(CHECKPOINT_EVERY + 1))
    checkpoint = again.commits.read(tip).checkpoint
    assert checkpoint is not None
    assert not again.snapshots.is_whole(checkpoint)
    again.snapshots.make_whole(checkpoint)
    assert again.snapshots.is_whole(checkpoint)
    assert keys(open_pool(store, pool.config), tip) == expected
