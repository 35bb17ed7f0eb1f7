"""The workers that change the lake: each does random operations, logs them, and repeats what a kill interrupted."""

from __future__ import annotations

import json
import random
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import Conflict, CorruptData, InvalidInput, NotFound, OutcomeUnknown, ShoalError, StorageFailure
from shoal.ids import new, to_text
from shoal.lake.lake import is_immutable, open_lake
from shoal.local.lake import LocalLake
from shoal.storage.cache import CachedStore
from shoal.storage.cloud import CloudStore, Timeouts
from shoal.storage.local import LocalStore
from shoal.storage.store import ObjectStore
from tools.storm.attempts import Event, Log, read_events
from tools.storm.rows import KEYS, Filter, rows_of

WRECK = "wreck"
"""The pool whose objects are damaged."""
BRANCHES = ("main", "main", "main", "b0", "b1", "b2", "b3")
TAGS = ("t0", "t1", "t2", "t3", "t4", "t5")
GRACES = (0.0, 0.0, 0.5, 2.0, 10.0, 60.0)
"""Of vacuums, in seconds: none at all, and a few that writers usually keep to."""
MOST_RECORDS = 20_000
MOST_OBJECTS = 150
_GIVES_UP = 0.1
_TRIES = 4
_TIMEOUTS = Timeouts(silence=4, deadline=20, first_pause=0.02, longest_pause=0.5)
Details = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What all workers know of a storm."""

    uri: str
    folder: Path
    seed: int
    began: float
    until: float
    pools: int
    period: float
    """Seconds for which a pool is the current one, so that histories stay short."""

    @property
    def is_local(self) -> bool:
        """Whether the lake is in a directory, whose store does not fail."""
        return "://" not in self.uri

    def log_path(self, worker: str) -> Path:
        """The log of a worker."""
        return self.folder / "logs" / f"{worker}.jsonl"

    def current_pool(self) -> str:
        """The pool to work on now."""
        return f"p{min(int((time.time() - self.began) / self.period), self.pools - 1)}"

    def is_over(self) -> bool:
        """Whether workers should stop."""
        return time.time() > self.until


def open_store(uri: str) -> ObjectStore:
    """The store of the lake, in a bucket with timeouts for a server that is near."""
    return LocalStore(uri) if "://" not in uri else CloudStore(uri, _TIMEOUTS)


def open_local(uri: str) -> LocalLake:
    """The lake, with a cache as every process has one."""
    return LocalLake(open_lake(CachedStore(open_store(uri), is_immutable)))


# ---- the operations, each by what its log says


def _load(pool: Pool, branch: str, details: Details, op: str) -> str:
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows_of(details["load"]))
    return pool.branch(branch).load(data, format="json", op=op, message=str(details["load"]))


def _delete(pool: Pool, branch: str, details: Details, op: str) -> str:
    return pool.branch(branch).delete(details["objects"], op=op)


def _delete_where(pool: Pool, branch: str, details: Details, op: str) -> str:
    return pool.branch(branch).delete(where=Filter(*details["where"]).text(), engine=details["engine"], op=op)


def _compact(pool: Pool, branch: str, details: Details, op: str) -> str:
    return pool.branch(branch).compact(details["objects"], op=op)


def _manage(pool: Pool, branch: str, details: Details, op: str) -> None:
    for _ in pool.branch(branch).compact_all():
        pass


def _merge(pool: Pool, branch: str, details: Details, op: str) -> str:
    return pool.branch(branch).merge(details["child"], op=op)


def _rebase(pool: Pool, branch: str, details: Details, op: str) -> str | None:
    return pool.branch(branch).rebase(details["onto"], op=op)


def _revert(pool: Pool, branch: str, details: Details, op: str) -> str:
    return pool.branch(branch).revert(details["commit"], op=op)


def _cherry_pick(pool: Pool, branch: str, details: Details, op: str) -> str:
    return pool.branch(branch).cherry_pick(details["commit"], op=op)


def _create_branch(pool: Pool, branch: str, details: Details, op: str) -> None:
    pool.create_branch(branch, details["at"], op=op)


def _drop_branch(pool: Pool, branch: str, details: Details, op: str) -> None:
    pool.drop_branch(branch, op=op)


def _create_tag(pool: Pool, branch: str, details: Details, op: str) -> None:
    pool.create_tag(details["tag"], details["at"], op=op)


def _drop_tag(pool: Pool, branch: str, details: Details, op: str) -> None:
    pool.drop_tag(details["tag"], op=op)


def _vacuum(pool: Pool, branch: str, details: Details, op: str) -> None:
    if details["is_whole"]:
        pool.lake.vacuum(grace=details["grace"])  # type: ignore[attr-defined]
    else:
        pool.vacuum(grace=details["grace"])


ACTS: dict[str, Callable[[Pool, str, Details, str], str | None]] = {
    "load": _load,
    "delete": _delete,
    "delete where": _delete_where,
    "compact": _compact,
    "manage": _manage,
    "merge": _merge,
    "rebase": _rebase,
    "revert": _revert,
    "cherry-pick": _cherry_pick,
    "branch": _create_branch,
    "drop branch": _drop_branch,
    "tag": _create_tag,
    "drop tag": _drop_tag,
    "vacuum": _vacuum,
}
WEIGHTS: dict[str, dict[str, int]] = {
    "writer": {"load": 60, "delete where": 12, "delete": 8, "revert": 8, "cherry-pick": 12},
    "brancher": {
        "load": 20,
        "branch": 14,
        "drop branch": 8,
        "tag": 10,
        "drop tag": 7,
        "merge": 24,
        "rebase": 14,
        "cherry-pick": 3,
    },
    "keeper": {"compact": 30, "manage": 20, "vacuum": 20, "delete where": 10, "load": 10, "delete": 10},
}


class Worker:
    """A process that changes the lake until the storm is over or it is killed."""

    def __init__(self, plan: Plan, name: str, role: str, number: int) -> None:
        self.plan = plan
        self.name = name
        events = list(read_events(plan.log_path(name))) if plan.log_path(name).exists() else []
        self._loads: int = sum(event["event"] == "begin" for event in events)
        self._number = number
        self.log = Log(plan.log_path(name))
        self.chance = random.Random(f"{plan.seed} {name} {len(events)}")
        self._weights = WEIGHTS.get(role, {})
        self.lake: Lake = open_local(plan.uri)
        self._pools: dict[str, Pool] = {}
        self._interrupted = _interrupted(events)

    def run(self) -> None:
        """Work."""
        if self._interrupted is not None and self.chance.random() < 0.7:
            self._repeat(self._interrupted)
        while not self.plan.is_over():
            self.step()

    def pool(self, name: str) -> Pool:
        """A pool by its name."""
        if name not in self._pools:
            self._pools[name] = self.lake.pool(name)
        return self._pools[name]

    def step(self) -> None:
        """One random operation on the current pool."""
        try:
            pool = self.pool(self.plan.current_pool())
            kind = self.chance.choices(list(self._weights), list(self._weights.values()))[0]
            branch = self._branch(kind, pool)
            details = self._details(kind, pool, branch)
        except (NotFound, StorageFailure, CorruptData) as e:
            if isinstance(e, CorruptData) and branch == "main":
                self.log.write("broken", error=f"{type(e).__name__}: {e}")
            return
        if details is not None:
            self.attempt(pool, kind, branch, details)

    def _branch(self, kind: str, pool: Pool) -> str:
        """A branch for an operation; usually one that is there, or one that is not if it is to be created."""
        names = BRANCHES[3:] if kind in ("branch", "drop branch", "rebase") else BRANCHES
        present = {each.name for each in pool.branches()}
        likely = [name for name in names if (name in present) != (kind == "branch")]
        return self.chance.choice(likely if likely and self.chance.random() < 0.9 else names)

    def next_load(self) -> int:
        """The number of a load that there has not been."""
        self._loads += 1
        return self._number * 10_000_000 + self._loads

    # ---- choosing what to do

    def _details(self, kind: str, pool: Pool, branch: str) -> Details | None:
        """What an operation is about; None if there is nothing to do it with."""
        chance = self.chance
        match kind:
            case "load":
                return {"load": self.next_load()}
            case "delete where":
                tip = pool.resolve(branch)
                engine = chance.choice(("interp", "duckdb", "auto"))
                return {"where": self._filter(pool, branch), "engine": engine, "tip": tip}
            case "delete" | "compact":
                objects = [each.id for each in pool.branch(branch).objects()]
                most = 3 if kind == "delete" else 8
                count = min(chance.randint(1, most), len(objects))
                return {"objects": chance.sample(objects, count)} if objects else None
            case "merge":
                children = [each.name for each in pool.branches() if each.name != branch]
                return {"child": chance.choice(children)} if children else None
            case "rebase":
                return {"onto": "main"}
            case "revert" | "cherry-pick":
                of = branch if kind == "revert" else self._branch(kind, pool)
                commit = self._some_commit(pool, of)
                return None if commit is None else {"commit": commit}
            case "branch":
                at = self._some_commit(pool, "main") if chance.random() < 0.3 else "main"
                return {"at": at or "main"}
            case "tag":
                at = self._some_commit(pool, chance.choice(BRANCHES))
                return None if at is None else {"at": at, "tag": chance.choice(TAGS)}
            case "drop tag":
                return {"tag": chance.choice(TAGS)}
            case "vacuum":
                return {"grace": chance.choice(GRACES), "is_whole": chance.random() < 0.05}
            case _:
                return {}

    def _some_commit(self, pool: Pool, branch: str) -> str | None:
        """A commit of a branch, more often a new one."""
        most = self.chance.choice((1, 3, 10, 100))
        commits = []
        for commit in pool.branch(branch).log():
            commits.append(commit.id)
            if len(commits) == most:
                break
        return self.chance.choice(commits) if commits else None

    def _filter(self, pool: Pool, branch: str) -> Filter:
        """Some records; many of them if the branch has become large."""
        objects = list(pool.branch(branch).objects())
        if sum(each.count for each in objects) > MOST_RECORDS or len(objects) > MOST_OBJECTS:
            low = self.chance.randrange(KEYS // 2)
            return Filter(low, low + KEYS // 2)
        if self.chance.random() < 0.5:
            own = self._number * 10_000_000 + self.chance.randint(max(1, self._loads - 30), max(1, self._loads))
            return Filter(load=own, before=self.chance.choice((1, 3, 1_000)))
        low = self.chance.randrange(KEYS)
        return Filter(low, low + self.chance.choice((1, 20, 300)))

    # ---- doing it

    def attempt(
        self,
        pool: Pool,
        kind: str,
        branch: str,
        details: Details,
        gives_up: float = _GIVES_UP,
        tries: int = _TRIES,
    ) -> str | None:
        """Do an operation, and repeat it as long as its outcome is unknown; the commit, if it made one.

        `gives_up` is the probability that it is not repeated, as a client does that is gone.
        """
        op = to_text(new())
        for _ in range(tries):
            commit, is_over = self._try(pool, kind, branch, details, op)
            if is_over or self.chance.random() < gives_up:
                return commit
        return None

    def _try(self, pool: Pool, kind: str, branch: str, details: Details, op: str) -> tuple[str | None, bool]:
        self.log.write("begin", op=op, pool=pool.name, kind=kind, branch=branch, **details)
        try:
            commit = ACTS[kind](pool, branch, details, op)
        except Exception as e:
            outcome = self._outcome(e, kind, branch, details)
            error = f"{type(e).__name__}: {e}"
            if not isinstance(e, ShoalError):
                error += "".join(traceback.format_tb(e.__traceback__)[-3:])
            self.log.write("end", op=op, outcome=outcome, error=error[:2000])
            return None, outcome != "unknown" and not isinstance(e, StorageFailure)
        self.log.write("end", op=op, outcome="done", commit=commit)
        return commit, True

    def _outcome(self, error: Exception, kind: str, branch: str, details: Details) -> str:
        """Whether an error says that nothing was done, or that nobody knows; `broken` if it should not have been."""
        match error:
            case OutcomeUnknown():
                return "broken" if self.plan.is_local else "unknown"
            case Conflict() if "outcome unknown" in str(error) or "was done as" in str(error):
                return "unknown"
            case StorageFailure():
                return "broken" if self.plan.is_local else "refused"
            case CorruptData():
                # What a branch reached may be vacuumed as soon as it is rebased or dropped.
                is_stable = branch == "main" and kind in ("load", "delete", "delete where", "compact", "manage")
                return "broken" if is_stable or WRECK in str(error) else "refused"
            case Conflict() | InvalidInput() | NotFound() | ShoalError():
                return "refused"
            case _:
                return "broken"

    def _repeat(self, event: Event) -> None:
        """Try an operation again that a kill interrupted, by its id."""
        known = ("event", "time", "op", "pool", "kind", "branch")
        details = {name: value for name, value in event.items() if name not in known}
        if event["kind"] in ("manage", "vacuum"):
            return
        for _ in range(_TRIES):
            try:
                pool = self.pool(event["pool"])
            except StorageFailure:
                continue
            if self._try(pool, event["kind"], event["branch"], details, event["op"])[1]:
                return


def _interrupted(events: Sequence[Event]) -> Event | None:
    """The operation that a worker was doing when it was killed."""
    for event in reversed(events):
        if event["event"] == "end":
            return None
        if event["event"] == "begin":
            return event
    return None
