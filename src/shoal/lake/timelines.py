"""The timeline of a journal: what entries count as made when, although some bear the time of a wrong clock.

An entry that goes back in time corrects those before it. Corrections are kept under one key of the journal, so the
newest state has all of them. See `docs/adr/0025-clocks-of-commits.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from shoal.errors import CorruptData
from shoal.model import types as t
from shoal.model.fields import get_data, get_or, time_value, uint64
from shoal.model.node import frozen
from shoal.model.values import Value, record

CLOCK = "clock"
MOST = 64
"""How many corrections are kept."""


@frozen
class Correction:
    """The entries from `first` to `last` count as made at a time, in nanoseconds since 1970."""

    first: int
    last: int
    at: int
    high: int | None = None
    """The time that `last` bore. When it is reached, the correction is settled; None: it is."""

    def covers(self, position: int) -> bool:
        """Whether it is about an entry."""
        return self.first <= position <= self.last

    def is_minority(self, newest: int) -> bool:
        """Whether fewer entries have come after it than it corrects: then those are the wrong ones."""
        return newest - self.last < self.last - self.first + 1


@frozen
class Timeline:
    """The corrections of a journal, in the order of their entries. A later one overrides an earlier one."""

    corrections: tuple[Correction, ...] = ()

    def time(self, position: int) -> int | None:
        """The time that an entry counts by; None if that is its own."""
        return next((each.at for each in reversed(self.corrections) if each.covers(position)), None)

    def is_doubtful(self, ns: int, newest: int) -> bool:
        """Whether a moment is between two readings of a clock of which the right one is still open."""
        return any(
            each.high is not None and each.at <= ns < each.high and each.is_minority(newest)
            for each in self.corrections
        )

    def going_back(self, first: int, last: int, at: int, high: int | None) -> Timeline:
        """The timeline after an entry at a time before that of the entries from `first` to `last`."""
        return Timeline(_limited((*self.corrections, Correction(first, last, at, high))))

    def settled(self, newest: int, at: int) -> Timeline:
        """The timeline before an entry at a time, which may be the one that corrected entries bore."""
        for number, each in enumerate(self.corrections):
            if each.high is None or each.high > at:
                continue
            earlier = self.corrections[:number]
            if each.is_minority(newest):
                return Timeline((*earlier, Correction(each.last + 1, newest, at)))
            return Timeline((*earlier, replace(each, high=None), *self.corrections[number + 1 :])).settled(newest, at)
        return self


def _limited(corrections: tuple[Correction, ...]) -> tuple[Correction, ...]:
    """Corrections, the closest two as one if there are too many."""
    if len(corrections) <= MOST:
        return corrections
    visible = [
        replace(each, high=None)
        for number, each in enumerate(corrections)
        if not any(later.covers(each.first) for later in corrections[number + 1 :])
    ]
    if len(visible) <= MOST:
        return tuple(visible)
    one, two = min(pairwise(visible), key=lambda pair: pair[1].at - pair[0].at)
    merged = Correction(one.first, two.last, two.at)
    return tuple(merged if each is one else each for each in visible if each is not two)


# ---- as values


def timeline_of(entries: Mapping[str, Value]) -> Timeline:
    """The timeline that the state of a journal holds."""
    value = entries.get(CLOCK)
    if value is None:
        return Timeline()
    if not isinstance(value.type, t.Array):
        raise CorruptData(f"{CLOCK}: not a list of corrections")
    return Timeline(tuple(_parse(Value(value.type.elem, data)) for data in value.data))


def _parse(value: Value) -> Correction:
    first, last, at = (get_data(value, name, CLOCK) for name in ("first", "last", "at"))
    return Correction(first, last, at, get_or(value, "high", None))


def format_timeline(timeline: Timeline) -> Value:
    """A timeline as it is stored."""
    rows = [_format(each) for each in timeline.corrections]
    return Value(t.array(rows[0].type), tuple(row.data for row in rows))


def _format(c: Correction) -> Value:
    return record([
        ("first", uint64(c.first)),
        ("last", uint64(c.last)),
        ("at", time_value(c.at)),
        ("high", Value(t.TIME, c.high)),
    ])  # fmt: skip
