"""One handle of a lake, used by many threads at once, as a service does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from shoal.api.pool import Pool as PoolHandle
from shoal.errors import AlreadyExists, Conflict
from shoal.local.lake import LocalLake, create_local, open_local, stored
from shoal.model import types as t
from shoal.testing.lake_checks import check_chain, check_journal

THREADS, ROUNDS = 16, 6


class Worker:
    """Does this and that; what it has loaded and not deleted is what it expects to find."""

    def __init__(self, lake: LocalLake, number: int) -> None:
        self._lake = lake
        self._random = Random(number)
        self._number = number
        self._next = 0
        self.kept: set[int] = set()
        self.commits = Counter[str]()
        self.refused = Counter[str]()

    def work(self) -> None:
        acts: list[Callable[[PoolHandle], None]] = [self.load, self.ask, self.delete, self.branch, self.ask_sql]
        for _ in range(ROUNDS):
            self._random.shuffle(acts)
            for act in acts:
                try:
                    act(self._lake.pool("logs"))
                except Conflict as e:  # somebody else has rewritten the same objects
                    self.refused[str(e).partition(":")[0]] += 1

    def load(self, pool: PoolHandle) -> None:
        keys = [self._number * 10_000 + self._next + i for i in range(3)]
        self._next += 3
        self.commits[pool.load([{"k": k, "w": self._number, f"own{self._number}": k} for k in keys])] += 1
        self.kept.update(keys)

    def ask(self, pool: PoolHandle) -> None:
        engine = self._random.choice(("interp", "duckdb"))
        found = self._lake.query(f"from logs | w=={self._number} | yield k", engine=engine).to_list()
        assert sorted(found) == sorted(self.kept), engine

    def ask_sql(self, pool: PoolHandle) -> None:
        (found,) = self._lake.sql(f"select count(*) as n from logs where w = {self._number}", engine="duckdb").to_list()
        assert found == {"n": len(self.kept)}

    def delete(self, pool: PoolHandle) -> None:
        if self.kept:
            gone = min(self.kept)
            self.commits[pool.delete(where=f"k=={gone} and w=={self._number}")] += 1
            self.kept.discard(gone)

    def branch(self, pool: PoolHandle) -> None:
        name = f"side-{self._number}-{self._next}"
        pool.create_branch(name)
        key = self._number * 10_000 + 5_000 + self._next
        pool.branch(name).load([{"k": key, "w": self._number}])
        self.commits[pool.merge(name)] += 1
        self.kept.add(key)
        pool.drop_branch(name)
        self._next += 1


@pytest.mark.timeout(280)
def test_threads_that_share_a_handle_lose_nothing_and_see_what_they_did(tmp_path: Path) -> None:
    lake = create_local(str(tmp_path / "lake"))
    lake.create("logs", key="k")
    lake.pool("logs").load([{"k": -1, "w": -1}])
    workers = [Worker(lake, i) for i in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(worker.work) for worker in workers]:
            done.result()
    pool = open_local(lake.uri).pool("logs")
    log = [commit.id for commit in pool.log()]
    told = sum((worker.commits for worker in workers), Counter[str]())
    assert max(told.values()) == 1
    assert set(told) | {log[-1]} == set(log)
    found = open_local(lake.uri).query("from logs | w>=0 | yield k", engine="interp").to_list()
    assert sorted(found) == sorted(k for worker in workers for k in worker.kept)
    assert [branch.name for branch in pool.branches()] == ["main"]
    check_chain(stored(pool), stored(pool).resolve("main"))
    check_journal(stored(pool).store, f"{pool.id}/branches")


def test_threads_that_make_pools_make_each_once(tmp_path: Path) -> None:
    lake = create_local(str(tmp_path / "lake"))
    barrier = threading.Barrier(THREADS)

    def act(i: int) -> str | None:
        barrier.wait()
        try:
            made = lake.create(f"pool {i // 2}", key="k")
        except AlreadyExists:
            return None
        made.load([{"k": i}])
        return made.id

    with ThreadPoolExecutor(THREADS) as threads:
        made = [ident for ident in threads.map(act, range(THREADS)) if ident is not None]
    assert len(made) == THREADS // 2
    assert {info.id for info in lake.pools()} == set(made)
    assert all(stored(lake.pool(ident)) is stored(lake.pool(ident)) for ident in made)


def test_a_type_that_many_threads_make_at_once_is_one() -> None:
    barrier = threading.Barrier(THREADS)

    def act(i: int) -> list[t.Type]:
        barrier.wait()
        return [t.array(t.record([(f"field{n}", t.INT64), ("x", t.STRING)])) for n in range(2000)]

    with ThreadPoolExecutor(THREADS) as threads:
        first, *others = threads.map(act, range(THREADS))
    assert all(a is b for other in others for a, b in zip(first, other, strict=True))
