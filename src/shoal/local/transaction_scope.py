"""What a transaction sees: its own branches as it has changed them, and all others in one cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from shoal.errors import InvalidInput
from shoal.ids import Id
from shoal.lake import changes, sessions
from shoal.lake.actions import Patch
from shoal.lake.cuts import Cut
from shoal.lake.keys import KeyRange
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.sessions import BranchRead, JournalRead, Session
from shoal.planner.program_loads import Write
from shoal.planner.read_log import ReadLog


class Part(Protocol):
    """A branch that a transaction changes."""

    @property
    def place(self) -> tuple[Id, str]:
        """The pool, and the name of the branch."""

    @property
    def isolation(self) -> sessions.Isolation:
        """What is checked when it commits."""

    @property
    def pool(self) -> Pool:
        """The pool."""

    @property
    def session(self) -> Session:
        """What was done there so far."""

    def view(self) -> Id | None:
        """A commit with the state that the transaction sees."""

    def stage(self, patch: Patch) -> None:
        """Stage changes."""

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

    def require_part(self, pool: Pool, branch: str) -> None:
        """InvalidInput unless a branch is one of its own."""
        if (pool.config.id, branch) not in {part.place for part in self.parts}:
            places = ", ".join(sessions.place_of(part.pool, part.session) for part in self.parts)
            place = f"{pool.config.name}@{branch}"
            raise InvalidInput(f"load: {place} is not part of this transaction (it was begun on {places})")

    def stage_loads(self, writes: Sequence[Write]) -> None:
        """Stage what a program has loaded; nothing of it, if a key is there already."""
        parts = {part.place: part for part in self.parts}
        patches = [(parts[each.pool.config.id, each.branch], each.objects) for each in writes]
        for part, patch in [(part, _adding(part, objects)) for part, objects in patches]:
            part.stage(patch)

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


def _adding(part: Part, objects: Sequence[DataObject]) -> Patch:
    """What adds objects on a branch, as the transaction sees it."""
    return changes.adding(part.pool, part.session.branch, objects, part.view())
