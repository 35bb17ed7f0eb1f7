"""Changes that bring back what nothing reaches, beside a vacuum that takes it: either it stays, or they fail.

Each change is done at every call that the vacuum makes to the store, and the vacuum at every call of the change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from shoal.api.pool import Pool as PoolHandle
from shoal.errors import Conflict, NotFound
from shoal.ids import to_text
from shoal.lake import vacuum
from shoal.lake.lake import create, open_lake
from shoal.lake.objects import DataObject
from shoal.local.lake import LocalLake, stored
from shoal.model.text import format_value
from shoal.storage.faults import FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore

GRACE = 100.0
Act = Callable[[PoolHandle], object]
OLD = 1000.0


class Scene(NamedTuple):
    """A pool, a change of it, and what a branch has before and after."""

    begin: Callable[[MemoryStore], Act]
    """Makes the pool; the change."""
    branch: str
    before: list[str]
    after: list[str]
    drops: str = ""
    """A branch that goes just before the vacuum."""


def age(store: MemoryStore) -> None:
    """All that is there has been there for long."""
    store._objects = {key: (data, at - OLD) for key, (data, at) in store._objects.items()}


def compact(pool: PoolHandle, branch: str = "main") -> None:
    pool.branch(branch).compact([to_text(o.id) for o in objects(pool, branch)])


def objects(pool: PoolHandle, branch: str = "main") -> list[DataObject]:
    target = stored(pool)
    return list(target.snapshot(target.resolve(branch)).objects())


def sums(store: ObjectStore) -> PoolHandle:
    return LocalLake(create(store)).create("p", key="k", policy="aggregate sum(v)", inline=0)


def cut(store: MemoryStore) -> tuple[PoolHandle, str]:
    """A pool in which a record was merged of others, of which the first are older than history; and the last load."""
    pool = sums(store)
    pool.load([{"k": 1, "v": 1}])
    pool.load([{"k": 1, "v": 2}])
    compact(pool)
    begin = pool.load([{"k": 9, "v": 0}])
    last = pool.load([{"k": 1, "v": 4}])
    pool.create_branch("b")
    compact(pool)
    pool.vacate(begin)
    return pool, last


def revert_after_a_cut(store: MemoryStore) -> Act:
    _, last = cut(store)
    age(store)
    return lambda pool: pool.revert(last)


def merge_after_a_cut(store: MemoryStore) -> Act:
    pool, last = cut(store)
    pool.branch("b").revert(last)
    age(store)
    return lambda pool: pool.merge("b")


def rebase_after_a_cut(store: MemoryStore) -> Act:
    pool, last = cut(store)
    pool.branch("b").revert(last)
    age(store)
    return lambda pool: pool.branch("b").rebase("main")


def revert_of_what_was_picked(store: MemoryStore) -> Act:
    pool = sums(store)
    pool.load([{"k": 5, "v": 5}])
    pool.create_branch("b")
    branch = pool.branch("b")
    branch.load([{"k": 1, "v": 1}])
    branch.load([{"k": 1, "v": 2}])
    compact(pool, "b")
    (picked,) = [o for o in objects(pool, "b") if o.lineage is not None]
    pool.cherry_pick(branch.revert(branch.delete([to_text(picked.id)])))
    last = pool.load([{"k": 1, "v": 4}])
    compact(pool)
    age(store)
    return lambda pool: pool.revert(last)


def with_old_load(store: MemoryStore) -> tuple[PoolHandle, str]:
    """A pool, and an old load on another branch of it."""
    pool = LocalLake(create(store)).create("p", key="k", inline=0)
    pool.load([{"k": 1}])
    pool.create_branch("b")
    old = pool.branch("b").load([{"k": 2}])
    age(store)
    return pool, old


def branch_at_a_young_commit(store: MemoryStore) -> Act:
    """Its parent is old."""
    pool, _ = with_old_load(store)
    tip = pool.branch("b").load([{"k": 3}])
    pool.drop_branch("b")
    return lambda pool: pool.create_branch("c", tip)


def pick_of_a_young_commit(store: MemoryStore) -> Act:
    """What it brings is old."""
    pool, old = with_old_load(store)
    pool.create_branch("other")
    tip = pool.branch("other").cherry_pick(old)
    pool.drop_branch("b")
    pool.drop_branch("other")
    return lambda pool: pool.cherry_pick(tip)


MERGED, APART = ["{k:1,v:7}", "{k:9,v:0}"], ["{k:1,v:3}", "{k:9,v:0}"]
SCENES = {
    "revert after a cut": Scene(revert_after_a_cut, "main", MERGED, APART),
    "merge after a cut": Scene(merge_after_a_cut, "main", MERGED, APART),
    "rebase after a cut": Scene(rebase_after_a_cut, "b", APART, APART),
    "revert beside a branch that is dropped": Scene(
        revert_of_what_was_picked, "main", ["{k:1,v:7}", "{k:5,v:5}"], ["{k:1,v:3}", "{k:5,v:5}"], "b"
    ),
    "branch at a young commit": Scene(branch_at_a_young_commit, "c", [], ["{k:1}", "{k:2}", "{k:3}"]),
    "pick of a young commit": Scene(pick_of_a_young_commit, "main", ["{k:1}"], ["{k:1}", "{k:2}"]),
}


def pool_of(store: ObjectStore) -> PoolHandle:
    return LocalLake(open_lake(store)).pool("p")


def interleaved(inner: MemoryStore, one: Act, other: Act, at: int) -> bool:
    """Do one thing, and another at one of its calls to the store; whether there was such a call."""
    begun: list[int] = []

    def choose(number: int, name: str, key: str) -> None:
        if len(store.calls) > at and not begun:
            begun.append(number)
            other(pool_of(inner))

    store = FaultyStore(inner, choose)
    one(pool_of(store))
    return bool(begun)


def check(store: MemoryStore, scene: Scene, is_done: bool) -> None:
    pool = pool_of(store)
    branches = {ref.name for ref in pool.branches()}
    assert (scene.branch in branches) or not is_done
    for name in branches:
        records = sorted(map(format_value, pool.branch(name).query("yield this")))
        if name == scene.branch:
            assert records == (scene.after if is_done else scene.before)


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
@pytest.mark.parametrize("is_inside", [False, True], ids=["at each call of the vacuum", "the vacuum at each call"])
def test_what_is_brought_back_is_there_whatever_a_vacuum_does_meanwhile(scene: Scene, is_inside: bool) -> None:
    template = MemoryStore()
    act = scene.begin(template)
    outcomes: list[bool] = []

    def acting(pool: PoolHandle) -> None:
        try:
            act(pool)
            outcomes.append(True)
        except (Conflict, NotFound) as e:
            assert "is gone" in str(e) or "a vacuum has taken" in str(e)
            outcomes.append(False)

    def collect(pool: PoolHandle) -> None:
        if scene.drops:
            pool.drop_branch(scene.drops)
        vacuum.collect(stored(pool), GRACE, time.time())

    at, goes_on = 0, True
    while goes_on:
        store = MemoryStore()
        store._objects = dict(template._objects)
        outer, inner = (acting, collect) if is_inside else (collect, acting)
        goes_on = interleaved(store, outer, inner, at)
        if goes_on:
            check(store, scene, outcomes[-1])
        at += 1
    assert set(outcomes) == {False, True}
