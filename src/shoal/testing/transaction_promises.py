"""What transactions over several pools promise, looked at in every state that is explored."""

from __future__ import annotations

from shoal.testing.transaction_readers import seen_now
from shoal.testing.transaction_states import MOST_TIME, NOWHERE, SINGLES, Rules, State, is_committed


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
        group = [SINGLES + 2 * number, SINGLES + 2 * number + 1]
        there = [each for each in state.pools[where].history if each in group]
        return None if there == group else f"the group of writer {number} is in its pool as {there}"
    number = rules.transaction_of(number)
    if number in state.vacuumed:
        return f"T{number} was acknowledged, and a vacuum has taken its commits"
    for part in rules.transactions[number]:
        count = seen_now(rules, state, part).history.count(number)
        if count != 1:
            return f"T{number} was acknowledged and is {count} times in pool {part}"
    return None


def _fractured(rules: Rules, state: State) -> str | None:
    """What a cut shows that does not go together."""
    if not state.reader.is_accepted:
        return None
    cut = {number: seen for number, seen in enumerate(state.reader.cut) if seen is not None}
    if NOWHERE in cut.values():
        return "a pool cannot be read in an accepted cut"
    for txn, parts in enumerate(rules.transactions):
        asked = [part for part in parts if part in cut]
        shown = sum(txn in cut[part].history for part in asked)
        if 0 < shown < len(asked):
            return f"an accepted cut shows {shown} of {len(asked)} parts of T{txn}"
    for then in {txn for seen in cut.values() for txn in seen.history if txn < SINGLES}:
        for first in state.decided_past[then]:
            if any(part in cut and first not in cut[part].history for part in rules.transactions[first]):
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
    for each in pending:
        counts_from = state.decided_at[each.txn] if rules.times_decisions else at
        if is_committed(rules, state, number, each) and counts_from <= time:
            history = (*history, each.txn)
    return history
