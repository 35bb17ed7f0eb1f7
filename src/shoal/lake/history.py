"""The history of a pool: its commits and the states at them; and the graph that parents and merges make of commits.

A commit has a greater generation than all that it knows of.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress

from shoal.errors import ShoalError
from shoal.ids import Id, new
from shoal.lake.actions import Patch
from shoal.lake.checkpoints import Checkpoints
from shoal.lake.clocks import Clock
from shoal.lake.commits import Commit, Commits, Hints, Note
from shoal.lake.snapshots import Snapshot, Snapshots
from shoal.model.node import frozen

_ONE, _OTHER, _STALE = 1, 2, 4


@frozen
class History:
    """What has been committed to a pool, whatever branches and tags point at now."""

    commits: Commits
    checkpoints: Checkpoints
    snapshots: Snapshots
    clock: Clock

    def snapshot(self, commit: Id | None) -> Snapshot:
        """The objects at a commit."""
        return self.snapshots.at(commit)

    def descends(self, tip: Id | None, ancestor: Id) -> bool:
        """Whether a commit is an ancestor of a tip, or the tip itself. MissingCommit if it is, and gone."""
        commit = self.commits.lookup(ancestor)
        if commit is None:
            return any(each.id == ancestor for each in self.log(tip, self.commits.horizon))
        oldest = commit.generation
        for commit in self.commits.walk(tip):
            if commit.generation <= oldest:
                return commit.id == ancestor
        return False

    def log(self, tip: Id | None, horizon: Id | None) -> Iterator[Commit]:
        """Commits from a tip back to the beginning, or to the commit that history begins with."""
        for commit in self.commits.walk(tip):
            yield commit
            if commit.id == horizon:
                return

    def draft(
        self,
        parent: Commit | None,
        patch: Patch,
        note: Note,
        merged: Id | None = None,
        hints: Hints | None = None,
        ident: Id | None = None,
    ) -> Commit:
        """A commit on top of another, not stored yet."""
        checkpoint, since = self.snapshots.hints(parent) if hints is None else hints
        parents = [parent, None if merged is None else self.commits.read(merged)]
        return Commit(
            id=new() if ident is None else ident,
            parent=None if parent is None else parent.id,
            date=self.clock.now(),
            note=note,
            actions=patch.actions,
            merged=merged,
            generation=1 + max((commit.generation for commit in parents if commit is not None), default=0),
            checkpoint=checkpoint,
            since=since,
        )

    def leave_checkpoint(self, commit: Commit) -> None:
        """Write the checkpoint of a commit if one is due. A failure is not an error: another checkpoint will come."""
        with suppress(ShoalError):
            self.snapshots.checkpoint(commit)


# ---- the graph of commits


def ancestors(commits: Commits, tip: Id | None) -> Iterator[Commit]:
    """A tip and all that it knows of, the highest generation first."""
    queue = _Queue(commits)
    if tip is not None:
        queue.add(tip)
    for commit in queue:
        yield commit
        for ident in commit.parents:
            queue.add(ident, commit)


def own_commits(commits: Commits, tip: Id | None, other: Id | None) -> list[Commit]:
    """The commits of a tip's chain of parents, oldest first, that another tip does not know of."""
    others = ancestors(commits, other)
    ahead = next(others, None)
    seen: set[Id] = set()
    out: list[Commit] = []
    for commit in commits.walk(tip):
        while ahead is not None and ahead.generation >= commit.generation:
            seen.add(ahead.id)
            ahead = next(others, None)
        if commit.id in seen:
            break
        out.append(commit)
    return out[::-1]


def knows(commits: Commits, tip: Id | None, ident: Id) -> bool:
    """Whether a tip knows of a commit."""
    commit = commits.lookup(ident)
    # One that is gone is searched for in all of history: there it would be damage.
    generation = 0 if commit is None else commit.generation
    for ancestor in ancestors(commits, tip):
        if ancestor.id == ident:
            return True
        if ancestor.generation < generation:
            break
    return False


def common_ancestors(commits: Commits, one: Id | None, other: Id | None) -> list[Id]:
    """The commits that both tips know of and that no other such commit knows of; none if they share no history.

    There are several where branches were merged into each other at the same time.
    """
    queue = _Queue(commits)
    marks: dict[Id, int] = {}

    def mark(ident: Id | None, how: int, child: Commit | None = None) -> None:
        if ident is not None:
            marks[ident] = marks.get(ident, 0) | how
            queue.add(ident, child)

    mark(one, _ONE)
    mark(other, _OTHER)
    common: list[Id] = []
    for commit in queue:
        how = marks[commit.id]
        if how == _ONE | _OTHER:
            common.append(commit.id)
            how |= _STALE
        for ident in commit.parents:
            mark(ident, how, commit)
        if all(marks[ident] & _STALE for ident in queue.waiting()):
            break
    return common


def brought_in(commits: Commits, merge: Commit) -> list[Commit]:
    """The commits that a merge added to the history of its branch, the highest generation first."""
    return [] if merge.merged is None else beyond(commits, merge.merged, merge.parent, merge)


def beyond(commits: Commits, tip: Id | None, other: Id | None, child: Commit | None = None) -> list[Commit]:
    """The commits that a tip knows of and another does not, the highest generation first; both may be of a `child`."""
    queue = _Queue(commits)
    known: set[Id] = set()
    fresh: set[Id] = set()
    for ident, marks in ((other, known), (tip, fresh)):
        if ident is not None:
            marks.add(ident)
            queue.add(ident, child)
    own: list[Commit] = []
    for commit in queue:
        is_known = commit.id in known
        if not is_known:
            own.append(commit)
        for ident in commit.parents:
            (known if is_known else fresh).add(ident)
            queue.add(ident, commit)
        if all(ident in known for ident in queue.waiting()):
            break
    return own


def in_order(commits: Commits, tips: Iterable[Id], horizon: Id | None) -> Iterator[Commit]:
    """Tips and all that they know of, the newest first; a commit comes after all that know of it, whatever its date.

    It is read as far as needed: to find out that nothing else knows of a commit, all of higher generations are visited.
    """
    unvisited = _Queue(commits)
    children: Counter[Id] = Counter()
    ready: list[tuple[int, int, Id]] = []

    def visit(generation: int) -> None:
        """Count the children of all commits from this generation on."""
        for commit in unvisited.down_to(generation):
            for ident in _parents(commit, horizon):
                children[ident] += 1
                unvisited.add(ident, commit)

    def offer(ident: Id) -> None:
        commit = commits.lookup(ident)
        if commit is not None:
            heapq.heappush(ready, (-commit.date, -commit.generation, ident))

    for tip in dict.fromkeys(tips):
        unvisited.add(tip)
        offer(tip)
    listed: set[Id] = set()
    while ready:
        commit = commits.read(heapq.heappop(ready)[2])
        visit(commit.generation)
        if commit.id in listed or children[commit.id]:
            continue  # a tip that another one knows of is offered again after that
        listed.add(commit.id)
        yield commit
        for ident in _parents(commit, horizon):
            children[ident] -= 1
            if not children[ident]:
                offer(ident)


def _parents(commit: Commit, horizon: Id | None) -> tuple[Id, ...]:
    return () if commit.id == horizon else commit.parents


class _Queue:
    """Commits to visit, each once, the highest generation first: so a commit comes after all that know of it."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._heap: list[tuple[int, Id]] = []
        self._seen: set[Id] = set()

    def add(self, ident: Id, child: Commit | None = None) -> None:
        """Put a commit that a child refers to into the queue, unless it was cut off from history and is gone."""
        if ident in self._seen:
            return
        self._seen.add(ident)
        commit = self._commits.read(ident) if child is None else self._commits.read_for(ident, child)
        if commit is not None:
            heapq.heappush(self._heap, (-commit.generation, ident))

    def waiting(self) -> Iterator[Id]:
        """What is in the queue."""
        return (ident for _, ident in self._heap)

    def __iter__(self) -> Iterator[Commit]:
        return self.down_to(0)

    def down_to(self, generation: int) -> Iterator[Commit]:
        """Visit the commits from this generation on."""
        while self._heap and -self._heap[0][0] >= generation:
            yield self._commits.read(heapq.heappop(self._heap)[1])
