"""What transactions over several pools are explored with: the rules that are kept, and all that has a state.

Surprising: what a transaction depends on is kept twice. `needs` is what the protocol knows of it, positions of
journals; `past` is what is true, and only the promises look at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Positions = tuple[int, ...]
"""A position of each pool's journal."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is explored, and which rules writers and readers keep: `False` is a planted mistake."""

    transactions: tuple[tuple[int, ...], ...] = ((0, 1), (1, 2))
    """The pools that each transaction changes, ascending."""
    singles: tuple[int, ...] = ()
    """The pools that writers of a single commit change; each commits a group of two."""
    reads: tuple[int, ...] = (0, 1, 2)
    """The pools that the reader asks for, in this order."""
    crashes: int = 1
    aborts: bool = True
    """Whether those who wait for a transaction may abort it. If not: they are patient, and there are fewer states."""
    doubts: int = 0
    """How often a put may land, or not, without its writer hearing of it; or land when its writer has gone on."""
    has_time: bool = False
    """Whether entries have times, of clocks that may be wrong, and the past is read."""
    has_vacuum: bool = False
    """Whether a vacuum takes commits that no journal refers to."""
    repeats: tuple[int, ...] = ()
    """Transactions that another process tries as well, under the same id, since it does not know the outcome."""
    branches: tuple[int, ...] = ()
    """The branch that each transaction changes in its pools; if there are none, they all change the same."""
    fixed: int = 0
    """How many of `reads` the reader takes as its cut, which stays as it is when the others join it; 0 is all."""

    decides_last: bool = True
    """The decision is created when all pending entries are there. If not: before the first of them."""
    keeps_decisions: bool = True
    """Decisions stay for good. If not: one of a transaction that nothing refers to is deleted."""
    has_dependencies: bool = True
    """A branch that is rolled forward records the positions that its reader must have reached in other pools."""
    is_transitive: bool = True
    """These include what the participants depended on before."""
    looks_again: bool = True
    """A reader asks again for the transactions that were undecided when it read. If not: once."""
    resolves_first: bool = True
    """A writer that meets a pending entry resolves it. If not: it commits onto the old tip beside it."""
    times_decisions: bool = True
    """In the past a pending entry counts from the time of its decision on. If not: from its own time on."""
    dates_resolutions: bool = True
    """An entry that resolves a pending one is not dated before the decision. If not: by the clock of its writer."""
    names_parts: bool = True
    """A decision names the commits that it is about. If not: any pending entry of its transaction counts."""
    keeps_pending: bool = True
    """A vacuum keeps what pending entries refer to."""
    hides_what_is_beyond: bool = True
    """In a pool that joins a cut, a pending entry stays out if its decision needs more than the cut has. If not: it
    counts as it was decided, and the pool is read as it was before it."""
    hides_what_was_undecided: bool = True
    """What was undecided in a cut stays out of pools that join it, where it is pending. If not: it may count."""
    hides_what_came_of_it: bool = True
    """So does what it has led to, if it was committed meanwhile. If not: only what is pending is looked at."""
    knows_the_past: bool = True
    """What the cut depends on is never taken for what came of such a transaction. If not: it may be."""
    looks_late: bool = True
    """A pool that joins is read before the reader asks what became of the undecided. If not: after."""

    def transaction_of(self, writer: int) -> int:
        """The transaction that a writer carries out."""
        count = len(self.transactions)
        return writer if writer < count else self.repeats[writer - count - len(self.singles)]

    def branch(self, txn: int) -> int:
        """The branch that a transaction changes."""
        return self.branches[txn] if self.branches else 0


Part = tuple[int, int]
"""A pool, and which attempt at the transaction made the commit that is pending there."""


class Pending(NamedTuple):
    """A pending entry."""

    txn: int
    attempt: int
    position: int
    needs: Positions
    """What its pool depended on when it was placed."""
    past: tuple[int, ...]
    """What its pool showed then, and what that came of."""


class Entry(NamedTuple):
    """A pool after an entry of its journal."""

    pending: tuple[Pending, ...]
    history: tuple[int, ...]
    needs: Positions


class Pool(NamedTuple):
    """The journal of a pool, as its newest state."""

    position: int = 0
    pending: tuple[Pending, ...] = ()
    history: tuple[int, ...] = ()
    """The operations that are in it: transactions by their numbers, single commits by `SINGLES` and more."""
    needs: Positions = ()
    past: tuple[int, ...] = ()
    """What is in it, and what that came of, also where it is not in this pool."""
    times: tuple[tuple[int, tuple[Pending, ...], tuple[int, ...]], ...] = ()
    """Of each entry: its time, what is pending and the history after it."""
    log: tuple[Entry, ...] = ()
    """Its entries, if a reader may go back to them."""

    def pending_of(self, txn: int) -> Pending | None:
        """The pending entry of a transaction."""
        return next((each for each in self.pending if each.txn == txn), None)


class Writer(NamedTuple):
    """A transaction, or a writer of a single commit."""

    phase: str = "place"
    """look (for a decision), place, decide, done, failed, gone."""
    reached: int = 0
    parts: tuple[Part, ...] = ()
    """What it has placed, or found placed by the other attempt."""


class Seen(NamedTuple):
    """What a reader takes a pool for."""

    position: int
    history: tuple[int, ...]
    needs: Positions
    undecided: tuple[int, ...] = ()
    """Pending transactions that it leaves out."""


NOWHERE = Seen(-1, (), ())
"""What a reader takes a pool for that it cannot read in its cut."""


class Joining(NamedTuple):
    """How far a reader is that takes one more pool into its cut."""

    undecided: tuple[int, ...] | None = None
    """What was undecided in the pool when it was read; None if it has not been."""
    position: int = 0
    late: tuple[int, ...] | None = None
    """What was undecided in the cut, and is committed by now; None if the reader has not asked."""


class Reader(NamedTuple):
    """A reader of several pools."""

    reached: int = 0
    cut: tuple[Seen | None, ...] = ()
    """By pool."""
    is_accepted: bool = False
    joining: Joining = Joining()


class State(NamedTuple):
    """Everything."""

    pools: tuple[Pool, ...]
    decisions: tuple[str, ...]
    """Of each transaction: "" if there is none, "committed" or "aborted"."""
    decided_at: tuple[int, ...]
    decided_parts: tuple[tuple[Part, ...], ...]
    decided_needs: tuple[Positions, ...]
    """What each decision depends on."""
    decided_past: tuple[tuple[int, ...], ...]
    writers: tuple[Writer, ...]
    reader: Reader
    late: tuple[tuple[int, tuple[Part, ...]], ...] = ()
    """Transactions whose decision is on its way although its writer has given it up; and what it is about."""
    crashes: int = 0
    doubts: int = 0
    clock: int = 0
    vacuumed: tuple[int, ...] = ()
    """Transactions whose commits a vacuum has taken."""


POOLS = 3
SINGLES = 100
MOST_TIME = 3
"""Clocks show 0 to this."""


def start(rules: Rules) -> State:
    """The beginning."""
    nothing = (0,) * POOLS
    return State(
        tuple(Pool(needs=nothing, log=(Entry((), (), nothing),) if rules.fixed else ()) for _ in range(POOLS)),
        ("",) * len(rules.transactions),
        (0,) * len(rules.transactions),
        ((),) * len(rules.transactions),
        (nothing,) * len(rules.transactions),
        ((),) * len(rules.transactions),
        (*(Writer(),) * (len(rules.transactions) + len(rules.singles)), *(Writer("look"),) * len(rules.repeats)),
        Reader(0, (None,) * POOLS),
        crashes=rules.crashes,
        doubts=rules.doubts,
    )


def with_writer(state: State, number: int, writer: Writer) -> State:
    """The state in which a writer has got on."""
    return state._replace(writers=put(state.writers, number, writer))


def joined(one: Positions, other: Positions) -> Positions:
    """All of these dependencies."""
    return tuple(map(max, one, other))


def put(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    """A tuple with another item at an index."""
    return (*items[:index], item, *items[index + 1 :])


def union(*sets: tuple[int, ...]) -> tuple[int, ...]:
    """What is in any of some sets, ascending."""
    return tuple(sorted({each for one in sets for each in one}))


def is_committed(rules: Rules, state: State, number: int, pending: Pending) -> bool:
    """Whether a decision makes a pending entry count."""
    if state.decisions[pending.txn] != "committed":
        return False
    return not rules.names_parts or (number, pending.attempt) in state.decided_parts[pending.txn]
