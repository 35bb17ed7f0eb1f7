"""Each round is one commit, whoever runs it, wherever it is stopped, and however many pools it goes into."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import shoal
from shoal.api.lake import Lake
from shoal.connect.etl import Etl
from shoal.connect.kafka.events import Event
from shoal.errors import Conflict, OutcomeUnknown, StorageFailure
from shoal.testing.etl_scenes import EXPIRE, WHOLE, Scene, finish
from shoal.testing.scripts import call_shoal
from shoal.testing.services import Served
from shoal.testing.tiers import IS_LONG

KILLS, RECORDS = (40, 4000) if IS_LONG else (5, 400)
OTHERS = {"in": "C", "zed": "yield value", "out": "copies", "pool": "other"}
SEVERAL = [OTHERS, {**WHOLE, "where": "has(value.txn)"}]


def records(count: int, seed: int = 1) -> list[tuple[str, Any]]:
    """Transactions of one to four records that overlap, some of which are never complete or late; and others."""
    dice, rows, open_ = random.Random(seed), list[tuple[str, Any]](), dict[int, int]()
    for n in range(count):
        if dice.random() < 0.3:
            rows.append(("C", {"n": n}))
            continue
        txn = dice.randrange(n // 10, n // 10 + 8)
        open_[txn] = open_.get(txn, 0) + 1
        rows.append(("A", {"txn": txn, "done": open_[txn] == 1 + txn % 4}))
    return rows


def contents(lake: Lake) -> dict[str, list[str]]:
    """What the pools have, apart from how it was cut into commits."""
    return {
        pool: lake.query(f"from {pool} | has(kafka.offset) | sort kafka.topic,kafka.offset,seqno")
        .to_zson()
        .splitlines()
        for pool in ("staging", "other", "expired")
    }


# ---- several pools


def test_what_goes_into_several_pools_is_there_at_one_moment(scene: Scene) -> None:
    scene.add(("C", {"n": 1}), ("A", {"txn": 1, "done": True}), ("A", {"txn": 1, "done": True}))
    done = finish(scene.etl(*SEVERAL, expire=EXPIRE))
    assert done is not None
    tips = [next(iter(scene.lake.pool(name).log(limit=1))) for name in ("staging", "other", "expired")]
    assert len({commit.transaction for commit in tips}) == 1
    assert tips[0].transaction is not None
    assert tips[0].id == done.commit
    assert [len(list(scene.lake.pool(name).log())) for name in ("staging", "other", "expired")] == [1, 1, 1]
    assert scene.rows('nameof(this)=="cursor"', "other") == ["{seqno:3}(=cursor)"]


def test_a_round_into_one_pool_is_no_transaction_over_several(scene: Scene) -> None:
    scene.add(("A", {"txn": 1, "done": True}))
    assert finish(scene.etl(*SEVERAL, expire=EXPIRE))
    assert next(iter(scene.lake.pool("staging").log())).transaction is None
    assert scene.lake.pool("other").resolve() is None


def test_branches_may_be_read_and_written(scene: Scene) -> None:
    scene.add(("A", {"txn": 1, "done": False}))
    scene.raw.create_branch("dev")
    scene.lake.pool("staging").create_branch("dev")
    scene.add(("A", {"txn": 1, "done": True}))
    scene.lake.query('yield {seqno:2,kafka:{topic:"A"},value:{txn:1,done:true,on:"dev"}}')
    scene.raw.branch("dev").load([{"seqno": 2, "kafka": {"topic": "A"}, "value": {"txn": 1, "done": True}}])
    assert finish(scene.etl(WHOLE, input="raw@dev", output="staging@dev"))
    assert scene.lake.query("from staging@dev | has(kafka.offset) | count()").to_list() == [1]
    assert scene.rows("pass") == []


# ---- what is in the commits


def test_metadata_says_how_far_a_job_is(scene: Scene) -> None:
    scene.add(("A", {"txn": 1, "done": False}), ("A", {"txn": 2, "done": True}), at=100)
    assert finish(scene.etl(WHOLE, expire=EXPIRE, name="orders"))
    (commit,) = scene.lake.pool("staging").log()
    assert repr(commit.meta) == (
        '{etl:{name:"orders",cursor:1,read:2,time:1970-01-01T00:01:39.6Z,'
        'topics:[{pool:"staging@main",topic:"whole",next:2}]}}'
    )
    assert commit.message == "transformed 2 records up to 2"


def test_a_job_goes_on_without_metadata(scene: Scene) -> None:
    """History before the last commit was cut off, and that commit is of somebody else."""
    config = scene.config(*SEVERAL, expire={"after": "10m", "records": 4, "pool": "expired"})
    rows = records(40)
    for n in range(0, 40, 5):
        scene.add(*rows[n : n + 5], at=1000 + n)
        assert finish(Etl(scene.lake, config))
        for name in ("staging", "other"):
            pool = scene.lake.pool(name)
            pool.vacate(pool.load([{"seqno": 0, "by": "hand"}]))
    plain = Scene(shoal.create("memory://etl-plain"))
    for n in range(0, 40, 5):
        plain.add(*rows[n : n + 5], at=1000 + n)
    assert finish(Etl(plain.lake, config))
    assert contents(scene.lake) == contents(plain.lake)


def test_jobs_of_other_names_may_share_a_pool(scene: Scene) -> None:
    rows = records(60)
    for n in range(0, 60, 7):
        scene.add(*rows[n : n + 7])
        for name in ("etl", "second"):
            job = scene.etl({**WHOLE, "where": "has(value.txn)", "out": name}, name=name, expire=EXPIRE)
            assert finish(job)
    assert scene.values(topic="etl") == scene.values(topic="second") != []


def test_a_job_on_pools_with_data_within_commits(scene: Scene) -> None:
    for name in ("small-raw", "small"):
        scene.lake.create(name, key="seqno:asc" if name == "small-raw" else "seqno:desc", inline=65536)
    etl = scene.etl(WHOLE, input="small-raw", output="small")
    for n in range(80):
        row = {"seqno": n + 1, "kafka": {"topic": "A"}, "value": {"txn": n, "done": n > 0}}
        scene.lake.pool("small-raw").load([row])
        etl.round()
    assert len(scene.values("small")) == 79
    assert any(commit.is_maintenance for commit in scene.lake.pool("small").log())


# ---- races


def test_of_two_processes_one_does_the_work(scene: Scene) -> None:
    scene.add(("A", {"txn": 1, "done": True}), ("A", {"txn": 2, "done": False}))
    one, other = scene.etl(*SEVERAL), scene.etl(*SEVERAL)
    assert finish(one)
    assert other.round() is None
    scene.add(("A", {"txn": 2, "done": True}))
    assert finish(other)
    assert one.round() is None  # it has read the records itself, and finds them done
    assert scene.values() == [{"txn": 1, "seqno": 1, "n": 1}, {"txn": 2, "seqno": 3, "n": 2}]


def test_of_two_processes_that_expire_records_one_does_the_work(scene: Scene) -> None:
    """What the commit says is done, is all before the record that the other one has read last."""
    scene.add(("A", {"txn": 1, "done": False}), ("A", {"txn": 9, "done": True}))
    one, other = (scene.etl(WHOLE, expire={"records": 2, "pool": "expired"}) for _ in range(2))
    assert finish(one)
    assert other.round() is None
    scene.add(("A", {"txn": 2, "done": False}), ("A", {"txn": 3, "done": False}))
    done = finish(one)
    assert done is not None
    assert (done.cursor, done.pending) == (3, 2)
    other.round()
    assert scene.rows("yield {seqno,reason}", "expired") == ['{seqno:1,reason:"records"}']


@pytest.mark.parametrize("transforms", [[WHOLE], SEVERAL], ids=["one pool", "several pools"])
def test_another_commit_between_reading_and_committing_is_a_conflict(
    scene: Scene, transforms: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have found no other commit; the second one to commit loses."""
    scene.add(("C", {"n": 1, "txn": 9, "done": True}), ("A", {"txn": 1, "done": True}))
    one, other = scene.etl(*transforms), scene.etl(*transforms)
    conflicts: list[Conflict] = []
    stage = one._staging._stage

    def staged(*args: Any) -> None:
        stage(*args)
        if not conflicts:
            assert other.round() is not None
            conflicts.append(Conflict("the other one was first"))

    monkeypatch.setattr(one._staging, "_stage", staged)
    assert one.round() is None
    assert conflicts
    assert len(list(scene.lake.pool("staging").log())) == 1


@pytest.mark.parametrize("transforms", [[{**WHOLE, "where": "has(value.txn)"}], SEVERAL], ids=["one pool", "several"])
def test_racing_processes_give_what_one_gives(transforms: list[dict[str, Any]]) -> None:
    scene, plain = (Scene(shoal.create(f"memory://etl-race-{len(transforms)}-{n}")) for n in range(2))
    config = scene.config(*transforms, expire=EXPIRE, batch={"records": 10})
    rows, failures, is_loaded = records(120), list[BaseException](), threading.Event()
    commits: list[str] = []

    def run() -> None:
        job = Etl(scene.lake, config, lambda event: commits.append(str(event.facts["commit"])))
        try:
            while True:
                is_last = is_loaded.is_set()
                if finish(job) is None and is_last:
                    return
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(0, len(rows), 15):
        scene.add(*rows[n : n + 15])
        plain.add(*rows[n : n + 15])
    is_loaded.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(commits) == len(set(commits))
    assert finish(Etl(plain.lake, config))
    assert contents(scene.lake) == contents(plain.lake)


# ---- failures


class Failing:
    """Fails at some commits: before they are made, or after that."""

    def __init__(self, commit: Callable[..., str], fails: list[str]) -> None:
        self._commit, self._fails = commit, fails

    def __call__(self, *args: Any) -> str:
        how = self._fails.pop() if self._fails else ""
        if how == "before":
            raise StorageFailure("the store is away")
        commit = self._commit(*args)
        if how == "after":
            raise OutcomeUnknown("the answer was lost", commit=commit)
        return commit


def test_an_unknown_outcome_doubles_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    job = Etl(scene.lake, scene.config(*SEVERAL, every="1ms", batch={"records": 2}), events.append)
    failing = Failing(job._staging.commit, ["", "after", "after", "before", "after", "before"])
    monkeypatch.setattr(job._staging, "commit", failing)
    monkeypatch.setattr("shoal.connect.etl.job._WAIT", 0.001)
    rows = records(30)
    scene.add(*rows)
    job.run(lambda: False, once=True)
    plain = Scene(shoal.create("memory://etl-known"))
    plain.add(*rows)
    assert finish(plain.etl(*SEVERAL))
    assert contents(scene.lake) == contents(plain.lake)
    kinds = [event.kind for event in events]
    assert "waiting" in kinds
    assert kinds.count("waiting") == kinds.count("resumed")


def written(tmp_path: Path, config: dict[str, Any]) -> str:
    path = tmp_path / "etl.yaml"
    path.write_text(yaml.safe_dump({"etl": config}))
    return str(path)


def start(lake: Lake, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "shoal", "etl", "-q", "-lake", lake.uri, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    scene, plain = Scene(shoal.create(tmp_path / "lake")), Scene(shoal.create("memory://etl-killed"))
    rows, dice = records(RECORDS), random.Random(KILLS)
    scene.add(*rows)
    plain.add(*rows)
    settings = {"input": "raw", "output": "staging", "transforms": SEVERAL, "expire": EXPIRE, "batch": {"records": 9}}
    path = written(tmp_path, settings)
    for _ in range(KILLS):
        process = start(scene.lake, "-config", path)
        time.sleep(0.5 + dice.random())
        process.kill()
        process.communicate()
    process = start(scene.lake, "-config", path, "-once")
    _, err = process.communicate(timeout=280)
    assert (process.returncode, err) == (0, b"")
    assert finish(plain.etl(*SEVERAL, expire=EXPIRE))
    assert contents(scene.lake) == contents(plain.lake)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_after_the_round(tmp_path: Path, number: int) -> None:
    scene = Scene(shoal.create(tmp_path / "lake"))
    scene.add(("A", {"txn": 1, "done": True}))
    path = written(tmp_path, {"input": "raw", "output": "staging", "transforms": [WHOLE], "every": "1h"})
    process = start(scene.lake, "-config", path)
    until = time.monotonic() + 60
    while not scene.values() and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert scene.values() == [{"txn": 1, "seqno": 1, "n": 1}]


# ---- the command, and services


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    scene = Scene(shoal.create(tmp_path / "lake"))
    scene.add(("A", {"txn": 1, "done": True}), ("A", {"txn": 2, "done": False}))
    path = written(tmp_path, {"input": "raw", "output": "staging", "transforms": [WHOLE]})
    status, out, err = call_shoal(["etl", "-lake", scene.lake.uri, "-config", path, "-once"])
    assert (status, out.decode(), err) == (0, "etl: 2 records in 1 commits\n", "")
    scene.add(("A", {"txn": 2, "done": True}))
    words = ["-once", "-log", "json", "-q", "-user", "ada", "-message", "by hand"]
    status, out, err = call_shoal(["etl", "-lake", scene.lake.uri, "-config", path, *words])
    assert (status, out) == (0, b"")
    for fact in ('"event": "commit"', '"job": "etl"', '"cursor": 3', '"pending": 0', '"outputs": 1', '"records": 1'):
        assert fact in err
    commit = next(iter(scene.lake.pool("staging").log()))
    assert (commit.author, commit.message) == ("ada", "by hand")


def test_exit_after_ends_it(tmp_path: Path) -> None:
    scene = Scene(shoal.create(tmp_path / "lake"))
    path = written(tmp_path, {"input": "raw", "output": "staging", "transforms": [WHOLE]})
    began = time.monotonic()
    assert call_shoal(["etl", "-lake", scene.lake.uri, "-config", path, "-exit-after", "200ms"])[0] == 0
    assert 0.2 <= time.monotonic() - began < 30


def test_a_job_through_a_service(empty_service: Served) -> None:
    lakes = [shoal.open(empty_service.url), shoal.create("memory://etl-served")]
    rows = records(60)
    for lake in lakes:
        scene = Scene(lake)
        scene.add(*rows)
        assert finish(scene.etl(*SEVERAL, expire=EXPIRE, batch={"records": 25}))
        scene.add(("C", {"n": 1}))
        assert finish(scene.etl(*SEVERAL, expire=EXPIRE))
    assert contents(lakes[0]) == contents(lakes[1])
