"""Sessions: a base commit, staged changes that only the session sees, and one commit at the end.

A session is plain data: it can be pickled, so that several processes write into copies of it, whose changes
are taken over before the commit. What it staged is read through a commit that no branch points at.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from shoal.errors import Conflict, InvalidInput, NotFound, ReadOnly
from shoal.ids import Id, new, to_text
from shoal.lake.actions import NOTHING, Entry, Patch, describe, fold, patch_to, touched
from shoal.lake.commits import Commit, Note
from shoal.lake.committer import Change
from shoal.lake.cuts import Cut
from shoal.lake.fitting import fit, planned_at
from shoal.lake.keys import KeyRange
from shoal.lake.pools import Pool
from shoal.lake.tallies import NO_RECORDS, Count, Tally, exactly, one_sided, total
from shoal.lazy import lazy
from shoal.model.literals import SECOND, format_duration
from shoal.model.node import frozen

if TYPE_CHECKING:
    from shoal.lake import translation
else:
    translation = lazy("shoal.lake.translation")

Isolation = Literal["snapshot", "serializable"]
DEFAULT_SECONDS = 24 * 3600
LONGEST_SECONDS = 7 * 24 * 3600
EMPTY = "empty transaction: nothing is staged in it yet (it stays open)"
"""The error of a commit."""


class Lake(Protocol):
    """The lake of a session, where it looks again at what it read in other pools."""

    def position(self) -> int:
        """Where the journal of pools stands."""

    def pool(self, name: str) -> Pool:
        """A pool by its name or id."""


@frozen
class BranchRead:
    """A range of keys that was read on a branch, of any pool, at a commit."""

    pool: Id
    branch: str
    commit: Id | None
    keys: KeyRange


@frozen
class JournalRead:
    """Metadata that was read from the journal of a pool, or of the lake, which stood at a position."""

    pool: Id | None
    position: int


@frozen
class Session:
    """What a transaction has done so far."""

    id: Id
    branch: str
    base: Id | None
    position: int
    """Where the journal stood: its entry, if it lost the answer, can only be after that."""
    expires: float
    """In seconds since 1970."""
    isolation: Isolation = "snapshot"
    staged: Patch = NOTHING
    is_copy: bool = False
    forked: Patch = NOTHING
    """Of a copy: what had been staged when it was made."""
    reads: tuple[KeyRange, ...] = ()
    """What was read from the branch; only `serializable` keeps it, and what follows."""
    others: tuple[BranchRead, ...] = ()
    """What was read from other branches, of this pool or of others."""
    journals: tuple[JournalRead, ...] = ()
    records: Tally | None = NO_RECORDS
    """What its steps have done in records; None if that is unknown of one of them."""
    forked_records: Tally | None = NO_RECORDS
    """Of a copy: what they had done when it was made."""


def begin(
    pool: Pool,
    branch: str,
    isolation: Isolation = "snapshot",
    seconds: float = DEFAULT_SECONDS,
    op: Id | None = None,
    cut: Cut | None = None,
) -> Session:
    """A session on the tip of a branch, as it is now or in a cut."""
    if not 0 < seconds <= LONGEST_SECONDS:
        most, given = _length(LONGEST_SECONDS), _length(seconds)
        raise InvalidInput(f"expires: a transaction may be open for more than 0s and up to {most}, not {given}")
    if isolation not in ("snapshot", "serializable"):
        raise InvalidInput(f"unknown isolation {isolation!r} (snapshot or serializable)")
    position = pool.journal.read().position
    base = pool.names.refs(cut).branch(branch).commit
    if cut is not None:
        position = cut.position(pool.config.id) or position
    return Session(op or new(), branch, base, position, time.time() + seconds, isolation)


def _length(seconds: float) -> str:
    ns = seconds * SECOND
    return format_duration(int(ns)) if abs(ns) < 2**63 else f"{seconds}s"


def name_of(session: Session) -> str:
    """What messages call it."""
    return f"transaction {to_text(session.id)}"


def place_of(pool: Pool, session: Session) -> str:
    """The branch that it changes."""
    return f"{pool.config.name}@{session.branch}"


def check_open(session: Session) -> None:
    """ReadOnly if the session has expired."""
    if time.time() > session.expires:
        raise ReadOnly(f"{name_of(session)} has expired (begin a new one)")


def stage(session: Session, patch: Patch, count: Count = one_sided) -> Session:
    """The session with more changes."""
    check_open(session)
    records = total((session.records, count(patch)))
    return replace(session, staged=fold([session.staged.actions, patch.actions]), records=records)


def emptied(session: Session) -> Session:
    """The session without its changes, which are lost."""
    return replace(session, staged=NOTHING, records=NO_RECORDS)


def forked(session: Session) -> Session:
    """A copy for another process, which remembers what was staged before. A copy that comes back stays what it is."""
    if session.is_copy:
        return session
    return replace(session, is_copy=True, forked=session.staged, forked_records=session.records)


def take_over(pool: Pool, session: Session, others: Iterable[Session]) -> Session:
    """The session with what copies of it staged in other processes; Conflict if two changed the same record.

    Two copies may hide rows of one object, and write it again. A copy that is taken over again changes nothing.
    """
    taken: list[Patch] = []
    for other in others:
        if other.id != session.id:
            raise InvalidInput(f"{to_text(other.id)} is not a copy of {name_of(session)}")
        own = _since_fork(other)
        news = _brought(pool, session, own, taken)
        taken.append(own)
        session = replace(
            session,
            staged=fold([session.staged.actions, news.actions]),
            records=session.records if news.is_empty else total((session.records, _records_since_fork(other))),
            reads=tuple(dict.fromkeys((*session.reads, *other.reads))),
            others=tuple(dict.fromkeys((*session.others, *other.others))),
            journals=tuple(dict.fromkeys((*session.journals, *other.journals))),
        )
    return session


def _since_fork(copy: Session) -> Patch:
    """What a copy did by itself, beyond what had been staged when it was made."""
    news = fold([copy.forked.inverse().actions, copy.staged.actions])
    gone = {o.id for o in copy.forked.deletes}
    return patch_to(change for change in news.effects() if change.before is not None or change.id not in gone)


def _records_since_fork(copy: Session) -> Tally | None:
    if copy.records is None or copy.forked_records is None:
        return None
    return copy.records - copy.forked_records


def _brought(pool: Pool, session: Session, own: Patch, taken: Iterable[Patch]) -> Patch:
    """What a copy did, as it is on what the session has staged by now, where others were taken over before."""
    now = pool.snapshot(session.base).after(session.staged)
    if not own.lost_in(now) and not own.present_in(now):
        return own
    sides = translation.Sides(lambda: [own], lambda: (("another copy", patch) for patch in taken))
    try:
        return translation.translated(pool, own, now, "transaction", sides, (session.base,))
    except Conflict:
        raise _changed_twice(session, [before for before, _ in own.effects() if before is not None]) from None


def _changed_twice(session: Session, entries: Iterable[Entry]) -> Conflict:
    return Conflict(
        f"{name_of(session)}: two copies of it removed or replaced records of {describe(entries)} "
        "(let each record be changed by one of them)"
    )


def note_read(session: Session, interval: KeyRange) -> Session:
    """The session, which has read a range of keys."""
    if session.isolation == "snapshot" or interval in session.reads:
        return session
    return replace(session, reads=(*session.reads, interval))


def note_others(session: Session, reads: Iterable[BranchRead]) -> Session:
    """The session, which has read from other branches."""
    if session.isolation == "snapshot":
        return session
    return replace(session, others=tuple(dict.fromkeys((*session.others, *reads))))


def note_journal(session: Session, read: JournalRead) -> Session:
    """The session, which has read metadata."""
    if session.isolation == "snapshot" or read in session.journals:
        return session
    return replace(session, journals=(*session.journals, read))


def view(pool: Pool, session: Session) -> Id | None:
    """A commit with all that the session sees."""
    if session.staged.is_empty:
        return session.base
    base = None if session.base is None else pool.commits.read(session.base)
    commit = pool.history.draft(base, session.staged, Note(message=f"session {to_text(session.id)}"))
    pool.commits.write(commit)
    return commit.id


def commit(pool: Pool, session: Session, note: Note, lake: Lake | None = None) -> Id:
    """Put what was staged onto the branch, if nobody else is in the way. It can be called again after an error.

    What was read elsewhere in the lake is checked just before. That is not one step with the commit: what others
    change between the two is not seen.
    """
    if time.time() > session.expires:
        done = pool.committer.done(session.id, session.branch, session.position)
        if done is not None:
            return done
    check_open(session)
    if session.staged.is_empty:
        raise InvalidInput(EMPTY)
    return pool.committer.commit(change_of(pool, session, note, lake))


def change_of(pool: Pool, session: Session, note: Note, lake: Lake | None = None) -> Change:
    """What a session changes on its branch."""

    def build(tip: Id | None) -> Patch:
        _check_reads(pool, session, tip)
        return fit(
            pool, session.staged, planned_at(session.base), tip, f"{name_of(session)} on {place_of(pool, session)}"
        )

    def check() -> None:
        if session.others or session.journals:
            assert lake is not None, "a session that read other pools knows its lake"
            _check_others(lake, session)

    position = session.position
    change = Change(session.branch, build, note, session.id, is_fresh=True, begun=position, after=position, check=check)
    return replace(change, count=exactly(session.records))


def _check_reads(pool: Pool, session: Session, tip: Id | None) -> None:
    if not session.reads or tip == session.base:
        return
    for other in pool.commits.walk(tip, session.base):
        _require_untouched(pool, session, other, session.reads, f" on {place_of(pool, session)}")


def _require_untouched(pool: Pool, session: Session, commit: Commit, reads: Iterable[KeyRange], where: str) -> None:
    for entry in touched(commit.actions):
        if any(entry.may_hold(interval) for interval in reads):
            if translation.is_move(pool, Patch(commit.actions)):
                return
            raise Conflict(
                f"{name_of(session)}: commit {to_text(commit.id)}{where} has changed what it read "
                f"(data object {to_text(entry.id)}; begin again)"
            )


def _check_others(lake: Lake, session: Session) -> None:
    """Conflict if what was read from other branches or from journals is not there any more as it was."""
    for read in session.others:
        _check_branch(lake, session, read)
    for journal in session.journals:
        _check_journal(lake, session, journal)


def _check_branch(lake: Lake, session: Session, read: BranchRead) -> None:
    pool = _find(lake, session, read.pool)
    where = f" on {pool.config.name}@{read.branch}"
    refs = pool.refs()
    tip = refs.branch(read.branch).commit if refs.has_branch(read.branch) else None
    if tip == read.commit and refs.has_branch(read.branch):
        return
    for commit in pool.log(tip):
        if commit.id == read.commit:
            return
        _require_untouched(pool, session, commit, (read.keys,), where)
    if read.commit is not None or tip is None:
        raise Conflict(f"{name_of(session)}: what it read{where} is gone (begin again)")


def _check_journal(lake: Lake, session: Session, read: JournalRead) -> None:
    pool = None if read.pool is None else _find(lake, session, read.pool)
    position = lake.position() if pool is None else pool.journal.read().position
    if position != read.position:
        where = "the lake" if pool is None else f"pool {pool.config.name}"
        raise Conflict(f"{name_of(session)}: metadata of {where} that it read has changed (begin again)")


def _find(lake: Lake, session: Session, pool: Id) -> Pool:
    try:
        return lake.pool(to_text(pool))
    except NotFound:
        raise Conflict(f"{name_of(session)}: pool {to_text(pool)}, which it read, is gone") from None
