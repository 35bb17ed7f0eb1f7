"""Tallies: every commit says what it did in records, and whether it only moved them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import CorruptData, InvalidInput, Unsupported
from shoal.ids import parse
from shoal.lake.actions import Effect, patch_to
from shoal.lake.commits import format_commit, parse_commit
from shoal.lake.record_changes import compare
from shoal.lake.tallies import Tally, parse_tally
from shoal.local.lake import stored
from shoal.model.values import int64, record, string

Step = Callable[[Branch], Any]
ROWS = [{"k": i, "v": i % 3} for i in range(10)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return shoal.create(str(tmp_path / "lake"))


def told(branch: Branch, commit: str | None = None) -> tuple[int, int, int]:
    """What the log says of a commit, or of the last one."""
    info = next(iter(branch.log(commit)))
    assert info.records is not None, info
    assert not info.is_maintenance
    return info.records.added, info.records.deleted, info.records.updated


def is_moved(branch: Branch) -> bool:
    """Whether the last commit is maintenance, which changes no records."""
    info = next(iter(branch.log()))
    assert info.records is not None
    assert not info.is_maintenance or info.records == type(info.records)(0, 0, 0)
    return info.is_maintenance


def loaded(lake: Lake, **settings: Any) -> Pool:
    pool = lake.create("things", key="k", **settings)
    pool.load(ROWS)
    assert told(pool) == (10, 0, 0)
    return pool


UNKEYED: dict[str, tuple[Step, tuple[int, int, int]]] = {
    "a load": (lambda b: b.load([{"k": 1}, {"k": 1}]), (2, 0, 0)),
    "a deletion that hides rows": (lambda b: b.delete(where="k == 1"), (0, 1, 0)),
    "a deletion that writes an object again": (lambda b: b.delete(where="k > 2"), (0, 7, 0)),
    "a deletion of a whole object": (lambda b: b.delete(where="k >= 0"), (0, 10, 0)),
    "a deletion by id": (lambda b: b.delete([o.id for o in b.objects()]), (0, 10, 0)),
    "an update": (lambda b: b.update("k < 4", "put v := 9"), (0, 0, 4)),
    "an update that drops some": (lambda b: b.update("k < 4", "where k < 1"), (0, 3, 1)),
    "SQL that inserts": (lambda b: sql(b, "insert into things values (1, 2)"), (1, 0, 0)),
    "SQL that updates": (lambda b: sql(b, "update things set v = 7 where k < 3"), (0, 0, 3)),
    "SQL that deletes": (lambda b: sql(b, "delete from things where k < 3"), (0, 3, 0)),
}


def sql(branch: Branch, statement: str) -> None:
    branch.lake.sql(statement).to_list()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("step", "expected"), UNKEYED.values(), ids=UNKEYED)
def test_a_commit_tells_what_it_did(lake: Lake, step: Step, expected: tuple[int, int, int]) -> None:
    pool = loaded(lake)
    step(pool)
    assert told(pool) == expected


@pytest.mark.parametrize(("step", "expected"), UNKEYED.values(), ids=UNKEYED)
def test_a_revert_tells_the_opposite(lake: Lake, step: Step, expected: tuple[int, int, int]) -> None:
    pool = loaded(lake)
    pool.revert(step(pool) or pool.resolve() or "")
    added, deleted, updated = expected
    assert told(pool) == (deleted, added, updated)


KEYED: dict[str, tuple[Step, tuple[int, int, int]]] = {
    "an upsert": (lambda b: b.upsert([{"k": 3, "v": 9}, {"k": 33, "v": 9}]), (1, 0, 1)),
    "an update": (lambda b: b.update("k < 4", "put v := 9"), (0, 0, 4)),
    "an update of keys": (lambda b: b.update("k < 4", "put k := k + 2"), (2, 2, 2)),
    "a deletion by keys": (lambda b: b.delete(keys=[1, 2, 77]), (0, 2, 0)),
    "a merge statement": (
        lambda b: sql(b, "merge into things using (select 1 as k, 5 as v union all select 50, 6) s on things.k = s.k "
                      "when matched then update set v = s.v when not matched then insert (k, v) values (s.k, s.v)"),
        (1, 0, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("step", "expected"), KEYED.values(), ids=KEYED)
def test_a_commit_of_a_keyed_pool_tells_which_records_it_updated(
    lake: Lake, step: Step, expected: tuple[int, int, int]
) -> None:
    pool = loaded(lake, primary="k")
    if expected[1] and expected[2]:
        pool.delete(where="k == 4 or k == 5")
    step(pool)
    assert told(pool) == expected


def test_maintenance_does_nothing_to_records(lake: Lake) -> None:
    pool = loaded(lake)
    pool.load(ROWS)
    compaction = pool.compact([o.id for o in pool.objects()])
    assert is_moved(pool)
    pool.revert(compaction)
    assert is_moved(pool)
    assert [each.commit is not None for each in pool.compact_all()] == [True]
    assert is_moved(pool)


def test_a_roll_up_of_inline_data_is_maintenance(lake: Lake) -> None:
    pool = lake.create("things", key="k", inline=1 << 16)
    for i in range(140):
        pool.load([{"k": i}])
    kinds = [(info.is_maintenance, info.records.added if info.records else None) for info in pool.log()]
    assert kinds.count((True, 0)) >= 1
    assert kinds.count((False, 1)) == 140


@pytest.mark.parametrize("primary", ["", "k"])
def test_a_merge_tells_what_it_changes_and_not_what_was_moved(lake: Lake, primary: str) -> None:
    pool = loaded(lake, primary=primary)
    pool.create_branch("side")
    side = pool.branch("side")
    side.load([{"k": 20, "v": 1}, {"k": 5.5, "v": 2}])
    side.compact([o.id for o in side.objects()])
    side.update("k == 3", "put v := 8")
    side.delete(where="k == 7")
    pool.load([{"k": 100}])
    pool.merge("side")
    assert told(pool) == ((2, 1, 1) if primary else (3, 2, 0))
    merge = pool.resolve()
    assert merge is not None
    pool.revert(merge)
    assert told(pool) == ((1, 2, 1) if primary else (2, 3, 0))


def merged(lake: Lake, *steps: Step, **settings: Any) -> tuple[int, int, int]:
    """What the merge of a branch tells on which some steps were taken."""
    pool = loaded(lake, **settings)
    pool.create_branch("side")
    side = pool.branch("side")
    for step in steps:
        step(side)
    pool.load([{"k": 1000}])
    pool.merge("side")
    return told(pool)


def add(branch: Branch) -> None:
    branch.load([{"k": 50, "v": 1}, {"k": 51, "v": 1}])


def drop(branch: Branch) -> None:
    branch.delete(where="k == 50 or k == 3")


def move(branch: Branch) -> None:
    with suppress(InvalidInput):  # of one object
        branch.compact([o.id for o in branch.objects()])


def touch(branch: Branch) -> None:
    branch.update("k == 4 or k == 51", "put v := v + 10")


UNKEYED_MERGES: dict[str, tuple[tuple[Step, ...], tuple[int, int, int]]] = {
    "deletions before additions": ((drop, move, add, move), (2, 1, 0)),
    "deletions of what was added": ((add, move, drop, move), (1, 1, 0)),
    "updates": ((touch, move, add), (2, 0, 1)),
    "updates of what was added": ((add, touch), (3, 1, 0)),
    "nothing but moves": ((add, move, move), (2, 0, 0)),
    "what is deleted and comes back": ((drop, lambda b: b.load([{"k": 3, "v": 0}])), (1, 1, 0)),
}


@pytest.mark.parametrize(("steps", "expected"), UNKEYED_MERGES.values(), ids=UNKEYED_MERGES)
def test_a_merge_tells_the_sum_of_its_branch_but_not_what_came_and_went(
    lake: Lake, steps: tuple[Step, ...], expected: tuple[int, int, int]
) -> None:
    assert merged(lake, *steps) == expected


KEYED_MERGES: dict[str, tuple[tuple[Step, ...], tuple[int, int, int]]] = {
    "updates": ((touch, move, add), (2, 0, 1)),
    "updates of what was added": ((add, touch), (2, 0, 1)),
    "two updates": ((touch, touch), (0, 0, 1)),
    "what is deleted and comes back": ((drop, lambda b: b.load([{"k": 3, "v": 5}])), (0, 0, 1)),
    "what comes back as it was": ((drop, lambda b: b.load([{"k": 3, "v": 0}, {"k": 4.5}])), (1, 0, 0)),
}


@pytest.mark.parametrize(("steps", "expected"), KEYED_MERGES.values(), ids=KEYED_MERGES)
def test_a_merge_in_a_keyed_pool_tells_what_became_of_each_record(
    lake: Lake, steps: tuple[Step, ...], expected: tuple[int, int, int]
) -> None:
    assert merged(lake, *steps, primary="k") == expected


Name = Callable[[int], Any]


def load_and_move(branch: Branch, name: Name) -> None:
    branch.load([{"k": 4.5, "id": name(77)}])
    move(branch)


BESIDE: dict[str, tuple[Callable[[Branch, Name], Any], tuple[int, int, int]]] = {
    "another update": (lambda b, name: b.upsert([{"k": 9, "v": 5, "id": name(9)}]), (2, 1, 2)),
    "the same update": (lambda b, name: b.update("k == 4", "put v := v + 10"), (2, 1, 1)),
    "the same deletion": (lambda b, name: b.delete(where="k == 3"), (2, 0, 2)),
    "a compaction": (load_and_move, (2, 1, 2)),
}


@pytest.mark.parametrize(("beside", "expected"), BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("name", [int, str])
def test_a_merge_of_records_that_does_not_land_as_it_was_is_counted_in_columns(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    beside: Callable[[Branch, Name], Any],
    expected: tuple[int, int, int],
    name: Name,
) -> None:
    pool = lake.create("things", key="k", primary="id", inline=0)
    pool.load([{**row, "id": name(row["k"])} for row in ROWS])
    pool.create_branch("side")
    side = pool.branch("side")
    side.load([{"k": k, "v": 1, "id": name(k)} for k in (50, 51)])
    side.update("k == 4 or k == 5", "put v := v + 10")
    side.delete(where="k == 3")
    beside(pool, name)

    def refuse(*args: Any) -> Any:
        raise Unsupported("records are compared one by one")

    monkeypatch.setattr("shoal.lake.record_changes.record_changes", refuse)
    pool.merge("side")
    assert told(pool) == expected


def test_records_of_which_several_have_one_key_are_still_compared(lake: Lake) -> None:
    """They are from before the pool had a primary key. Nobody knows which of them became which."""
    pool = lake.create("things", key="k")
    pool.load([{"k": 1, "v": 1}, {"k": 1, "v": 2}, {"k": 2, "v": 1}])
    inner = stored(pool)
    keyed = replace(inner, config=replace(inner.config, settings=replace(inner.config.settings, primary=(("k",),))))
    (o,) = inner.snapshot(inner.resolve()).objects()
    writer = inner.writer()
    for value in [{"k": 1, "v": 3}, {"k": 2, "v": 5}]:
        writer.write(record([(name, int64(each)) for name, each in value.items()]))
    patch = patch_to([Effect(o, None), *(Effect(None, each) for each in writer.close())])
    assert compare(keyed, patch) == Tally(1, 2, 1)


def test_cherry_picks_and_rebases_tell_what_they_do(lake: Lake) -> None:
    pool = loaded(lake)
    pool.create_branch("side")
    side = pool.branch("side")
    update = side.update("k > 2", "put v := 9")
    pool.load([{"k": 1}])
    pool.cherry_pick(update)
    assert told(pool) == (0, 0, 7)
    side.load([{"k": 1}])
    pool.load([{"k": 2}, {"k": 3}])
    pool.create_branch("other")
    other = pool.branch("other")
    other.delete(where="k == 2")
    other.compact([o.id for o in other.objects()])
    pool.load([{"k": 4}])
    other.rebase("main")
    assert is_moved(other)
    assert [told(other, commit.id) for commit in list(other.log())[1:3]] == [(0, 2, 0), (1, 0, 0)]


def test_a_transaction_tells_the_sum_of_its_steps(lake: Lake) -> None:
    pool = loaded(lake, primary="k")
    with pool.transaction() as tx:
        tx.load([{"k": 50}, {"k": 51}])
        tx.upsert([{"k": 1, "v": 7}, {"k": 60}])
        tx.update("k == 2", "put v := 8")
        tx.delete(where="k > 7")
        tx.sql("update things set v = 9 where k = 0")
    assert told(pool) == (3, 5, 3)


def test_the_rewrite_of_a_partition_tells_which_records_differ(lake: Lake) -> None:
    pool = loaded(lake, partition="v")
    pool.rewrite("1", "put w := 1 | where k != 4")
    assert told(pool) == (2, 3, 0)
    pool.rewrite("0", "put v := k == 3 ? v : v")
    assert told(pool) == (0, 0, 0)
    pool.delete(partition="2")
    assert told(pool) == (0, 3, 0)


def test_commits_of_older_versions_tell_nothing(lake: Lake) -> None:
    pool = loaded(lake)
    commit = stored(pool).commits.read(parse(pool.resolve() or ""))
    assert commit.records == Tally(10, 0, 0)
    head, *actions = format_commit(replace(commit, records=None))
    assert head.field("records") is None
    assert parse_commit([head, *actions], "here").records is None
    assert parse_commit(list(format_commit(commit)), "here") == commit


def test_a_damaged_tally_is_an_error(lake: Lake) -> None:
    with pytest.raises(CorruptData, match="here: the counts of records"):
        parse_tally(record([(name, string("x")) for name in ("added", "deleted", "updated")]), "here")
