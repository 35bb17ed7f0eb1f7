"""Consistent cuts: the states in which a query sees the branches of several pools.

A cut shows a transaction over several pools in all of them, or in none. Pools are read one after the other, so a cut
has to be checked once all of them were read; if it is not consistent, they are read again.

A cut can be fixed. Then what it shows stays as it is, and a pool that joins later is read as it was when it went with
the others: without what was undecided in them, and without what came of that. The model proves the rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from shoal.errors import Conflict, CorruptData
from shoal.ids import Id, to_text
from shoal.lake.branches import Refs
from shoal.lake.decisions import Decision, Positions
from shoal.lake.journal import Counts, Journal, Settled, State
from shoal.lake.pending import Pending, needs_in, pending_in
from shoal.model.node import frozen
from shoal.storage.backoff import backoff


@frozen
class Taken:
    """What a pool was taken for in a cut. It is plain data, of which the cut can be made again elsewhere."""

    pool: Id
    position: int
    hidden: tuple[Id, ...] = ()
    """The transactions that were pending there, and do not count."""


@dataclass(slots=True)
class _Seen:
    """What a pool was taken for."""

    journal: Journal
    settled: Settled
    counts: Counts | None = None
    """Which decisions count, if not all."""

    @property
    def position(self) -> int:
        return self.settled.state.position

    @property
    def needs(self) -> dict[Id, int]:
        return needs_in(self.settled.state.entries)

    @property
    def hidden(self) -> tuple[Id, ...]:
        return tuple(dict.fromkeys(each.txn for each in self.settled.undecided))

    def has_changed(self) -> bool:
        """Whether a transaction that was undecided when the pool was read has been decided."""
        waiting = self.settled.undecided
        return bool(waiting) and self.journal.settled(self.settled.state, self.counts).undecided != waiting


@dataclass(slots=True)
class Cut:
    """The states of pools, each read when it is asked for first."""

    is_fixed: bool = False
    """Whether the states stay as they are."""
    _known: dict[Id, int] = field(default_factory=dict)
    """Of a fixed cut: what its pools depend on."""
    _hidden: set[Id] = field(default_factory=set)
    """Of a fixed cut: the transactions that do not count in it."""
    _pools: dict[Id, _Seen] = field(default_factory=dict)
    _past: dict[tuple[Id, int], _Seen] = field(default_factory=dict)
    """Pools at times in the past, which are read again for each query."""

    def refs(self, pool: Id, journal: Journal) -> Refs:
        """The branches and tags of a pool."""
        seen = self._pools.get(pool)
        if seen is None:
            if self.is_fixed:
                seen = _Seen(journal, _Joining(pool, journal, self._pools, self._known, self._hidden).settled())
                self._bind(seen)
            else:
                seen = _Seen(journal, journal.settled())
            self._pools[pool] = seen
        return Refs(seen.settled.state)

    def fix(self) -> None:
        """Let what the cut shows stay as it is. It has to be consistent."""
        if not self.is_fixed:
            self.is_fixed = True
            for seen in self._pools.values():
                self._bind(seen)

    def _bind(self, seen: _Seen) -> None:
        for pool, position in seen.needs.items():
            self._known[pool] = max(position, self._known.get(pool, 0))
        self._hidden.update(seen.hidden)

    def refs_at(self, pool: Id, journal: Journal, position: int, until: int) -> Refs:
        """The branches and tags of a pool at a position, as they were decided by a time in the past."""

        def counts(decision: Decision) -> bool:
            return decision.at <= until

        settled = journal.settled(journal.at_position(position), counts)
        self._past[pool, until] = _Seen(journal, settled, counts)
        return Refs(settled.state)

    def position(self, pool: Id) -> int | None:
        """The position of the journal at which a pool was read; None if it was not, or for its past only."""
        seen = self._pools.get(pool)
        return None if seen is None else seen.position

    def taken(self) -> tuple[Taken, ...]:
        """What each pool was taken for."""
        return tuple(Taken(pool, seen.position, seen.hidden) for pool, seen in self._pools.items())

    @property
    def is_decided(self) -> bool:
        """Whether nothing that was read waits for a decision: then it stays right as long as no journal moves."""
        return not any(seen.settled.undecided for seen in self._all())

    def is_consistent(self) -> bool:
        """Whether every pool was read at or past what the others depend on, and no transaction was decided since."""
        if self.is_fixed:
            return not any(seen.has_changed() for seen in self._past.values())
        if len(self._pools) + len(self._past) < 2:
            return True
        for seen in self._pools.values():
            for pool, position in seen.needs.items():
                other = self._pools.get(pool)
                if other is not None and other.position < position:
                    _require_reached(pool, other.journal, position)
                    return False
        return not any(seen.has_changed() for seen in self._all())

    def read_again(self) -> None:
        """Read all pools again, until they are consistent. Those of the past are read when they are asked for."""
        self._past = {}
        if not self.is_fixed:
            self._pools = {pool: _Seen(seen.journal, seen.journal.settled()) for pool, seen in self._pools.items()}

    def waiting_for(self, places: Collection[tuple[Id, str]]) -> Iterator[tuple[Journal, tuple[Pending, ...]]]:
        """What waits for a decision to move one of some branches, by the journals of their pools."""
        for pool, seen in self._pools.items():
            pending = tuple(each for each in seen.settled.undecided if (pool, each.branch) in places)
            if pending:
                yield seen.journal, pending

    def _all(self) -> Iterator[_Seen]:
        yield from self._pools.values()
        yield from self._past.values()


class _Joining:
    """A pool on its way into a fixed cut."""

    def __init__(
        self, pool: Id, journal: Journal, others: Mapping[Id, _Seen], known: Positions, hidden: Iterable[Id]
    ) -> None:
        self._pool = pool
        self._journal = journal
        self._others = others
        self._known = known
        self._newest = journal.read()
        undecided = {each.txn for each in journal.settled(self._newest).undecided}
        self._hidden = undecided.union(hidden)
        # To be asked only now: what came of a decision that is not there yet cannot be in what was read.
        self._late = [late for txn in hidden if (late := journal.decision(txn)) is not None and late.is_committed]

    def settled(self) -> Settled:
        """The newest state that goes with the cut."""
        newest = self._newest
        state = newest if self._goes(newest) else self._before(newest.position)
        least = self._known.get(self._pool, 0)
        if state.position < least:
            _require_reached(self._pool, self._journal, least)
            raise Conflict(
                f"pool {to_text(self._pool)} can no longer be read as it was when the transaction began (begin again)"
            )
        return self._journal.settled(state, self._counts)

    def _before(self, position: int) -> State:
        """The newest state before a position that goes with the cut. The dependencies of a pool only grow."""
        low, high = 0, position - 1
        while low < high:
            middle = (low + high + 1) // 2
            goes = self._goes(self._journal.at_position(middle))
            low, high = (middle, high) if goes else (low, middle - 1)
        return self._journal.at_position(low)

    def _goes(self, state: State) -> bool:
        return self._is_within(needs_in(state.entries)) and not any(self._has(state, each) for each in self._late)

    def _counts(self, decision: Decision) -> bool:
        return decision.txn not in self._hidden and self._is_within(decision.needs)

    def _is_within(self, needs: Positions) -> bool:
        """Whether what depends on these positions can be shown beside the cut."""
        if _covers(self._known, needs):
            return True  # the cut depends on it already
        if any(pool in self._others and self._others[pool].position < position for pool, position in needs.items()):
            return False
        return not any(_covers(needs, late.needs) for late in self._late)

    def _has(self, state: State, late: Decision) -> bool:
        """Whether a state is one after a transaction was rolled forward."""
        if state.position < late.needs.get(self._pool, 0) or not late.parts_in(self._pool):
            return False
        return all(each.txn != late.txn for each in pending_in(state.entries))


def _covers(needs: Positions, others: Positions) -> bool:
    """Whether who has reached some positions has reached the others as well."""
    return all(needs.get(pool, 0) >= position for pool, position in others.items())


def _require_reached(pool: Id, journal: Journal, position: int) -> None:
    """CorruptData if a pool has lost entries that another pool depends on: to read it again would not help."""
    if journal.read().position < position:
        raise CorruptData(
            f"pool {to_text(pool)}: its journal has lost entries of transactions with other pools (restore it from a "
            "backup)"
        )


def fixed_cut(taken: Iterable[Taken], journal_of: Callable[[Id], Journal | None]) -> Cut:
    """A cut that was read before, perhaps by another process, without pools that are gone."""
    pools: dict[Id, _Seen] = {}
    for each in taken:
        journal = journal_of(each.pool)
        if journal is not None:
            pools[each.pool] = _Seen(journal, _settled_as(journal, each))
    cut = Cut(_pools=pools)
    cut.fix()
    return cut


def _settled_as(journal: Journal, taken: Taken) -> Settled:
    return journal.settled(journal.at_position(taken.position), lambda decision: decision.txn not in taken.hidden)


def read_cut(pools: Iterable[tuple[Id, Journal]], places: Collection[tuple[Id, str]] = ()) -> Cut:
    """A consistent cut of some pools, which is fixed. It waits for transactions that would move one of these branches.

    What is pending on other branches is not in it, whatever becomes of it.
    """
    cut = Cut()
    for pool, journal in pools:
        cut.refs(pool, journal)
    for pause in backoff():
        waiting = list(cut.waiting_for(places))
        if not waiting and cut.is_consistent():
            break
        for journal, pending in waiting:
            journal.wait(pending, pause)
        if not waiting:
            time.sleep(pause)
        cut.read_again()
    cut.fix()
    return cut
