"""Transactions over several pools as a state machine, and all the states that it can reach.

A pool is a journal of slots. A transaction puts a pending entry into each of its pools, in the order of their ids, then
creates its decision by a put-if-missing, and then its pools are rolled forward, by any client that meets them. Beside
it other writers commit to single pools, alone or as a group, and readers look at several pools at once or at a time of
the past.

Surprising: the clocks do not matter for what is right, only for how soon somebody else aborts. And nobody has to repeat
the put of a decision: a put that is late lands where nothing is, or loses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
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
    doubts: int = 0
    """How often a put may land, or not, without its writer hearing of it; or land when its writer has gone on."""
    has_time: bool = False
    """Whether entries have times, of clocks that may be wrong, and the past is read."""
    has_vacuum: bool = False
    """Whether a vacuum takes commits that no journal refers to."""
    repeats: tuple[int, ...] = ()
    """Transactions that another process tries as well, under the same id, since it does not know the outcome."""

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


Part = tuple[int, int]
"""A pool, and which attempt at the transaction made the commit that is pending there."""


class Pending(NamedTuple):
    """A pending entry."""

    txn: int
    attempt: int
    needs: Positions | None
    """The dependencies in the decision, known when all pending entries are there."""


class Pool(NamedTuple):
    """The journal of a pool, as its newest state."""

    position: int = 0
    pending: Pending | None = None
    history: tuple[int, ...] = ()
    """The operations that are in it: transactions by their numbers, single commits by `_SINGLES` and more."""
    needs: Positions = ()
    times: tuple[tuple[int, Pending | None, tuple[int, ...]], ...] = ()
    """Of each entry: its time, what is pending and the history after it."""


class Writer(NamedTuple):
    """A transaction, or a writer of a single commit."""

    phase: str = "place"
    """look (for a decision), place, decide, done, failed, gone."""
    reached: int = 0
    parts: tuple[Part, ...] = ()
    """What it has placed, or found placed by the other attempt."""


class Reader(NamedTuple):
    """A reader of several pools."""

    reached: int = 0
    cut: tuple[tuple[int, tuple[int, ...], Positions, int | None] | None, ...] = ()
    """What it took each pool for: position, history, dependencies, and the transaction that was undecided."""


class State(NamedTuple):
    """Everything."""

    pools: tuple[Pool, ...]
    decisions: tuple[str, ...]
    """Of each transaction: "" if there is none, "committed" or "aborted"."""
    decided_at: tuple[int, ...]
    decided_parts: tuple[tuple[Part, ...], ...]
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
_SINGLES = 100
MOST_TIME = 3
"""Clocks show 0 to this."""


def start(rules: Rules) -> State:
    """The beginning."""
    nothing = (0,) * POOLS
    return State(
        tuple(Pool(needs=nothing) for _ in range(POOLS)),
        ("",) * len(rules.transactions),
        (0,) * len(rules.transactions),
        ((),) * len(rules.transactions),
        (*(Writer(),) * (len(rules.transactions) + len(rules.singles)), *(Writer("look"),) * len(rules.repeats)),
        Reader(0, (None,) * POOLS),
        crashes=rules.crashes,
        doubts=rules.doubts,
    )


class Step(NamedTuple):
    """What may happen next."""

    what: str
    after: State


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """All that may happen."""
    for number, writer in enumerate(state.writers):
        if writer.phase in ("done", "failed", "gone"):
            continue
        yield from _writer_steps(rules, state, number, writer)
        if state.crashes:
            gone = _with_writer(state, number, Writer("gone"))
            yield Step(f"writer {number} dies", gone._replace(crashes=state.crashes - 1))
    yield from _anybody(rules, state)
    yield from _reader_steps(rules, state)


# ---- writers


def _writer_steps(rules: Rules, state: State, number: int, writer: Writer) -> Iterator[Step]:
    count = len(rules.transactions)
    if count <= number < count + len(rules.singles):
        yield from _single_steps(rules, state, number)
        return
    txn = _transaction_of(rules, number)
    attempt = 0 if number < count else 1
    if writer.phase == "place":
        yield from _place(rules, state, number, writer, txn, attempt)
    else:
        yield from _decide(rules, state, number, writer, txn)


def _transaction_of(rules: Rules, number: int) -> int:
    """The transaction that a writer carries out."""
    count = len(rules.transactions)
    return number if number < count else rules.repeats[number - count - len(rules.singles)]


def _place(rules: Rules, state: State, who: int, writer: Writer, txn: int, attempt: int) -> Iterator[Step]:
    parts = rules.transactions[txn]
    name = f"T{txn}" if not attempt else f"T{txn} once more"
    if not rules.decides_last and writer.reached == 0 and not state.decisions[txn]:
        everywhere = tuple((part, attempt) for part in parts)
        yield Step(f"{name} decides before its entries", _decided(state, txn, "committed", rules, everywhere))
        return
    if writer.reached == len(parts):
        decides = Writer("decide", parts=writer.parts)
        yield Step(f"{name} has placed its entries", _with_writer(state, who, decides))
        return
    number = parts[writer.reached]
    pool = state.pools[number]
    if pool.pending is not None and pool.pending.txn == txn:
        places = Writer("place", writer.reached + 1, (*writer.parts, (number, pool.pending.attempt)))
        yield Step(f"{name} finds its entry in {number}", _with_writer(state, who, places))
        return
    if pool.pending is not None and rules.resolves_first:
        yield from _meet(rules, state, number)
        return
    if rules.has_vacuum and txn in state.vacuumed:
        # The mark of a vacuum is in the journal before anything goes: who meets it writes its data again, or fails.
        yield Step(f"{name} finds its commits gone", _with_writer(state, who, Writer("failed")))
        return
    for now in _clocks(rules, state):
        entry = pool._replace(position=pool.position + 1, pending=Pending(txn, attempt, None))
        placed = _entered(state, number, entry, now)
        reached = Writer("place", writer.reached + 1, (*writer.parts, (number, attempt)))
        yield Step(f"{name} places its entry in {number}", _with_writer(placed, who, reached))
        if state.doubts:  # the answer is lost: it looks for its entry, which others may have resolved by then
            yield Step(f"{name} hears nothing from {number}", placed._replace(doubts=state.doubts - 1))


def _decide(rules: Rules, state: State, who: int, writer: Writer, txn: int) -> Iterator[Step]:
    decision = state.decisions[txn]
    if decision == "committed":
        yield Step(f"T{txn} is acknowledged", _with_writer(state, who, Writer("done")))
    elif decision == "aborted":
        yield Step(f"T{txn} finds that it was aborted", _with_writer(state, who, Writer("failed")))
    elif writer.phase == "look":
        yield Step(f"T{txn} is tried once more", _with_writer(state, who, Writer()))
    else:
        yield Step(f"T{txn} is decided", _decided(state, txn, "committed", rules, writer.parts))
    if writer.phase == "decide" and not decision and state.doubts:
        # The put is on its way, and its writer tells its caller that the outcome is unknown.
        given_up = _with_writer(state, who, Writer("gone"))
        late = tuple(sorted({*state.late, (txn, writer.parts)}))
        yield Step(f"T{txn} gives its decision up", given_up._replace(late=late, doubts=state.doubts - 1))


def _single_steps(rules: Rules, state: State, number: int) -> Iterator[Step]:
    """A group of two commits: one entry, so that both are there or none."""
    where = rules.singles[number - len(rules.transactions)]
    pool = state.pools[where]
    if _SINGLES + 2 * number in pool.history:
        yield Step(f"writer {number} finds its own entry", _with_writer(state, number, Writer("done")))
        return
    if pool.pending is not None and rules.resolves_first:
        yield from _meet(rules, state, where)
        return
    for now in _clocks(rules, state):
        history = (*pool.history, _SINGLES + 2 * number, _SINGLES + 2 * number + 1)
        entered = _entered(state, where, pool._replace(position=pool.position + 1, history=history), now)
        yield Step(f"writer {number} commits a group", _with_writer(entered, number, Writer("done")))
        if state.doubts:  # the answer is lost: it reads the slot again
            yield Step(f"writer {number} hears nothing", entered._replace(doubts=state.doubts - 1))


def _meet(rules: Rules, state: State, number: int) -> Iterator[Step]:
    """A writer meets a pending entry: it rolls forward or back, or aborts what has taken too long."""
    pending = state.pools[number].pending
    assert pending is not None
    if state.decisions[pending.txn]:
        for now in _clocks(rules, state):
            yield Step(f"T{pending.txn} is resolved in {number}", _resolved(rules, state, number, now))
    else:
        yield Step(f"T{pending.txn} is aborted", _decided(state, pending.txn, "aborted", rules))


# ---- what anybody may do, at any time


def _anybody(rules: Rules, state: State) -> Iterator[Step]:
    for number, pool in enumerate(state.pools):
        if pool.pending is not None:
            yield from _meet(rules, state, number)
    for txn, parts in state.late:
        left = tuple(each for each in state.late if each != (txn, parts))
        after = state if state.decisions[txn] else _decided(state, txn, "committed", rules, parts)
        yield Step(f"the decision of T{txn} arrives", after._replace(late=left))
    for txn, decision in enumerate(state.decisions):
        is_pending = any(pool.pending is not None and pool.pending.txn == txn for pool in state.pools)
        if not rules.keeps_decisions and decision == "aborted" and not is_pending:
            forgotten = _put(state.decisions, txn, "")
            yield Step(f"the decision of T{txn} is deleted", state._replace(decisions=forgotten))
        if rules.has_vacuum and txn not in state.vacuumed and not _is_kept(rules, state, txn):
            taken = tuple(sorted({*state.vacuumed, txn}))
            yield Step(f"a vacuum takes the commits of T{txn}", state._replace(vacuumed=taken))


def _is_kept(rules: Rules, state: State, txn: int) -> bool:
    in_history = any(txn in pool.history for pool in state.pools)
    is_pending = any(pool.pending is not None and pool.pending.txn == txn for pool in state.pools)
    return in_history or (is_pending and rules.keeps_pending)


def _is_committed(rules: Rules, state: State, number: int, pending: Pending) -> bool:
    """Whether a decision makes a pending entry count."""
    if state.decisions[pending.txn] != "committed":
        return False
    return not rules.names_parts or (number, pending.attempt) in state.decided_parts[pending.txn]


def _resolved(rules: Rules, state: State, number: int, now: int) -> State:
    """One more entry of a pool, which rolls its pending one forward or back."""
    pool = state.pools[number]
    assert pool.pending is not None
    txn, _, needs = pool.pending
    done = pool._replace(position=pool.position + 1, pending=None)
    if _is_committed(rules, state, number, pool.pending):
        own = rules.transactions[txn]
        needed = needs or (0,) * POOLS
        if not rules.is_transitive:
            needed = tuple(each if i in own else 0 for i, each in enumerate(needed))
        after = _joined(pool.needs, needed) if rules.has_dependencies else pool.needs
        done = done._replace(history=(*pool.history, txn), needs=after)
    return _entered(state, number, done, max(now, state.decided_at[txn]) if rules.dates_resolutions else now)


def _decided(state: State, txn: int, decision: str, rules: Rules, parts: tuple[Part, ...] = ()) -> State:
    """The decision is created; it has the dependencies, and a time that is not before any of its entries."""
    pending = [i for i, pool in enumerate(state.pools) if pool.pending is not None and pool.pending.txn == txn]
    needs: Positions = (0,) * POOLS
    for i in pending:
        needs = _joined(needs, state.pools[i].needs)
        needs = _put(needs, i, max(needs[i], state.pools[i].position))
    pools = state.pools
    for i in pending:
        pools = _put(pools, i, pools[i]._replace(pending=_needing(pools[i].pending, needs)))
    placed = [time for i in pending for time, other, _ in state.pools[i].times if other and other.txn == txn]
    at = max([state.clock, *placed]) if rules.has_time else 0
    decided = state._replace(pools=pools, decisions=_put(state.decisions, txn, decision))
    return decided._replace(
        decided_at=_put(state.decided_at, txn, at), decided_parts=_put(state.decided_parts, txn, tuple(sorted(parts)))
    )


def _needing(pending: Pending | None, needs: Positions) -> Pending:
    assert pending is not None
    return pending._replace(needs=needs)


def _entered(state: State, number: int, pool: Pool, now: int) -> State:
    """The next entry of a pool, at a time that is not before that of the one before it."""
    if state.clock or now or pool.times:
        last = pool.times[-1][0] if pool.times else 0
        pool = pool._replace(times=(*pool.times, (max(last, now), pool.pending, pool.history)))
    return state._replace(pools=_put(state.pools, number, pool), clock=max(state.clock, now))


def _clocks(rules: Rules, state: State) -> tuple[int, ...]:
    """What the clock of a writer may show: time goes on, and a clock may be behind."""
    if not rules.has_time:
        return (0,)
    return tuple(sorted({1, max(1, state.clock), min(state.clock + 1, MOST_TIME)}))


# ---- readers


def _reader_steps(rules: Rules, state: State) -> Iterator[Step]:
    index, cut = state.reader
    if index < len(rules.reads):
        number = rules.reads[index]
        seen = Reader(index + 1, _put(cut, number, _seen(rules, state, number)))
        yield Step(f"the reader reads {number}", state._replace(reader=seen))
    elif index == len(rules.reads):
        is_accepted = _is_valid(rules, state, cut)
        after = Reader(index + 1, cut) if is_accepted else Reader(0, (None,) * POOLS)
        what = "accepts its cut" if is_accepted else "reads again"
        yield Step(f"the reader {what}", state._replace(reader=after))


def _seen(rules: Rules, state: State, number: int) -> tuple[int, tuple[int, ...], Positions, int | None]:
    """What a reader takes a pool for: a pending entry counts if it is committed; else the reader remembers it."""
    pool = state.pools[number]
    if pool.pending is None:
        return pool.position, pool.history, pool.needs, None
    txn, _, needs = pool.pending
    if not _is_committed(rules, state, number, pool.pending):
        return pool.position, pool.history, pool.needs, None if state.decisions[txn] else txn
    after = _joined(pool.needs, needs or (0,) * POOLS) if rules.has_dependencies else pool.needs
    return pool.position, (*pool.history, txn), after, None


def _is_valid(rules: Rules, state: State, cut: tuple[object, ...]) -> bool:
    seen = {number: cut[number] for number in rules.reads}
    if any(seen[p][0] < seen[q][2][p] for p in seen for q in seen):  # type: ignore[index]
        return False
    if not rules.looks_again:
        return True
    undecided = [each[3] for each in seen.values() if each is not None and each[3] is not None]  # type: ignore[index]
    return not any(state.decisions[txn] == "committed" for txn in undecided)


# ---- promises


def violation(rules: Rules, state: State) -> str | None:
    """The promise that a state breaks."""
    for number, writer in enumerate(state.writers):
        if writer.phase == "done":
            broken = _acknowledged(rules, state, number)
            if broken is not None:
                return broken
    for number, pool in enumerate(state.pools):
        if len(set(pool.history)) < len(pool.history):
            return f"an operation is in pool {number} twice"
        for txn, decision in enumerate(state.decisions):
            if decision == "aborted" and txn in pool.history:
                return f"T{txn} was aborted and is in pool {number}"
    return _fractured(rules, state) or _fractured_past(rules, state)


def _acknowledged(rules: Rules, state: State, number: int) -> str | None:
    if len(rules.transactions) <= number < len(rules.transactions) + len(rules.singles):
        where = rules.singles[number - len(rules.transactions)]
        group = [_SINGLES + 2 * number, _SINGLES + 2 * number + 1]
        there = [each for each in state.pools[where].history if each in group]
        return None if there == group else f"the group of writer {number} is in its pool as {there}"
    number = _transaction_of(rules, number)
    if number in state.vacuumed:
        return f"T{number} was acknowledged, and a vacuum has taken its commits"
    for part in rules.transactions[number]:
        count = _seen(rules, state, part)[1].count(number)
        if count != 1:
            return f"T{number} was acknowledged and is {count} times in pool {part}"
    return None


def _fractured(rules: Rules, state: State) -> str | None:
    index, cut = state.reader
    if index <= len(rules.reads):
        return None
    for txn, parts in enumerate(rules.transactions):
        asked = [part for part in parts if part in rules.reads]
        shown = sum(txn in cut[part][1] for part in asked)  # type: ignore[index]
        if 0 < shown < len(asked):
            return f"an accepted cut shows {shown} of {len(asked)} parts of T{txn}"
    for first, then in ((0, 1), (1, 0)):
        broken = _without_what_it_depends_on(rules, state, first, then)
        if broken is not None:
            return broken
    return None


def _without_what_it_depends_on(rules: Rules, state: State, first: int, then: int) -> str | None:
    """Where two transactions met, one came after the other: who shows the later one has to show the earlier."""
    if len(rules.transactions) < 2:
        return None
    one, other = rules.transactions[first], rules.transactions[then]
    shared = [part for part in one if part in other]
    if not any(_seen(rules, state, part)[1] == (first, then) for part in shared):
        return None
    cut = state.reader.cut
    shows_later = any(then in cut[part][1] for part in other if part in rules.reads)  # type: ignore[index]
    earlier = [first in cut[part][1] for part in one if part in rules.reads]  # type: ignore[index]
    if shows_later and earlier and not all(earlier):
        return f"an accepted cut shows T{then} without T{first}, on which it depends"
    return None


def _fractured_past(rules: Rules, state: State) -> str | None:
    """At any time of the past all parts of a transaction are there, or none, once it has been rolled forward."""
    if not rules.has_time:
        return None
    for txn, parts in enumerate(rules.transactions):
        if state.decisions[txn] != "committed" or any(txn not in state.pools[part].history for part in parts):
            continue
        for time in range(MOST_TIME + 2):
            shown = sum(txn in _history_at(rules, state, part, time) for part in parts)
            if 0 < shown < len(parts):
                return f"at time {time} {shown} of {len(parts)} parts of T{txn} are there"
    return None


def _history_at(rules: Rules, state: State, number: int, time: int) -> tuple[int, ...]:
    """What was in a pool at a time: the last entry that is not later, with a pending one resolved by its decision."""
    last = next((entry for entry in reversed(state.pools[number].times) if entry[0] <= time), None)
    if last is None:
        return ()
    at, pending, history = last
    if pending is None or not _is_committed(rules, state, number, pending):
        return history
    counts_from = state.decided_at[pending.txn] if rules.times_decisions else at
    return (*history, pending.txn) if counts_from <= time else history


# ---- exploring


class Verdict(NamedTuple):
    """What was found."""

    states: int
    violation: str | None = None
    trace: tuple[str, ...] = ()
    """The shortest way to the violation."""


def explore(rules: Rules, most: int = 3_000_000) -> Verdict:
    """Look at every state that can be reached; stop at the first that breaks a promise."""
    first = start(rules)
    came: dict[State, tuple[State, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        broken = violation(rules, state)
        if broken is not None:
            return Verdict(len(came), broken, _trace(came, state))
        for what, after in steps(rules, state):
            if after not in came:
                came[after] = state, what
                queue.append(after)
        if len(came) > most:
            raise AssertionError(f"more than {most} states")
    return Verdict(len(came))


def _trace(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    lines: list[str] = []
    while (before := came[state]) is not None:
        state, what = before
        lines.append(what)
    return tuple(reversed(lines))


def _with_writer(state: State, number: int, writer: Writer) -> State:
    return state._replace(writers=_put(state.writers, number, writer))


def _joined(one: Positions, other: Positions) -> Positions:
    return tuple(map(max, one, other))


def _put(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])
