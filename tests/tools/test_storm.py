"""The storm, shortly; and its checker, which objects to every kind of violation that is planted in a good lake."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tools.storm.attempts import Event, read_events
from tools.storm.check import Report, check
from tools.storm.raw_lake import RawLake
from tools.storm.reads import EVERYTHING, Reader
from tools.storm.rows import Filter, rows_of
from tools.storm.work import Plan, Worker

from shoal.ids import new, parse, to_text
from shoal.lake import journal
from shoal.lake.branches import set_branch
from shoal.lake.checkpoints import Checkpoints
from shoal.lake.journal import Entry
from shoal.lake.lake import create, open_lake
from shoal.lake.pools import Pool
from shoal.local.lake import LocalLake
from shoal.storage.local import LocalStore

ROOT = Path(__file__).parents[2]
LOG = "worker"


@dataclass(frozen=True)
class Scene:
    """A lake, the log of the worker that made it, and the means to falsify both."""

    root: Path

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def log(self) -> Path:
        return self.root / "logs" / f"{LOG}.jsonl"

    def check(self) -> Report:
        return check(self.lake, [self.log])

    def pool(self) -> Pool:
        """The pool as Shoal sees it."""
        return open_lake(LocalStore(self.lake)).pool("p0")

    def events(self) -> list[Event]:
        return list(read_events(self.log))

    def rewrite(self, change: Callable[[Event], Event | None]) -> None:
        """Replace lines of the log."""
        events = [changed for event in self.events() if (changed := change(event)) is not None]
        self.log.write_text("".join(json.dumps(event) + "\n" for event in events))

    def begun(self, kind: str, number: int = -1) -> Event:
        """An operation of a kind."""
        return [event for event in self.events() if event["event"] == "begin" and event["kind"] == kind][number]

    def commit_of(self, kind: str, number: int = -1) -> str:
        op = self.begun(kind, number)["op"]
        return next(str(e["commit"]) for e in self.events() if e["event"] == "end" and e["op"] == op)

    def add_entry(self, entry: Entry) -> None:
        """Add an entry to the journal of the pool, with a good seal."""
        slot = f"{self.pool().prefix}/branches/{entry.position:020d}.zng"
        (self.lake / slot).write_bytes(journal._format_entry(entry, slot))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with an operation of each kind, made by a worker."""
    root = tmp_path_factory.mktemp("storm")
    (root / "logs").mkdir()
    plan = Plan(str(root / "lake"), root, 1, time.time(), time.time(), 1, 1.0)
    LocalLake(create(LocalStore(root / "lake"))).create("p0", key="k")
    worker = Reader(plan, LOG, "reader", 1)
    pool = worker.pool("p0")

    def do(kind: str, branch: str = "main", **details: object) -> str:
        return str(worker.attempt(pool, kind, branch, details))

    for _ in range(20):
        do("load", load=worker.next_load())
    do("branch", "b0", at="main")
    for _ in range(3):
        do("load", "b0", load=worker.next_load())
    picked = do("load", load=worker.next_load())
    do("revert", commit=picked)
    do("cherry-pick", "b0", commit=picked)
    do("delete where", "b0", where=Filter(load=10_000_023, before=1), engine="interp", tip=pool.resolve("b0"))
    common = [each.id for each in pool.objects()]
    own = [each.id for each in pool.branch("b0").objects() if each.id not in common]
    do("compact", "b0", objects=own[:2])
    do("delete", objects=common[:1])
    do("rebase", "b0", onto="main")
    do("delete where", where=Filter(0, 2_000), engine="interp", tip=pool.resolve("main"))
    do("rebase", "b0", onto="main")
    do("load", "b0", load=worker.next_load())
    do("tag", at=str(pool.resolve("b0")), tag="t0")
    do("merge", child="b0")
    do("branch", "b1", at="main")
    do("load", "b1", load=worker.next_load())
    do("tag", at=str(pool.resolve("b1")), tag="t1")
    do("drop branch", "b1")
    do("vacuum", grace=0.0, is_whole=False)
    do("load", load=worker.next_load())
    for engine in ("interp", "duckdb"):
        worker.read(pool, "main", "main", EVERYTHING, engine, {"before": pool.resolve("main")})
    worker.log.close()
    return root


@pytest.fixture
def scene(good: Path, tmp_path: Path) -> Scene:
    shutil.copytree(good, tmp_path, dirs_exist_ok=True)
    return Scene(tmp_path)


def test_a_good_lake_has_no_violations(scene: Scene) -> None:
    report = scene.check()
    assert report.violations == []
    kinds = ("load", "delete where", "delete", "revert", "cherry-pick", "compact", "rebase", "merge", "tag", "branch")
    assert all(report.counts[kind] for kind in kinds), report.counts
    outcomes = [event for event in scene.events() if event["event"] == "end" and event["outcome"] != "done"]
    assert outcomes == []
    assert report.counts["checkpoints"] > 0
    assert report.counts["read"] == 2


# ---- planted violations


def last_entry(scene: Scene) -> Entry:
    return list(scene.pool().journal.entries())[-1]


def lose_a_commit(scene: Scene) -> None:
    """The last entry, which was acknowledged, is gone."""
    entry = last_entry(scene)
    (scene.lake / scene.pool().prefix / "branches" / f"{entry.position:020d}.zng").unlink()


def double_a_commit(scene: Scene) -> None:
    entry = last_entry(scene)
    scene.add_entry(replace(entry, position=entry.position + 1))


def commit_twice(scene: Scene) -> None:
    """One load as two operations, of which the log has one."""
    pool, entry = scene.pool(), last_entry(scene)
    commit = pool.commits.read(parse(scene.commit_of("load")))
    again = replace(commit, id=new(), op=new(), parent=commit.id, generation=commit.generation + 1)
    again = replace(again, since=(*commit.since, commit.id))
    pool.commits.write(again)
    changes = journal_changes(pool, to_text(again.id))
    scene.add_entry(Entry(entry.position + 1, again.op, entry.at, changes))


def journal_changes(pool: Pool, commit: str) -> journal.Changes:
    return set_branch("main", parse(commit), 1)


def break_the_chain(scene: Scene) -> None:
    """The branch goes back to an older commit."""
    entry = last_entry(scene)
    changes = journal_changes(scene.pool(), scene.commit_of("load", 5))
    scene.add_entry(Entry(entry.position + 1, new(), entry.at, changes))


def leave_a_gap(scene: Scene) -> None:
    (scene.lake / scene.pool().prefix / "branches" / f"{9:020d}.zng").unlink()


def data_file(scene: Scene) -> Path:
    """The file of a data object of `main`."""
    pool = scene.pool()
    o = next(iter(pool.snapshot(pool.refs().branch("main").commit).objects()))
    return scene.lake / pool.prefix / "data" / f"{to_text(o.id)}.{o.form.value}"


def lose_an_object(scene: Scene) -> None:
    data_file(scene).unlink()


def lose_what_a_tag_reaches(scene: Scene) -> None:
    tip = scene.pool().refs().tag("t1").commit
    assert tip is not None
    (scene.lake / scene.pool().prefix / "commits" / f"{to_text(tip)}.zng").unlink()


def damage_an_object(scene: Scene) -> None:
    path = data_file(scene)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


def damage_a_commit(scene: Scene) -> None:
    path = scene.lake / scene.pool().prefix / "commits" / f"{scene.commit_of('load', 3)}.zng"
    data = bytearray(path.read_bytes())
    data[40] ^= 4
    path.write_bytes(data)


def change_rows(scene: Scene) -> None:
    """The worker loaded something else than what is in the lake."""
    op = scene.begun("load", 4)["op"]
    scene.rewrite(lambda e: {**e, "load": e["load"] + 500} if e["event"] == "begin" and e["op"] == op else e)


def keep_what_was_deleted(scene: Scene) -> None:
    op = scene.begun("delete where")["op"]
    where = Filter(0, 9_999)
    scene.rewrite(lambda e: {**e, "where": where} if e["event"] == "begin" and e["op"] == op else e)


def do_what_was_refused(scene: Scene) -> None:
    op = scene.begun("load", 2)["op"]
    refusal = {"outcome": "refused", "error": "Conflict: no"}
    scene.rewrite(lambda e: {**e, **refusal} if e["event"] == "end" and e["op"] == op else e)


def tell_another_commit(scene: Scene) -> None:
    op, other = scene.begun("load", 2)["op"], scene.commit_of("load", 3)
    scene.rewrite(lambda e: {**e, "commit": other} if e["event"] == "end" and e["op"] == op else e)


def make_commits_that_nobody_asked_for(scene: Scene) -> None:
    op = scene.begun("load", 2)["op"]
    scene.rewrite(lambda e: None if e.get("op") == op else e)


def read_something_else(scene: Scene) -> None:
    def change(event: Event) -> Event:
        return {**event, "result": [n + 1 for n in event["result"]]} if event["event"] == "read" else event

    scene.rewrite(change)


def forget_an_object_in_a_checkpoint(scene: Scene) -> None:
    pool = scene.pool()
    path = next((scene.lake / pool.prefix / "checkpoints").iterdir())
    checkpoints = Checkpoints(pool.store, pool.prefix, pool.config.key)
    commit = parse(path.name.partition(".")[0])
    checkpoints.write(commit, checkpoints.open(commit)[1:])


def forget_a_key_in_a_snapshot(scene: Scene) -> None:
    pool = scene.pool()
    key = f"{pool.prefix}/branches/{16:020d}.snap.zng"
    state = pool.journal.at_position(16)
    (scene.lake / key).write_bytes(journal._format_snapshot(replace(state, entries={}), key))


PLANTED = {
    lose_a_commit: "was acknowledged, and is in 0 entries",
    double_a_commit: "operations are in the journal twice",
    commit_twice: "no compaction may",
    break_the_chain: "does not continue",
    leave_a_gap: "the journal has a gap",
    lose_an_object: "is reachable and not in the store",
    lose_what_a_tag_reaches: "is reachable and not in the store",
    damage_an_object: "checksum does not match",
    damage_a_commit: "the seal does not match",
    change_rows: "is not the whole of load",
    keep_what_was_deleted: "did not keep just the others|left records",
    do_what_was_refused: "was refused .* and is in the journal",
    tell_another_commit: "was acknowledged as",
    make_commits_that_nobody_asked_for: "no compaction may",
    read_something_else: "gave Total.* instead of",
    forget_an_object_in_a_checkpoint: "the checkpoint differs from the commits",
    forget_a_key_in_a_snapshot: "the snapshot differs from the entries",
}


@pytest.mark.parametrize(("plant", "violation"), PLANTED.items(), ids=[plant.__name__ for plant in PLANTED])
def test_the_checker_objects_to_a_planted_violation(
    scene: Scene, plant: Callable[[Scene], None], violation: str
) -> None:
    plant(scene)
    violations = scene.check().violations
    assert any(re.search(violation, each) for each in violations), violations


def test_records_follow_from_the_number_of_their_load() -> None:
    assert rows_of(10_000_001) == rows_of(10_000_001)
    weights = [row["w"] for load in range(500) for row in rows_of(load)]
    assert len(set(weights)) > 0.999 * len(weights)


def test_the_checker_shares_no_code_with_shoal() -> None:
    modules = "import sys, tools.storm.check; print([m for m in sys.modules if m.partition('.')[0] == 'shoal'])"
    done = subprocess.run([sys.executable, "-c", modules], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_raw_files_read_like_the_lake_itself(scene: Scene) -> None:
    pool, raw = scene.pool(), RawLake(scene.lake)
    for entry in pool.journal.entries():
        theirs = raw.entry(f"{pool.prefix}/branches", entry.position)
        assert (to_text(entry.op), entry.at, list(entry.changes)) == (theirs.op, theirs.at, list(theirs.changes))


def test_a_worker_repeats_what_a_kill_interrupted(scene: Scene) -> None:
    """The log ends in the middle of an operation that was done: its repeat is acknowledged with the same commit."""
    commit = scene.commit_of("load")
    events = scene.events()
    last = max(i for i, event in enumerate(events) if event["event"] == "end")
    scene.log.write_text("".join(json.dumps(event) + "\n" for event in events[:last]))
    plan = Plan(str(scene.lake), scene.root, 3, time.time(), time.time(), 1, 1.0)
    for _ in range(10):
        Worker(plan, LOG, "writer", 1).run()
    assert [event["commit"] for event in scene.events() if event["event"] == "end"][-1] == commit
    assert scene.check().violations == []
