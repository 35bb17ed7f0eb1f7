"""Runs a storm: starts the workers, kills them at random, stops them, and calls the checker.

Workers are forked from this process, which has imported what they need and never opened a lake itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import duckdb  # noqa: F401 - so that no worker has to
import pyarrow as pa

from shoal.errors import AlreadyExists, OutcomeUnknown, StorageFailure
from shoal.ids import new, to_text
from shoal.lake.lake import create
from shoal.testing.moto_s3 import running_moto
from tools.storm.attempts import read_events
from tools.storm.bucket import copy_bucket
from tools.storm.check import check
from tools.storm.damage import Backdoor, BucketBackdoor, Damager, FileBackdoor
from tools.storm.reads import Reader
from tools.storm.work import WRECK, Plan, Worker, open_local, open_store

ROLES = {"writer-1": "writer", "writer-2": "writer", "brancher": "brancher", "keeper": "keeper", "reader": "reader"}
PERIOD = 100.0
KILL_EVERY = {"disk": 1.2, "s3": 2.5}
"""Seconds between kills, on average: a new process needs longer where requests take long."""
STOP_WITHIN = 180.0
"""Seconds that workers may take to notice the end."""
_BUCKET = "bucket"
_ATTEMPTS = 20
_R = TypeVar("_R")
_INLINE = (64 << 10, 0, 1 << 10)
"""Up to how many bytes of data are part of their commit, in one pool and the next."""


@dataclass
class Verdict:
    """What came of a storm."""

    store: str
    seed: int
    seconds: float
    violations: list[str]
    counts: Counter[str]
    faults: Counter[str]
    kills: int
    damages: int
    extra: dict[str, int] = field(default_factory=dict)

    def line(self) -> str:
        """The verdict in one line."""
        count = self.counts["violations"]
        word = f"VIOLATED {count} times" if count else "held"
        shown = ", ".join(f"{name} {n}" for name, n in sorted(self.counts.items()) if name != "violations")
        faults = self.faults["faults on writes"], self.faults["faults on reads"]
        return (
            f"storm on {self.store}, seed {self.seed}, {self.seconds:.0f} s: every promise {word}; {shown}; "
            f"faults {sum(faults)} ({faults[0]} on writes); kills {self.kills}; damages {self.damages}"
        )


def run_storm(store: str, seconds: float, seed: int, folder: Path, say: Callable[[str], None] = print) -> Verdict:
    """Run a storm over a new lake below a folder, and check the lake."""
    say(f"storm on {store}, seed {seed}, for {seconds:.0f} s in {folder}")
    (folder / "logs").mkdir()
    with _lake_place(store, seed, folder) as place:
        now = time.time()
        pools = max(1, int(seconds // PERIOD))
        plan = Plan(place.uri, folder, seed, now, now + seconds, pools, seconds / pools)
        _in_child(lambda: _set_up(plan))
        kills = _rage(plan, place.backdoor, say)
        _in_child(lambda: _settle(plan))
        place.fetch()
        faults = place.faults()
    logs = sorted((folder / "logs").glob("*.jsonl"))
    damage = [event for log in logs for event in read_events(log) if event["event"] == "damage"]
    report = check(folder / "lake", logs, frozenset(event["key"] for event in damage if event["stays"]))
    return Verdict(store, seed, seconds, report.violations, report.counts, faults, kills, len(damage))


# ---- where the lake is


@dataclass
class _Place:
    uri: str
    backdoor: Backdoor
    fetch: Callable[[], None] = lambda: None
    """Copies the lake to the folder."""
    faults: Callable[[], Counter[str]] = Counter


@contextlib.contextmanager
def _lake_place(store: str, seed: int, folder: Path) -> Iterator[_Place]:
    if store == "disk":
        yield _Place(str(folder / "lake"), FileBackdoor(folder / "lake"))
        return
    with running_moto(_BUCKET) as endpoint, _proxy(endpoint, seed, folder) as front:
        os.environ |= {
            "AWS_ENDPOINT_URL_S3": front,
            "AWS_ACCESS_KEY_ID": "storm",
            "AWS_SECRET_ACCESS_KEY": "storm",
            "AWS_REGION": "us-east-1",
        }
        backdoor = BucketBackdoor(endpoint, f"/{_BUCKET}/lake")
        counts = folder / "proxy.json"
        yield _Place(
            f"s3://{_BUCKET}/lake",
            backdoor,
            lambda: copy_bucket(endpoint, _BUCKET, "lake/", folder / "lake"),
            lambda: Counter(json.loads(counts.read_text())),
        )


@contextlib.contextmanager
def _proxy(endpoint: str, seed: int, folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tools.storm.proxy", endpoint, str(folder), str(seed), "1"]
    counts = folder / "proxy.json"
    with subprocess.Popen(command) as process:
        try:
            until = time.monotonic() + 60
            while not counts.exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("the proxy does not start")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{json.loads(counts.read_text())['port']}"
        finally:
            process.terminate()


# ---- processes


def _fork(body: Callable[[], None]) -> int:
    """A new process that runs a function; its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        body()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _in_child(body: Callable[[], None]) -> None:
    """Run a function in a process of its own."""
    if os.waitpid(_fork(body), 0)[1] != 0:
        raise RuntimeError("a part of the storm failed; see above")


def _set_up(plan: Plan) -> None:
    with contextlib.suppress(AlreadyExists):  # by an attempt of which the outcome was unknown
        _insist(lambda: create(open_store(plan.uri)))
    lake = _insist(lambda: open_local(plan.uri))
    pools = [(f"p{number}", ("k", "k:desc")[number % 2], _INLINE[number % 3]) for number in range(plan.pools)]
    for name, key, inline in (*pools, (WRECK, "k", 0)):
        op = to_text(new())
        _insist(lambda: lake.create(name, key=key, inline=inline, op=op))  # noqa: B023 - called at once


def _insist(act: Callable[[], _R]) -> _R:
    """What an operation that can be repeated returns, in spite of faults."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(OutcomeUnknown, StorageFailure):
            return act()
    raise RuntimeError(f"the storm does not begin after {_ATTEMPTS} attempts")


def _settle(plan: Plan) -> None:
    """After the storm every pool opens, takes a commit and can be read."""
    last = Reader(plan, "last", "writer", 99)
    for name in (*(f"p{number}" for number in range(plan.pools)), WRECK):
        pool = last.pool(name)
        if last.attempt(pool, "load", "main", {"load": last.next_load()}, gives_up=0) is None:
            last.log.write("broken", error=f"{name} takes no commit after the storm")
        for branch in pool.branches():
            last.read_tip(pool, branch.name)


class _Crew:
    """The workers that run."""

    def __init__(self, plan: Plan, backdoor: Backdoor) -> None:
        self._plan = plan
        self._bodies: dict[str, Callable[[], None]] = {
            name: lambda name=name, role=role, number=number: _worker(plan, name, role, number).run()  # type: ignore[misc]
            for number, (name, role) in enumerate(ROLES.items(), 1)
        }
        self._bodies["damager"] = lambda: Damager(plan, backdoor, len(ROLES) + 1).run()
        self.running: dict[int, str] = {}
        for name in self._bodies:
            self.start(name)

    def start(self, name: str) -> None:
        self.running[_fork(self._bodies[name])] = name

    def reap(self) -> None:
        """Notice workers that ended. None may end before the storm."""
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            name = self.running.pop(pid)
            if status != 0:
                raise RuntimeError(f"{name} ended with status {status}")

    def kill(self, chance: random.Random) -> None:
        """Kill a worker and start it again."""
        victims = sorted(pid for pid, name in self.running.items() if name != "damager")
        if victims:
            pid = chance.choice(victims)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.start(self.running.pop(pid))

    def end(self) -> None:
        """Kill all that are left."""
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _worker(plan: Plan, name: str, role: str, number: int) -> Worker:
    return (Reader if role == "reader" else Worker)(plan, name, role, number)


def _rage(plan: Plan, backdoor: Backdoor, say: Callable[[str], None]) -> int:
    """Let workers work until the end; the number of kills."""
    pa.array([0])  # imports what the first array imports
    chance = random.Random(plan.seed)
    crew = _Crew(plan, backdoor)
    kills = 0
    try:
        while not plan.is_over():
            time.sleep(chance.expovariate(1 / KILL_EVERY["disk" if plan.is_local else "s3"]))
            crew.reap()
            if not plan.is_over():
                crew.kill(chance)
                kills += 1
        until = time.monotonic() + STOP_WITHIN
        while crew.running and time.monotonic() < until:
            time.sleep(0.05)
            crew.reap()
        if crew.running:
            raise RuntimeError(f"{sorted(crew.running.values())} do not end")
    finally:
        crew.end()
    say(f"{kills} kills; checking")
    return kills
