"""Keyed pools: whatever is done, a branch is what a dict of records by key says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

import shoal
from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound, ShoalError
from shoal.frames.python_values import from_python
from shoal.lake import changes
from shoal.lake.commits import Note
from shoal.local.lake import stored
from shoal.testing.tiers import IS_LONG

Record = dict[str, Any]
State = dict[Any, Record]
WALKS, STEPS = (200, 60) if IS_LONG else (24, 25)
KEYS: tuple[Any, ...] = (*range(12), "a", "b", "it's", 2.5, True)
CONFLICT = object()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return shoal.create(str(tmp_path / "lake"))


def keyed(lake: Lake, **settings: Any) -> Pool:
    return lake.create("things", key="id", **{"primary": "id", **settings})


def records(branch: Branch, engine: str = "auto") -> State:
    rows = branch.query(engine=engine).to_list()
    state = {canonical(row["id"]): row for row in rows}
    assert len(state) == len(rows), "a key is there twice"
    return state


def canonical(key: Any) -> Any:
    return ("bool", key) if isinstance(key, bool) else key


# ---- a model


@dataclass
class Line:
    """A branch in the model."""

    now: State = field(default_factory=dict)
    base: State = field(default_factory=dict)
    """What it was when it last met `main`."""


def changed(base: State, ours: State, theirs: State) -> State | object:
    """Changes of two sides together, by key; or CONFLICT."""
    out = dict(theirs)
    for key in base.keys() | ours.keys():
        before, after, there = base.get(key), ours.get(key), theirs.get(key)
        if before == after or after == there:
            continue
        if before != there:
            return CONFLICT
        out.pop(key, None)
        if after is not None:
            out[key] = after
    return out


class Walk:
    """Random changes of a pool and of its model."""

    def __init__(self, pool: Pool, random: Random) -> None:
        self.pool, self.random = pool, random
        self.lines = {"main": Line()}
        self.commits: list[tuple[str, State, State]] = []
        self.serial = 0

    def some(self, keys: tuple[Any, ...] = KEYS) -> list[Record]:
        chosen = self.random.sample(keys, self.random.randint(1, 6))
        self.serial += 1
        return [self.record(key) for key in chosen]

    def record(self, key: Any) -> Record:
        value: Any = self.random.choice([self.serial, f"v{self.serial}", None])
        record = {"id": key, "v": value}
        return {**record, "w": self.serial} if self.random.random() < 0.3 else record

    def branch(self) -> str:
        return self.random.choice(list(self.lines))

    def step(self) -> None:
        steps: list[Callable[[], None]] = [
            self.upsert, self.upsert, self.upsert, self.load, self.delete, self.delete_where, self.update, self.race,
            self.fork, self.fork, self.merge, self.merge, self.compact, self.revert,
        ]  # fmt: skip
        self.random.choice(steps)()

    def commit(
        self, name: str, after: State | object, act: Callable[[Branch], Any], *refused: type[ShoalError]
    ) -> None:
        """Do something on a branch; the model says what it is afterwards, or that it conflicts."""
        line, branch = self.lines[name], self.pool.branch(name)
        if after is CONFLICT or after == line.now:
            if after is not CONFLICT and not refused:
                act(branch)
            else:
                with pytest.raises((Conflict, *refused)):
                    act(branch)
            return
        commit = act(branch)
        assert isinstance(after, dict)
        if isinstance(commit, str):
            self.commits.append((commit, line.now, after))
        line.now = after

    def upsert(self) -> None:
        name, rows = self.branch(), self.some()
        after = self.lines[name].now | {canonical(row["id"]): row for row in rows}
        self.commit(name, after, lambda branch: branch.upsert(rows))

    def load(self) -> None:
        name, rows = self.branch(), self.some()
        new = {canonical(row["id"]): row for row in rows}
        now = self.lines[name].now
        if new.keys() & now.keys():
            with pytest.raises(AlreadyExists):
                self.pool.branch(name).load(rows)
        else:
            self.commit(name, now | new, lambda branch: branch.load(rows))

    def delete(self) -> None:
        name, keys = self.branch(), [row["id"] for row in self.some()]
        gone = set(map(canonical, keys))
        after = {key: row for key, row in self.lines[name].now.items() if key not in gone}
        self.commit(name, after, lambda branch: branch.delete(keys=keys), NotFound)

    def delete_where(self) -> None:
        name, limit = self.branch(), self.random.randint(0, 12)
        now = self.lines[name].now
        after = {
            k: row
            for k, row in now.items()
            if not (isinstance(row["id"], int | float) and k != ("bool", True) and row["id"] < limit)
        }
        self.commit(name, after, lambda branch: branch.delete(where=f"id < {limit}"), InvalidInput)

    def update(self) -> None:
        name, limit = self.branch(), self.random.randint(0, 12)
        self.serial += 1
        number = self.serial
        now = self.lines[name].now
        chosen = {k for k, row in now.items() if not isinstance(k, tuple | str) and k >= limit}
        after = {k: {**row, "w": number} if k in chosen else row for k, row in now.items()}
        self.commit(name, after, lambda branch: branch.update(f"id >= {limit}", f"put w := {number}"), InvalidInput)

    def race(self) -> None:
        """A transaction, while something else is committed."""
        name = self.branch()
        base = self.lines[name].now
        transaction = self.pool.branch(name).begin()
        rows, keys = self.some(), [row["id"] for row in self.some()]
        transaction.upsert(rows)
        transaction.delete(keys=keys)
        ours = {
            k: row
            for k, row in (base | {canonical(row["id"]): row for row in rows}).items()
            if k not in set(map(canonical, keys))
        }
        self.random.choice([self.upsert, self.compact, self.delete, self.update])()
        now = self.lines[name].now
        after = changed(base, ours, now)
        if after is CONFLICT:
            with pytest.raises(Conflict):
                transaction.commit()
        else:
            try:
                transaction.commit()
            except InvalidInput:
                assert ours == base
            assert isinstance(after, dict)
            self.lines[name].now = after

    def fork(self) -> None:
        if len(self.lines) < 3:
            name = f"side{self.serial}"
            if name not in self.lines:
                self.pool.create_branch(name)
                self.lines[name] = Line(self.lines["main"].now, self.lines["main"].now)

    def merge(self) -> None:
        name = self.branch()
        if name == "main":
            return
        line, main = self.lines[name], self.lines["main"]
        after = changed(line.base, line.now, main.now)
        try:
            self.pool.merge(name)
        except InvalidInput:
            assert after == main.now
        except Conflict:
            assert after is CONFLICT
            return
        assert isinstance(after, dict)
        main.now, line.base = after, line.now

    def compact(self) -> None:
        branch = self.pool.branch(self.branch())
        objects = [o.id for o in branch.objects()]
        if len(objects) > 1:
            branch.compact(objects)

    def revert(self) -> None:
        if not self.commits:
            return
        commit, before, after = self.random.choice(self.commits)
        name = next((n for n in self.lines if any(c.id == commit for c in self.pool.branch(n).log())), None)
        if name is not None:
            now = self.lines[name].now
            reverted = changed(after, before, now)
            self.commit(name, reverted, lambda branch: branch.revert(commit), InvalidInput) if reverted != now else None

    def check(self, engines: tuple[str, ...]) -> None:
        for name, line in self.lines.items():
            for engine in engines:
                found = records(self.pool.branch(name), engine)
                assert found == line.now, (name, engine)


@pytest.mark.parametrize("inline", [0, 1 << 16])
@pytest.mark.parametrize("seed", range(WALKS))
def test_a_pool_is_what_a_dict_says(lake: Lake, seed: int, inline: int) -> None:
    print(f"seed {seed}")
    walk = Walk(keyed(lake, inline=inline), Random(seed))
    for _ in range(STEPS):
        walk.step()
        walk.check(("interp",))
    walk.check(("duckdb",))


# ---- one by one


def test_equal_numbers_of_any_type_are_one_key(lake: Lake) -> None:
    pool = keyed(lake)
    pool.load(b"{id:1} {id:2(uint8)} {id:3.}", format="zson")
    pool.upsert(b"{id:1.,a:1} {id:2,a:2} {id:3(int32),a:3}", format="zson")
    assert sorted((row["id"], row["a"]) for row in pool.query().to_list()) == [(1, 1), (2, 2), (3, 3)]


def test_a_key_of_several_fields_is_equal_in_all_of_them(lake: Lake) -> None:
    pool = lake.create("things", key="id", primary="id,at.day")
    pool.load([{"id": 1, "at": {"day": "mon"}}, {"id": 1, "at": {"day": "tue"}}])
    with pytest.raises(AlreadyExists, match=r"\(1, \"tue\"\)"):
        pool.load([{"id": 1, "at": {"day": "tue"}}])
    pool.upsert([{"id": 1, "at": {"day": "tue"}, "n": 5}])
    assert pool.query("count(), n:=sum(n)").to_list() == [{"count": 2, "n": 5}]
    pool.delete(keys=[{"id": 1, "at": {"day": "mon"}}])
    assert [row["at"]["day"] for row in pool.query().to_list()] == ["tue"]


def test_records_without_a_key_are_refused_with_their_number(lake: Lake) -> None:
    pool = keyed(lake)
    for bad, shown in (({"id": None}, "{id:null}"), ({"other": 1}, "{other:1}"), ({"id": float("nan")}, "{id:NaN}")):
        with pytest.raises(InvalidInput, match="record 3: primary key id is null or missing in") as refused:
            pool.upsert([{"id": 1}, {"id": 2}, bad])
        assert shown in str(refused.value)
    assert pool.query("count()").to_list() == []
    assert pool.resolve() is None


def test_keys_that_come_twice_are_refused_and_named(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="1 primary key is given more than once: 5"):
        keyed(lake).upsert([{"id": 5}, {"id": 5.0}])


def test_a_load_names_up_to_ten_keys_that_are_there(lake: Lake) -> None:
    pool = keyed(lake)
    pool.load([{"id": i} for i in range(20)])
    with pytest.raises(
        AlreadyExists, match="0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 more: 20 records have this primary key"
    ):
        pool.load([{"id": i} for i in range(20)])


def test_an_update_may_not_take_the_key_of_another_record(lake: Lake) -> None:
    pool = keyed(lake)
    pool.load([{"id": 1}, {"id": 2}])
    with pytest.raises(InvalidInput, match="other records have the primary key 1"):
        pool.update("id == 2", "put id := 1")
    pool.update("id == 2", "put id := 3")
    assert sorted(records(pool)) == [1, 3]


@pytest.mark.parametrize(
    ("rule", "value"), [("ours", "mine"), ("theirs", "other"), ("newest:at", "other"), ("newest:v", "other")]
)
def test_a_rule_decides_between_two_changes_of_a_record(lake: Lake, rule: str, value: str) -> None:
    pool = keyed(lake)
    pool.load([{"id": 1, "v": "old", "at": 0}, {"id": 2, "v": "old", "at": 0}])
    pool.create_branch("before")

    def rows() -> Any:
        yield {"id": 1, "v": "mine", "at": 5}
        pool.upsert([{"id": 1, "v": "other", "at": 7}])  # while the first upsert reads its input
        yield {"id": 2, "v": "mine", "at": 5}

    pool.upsert(rows(), on_conflict=rule)
    found = records(pool)
    assert (found[1]["v"], found[2]["v"]) == (value, "mine")


def test_changes_of_other_records_and_compactions_are_no_conflict(lake: Lake) -> None:
    pool = keyed(lake)
    pool.load([{"id": 1, "v": "old"}])
    pool.load([{"id": 2, "v": "old"}])

    def rows() -> Any:
        yield {"id": 1, "v": "mine"}
        pool.upsert([{"id": 2, "v": "other"}, {"id": 3, "v": "other"}])
        pool.compact([o.id for o in pool.objects()])

    pool.upsert(rows())
    assert {key: row["v"] for key, row in records(pool).items()} == {1: "mine", 2: "other", 3: "other"}


def test_verbs_of_keyed_pools_need_a_primary_key(lake: Lake) -> None:
    pool = lake.create("plain", key="id")
    acts: list[Callable[[], str]] = [lambda: pool.upsert([{"id": 1}]), lambda: pool.delete(keys=[1])]
    for act in acts:
        with pytest.raises(InvalidInput, match="this pool has no primary key"):
            act()
    pool.load([{"id": 1}, {"id": 2}])
    pool.update("id == 2", "put id := 1")
    assert [row["id"] for row in pool.query().to_list()] == [1, 1]


def test_the_number_of_objects_that_an_upsert_reads_does_not_grow_with_the_pool(lake: Lake) -> None:
    pool = keyed(lake, inline=0)
    for start in range(0, 100, 10):
        pool.load([{"id": i} for i in range(start, start + 10)])
    before = {o.id: o.count for o in pool.objects()}
    pool.upsert([{"id": 15, "v": 1}])
    after = {o.id: o.count for o in pool.objects()}
    assert sorted(before[ident] - after[ident] for ident in before) == [0] * 9 + [1]


def test_the_operator_load_refuses_keys_that_are_there(lake: Lake) -> None:
    pool = keyed(lake)
    lake.create("source", key="id").load([{"id": 1}, {"id": 2}])
    lake.query("from source | load things").to_list()
    with pytest.raises(AlreadyExists, match="1, 2: 2 records have this primary key"):
        lake.query("from source | load things").to_list()
    assert sorted(records(pool)) == [1, 2]


def test_a_change_that_was_not_compared_by_key_is_not_committed(lake: Lake) -> None:
    pool = stored(keyed(lake))
    objects = pool.writer().write_all([from_python({"id": 1})])
    with pytest.raises(InvalidInput, match="this pool has a primary key"):
        pool.committer.commit(changes.load("main", objects, Note()))


# ---- both sides change one record

CHANGES: dict[str, Callable[[Branch], object]] = {
    "upsert": lambda branch: branch.upsert([{"id": 3, "v": branch.branch_name}]),
    "update": lambda branch: branch.update("id == 3", f"put v := '{branch.branch_name}'"),
    "delete": lambda branch: branch.delete(keys=[3]),
    "delete where": lambda branch: branch.delete(where="id == 3"),
}
WAYS: dict[str, Callable[[Pool], object]] = {
    "merge": lambda pool: pool.merge("side"),
    "rebase": lambda pool: pool.branch("side").rebase("main"),
    "cherry-pick": lambda pool: pool.cherry_pick("side"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("theirs", CHANGES)
@pytest.mark.parametrize("ours", CHANGES)
def test_a_record_that_both_sides_changed_is_a_conflict(lake: Lake, ours: str, theirs: str, way: str) -> None:
    pool = keyed(lake)
    pool.load([{"id": n, "v": "old"} for n in range(1, 5)])
    side = pool.create_branch("side")
    side.upsert([{"id": 50, "v": "side"}])
    CHANGES[theirs](side)
    CHANGES[ours](pool)
    if "delete" in ours and "delete" in theirs:
        if way == "cherry-pick":
            with pytest.raises(InvalidInput, match="already"):
                WAYS[way](pool)
        else:
            WAYS[way](pool)
        assert 3 not in records(pool)
        return
    with pytest.raises(Conflict, match="primary key 3"):
        WAYS[way](pool)
    assert records(pool).get(3) == (None if "delete" in ours else {"id": 3, "v": "main"})
    assert records(side).get(3) == (None if "delete" in theirs else {"id": 3, "v": "side"})


def test_a_rewrite_of_a_partition_keeps_keys_unique(lake: Lake) -> None:
    pool = keyed(lake, partition="p")
    pool.load([{"id": 1, "p": "a"}, {"id": 2, "p": "a"}, {"id": 3, "p": "b"}])
    for program, message in (
        ("put id := 1", "1 primary key is given more than once: 1"),
        ("put id := id + 1", "rewrite: other records have the primary key 3"),
    ):
        with pytest.raises(InvalidInput, match=message):
            pool.rewrite('"a"', program)
    pool.rewrite('"a"', "put id := id + 10")
    assert sorted(records(pool)) == [3, 11, 12]


def test_history_from_before_the_key_brings_no_duplicate(lake: Lake) -> None:
    pool = lake.create("things", key="id")
    pool.load([{"id": 1}, {"id": 2, "v": "b"}, {"id": 2, "v": "c"}, {"id": 3}])
    dev = pool.create_branch("dev")
    mended = pool.delete(where="v == 'c'")
    dev.delete(where="v == 'b'")
    pool.alter(primary="id")
    acts: list[Callable[[], object]] = [
        lambda: pool.revert(mended),
        lambda: pool.merge("dev"),
        lambda: dev.rebase("main"),
    ]
    for act in acts:
        with pytest.raises((Conflict, InvalidInput), match="2"):
            act()
        assert records(pool)[2] == {"id": 2, "v": "b"}
        assert records(dev)[2] == {"id": 2, "v": "c"}
    pool.upsert([{"id": 2, "v": "both"}])
    dev.upsert([{"id": 2, "v": "both"}])
    pool.load([{"id": 9}])
    with pytest.raises(Conflict, match="before this pool had its primary key, several records had the key 2"):
        pool.merge("dev")
