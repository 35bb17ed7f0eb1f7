"""Checks a lake after a storm: every promise about commits, from the raw files and the logs of the workers alone.

A commit is checked as a step: from the state of its parent to its own, by what its operation was to do. So a record
that is lost, doubled, resurrected or only partly there is seen in the commit where it happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tools.storm.attempts import Attempt, Event, read_attempts
from tools.storm.pool_history import PoolHistory
from tools.storm.pool_reads import check_reads, damage_windows
from tools.storm.raw_lake import Entry, PoolFiles, RawLake
from tools.storm.steps import Steps
from tools.storm.zng import Broken

_MOST = 40
"""The number of violations to list."""


@dataclass
class Report:
    """What the checker counted, and what is wrong."""

    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def require(self, is_true: bool, violation: str) -> bool:
        """Note a violation unless something is true."""
        if not is_true:
            self.counts["violations"] += 1
            if len(self.violations) < _MOST:
                self.violations.append(violation)
        return is_true


def check(root: Path, logs: Iterable[Path], damaged: frozenset[str] = frozenset()) -> Report:
    """Check the lake in a directory. `damaged` are the keys of hints that were damaged on purpose."""
    report = Report()
    lake = RawLake(root)
    attempts, events = read_attempts(sorted(logs))
    try:
        lake.unseal("lake.zng")
        pools = _pools(report, lake)
    except (Broken, FileNotFoundError) as e:
        report.require(False, f"the lake does not open: {e}")
        return report
    for pool in pools:
        mine = {op: attempt for op, attempt in attempts.items() if attempt.pool == pool.name}
        reads = [event for event in events if event["event"] == "read" and event["pool"] == pool.name]
        steps = _check_pool(report, lake, pool, mine, damaged)
        check_reads(report, steps, reads, damage_windows(events, pool.id))
    names = {pool.name for pool in pools}
    lost = {attempt.pool for attempt in attempts.values()} - names
    report.require(not lost, f"pools {sorted(lost)} are not there")
    _check_errors(report, attempts, events)
    return report


def _pools(report: Report, lake: RawLake) -> list[PoolFiles]:
    state: dict[str, PoolFiles] = {}
    for entry in check_journal(report, lake, "pools"):
        for key, value in entry.changes.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = lake.pool(value)
    return list(state.values())


def _check_pool(
    report: Report, lake: RawLake, pool: PoolFiles, attempts: dict[str, Attempt], damaged: frozenset[str]
) -> Steps:
    entries = check_journal(report, lake, f"{pool.id}/branches", damaged)
    check_journal(report, lake, f"{pool.id}/columns", damaged)
    history = PoolHistory(report, lake, pool, attempts)
    history.replay(entries)
    history.check_outcomes(entries)
    steps = Steps(report, lake, pool, history)
    steps.check()
    _check_checkpoints(report, lake, steps, damaged)
    report.counts["entries"] += len(entries)
    report.counts["commits"] += len(history.commits)
    return steps


def _check_errors(report: Report, attempts: dict[str, Attempt], events: list[Event]) -> None:
    """Workers met only errors that the promises allow."""
    for attempt in attempts.values():
        for outcome in attempt.outcomes:
            what = f"{attempt.kind} {attempt.op} in {attempt.pool}: {outcome.get('error')}"
            report.require(outcome["outcome"] != "broken", f"an error that must not be: {what}")
        report.counts[attempt.kind] += 1
        report.counts["acknowledged"] += attempt.acknowledged is not None
        report.counts["refused"] += attempt.is_refused
    report.counts["unknown"] = len(attempts) - report.counts["acknowledged"] - report.counts["refused"]
    for event in events:
        if event["event"] in ("broken", "wrong"):
            report.require(False, f"{event['worker']}: {event['error']}")
        report.counts[event["event"]] += 1


def check_journal(report: Report, lake: RawLake, folder: str, damaged: frozenset[str] = frozenset()) -> list[Entry]:
    """The entries of a journal: no gap, no operation twice, no step back in time; hints that say nothing else."""
    slots = lake.slots(folder)
    report.require(slots == list(range(1, len(slots) + 1)), f"{folder}: the journal has a gap: {_gap(slots)}")
    entries: list[Entry] = []
    state: dict[str, object] = {}
    at_positions: dict[int, dict[str, object]] = {}
    snapshots = {position: key for key, position in lake.snapshots(folder)}
    for position in slots:
        try:
            entry = lake.entry(folder, position)
        except Broken as e:
            report.require(False, str(e))
            continue
        entries.append(entry)
        state = {key: value for key, value in {**state, **entry.changes}.items() if value is not None}
        if position in snapshots:
            at_positions[position] = state
    ops = Counter(op for entry in entries for op in entry.ops)
    twice = [op for op, count in ops.items() if count > 1]
    report.require(not twice, f"{folder}: operations are in the journal twice: {twice[:3]}")
    steps = [after for before, after in pairwise(entries) if after.at < before.at and "clock" not in after.changes]
    report.require(not steps, f"{folder}: times go back at {[entry.position for entry in steps[:3]]}")
    for position, key in snapshots.items():
        if key not in damaged:
            _check_snapshot(report, lake, key, position, at_positions.get(position))
    head = f"{folder}/HEAD"
    if lake.exists(head) and head not in damaged:
        try:
            position = lake.unseal(head)[0].value["position"]
            report.require(position <= len(slots), f"{head}: says {position} of {len(slots)}")
        except Broken as e:
            report.require(False, str(e))
    return entries


def _gap(slots: list[int]) -> str:
    missing = sorted(set(range(1, slots[-1] + 1)) - set(slots)) if slots else []
    return f"{missing[:5]} of {slots[-1] if slots else 0}"


def _check_snapshot(report: Report, lake: RawLake, key: str, position: int, expected: dict[str, object] | None) -> None:
    try:
        items = lake.unseal(key)
    except Broken as e:
        report.require(False, str(e))
        return
    state = {item.value["key"]: item.value["value"] for item in items[1:]}
    is_right = items[0].value["position"] == position and state == expected
    report.require(is_right, f"{key}: the snapshot differs from the entries")


def _check_checkpoints(report: Report, lake: RawLake, steps: Steps, damaged: frozenset[str]) -> None:
    """Checkpoints of reachable commits have the objects of the commit, each with the description of its commit."""
    for commit, state in steps.states.items():
        key = f"{steps.pool.id}/checkpoints/{commit}.zng"
        if not lake.exists(key) or key in damaged:
            continue
        try:
            objects = lake.checkpoint(steps.pool.id, commit)
        except (Broken, FileNotFoundError) as e:
            report.require(any(page in str(e) for page in damaged), f"{key}: {e}")
            continue
        report.require(objects == state, f"{key}: the checkpoint differs from the commits")
        report.counts["checkpoints"] += 1
