"""Readers of several pools, step by step: they read a cut, look whether it goes together, and may add pools later.

Surprising: a pool that joins an accepted cut is read as it was, and still a look at the present is needed. What was
undecided in the cut may be committed by now, and then nothing that came of it may be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from shoal.testing.transaction_states import (
    NOWHERE,
    POOLS,
    Entry,
    Joining,
    Positions,
    Reader,
    Rules,
    Seen,
    State,
    is_committed,
    joined,
    put,
)


def reader_steps(rules: Rules, state: State) -> Iterator[tuple[State, str]]:
    """What the reader may do next."""
    reader = state.reader
    stop = rules.fixed or len(rules.reads)
    if reader.is_accepted:
        if reader.reached < len(rules.reads):
            yield _join(rules, state, rules.reads[reader.reached])
    elif reader.reached < stop:
        number = rules.reads[reader.reached]
        after = reader._replace(reached=reader.reached + 1, cut=put(reader.cut, number, seen_now(rules, state, number)))
        yield state._replace(reader=after), f"the reader reads {number}"
    elif _is_consistent(rules, state, reader):
        yield state._replace(reader=reader._replace(is_accepted=True)), "the reader accepts its cut"
    else:
        yield state._replace(reader=Reader(0, (None,) * POOLS)), "the reader reads again"


def seen_now(rules: Rules, state: State, number: int) -> Seen:
    """What a reader takes a pool for: what is pending counts if it is committed; else the reader remembers it."""
    pool = state.pools[number]
    history, needs = pool.history, pool.needs
    for each in pool.pending:
        if is_committed(rules, state, number, each):
            history = (*history, each.txn)
            needs = joined(needs, state.decided_needs[each.txn]) if rules.has_dependencies else needs
    return Seen(pool.position, history, needs, tuple(p.txn for p in pool.pending if not state.decisions[p.txn]))


def _cut(reader: Reader) -> dict[int, Seen]:
    return {number: seen for number, seen in enumerate(reader.cut) if seen is not None}


def _is_consistent(rules: Rules, state: State, reader: Reader) -> bool:
    cut = _cut(reader)
    if any(cut[p].position < seen.needs[p] for p in cut for seen in cut.values()):
        return False
    if not rules.looks_again:
        return True
    return not any(state.decisions[txn] == "committed" for seen in cut.values() for txn in seen.undecided)


# ---- pools that join


def _join(rules: Rules, state: State, number: int) -> tuple[State, str]:
    """One step of a pool on its way into the cut: its newest state is read, and what was undecided is looked up."""
    joining = state.reader.joining
    if joining.undecided is None and (rules.looks_late or joining.late is not None):
        pool = state.pools[number]
        undecided = tuple(each.txn for each in pool.pending if not state.decisions[each.txn])
        joining, what = joining._replace(undecided=undecided, position=pool.position), f"the reader looks at {number}"
    else:
        outside = {txn for seen in _cut(state.reader).values() for txn in seen.undecided}
        late = tuple(sorted(txn for txn in outside if state.decisions[txn] == "committed"))
        joining, what = joining._replace(late=late), "the reader asks what became of the undecided"
    reader = state.reader._replace(joining=joining)
    if joining.undecided is not None and joining.late is not None:
        seen = _within(rules, state, number, joining)
        reader = Reader(reader.reached + 1, put(reader.cut, number, seen), is_accepted=True)
    return state._replace(reader=reader), what


def _within(rules: Rules, state: State, number: int, joining: Joining) -> Seen:
    """The newest state of a pool that goes with the cut."""
    cut, late = _cut(state.reader), joining.late or ()
    known: Positions = (0,) * POOLS
    for seen in cut.values():
        known = joined(known, seen.needs)
    if not rules.hides_what_came_of_it:
        late = ()
    outside = {txn for seen in cut.values() for txn in seen.undecided if rules.hides_what_was_undecided}

    def goes(needs: Positions) -> bool:
        if rules.knows_the_past and joined(needs, known) == known:
            return True
        is_late = any(joined(needs, state.decided_needs[txn]) == needs for txn in late)
        return not is_late and all(needs[p] <= cut[p].position for p in cut)

    hidden = {*outside, *(joining.undecided or ())}
    for position in range(joining.position, -1, -1):
        entry = state.pools[number].log[position]
        seen = _settled(rules, state, number, position, hidden, goes)
        if not rules.hides_what_is_beyond:
            if goes(seen.needs):
                return seen
        elif goes(entry.needs) and not any(_is_resolved(rules, state, number, position, entry, txn) for txn in late):
            return seen if position >= known[number] else NOWHERE
    return NOWHERE


def _is_resolved(rules: Rules, state: State, number: int, position: int, entry: Entry, txn: int) -> bool:
    """Whether a committed transaction has been rolled forward in a pool at a position."""
    if number not in rules.transactions[txn] or position < state.decided_needs[txn][number]:
        return False
    return all(each.txn != txn for each in entry.pending)


def _settled(
    rules: Rules,
    state: State,
    number: int,
    position: int,
    hidden: Container[int],
    goes: Callable[[Positions], bool],
) -> Seen:
    """What a pool is taken for after an entry of the past: what is hidden, or does not go with the cut, is left out."""
    pending, history, needs = state.pools[number].log[position]
    left = []
    for each in pending:
        more = state.decided_needs[each.txn]
        if each.txn in hidden or (rules.hides_what_is_beyond and not goes(more)):
            left.append(each.txn)
        elif is_committed(rules, state, number, each):
            history, needs = (*history, each.txn), joined(needs, more)
    return Seen(position, history, needs, tuple(left))
