"""When a group of records is given up. The data decides, never the clock of a machine: so all runs agree.

A group expires at the first raw record that comes so much later than its newest one: by `kafka.timestamp`, of which the
greatest that any record had so far counts, or by number. That record need not belong to the group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

from shoal.model.node import frozen

Item = tuple[int, int | None]
"""The number of a record, and its timestamp in nanoseconds."""
Reason = Literal["after", "records", "late"]


class Clock:
    """The greatest timestamp up to each record of a round. A timestamp is rounded down to a multiple of a tick."""

    def __init__(self, start: int | None = None, begin: int = 1, ticks: Iterable[tuple[int, int]] = ()) -> None:
        self.begin = begin
        """The number of the first record of the round."""
        self._numbers: list[int] = []
        self._times: list[int] = []
        self._start = self.now = start
        for number, time in sorted(ticks):
            if self.now is None or time > self.now:
                self._numbers.append(number)
                self._times.append(time)
                self.now = time

    def passes(self, time: int) -> int | None:
        """The number of the first record of the round at which the clock is past a time; None if it is not."""
        if self.now is None or self.now <= time:
            return None
        if self._start is not None and self._start > time:
            return self.begin
        return self._numbers[bisect_right(self._times, time)]


@frozen
class Limits:
    """How long a group is waited for after its newest record."""

    after: int | None = None
    """Nanoseconds."""
    records: int | None = None

    @property
    def tick(self) -> int | None:
        """How exact the clock has to be."""
        return None if self.after is None else max(1, self.after // 1000)

    def end(self, items: Sequence[Item], clock: Clock) -> tuple[int, Reason] | None:
        """The number at which a group expires if nothing is added to it, and why; None if it is not known yet."""
        last = items[-1][0]
        by_time = None
        times = [time for _, time in items if time is not None] if self.after is not None else []
        if times and self.after is not None:
            passed = clock.passes(max(times) + self.after)
            by_time = None if passed is None else max(passed, last + 1)
        by_count = None if self.records is None else last + self.records + 1
        if by_time is not None and (by_count is None or by_time <= by_count):
            return by_time, "after"
        return None if by_count is None else (by_count, "records")

    def gap(self, items: Sequence[Item], clock: Clock) -> tuple[int, Reason] | None:
        """How many records of a group came before it expired, and why, if others came after that."""
        if self._has_no_gap(items, clock):
            return None
        for n in range(1, len(items)):
            if items[n][0] < clock.begin:
                continue  # it has been looked at in a round before
            end = self.end(items[:n], clock)
            if end is not None and end[0] <= items[n][0]:
                return n, end[1]
        return None

    def _has_no_gap(self, items: Sequence[Item], clock: Clock) -> bool:
        """Whether it is plain that there is none, as it nearly always is."""
        if len(items) < 2:
            return True
        if self.records is not None and items[-1][0] - items[0][0] > self.records:
            return False
        times = [time for _, time in items if time is not None] if self.after is not None else []
        return self.after is None or not times or clock.passes(min(times) + self.after) is None
