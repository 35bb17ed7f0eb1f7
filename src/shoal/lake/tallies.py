"""Tallies: what a commit did in records, as it is stored with the commit and shown by the log.

A tally is a statement of the writer of the commit, not a fact that a reader relies on. None means that nobody knows.
The functions here count by descriptions alone; `record_changes` compares records where that is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.errors import CorruptData
from shoal.lake.actions import Patch
from shoal.model import types as t
from shoal.model.fields import get_data
from shoal.model.node import frozen
from shoal.model.values import Value

_RECORDS = t.record((("added", t.UINT64), ("deleted", t.UINT64), ("updated", t.UINT64)))


@frozen
class Tally:
    """How many records a commit added, deleted and updated."""

    added: int = 0
    deleted: int = 0
    updated: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.added + other.added, self.deleted + other.deleted, self.updated + other.updated)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.added - other.added, self.deleted - other.deleted, self.updated - other.updated)

    def inverse(self) -> Tally:
        """That of a change which takes this one back."""
        return Tally(self.deleted, self.added, self.updated)


NO_RECORDS = Tally()
Count = Callable[[Patch], Tally | None]
"""Counts what a patch does, as it lands."""


def total(tallies: Iterable[Tally | None]) -> Tally | None:
    """The sum; None if one is unknown."""
    result = NO_RECORDS
    for tally in tallies:
        if tally is None:
            return None
        result = result + tally
    return result


# ---- by descriptions


def rows_of(patch: Patch) -> tuple[int, int]:
    """How many rows a patch takes away and how many it brings, wherever they were or are elsewhere."""
    gone, come = sum(o.count for o in patch.deletes), sum(o.count for o in patch.adds)
    for mask in patch.masks:
        change = mask.object.count - mask.before.count
        gone, come = gone - min(change, 0), come + max(change, 0)
    return gone, come


def one_sided(patch: Patch) -> Tally | None:
    """The tally of a patch that only brings rows, or only takes some away."""
    gone, come = rows_of(patch)
    return None if gone and come else Tally(come, gone)


def of_deletion(patch: Patch) -> Tally:
    """The tally of a deletion: what it adds are rows of objects that were written again."""
    gone, come = rows_of(patch)
    return Tally(0, gone - come)


def of_upsert(patch: Patch) -> Tally:
    """The tally of an upsert: each record that it takes away makes room for a new one."""
    gone, come = rows_of(patch)
    return Tally(come - gone, 0, gone)


def of_update(patch: Patch) -> Tally:
    """The tally of an update where no key tells which record became which."""
    gone, come = rows_of(patch)
    both = min(gone, come)
    return Tally(come - both, gone - both, both)


def of_maintenance(patch: Patch) -> Tally:
    """The tally of a patch that only moves rows."""
    return NO_RECORDS


def exactly(tally: Tally | None) -> Count:
    """A tally that is known before."""
    return lambda patch: tally


# ---- as values


def show_tally(tally: Tally) -> Value:
    """A tally as commits store it."""
    return Value(_RECORDS, (tally.added, tally.deleted, tally.updated))


def parse_tally(value: Value | None, where: str) -> Tally | None:
    """The tally in a commit; None if there is none."""
    if value is None or value.data is None:
        return None
    counts = [get_data(value, name, where) for name in ("added", "deleted", "updated")]
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise CorruptData(f"{where}: the counts of records are not numbers")
    return Tally(*counts)
