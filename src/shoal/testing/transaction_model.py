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
from typing import NamedTuple

from shoal.testing.transaction_promises import violation
from shoal.testing.transaction_readers import reader_steps
from shoal.testing.transaction_states import (
    MOST_TIME,
    POOLS,
    SINGLES,
    Entry,
    Part,
    Pending,
    Pool,
    Positions,
    Rules,
    State,
    Writer,
    is_committed,
    joined,
    put,
    start,
    union,
    with_writer,
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
            gone = with_writer(state, number, Writer("gone"))
            yield Step(f"writer {number} dies", gone._replace(crashes=state.crashes - 1))
    yield from _anybody(rules, state)
    for after, what in reader_steps(rules, state):
        yield Step(what, after)


# ---- writers


def _writer_steps(rules: Rules, state: State, number: int, writer: Writer) -> Iterator[Step]:
    count = len(rules.transactions)
    if count <= number < count + len(rules.singles):
        yield from _single_steps(rules, state, number)
        return
    txn = rules.transaction_of(number)
    attempt = 0 if number < count else 1
    if writer.phase == "place":
        yield from _place(rules, state, number, writer, txn, attempt)
    else:
        yield from _decide(rules, state, number, writer, txn)


def _place(rules: Rules, state: State, who: int, writer: Writer, txn: int, attempt: int) -> Iterator[Step]:
    parts = rules.transactions[txn]
    name = f"T{txn}" if not attempt else f"T{txn} once more"
    if not rules.decides_last and writer.reached == 0 and not state.decisions[txn]:
        everywhere = tuple((part, attempt) for part in parts)
        yield Step(f"{name} decides before its entries", _decided(state, txn, "committed", rules, everywhere))
        return
    if writer.reached == len(parts):
        decides = Writer("decide", parts=writer.parts)
        yield Step(f"{name} has placed its entries", with_writer(state, who, decides))
        return
    number = parts[writer.reached]
    pool = state.pools[number]
    if (own := pool.pending_of(txn)) is not None:
        places = Writer("place", writer.reached + 1, (*writer.parts, (number, own.attempt)))
        yield Step(f"{name} finds its entry in {number}", with_writer(state, who, places))
        return
    if rules.resolves_first and _blocks(rules, state, pool, rules.branch(txn)):
        yield from _meet(rules, state, number, rules.branch(txn))
        return
    if rules.has_vacuum and txn in state.vacuumed:
        # The mark of a vacuum is in the journal before anything goes: who meets it writes its data again, or fails.
        yield Step(f"{name} finds its commits gone", with_writer(state, who, Writer("failed")))
        return
    for now in _clocks(rules, state):
        own = Pending(txn, attempt, pool.position + 1, pool.needs, pool.past)
        entry = pool._replace(position=own.position, pending=(*_beside(rules, pool, rules.branch(txn)), own))
        placed = _entered(rules, state, number, entry, now)
        reached = Writer("place", writer.reached + 1, (*writer.parts, (number, attempt)))
        yield Step(f"{name} places its entry in {number}", with_writer(placed, who, reached))
        if state.doubts:  # the answer is lost: it looks for its entry, which others may have resolved by then
            yield Step(f"{name} hears nothing from {number}", placed._replace(doubts=state.doubts - 1))


def _decide(rules: Rules, state: State, who: int, writer: Writer, txn: int) -> Iterator[Step]:
    decision = state.decisions[txn]
    if decision == "committed":
        yield Step(f"T{txn} is acknowledged", with_writer(state, who, Writer("done")))
    elif decision == "aborted":
        yield Step(f"T{txn} finds that it was aborted", with_writer(state, who, Writer("failed")))
    elif writer.phase == "look":
        yield Step(f"T{txn} is tried once more", with_writer(state, who, Writer()))
    else:
        yield Step(f"T{txn} is decided", _decided(state, txn, "committed", rules, writer.parts))
    if writer.phase == "decide" and not decision and state.doubts:
        # The put is on its way, and its writer tells its caller that the outcome is unknown.
        given_up = with_writer(state, who, Writer("gone"))
        late = tuple(sorted({*state.late, (txn, writer.parts)}))
        yield Step(f"T{txn} gives its decision up", given_up._replace(late=late, doubts=state.doubts - 1))


def _single_steps(rules: Rules, state: State, number: int) -> Iterator[Step]:
    """A group of two commits: one entry, so that both are there or none."""
    where = rules.singles[number - len(rules.transactions)]
    pool = state.pools[where]
    if SINGLES + 2 * number in pool.history:
        yield Step(f"writer {number} finds its own entry", with_writer(state, number, Writer("done")))
        return
    if rules.resolves_first and _blocks(rules, state, pool, 0):
        yield from _meet(rules, state, where, 0)
        return
    for now in _clocks(rules, state):
        history = (*pool.history, SINGLES + 2 * number, SINGLES + 2 * number + 1)
        entered = _entered(rules, state, where, pool._replace(position=pool.position + 1, history=history), now)
        yield Step(f"writer {number} commits a group", with_writer(entered, number, Writer("done")))
        if state.doubts:  # the answer is lost: it reads the slot again
            yield Step(f"writer {number} hears nothing", entered._replace(doubts=state.doubts - 1))


def _blocks(rules: Rules, state: State, pool: Pool, branch: int) -> bool:
    """Whether a writer of a branch has to resolve something first: what is decided, or is about its branch."""
    return any(state.decisions[each.txn] or rules.branch(each.txn) == branch for each in pool.pending)


def _beside(rules: Rules, pool: Pool, branch: int) -> tuple[Pending, ...]:
    """What is pending on other branches."""
    return tuple(each for each in pool.pending if rules.branch(each.txn) != branch)


def _meet(rules: Rules, state: State, number: int, branch: int | None = None) -> Iterator[Step]:
    """A writer meets pending entries: it rolls forward or back, or aborts what has taken too long on its branch."""
    decided = [each.txn for each in state.pools[number].pending if state.decisions[each.txn]]
    if decided:
        for now in _clocks(rules, state):
            names = " and ".join(f"T{txn}" for txn in decided)
            yield Step(f"{names} is resolved in {number}", _resolved(rules, state, number, now))
    for txn, *_ in state.pools[number].pending if rules.aborts else ():
        if not state.decisions[txn] and (branch is None or (not decided and rules.branch(txn) == branch)):
            yield Step(f"T{txn} is aborted", _decided(state, txn, "aborted", rules))


# ---- what anybody may do, at any time


def _anybody(rules: Rules, state: State) -> Iterator[Step]:
    for number, pool in enumerate(state.pools):
        if pool.pending:
            yield from _meet(rules, state, number)
    for txn, parts in state.late:
        left = tuple(each for each in state.late if each != (txn, parts))
        after = state if state.decisions[txn] else _decided(state, txn, "committed", rules, parts)
        yield Step(f"the decision of T{txn} arrives", after._replace(late=left))
    for txn, decision in enumerate(state.decisions):
        is_pending = any(pool.pending_of(txn) is not None for pool in state.pools)
        if not rules.keeps_decisions and decision == "aborted" and not is_pending:
            forgotten = put(state.decisions, txn, "")
            yield Step(f"the decision of T{txn} is deleted", state._replace(decisions=forgotten))
        if rules.has_vacuum and txn not in state.vacuumed and not _is_kept(rules, state, txn):
            taken = tuple(sorted({*state.vacuumed, txn}))
            yield Step(f"a vacuum takes the commits of T{txn}", state._replace(vacuumed=taken))


def _is_kept(rules: Rules, state: State, txn: int) -> bool:
    in_history = any(txn in pool.history for pool in state.pools)
    is_pending = any(pool.pending_of(txn) is not None for pool in state.pools)
    return in_history or (is_pending and rules.keeps_pending)


def _resolved(rules: Rules, state: State, number: int, now: int) -> State:
    """One more entry of a pool, which rolls all forward or back that is decided."""
    pool = state.pools[number]
    left = tuple(each for each in pool.pending if not state.decisions[each.txn])
    done = pool._replace(position=pool.position + 1, pending=left)
    for each in pool.pending:
        if is_committed(rules, state, number, each):
            past = union(done.past, state.decided_past[each.txn], (each.txn,))
            needs = _needs_after(rules, state, done.needs, each.txn)
            done = done._replace(history=(*done.history, each.txn), needs=needs, past=past)
    latest = max(state.decided_at[each.txn] for each in pool.pending if state.decisions[each.txn])
    return _entered(rules, state, number, done, max(now, latest) if rules.dates_resolutions else now)


def _needs_after(rules: Rules, state: State, needs: Positions, txn: int) -> Positions:
    """What a pool depends on once a transaction is in it."""
    more = state.decided_needs[txn]
    if not rules.is_transitive:
        more = tuple(each if i in rules.transactions[txn] else 0 for i, each in enumerate(more))
    return joined(needs, more) if rules.has_dependencies else needs


def _decided(state: State, txn: int, decision: str, rules: Rules, parts: tuple[Part, ...] = ()) -> State:
    """The decision is created; it has the dependencies, and a time that is not before any of its entries."""
    needs: Positions = (0,) * POOLS
    past: tuple[int, ...] = ()
    for i, pool in enumerate(state.pools):
        own = pool.pending_of(txn)
        if own is not None and decision == "committed":
            needs, past = joined(needs, own.needs), union(past, own.past)
            needs = put(needs, i, max(needs[i], own.position))
    times = [time for pool in state.pools if pool.pending_of(txn) is not None for time in _times(pool, txn)]
    at = max([state.clock, *times]) if rules.has_time else 0
    return state._replace(
        decisions=put(state.decisions, txn, decision),
        decided_at=put(state.decided_at, txn, at),
        decided_parts=put(state.decided_parts, txn, tuple(sorted(parts))),
        decided_needs=put(state.decided_needs, txn, needs),
        decided_past=put(state.decided_past, txn, past),
    )


def _times(pool: Pool, txn: int) -> list[int]:
    """The times of the entries in which a transaction is pending."""
    return [time for time, pending, _ in pool.times if txn in (each.txn for each in pending)]


def _entered(rules: Rules, state: State, number: int, pool: Pool, now: int) -> State:
    """The next entry of a pool, at a time that is not before that of the one before it."""
    if state.clock or now or pool.times:
        last = pool.times[-1][0] if pool.times else 0
        pool = pool._replace(times=(*pool.times, (max(last, now), pool.pending, pool.history)))
    if rules.fixed:
        pool = pool._replace(log=(*pool.log, Entry(pool.pending, pool.history, pool.needs)))
    return state._replace(pools=put(state.pools, number, pool), clock=max(state.clock, now))


def _clocks(rules: Rules, state: State) -> tuple[int, ...]:
    """What the clock of a writer may show: time goes on, and a clock may be behind."""
    if not rules.has_time:
        return (0,)
    return tuple(sorted({1, max(1, state.clock), min(state.clock + 1, MOST_TIME)}))


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
