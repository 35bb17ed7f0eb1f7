"""Consistent cuts: the states in which a query sees the branches of several pools.

A cut shows a transaction over several pools in all of them, or in none. Pools are read one after the other, so a cut
has to be checked once all of them were read; if it is not consistent, they are read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from shoal.errors import CorruptData
from shoal.ids import Id, to_text
from shoal.lake.branches import Refs
from shoal.lake.journal import Journal, Settled
from shoal.lake.pending import needs_in
from shoal.storage.backoff import backoff


@dataclass(slots=True)
class _Seen:
    """What a pool was taken for."""

    journal: Journal
    settled: Settled
    until: int | None = None
    """A time in the past that it was read at, in nanoseconds since 1970."""

    @property
    def position(self) -> int:
        return self.settled.state.position

    @property
    def needs(self) -> dict[Id, int]:
        return needs_in(self.settled.state.entries)

    def has_changed(self) -> bool:
        """Whether a transaction that was undecided when the pool was read has been decided."""
        waiting = self.settled.undecided
        return bool(waiting) and self.journal.settled(self.settled.state, self.until).undecided != waiting


@dataclass(slots=True)
class Cut:
    """The states of pools, each read when it is asked for first."""

    is_fixed: bool = False
    """Whether the states stay as they are: a pool that joins later is read as it was when it went with the others."""
    _pools: dict[tuple[Id, int | None], _Seen] = field(default_factory=dict)

    def refs(self, pool: Id, journal: Journal) -> Refs:
        """The branches and tags of a pool."""
        seen = self._pools.get((pool, None))
        if seen is None:
            settled = self._within(pool, journal) if self.is_fixed else journal.settled()
            seen = self._pools[pool, None] = _Seen(journal, settled)
        return Refs(seen.settled.state)

    def refs_at(self, pool: Id, journal: Journal, position: int, until: int) -> Refs:
        """The branches and tags of a pool at a position, as they were decided by a time in the past."""
        settled = journal.settled(journal.at_position(position), until)
        self._pools[pool, until] = _Seen(journal, settled, until)
        return Refs(settled.state)

    def put(self, pool: Id, journal: Journal, position: int) -> None:
        """Take a pool for what it was at a position."""
        self._pools[pool, None] = _Seen(journal, journal.settled(journal.at_position(position)))

    def position(self, pool: Id) -> int | None:
        """The position of the journal at which a pool was read; None if it was not, or for its past only."""
        seen = self._pools.get((pool, None))
        return None if seen is None else seen.position

    @property
    def is_decided(self) -> bool:
        """Whether nothing that was read waits for a decision: then it stays right as long as no journal moves."""
        return not any(seen.settled.undecided for seen in self._pools.values())

    def is_consistent(self) -> bool:
        """Whether every pool was read at or past what the others depend on, and no transaction was decided since."""
        if self.is_fixed or (len(self._pools) < 2):
            return True
        now = {pool: seen for (pool, until), seen in self._pools.items() if until is None}
        for seen in now.values():
            behind = [pool for pool, position in seen.needs.items() if pool in now and now[pool].position < position]
            for pool in behind:
                _require_reached(pool, now[pool].journal, seen.needs[pool])
            if behind:
                return False
        return not any(seen.has_changed() for seen in self._pools.values())

    def read_again(self) -> None:
        """Read all pools again, until they are consistent. Those of the past are read when they are asked for."""
        journals = {pool: seen.journal for (pool, until), seen in self._pools.items() if until is None}
        self._pools = {}
        for pool, journal in journals.items():
            self.refs(pool, journal)

    def _within(self, pool: Id, journal: Journal) -> Settled:
        """The newest state of a pool that depends on nothing beyond this cut."""
        newest = journal.decided()
        if self._goes_with(newest):
            return newest
        low, high = 0, newest.state.position - 1
        while low < high:
            middle = (low + high + 1) // 2
            goes = self._goes_with(journal.settled(journal.at_position(middle)))
            low, high = (middle, high) if goes else (low, middle - 1)
        return journal.settled(journal.at_position(low))

    def _goes_with(self, settled: Settled) -> bool:
        needs = needs_in(settled.state.entries)
        return all(seen.position >= needs.get(pool, 0) for (pool, until), seen in self._pools.items() if until is None)


def _require_reached(pool: Id, journal: Journal, position: int) -> None:
    """CorruptData if a pool has lost entries that another pool depends on: to read it again would not help."""
    if journal.read().position < position:
        raise CorruptData(
            f"pool {to_text(pool)}: its journal has lost entries of transactions with other pools (restore it from a "
            "backup)"
        )


def fixed_at(pools: Iterable[tuple[Id, Journal, int]]) -> Cut:
    """A cut that was read before: pools at positions of their journals."""
    cut = Cut(is_fixed=True)
    for pool, journal, position in pools:
        cut.put(pool, journal, position)
    return cut


def read_cut(pools: Iterable[tuple[Id, Journal]]) -> Cut:
    """A consistent cut of some pools, in which nothing waits for a decision. It stays as it is."""
    pools = list(pools)
    for _ in chain((0.0,), backoff()):
        cut = Cut()
        for _, journal in pools:
            journal.decided()
        for pool, journal in pools:
            cut.refs(pool, journal)
        if cut.is_decided and cut.is_consistent():
            cut.is_fixed = True
            return cut
    raise AssertionError
