"""The graph of commits: through parents and merges. A commit has a greater generation than all that it knows of."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import nullcontext, suppress

from shoal.errors import NotFound
from shoal.ids import Id
from shoal.lake.commits import Commit, Commits

_ONE, _OTHER, _STALE = 1, 2, 4


def ancestors(commits: Commits, tip: Id | None) -> Iterator[Commit]:
    """A tip and all that it knows of, the highest generation first."""
    queue = _Queue(commits)
    if tip is not None:
        queue.add(tip)
    for commit in queue:
        yield commit
        for ident in commit.parents:
            queue.add(ident)


def own_commits(commits: Commits, tip: Id | None, other: Id | None) -> list[Commit]:
    """The commits of a tip's chain of parents, oldest first, that another tip does not know of."""
    known = ancestors(commits, other)
    ahead = next(known, None)
    seen: set[Id] = set()
    out: list[Commit] = []
    for commit in commits.walk(tip):
        while ahead is not None and ahead.generation >= commit.generation:
            seen.add(ahead.id)
            ahead = next(known, None)
        if commit.id in seen:
            break
        out.append(commit)
    return out[::-1]


def knows(commits: Commits, tip: Id | None, ident: Id) -> bool:
    """Whether a tip knows of a commit."""
    try:
        generation = commits.read(ident).generation
    except NotFound:
        return False
    for commit in ancestors(commits, tip):
        if commit.id == ident:
            return True
        if commit.generation < generation:
            break
    return False


def common_ancestors(commits: Commits, one: Id | None, other: Id | None) -> list[Id]:
    """The commits that both tips know of and that no other such commit knows of; none if they share no history.

    There are several where branches were merged into each other at the same time.
    """
    queue = _Queue(commits)
    marks: dict[Id, int] = {}

    def mark(ident: Id | None, how: int) -> None:
        if ident is not None:
            marks[ident] = marks.get(ident, 0) | how
            queue.add(ident)

    mark(one, _ONE)
    mark(other, _OTHER)
    found: list[Id] = []
    for commit in queue:
        how = marks[commit.id]
        if how == _ONE | _OTHER:
            found.append(commit.id)
            how |= _STALE
        for ident in commit.parents:
            mark(ident, how)
        if all(marks[ident] & _STALE for ident in queue.waiting()):
            break
    return found


class _Queue:
    """Commits to visit, each once, the highest generation first: so a commit comes after all that know of it."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._heap: list[tuple[int, Id]] = []
        self._seen: set[Id] = set()

    def add(self, ident: Id) -> None:
        """Put a commit into the queue. Where history was cut, what a merge points at may be gone."""
        if ident in self._seen:
            return
        self._seen.add(ident)
        with suppress(NotFound) if self._commits.horizon is not None else nullcontext():
            heapq.heappush(self._heap, (-self._commits.read(ident).generation, ident))

    def waiting(self) -> Iterator[Id]:
        """What is in the queue."""
        return (ident for _, ident in self._heap)

    def __iter__(self) -> Iterator[Commit]:
        while self._heap:
            yield self._commits.read(heapq.heappop(self._heap)[1])
