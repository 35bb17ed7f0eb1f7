"""The logs of the workers: what each attempted and what it was told, one JSON object per line.

A line is written by one call and synced before the worker goes on, so a killed worker loses at most the line that it
was writing. `begin` comes before an operation, `end` after it; an operation without `end` has an unknown outcome.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Log:
    """The log of one worker, which its next process continues."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if os.fstat(self._file).st_size:
            os.write(self._file, b"\n")  # a killed process may have left half a line

    def write(self, event: str, **fields: Any) -> None:
        """Add a line, for good."""
        os.write(self._file, json.dumps({"event": event, "time": time.time(), **fields}).encode() + b"\n")
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_events(path: Path) -> Iterator[Event]:
    """The whole lines of a log."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n") and line != b"\n":
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # cut off by a kill, and ended by the next process


@dataclass
class Attempt:
    """An operation and what its worker was told of it."""

    op: str
    pool: str
    kind: str
    branch: str
    details: Event
    outcomes: list[Event] = field(default_factory=list)
    begins: int = 0
    """How often it was tried."""

    @property
    def acknowledged(self) -> Event | None:
        """What the worker was told when the operation was done."""
        return next((each for each in self.outcomes if each["outcome"] == "done"), None)

    @property
    def is_refused(self) -> bool:
        """Whether every attempt was said to have changed nothing."""
        return len(self.outcomes) == self.begins and all(each["outcome"] == "refused" for each in self.outcomes)


def read_attempts(paths: list[Path]) -> tuple[dict[str, Attempt], list[Event]]:
    """The operations of all workers by operation id, and all other events."""
    attempts: dict[str, Attempt] = {}
    others: list[Event] = []
    for path in paths:
        for event in read_events(path):
            if event["event"] == "begin":
                known = ("op", "pool", "kind", "branch")
                details = {name: value for name, value in event.items() if name not in known}
                op, pool, kind, branch = (event[name] for name in known)
                new = Attempt(op, pool, kind, branch, details)
                attempts.setdefault(event["op"], new).begins += 1
            elif event["event"] == "end":
                attempts[event["op"]].outcomes.append(event)
            else:
                others.append({**event, "worker": path.stem})
    return attempts, others
