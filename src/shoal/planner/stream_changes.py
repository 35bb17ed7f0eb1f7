"""What a stream reads of a branch: offsets, and the data objects that came between two of them.

A stream begins with all records of a commit, its snapshot, or after a commit. Then it follows the parents of the
branch. A commit that only adds objects brings their records. One that also removes objects, as a compaction, a
deletion of records or a merge may, brings what is in the new objects beyond what was in the old ones: the tasks compare
records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.errors import InvalidInput, NotFound, Unsupported
from shoal.ids import Id, parse, to_text
from shoal.lake import row_masking
from shoal.lake.actions import Patch
from shoal.lake.change_feed import is_moving
from shoal.lake.commits import Commit
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.model.node import frozen


@frozen
class Offset:
    """Up to where a stream has read."""

    commit: Id | None = None
    """The last commit; None before the snapshot is chosen."""
    since: Id | None = None
    """The commit that the stream began with."""
    taken: int | None = None
    """How many objects of the snapshot were read, as long as that is not all of them."""

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it in its checkpoint."""
        names = {name: "" if ident is None else to_text(ident) for name, ident in self._ids()}
        return names if self.taken is None else {**names, "taken": self.taken}

    def _ids(self) -> Iterator[tuple[str, Id | None]]:
        yield "commit", self.commit
        yield "since", self.since

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Offset:
        """The inverse of `to_json`."""
        commit, since = (parse(fields[name]) if fields[name] else None for name in ("commit", "since"))
        return Offset(commit, since, fields.get("taken"))


@frozen
class Added:
    """What one commit brings."""

    commit: Id
    objects: tuple[DataObject, ...]
    """Objects whose records are new to the stream, apart from those that are moved."""
    known: tuple[DataObject, ...] = ()
    """Objects that come back and were read before."""
    removed: tuple[DataObject, ...] = ()

    @property
    def count(self) -> int:
        """About how many records are new."""
        return max(0, _count(self.objects) + _count(self.known) - _count(self.removed))


class BranchChanges:
    """The commits of a branch, for one stream. It lives as long as the query and keeps what it has read."""

    def __init__(self, pool: Pool, branch: str, skips_deletes: bool) -> None:
        self._pool, self._branch, self._skips_deletes = pool, branch, skips_deletes
        self._deleted: tuple[Offset, frozenset[Id]] | None = None

    def tip(self) -> Id | None:
        """The last commit of the branch now."""
        return self._pool.refs().branch(self._branch).commit

    def snapshot(self, commit: Id) -> list[DataObject]:
        """All objects at a commit, in an order that stays."""
        return sorted(self._pool.snapshot(commit).objects(), key=lambda o: o.id)

    def next_offset(self, start: Offset, target: Id | None, limit: int | None) -> Offset:
        """Where the next batch ends: at a target, or before if there are more records than a limit."""
        if target is None:
            return start
        if start.commit is None:
            start = Offset(target, target, 0)
        assert start.commit is not None
        if limit is None:
            self._commits(start.commit, target)
            return Offset(target, start.since)
        if start.taken is not None:
            objects = self.snapshot(start.commit)
            taken = start.taken + _fitting([o.count for o in objects[start.taken :]], limit)
            return Offset(start.commit, start.since, taken if taken < len(objects) else None)
        commits = self._commits(start.commit, target)
        counts = [max(0, _count(come) - _count(gone)) for gone, come in map(self._parts, commits)]
        taken = _fitting(counts, limit)
        return Offset(commits[taken - 1].id, start.since) if taken else start

    def between(self, start: Offset, end: Offset) -> list[Added]:
        """What came after one offset, up to another."""
        if end.commit is None or start == end:
            return []
        first = start.commit or end.since
        assert first is not None
        parts: list[Added] = []
        if start.commit is None or start.taken is not None:
            parts.append(Added(first, tuple(self.snapshot(first)[start.taken or 0 : end.taken])))
        known = self._deleted_before(Offset(first, end.since)) if self._skips_deletes else frozenset()
        for commit in self._commits(first, end.commit):
            parts.append(self._added_by(commit, known))
            if self._skips_deletes:
                known |= _changed_by(commit)
        self._deleted = end, known
        return [part for part in parts if part.objects]

    def _added_by(self, commit: Commit, known: frozenset[Id]) -> Added:
        """What a commit brings; InvalidInput if it takes records away and that is not to be passed over."""
        if is_moving(commit):
            return Added(commit.id, ())
        gone, come = self._parts(commit)
        fresh = tuple(o for o in come if o.id not in known)
        back = tuple(o for o in come if o.id in known)
        if not gone and not back:
            return Added(commit.id, fresh)
        if not self._skips_deletes and _count(come) < _count(gone):
            raise deletion_error(commit.id)
        self._require_readable(commit)
        return Added(commit.id, fresh, back, tuple(gone))

    def _parts(self, commit: Commit) -> tuple[list[DataObject], list[DataObject]]:
        """What a commit takes away and what it brings: objects, and parts of those of which it hides or shows rows."""
        return row_masking.changed_parts(self._pool, Patch(commit.actions))

    def _require_readable(self, commit: Commit) -> None:
        refs = self._pool.refs()
        if commit.adds and any(refs.is_purged(o.id) for o in commit.deletes):
            raise Unsupported(
                f"commit {to_text(commit.id)} rewrote data that was purged since, so what it added is unknown "
                f"(start a new stream after it: option from={to_text(commit.id)})"
            )

    def _deleted_before(self, offset: Offset) -> frozenset[Id]:
        """The objects that commits since the stream began have deleted: if they come back, they were read."""
        if self._deleted is not None and self._deleted[0] == offset:
            return self._deleted[1]
        assert offset.commit is not None
        since = self._commits(offset.since, offset.commit) if offset.since != offset.commit else []
        return frozenset(ident for commit in since for ident in _changed_by(commit))

    def _commits(self, start: Id | None, end: Id) -> list[Commit]:
        """The commits after one, up to another, oldest first; NotFound if the first is not an ancestor."""
        commits = list(self._pool.commits.walk(end, start))
        if commits and commits[-1].parent != start:
            raise NotFound(
                f'commit {to_text(start or b"")} is not in the history of branch "{self._branch}" any more '
                "(it was rebased or created again: start a new stream, with another checkpoint)"
            )
        return commits[::-1]


def _changed_by(commit: Commit) -> set[Id]:
    """The objects that a commit takes away, or hides rows of."""
    return {change.id for change in Patch(commit.actions).effects() if change.before is not None}


def deletion_error(commit: Id) -> InvalidInput:
    """The error of a commit that takes records away."""
    return InvalidInput(
        f"commit {to_text(commit)} deletes or replaces records, which a stream cannot pass on "
        "(option deletes=ignore leaves them with those that have read them)"
    )


def _fitting(counts: Sequence[int], limit: int) -> int:
    """How many of these go into one batch: one, and more as long as their sum is within the limit."""
    total = 0
    for number, count in enumerate(counts):
        total += count
        if number and total > limit:
            return number
    return len(counts)


def _count(objects: Sequence[DataObject]) -> int:
    return sum(o.count for o in objects)
