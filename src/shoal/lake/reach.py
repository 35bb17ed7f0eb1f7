"""What branches, tags and pending entries reach, which a vacuum leaves; and what the last vacuum has not left.

Who refers to something again that nothing reaches any more, a commit of a branch that was dropped or data of a history
that was cut, has to look whether a vacuum has been announced that takes it. It may be there still, and go in a moment.
What was reached at the entry that announced the last vacuum stays. So does what was written after all that any vacuum
has listed, as long as what it refers to is not older.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from shoal.errors import NotFound
from shoal.ids import Id
from shoal.lake.actions import Stored, reached, stored
from shoal.lake.branches import Refs, VacuumMark
from shoal.lake.commits import Commit
from shoal.lake.history import History, ancestors
from shoal.lake.journal import Journal
from shoal.model.node import frozen
from shoal.storage.store import ObjectStore


def kept_commits(history: History, refs: Refs) -> dict[Id, Commit]:
    """The commits that stay. Where history was cut, one that was merged in does, because later merges look for it."""
    if refs.horizon is None:
        return {commit.id: commit for tip in refs.tips() for commit in ancestors(history.commits, tip)}
    horizon = history.commits.read(refs.horizon)
    kept = {horizon.id: horizon}
    for tip in refs.tips():
        kept |= {c.id: c for c in ancestors(history.commits, tip) if c.generation >= horizon.generation}
    return kept


def readable_commits(history: History, refs: Refs) -> Iterator[Commit]:
    """The commits of which the data stays, some more than once. Of what was merged into a history that was cut it goes:
    the merge itself has added what is needed."""
    if refs.horizon is None:
        for tip in refs.tips():
            yield from ancestors(history.commits, tip)
        return
    yield history.commits.read(refs.horizon)
    for tip in refs.tips():
        yield from history.log(tip, refs.horizon)


def kept_objects(history: History, refs: Refs) -> Iterator[Stored]:
    """What stays of data, masks and lineages, some more than once."""
    for commit in readable_commits(history, refs):
        yield from reached(commit.actions)
    if refs.horizon is not None:
        for entry in history.snapshot(refs.horizon).objects():
            yield from stored(entry)


@frozen
class Vacuumed:
    """Knows what the last vacuum of a pool has taken, or is about to take."""

    store: ObjectStore
    prefix: str
    history: History
    journal: Journal

    def objects(self, references: Iterable[Stored], mark: VacuumMark | None) -> set[Stored]:
        """Those of some objects that the vacuum takes; without one, those that are not there."""
        old = {each for each in references if not self._is_younger(each, mark)}
        if old and mark is not None:
            for each in kept_objects(self.history, self._refs(mark)):
                old.discard(each)
                if not old:
                    break
        return old

    def _is_younger(self, reference: Stored, mark: VacuumMark | None) -> bool:
        with suppress(NotFound):
            written = self.store.modified(reference.key(self.prefix))
            return mark is None or written * 1e9 > mark.until
        return False

    def _refs(self, mark: VacuumMark) -> Refs:
        return Refs(self.journal.at_position(mark.position))

    def has_commit(self, ident: Id, mark: VacuumMark) -> bool:
        """Whether the vacuum takes a commit, one that it knows of, or data that one of these refers to."""
        refs, commits = self._refs(mark), self.history.commits
        readable = {commit.id for commit in readable_commits(self.history, refs)}
        kept = kept_commits(self.history, refs)
        waiting, seen, references = [ident], set[Id](), list[Stored]()
        while waiting:
            each = waiting.pop()
            if each in readable or each in seen:
                continue
            seen.add(each)
            listed = commits.find(each)
            if listed is None or (each not in kept and listed.modified * 1e9 <= mark.until):
                return True
            commit = commits.read(each)
            references += reached(commit.actions)
            merged = commit.merged if refs.horizon is None else None
            waiting += [parent for parent in (commit.parent, merged) if parent is not None]
        return bool(self.objects(references, mark))
