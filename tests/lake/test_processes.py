"""Real processes that load into one branch of a lake in a directory, while they are killed and started again.

A worker tells of each commit in a file of its own. One that was killed repeats what it had not told of, with the same
id of the operation, and cannot know whether it was done. Run as a program, this file is the parent of the workers: it
forks them, so that a worker that is started again has nothing to import.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from shoal.ids import SIZE, Id, new, to_text
from shoal.lake import changes
from shoal.lake.branches import commit_set
from shoal.lake.commits import Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import create, open_lake
from shoal.lake.pool_config import PoolConfig
from shoal.lake.scans import scan
from shoal.model.values import Value, int64, record
from shoal.storage.local import LocalStore
from shoal.testing.tiers import IS_LONG

WORKERS, LOADS = (16, 5_000) if IS_LONG else (8, 250)
KILL_EVERY = 0.1
SEED = int(os.environ.get("SHOAL_SEED", "1"))


def operation(worker: int, number: int) -> Id:
    return Id(hashlib.sha256(b"%d %d" % (worker, number)).digest()[:SIZE])


def value(worker: int, number: int) -> Value:
    return record([("k", int64(number)), ("worker", int64(worker))])


# ---- the workers and their parent


def work(root: Path, worker: int, loads: int) -> None:
    """Do what is left to do, and tell of each load when it is acknowledged."""
    pool = open_lake(LocalStore(root / "lake")).pool("p")
    with told_by(root, worker).open("a+") as told:
        told.seek(0)
        for number in range(len(told.readlines()), loads):
            writer = pool.writer()
            writer.write(value(worker, number))
            note = Note(f"worker {worker}", f"{worker}-{number}")
            commit = pool.committer.commit(changes.load("main", writer.close(), note, operation(worker, number)))
            told.write(f"{to_text(commit)}\n")
            told.flush()


def told_by(root: Path, worker: int) -> Path:
    return root / f"told-{worker}"


def start(root: Path, worker: int, loads: int) -> int:
    """A new process for a worker; its id."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work(root, worker, loads)
            status = 0
        finally:
            os._exit(status)
    return pid


def supervise(root: Path, workers: int, loads: int, seed: int) -> dict[str, float]:
    """Let all workers come to their end, whatever happens to them on the way."""
    chance = random.Random(seed)
    # Once here, and not in every worker before it can begin; the first array imports pandas.
    import_module("shoal.lake.object_writer")
    import_module("pyarrow").array([0])
    began = time.monotonic()
    running = {start(root, worker, loads): worker for worker in range(workers)}
    kills = 0
    while running:
        time.sleep(KILL_EVERY)
        while (ended := os.waitpid(-1, os.WNOHANG) if running else (0, 0)) != (0, 0):
            worker = running.pop(ended[0])
            if ended[1] != 0:
                raise RuntimeError(f"worker {worker} ended with status {ended[1]}")
        if running:
            pid = chance.choice(sorted(running))
            os.kill(pid, signal.SIGKILL)
            worker = running.pop(pid)
            was_killed = os.waitpid(pid, 0)[1] != 0
            kills += was_killed
            if was_killed:
                running[start(root, worker, loads)] = worker
    return {"kills": kills, "seconds": time.monotonic() - began}


# ---- what must be true afterwards


def run(root: Path, limit: float) -> dict[str, float]:
    """The workers, in processes of their own, all of which are gone when this returns."""
    command = [sys.executable, __file__, str(root), str(WORKERS), str(LOADS), str(SEED)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        output, _ = parent.communicate(timeout=limit)
    finally:
        if parent.poll() != 0:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.wait()
    assert parent.returncode == 0
    return dict(json.loads(output))


@pytest.mark.timeout(7_200 if IS_LONG else 300)
def test_of_loads_by_processes_that_are_killed_none_is_lost_and_none_is_done_twice(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    create(store).create_pool(PoolConfig(new(), "p", parse_sort_key("k")))
    ran = run(tmp_path, 7_000 if IS_LONG else 240)
    total = WORKERS * LOADS
    print(f"{total} commits by {WORKERS} processes in {ran['seconds']:.1f} s, {total / ran['seconds']:.0f} a second,")
    print(f"with {ran['kills']:.0f} kills (SHOAL_SEED={SEED})")
    assert ran["kills"] > 10

    pool = open_lake(store).pool("p")
    entries = list(pool.journal.entries(after=1))
    names = sorted(path.name for path in (tmp_path / "lake" / pool.prefix / "branches").glob("*[0-9].zng"))
    assert names == [f"{n:020d}.zng" for n in range(1, total + 2)], "gaps, or too many slots"

    every = [(worker, number) for worker in range(WORKERS) for number in range(LOADS)]
    landed = {entry.op: commit_set(entry.changes, "main") for entry in entries}
    assert Counter(entry.op for entry in entries) == Counter(operation(*each) for each in every)
    told = [line for worker in range(WORKERS) for line in told_by(tmp_path, worker).read_text().split()]
    assert told == [to_text(landed[operation(*each)]) for each in every]

    tip = pool.refs().branch("main").commit
    chain = [commit.id for commit in pool.log(tip)]
    assert chain == [commit_set(entry.changes, "main") for entry in reversed(entries)]
    assert Counter(scan(pool, tip)) == Counter(value(*each) for each in every)


if __name__ == "__main__":
    print(json.dumps(supervise(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
