"""Settling: what the journal of a pool says once every pending entry that is decided is rolled forward or back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from shoal.errors import OutcomeUnknown
from shoal.ids import Id
from shoal.lake.branches import set_branch, touches
from shoal.lake.clocks import SECOND, Clock
from shoal.lake.decisions import Decision, Decisions, Part, format_positions
from shoal.lake.journal import Changes, Counts, Settled, State
from shoal.lake.pending import DEPENDS, PENDING, Pending, format_pending, joined, needs_in, pending_in
from shoal.model.values import Value


class Pendings:
    """Resolves what is pending in the journal of a pool."""

    def __init__(self, pool: Id, decisions: Decisions, clock: Clock) -> None:
        self._pool = pool
        self._decisions = decisions
        self._clock = clock
        self._watched: dict[tuple[Id, str], float] = {}
        """When this process first met an undecided entry, by the monotonic clock."""

    def settle(self, state: State, counts: Counts | None = None) -> Settled:
        """A state with all resolved that is decided by now, as far as that counts."""
        pending = pending_in(state.entries)
        if not pending:
            return Settled(state)
        decisions = {each.txn: self._decisions.find(each.txn) for each in pending}
        self._forget(pending, decisions)
        if counts is not None:
            decisions = {txn: each if each and counts(each) else None for txn, each in decisions.items()}
        undecided = tuple(each for each in pending if decisions[each.txn] is None)
        decided = [(each, decision) for each in pending if (decision := decisions[each.txn]) is not None]
        if not decided:
            return Settled(state, undecided=undecided)
        changes = self._resolving(state, decided, undecided)
        entries = {**state.entries, **changes}
        resolved = replace(state, entries={k: v for k, v in entries.items() if v is not None})
        return Settled(resolved, changes, max(decision.at for _, decision in decided), undecided)

    def _resolving(
        self, state: State, decided: Sequence[tuple[Pending, Decision]], undecided: Sequence[Pending]
    ) -> Changes:
        """What rolls decided entries forward or back."""
        changes: dict[str, Value | None] = {PENDING: format_pending(undecided)}
        needs = needs_in(state.entries)
        for each, decision in decided:
            if decision.names(self._pool, each.branch, each.commit):
                needs = joined(needs, decision.needs)
                changes.update(set_branch(each.branch, each.commit, decision.at))
                changes[DEPENDS] = format_positions(needs)
        return changes

    def decision(self, txn: Id) -> Decision | None:
        """The decision about a transaction; None if there is none yet."""
        return self._decisions.find(txn)

    def _forget(self, pending: Sequence[Pending], decisions: Mapping[Id, Decision | None]) -> None:
        """Watch no longer what has been decided."""
        for each in pending if self._watched else ():
            if decisions[each.txn] is not None:
                self._watched.pop((each.txn, each.branch), None)

    def blocking(self, settled: Settled, changes: Changes) -> tuple[Pending, ...]:
        """The undecided entries that have to be decided before some changes can be made."""
        if not settled.undecided:
            return ()
        old = {(each.txn, each.branch) for each in settled.undecided}
        new = {each.branch for each in pending_in(changes) if (each.txn, each.branch) not in old}
        return tuple(each for each in settled.undecided if each.branch in new or touches(changes, each.branch))

    def wait(self, pending: Sequence[Pending], seconds: float) -> None:
        """Let some time pass for decisions to come; abort what has taken too long."""
        time.sleep(seconds)
        for each in pending:
            if self._is_late(each) and self._decisions.find(each.txn) is None:
                self._abort(each)

    def _abort(self, pending: Pending) -> None:
        """Decide that a transaction does not happen, unless it was decided; whether it was may stay unknown."""
        parts = tuple(Part(pool, branch, None) for pool, branch in pending.participants)
        at = max(self._clock.now(), pending.at)
        with suppress(OutcomeUnknown):
            self._decisions.decide(Decision(pending.txn, False, at, parts, op=pending.op))

    def _is_late(self, pending: Pending) -> bool:
        """Whether a transaction has taken too long, by the time of its entry or by what this process has watched."""
        began = self._watched.setdefault((pending.txn, pending.branch), time.monotonic())
        patience = (pending.until - pending.at) / SECOND
        return self._clock.now() > pending.until or time.monotonic() - began > patience
