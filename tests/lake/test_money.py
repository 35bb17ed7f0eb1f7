"""Real processes that move money between pools by transactions, while they are killed; and readers who add it up.

A writer tells of each transfer in a file of its own. One that was killed repeats what it had not told of, with the same
id, and cannot know whether it was done. The total of a branch over all pools never changes, for any reader, at any
time. On S3 all requests pass a proxy that fails at random. Run as a program, this file is the parent of all processes:
it forks them, so that one that is started again has nothing to import.
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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import pytest

import shoal
from shoal.errors import ShoalError
from shoal.ids import SIZE, Id, new
from shoal.lake import changes, pool_transactions, sessions
from shoal.lake.actions import patch_of
from shoal.lake.commits import Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import Lake, create_at, open_at
from shoal.lake.pending import PENDING
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.lake.scans import scan, scan_objects
from shoal.model.literals import format_time
from shoal.model.values import Value, int64, record
from shoal.testing.lake_checks import check_chain, check_journal
from shoal.testing.moto_s3 import running_moto
from shoal.testing.tiers import IS_LONG

WRITERS, READERS, POOLS, BRANCHES = 8, 2, 4, ("main", "dev")
SECONDS = 60.0 if IS_LONG else 6.0
KILL_EVERY = 0.4
UNTIL = 1.0
"""Seconds after which a transaction of a writer that has died may be aborted."""
START = 1000
SEED = int(os.environ.get("SHOAL_SEED", "1"))


def pool_name(number: int) -> str:
    return f"p{number}"


def operation(worker: int, number: int) -> Id:
    return Id(hashlib.sha256(b"%d %d" % (worker, number)).digest()[:SIZE])


def transfer(worker: int, number: int) -> tuple[tuple[int, int], str, int]:
    """From which pool to which, on which branch, and how much; one in four is a single commit, of nothing."""
    chance = random.Random(worker * 1_000_003 + number)
    giver, taker = chance.sample(range(POOLS), 2)
    return (giver, taker), chance.choice(BRANCHES), chance.randrange(100) if chance.random() < 0.75 else 0


# ---- the processes


def writes(pool: Pool, branch: str, key: int, amount: int) -> tuple[Pool, sessions.Session]:
    writer = pool.writer()
    writer.write(record([("k", int64(key)), ("n", int64(amount))]))
    return pool, sessions.stage(sessions.begin(pool, branch), patch_of(writer.close()))


def move(lake: Lake, worker: int, number: int) -> None:
    """One transfer, whole and once."""
    (giver, taker), branch, amount = transfer(worker, number)
    op, note, key = operation(worker, number), Note(f"writer {worker}", f"{worker}-{number}"), worker * 10**6 + number
    giving = writes(lake.pool(pool_name(giver)), branch, key, -amount)
    if not amount:
        giving[0].committer.commit(changes.load(branch, giving[1].staged.adds, note, op))
        return
    parts = [giving, writes(lake.pool(pool_name(taker)), branch, key, amount)]
    members = pool_transactions.participants_of(lake, parts, note)
    pool_transactions.commit(lake.decisions, op, members, note, UNTIL)


def write(uri: str, root: Path, worker: int) -> None:
    """Move money until the end, and tell of each transfer when it is acknowledged."""
    lake = open_at(uri)
    with (root / f"told-{worker}").open("a+") as told:
        told.seek(0)
        number = len(told.readlines())
        while not (root / "over").exists():
            began = time.monotonic()
            with suppress(ShoalError):  # unknown, or aborted too often: it is done again, under the same id
                move(lake, worker, number)
                told.write(f"{time.monotonic() - began}\n")
                told.flush()
                number += 1


def read(uri: str, root: Path, reader: int) -> None:
    """Add up all pools of a branch, now and in the past, again and again."""
    chance = random.Random(reader)
    began, lake = time.time_ns(), shoal.open(uri)
    with (root / f"read-{reader}").open("a") as told:
        while not (root / "over").exists():
            branch = chance.choice((*BRANCHES, format_time(chance.randrange(began, time.time_ns() + 1))))
            legs = " ".join(f"=> from {pool_name(number)}@{branch}" for number in range(POOLS))
            with suppress(ShoalError):
                (total,) = lake.query(f"fork ({legs}) | sum(n)").to_list()
                told.write(f"{total} {branch}\n")
                told.flush()


def start(act: Callable[[str, Path, int], None], uri: str, root: Path, number: int) -> int:
    """A new process; its id."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            act(uri, root, number)
            status = 0
        finally:
            os._exit(status)
    return pid


def supervise(uri: str, root: Path, seconds: float, seed: int) -> dict[str, float]:
    """Kill writers until the time is over, and let all processes come to their end."""
    chance = random.Random(seed)
    import_module("shoal.lake.object_writer")
    import_module("pyarrow").array([0])
    running = {start(write, uri, root, worker): worker for worker in range(WRITERS)}
    readers = [start(read, uri, root, reader) for reader in range(READERS)]
    began, kills = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        time.sleep(KILL_EVERY)
        pid = chance.choice(sorted(running))
        worker = running.pop(pid)
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL, f"writer {worker} ended by itself"
        kills += 1
        running[start(write, uri, root, worker)] = worker
    (root / "over").touch()
    for pid in (*running, *readers):
        assert os.waitpid(pid, 0)[1] == 0, "a process failed"
    return {"kills": kills}


# ---- what must be true


def set_up(uri: str) -> Lake:
    lake = create_at(uri)
    for number in range(POOLS):
        pool = lake.create_pool(PoolConfig(new(), pool_name(number), parse_sort_key("k")))
        (_, session) = writes(pool, "main", -1, START)
        first = pool.committer.commit(changes.load("main", session.staged.adds, Note("bank", "start")))
        pool.names.create_branch("dev", first)
    return lake


def run(uri: str, root: Path, limit: float) -> dict[str, float]:
    """The processes, all of which are gone when this returns."""
    command = [sys.executable, __file__, uri, str(root), str(SECONDS), str(SEED)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        output, _ = parent.communicate(timeout=limit)
    finally:
        if parent.poll() != 0:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
            parent.wait()
    assert parent.returncode == 0
    return dict(json.loads(output))


def check(uri: str, root: Path) -> Counter[str]:
    """Nothing is lost, doubled or half done; every reader has seen the same total."""
    lake = open_at(uri)
    told = {worker: (root / f"told-{worker}").read_text().split() for worker in range(WRITERS)}
    expected: dict[tuple[int, str], Counter[tuple[int, int]]] = defaultdict(Counter)
    for worker, lines in told.items():
        for number in range(len(lines)):
            (giver, taker), branch, amount = transfer(worker, number)
            key = worker * 10**6 + number
            expected[giver, branch][key, -amount] += 1
            if amount:
                expected[taker, branch][key, amount] += 1
    pools = [lake.pool(pool_name(number)) for number in range(POOLS)]
    # The last transfer of a writer may have been done and not told of, when it met the end.
    unknown = {worker * 10**6 + len(lines) for worker, lines in told.items()}
    for number, pool in enumerate(pools):
        pool.journal.settle()
        assert PENDING not in pool.journal.read().entries
        check_journal(pool.store, f"{pool.prefix}/branches")
        for branch in BRANCHES:
            check_chain(pool, pool.resolve(branch))
            there = Counter((value.data[0], value.data[1]) for value in scan(pool, pool.resolve(branch)))
            assert there.pop((-1, START)) == 1
            left = Counter({each: count for each, count in there.items() if each[0] not in unknown})
            assert left == expected[number, branch]
    counts = Counter(transfers=sum(map(len, told.values())), decisions=sum(1 for _ in lake.decisions.all()))
    for branch in BRANCHES:
        assert sum(value.data[1] for pool in pools for value in scan(pool, pool.resolve(branch))) == POOLS * START
    counts["moments"] = check_the_past(pools)
    reads = [line for reader in range(READERS) for line in (root / f"read-{reader}").read_text().splitlines()]
    assert {line.split()[0] for line in reads} == {str(POOLS * START)}
    counts["reads"] = len(reads)
    counts["longest, in ms"] = int(1000 * max(float(line) for lines in told.values() for line in lines))
    return counts


def check_the_past(pools: list[Pool]) -> int:
    """At each of many moments the pools have the same total; how many moments."""
    sums: list[dict[Id, int]] = []
    for pool in pools:
        sums.append({})
        total = 0
        for commit in reversed(list(pool.log(pool.resolve("main")))):
            total += sum(value.data[1] for value in added(pool, commit.id))
            sums[-1][commit.id] = total
    entries = sorted(entry.at for pool in pools for entry in pool.journal.entries())
    began = max(pool.journal.entry(3).at for pool in pools)
    chance = random.Random(SEED)
    moments = [at for at in entries if at > began]
    picked = chance.sample(moments, min(len(moments), 300))
    for moment in (*picked, *(at - 1 for at in picked), *(at + 1 for at in picked)):
        tips = [pool.resolve(format_time(moment)) for pool in pools]
        assert sum(sums[number][tip] for number, tip in enumerate(tips) if tip) == POOLS * START
    return 3 * len(picked)


def added(pool: Pool, commit: Id) -> Iterator[Value]:
    return scan_objects(pool, pool.commits.read(commit).adds)


@contextmanager
def failing_proxy(endpoint: str, root: Path) -> Iterator[str]:
    """A proxy before an S3 server, which fails at random; its endpoint."""
    command = [sys.executable, "-m", "tools.storm.proxy", endpoint, str(root), str(SEED), "1.0"]
    with subprocess.Popen(command) as proxy:
        try:
            yield f"http://127.0.0.1:{wait_for_port(root / 'proxy.json')}"
        finally:
            proxy.terminate()


def wait_for_port(path: Path) -> int:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(FileNotFoundError, ValueError):
            return int(json.loads(path.read_text())["port"])
        time.sleep(0.05)
    raise AssertionError("the proxy does not start")


def judge(counts: Counter[str], ran: dict[str, float], patience: float) -> None:
    print(f"{dict(counts)} with {ran['kills']:.0f} kills in {SECONDS:.0f} s (SHOAL_SEED={SEED})")
    assert ran["kills"] > 5
    assert counts["transfers"] > SECONDS
    assert counts["reads"] > 1
    # Who meets entries of several writers that died waits for each of them, up to `until`.
    assert counts["longest, in ms"] < 1000 * (UNTIL * 3 + patience)


@pytest.mark.timeout(1_200 if IS_LONG else 300)
def test_the_total_never_changes_whoever_is_killed(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    set_up(uri)
    ran = run(uri, tmp_path, SECONDS + 200)
    judge(check(uri, tmp_path), ran, 5)


@pytest.mark.timeout(1_200 if IS_LONG else 300)
def test_the_total_never_changes_on_a_bucket_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    uri = "s3://bucket/lake"
    with running_moto() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        set_up(uri)
        with failing_proxy(endpoint, tmp_path) as failing:
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", failing)
            ran = run(uri, tmp_path, SECONDS + 400)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        print((tmp_path / "proxy.json").read_text())
        judge(check(uri, tmp_path), ran, 60)


if __name__ == "__main__":
    print(json.dumps(supervise(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))))
