"""The state of a pool at a commit: a checkpoint and the changes since. Pages are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import merge

from shoal.errors import CorruptData, NotFound
from shoal.ids import Id, to_text
from shoal.lake.checkpoints import Checkpoints, Item, PageRef
from shoal.lake.commits import Commit, Commits
from shoal.lake.keys import EVERYTHING, Bound, KeyRange, SortKey, comparer
from shoal.lake.objects import DataObject, in_order

CHECKPOINT_EVERY = 16


@dataclass(frozen=True, slots=True)
class Patch:
    """Objects that come and objects that go."""

    adds: tuple[DataObject, ...] = ()
    deletes: tuple[DataObject, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not self.adds and not self.deletes

    def inverse(self) -> Patch:
        """The patch that takes this one back."""
        return Patch(self.deletes, self.adds)


NOTHING = Patch()


def fold(patches: Iterable[Commit | Patch]) -> Patch:
    """What changes, oldest first, come to together. What one adds and a later one deletes is in none of the lists."""
    adds: dict[Id, DataObject] = {}
    deletes: dict[Id, DataObject] = {}
    for patch in patches:
        for o in patch.deletes:
            if adds.pop(o.id, None) is None:
                deletes[o.id] = o
        for o in patch.adds:
            if deletes.pop(o.id, None) is None:
                adds[o.id] = o
    return Patch(tuple(adds.values()), tuple(deletes.values()))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects at a commit."""

    key: SortKey
    checkpoints: Checkpoints = field(repr=False)
    items: tuple[Item, ...] = ()
    since: Patch = NOTHING
    changed: Mapping[Id, bool] = field(default_factory=dict, repr=False)
    """Whether an object that changed since is there."""
    reopen: Callable[[], Snapshot] | None = field(default=None, repr=False)
    """The same state by another way, if a page turns out to be damaged or gone."""

    def objects(self, wanted: KeyRange = EVERYTHING) -> Iterator[DataObject]:
        """The objects that may hold something in the range, by the first key of each in the order of the pool."""
        seen: set[Id] = set()
        try:
            for o in self._objects(wanted):
                seen.add(o.id)
                yield o
        except (NotFound, CorruptData):
            if self.reopen is None:
                raise
            # Both ways give one order, so what is left comes after what was seen.
            yield from (o for o in self.reopen().objects(wanted) if o.id not in seen)

    def _objects(self, wanted: KeyRange) -> Iterator[DataObject]:
        gone = {o.id for o in self.since.deletes}
        old = (o for o in self.checkpoints.objects(self.items, wanted) if o.id not in gone)
        new = [o for o in self.since.adds if o.may_hold(wanted)]
        if not new:
            return old
        sortable = comparer(self.key.order)
        return merge(old, in_order(self.key, new), key=lambda o: sortable((o.first(self.key),)))

    def count(self) -> int:
        """How many objects there are."""
        before = sum(item.count if isinstance(item, PageRef) else 1 for item in self.items)
        return before + len(self.since.adds) - len(self.since.deletes)

    def find(self, idents: Iterable[Id]) -> dict[Id, DataObject]:
        """Those of these objects that are there."""
        wanted = set(idents)
        found: dict[Id, DataObject] = {}
        for o in self.objects():
            if o.id in wanted:
                found[o.id] = o
                if len(found) == len(wanted):
                    break
        return found

    def has(self, o: DataObject) -> bool:
        """Whether an object is there; looks only where its key is."""
        if o.id in self.changed:
            return self.changed[o.id]
        first = o.first(self.key)
        near = KeyRange(Bound(first), Bound(first)) if o.is_ranged and first.data is not None else EVERYTHING
        return any(x.id == o.id for x in self.objects(near))


class Snapshots:
    """The states of a pool at its commits."""

    def __init__(self, commits: Commits, checkpoints: Checkpoints, key: SortKey) -> None:
        self._commits = commits
        self._checkpoints = checkpoints
        self._key = key

    def at(self, tip: Id | None) -> Snapshot:
        """The state at a commit: by its hints, or if they are of no use by its parents."""
        if tip is None:
            return Snapshot(self._key, self._checkpoints)
        hinted = self._hinted(self._commits.read(tip))
        if hinted is None:
            return self._walked(tip, frozenset())
        return self._made(*hinted, lambda: self._walked(tip, frozenset()))

    def _made(
        self, items: tuple[Item, ...], since: Iterable[Commit], reopen: Callable[[], Snapshot] | None
    ) -> Snapshot:
        patch = fold(since)
        changed = {o.id: False for o in patch.deletes} | {o.id: True for o in patch.adds}
        return Snapshot(self._key, self._checkpoints, items, patch, changed, reopen)

    def _walked(self, tip: Id, bad: frozenset[Id]) -> Snapshot:
        """The state by parents, to the nearest checkpoint that is not known to be bad, or to the beginning."""
        commits: list[Commit] = []
        for commit in self._commits.walk(tip):
            items = None if commit.id in bad else self._open(commit.id)
            if items is not None:
                return self._made(items, reversed(commits), partial(self._walked, tip, bad | {commit.id}))
            commits.append(commit)
        return self._made((), reversed(commits), None)

    def _hinted(self, commit: Commit) -> tuple[tuple[Item, ...], list[Commit]] | None:
        """The checkpoint that a commit names, and the commits since; None if any of that is gone or damaged."""
        items = self._open(commit.checkpoint)
        if items is None:
            return None
        try:
            return items, [*self._commits.read_all(commit.since), commit]
        except (NotFound, CorruptData):
            return None

    def _open(self, checkpoint: Id | None) -> tuple[Item, ...] | None:
        """The top of a checkpoint; None if it cannot be used. Without one there is nothing before."""
        if checkpoint is None:
            return ()
        try:
            if self._is_cut_off(checkpoint):
                return None
            return self._checkpoints.open(checkpoint)
        except (NotFound, CorruptData):
            return None

    def _is_cut_off(self, checkpoint: Id) -> bool:
        """Whether a checkpoint is older than the beginning of history, so that its pages may go at any time."""
        horizon = self._commits.horizon
        if horizon is None:
            return False
        return self._commits.read(checkpoint).generation < self._commits.read(horizon).generation

    def is_whole(self, ident: Id) -> bool:
        """Whether the checkpoint of a commit is there, with all of its pages."""
        try:
            for _ in self._checkpoints.objects(self._checkpoints.open(ident)):
                pass
        except (NotFound, CorruptData):
            return False
        return True

    def hints(self, parent: Commit | None) -> tuple[Id | None, tuple[Id, ...]]:
        """What a child of a commit says of checkpoints: the newest that is there, and the commits since."""
        if parent is None:
            return None, ()
        since = (*parent.since, parent.id)
        for count in range(len(since) // CHECKPOINT_EVERY * CHECKPOINT_EVERY, 0, -CHECKPOINT_EVERY):
            if self._checkpoints.exists(since[count - 1]):
                return since[count - 1], since[count:]
        return parent.checkpoint, since

    def is_due(self, commit: Commit) -> bool:
        """Whether it is time for a checkpoint."""
        return (len(commit.since) + 1) % CHECKPOINT_EVERY == 0

    def checkpoint(self, commit: Commit) -> None:
        """Write the checkpoint of a commit if it is time for one."""
        if self.is_due(commit):
            self.write_checkpoint(commit.id)

    def make_whole(self, ident: Id) -> None:
        """Write the checkpoint of a commit with pages of its own, if there is no good one."""
        if not self.is_whole(ident):
            self._checkpoints.write(ident, self._checkpoints.changed((), list(self.at(ident).objects()), ()))

    def write_checkpoint(self, ident: Id) -> None:
        """Write the checkpoint of a commit, which shares what it can with the one before."""
        now = self.at(ident)
        try:
            items = self._checkpoints.changed(now.items, now.since.adds, now.since.deletes)
        except (NotFound, CorruptData):
            items = self._checkpoints.changed((), now.objects(), ())
        self._checkpoints.write(ident, items)

    def between(self, base: Id | None, tip: Id | None) -> Patch:
        """What has to change to come from one commit to another."""
        chain: list[Commit] = []
        oldest = 0 if base is None else self._commits.read(base).generation
        for commit in self._commits.walk(tip):
            if commit.id == base:
                return fold(reversed(chain))
            if commit.generation <= oldest:
                break
            chain.append(commit)
        if base is None:
            return fold(reversed(chain))
        old = {o.id: o for o in self.at(base).objects()}
        new = {o.id: o for o in self.at(tip).objects()}
        adds = tuple(o for o in new.values() if o.id not in old)
        return Patch(adds, tuple(o for o in old.values() if o.id not in new))


def describe(objects: Iterable[DataObject]) -> str:
    """Some objects, for an error: the first few ids."""
    listed = list(objects)
    shown = ", ".join(to_text(o.id) for o in listed[:3])
    return shown if len(listed) <= 3 else f"{shown} and {len(listed) - 3} more"
