"""What the flags of a log select is what the change feed and the graph of commits say."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from tests.local.test_change_feed import KINDS, History, MeteredStore

import shoal
from shoal.api.branch import Branch
from shoal.api.changes import Change
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import InvalidInput, NotFound
from shoal.lake.keys import getter
from shoal.lake.lake import create, open_lake
from shoal.lake.log_filters import has_field
from shoal.local.lake import LocalLake
from shoal.model.parse import parse_type
from shoal.model.values import Value
from shoal.testing.tiers import IS_LONG

WALKS = 60 if IS_LONG else 3
PATHS = ("k", "v", "extra", "v.deep", "nothing")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return shoal.create(str(tmp_path / "lake"))


def listed(branch: Branch, **choices: object) -> list[str]:
    return [info.message for info in branch.log(**choices)]  # type: ignore[arg-type]


def concerns(change: Change, path: str) -> bool:
    def field(value: Value | None) -> tuple[Value | None] | None:
        names = tuple(path.split("."))
        got = None if value is None else getter(names)(value)
        return None if value is None or (got is None and not has_field(value.type, names)) else (got,)

    one, other = field(change.before), field(change.after)
    return one != other if change.change == "update" else (one or other) is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(WALKS))
def test_a_path_selects_the_commits_that_changed_it(lake: Lake, kind: str, seed: int) -> None:
    pool = lake.create("things", key="k", **KINDS[kind])
    history = History(pool, Random(seed), "primary" in KINDS[kind])
    for _ in range(25):
        history.step()
    for path in PATHS:
        changed = {change.commit for change in pool.changes() if concerns(change, path)}
        assert [info.id for info in pool.log(path=path)] == [info.id for info in pool.log() if info.id in changed], path


@pytest.mark.parametrize("seed", range(4 * WALKS))
def test_since_a_commit_means_what_it_does_not_know(lake: Lake, seed: int) -> None:
    random = Random(seed)
    pool = lake.create("things", key="k")
    history = History(pool, random, is_keyed=False)
    for _ in range(25):
        history.step()
    everything = list(pool.log(all=True))
    for info in random.sample(everything, min(4, len(everything))):
        known = {each.id for each in pool.log(info.id, ancestors=True)}
        assert [each.id for each in pool.log(all=True, since=info.id)] == [
            each.id for each in everything if each.id not in known
        ]


def test_since_takes_times_dates_durations_and_names(lake: Lake) -> None:
    pool = lake.create("things", key="k")
    pool.load([{"k": 1}], message="one")
    pool.create_tag("v1")
    pool.create_branch("7d")
    first = next(iter(pool.log()))
    time.sleep(0.01)
    pool.load([{"k": 2}], message="two")
    at = f"{first.date:%Y-%m-%dT%H:%M:%S}.{first.ts % 10**9:09d}Z"
    for since, expected in {
        "v1": ["two"], first.id: ["two"], "7d": ["two"], "8d": ["two", "one"], "0s": [], at: ["two"], "main": [],
        "2020-01-01": ["two", "one"], "2200-01-01T00:00:00Z": [], "2199-12-31": [],
    }.items():  # fmt: skip
        assert listed(pool, since=since) == expected, since
    with pytest.raises(NotFound, match=r"since: .*nosuch.*: branch not found .*time, a date or a duration"):
        listed(pool, since="nosuch")
    with pytest.raises(InvalidInput, match="since: -1d is in the future"):
        listed(pool, since="-1d")
    with pytest.raises(InvalidInput, match="since: not a text: 5"):
        listed(pool, since=5)
    with pytest.raises(InvalidInput, match="is not the path of a field"):
        listed(pool, path="a..b")


def test_a_path_is_quoted_as_in_the_language(lake: Lake) -> None:
    pool = lake.create("things", key="k", primary="k")
    pool.load([{"k": 1, "x.y": 5, "x": {"y": 5, "a b": 1}, "count": 1}], message="load")
    pool.upsert([{"k": 1, "x.y": 6, "x": {"y": 5, "a b": 1}, "count": 1}], message="dotted")
    pool.upsert([{"k": 1, "x.y": 6, "x": {"y": 6, "a b": 2}, "count": 1}], message="nested")
    for path in ('"x.y"', '["x.y"]', 'this["x.y"]'):
        assert listed(pool, path=path) == ["dotted", "load"], path
    for path in ("x.y", "this.x.y", 'x["y"]', 'x["a b"]', 'this.x["a b"]'):
        assert listed(pool, path=path) == ["nested", "load"], path
    assert listed(pool, path="count") == ["load"]
    for path in ("left+1", "a b", "x[0]", "", "this", "k | head", "a..b"):
        with pytest.raises(InvalidInput, match=r"is not the path of a field .*another name is quoted"):
            listed(pool, path=path)


def test_a_graph_has_all_between_what_is_selected_and_ends_with_it(lake: Lake) -> None:
    pool = lake.create("things", key="k")
    for number in range(5):
        pool.load([{"k": number, "odd" if number % 2 else "even": 1}], message=str(number))
    shown = [(info.message, info.is_listed) for info in pool.log(ancestors=True, graph=True, path="odd")]
    assert shown == [("4", False), ("3", True), ("2", False), ("1", True)]
    assert [info.message for info in pool.log(ancestors=True, graph=True, path="odd", limit=1)] == ["4", "3"]
    assert listed(pool, graph=True, path="odd", limit=0) == []


def crossed(lake: Lake) -> Pool:
    """Two branches that were merged into each other at the same time, twice."""
    pool = lake.create("things", key="k")
    pool.load([{"k": 0}], message="root")
    pool.create_branch("a")
    pool.create_branch("b")
    a, b = pool.branch("a"), pool.branch("b")
    for turn in range(2):
        one, other = a.load([{"k": 1}], message=f"a{turn}"), b.load([{"k": 2}], message=f"b{turn}")
        pool.create_branch(f"a{turn}", one)
        pool.create_branch(f"b{turn}", other)
        a.merge(f"b{turn}", message=f"a{turn}+b{turn}")
        b.merge(f"a{turn}", message=f"b{turn}+a{turn}")
    pool.merge("a", message="all")
    return pool


def test_the_log_of_merges_that_cross_has_each_commit_once_and_before_what_it_knows(lake: Lake) -> None:
    pool = crossed(lake)
    log = list(pool.log(all=True))
    assert len({info.id for info in log}) == len(log) == 10
    place = {info.id: number for number, info in enumerate(log)}
    for info in log:
        assert all(place[parent] > place[info.id] for parent in (info.parent, info.merged) if parent is not None)
    assert {info.message for info in pool.log(all=True, since="b")} == {"all", "a1+b1"}
    assert {info.message for info in pool.log(all=True, since="a1")} == {"all", "a1+b1", "b1", "b0+a0", "b1+a1"}
    assert {info.records.added if info.records else None for info in log} == {1, 4}


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("{a:int64}", "a", True), ("{a:int64}", "b", False), ("{a:{b:int64}}", "a.b", True), ("int64", "a", False),
        ("{a:(int64,{b:int64})}", "a.b", None), ("{a:|{string:int64}|}", "a.b", None),
        ("{a:[{b:int64}]}", "a.b", False),
    ],
)  # fmt: skip
def test_a_type_tells_whether_its_values_have_a_field(text: str, path: str, expected: bool | None) -> None:
    assert has_field(parse_type(text), tuple(path.split("."))) is expected


def test_descriptions_rule_commits_out_without_reading_data() -> None:
    store = MeteredStore()
    pool = LocalLake(create(store)).create("things", key="k", inline=0)
    for number in range(20):
        pool.load([{"k": i, "text": "x" * 1000, "odd" if number % 2 else "even": i} for i in range(200)])
    pool.compact([o.id for o in pool.objects()])
    fresh = LocalLake(open_lake(store)).pool("things")
    store.read = 0
    assert len(list(fresh.log(path="odd"))) == 10
    listed, store.read = store.read, 0
    again = LocalLake(open_lake(store)).pool("things")
    assert len(list(again.log())) == 21
    assert listed <= 1.1 * store.read
