"""What a transaction sees: its own branches as it has changed them, and all others in one cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from shoal.ids import Id
from shoal.lake import sessions
from shoal.lake.cuts import Cut
from shoal.lake.keys import KeyRange
from shoal.lake.sessions import BranchRead, JournalRead, Session
from shoal.planner.read_log import ReadLog


class Part(Protocol):
    """A branch that a transaction changes."""

    @property
    def place(self) -> tuple[Id, str]:
        """The pool, and the name of the branch."""

    @property
    def isolation(self) -> sessions.Isolation:
        """What is checked when it commits."""

    def view(self) -> Id | None:
        """A commit with the state that the transaction sees."""

    def has_shown(self, commit: Id | None) -> bool:
        """Whether a commit has stood for the branch in a query."""

    def note(self, change: Callable[[Session], Session]) -> None:
        """Record something in its session."""


class Scope:
    """The branches of a transaction, and the cut in which it reads all others. Records what queries read."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.parts: list[Part] = []
        self._branches: dict[tuple[Id, Id | None], tuple[str, ...]] = {}
        """The names of other branches that queries read, by pool and commit."""

    def views(self) -> dict[tuple[Id, str], Id | None]:
        """The commits that stand for its own branches."""
        return {part.place: part.view() for part in self.parts}

    @property
    def log(self) -> ReadLog | None:
        """What queries report to; None if nothing of it is checked."""
        return self if self.parts[0].isolation == "serializable" else None

    def on_branch(self, pool: Id, branch: str, commit: Id | None) -> None:
        names = self._branches.get((pool, commit), ())
        if branch not in names:
            self._branches[pool, commit] = (*names, branch)

    def on_values(self, pool: Id, commit: Id | None, keys: KeyRange) -> None:
        for part in self.parts:
            if part.place[0] == pool and part.has_shown(commit):
                part.note(lambda session: sessions.note_read(session, keys))
        reads = [BranchRead(pool, branch, commit, keys) for branch in self._branches.get((pool, commit), ())]
        if reads:
            self.parts[0].note(lambda session: sessions.note_others(session, reads))

    def on_journal(self, pool: Id | None, position: int) -> None:
        self.parts[0].note(lambda session: sessions.note_journal(session, JournalRead(pool, position)))
