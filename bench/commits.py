"""The lake: commits per second with one and with eight processes, and the cost of opening a branch as history grows."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

import shoal
from shoal.ids import new
from shoal.lake import changes, lake
from shoal.lake.commits import Note
from shoal.lake.keys import SortKey
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.local.lake import LocalLake
from shoal.model.values import Value, int64, record
from shoal.storage import local
from shoal.storage.local import LocalStore

HISTORY = (10, 1_000, 20_000, 100_000)
PROCESSES = (1, 8)
COMMITS = 800
ROUNDS = 9


class Rate(NamedTuple):
    """Commits of some processes on one branch."""

    processes: int
    commits: int
    seconds: float
    lost: int


class Opening(NamedTuple):
    """A branch with a long history: milliseconds to open it and read its first record, and to create a branch."""

    commits: int
    head: float
    branch: float


def rates() -> list[Rate]:
    """Durable commits of one record each to one branch of a local lake: the best of three runs, the losses of all."""
    runs = [[_rate(processes, COMMITS // processes) for _ in range(3)] for processes in PROCESSES]
    lost = [sum(rate.lost for rate in same) for same in runs]
    return [min(same, key=lambda rate: rate.seconds)._replace(lost=n) for same, n in zip(runs, lost, strict=True)]


def _rate(processes: int, each: int) -> Rate:
    with tempfile.TemporaryDirectory() as folder:
        shoal.create(folder).create("logs", key="ts")
        # New processes, like real writers: they share only the directory.
        context = multiprocessing.get_context("spawn")
        ready, go = context.Barrier(processes + 1), context.Barrier(processes + 1)
        workers = [context.Process(target=_work, args=(folder, i, each, ready, go)) for i in range(processes)]
        for worker in workers:
            worker.start()
        ready.wait()
        begin = time.perf_counter()
        go.wait()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - begin
        committed = sum(1 for _ in shoal.open(folder).pool("logs").log())
        return Rate(processes, processes * each, seconds, processes * each - committed)


def _work(folder: str, number: int, each: int, ready: Barrier, go: Barrier) -> None:
    pool = lake.open_lake(LocalStore(folder)).pool("logs")
    warm = pool.writer()  # loads the libraries, which is not part of a commit
    warm.write(_value(0))
    warm.close()
    ready.wait()
    go.wait()
    for i in range(each):
        _load(pool, number * each + i)


def _load(pool: Pool, ts: int) -> None:
    writer = pool.writer()
    writer.write(_value(ts))
    pool.committer.commit(changes.load("main", writer.close(), Note("bench", "one record")))


def _value(ts: int) -> Value:
    return record([("ts", int64(ts)), ("message", Value(int64(0).type, ts))])


def openings() -> list[Opening]:
    """One lake whose branch grows; each time, a new handle opens it."""
    out: list[Opening] = []
    with tempfile.TemporaryDirectory() as folder:
        pool = lake.create(LocalStore(folder)).create_pool(PoolConfig(new(), "logs", SortKey((("ts",),))))
        count = 0
        for commits in HISTORY:
            with _unsynced():
                while count < commits:
                    _load(pool, count)
                    count += 1
            out.append(_opening(folder, commits))
    return out


def _opening(folder: str, commits: int) -> Opening:
    def head() -> None:
        values = shoal.open(folder).query("from logs | head 1").to_list()
        assert values[0]["ts"] == 0

    handle = LocalLake(lake.open_lake(LocalStore(folder))).pool("logs")
    names = iter(range(10**9))

    def branch() -> None:
        handle.create_branch(f"b{commits}-{next(names)}")

    return Opening(commits, _median(head), _median(branch))


def _median(task: Callable[[], None]) -> float:
    """The median in milliseconds of some rounds after a first one."""
    times = []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        task()
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times[1:])


@contextmanager
def _unsynced() -> Iterator[None]:
    """Let the store skip its syncs, so that a history of 100,000 commits is created in minutes."""
    fsync = os.fsync
    local.os.fsync = lambda file: None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        local.os.fsync = fsync  # type: ignore[attr-defined]


def cold_command() -> float:
    """Seconds of a whole `shoal ls` on a lake with a few pools; the best of some rounds."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        small = shoal.create(folder)
        for i in range(5):
            small.create(f"pool{i}")
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            command = [sys.executable, "-m", "shoal", "ls", "-lake", folder]
            subprocess.run(command, check=True, capture_output=True)
            times.append(time.perf_counter() - begin)
    return min(times)
