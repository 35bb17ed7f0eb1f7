"""Two clients, each with its own caches, do anything to the pools of a lake; after each step it is as the model says.

The lake leaves checkpoints, snapshots and hints all the time here, objects and segments hold a few values, and keys are
of all kinds. Hypothesis prints the steps of a walk that fails; `--hypothesis-seed` replays the walks of the long tier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shoal.api.pool import Pool as PoolHandle
from shoal.api.transaction import Transaction as OpenTransaction
from shoal.errors import Conflict, CorruptData, InvalidInput, NotFound, ShoalError
from shoal.ids import Id, new, parse, to_text
from shoal.lake import lake
from shoal.lake.actions import Action, added, effect
from shoal.lake.lake import is_immutable
from shoal.lake.objects import DataObject
from shoal.lake.scans import read_object, scan
from shoal.local.lake import LocalLake, stored
from shoal.local.transactions import LocalTransaction
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.values import Value, int64, record
from shoal.planner.file_query import query
from shoal.storage.cache import CachedStore
from shoal.storage.memory import MemoryStore
from shoal.testing import lake_model
from shoal.testing.lake_model import Change, Layout, Pool
from shoal.testing.lineage_checks import layout_after, visible_rows
from shoal.testing.tiers import IS_LONG

WALKS, STEPS = (2_000, 300) if IS_LONG else (200, 50)
Cell = tuple[str, Value, Value]
"""The shape of a value, its key, and another key."""
T = TypeVar("T")
U = TypeVar("U")

# ---- data

POOL_KEYS = ("k", "k:desc", "k,j", "k,j:desc", "n.k", "this", "this:desc")
KEYS = [
    parse_value(text)
    for text in (
        "0", "1", "2", "3", "-4", "1(uint8)", "1000000000000(int64)", "1.", "1.5", "-0.", "NaN", "+Inf", '"a"', '"b"',
        '""', "null", "null(int64)", "true", "1s", "2024-01-01T00:00:00Z", "10.0.0.1", "0x01", "[1,2]", "{x:1}",
        "2(=port)", "1((int64,string))", '"a"((int64,string))', 'error("x")',
    )
]  # fmt: skip
FILTERS = (
    "{k} < 2", "{k} <= 1", "{k} > 1", "{k} >= 1.5", "{k} == 1", "1 < {k}", "{k} == 1.0", '{k} == "a"', '{k} >= "a"',
    "{k} < 0", "{k} > 0.5 and {k} < 3", '{k} == 1 or {k} == "b"', "{k} < 1 or {k} > 2", "{k} > 1 or id < 5",
    "not ({k} < 2)", "{k} != 1", "{k} == null", "{k} > NaN", "{k} == 10.0.0.1", "{k} > 1s", "{k} < 3 and id > 3",
    '{k} > 1 and {k} > "a"', "{k} >= 1000000000000", "is_error({k})", "id > 6",
)  # fmt: skip
SHAPES = ("kj", "kj", "k", "k", "id", "n", "bare", "empty")


def make(shape: str, key: Value, other: Value, ident: int) -> Value:
    """A value: with the pool key or without it."""
    number = ("id", int64(ident))
    match shape:
        case "kj":
            return record([("k", key), ("j", other), number])
        case "k":
            return record([("k", key), number])
        case "n":
            return record([("n", record([("k", key)])), number])
        case "bare":
            return key
        case "empty":
            return record([("n", Value(t.record([("k", t.INT64)]), None)), number])
    return record([number])


def select(text: str) -> Callable[[Sequence[Value]], Iterable[Value]]:
    """Those of some values that a filter is true for, by the interpreter and without any lake."""
    return lambda values: list(query(text, list(values)))


# ---- the walk

cells = st.tuples(st.sampled_from(SHAPES), st.sampled_from(KEYS), st.sampled_from(KEYS))
data = st.lists(cells, min_size=1, max_size=6)
picks = st.integers(0, 9999)
pool_keys = st.sampled_from(POOL_KEYS)
clients = st.integers(0, 1)
names = st.sampled_from(("main", "b", "c", "v1"))
filters = st.sampled_from(FILTERS)


class Place(NamedTuple):
    """A branch of a pool, as a client and as the model see it; there may be no such branch."""

    pool: PoolHandle
    model: Pool
    branch: str


@dataclass
class Open:
    """A transaction that has begun, as the lake and as the model see it."""

    real: OpenTransaction
    model: lake_model.Transaction
    context: AbstractContextManager[OpenTransaction]
    at: Place
    isolation: str


class Walk(RuleBasedStateMachine):
    """The lake, the model, and what two clients may do."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        lake.create(self.store)
        self.clients = [self.open() for _ in range(2)]
        self.model = lake_model.Lake()
        self.seen: dict[str, list[str]] = {}
        """All commits that ever were, by the id of the pool."""
        self.open_ones: dict[int, Open] = {}
        self.number = 0
        self.touched = ""
        """The pool that the last step had to do with."""

    def open(self) -> LocalLake:
        return LocalLake(lake.open_lake(CachedStore(self.store, is_immutable)))

    def next(self) -> int:
        self.number += 1
        return self.number

    def message(self) -> str:
        return f"step {self.next()}"

    # ---- choosing

    def choose(self, who: int, pick: int) -> Place:
        """A branch, seldom one that is not there, and the pool by one of the clients."""
        pools = sorted(self.model.pools)
        self.touched = pools[pick % len(pools)]
        model = self.model.pools[self.touched]
        return Place(self.clients[who].pool(self.touched), model, some_branch(model, pick // 2))

    def some_commit(self, at: Place, pick: int, gone: bool = False) -> str:
        """A commit, mostly one that is there, often a young one of the branch; at times one that never was.

        One that is `gone`, taken by a vacuum, may still be read by who remembers it, but not be referred to.
        """
        young = [commit.id for commit in at.model.log(at.model.branches.get(at.branch))][:3]
        there = [commit for commit in at.model.commits if commit not in at.model.unreadable]
        known = (young, young, young, there, self.seen[at.pool.id] if gone else young, [])[pick % 6]
        return known[pick // 6 % len(known)] if known else to_text(new())

    def some_objects(self, at: Place, pick: int) -> list[str]:
        """Up to four objects, mostly of the branch; or a commit, for those that it added."""
        state = sorted(at.model.layout(at.model.branches.get(at.branch)))
        kind, pick = pick % 10, pick // 10
        if kind == 0:
            return [self.some_commit(at, pick)]
        if kind == 1 and at.model.objects:
            return [list(at.model.objects)[pick % len(at.model.objects)]]
        begin = pick % max(len(state) - kind % 4, 1)
        return state[begin : begin + 1 + kind % 4]

    # ---- comparing

    def expect(self, predict: Callable[[], T], act: Callable[[], U]) -> tuple[T, U] | None:
        """What the model and the lake make of a verb; None if both refuse it for the same kind of reason."""
        try:
            predicted = predict()
        except ShoalError as e:
            with pytest.raises(ShoalError) as caught:
                act()
            assert caught.type is type(e), f"{caught.value!r} instead of {e!r}"
            return None
        return predicted, act()

    def change(self, at: Place, predict: Callable[[], Change], act: Callable[[str], str]) -> None:
        """A verb that makes one commit. If it would only move rows, it may be refused."""
        message = self.message()
        done = self.expect(predict, lambda: self.acted(predict, act, message))
        if done is not None and done[1] is not None:
            self.land(at, done[0], done[1], message)

    def acted(self, predict: Callable[[], Change], act: Callable[[str], str], message: str) -> str | None:
        try:
            return act(message)
        except (Conflict, InvalidInput):
            try:
                planned = predict()
            except ShoalError:
                raise
            if planned.may_be_refused and planned.is_empty:
                return None
            raise

    def land(self, at: Place, change: Change, commit: str, message: str) -> None:
        """A commit is on the branch: it has to come to the change that the model made."""
        landed = stored(at.pool).commits.read(parse(commit))
        made = self.made(at, landed.actions, at.model.objects)
        layout = self.layout(at, at.model.layout(at.model.tip(at.branch)), landed.actions)
        at.model.land(at.branch, change, commit, layout, made, message)
        self.seen[at.pool.id].append(commit)

    def made(self, at: Place, actions: Iterable[Action], known: Container[str]) -> dict[str, list[Value]]:
        """All rows of objects that were just written. They are as they are described, and rows as they were."""
        made = {}
        for o in added(actions):
            if to_text(o.id) not in known:
                made[to_text(o.id)] = self.contents(at, o)
        return made

    def layout(self, at: Place, before: Layout, actions: Sequence[Action]) -> Layout:
        """The objects after actions, which have to be as they are described."""
        for _, after in map(effect, actions):
            if after is not None:
                self.require_counts(at, after)
        return layout_after(self.store, at.pool.id, before, actions)

    def require_counts(self, at: Place, o: DataObject) -> None:
        """A description counts just the values that are not hidden."""
        found = Counter(value.type for value in read_object(self.store, at.pool.id, stored(at.pool).config.key, o))
        assert found.total() == o.count > 0
        assert o.shapes is None or found == Counter(dict(o.shapes))

    def contents(self, at: Place, o: DataObject) -> list[Value]:
        """All values of a new object, which has to be as its commit says."""
        key = at.model.key
        self.require_counts(at, o)
        whole = replace(o, mask=None, count=o.rows)
        found = list(read_object(self.store, at.pool.id, stored(at.pool).config.key, whole))
        assert len(found) == o.rows > 0
        if o.inline is not None:
            at.model.inline.add(to_text(o.id))
        key.require_order(found)
        assert [o.min, o.max] == [key.of(found[0])[0], key.of(found[-1])[0]][:: key.sign]
        assert {key.has(value) for value in found} == {o.has_key}
        for row, first in visible_rows(self.store, at.pool.id, whole).items():
            assert at.model.rows.get(first, found[row]) == found[row], "a row is another one than it was"
        return found

    def require_values(self, pool: PoolHandle, model: Pool, commit: str | None) -> None:
        """The values at a commit are those of the model, in the order of the pool."""
        found = list(scan(stored(pool), ident(commit)))
        assert Counter(found) == model.values(commit)
        model.key.require_order(found)

    def require_log(self, pool: PoolHandle, model: Pool, tip: str | None) -> None:
        log = [(c.id, c.parent, c.merged, c.note.message) for c in stored(pool).log(ident(tip))]
        ours = [(c.id, c.parent, c.merged, c.message) for c in model.log(tip)]
        assert [(text(i), text(p), text(m), message) for i, p, m, message in log] == ours

    # ---- pools

    @initialize(keys=st.tuples(pool_keys, pool_keys), size=picks, found=data, more=data)
    def begin(self, keys: tuple[str, str], size: int, found: list[Cell], more: list[Cell]) -> None:
        """Two pools with a little data, the first with two more branches."""
        for name, key in zip(("p", "q"), keys, strict=True):
            self._create(0, name, key, size)
            self._load(Place(self.clients[0].pool(name), self.model.pools[name], "main"), found)
        for branch in ("b", "c"):
            at = Place(self.clients[1].pool("p"), self.model.pools["p"], branch)
            at.model.create_branch(branch, "main")
            at.pool.create_branch(branch, "main")
            self._load(at, more)

    def _create(self, who: int, name: str, key: str, size: int) -> None:
        done = self.expect(
            lambda: self.model.create(name, key),
            lambda: self.clients[who].create(
                name, key=key, object_size=20 + size % 60, seek_stride=1 + size % 30, inline=size % 2 * 64
            ),
        )
        if done is not None:
            self.seen[done[1].id] = []

    @rule(who=clients, pick=picks, key=pool_keys, luck=st.integers(0, 4))
    def rename_or_replace(self, who: int, pick: int, key: str, luck: int) -> None:
        """Not too often: a new pool has no data."""
        old, name = ("p", "q", "r")[pick % 3], ("p", "q", "r")[pick // 3 % 3]
        if luck > 1:
            return
        if luck:
            self.expect(lambda: self.model.rename(old, name), lambda: self.clients[who].rename(old, name))
            return
        for slot in [slot for slot, each in self.open_ones.items() if each.at.model is self.model.pools.get(old)]:
            self.end(slot)
        self.expect(lambda: self.model.drop(old), lambda: self.clients[who].drop(old))
        self._create(1 - who, old, key, pick)

    # ---- names

    @rule(who=clients, pick=picks, name=names, which=picks, luck=st.integers(0, 3))
    def name_branch(self, who: int, pick: int, name: str, which: int, luck: int) -> None:
        at = self.choose(who, pick)
        if luck == 0:
            self.expect(lambda: at.model.drop_branch(name), lambda: at.pool.drop_branch(name))
            return
        origin = at.branch if which % 3 else self.some_commit(at, which // 3, gone=is_free(at.model, name))
        self.expect(lambda: at.model.create_branch(name, origin), lambda: at.pool.create_branch(name, origin))

    @rule(who=clients, pick=picks, name=names, which=picks, luck=st.integers(0, 1))
    def name_tag(self, who: int, pick: int, name: str, which: int, luck: int) -> None:
        at = self.choose(who, pick)
        if luck == 0 and name in at.model.tags:
            self.expect(lambda: at.model.drop_tag(name), lambda: at.pool.drop_tag(name))
            return
        origin = self.some_commit(at, which, gone=is_free(at.model, name))
        self.expect(lambda: at.model.create_tag(name, origin), lambda: at.pool.create_tag(name, origin))

    # ---- changes

    def values(self, found: list[Cell]) -> list[Value]:
        return [make(*cell, self.next()) for cell in found]

    @rule(who=clients, pick=picks, found=data)
    def load(self, who: int, pick: int, found: list[Cell]) -> None:
        self._load(self.choose(who, pick), found)

    @rule(who=clients, pick=picks, found=data, more=data)
    def load_by_both(self, who: int, pick: int, found: list[Cell], more: list[Cell]) -> None:
        """Without data there is little to see."""
        self._load(self.choose(who, pick), found)
        self._load(self.choose(1 - who, pick), more)

    def _load(self, at: Place, found: list[Cell]) -> None:
        pool, model, branch = at
        values = self.values(found)
        self.change(at, lambda: model.load(branch, values), lambda m: pool.branch(branch).load(values, message=m))

    @rule(who=clients, pick=picks, which=picks)
    def delete(self, who: int, pick: int, which: int) -> None:
        pool, model, branch = at = self.choose(who, pick)
        ids = self.some_objects(at, which)
        self.change(at, lambda: model.delete(branch, ids), lambda m: pool.branch(branch).delete(ids, message=m))

    @rule(who=clients, pick=picks, filter_=filters)
    def delete_where(self, who: int, pick: int, filter_: str) -> None:
        pool, model, branch = at = self.choose(who, pick)
        if model.is_purged(model.branches.get(branch)):
            return  # whether what is gone anyway is taken off the branch depends on where it was
        where = on_key(model, filter_)
        predict = lambda: model.delete_where(branch, select(where))  # noqa: E731 - one of two, side by side
        self.change(at, predict, lambda m: pool.branch(branch).delete(where=where, message=m))

    @rule(who=clients, pick=picks, which=picks)
    def compact(self, who: int, pick: int, which: int) -> None:
        at = self.choose(who, pick)
        self._compact(at, self.some_objects(at, which))

    def _compact(self, at: Place, ids: list[str]) -> None:
        pool, model, branch = at
        self.change(at, lambda: model.compact(branch, ids), lambda m: pool.branch(branch).compact(ids, message=m))

    @rule(who=clients, pick=picks)
    def compact_all(self, who: int, pick: int) -> None:
        """What the lake proposes to compact, until it comes to rest: what is left of one run may fit to the next."""
        pool, model, branch = at = self.choose(who, pick)
        if branch not in model.branches or model.is_purged(model.branches[branch]):
            return
        for _ in range(5):
            for run in pool.branch(branch).compact_runs():
                self._compact(at, run)
        assert pool.branch(branch).compact_runs() == []

    @rule(who=clients, pick=picks, which=picks)
    def revert(self, who: int, pick: int, which: int) -> None:
        pool, model, branch = at = self.choose(who, pick)
        commit = self.some_commit(at, which, gone=True)
        if self.is_purged(at, commit):
            return
        self.change(at, lambda: model.revert(branch, commit), lambda m: pool.branch(branch).revert(commit, message=m))

    @rule(who=clients, pick=picks, which=picks, other=picks)
    def cherry_pick(self, who: int, pick: int, which: int, other: int) -> None:
        pool, model, branch = at = self.choose(who, pick)
        commit = self.some_commit(Place(pool, model, another_branch(model, branch, other)), which, gone=True)
        if self.is_purged(at, commit):
            return
        predict = lambda: model.cherry_pick(branch, commit)  # noqa: E731 - one of two, side by side
        self.change(at, predict, lambda m: pool.branch(branch).cherry_pick(commit, message=m))

    @rule(who=clients, pick=picks, which=picks)
    def merge(self, who: int, pick: int, which: int) -> None:
        pool, model, into = at = self.choose(who, pick)
        child = another_branch(model, into, which)
        source = model.branches.get(child)
        tip = model.branches.get(into)
        if model.is_tangled(source, tip) or model.is_purged(source, tip, *model.meetings(source, tip)):
            return
        self.change(at, lambda: model.merge(child, into, source), lambda m: pool.branch(into).merge(child, message=m))

    @rule(who=clients, pick=picks, which=picks)
    def rebase(self, who: int, pick: int, which: int) -> None:
        pool, model, branch = self.choose(who, pick)
        onto = another_branch(model, branch, which)
        tip, target = model.branches.get(branch), model.branches.get(onto)
        own = model.ancestors(tip) - model.ancestors(target)
        if model.is_purged(target, *own, *model.meetings(tip, target)):
            return
        done = self.expect(lambda: model.rebase(branch, onto), lambda: pool.branch(branch).rebase(onto))
        if done is None:
            return
        steps, tip = done
        last = model.branches[onto]
        chain = list(stored(pool).commits.walk(ident(tip), ident(last)))[::-1]
        assert [c.note.message for c in chain] == [old.message for old, _ in steps]
        at = Place(pool, model, branch)
        for commit, (_, change) in zip(chain, steps, strict=True):
            made = self.made(at, commit.actions, model.objects)
            layout = self.layout(at, model.layout(last), commit.actions)
            last = model.add(last, change, to_text(commit.id), layout, made, commit.note.message)
            self.seen[pool.id].append(last)
        assert tip == last
        model.branches[branch] = last

    def is_purged(self, at: Place, commit: str) -> bool:
        """Whether something of what a commit did, or of the branch, was purged."""
        known = at.model.commits.get(commit)
        parents = () if known is None else (commit, known.parent)
        return at.model.is_purged(at.model.branches.get(at.branch), *(c for c in parents if c in at.model.commits))

    # ---- what goes for good

    @rule(who=clients, pick=picks, which=picks, kind=st.sampled_from(("vacuum", "vacuum", "purge", "purge", "vacate")))
    def remove(self, who: int, pick: int, which: int, kind: str) -> None:
        at = self.choose(who, pick)
        match kind:
            case "vacuum":
                self._vacuum(at)
            case "purge":
                self._purge(at, which)
            case _:
                commit = self.some_commit(at, which)
                self.expect(lambda: at.model.vacate(commit), lambda: at.pool.vacate(commit))

    def _vacuum(self, at: Place) -> None:
        """Without a grace period, unless there is a transaction, of which that would take the data.

        A first attempt stays as long as the commit that came of it. Who may refer to it then is left open.
        """
        is_open = any(each.at.model is at.model for each in self.open_ones.values())
        at.pool.vacuum(grace=None if is_open else 0)
        if not is_open:
            at.model.vacuum()
            assert self.listed(at, "data") == set(at.model.objects) - at.model.purged - at.model.inline
            left = self.listed(at, "commits") - set(at.model.commits)
            self.seen[at.pool.id] = [commit for commit in self.seen[at.pool.id] if commit not in left]

    def listed(self, at: Place, folder: str) -> set[str]:
        """The ids of what is in the store."""
        found = self.store.list(f"{at.pool.id}/{folder}/")
        return {each.key.rpartition("/")[2].partition(".")[0] for each in found}

    def _purge(self, at: Place, which: int) -> None:
        live = {o for tip in at.model.branches.values() for o in at.model.layout(tip)}
        dead = sorted(set(at.model.objects) - live)
        ids = [dead[which % len(dead)]] if dead and which % 5 else self.some_objects(at, which // 5)
        done = self.expect(lambda: at.model.purge(ids), lambda: at.pool.purge(ids))
        if done is not None:
            assert sorted(done[0]) == sorted(done[1])

    # ---- transactions

    @rule(who=clients, pick=picks, isolation=st.sampled_from(("snapshot", "serializable")), found=data, which=picks)
    def begin_transaction(self, who: int, pick: int, isolation: Any, found: list[Cell], which: int) -> None:
        """One begins, with something to do; another of this client ends."""
        if who in self.open_ones:
            self.end(who)
        pool, model, branch = at = self.choose(who, pick)

        def start() -> tuple[AbstractContextManager[OpenTransaction], OpenTransaction]:
            context = pool.branch(branch).transaction(isolation=isolation)
            return context, context.__enter__()

        done = self.expect(lambda: lake_model.Transaction(model, branch), start)
        if done is not None:
            self.open_ones[who] = Open(done[1][1], done[0], done[1][0], at, isolation)
            self.load_in_transaction(who, found)
            if which % 2:
                self.delete_in_transaction(who, which)

    def end(self, slot: int) -> None:
        """A transaction is abandoned."""
        gone = self.open_ones.pop(slot)
        gone.real.abandon()
        gone.context.__exit__(None, None, None)

    @precondition(lambda self: self.open_ones)
    @rule(who=clients, found=data)
    def load_in_transaction(self, who: int, found: list[Cell]) -> None:
        if (each := self.open_ones.get(who)) is not None:
            values = self.values(found)
            self.stage(each, lambda: each.model.load(values), lambda: each.real.load(values))

    @precondition(lambda self: self.open_ones)
    @rule(who=clients, which=picks)
    def delete_in_transaction(self, who: int, which: int) -> None:
        if (each := self.open_ones.get(who)) is not None:
            state = sorted(each.model.layout)
            ids = state[which % len(state) :][:2] if state else []
            self.stage(each, lambda: each.model.delete(ids), lambda: each.real.delete(ids))

    @precondition(lambda self: self.open_ones)
    @rule(who=clients, filter_=filters)
    def delete_where_in_transaction(self, who: int, filter_: str) -> None:
        if (each := self.open_ones.get(who)) is not None:
            if each.model.layout.keys() & each.at.model.purged or each.isolation == "serializable":
                return
            where = on_key(each.at.model, filter_)
            self.stage(each, lambda: each.model.delete_where(select(where)), lambda: each.real.delete(where=where))

    @precondition(lambda self: self.open_ones)
    @rule(who=clients)
    def read_in_transaction(self, who: int) -> None:
        if (each := self.open_ones.get(who)) is not None:
            assert Counter(each.real.query("yield this")) == each.model.values()
            each.model.has_read = each.isolation == "serializable"

    @precondition(lambda self: self.open_ones)
    @rule(who=clients)
    def commit_transaction(self, who: int) -> None:
        if (each := self.open_ones.get(who)) is not None:
            del self.open_ones[who]
            message = self.message()
            if each.at.model.is_purged(each.model.base, each.at.model.branches.get(each.at.branch)):
                each.real.abandon()
            elif (done := self.expect(each.model.commit, lambda: each.real.commit(message=message))) is None:
                each.real.abandon()
            else:
                self.land(each.at, done[0], done[1], message)
            each.context.__exit__(None, None, None)

    def stage(self, each: Open, predict: Callable[[], Change], act: Callable[[], None]) -> None:
        done = self.expect(predict, act)
        if done is not None:
            assert isinstance(each.real, LocalTransaction)
            actions = each.real.session.staged.actions
            known = {*each.model.made, *each.at.model.objects}
            made = self.made(each.at, actions, known)
            base = each.at.model.layout(each.model.base)
            each.model.stage(done[0], self.layout(each.at, base, actions), made)

    # ---- questions

    @rule(who=clients, pick=picks, filter_=filters)
    def ask(self, who: int, pick: int, filter_: str) -> None:
        """A filter on the key, which lets a scan skip objects and segments, finds what it finds among all values."""
        _, model, branch = self.choose(who, pick)
        where = on_key(model, filter_)
        program = f"from {model.name}@{branch} | {where}"
        if branch not in model.branches:
            with pytest.raises(ShoalError, match="branch not found"):
                self.clients[who].query(program)
            return
        found = list(self.clients[who].query(program))
        every = model.values(model.branches[branch])
        assert Counter(found) == Counter(select(where)(list(every.elements())))
        model.key.require_order(found)

    @rule(who=clients, pick=picks)
    def ask_of_metadata(self, who: int, pick: int) -> None:
        _, model, branch = self.choose(who, pick)
        ask, name = self.clients[who].query, model.name
        assert [fields(v, "name") for v in ask("from :pools")] == sorted(self.model.pools)
        assert [fields(v, "branch", "name") for v in ask(f"from {name}:branches")] == sorted(model.branches)
        assert [fields(v, "tag", "name") for v in ask(f"from {name}:tags")] == sorted(model.tags)
        if branch in model.branches:
            objects = {to_text(fields(v, "id")): fields(v, "count") for v in ask(f"from {name}@{branch}:objects")}
            assert objects == {o: len(rows) for o, rows in model.layout(model.branches[branch]).items()}

    @rule(who=clients, pick=picks, old=picks, young=picks)
    def ask_for_differences(self, who: int, pick: int, old: int, young: int) -> None:
        pool, model, _ = at = self.choose(who, pick)
        a, b = self.some_commit(at, old), self.some_commit(at, young)
        done = self.expect(lambda: (model.resolve(a), model.resolve(b)), lambda: pool.diff(a, b))
        if done is None:
            return
        (before, after), diff = done
        one, other = model.layout(before), model.layout(after)
        assert {o.id for o in diff.added} == {o for o, rows in other.items() if rows != one.get(o)}
        assert {o.id for o in diff.removed} == {o for o, rows in one.items() if rows != other.get(o)}
        marked = list(pool.diff_values(a, b))
        model.key.require_order(value for _, value in marked)
        came, went = (Counter(value for mark, value in marked if mark == sign) for sign in "+-")
        assert came == model.values(after) - model.values(before)
        assert went == model.values(before) - model.values(after)

    # ---- always

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        """One client after the other sees the pools and refs, their values, and those of some commit of the past."""
        n = self.next()
        client = self.clients[n % 2]
        assert [info.name for info in client.pools()] == sorted(self.model.pools)
        for name, model in self.model.pools.items():
            if name != self.touched and n % 4:
                continue
            pool = client.pool(name)
            assert {ref.name: ref.commit for ref in pool.branches()} == model.branches
            assert {ref.name: ref.commit for ref in pool.tags()} == model.tags
            self.require_refs(pool, model)
            self.require_commit(pool, model, n)

    def require_refs(self, pool: PoolHandle, model: Pool) -> None:
        for tip in {*model.branches.values(), *model.tags.values()}:
            self.require_values(pool, model, tip)
            self.require_log(pool, model, tip)

    def require_commit(self, pool: PoolHandle, model: Pool, n: int) -> None:
        """A commit of the past has the values that it always had; one that was taken away is not found."""
        seen = self.seen[pool.id]
        if not seen:
            return
        commit = seen[n * 7 % len(seen)]
        try:
            kept = model.resolve(commit)
        except NotFound:
            return
        assert pool.resolve(commit) == kept
        self.require_values(pool, model, commit)

    def teardown(self) -> None:
        for slot in list(self.open_ones):
            self.end(slot)
        for client in (*self.clients, self.open()):
            for name, model in self.model.pools.items():
                self.require_refs(client.pool(name), model)


def some_branch(model: Pool, pick: int) -> str:
    """A branch, seldom one that is not there."""
    known = sorted(model.branches)
    return known[pick // 20 % len(known)] if known and pick % 20 else "nowhere"


def another_branch(model: Pool, branch: str, pick: int) -> str:
    """Another branch, seldom the same."""
    known = sorted(model.branches.keys() - {branch}) if pick % 20 else [branch]
    return known[pick // 20 % len(known)] if known else "nowhere"


def is_free(model: Pool, name: str) -> bool:
    return name not in model.branches and name not in model.tags


def on_key(model: Pool, filter_: str) -> str:
    """A filter on the first key of a pool."""
    return filter_.format(k=".".join(model.key.paths[0]) or "this")


def ident(text: str | None) -> Id | None:
    return None if text is None else parse(text)


def text(ident: Id | None) -> str | None:
    return None if ident is None else to_text(ident)


def fields(value: Value, *names: str) -> Any:
    for name in names:
        found = value.field(name)
        assert found is not None
        value = found
    return value.data


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints, snapshots, checkpoints and pages come after a few commits."""
    monkeypatch.setattr("shoal.lake.journal.HEAD_EVERY", 2)
    monkeypatch.setattr("shoal.lake.journal.SNAPSHOT_EVERY", 4)
    monkeypatch.setattr("shoal.lake.snapshots.CHECKPOINT_EVERY", 3)
    monkeypatch.setattr("shoal.lake.checkpoints.PAGE", 2)


@pytest.mark.timeout(36_000 if IS_LONG else 900)
@pytest.mark.usefixtures("small")
def test_whatever_two_clients_do_the_lake_is_as_the_model_says() -> None:
    run_state_machine_as_test(Walk, settings=settings(max_examples=WALKS, stateful_step_count=STEPS))


# ---- found by walks, and shortened


def new_pool(store: MemoryStore) -> PoolHandle:
    return LocalLake(lake.create(store)).create("p", key="k")


def read(pool: PoolHandle, commitish: str = "main") -> list[int]:
    """The keys of all values, as whoever opens the lake now finds them."""
    fresh = stored(LocalLake(lake.open_lake(stored(pool).store)).pool("p"))
    return [value.data[0] for value in scan(fresh, fresh.resolve(commitish))]


def messages(pool: PoolHandle, branch: str) -> list[str]:
    return [commit.message for commit in pool.log(branch)][::-1]


def test_a_rebase_leaves_out_a_merge_of_what_its_target_has() -> None:
    """What the merge deleted is no longer there to be deleted once more."""
    pool = new_pool(MemoryStore())
    commit = pool.load([{"k": 1}], message="one")
    pool.create_branch("b")
    pool.delete([commit], message="delete")
    pool.branch("b").merge("main", message="merge")
    pool.branch("b").load([{"k": 2}], message="two")
    pool.branch("b").rebase("main")
    assert messages(pool, "b") == ["one", "delete", "two"]
    assert read(pool, "b") == [2]
    kept = stored(pool)
    for commit_of_b in kept.log(kept.resolve("b")):
        before = {o.id for o in kept.snapshot(commit_of_b.parent).objects()}
        assert {o.id for o in commit_of_b.deletes} <= before, f"{commit_of_b.note.message} deletes what is not there"


def test_a_rebase_does_not_bring_back_what_its_target_deleted_after_it_was_merged() -> None:
    pool = new_pool(MemoryStore())
    pool.load([{"k": 1}])
    pool.create_branch("b")
    commit = pool.load([{"k": 2}])
    pool.branch("b").load([{"k": 3}])
    pool.branch("b").merge("main")
    pool.delete([commit])
    pool.branch("b").rebase("main")
    assert read(pool) == [1]
    assert read(pool, "b") == [1, 3]


def test_who_has_read_an_object_does_not_see_it_when_somebody_else_has_purged_it() -> None:
    store = MemoryStore()
    commit = new_pool(store).load([{"k": 1}])
    reader = LocalLake(lake.open_lake(CachedStore(store, is_immutable)))
    assert len(list(reader.query(f"from p@{commit}"))) == 1
    other = LocalLake(lake.open_lake(store)).pool("p")
    other.delete([commit])
    other.purge([commit])
    assert list(reader.query(f"from p@{commit}")) == []


def test_a_rebase_is_refused_if_what_a_commit_deletes_is_not_there_although_its_target_was_merged() -> None:
    pool = new_pool(MemoryStore())
    commit = pool.load([{"k": 1}])
    pool.create_branch("b")
    pool.delete([commit])
    pool.branch("b").revert(pool.branch("b").delete([commit]))
    pool.branch("b").merge("main")
    with pytest.raises(Conflict):
        pool.branch("b").rebase("main")


def cut_history(pool: PoolHandle) -> None:
    """History begins with the tip of main, and all that came before is gone."""
    pool.vacate("main")
    pool.vacuum(grace=0)


def test_a_rebase_of_a_branch_that_merged_one_which_is_gone_works_after_history_was_cut() -> None:
    store = MemoryStore()
    pool = new_pool(store)
    pool.load([{"k": 1}])
    pool.create_branch("b")
    pool.create_branch("c")
    pool.branch("c").load([{"k": 2}])
    pool.branch("b").merge("c")
    pool.drop_branch("c")
    cut_history(pool)
    pool.load([{"k": 3}])
    other = LocalLake(lake.open_lake(store)).pool("p")
    other.branch("b").rebase("main")
    assert read(pool, "b") == [1, 2, 3]


def test_a_conflict_is_a_conflict_also_where_the_commit_to_blame_is_gone() -> None:
    """The commit to revert is on another branch, so that all of history is searched for who deleted the object."""
    store = MemoryStore()
    pool = new_pool(store)
    pool.load([{"k": 1}])
    pool.load([{"k": 2}])
    cut_history(pool)
    pool.create_branch("b")
    commit = pool.branch("b").load([{"k": 3}])
    other = LocalLake(lake.open_lake(store)).pool("p")
    with pytest.raises(Conflict):
        other.revert(commit)


def test_the_commit_that_history_begins_with_stays_although_no_branch_is_left() -> None:
    store = MemoryStore()
    pool = new_pool(store)
    commit = pool.load([{"k": 1}])
    pool.vacate(commit)
    pool.drop_branch("main")
    for _ in range(2):
        LocalLake(lake.open_lake(store)).pool("p").vacuum(grace=0)
    LocalLake(lake.open_lake(store)).pool("p").create_branch("main", commit)
    assert read(pool) == [1]


REFERENCES: dict[str, Callable[[PoolHandle, str, str], object]] = {
    "branch": lambda pool, commit, deletion: pool.create_branch("back", commit),
    "tag": lambda pool, commit, deletion: pool.create_tag("back", commit),
    "revert": lambda pool, commit, deletion: pool.revert(deletion),
}


@pytest.mark.parametrize("refer", REFERENCES.values(), ids=REFERENCES)
def test_a_commit_that_is_kept_only_because_it_was_merged_cannot_be_referred_to_when_its_data_is_gone(
    refer: Callable[[PoolHandle, str, str], object],
) -> None:
    store = MemoryStore()
    pool = new_pool(store)
    pool.load([{"k": 1}])
    pool.vacate("main")
    pool.create_branch("c")
    commit = pool.branch("c").load([{"k": 2}])
    deletion = pool.branch("c").delete([commit])
    pool.branch("c").load([{"k": 3}])
    pool.merge("c")
    pool.drop_branch("c")
    pool.vacuum(grace=0)
    other = LocalLake(lake.open_lake(store)).pool("p")
    with pytest.raises(NotFound):
        refer(other, commit, deletion)
    assert [ref.name for ref in (*other.branches(), *other.tags())] == ["main"]
    assert read(pool) == [1, 3]


@pytest.mark.parametrize(
    "is_cut", [False, True], ids=["who remembers the commit", "where the commit is kept as merged"]
)
def test_to_read_a_commit_whose_data_a_vacuum_took_is_not_to_find_damage(is_cut: bool) -> None:
    """The one who is told that data is damaged looks for a copy of it; here all is as it should be."""
    store = MemoryStore()
    pool = new_pool(store)
    pool.load([{"k": 1}])
    if is_cut:
        pool.vacate("main")
    pool.create_branch("c")
    commit = pool.branch("c").load([{"k": 2}])
    reader = LocalLake(lake.open_lake(store))
    if is_cut:
        pool.branch("c").delete([commit])
        pool.branch("c").load([{"k": 3}])
        pool.merge("c")
    else:
        assert reader.pool("p").resolve(commit) == commit
    pool.drop_branch("c")
    pool.vacuum(grace=0)
    with pytest.raises(ShoalError, match=commit) as caught:
        list(reader.query(f"from p@{commit}"))
    assert caught.value.kind != CorruptData.kind
