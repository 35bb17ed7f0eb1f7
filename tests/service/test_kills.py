"""A service that is killed at any moment, while clients load: nothing is lost, doubled or half there.

Each load has rows of its own, a key, and a message by which its commit is known again. It is repeated with its key
until it is acknowledged; a few are given up instead, and may have happened or not. `SHOAL_SEED=n` chooses when the
service is killed and who gives up; what threads have come to by then is chance in any case.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import shoal
from shoal.api.pool import Pool
from shoal.client import service
from shoal.errors import NotFound, OutcomeUnknown, StorageFailure
from shoal.ids import new, parse, to_text
from shoal.testing.ports import lasting_port
from shoal.testing.services import serving

SEED = int(os.environ.get("SHOAL_SEED", "20"))
THREADS = 2
"""Of each kind of client."""
STEP = 1000
"""Rows have numbers: those of one load begin at a multiple of this."""
PATIENCE = 60.0
LARGE = 1 << 20
"""Beyond this a body is read while it comes."""


@dataclass(eq=False)
class Work:
    """Something that is to be one commit."""

    number: int
    rows: int
    text: int
    """Letters in each row."""
    is_given_up: bool
    """Whether it is not tried again if something goes wrong."""
    key: str = field(default_factory=lambda: to_text(new()))
    commit: str | None = None
    """As it was acknowledged."""
    client: str = ""
    """The kind of client that did it."""

    def ids(self) -> range:
        return range(self.number * STEP, self.number * STEP + self.rows)

    def rows_of(self, rows: Counter[int]) -> list[int]:
        """How often each row of this load is there."""
        return [rows[each] for each in self.ids()]

    def body(self, ids: range) -> bytes:
        text = "x" * self.text
        return b"".join(json.dumps({"id": each, "text": text}).encode() + b"\n" for each in ids)

    def parts(self) -> list[bytes]:
        """The body in three parts, none of them empty."""
        cut = max(1, self.rows // 3)
        ids = self.ids()
        return [self.body(ids[:cut]), self.body(ids[cut : 2 * cut]), self.body(ids[2 * cut :])]


class Desk:
    """Hands out work, until it is closed, and keeps what became of it."""

    def __init__(self, chance: random.Random) -> None:
        self.all: list[Work] = []
        self.is_open = True
        self.acknowledged = 0
        self.failures: list[str] = []
        self._chance = chance
        self._lock = threading.Lock()

    def take(self) -> Iterator[Work]:
        while self.is_open and not self.failures:
            with self._lock:
                is_large = self._chance.random() < 0.05
                rows = 600 if is_large else self._chance.randint(3, 20)
                text = 1 + LARGE // 500 if is_large else 10
                made = Work(len(self.all), rows, text, self._chance.random() < 0.2)
                self.all.append(made)
            yield made

    def wait_for(self, acknowledged: int, seconds: float) -> None:
        """Wait until so many more loads were acknowledged, and then for some time."""
        before = self.acknowledged
        until = time.monotonic() + PATIENCE
        while self.acknowledged < before + acknowledged and not self.failures:
            assert time.monotonic() < until
            time.sleep(0.001)
        time.sleep(seconds)


Attempt = Callable[[Work], str]
"""Tries to do some work; the commit. One of `LOST` if it is not known how that ended."""
LOST = (StorageFailure, OutcomeUnknown, OSError, http.client.HTTPException)


def by_client(pool: Pool) -> Attempt:
    return lambda work: pool.load(work.body(work.ids()), message=work.key, op=work.key)


def by_hand(url: str) -> Attempt:
    """One request of HTTP on a connection of its own."""
    place = urlsplit(url)

    def attempt(work: Work) -> str:
        headers = {"Idempotency-Key": work.key, "Accept": "application/json"}
        headers["Zed-Commit"] = json.dumps({"body": work.key})
        wire = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=PATIENCE)
        try:
            wire.request("POST", "/pool/logs/branch/main", work.body(work.ids()), headers)
            answer = wire.getresponse()
            told = json.loads(answer.read())
        finally:
            wire.close()
        if answer.status == 503:
            raise StorageFailure(told["error"])
        assert answer.status == 200, told
        return to_text(parse(told["commit"]))

    return attempt


def by_files(pool: Pool) -> Attempt:
    """Several bodies, which the client stages in a transaction under the key of the load."""

    def attempt(work: Work) -> str:
        with forgotten_is_lost():
            return pool.load(work.parts(), message=work.key, op=work.key)

    return attempt


def by_transaction(pool: Pool) -> Attempt:
    """A transaction, another one each time: one that was interrupted and not committed leaves nothing."""

    def attempt(work: Work) -> str:
        commit: str | None = None
        try:
            with forgotten_is_lost(), pool.transaction() as tx:
                for part in work.parts():
                    tx.load(part)
                try:
                    commit = tx.commit(message=work.key)
                except (*LOST, NotFound):
                    commit = until_answered(lambda: pool.done(tx.id))
                    if commit is None:
                        raise
        except LOST:  # also if a transaction whose commit is known could not be ended
            if commit is None:
                raise
        assert commit is not None
        return commit

    return attempt


@contextmanager
def forgotten_is_lost() -> Iterator[None]:
    """A transaction ends with the service that kept it: that is as if the connection were lost."""
    try:
        yield
    except NotFound as e:
        assert "the service was restarted" in str(e)
        raise StorageFailure(str(e)) from None


def until_answered(ask: Callable[[], str | None]) -> str | None:
    while True:
        try:
            return ask()
        except LOST:
            time.sleep(0.05)


def work_at(desk: Desk, attempt: Attempt) -> None:
    """Take work and do it; what goes wrong in another way than by the death of the service ends the test."""
    try:
        for work in desk.take():
            work.client = attempt.__qualname__
            while work.commit is None and not desk.failures:
                try:
                    work.commit = attempt(work)
                    desk.acknowledged += 1
                except LOST:
                    if work.is_given_up:
                        break
                    time.sleep(0.05)
    except BaseException:
        desk.failures.append(traceback.format_exc())


class Witness:
    """Looks at the lake while no service runs: it opens, and its history has only grown."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.history: list[str] = []
        """Ids of commits, the oldest first."""
        self._counts: dict[str, int] = {}
        """How many rows some commits had when they were the last."""

    def look(self) -> None:
        pool = shoal.open(str(self._lake)).pool("logs")
        found = [commit.id for commit in pool.log()][::-1]
        assert found[: len(self.history)] == self.history
        self.history = found
        if found:
            self._counts[found[-1]] = self._count(found[-1])

    def look_back(self) -> None:
        """What a commit had, it has."""
        assert {commit: self._count(commit) for commit in self._counts} == self._counts

    def _count(self, commit: str) -> int:
        (found,) = shoal.open(str(self._lake)).query(f"from logs@{commit} | count()").to_list()
        return int(found)


@pytest.mark.parametrize("kills", [20, pytest.param(300, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_service_that_is_killed_loses_nothing_and_does_nothing_twice(
    kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_FIRST_PAUSE", 0.01)
    chance = random.Random(SEED)
    lake = tmp_path / "lake"
    shoal.create(str(lake)).create("logs", key="id")
    desk, witness = Desk(random.Random(chance.random())), Witness(lake)
    flags = ["-l", f"localhost:{lasting_port()}", "-log.level", "warn"]
    threads: list[threading.Thread] = []
    for _ in range(kills):
        with serving(lake, tmp_path, flags) as served:
            threads = threads or begin(desk, served.url)
            desk.wait_for(chance.choice([0, 1, 3, 10]), chance.uniform(0, 0.3))
            served.process.kill()
            served.process.wait()
            assert not desk.failures, served.lines()
            witness.look()
    desk.is_open = False
    with serving(lake, tmp_path, flags) as served:
        for thread in threads:
            thread.join(PATIENCE)
        assert not desk.failures, served.lines()
        assert not any(thread.is_alive() for thread in threads)
        shoal.open(served.url).pool("logs").load([{"id": -1}])
    witness.look()
    witness.look_back()
    print(f"{desk.acknowledged} loads acknowledged of {len(desk.all)}, {kills} kills (SHOAL_SEED={SEED})")
    assert desk.acknowledged > 2 * kills
    check(lake, desk.all, witness.history)


def begin(desk: Desk, url: str) -> list[threading.Thread]:
    """Clients of each kind."""
    attempts = [
        make
        for _ in range(THREADS)
        for pool in [shoal.open(url).pool("logs")]
        for make in (by_client(pool), by_hand(url), by_files(pool), by_transaction(pool))
    ]
    threads = [threading.Thread(target=work_at, args=(desk, attempt), daemon=True) for attempt in attempts]
    for thread in threads:
        thread.start()
    return threads


def check(lake: Path, all_work: list[Work], history: list[str]) -> None:
    """Each load that was acknowledged is one commit with all its rows, any other one commit or none."""
    direct = shoal.open(str(lake))
    commits = {commit.id: commit.message for commit in direct.pool("logs").log()}
    made = Counter(commits.values())
    rows = Counter(direct.query("from logs | yield id").to_list())
    assert rows.pop(-1) == 1
    assert len(history) == len(commits) == len(set(history))
    doubled = {number // STEP for number, count in rows.items() if count > 1}
    assert not doubled, [(work, work.rows_of(rows), made[work.key]) for work in all_work if work.number in doubled]
    for work in all_work:
        assert made[work.key] in ((1,) if work.commit else (0, 1)), work
        assert work.commit is None or commits[work.commit] == work.key, work
        there = sum(each in rows for each in work.ids())
        assert there == (work.rows if made[work.key] else 0), work
    assert len(rows) == sum(work.rows for work in all_work if made[work.key])
    assert len(commits) == 1 + sum(made[work.key] for work in all_work)
