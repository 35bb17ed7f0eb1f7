"""Transactions over several pools: all of their branches change, or none.

The protocol is that of `docs/adr/0044-transactions-over-several-pools.md`: the commits, then a pending entry in each
journal, then the decision, which is the one step that counts, then the entries that roll the branches forward.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from shoal.errors import Conflict, InvalidInput, OutcomeUnknown, ShoalError, StorageFailure, Unsupported
from shoal.ids import Id, new, to_text
from shoal.lake import sessions
from shoal.lake.actions import Patch
from shoal.lake.branches import Refs
from shoal.lake.claims import unknown
from shoal.lake.clocks import SECOND
from shoal.lake.commits import Commit, Note
from shoal.lake.committer import Change
from shoal.lake.decisions import Decision, Decisions, Part, attempts
from shoal.lake.journal import Changes, Entry, State
from shoal.lake.lake import TRANSACTIONS, LakeInfo
from shoal.lake.pending import PENDING, Pending, format_pending, joined, needs_in, pending_in
from shoal.lake.pools import Pool
from shoal.lake.sessions import Session
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = lazy("concurrent.futures")

DEFAULT_PATIENCE = 60.0
"""Seconds that a transaction has from its first pending entry to its decision; then anybody may abort it."""
_ATTEMPTS = 3
"""How often a transaction is tried that others abort since it takes too long."""
AT_ONCE = 8
"""How many pools are written to at a time, where their order does not matter."""
Place = tuple[Id, str]
"""A pool and a branch of it."""
T = TypeVar("T")


@frozen
class Participant:
    """What a transaction does on one branch."""

    pool: Pool
    change: Change
    reads_only: bool = False
    """Whether it changes nothing, and checks that nobody else has changed what it read."""

    @property
    def place(self) -> Place:
        """Where that is."""
        return self.pool.config.id, self.change.branch


def participants_of(lake: sessions.Lake, parts: Iterable[tuple[Pool, Session]], note: Note) -> Iterator[Participant]:
    """What sessions do; those that have changed nothing take part if they check what they read."""
    for pool, session in parts:
        if takes_part(session):
            sessions.check_open(session)
            yield Participant(pool, sessions.change_of(pool, session, note, lake), session.staged.is_empty)


def takes_part(session: Session) -> bool:
    """Whether a session has changed something, or read what has to be checked."""
    return not session.staged.is_empty or (session.isolation == "serializable" and bool(session.reads))


def require_transactions(info: LakeInfo, where: str) -> None:
    """Unsupported in a lake of a version that would commit beside pending entries."""
    if TRANSACTIONS not in info.features:
        raise Unsupported(
            f"{where}: this lake was created by an earlier version, which knows no transactions over several pools "
            "(create a new lake)"
        )


def commit(
    decisions: Decisions,
    op: Id,
    participants: Iterable[Participant],
    note: Note,
    patience: float = DEFAULT_PATIENCE,
) -> Mapping[Place, Id]:
    """Make changes on all branches; the commit of each that changes. Called again under its id, it happens once."""
    members = sorted(participants, key=lambda each: each.place)
    changing = {each.place for each in members if not each.reads_only}
    if not changing:
        raise InvalidInput(sessions.EMPTY)
    if len(members) == 1:
        return {members[0].place: members[0].pool.committer.commit(members[0].change)}
    decision = _decided(decisions, op, members, note, patience)
    settle([each.pool for each in members])
    return commits_of(decision, changing)


def _decided(decisions: Decisions, op: Id, members: Sequence[Participant], note: Note, patience: float) -> Decision:
    """The transaction that does an operation: one that was committed before, or the first attempt that is."""
    tried = 0
    for txn in attempts(op):
        decision = decisions.find(txn)
        if decision is None:
            decision = _Commit(decisions, op, txn, members, note, patience).run()
            tried += 1
        if decision.is_committed:
            require_places(decision, op, [each.place for each in members])
            return decision
        if tried == _ATTEMPTS:
            break
    raise Conflict(
        f"transaction {to_text(op)}: it took longer than {patience:g} s to commit, and was aborted, {tried} times in a "
        "row (try again)"
    )


def require_places(decision: Decision, op: Id, places: Iterable[Place]) -> None:
    """InvalidInput unless what was committed under an id is a transaction on these branches."""
    if {part.place for part in decision.parts} != set(places):
        raise _taken(op)


def _taken(op: Id) -> InvalidInput:
    return InvalidInput(f"transaction {to_text(op)}: this id is that of another operation (use a new one)")


def commits_of(decision: Decision, changing: Container[Place]) -> dict[Place, Id]:
    """The commits that a transaction has made, on those of its branches that it has changed."""
    return {
        (part.pool, part.branch): part.commit
        for part in decision.parts
        if part.commit is not None and (part.pool, part.branch) in changing
    }


def settle(pools: Sequence[Pool]) -> None:
    """Roll pools forward, or back. If that fails, the next one who changes them does it."""

    def roll(pool: Pool) -> None:
        with suppress(ShoalError):
            pool.journal.settle()

    _for_each(roll, {pool.config.id: pool for pool in pools}.values())


def _for_each(act: Callable[[T], object], items: Collection[T]) -> None:
    """Do something for each item, for several at a time."""
    if AT_ONCE < 2 or len(items) < 2:
        for item in items:
            act(item)
        return
    with futures.ThreadPoolExecutor(min(AT_ONCE, len(items))) as threads:
        list(threads.map(act, items))


@frozen
class _Placed:
    """The pending entry of a branch."""

    part: Part
    pending: Pending
    at: int
    """When it was made, by the journal."""


class _Found(Exception):
    """Another attempt at the transaction has placed all entries of a pool."""

    def __init__(self, pending: Sequence[Pending]) -> None:
        super().__init__()
        self.pending = pending


class _Taken(Exception):
    """Another operation with this id is under way."""


class _Commit:
    """One attempt at a transaction, from its commits to its decision."""

    def __init__(
        self, decisions: Decisions, op: Id, txn: Id, members: Sequence[Participant], note: Note, patience: float
    ) -> None:
        self._decisions = decisions
        self._op = op
        self._txn = txn
        self._note = note
        self._patience = patience
        self._parts = [_Part(each, op) for each in members]
        self._places = tuple(each.place for each in members)
        self._by_pool = [list(parts) for _, parts in groupby(self._parts, lambda part: part.pool.config.id)]

    def run(self) -> Decision:
        """The decision."""
        try:
            _for_each(_Part.prepare, self._parts)
            placed = [each for parts in self._by_pool for each in self._place(parts)]
        except _Taken:
            raise _taken(self._op) from None  # and let the other one be
        except OutcomeUnknown as e:
            decision = self._abort()
            if decision is None:
                raise unknown(self._op, e) from e
            if not decision.is_committed:
                raise StorageFailure(f"transaction {to_text(self._op)} was not done: {e}") from e
            return decision
        except (Exception, KeyboardInterrupt):
            decision = self._abort()
            if decision is None or not decision.is_committed:
                raise
            return decision  # another attempt at it was first
        return self._decide(placed)

    def _place(self, parts: Sequence[_Part]) -> list[_Placed]:
        """Write the pending entries of the branches of a pool, by one entry of its journal."""
        pool = parts[0].pool
        own: list[Pending] = []

        def plan(state: State) -> Changes:
            pending = pending_in(state.entries)
            own[:] = [each for each in pending if each.txn == self._txn]
            if any(each.participants != self._places for each in own):
                raise _Taken
            there = {each.branch for each in own}
            missing = [part for part in parts if part.branch not in there]
            if not missing:
                raise _Found(own)
            own.extend(news := [self._pending(part, state) for part in missing])
            return {PENDING: format_pending((*pending, *news))}

        try:
            entry = pool.journal.change(new(), plan)
        except _Found:
            entry = None
        return [self._placed(pool, each, entry) for each in own]

    def _pending(self, part: _Part, state: State) -> Pending:
        """The pending entry of a branch as it is to be placed."""
        now = part.pool.clock.now()
        tip = Refs(state).branch(part.branch).commit
        return Pending(
            part.branch, self._txn, part.commit_on(tip, state), tip, state.position + 1, needs_in(state.entries),
            now, now + int(self._patience * SECOND), self._places, self._op,
        )  # fmt: skip

    def _placed(self, pool: Pool, pending: Pending, entry: Entry | None) -> _Placed:
        if entry is None or entry.position != pending.position:
            entry = pool.journal.entry(pending.position)
        return _Placed(Part(pool.config.id, pending.branch, pending.commit), pending, entry.at)

    def _decide(self, placed: Sequence[_Placed]) -> Decision:
        positions: dict[Id, int] = {}
        for each in placed:
            positions[each.part.pool] = max(each.pending.position, positions.get(each.part.pool, 0))
        needs = joined(positions, *(each.pending.needs for each in placed))
        at = max(self._parts[0].pool.clock.now(), *(each.at for each in placed))
        parts = tuple(each.part for each in placed)
        note = self._note
        said = note.author, note.message, note.meta, self._op
        try:
            return self._decisions.decide(Decision(self._txn, True, at, parts, needs, *said))
        except OutcomeUnknown as e:
            raise unknown(self._op, e) from e

    def _abort(self) -> Decision | None:
        """Keep nobody waiting for a decision that will not come; the decision that counts, if it is known."""
        decision = None
        with suppress(ShoalError):
            parts = tuple(Part(pool, branch, None) for pool, branch in self._places)
            at = self._parts[0].pool.clock.now()
            decision = self._decisions.decide(Decision(self._txn, False, at, parts, op=self._op))
            settle([part.pool for part in self._parts])
        return decision


class _Part:
    """The change of one branch, and the commit that was last written for it."""

    def __init__(self, member: Participant, op: Id) -> None:
        self.pool = member.pool
        self.branch = member.change.branch
        self._change = member.change
        self._reads_only = member.reads_only
        self._op = op
        self._written: tuple[tuple[Id | None, object], Commit] | None = None

    def prepare(self) -> None:
        """Write the commit for the tip as it is now: most likely it is still there when the entry is placed."""
        settled = self.pool.journal.settled()
        refs = Refs(settled.state)
        if refs.has_branch(self.branch):
            self.commit_on(refs.branch(self.branch).commit, settled.state)

    def commit_on(self, tip: Id | None, state: State) -> Id | None:
        """The id of the commit on a tip, which is in the store; Conflict if the change cannot be made there."""
        committer, history, refs = self.pool.committer, self.pool.history, Refs(state)
        committer.require_basis(self._change, state)
        basis = tip, refs.vacuum
        if self._written is not None and self._written[0] == basis:
            committer.require_data(Patch(self._written[1].actions), refs, self._change)
            return self._written[1].id
        patch = committer.patch_at(self._change, tip, refs)
        if self._reads_only:
            return tip
        parent = None if tip is None else history.commits.read(tip)
        ident = new()
        draft = history.draft(parent, patch, self._change.note, ident=ident)
        records = self._change.tally(patch)
        commit = replace(draft, op=ident, position=state.position, records=records, txn=self._op)
        history.commits.write(commit)
        self._written = basis, commit
        return ident
