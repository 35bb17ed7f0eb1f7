"""What readers saw, against the state of the commit that they read: the same commit always gives the same values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.storm.attempts import Event
from tools.storm.rows import Filter, Total
from tools.storm.steps import Steps

if TYPE_CHECKING:
    from tools.storm.check import Report


Window = tuple[float, float]
"""When an object of a pool was damaged, and when it was restored."""


def damage_windows(events: list[Event], pool: str) -> list[Window]:
    """When objects of a pool were damaged that a read needs. A window without an end lasts."""
    windows: dict[str, list[float]] = {}
    out: list[Window] = []
    for event in events:
        if event["event"] == "damage" and not event["stays"] and event["key"].startswith(pool):
            windows[event["key"]] = [event["time"]]
        elif event["event"] == "restored" and event["key"] in windows:
            out.append((windows.pop(event["key"])[0], event["time"]))
    return out + [(began[0], float("inf")) for began in windows.values()]


def check_reads(report: Report, steps: Steps, reads: list[Event], windows: list[Window]) -> None:
    """Compare each read with the commits that it may have read."""
    seen: dict[tuple[str, tuple[int | None, ...]], tuple[Total, str]] = {}
    for read in reads:
        what = f"{steps.pool.name}@{read['at']} by {read['engine']} ({read['worker']})"
        commits = _possible(steps, read)
        if "error" in read:
            is_allowed = not commits or not all(c is None or c in steps.states for c in commits)
            is_allowed = is_allowed or read["is_excused"]
            if read["error"].startswith("corrupt_data"):
                is_allowed = is_allowed or any(read["began"] <= end and begin <= read["time"] for begin, end in windows)
            report.require(is_allowed, f"{what} failed: {read['error']}")
            report.counts["reads failed"] += 1
            continue
        report.require(not read["is_unsorted"], f"{what} was not in order")
        result, filtered = Total(*read["result"]), Filter(*read["where"])
        if len(commits) == 1 and commits[0] is not None:
            first, where = seen.setdefault((commits[0], tuple(filtered)), (result, what))
            report.require(result == first, f"{what} gave {result}, and {where} gave {first}")
        if not all(commit is None or commit in steps.states for commit in commits):
            report.counts["reads of what is gone"] += 1
            continue
        expected = {_expected(steps, commit, filtered) for commit in commits}
        report.require(result in expected, f"{what} ({filtered.text()}) gave {result} instead of {sorted(expected)}")


def _expected(steps: Steps, commit: str | None, filtered: Filter) -> Total:
    return sum((steps.content(each).within(filtered) for each in steps.state(commit).values()), Total(0, 0, 0))


def _possible(steps: Steps, read: Event) -> list[str | None]:
    """The commits that a read may have read: one for a read by id, several where `main` moved on meanwhile."""
    if read["kind"] == "id":
        return [read["commit"]]
    tips = [commit for _, _, commit in steps.history.mains]
    if read["before"] not in tips or read["after"] not in tips:
        return []
    first, last = tips.index(read["before"]), tips.index(read["after"])
    if read["kind"] == "time":
        # An entry that is older than the time may still land after the read: its writer took the time before.
        last = sum(at <= read["ns"] for _, at, _ in steps.history.mains) - 1
        first = min(first, last)
    return tips[max(first, 0) : last + 1]
