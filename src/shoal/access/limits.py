"""Limits of what queries may take: each by itself, and how many of them run at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Timer

from shoal.api.results import Results
from shoal.engines.stopping import REMEDY, Stop
from shoal.errors import Stopped, TooMany
from shoal.model.values import Value


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may take; None is as much as it wants."""

    seconds: float | None = None
    """From the question to the last value, whoever has to wait for whom."""
    rows: int | None = None
    """Values that come out."""
    memory: int | None = None
    """Bytes that engines hold for it. What sorts, groups and joins need beyond that goes to disk; the rest fails."""


def limited(limits: Limits, stop: Stop, ask: Callable[[], Results]) -> Results:
    """The results of a question that is asked with this stop, within limits: beyond them, they end with Stopped."""
    stop.memory = limits.memory
    timer = _timer(limits, stop)
    try:
        results = ask()
    except BaseException:
        timer.cancel()
        raise
    return results.through(lambda values: _counted(values, limits, stop, timer))


def _timer(limits: Limits, stop: Stop) -> Timer:
    seconds = limits.seconds
    made = Timer(seconds or 0, stop.stop, [Stopped(f"the query took longer than {seconds or 0:g}s ({REMEDY})")])
    made.daemon = True
    if seconds is not None:
        made.start()
    return made


def _counted(values: Iterator[Value], limits: Limits, stop: Stop, timer: Timer) -> Iterator[Value]:
    try:
        for number, value in enumerate(stop.checked(values)):
            if number == limits.rows:
                raise Stopped(f"the query gives more than {limits.rows} values ({REMEDY})")
            yield value
    finally:
        timer.cancel()


class Gate:
    """Lets so many queries run at a time, in all and of one caller. Others wait a moment, and are then turned away."""

    def __init__(self, at_once: int, per_caller: int, patience: float = 1.0) -> None:
        self._at_once, self._per_caller, self._patience = at_once, per_caller, patience
        self._running: Counter[str] = Counter()
        self._changed = Condition()

    @contextmanager
    def enter(self, caller: str) -> Iterator[None]:
        """A place among those that run, for as long as this lasts. TooMany if none gets free."""
        with self._changed:
            until = time.monotonic() + self._patience
            while (full := self._why_full(caller)) is not None:
                left = until - time.monotonic()
                if left <= 0:
                    raise TooMany(full)
                self._changed.wait(left)
            self._running[caller] += 1
        try:
            yield
        finally:
            with self._changed:
                self._running[caller] -= 1
                if not self._running[caller]:
                    del self._running[caller]
                self._changed.notify_all()

    def _why_full(self, caller: str) -> str | None:
        if self._running[caller] >= self._per_caller:
            return f"{self._per_caller} queries of {caller} are running (wait for one of them, and try again)"
        if self._running.total() >= self._at_once:
            return f"{self._at_once} queries are running (try again later)"
        return None
