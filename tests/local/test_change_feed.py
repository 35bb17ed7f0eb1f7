"""The change feed: applied commit by commit to nothing, it makes every state that a branch has had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.api.branch import Branch
from shoal.api.changes import Change
from shoal.api.infos import CommitInfo
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import Conflict, InvalidInput, NotFound
from shoal.lake.lake import create, open_lake
from shoal.local.lake import LocalLake
from shoal.model.text import format_value
from shoal.storage.memory import MemoryStore
from shoal.testing.tiers import IS_LONG

WALKS, STEPS = (150, 60) if IS_LONG else (4, 30)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "with data in commits": {"inline": 1 << 16},
    "keyed": {"primary": "k"},
    "keyed by another field": {"primary": "id", "inline": 1 << 16},
    "partitioned": {"partition": "p"},
}
EXPECTED = (Conflict, InvalidInput, NotFound, shoal.errors.AlreadyExists)
"""What a step may be refused with; anything else is a failure."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return shoal.create(str(tmp_path / "lake"))


# ---- states


def state_at(pool: Pool, commit: str) -> Counter[str]:
    return Counter(map(format_value, pool.lake.query(f"from {pool.pool_id}@{commit}")))  # type: ignore[attr-defined]


def applied(state: Counter[str], change: Change) -> Counter[str]:
    """The state after a change, which has to fit."""
    kinds = {"insert": (False, True), "delete": (True, False), "update": (True, True)}
    assert kinds[change.change] == (change.before is not None, change.after is not None)
    after = state.copy()
    if change.before is not None:
        text = format_value(change.before)
        assert after[text] > 0, f"{text} is not there"
        after[text] -= 1
    if change.after is not None:
        after[format_value(change.after)] += 1
    return +after


def by_commit(branch: Branch) -> dict[str, list[Change]]:
    return {commit: list(group) for commit, group in groupby(branch.changes(), lambda change: change.commit)}


def check(pool: Pool, name: str, is_keyed: bool) -> None:
    """Each state of a branch follows from that before it, and what commits tell of themselves is true."""
    branch = pool.branch(name)
    log = list(branch.log())[::-1]
    feed = by_commit(branch)
    assert list(feed) == [info.id for info in log if info.id in feed]
    state: Counter[str] = Counter()
    for info in log:
        changes = feed.get(info.id, [])
        assert [change.number for change in changes] == list(range(1, len(changes) + 1))
        assert {(change.author, change.ts) for change in changes} <= {(info.author, info.ts)}
        for change in changes:
            state = applied(state, change)
        assert state == state_at(pool, info.id), info
        check_tally(info, Counter(change.change for change in changes), is_keyed)


def check_tally(info: CommitInfo, counts: Counter[str], is_keyed: bool) -> None:
    """A tally also counts as updated what was written again as it was, and in unkeyed pools what could be updated."""
    assert info.records is not None
    tally = info.records
    assert tally.added - tally.deleted == counts["insert"] - counts["delete"], info
    assert not (info.is_maintenance and counts)
    if is_keyed:
        assert (tally.added, tally.deleted) == (counts["insert"], counts["delete"]), info
        assert tally.updated >= counts["update"], info
    if not is_keyed:
        assert counts["update"] == 0
        assert tally.added + tally.updated >= counts["insert"], info


def check_positions(branch: Branch, random: Random) -> None:
    """Whatever a position names, what comes after it is the rest."""
    changes = list(branch.changes())
    for _ in range(3):
        if changes:
            place = random.randrange(len(changes))
            assert list(branch.changes(since=changes[place].position)) == changes[place + 1 :]
            commit = changes[place].commit
            after = [change for change in changes[place:] if change.commit != commit]
            assert list(branch.changes(since=commit)) == after
            assert list(branch.changes(until=commit)) == changes[: len(changes) - len(after)]


# ---- histories


class History:
    """Random changes of a pool."""

    def __init__(self, pool: Pool, random: Random, is_keyed: bool) -> None:
        self.pool, self.random, self.is_keyed = pool, random, is_keyed
        self.names = ["main"]
        self.serial = 0

    @property
    def branch(self) -> Branch:
        return self.pool.branch(self.random.choice(self.names))

    def rows(self) -> list[dict[str, Any]]:
        self.serial += 1
        return [self.row() for _ in range(self.random.randint(1, 5))]

    def row(self) -> dict[str, Any]:
        number = self.random.randrange(12)
        row: dict[str, Any] = {"k": number, "id": number, "p": number % 3}
        row["v"] = self.random.choice([1, 2, "x", 0.5, None, {"deep": [1, "a"]}, self.serial])
        return row if self.random.random() < 0.8 else {**row, "extra": self.random.choice([True, b"b"])}

    def steps(self) -> Iterator[Callable[[], Any]]:
        branch, low = self.branch, self.random.randrange(12)
        yield from [lambda: branch.load(self.rows())] * 3
        yield lambda: branch.delete(where=f"k == {low}")
        yield lambda: branch.delete(where=f"k > {low}")
        yield lambda: branch.delete([self.random.choice([o.id for o in branch.objects()])])
        yield lambda: branch.update(f"k >= {low}", f"put v := {self.serial}")
        yield lambda: branch.update(f"k >= {low}", "put k := k + 1, id := id + 1, p := (k + 1) % 3")
        yield from [lambda: branch.compact([o.id for o in branch.objects() if self.random.random() < 0.8])] * 2
        yield lambda: list(branch.compact_all())
        yield lambda: branch.revert(self.commit(branch))
        yield lambda: branch.cherry_pick(self.commit(self.branch))
        yield self.fork
        yield lambda: self.pool.merge(branch.branch_name)
        yield lambda: branch.merge(self.branch.branch_name)
        yield lambda: branch.rebase("main")
        yield lambda: self.transact(branch)
        if self.is_keyed:
            yield from [lambda: branch.upsert(self.distinct())] * 3
            yield lambda: branch.delete(keys=[low, low + 1])
        if self.pool.info().settings.partition:
            yield lambda: branch.rewrite(str(low % 3), f"put v := k % 2 == 0 ? {self.serial} : v")
            yield lambda: branch.delete(partition=str(low % 3))

    def distinct(self) -> list[dict[str, Any]]:
        return list({row["k"]: row for row in self.rows()}.values())

    def commit(self, branch: Branch) -> str:
        return self.random.choice([info.id for info in branch.log(all=True)])

    def fork(self) -> None:
        if len(self.names) < 3:
            name = f"b{len(self.names)}"
            self.pool.create_branch(name, self.commit(self.pool))
            self.names.append(name)

    def transact(self, branch: Branch) -> None:
        with branch.transaction() as tx:
            tx.load([row for row in self.distinct() if row["k"] >= 5])  # tallies are sums of the steps
            tx.delete(where=f"k < {self.random.randrange(5)}")
            tx.update("k == 7", "put v := 'seven'")

    def step(self) -> None:
        try:
            self.random.choice(list(self.steps()))()
        except EXPECTED:
            pass
        except IndexError:
            pass  # there is nothing yet to choose from


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(WALKS))
def test_the_feed_makes_every_state_of_a_branch(lake: Lake, kind: str, seed: int) -> None:
    random = Random(seed)
    pool = lake.create("things", key="k", **KINDS[kind])
    history = History(pool, random, "primary" in KINDS[kind])
    for _ in range(STEPS):
        history.step()
    for name in history.names:
        check(pool, name, history.is_keyed)
        check_positions(pool.branch(name), random)


POLICIES = ("dedupe", "replace by v", "aggregate sum(v) by k", "program sort v | tail 1")


class PolicyHistory(History):
    """Random changes of a pool with a merge policy: records are not updated, and deleted by groups."""

    def row(self) -> dict[str, Any]:
        row = {"k": self.random.randrange(5), "v": self.random.choice([1, 2, 3, self.serial])}
        return row if self.random.random() < 0.9 else {"k": row["k"], "w": 1}

    def steps(self) -> Iterator[Callable[[], Any]]:
        branch, low = self.branch, self.random.randrange(5)
        yield from [lambda: branch.load(self.rows())] * 4
        yield lambda: branch.delete(where=f"k == {low}")
        yield lambda: branch.delete(where=f"k >= {low}")
        yield lambda: branch.delete([self.random.choice([o.id for o in branch.objects()])])
        yield from [lambda: branch.compact([o.id for o in branch.objects() if self.random.random() < 0.8])] * 3
        yield lambda: list(branch.compact_all())
        yield from [lambda: branch.revert(self.commit(branch))] * 2
        yield lambda: branch.cherry_pick(self.commit(self.branch))
        yield self.fork
        yield lambda: self.pool.merge(branch.branch_name)
        yield lambda: branch.merge(self.branch.branch_name)
        yield lambda: branch.rebase("main")


def merged(lake: Lake, policy: str, state: Counter[str]) -> Counter[str]:
    """What a pool with a policy has if these records are loaded into it."""
    pool = lake.create("other", key="k", policy=policy)
    try:
        if state:
            pool.load("\n".join(state.elements()).encode(), format="zson")
        return Counter(map(format_value, pool.query()))
    finally:
        lake.drop("other")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(WALKS))
def test_the_feed_of_a_pool_with_a_merge_policy_makes_its_states_in_such_a_pool(
    lake: Lake, policy: str, seed: int
) -> None:
    pool = lake.create("things", key="k", policy=policy)
    history = PolicyHistory(pool, Random(seed), is_keyed=False)
    for _ in range(STEPS):
        history.step()
    for name in history.names:
        feed = by_commit(pool.branch(name))
        state: Counter[str] = Counter()
        for info in list(pool.branch(name).log())[::-1]:
            for change in feed.get(info.id, []):
                state = applied(state, change)
            if feed.get(info.id):
                assert merged(lake, policy, state) == state_at(pool, info.id), info


class MeteredStore(MemoryStore):
    """Objects in memory, and how many bytes of them were read."""

    read = 0

    def get(self, key: str) -> bytes:
        data = super().get(key)
        self.read += len(data)
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        data = super().get(key)[start : start + length]
        self.read += len(data)
        return data


def bytes_of_feed(rows: int, commits: int, primary: str) -> tuple[int, int]:
    """What a new process reads for the changes of small commits to a pool of some rows, and how many changes."""
    store = MeteredStore()
    pool = LocalLake(create(store)).create("things", key="k", primary=primary, inline=1 << 16)
    pool.load(pa.table({"k": np.arange(rows), "v": [f"value {i * 7919 % rows}" for i in range(rows)]}))
    start = pool.resolve()
    for number in range(commits):
        new = [{"k": rows + 10 * number + i, "v": "new"} for i in range(10)]
        if primary:
            pool.upsert(new)
        else:
            pool.load(new)
    fresh = LocalLake(open_lake(store)).pool("things")
    store.read = 0
    changes = sum(1 for _ in fresh.changes(since=start))
    return store.read, changes


@pytest.mark.parametrize("primary", ["", "k"])
def test_the_cost_of_changes_is_that_of_what_changed(primary: str) -> None:
    few, many = (bytes_of_feed(rows, 40, primary) for rows in (1_000, 100_000))
    assert few[1] == many[1] == 400
    assert many[0] < 1.2 * few[0]
    assert many[0] < 40 * 2_000


@pytest.mark.long
def test_a_thousand_small_commits_on_five_million_rows_cost_what_they_changed() -> None:
    size, changes = bytes_of_feed(5_000_000, 1_000, "")
    print(f"{size} bytes of {changes} changes")
    assert changes == 10_000
    assert size < 1_000 * 5_000
