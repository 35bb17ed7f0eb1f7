"""Pools that get a primary key when they have data already."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.errors import AlreadyExists, Conflict, InvalidInput, ShoalError, StorageFailure
from shoal.lake.lake import Lake as StoredLake
from shoal.lake.lake import create, open_lake
from shoal.local.lake import LocalLake
from shoal.storage.faults import Crash, Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.testing.lake_checks import copied


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return shoal.create(str(tmp_path / "lake"))


def ids(lake: Lake, source: str = "from p") -> list[int]:
    return sorted(row["id"] for row in lake.query(source).to_list())


def test_every_branch_is_checked(lake: Lake) -> None:
    pool = lake.create("p", key="ts")
    pool.load([{"ts": n, "id": n} for n in range(10)])
    side = pool.create_branch("side")
    side.load([{"ts": 20, "id": 3}, {"ts": 21, "id": 4}])
    with pytest.raises(InvalidInput, match=r"2 primary keys are given more than once: 3, 4"):
        pool.alter(primary="id")
    pool.load([{"ts": 30, "id": 100}])  # nothing has changed
    side.delete(where="ts >= 20")
    pool.alter(primary="id")
    assert lake.pool("p").info().settings.primary == (("id",),)
    with pytest.raises(AlreadyExists, match="5: a record has this primary key"):
        side.load([{"ts": 40, "id": 5}])
    pool.upsert([{"ts": 41, "id": 5, "new": True}])
    assert ids(lake) == [*range(10), 100]


def test_a_branch_begins_where_keys_are_unique(lake: Lake) -> None:
    pool = lake.create("p", key="ts")
    first = pool.load([{"ts": 1, "id": 1}, {"ts": 2, "id": 1}])
    pool.delete(where="ts == 2")
    pool.alter(primary="id")
    with pytest.raises(InvalidInput, match="1 primary key is given more than once: 1"):
        pool.create_branch("old", first)
    pool.create_tag("before", first)
    assert len(lake.query("from p@before").to_list()) == 2
    pool.create_branch("new")


@pytest.mark.parametrize("name", ["load", "create branch", "delete"])
def test_a_handle_that_does_not_know_the_key_is_refused_once(lake: Lake, name: str) -> None:
    lake.create("p", key="ts").load([{"ts": 1, "id": 1}])
    theirs = shoal.open(lake.uri).pool("p")
    theirs.load([{"ts": 2, "id": 2}])
    lake.pool("p").alter(primary="id")
    acts: dict[str, Callable[[], object]] = {
        "load": lambda: theirs.load([{"ts": 3, "id": 7}]),
        "create branch": lambda: theirs.create_branch("b"),
        "delete": lambda: theirs.delete(where="ts == 2"),
    }
    with pytest.raises(Conflict, match="the primary key of this pool has changed meanwhile"):
        acts[name]()
    acts[name]()
    with pytest.raises(AlreadyExists, match="1: a record has this primary key"):
        theirs.load([{"ts": 3, "id": 1}])


def test_a_crash_between_the_journals_is_made_up_for(lake: Lake) -> None:
    pool = lake.create("p", key="ts")
    pool.load([{"ts": 1, "id": 1}])
    with (
        patch.object(StoredLake, "settle_pool", side_effect=StorageFailure("the process ends here")),
        pytest.raises(StorageFailure),
    ):
        pool.alter(primary="id")
    other = shoal.open(lake.uri).pool("p")
    assert other.info().settings.primary == ()
    with pytest.raises(Conflict, match="repeat the command"):
        other.load([{"ts": 2, "id": 1}])
    with pytest.raises(AlreadyExists):
        other.load([{"ts": 2, "id": 1}])
    assert shoal.open(lake.uri).pool("p").info().settings.primary == (("id",),)


def test_writers_at_the_same_time_leave_no_duplicate(lake: Lake) -> None:
    """Each loads records with keys that others load as well, while the pool becomes keyed and stays so."""
    lake.create("p", key="ts").load([{"ts": 0, "id": -1}])
    refused: list[str] = []
    unexpected: list[BaseException] = []
    is_keyed: list[bool] = []

    def write(number: int) -> None:
        pool = shoal.open(lake.uri).pool("p")
        for n in range(60):
            try:
                pool.load([{"ts": number, "id": number * 1000 + n if not is_keyed else n % 5}])
            except (Conflict, AlreadyExists) as e:
                refused.append(type(e).__name__)
            except BaseException as e:
                unexpected.append(e)

    def alter() -> None:
        try:
            shoal.open(lake.uri).pool("p").alter(primary="id")
            is_keyed.append(True)
        except BaseException as e:
            unexpected.append(e)

    threads = [Thread(target=write, args=(n,)) for n in range(1, 4)] + [Thread(target=alter)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert unexpected == []
    assert refused
    found = ids(lake)
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("settings", "primary", "message"),
    [
        ({"policy": "dedupe"}, "id", "a primary key or a merge policy, not both"),
        ({}, "id,id", "name each field once"),
        ({}, "user.id", r"1 record has no primary key \(user.id is null or missing\)"),
    ],
)
def test_what_cannot_be_is_one_line(lake: Lake, settings: dict[str, Any], primary: str, message: str) -> None:
    pool = lake.create("p", key="id", **settings)
    pool.load([{"id": 1}])
    with pytest.raises(ShoalError, match=message):
        pool.alter(primary=primary)
    pool.load([{"id": 2}])


@pytest.mark.parametrize("fault", list(Fault), ids=[fault.value for fault in Fault])
def test_whatever_call_fails_the_pool_is_keyed_or_not(fault: Fault) -> None:
    """Afterwards a client is refused once at most, and repeats; altering again makes the pool keyed."""
    begin = MemoryStore("begin")
    stored = LocalLake(create(begin)).create("p", key="ts", inline=0)
    stored.load([{"ts": 1, "id": 1}])
    calls = counted_alter(copied(begin), {})
    assert calls > 8
    outcomes = set()
    for number in range(calls):
        store = copied(begin)
        with suppress(ShoalError, Crash):
            counted_alter(store, {number: fault})
        pool = LocalLake(open_lake(store)).pool("p")
        with suppress(Conflict):
            pool.create_tag("first")
        duplicate = [{"ts": 2, "id": 1}]
        try:
            commit = pool.load(duplicate)
        except AlreadyExists:
            outcomes.add("keyed")
        else:
            outcomes.add("not keyed")
            pool.revert(commit)
        pool.alter(primary="id")
        with pytest.raises(AlreadyExists):
            LocalLake(open_lake(store)).pool("p").load(duplicate)
    assert "keyed" in outcomes


def counted_alter(store: MemoryStore, faults: dict[int, Fault]) -> int:
    """Make a pool keyed on a store that fails; how often it was called."""
    faulty = FaultyStore(store, lambda number, name, key: faults.get(number))
    LocalLake(open_lake(faulty)).pool("p").alter(primary="id")
    return len(faulty.calls)
