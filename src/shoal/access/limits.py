"""Limits on queries: time, rows and memory of each, and how many run concurrently."""

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
    """Limits of one query; None for no limit."""

    seconds: float | None = None
    """From the request to the last value, time spent waiting for the reader included."""
    rows: int | None = None
    """Number of result values."""
    memory: int | None = None
    """Bytes that engines use for it. Sorts, groups and joins that need more spill to disk; anything else fails."""


def limited(limits: Limits, stop: Stop, ask: Callable[[], Results]) -> Results:
    """Run a query within limits. `ask` starts it under `stop`; beyond a limit its results end with Stopped."""
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
    timer = Timer(seconds or 0, stop.stop, [Stopped(f"the query took longer than {seconds or 0:g}s ({REMEDY})")])
    timer.daemon = True
    if seconds is not None:
        timer.start()
    return timer


def _counted(values: Iterator[Value], limits: Limits, stop: Stop, timer: Timer) -> Iterator[Value]:
    try:
        for number, value in enumerate(stop.checked(values)):
            if number == limits.rows:
                raise Stopped(f"the query returns more than {limits.rows} values ({REMEDY})")
            yield value
    finally:
        timer.cancel()


class Gate:
    """Caps concurrent queries, in total and per caller. Others wait `patience` seconds, then fail with TooMany."""

    def __init__(self, at_once: int, per_caller: int, patience: float = 1.0) -> None:
        self._at_once, self._per_caller, self._patience = at_once, per_caller, patience
        self._running: Counter[str] = Counter()
        self._changed = Condition()

    @contextmanager
    def enter(self, caller: str) -> Iterator[None]:
        """Run a query while this context is open. TooMany if the limits are still reached after the wait."""
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
            return f"{self._per_caller} queries of {caller} are running (wait for one to finish, then retry)"
        if self._running.total() >= self._at_once:
            return f"{self._at_once} queries are running (retry later)"
        return None
