"""The clock of a writer, compared with the clock of its store.

The store is asked once: by the modification time of an object that was just written. From then on the monotonic clock
says what time it is there, so that a commit costs no request. See `docs/adr/0025-clocks-of-commits.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from shoal.model.node import frozen
from shoal.storage.store import ObjectStore, read_clock

SECOND = 10**9
NEAR = 60 * SECOND
"""Clocks that differ by less are taken for equal."""
FAR = 3600 * SECOND
"""Of clocks that differ by this much or more, one is wrong."""


@frozen
class _Reading:
    """Three clocks at one moment: our own and the store's, in nanoseconds since 1970, and the monotonic one."""

    own: int
    store: int
    ticks: float

    def since(self) -> int:
        """Nanoseconds that have passed."""
        return int((time.monotonic() - self.ticks) * SECOND)


class Clock:
    """The time for what is written to a store: by our own clock, unless that of the store shows that it is wrong."""

    def __init__(self, store: ObjectStore, own: Callable[[], int] | None = None) -> None:
        self._store = store
        self._own = own
        self._reading: _Reading | None = None

    def now(self) -> int:
        """In nanoseconds since 1970. If our clock was set, or the machine slept, the store is asked again."""
        own, reading = self._read_own(), self._reading
        if reading is not None and abs(own - reading.own - reading.since()) >= NEAR:
            reading = self._compare()
        if reading is None:
            return own
        stores = reading.store + reading.since()
        return stores if abs(own - stores) >= FAR else own

    def checked(self) -> int:
        """`now`, compared with the store at least once, if the store can be asked."""
        if self._reading is None:
            self._compare()
        return self.now()

    def age_limit(self, age: float, newest: float) -> float:
        """The write time, in seconds by the store's clock, of what is at least this many seconds old.

        If the time of the store is not known, that of the newest object in it is the latest that is certain.
        """
        own, reading = self._read_own(), self._reading
        if reading is None:
            return min(own / SECOND, newest) - age
        stores = reading.store + reading.since()
        return (own if abs(own - stores) < NEAR else stores) / SECOND - age

    @property
    def is_confirmed(self) -> bool:
        """Whether `now` is right for certain: the store has a clock of its own, or contradicts ours."""
        reading = self._reading
        return reading is not None and (self._store.has_own_clock or abs(reading.own - reading.store) >= FAR)

    def learn(self, modified: float | None) -> None:
        """Compare the clocks by the modification time of an object that was just written; None is of no use."""
        if modified is not None:
            self._reading = _Reading(self._read_own(), int(modified * SECOND), time.monotonic())

    def _compare(self) -> _Reading | None:
        """Ask the store for the time. If it does not say, what it said before is of no use either."""
        modified = read_clock(self._store)
        if modified is None:
            self._reading = None
        self.learn(modified)
        return self._reading

    def _read_own(self) -> int:
        return time.time_ns() if self._own is None else self._own()
