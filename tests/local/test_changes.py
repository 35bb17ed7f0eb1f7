"""The verb `changes`: what it lists, where it begins and ends, what it refuses, and how a branch is followed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.access.view import VisibleLake
from shoal.api.branch import Branch
from shoal.api.changes import Change
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import InvalidInput, NotFound, ShoalError, Unsupported
from shoal.ids import parse
from shoal.local.lake import LocalLake, whole
from shoal.model.text import format_value


@pytest.fixture
def pool(lake: Lake) -> Pool:
    return lake.create("things", key="k")


def short(change: Change) -> str:
    """`+{k:1}`, `-{k:1}` or `{k:1} > {k:1,v:2}`."""
    sides = ["" if side is None else format_value(side) for side in (change.before, change.after)]
    return {"insert": f"+{sides[1]}", "delete": f"-{sides[0]}", "update": " > ".join(sides)}[change.change]


def told(branch: Branch, *ends: str | None, **choices: Any) -> list[str]:
    return [short(change) for change in branch.changes(*ends, **choices)]


def test_changes_begin_and_end_where_they_are_asked_to(lake: Lake, pool: Pool) -> None:
    commits = [pool.load([{"k": number}]) for number in range(4)]
    pool.create_tag("v1", commits[1])
    pool.create_branch("dev", commits[2])
    pool.branch("dev").load([{"k": 9}])
    every = [f"+{{k:{number}}}" for number in range(4)]
    assert told(pool) == told(pool, "") == every
    assert told(pool, commits[0]) == every[1:]
    assert told(pool, "v1", commits[2]) == every[2:3]
    assert told(pool, None, "v1") == every[:2]
    assert told(pool, "main") == told(pool, "v1", "v1") == []
    assert told(pool.branch("dev"), "v1") == ["+{k:2}", "+{k:9}"]
    assert told(pool, None, "dev") == [*every[:3], "+{k:9}"]
    for source, expected in {
        "things:changes": every, "things@v1:changes": every[:2], "things@v1..:changes": every[2:],
        "things@..v1:changes": every[:2], f"things@v1..{commits[2]}:changes": every[2:3],
        "things@v1..dev:changes": ["+{k:2}", "+{k:9}"], "things@v1..2100-01-01T00:00:00Z:changes": every[2:],
    }.items():  # fmt: skip
        rows = lake.query(f"from {source} | yield after")
        assert [f"+{format_value(value)}" for value in rows] == expected, source


def test_names_with_two_dots_are_quoted_in_a_range(lake: Lake, pool: Pool) -> None:
    pool.load([{"k": 1}])
    pool.create_branch("a..b")
    pool.branch("a..b").load([{"k": 2}])
    assert lake.query('from things@main.."a..b":changes | yield after').to_zson() == "{k:2}"
    assert lake.query('from things@"a..b":changes | count()').to_zson() == "2(uint64)"
    assert lake.query("from things@a..b | count()").to_zson() == "2(uint64)"
    assert told(pool.branch("a..b"), "main") == ["+{k:2}"]
    with pytest.raises(ShoalError, match='"b": branch not found'):
        lake.query("from things@a..b:changes")


@pytest.mark.parametrize("since", ["later", "other"])
def test_a_beginning_that_is_not_among_the_parents_is_an_error(pool: Pool, since: str) -> None:
    first = pool.load([{"k": 1}])
    pool.create_branch("other", first)
    pool.branch("other").load([{"k": 2}])
    pool.create_tag("later", pool.load([{"k": 3}]))
    pool.merge("other")
    with pytest.raises(NotFound, match="is not among the parents of"):
        told(pool, since, first)
    if since == "other":
        with pytest.raises(NotFound, match="is not among the parents of"):
            told(pool, since)


def test_a_rebased_branch_needs_another_beginning(pool: Pool) -> None:
    pool.load([{"k": 1}])
    pool.create_branch("side")
    old = pool.branch("side").load([{"k": 2}])
    pool.load([{"k": 3}])
    pool.branch("side").rebase("main")
    with pytest.raises(NotFound, match="the branch was rebased"):
        told(pool.branch("side"), old)
    assert told(pool.branch("side"), "main") == ["+{k:2}"]


def test_positions_name_a_change_to_go_on_after(pool: Pool) -> None:
    commits = [pool.load([{"k": 10 * number + i} for i in range(3)]) for number in range(2)]
    changes = list(pool.changes())
    assert [change.position for change in changes] == [f"{commit}/{n}" for commit in commits for n in (1, 2, 3)]
    for place, change in enumerate(changes, 1):
        assert list(pool.changes(since=change.position)) == changes[place:]
    assert list(pool.changes(since=f"{commits[1]}/0")) == changes[3:]
    with pytest.raises(NotFound, match=r"since: .*nosuch/1.* a position is COMMIT/NUMBER, with the id of a commit"):
        told(pool, "nosuch/1")
    pool.create_branch("side/1", commits[0])
    assert list(pool.changes(since="side/1")) == changes[3:]


def test_a_position_past_the_changes_of_its_commit_is_refused(pool: Pool) -> None:
    commit = pool.load([{"k": 1}, {"k": 2}])
    pool.load([{"k": 3}])
    assert told(pool, f"{commit}/2") == ["+{k:3}"]
    with pytest.raises(InvalidInput, match=f"{commit}/3: this commit has 2 changes"):
        told(pool, f"{commit}/3")


def test_beginnings_and_ends_are_times_dates_and_durations_as_well(pool: Pool) -> None:
    pool.load([{"k": 1}])
    for since in ("7d", "2020-01-01", "2020-01-01T00:00:00Z"):
        assert told(pool, since) == ["+{k:1}"], since
    for since in ("0s", "2199-12-31"):
        assert told(pool, since) == [], since
    assert told(pool, None, "0s") == ["+{k:1}"]
    pool.create_branch("7d", "main")
    pool.load([{"k": 2}])
    assert told(pool, "7d") == ["+{k:2}"]


@pytest.mark.parametrize("name", ["since", "until"])
def test_what_is_neither_a_commitish_nor_a_time_is_refused_with_what_is(pool: Pool, name: str) -> None:
    pool.load([{"k": 1}])
    for text in ("garbage", "now", "0"):
        with pytest.raises(NotFound, match=f"{name}: .*{text}.*: branch not found .*time, a date or a duration"):
            told(pool, **{name: text})
    with pytest.raises(InvalidInput, match=f"{name}: invalid time: '2020-13-01T00:00:00Z' .month"):
        told(pool, **{name: "2020-13-01"})
    with pytest.raises(InvalidInput, match=f"{name}: -1d is in the future .*: 1d"):
        told(pool, **{name: "-1d"})
    with pytest.raises(InvalidInput, match=f"{name}: not a text: 5"):
        told(pool, **{name: 5})


def test_a_position_goes_on_from_either_form_of_an_id(pool: Pool) -> None:
    commit = pool.load([{"k": number} for number in range(3)])
    stream = pool.changes(since=f"0x{parse(commit).hex()}/1")
    assert [change.position for change in stream] == [f"{commit}/2", f"{commit}/3"]


def test_tables_and_batches_have_the_columns_of_changes(pool: Pool) -> None:
    pool.load([{"k": number} for number in range(5)])
    pool.update("k == 2", "put v := 'x'")
    table = pool.changes().to_arrow()
    assert table.column_names == ["change", "before", "after", "commit", "author", "ts"]
    assert table["change"].to_pylist() == ["insert"] * 5 + ["delete", "insert"]
    assert table["after"].to_pylist()[-1] == {"k": 2, "v": "x"}
    assert [batch.num_rows for batch in pool.changes().to_batches(3)] == [3, 3, 1]


def test_a_feed_without_changes_has_the_columns_of_one_that_has_some(pool: Pool) -> None:
    empty = pool.changes().to_arrow()
    pool.load([{"k": 1}])
    table = pool.changes().to_arrow()
    for each in (empty, pool.changes(since="main").to_arrow()):
        assert each.num_rows == 0
        assert each.column_names == table.column_names
        names = ["change", "commit", "author", "ts"]
        assert each.select(names).schema == table.select(names).schema


def test_changes_of_one_type_lose_nothing(pool: Pool) -> None:
    start = pool.load([{"k": 1}])
    pool.load([{"k": 2, "v": "x"}])
    pool.load([{"k": 3, "v": 1}])
    pool.delete(where="k == 2")
    changes = list(pool.changes(uniform=True))
    sides = [side for change in changes for side in (change.before, change.after) if side is not None]
    assert len({side.type for side in sides}) == 1
    assert [shoal.to_python(side) for side in sides] == [
        {"k": 1, "v": None}, {"k": 2, "v": "x"}, {"k": 3, "v": 1}, {"k": 2, "v": "x"},
    ]  # fmt: skip
    assert [change.position for change in changes] == [change.position for change in pool.changes()]
    stream = pool.changes(since=start, follow=True, uniform=True)
    assert [next(stream).change for _ in range(3)] == ["insert", "insert", "delete"]
    pool.load([{"k": 4}])
    assert format_value(next(stream).after or sides[0]).startswith("{k:4,v:null")
    pool.load([{"k": 5, "new": True}])
    with pytest.raises(InvalidInput, match="do not fit into the type of the changes before them"):
        next(stream)


def test_a_follower_gets_each_commit_once(pool: Pool) -> None:
    start = pool.load([{"k": 0}])
    seen: list[str] = []

    def follow(stream: Iterator[Change]) -> None:
        for change in stream:
            seen.append(short(change))
            if len(seen) == 4:
                return

    stream = pool.changes(since=start, follow=True)
    thread = threading.Thread(target=follow, args=(stream,))
    thread.start()
    for number in range(1, 5):
        pool.load([{"k": number}])
        with suppress(InvalidInput):
            pool.compact([o.id for o in pool.objects()])
    thread.join(30)
    assert not thread.is_alive()
    stream.close()
    assert seen == [f"+{{k:{number}}}" for number in range(1, 5)]


def test_a_follower_that_waits_ends_when_another_thread_closes_it(pool: Pool) -> None:
    pool.load([{"k": 0}])
    stream = pool.changes(follow=True)
    assert short(next(stream)) == "+{k:0}"
    rest: list[Change] = []
    failures: list[Exception] = []

    def read() -> None:
        try:
            rest.extend(stream)
        except Exception as e:
            failures.append(e)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    stream.close()
    thread.join(10)
    assert not thread.is_alive()
    assert (rest, failures) == ([], [])
    assert next(stream, None) is None
    stream.close()


@pytest.mark.direct
def test_who_can_no_longer_read_a_pool_gets_no_more_of_it(lake: Lake, pool: Pool) -> None:
    assert isinstance(lake, LocalLake)
    seen = {"all"}
    view = VisibleLake(whole(lake), lambda ident: "all" in seen, lambda ident, name: None)
    start = pool.load([{"k": 1}])
    stream = LocalLake(view).pool("things").changes(since=start, follow=True)
    pool.load([{"k": 2}])
    assert short(next(stream)) == "+{k:2}"
    seen.clear()
    pool.load([{"k": 3}])
    with pytest.raises(NotFound):
        next(stream)


def test_to_follow_has_no_end(pool: Pool) -> None:
    with pytest.raises(InvalidInput, match="to follow a branch goes without an end"):
        pool.changes(until="main", follow=True)


# ---- data that is not as usual


def test_records_that_columns_do_not_suit_are_told_as_any_others(pool: Pool) -> None:
    rows = [{"k": number, f"field{number}": 1} for number in range(1500)]
    pool.load(rows)
    pool.delete(where="k == 7")
    changes = told(pool)
    assert len(changes) == 1501
    assert changes[-1] == "-{k:7,field7:1}"


@pytest.mark.direct
def test_attached_files_are_told_when_they_come_and_go_and_not_when_they_are_copied(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": [3, 1, 2]}), path)
    pool.attach(str(path))
    assert sorted(told(pool)) == ["+{k:1}", "+{k:2}", "+{k:3}"]
    delete = pool.delete(where="k == 2")
    pool.compact([o.id for o in pool.objects()])
    pool.load([{"k": 4}])
    assert told(pool, delete) == ["+{k:4}"]
    assert told(pool, pool.changes().__next__().commit) == ["-{k:2}", "+{k:4}"]


def purge(pool: Pool, objects: list[str]) -> None:
    """Remove the bytes of objects that no branch has."""
    pool.delete([o.id for o in pool.objects()])
    pool.purge(objects)


def test_purged_records_are_left_out_with_a_warning(pool: Pool) -> None:
    pool.load([{"k": 1}, {"k": 2}])
    first = [o.id for o in pool.objects()]
    pool.load([{"k": 3}])
    purge(pool, first)
    warnings: list[str] = []
    assert told(pool, on_warning=warnings.append) == ["+{k:3}", "-{k:3}"]
    assert len(warnings) == 2
    assert "was purged and is left out" in warnings[0]


def test_a_commit_that_rewrote_what_was_purged_cannot_be_told(pool: Pool) -> None:
    pool.load([{"k": number} for number in range(10)])
    first = [o.id for o in pool.objects()]
    commit = pool.delete(where="k > 2")
    purge(pool, first)
    with pytest.raises(Unsupported, match=f"commit {commit}: .*ask for the changes after this commit"):
        told(pool, on_warning=lambda text: None)
    assert len(told(pool, commit)) == 3


def test_history_that_was_cut_cannot_be_told(pool: Pool) -> None:
    commits = [pool.load([{"k": number}]) for number in range(3)]
    pool.vacate(commits[1])
    assert told(pool, commits[1]) == ["+{k:2}"]
    with pytest.raises(NotFound, match="were cut off from history"):
        told(pool)
    with pytest.raises(NotFound, match="older than"):
        told(pool, commits[0])


def test_an_unknown_pool_is_not_found(lake: Lake) -> None:
    with pytest.raises(NotFound):
        told(lake.pool("nosuch"))


def test_every_name_of_the_stream_is_documented() -> None:
    names = [name for name in vars(shoal.api.changes.ChangeStream) if not name.startswith("_")]
    assert sorted(names) == ["close", "pieces", "to_arrow", "to_batches"]
