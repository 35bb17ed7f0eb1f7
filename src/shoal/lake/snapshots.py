"""The state of a pool at a commit: a checkpoint and the changes since. Pages are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge

from shoal.errors import CorruptData, NotFound
from shoal.ids import Id, to_text
from shoal.lake.checkpoints import Checkpoints, Item
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
    rebuild: Callable[[], Iterable[DataObject]] = field(default=tuple, repr=False)
    """The objects below the items, from commits alone."""

    def objects(self, wanted: KeyRange = EVERYTHING) -> Iterator[DataObject]:
        """The objects that may hold something in the range, by the first key of each in the order of the pool."""
        gone = {o.id for o in self.since.deletes}
        old = (o for o in self._checkpointed(wanted) if o.id not in gone)
        new = [o for o in self.since.adds if wanted.may_hold(o.min, o.max)]
        if not new:
            return old
        sortable = comparer(self.key.order)
        return merge(old, in_order(self.key, new), key=lambda o: sortable((o.first(self.key),)))

    def _checkpointed(self, wanted: KeyRange) -> Iterator[DataObject]:
        """The objects of the checkpoint; from a damaged page on, those that the commits tell of."""
        seen: set[Id] = set()
        try:
            for o in self.checkpoints.objects(self.items, wanted):
                seen.add(o.id)
                yield o
        except (NotFound, CorruptData):
            rest = [o for o in self.rebuild() if o.id not in seen and wanted.may_hold(o.min, o.max)]
            yield from in_order(self.key, rest)

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
        if any(a.id == o.id for a in self.since.adds):
            return True
        if any(d.id == o.id for d in self.since.deletes):
            return False
        first = o.first(self.key)
        near = EVERYTHING if first.data is None else KeyRange(Bound(first), Bound(first))
        return any(x.id == o.id for x in self._checkpointed(near))


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
        items, since = self._hinted(self._commits.read(tip)) or self._walk(tip)
        before = since[0].parent if since else tip
        return Snapshot(self._key, self._checkpoints, items, fold(since), lambda: self._fold_all(before))

    def _fold_all(self, tip: Id | None) -> Iterable[DataObject]:
        return fold(reversed(list(self._commits.walk(tip)))).adds

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
            return self._checkpoints.open(checkpoint)
        except (NotFound, CorruptData):
            return None

    def _walk(self, tip: Id) -> tuple[tuple[Item, ...], list[Commit]]:
        """By parents to the beginning, or to a checkpoint that is good."""
        commits: list[Commit] = []
        for commit in self._commits.walk(tip):
            items = self._open(commit.id)
            if items is not None:
                return items, commits[::-1]
            commits.append(commit)
        return (), commits[::-1]

    def hints(self, parent: Commit | None) -> tuple[Id | None, tuple[Id, ...]]:
        """What a child of a commit says of checkpoints: the newest that is there, and the commits since."""
        if parent is None:
            return None, ()
        since = (*parent.since, parent.id)
        for count in range(len(since) // CHECKPOINT_EVERY * CHECKPOINT_EVERY, 0, -CHECKPOINT_EVERY):
            if self._checkpoints.exists(since[count - 1]):
                return since[count - 1], since[count:]
        return parent.checkpoint, since

    def checkpoint(self, commit: Commit) -> None:
        """Write the checkpoint of a commit if it is time for one."""
        if (len(commit.since) + 1) % CHECKPOINT_EVERY == 0:
            self.write_checkpoint(commit.id)

    def write_checkpoint(self, ident: Id) -> None:
        """Write the checkpoint of a commit."""
        now = self.at(ident)
        items = self._checkpoints.changed(now.items, now.since.adds, now.since.deletes)
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
