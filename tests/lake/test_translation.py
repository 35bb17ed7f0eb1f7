"""Changes that meet compactions: they are done where the rows are now, and only changes of rows conflict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.api.pool import Pool as PoolHandle
from shoal.errors import Conflict, InvalidInput
from shoal.ids import parse, to_text
from shoal.lake import changes, lineage, rewriting, sessions
from shoal.lake.commits import Note
from shoal.lake.lake import create, open_lake
from shoal.lake.objects import DataObject, format_object, without_rows
from shoal.lake.partition_changes import replace_partitions
from shoal.lake.pools import Pool
from shoal.lake.row_masking import hide_rows
from shoal.lake.tracing import added_by
from shoal.local.lake import LocalLake, stored
from shoal.model.text import format_value
from shoal.planner.merge_policies import policy_of
from shoal.planner.predicates import parse_predicate
from shoal.storage.memory import MemoryStore
from shoal.testing.lineage_checks import contributors

ME = Note("me")


def new_pool(**options: Any) -> PoolHandle:
    return shoal.create("memory://").create("p", key="k", **options)


def objects(handle: PoolHandle, branch: str = "main") -> list[DataObject]:
    pool = stored(handle)
    return list(pool.snapshot(pool.resolve(branch)).objects())


def compact(handle: PoolHandle, branch: str = "main") -> None:
    handle.branch(branch).compact([to_text(o.id) for o in objects(handle, branch)])


def keys(handle: PoolHandle, branch: str = "main") -> list[int]:
    return [value.data[0] for value in handle.branch(branch).query("sort k")]


def records(handle: PoolHandle, branch: str = "main") -> list[str]:
    return sorted(map(format_value, handle.branch(branch).query("yield this")))


def loaded(handle: PoolHandle, *numbers: int, branch: str = "main") -> str:
    return str(handle.branch(branch).load([{"k": k, "v": 0} for k in numbers]))


# ---- compactions that meet others


def test_a_compaction_hides_what_was_deleted_while_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = new_pool()
    loaded(handle, *range(0, 20, 2))
    loaded(handle, *range(1, 20, 2))
    meanwhile(monkeypatch, lambda: handle.delete(where="k == 3 or k == 4"))
    compact(handle)
    (o,) = objects(handle)
    assert (o.count, o.hidden) == (18, 2)
    assert keys(handle) == [k for k in range(20) if k not in (3, 4)]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Somebody else acts once, when a compaction is written and not committed yet."""
    replace_objects = rewriting._replace
    acts = [act]

    def later(pool: Pool, *args: Any) -> Any:
        if acts:
            acts.pop()()
        return replace_objects(pool, *args)

    monkeypatch.setattr(rewriting, "_replace", later)


def test_a_compaction_brings_nothing_back_of_an_object_that_was_deleted_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = new_pool()
    first = loaded(handle, 1, 2)
    loaded(handle, 3)
    meanwhile(monkeypatch, lambda: handle.delete([first]))
    compact(handle)
    assert keys(handle) == [3]


def test_a_compaction_of_what_was_compacted_meanwhile_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = new_pool()
    for k in range(3):
        loaded(handle, k)
    ids = [to_text(o.id) for o in objects(handle)]
    meanwhile(monkeypatch, lambda: compact(handle))
    tip = handle.compact(ids)
    assert len(objects(handle)) == 1
    assert tip == handle.resolve("main")
    assert keys(handle) == [0, 1, 2]
    assert len({each.key for each in stored(handle).store.list(f"{handle.id}/data/")}) == 4, "it removes what it wrote"


def test_a_compaction_of_which_something_was_compacted_meanwhile_is_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = new_pool()
    for k in range(4):
        loaded(handle, k)
    ids = [to_text(o.id) for o in objects(handle)]
    meanwhile(monkeypatch, lambda: handle.compact(ids[:2]))
    handle.compact(ids[1:])
    assert sorted(o.count for o in objects(handle)) == [2, 2]
    assert keys(handle) == [0, 1, 2, 3]


def test_a_lake_that_compacts_everything_at_the_same_time_comes_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = new_pool()
    for k in range(4):
        loaded(handle, k)
    meanwhile(monkeypatch, lambda: compact(handle))
    assert [done.error for done in handle.compact_all()] == [""]
    assert keys(handle) == [0, 1, 2, 3]


# ---- changes that meet compactions


def test_a_transaction_deletes_where_the_rows_are_now() -> None:
    handle = new_pool()
    first = loaded(handle, 1, 2, 3)
    loaded(handle, 4)
    with handle.transaction() as transaction:
        transaction.delete([first])
        transaction.load([{"k": 9, "v": 0}])
        compact(handle)
    assert keys(handle) == [4, 9]


def test_a_serializable_transaction_has_not_read_what_a_compaction_changed() -> None:
    """A compaction changes nothing, so there is nothing to read again."""
    handle = new_pool()
    loaded(handle, 1, 2)
    loaded(handle, 3)
    with handle.transaction(isolation="serializable") as transaction:
        assert len(list(transaction.query("k < 5"))) == 3
        transaction.load([{"k": 9, "v": 0}])
        compact(handle)
    assert keys(handle) == [1, 2, 3, 9]
    with pytest.raises(Conflict, match="changed what it read"), handle.transaction(isolation="serializable") as late:
        list(late.query("k < 5"))
        late.load([{"k": 10, "v": 0}])
        handle.delete(where="k == 2")


def test_a_deletion_comes_back_in_its_old_object_if_the_compaction_left_it_out() -> None:
    handle = new_pool()
    loaded(handle, *range(10))
    deletion = handle.delete(where="k == 4")
    loaded(handle, 20)
    compact(handle)
    handle.revert(deletion)
    assert keys(handle) == [*range(10), 20]
    assert sorted((o.count, o.hidden) for o in objects(handle)) == [(1, 9), (10, 0)]
    with pytest.raises(Conflict, match="nothing is left to do"):
        handle.revert(deletion)


def test_a_row_that_came_back_is_not_shown_twice() -> None:
    """It is there in its old object, and hidden in the one that a compaction wrote."""
    handle = new_pool()
    loaded(handle, *range(10))
    loaded(handle, 20)
    old = objects(handle)
    compact(handle)
    in_new = handle.delete(where="k == 4")
    pool = stored(handle)
    origin = next(o for o in old if o.count == 10)
    back = hide_rows(pool, origin, np.array([k for k in range(10) if k != 4])).after
    assert back is not None
    pool.committer.commit(changes.load("main", [back], ME))
    with pytest.raises(Conflict, match="nothing is left to do"):
        handle.revert(in_new)
    assert keys(handle) == [*range(10), 20]


def test_branches_that_compacted_apart_merge_what_they_have_changed() -> None:
    handle = new_pool()
    for k in range(4):
        loaded(handle, k, 10 + k)
    handle.create_branch("b")
    compact(handle, "b")
    handle.branch("b").delete(where="k == 10")
    loaded(handle, 30, branch="b")
    compact(handle, "b")
    compact(handle)
    handle.delete(where="k == 3")
    loaded(handle, 40)
    compact(handle)
    handle.merge("b")
    assert keys(handle) == [0, 1, 2, 11, 12, 13, 30, 40]
    handle.branch("b").merge("main")
    assert keys(handle, "b") == keys(handle)


def test_branches_that_were_compacted_between_two_merges_at_once_merge_again() -> None:
    handle = new_pool()
    loaded(handle, 0, 1, 2, 3)
    loaded(handle, 4)
    handle.create_branch("b")
    ours, theirs = handle.delete(where="k == 0"), handle.branch("b").delete(where="k == 1")
    handle.create_branch("ours", ours)
    handle.create_branch("theirs", theirs)
    compact(handle, "ours")
    compact(handle, "theirs")
    handle.merge("theirs")
    handle.branch("b").merge("ours")
    handle.branch("b").update("k == 2", "k:=102")
    handle.update("k == 3", "k:=103")
    compact(handle, "b")
    handle.merge("b")
    assert keys(handle) == [4, 102, 103]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_row_that_both_sides_have_replaced_is_a_conflict(is_compacted: bool) -> None:
    handle = new_pool()
    loaded(handle, 1, 2, 3)
    loaded(handle, 4, 5)
    handle.create_branch("b")
    handle.branch("b").update("k == 2", "v:=1")
    handle.update("k == 2", "v:=2")
    if is_compacted:
        compact(handle, "b")
        compact(handle)
    before = records(handle)
    with pytest.raises(Conflict, match="has deleted or rewritten"):
        handle.merge("b")
    assert records(handle) == before


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("replacing", ["main", "b"])
def test_a_row_that_one_side_has_replaced_and_the_other_deleted_is_a_conflict(
    is_compacted: bool, replacing: str
) -> None:
    handle = new_pool()
    loaded(handle, 1, 2, 3)
    loaded(handle, 4, 5)
    handle.create_branch("b")
    for name in ("main", "b"):
        if name == replacing:
            handle.branch(name).update("k == 2", "v:=1")
        else:
            handle.branch(name).delete(where="k == 2")
        if is_compacted:
            compact(handle, name)
    with pytest.raises(Conflict):
        handle.merge("b")


def test_a_branch_that_loads_in_one_commit_and_deletes_in_another_has_replaced_nothing() -> None:
    handle = new_pool()
    loaded(handle, 1, 2, 3)
    loaded(handle, 4)
    handle.create_branch("b")
    loaded(handle, 7, branch="b")
    handle.branch("b").delete(where="k == 2")
    compact(handle, "b")
    handle.delete(where="k == 2 or k == 3")
    handle.merge("b")
    assert keys(handle) == [1, 4, 7]


def test_a_commit_that_is_picked_again_brings_its_rows_once() -> None:
    handle = new_pool()
    loaded(handle, 1)
    handle.create_branch("b")
    commit = loaded(handle, 2, 3, branch="b")
    handle.cherry_pick(commit)
    compact(handle)
    with pytest.raises(InvalidInput, match="already"):
        handle.cherry_pick(commit)
    with pytest.raises(InvalidInput, match="nothing to merge"):
        handle.merge("b")
    assert keys(handle) == [1, 2, 3]


def test_rows_that_come_back_in_the_object_of_a_compaction_are_not_added_to_those_that_never_went() -> None:
    handle = new_pool()
    loaded(handle, 1)
    loaded(handle, 2)
    handle.create_branch("b")
    compact(handle, "b")
    (o,) = objects(handle, "b")
    branch = handle.branch("b")
    with pytest.raises(InvalidInput, match="already"):
        handle.cherry_pick(branch.revert(branch.delete([to_text(o.id)])))
    assert keys(handle) == [1, 2]


def test_a_branch_that_has_picked_what_was_compacted_since_is_rebased_without_it() -> None:
    handle = new_pool()
    loaded(handle, 1)
    handle.create_branch("b")
    picked = loaded(handle, 2)
    compact(handle)
    handle.branch("b").cherry_pick(picked)
    loaded(handle, 3, branch="b")
    handle.branch("b").rebase("main")
    assert keys(handle, "b") == [1, 2, 3]


def test_a_branch_that_restores_what_its_target_deletes_is_not_rebased() -> None:
    handle = new_pool()
    loaded(handle, *range(10))
    handle.create_branch("b")
    handle.branch("b").revert(handle.branch("b").delete(where="k < 3"))
    handle.delete(where="k < 2")
    with pytest.raises(Conflict, match="it brings back records"):
        handle.branch("b").rebase("main")


def cut_and_merged(monkeypatch: pytest.MonkeyPatch, onto: str) -> PoolHandle:
    """A pool with a cut history into which a branch was merged; what that had made on the way is gone."""
    monkeypatch.setattr(lineage, "MOST_INSIDE", 0)
    handle = new_pool(inline=0)
    loaded(handle, *range(10))
    handle.vacate(loaded(handle, 100))
    for name in ("b", "c", "side"):
        handle.create_branch(name)
    compact(handle, "side")
    handle.branch("side").delete(where="k == 3")
    loaded(handle, 50, branch="side")
    compact(handle, "side")
    handle.branch(onto).merge("side")
    handle.drop_branch("side")
    assert len(handle.vacuum(grace=0).ids) == 2
    lineage.forget()
    return LocalLake(open_lake(stored(handle).store)).pool("p")


def test_a_merge_stands_for_what_it_brought_into_a_history_that_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = cut_and_merged(monkeypatch, "main")
    handle.branch("b").delete(where="k == 4")
    handle.branch("c").delete(where="k == 3")
    handle.merge("b")
    assert keys(handle) == [k for k in range(10) if k not in (3, 4)] + [50, 100]
    with pytest.raises(Conflict, match="has deleted or rewritten"):
        handle.merge("c")


def test_a_branch_of_a_cut_history_is_rebased_with_its_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = cut_and_merged(monkeypatch, "b")
    loaded(handle, 60, branch="b")
    handle.delete(where="k == 4")
    handle.branch("b").rebase("main")
    assert keys(handle, "b") == [k for k in range(10) if k not in (3, 4)] + [50, 60, 100]


# ---- what it costs


class MeteredStore(MemoryStore):
    """Objects in memory, and those that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)


COSTS: dict[str, Callable[[PoolHandle, str], object]] = {
    "merge": lambda handle, load: handle.merge("b"),
    "rebase": lambda handle, load: handle.branch("b").rebase("main"),
    "cherry-pick": lambda handle, load: handle.cherry_pick(load),
    "revert": lambda handle, load: handle.branch("b").revert(load),
}


@pytest.mark.parametrize("verb", COSTS)
@pytest.mark.parametrize("moved", [0, 1, 3])
def test_who_brings_rows_reads_the_lineages_of_what_was_moved_meanwhile_and_no_others(
    monkeypatch: pytest.MonkeyPatch, verb: str, moved: int
) -> None:
    monkeypatch.setattr(lineage, "MOST_INSIDE", 0)
    store = MeteredStore()
    handle = LocalLake(create(store)).create("p", key="k", inline=0)
    for part in range(8):
        loaded(handle, *range(100 * part, 100 * part + 10))
        loaded(handle, *range(100 * part, 100 * part + 10))
        handle.compact([to_text(o.id) for o in objects(handle) if o.lineage is None])
    handle.create_branch("b")
    load = loaded(handle, 0, 1000, branch="b")
    loaded(handle, 500)
    for part in range(moved):
        loaded(handle, 100 * part + 5)
        handle.compact([to_text(o.id) for o in objects(handle) if 100 * part <= o.min.data < 100 * part + 10])
    lineage.forget()
    store.read.clear()
    COSTS[verb](LocalLake(open_lake(store)).pool("p"), load)
    assert sum("/lineage/" in key for key in store.read) == (0 if verb == "revert" else moved)


def test_what_one_side_deletes_of_a_picked_commit_goes_although_it_was_compacted() -> None:
    handle = new_pool()
    loaded(handle, 1)
    handle.create_branch("b")
    handle.cherry_pick(loaded(handle, 2, 3, 4, 5, branch="b"))
    compact(handle)
    handle.delete(where="k == 2")
    handle.branch("b").delete(where="k == 3")
    compact(handle, "b")
    handle.merge("b")
    assert keys(handle) == [1, 4, 5]


def test_attached_files_that_were_compacted_are_left_out_by_who_detached_them(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [3, 1, 2]}), tmp_path / "x.parquet")
    handle = new_pool()
    handle.attach([str(tmp_path / "x.parquet")])
    loaded(handle, 7)
    handle.create_branch("b")
    handle.branch("b").detach([str(tmp_path / "x.parquet")])
    compact(handle)
    handle.merge("b")
    assert keys(handle) == [7]


def test_a_partition_is_rewritten_although_it_was_compacted_meanwhile() -> None:
    handle = new_pool(partition="k % 2", inline=0)
    loaded(handle, 1, 2)
    loaded(handle, 3, 4)
    pool = stored(handle)
    base = pool.resolve()
    old = [o for o in objects(handle) if o.partition is not None and o.partition.data == 1]
    for done in handle.compact_all():
        assert not done.error
    new = pool.writer(partition=old[0].partition).write_all([])
    replace_partitions(pool, "main", base, old, new, lambda value: value is not None and value.data == 1, ME)
    assert keys(handle) == [2, 4]


# ---- objects of older versions


def without_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compactions write what older versions write."""
    monkeypatch.setattr("shoal.lake.identities.Identities.origins", lambda self, o, rows: None)


def test_what_an_older_version_has_compacted_is_a_conflict_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = new_pool()
    first = loaded(handle, 1)
    loaded(handle, 2)
    with monkeypatch.context() as older:
        without_lineage(older)
        compact(handle)
    assert objects(handle)[0].lineage is None
    with pytest.raises(Conflict, match="has deleted or rewritten"):
        handle.revert(first)
    loaded(handle, 3)
    compact(handle)
    assert keys(handle) == [1, 2, 3]
    pool = stored(handle)
    (o,) = objects(handle)
    by = added_by(pool, pool.resolve(), o, np.arange(3))
    assert by[0] == by[1] != by[2]


def dropping_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions are written as older versions write them that have read newer ones."""
    monkeypatch.setattr("shoal.lake.masks.without_rows", lambda *args: replace(without_rows(*args), lineage=None))
    monkeypatch.setattr("shoal.lake.checkpoints.format_object", lambda o: format_object(replace(o, lineage=None)))


def older_deletes(handle: PoolHandle) -> None:
    handle.delete(where="k == 20")


def older_leaves_checkpoints(handle: PoolHandle) -> None:
    for k in range(30, 36):
        loaded(handle, k)


@pytest.mark.parametrize("act", [older_deletes, older_leaves_checkpoints])
@pytest.mark.parametrize("before", ["nothing", "a load", "a deletion that was taken back"])
def test_a_deletion_of_rows_of_which_an_older_version_forgot_the_origin_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[PoolHandle], None], before: str
) -> None:
    """The rows are still there, and nobody can tell which they are."""
    monkeypatch.setattr("shoal.lake.snapshots.CHECKPOINT_EVERY", 3)
    handle = new_pool()
    loaded(handle, *range(10))
    loaded(handle, 20, 21)
    handle.create_branch("b")
    handle.branch("b").delete(where="k < 3")
    if before == "a load":
        loaded(handle, 40, branch="b")
    if before == "a deletion that was taken back":
        handle.revert(handle.delete(where="k < 3"))
    compact(handle)
    with monkeypatch.context() as older:
        dropping_lineage(older)
        act(handle)
    fresh = LocalLake(open_lake(stored(handle).store)).pool("p")
    there = keys(fresh)
    with pytest.raises(Conflict, match="no commit has deleted them"):
        fresh.merge("b")
    assert keys(fresh) == there


def test_rows_that_were_deleted_and_restored_beside_another_deletion_may_be_missing() -> None:
    """One branch has deleted them, and another has restored what it had deleted itself: in the end they are gone."""
    handle = new_pool()
    loaded(handle, *range(10))
    for name in ("b", "c", "d"):
        handle.create_branch(name)
    handle.branch("b").delete(where="k < 3")
    handle.branch("c").revert(handle.branch("c").delete(where="k < 3"))
    handle.branch("d").delete(where="k < 2")
    loaded(handle, 30, branch="d")
    loaded(handle, 20, branch="c")
    handle.merge("b")
    handle.merge("c")
    assert keys(handle) == [*range(3, 10), 20]
    handle.merge("d")
    assert keys(handle) == [*range(3, 10), 20, 30]


# ---- merge policies


def policy_pool(policy: str) -> PoolHandle:
    handle = shoal.create("memory://").create("p", key="k", policy=policy)
    handle.load([{"k": 1, "v": 1}, {"k": 2, "v": 1}])
    return handle


@pytest.mark.parametrize("policy", ["aggregate sum(v)", "replace by v", "dedupe", "program sort v | tail 1"])
def test_what_a_policy_has_merged_is_taken_apart(policy: str) -> None:
    handle = policy_pool(policy)
    second = handle.load([{"k": 1, "v": 3}, {"k": 3, "v": 1}])
    handle.load([{"k": 1, "v": 1}, {"k": 3, "v": 1}])
    compact(handle)
    handle.load([{"k": 5, "v": 5}])
    compact(handle)
    assert len(objects(handle)) == 1
    revert = handle.revert(second)
    assert records(handle) == [*without(policy, 2), "{k:5,v:5}"]
    compact(handle)
    assert records(handle) == [*without(policy, 2), "{k:5,v:5}"]
    handle.revert(revert)
    assert records(handle) == [*without(policy, 0), "{k:5,v:5}"]


def without(policy: str, which: int) -> list[str]:
    """What a pool has that never had one of the loads."""
    handle = policy_pool(policy)
    if which != 2:
        handle.load([{"k": 1, "v": 3}, {"k": 3, "v": 1}])
    handle.load([{"k": 1, "v": 1}, {"k": 3, "v": 1}])
    return records(handle)


def test_a_policy_that_meets_a_deletion_merges_what_is_left() -> None:
    handle = policy_pool("aggregate sum(v)")
    second = handle.load([{"k": 1, "v": 3}])
    pool = stored(handle)
    base = pool.resolve()
    old = objects(handle)
    policy = policy_of(pool.config)
    handle.revert(second)
    ((_, outcome),) = rewriting.compact_runs(pool, "main", base, [old], ME, policy=policy)
    assert isinstance(outcome, bytes)
    assert records(handle) == ["{k:1,v:1}", "{k:2,v:1}"]
    assert len(contributors(pool, pool.resolve())) == 2


def test_a_merged_record_is_taken_apart_although_history_was_cut() -> None:
    """The compaction is later than the beginning of history, and says what it deleted."""
    handle = policy_pool("aggregate sum(v)")
    handle.load([{"k": 1, "v": 3}])
    first = next(o for o in objects(handle) if o.count == 2)
    handle.vacate("main")
    handle.vacuum(grace=0)
    handle.create_branch("b")
    compact(handle)
    handle.branch("b").delete([to_text(first.id)])
    handle.merge("b")
    assert records(handle) == ["{k:1,v:3}"]


def picked_and_merged() -> tuple[PoolHandle, str]:
    """A pool in which a record was merged of one that was loaded, and of one that was picked after a compaction."""
    handle = policy_pool("aggregate sum(v)")
    handle.create_branch("b")
    handle.branch("b").load([{"k": 9, "v": 3}])
    handle.branch("b").load([{"k": 9, "v": 5}])
    compact(handle, "b")
    (o,) = objects(handle, "b")
    handle.cherry_pick(handle.branch("b").revert(handle.branch("b").delete([to_text(o.id)])))
    late = handle.load([{"k": 9, "v": 7}])
    compact(handle)
    return handle, late


def test_a_merged_record_is_taken_apart_with_objects_of_another_branch() -> None:
    handle, late = picked_and_merged()
    handle.revert(late)
    assert "{k:9,v:8}" in records(handle)


def test_a_merged_record_whose_objects_went_with_their_branch_is_not_taken_apart() -> None:
    """Its parts are not in the store any more."""
    handle, late = picked_and_merged()
    before = records(handle)
    handle.drop_branch("b")
    handle.vacuum(grace=0)
    with pytest.raises(Conflict, match="is gone with its branch"):
        handle.revert(late)
    assert records(handle) == before


# ---- sessions


def test_copies_of_a_session_find_rows_that_another_copy_has_moved() -> None:
    handle = new_pool(inline=0)
    loaded(handle, *range(10))
    pool = stored(handle)
    session = sessions.begin(pool, "main")

    def copy(where: str) -> sessions.Session:
        own = sessions.forked(session)
        return sessions.stage(own, rewriting.without(pool, sessions.view(pool, own), parse_predicate(where)))

    copies = [copy("k < 6"), copy("k == 8"), copy("k > 3 and k < 8")]
    taken = sessions.take_over(pool, session, copies)
    assert sessions.take_over(pool, taken, copies[:1]) == taken
    sessions.commit(pool, taken, ME)
    assert keys(handle) == [9]


# ---- who added a row


def test_each_row_is_traced_to_the_commit_that_added_it() -> None:
    handle = new_pool()
    commits = [loaded(handle, k, k + 100) for k in range(4)]
    handle.create_branch("b")
    other = loaded(handle, 50, branch="b")
    compact(handle, "b")
    handle.merge("b")
    handle.delete(where="k == 2")
    loaded(handle, 60)
    compact(handle)
    pool = stored(handle)
    (o,) = objects(handle)
    found = [to_text(commit or b"") for commit in added_by(pool, pool.resolve(), o, np.arange(o.rows))]
    expected = {0: 0, 1: 1, 3: 3, 100: 0, 101: 1, 102: 2, 103: 3}
    for k, commit in zip(keys(handle), found, strict=True):
        if k in expected:
            assert commit == commits[expected[k]]
    assert found[keys(handle).index(50)] == other


def test_what_is_older_than_history_counts_as_added_where_it_begins() -> None:
    handle = new_pool()
    loaded(handle, 1)
    loaded(handle, 2)
    compact(handle)
    later = loaded(handle, 3)
    handle.vacate(later)
    handle.vacuum(grace=0)
    compact(handle)
    pool = stored(handle)
    (o,) = objects(handle)
    assert added_by(pool, pool.resolve(), o, np.arange(3)) == [parse(later)] * 3
