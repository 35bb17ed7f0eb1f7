"""Sessions: a base commit, staged changes that only the session sees, and one commit at the end.

A session is plain data: it can be pickled, so that several processes write into copies of it, whose changes
are taken over before the commit. What it staged is read through a commit that no branch points at.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from shoal.errors import Conflict, InvalidInput, ReadOnly
from shoal.ids import Id, new, to_text
from shoal.lake.actions import NOTHING, Action, Patch, describe, effect, fold, touched
from shoal.lake.commits import Note
from shoal.lake.committer import Change
from shoal.lake.keys import KeyRange
from shoal.lake.pools import Pool
from shoal.model.node import frozen

Isolation = Literal["snapshot", "serializable"]
DEFAULT_SECONDS = 24 * 3600
LONGEST_SECONDS = 7 * 24 * 3600


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
    """What was read from the branch; only `serializable` keeps it."""


def begin(
    pool: Pool, branch: str, isolation: Isolation = "snapshot", seconds: float = DEFAULT_SECONDS, op: Id | None = None
) -> Session:
    """A session on the tip of a branch."""
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InvalidInput(f"a session lasts from 0 to {LONGEST_SECONDS} seconds, not {seconds}")
    if isolation not in ("snapshot", "serializable"):
        raise InvalidInput(f"unknown isolation {isolation!r} (snapshot or serializable)")
    base = pool.refs().branch(branch).commit
    position = pool.journal.read().position
    return Session(op or new(), branch, base, position, time.time() + seconds, isolation)


def check_open(session: Session) -> None:
    """ReadOnly if the session has expired."""
    if time.time() > session.expires:
        raise ReadOnly(f"session {to_text(session.id)} has expired (begin a new one)")


def stage(session: Session, patch: Patch) -> Session:
    """The session with more changes."""
    check_open(session)
    return replace(session, staged=fold([session.staged.actions, patch.actions]))


def emptied(session: Session) -> Session:
    """The session without its changes, which are lost."""
    return replace(session, staged=NOTHING)


def forked(session: Session) -> Session:
    """A copy for another process, which remembers what was staged before. A copy that comes back stays what it is."""
    return session if session.is_copy else replace(session, is_copy=True, forked=session.staged)


def take_over(session: Session, others: Iterable[Session]) -> Session:
    """The session with what copies of it staged in other processes; Conflict if two changed the same entry."""
    taken: set[Id] = set()
    for other in others:
        if other.id != session.id:
            raise InvalidInput(f"{to_text(other.id)} is not a copy of session {to_text(session.id)}")
        news = _since_fork(other, session.staged)
        gone = [before for before, _ in news.effects() if before is not None]
        twice = [entry for entry in gone if entry.id in taken]
        if twice:
            raise Conflict(f"session {to_text(session.id)}: two copies of it removed {describe(twice)}")
        taken.update(entry.id for entry in gone)
        reads = tuple(dict.fromkeys((*session.reads, *other.reads)))
        staged = fold([session.staged.actions, news.actions])
        session = replace(session, staged=staged, reads=reads)
    return session


def _since_fork(copy: Session, staged: Patch) -> Patch:
    """What a copy did by itself, beyond what had been staged when it was made or has been taken over since."""
    now = {_identity(action) for action in copy.staged.actions}
    earlier = {_identity(action) for action in (*copy.forked.actions, *staged.actions)}
    undone = [a for a in copy.forked.actions if effect(a).after is not None and _identity(a) not in now]
    news = [action for action in copy.staged.actions if _identity(action) not in earlier]
    return fold([Patch(tuple(undone)).inverse().actions, news])


def _identity(action: Action) -> tuple[type[Action], Id]:
    return type(action), effect(action).id


def note_read(session: Session, interval: KeyRange) -> Session:
    """The session, which has read a range of keys."""
    if session.isolation == "snapshot" or interval in session.reads:
        return session
    return replace(session, reads=(*session.reads, interval))


def view(pool: Pool, session: Session) -> Id | None:
    """A commit with all that the session sees."""
    if session.staged.is_empty:
        return session.base
    base = None if session.base is None else pool.commits.read(session.base)
    commit = pool.history.draft(base, session.staged, Note(message=f"session {to_text(session.id)}"))
    pool.commits.write(commit)
    return commit.id


def commit(pool: Pool, session: Session, note: Note) -> Id:
    """Put what was staged onto the branch, if nobody else is in the way. It can be called again after an error."""
    if time.time() > session.expires:
        done = pool.committer.done(session.id, session.branch, session.position)
        if done is not None:
            return done
    check_open(session)
    if session.staged.is_empty:
        raise InvalidInput("empty transaction")

    def build(tip: Id | None) -> Patch:
        _check_reads(pool, session, tip)
        return pool.history.require_fit(session.staged, session.base, tip, f"session {to_text(session.id)}")

    change = Change(session.branch, build, note, session.id, is_fresh=True, after=session.position)
    return pool.committer.commit(change)


def _check_reads(pool: Pool, session: Session, tip: Id | None) -> None:
    if not session.reads or tip == session.base:
        return
    for other in pool.commits.walk(tip, session.base):
        for entry in touched(other.actions):
            if any(entry.may_hold(interval) for interval in session.reads):
                raise Conflict(
                    f"session {to_text(session.id)}: commit {to_text(other.id)} has changed what it read "
                    f"(data object {to_text(entry.id)}; begin again)"
                )
