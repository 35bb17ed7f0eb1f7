"""The state of a pool at a commit: a checkpoint and the changes since. Pages are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from heapq import merge
from typing import TypeAlias

from shoal.errors import CorruptData, NotFound
from shoal.ids import Id
from shoal.lake.actions import NOTHING, Patch, difference, fold, patch_of
from shoal.lake.checkpoints import Checkpoints, Item, PageRef
from shoal.lake.commits import Commit, Commits, Hints
from shoal.lake.keys import EVERYTHING, Bound, KeyRange, SortKey, comparer
from shoal.lake.objects import DataObject, in_order
from shoal.model.node import frozen

CHECKPOINT_EVERY = 16


Reopen: TypeAlias = "Callable[[CorruptData], Snapshot]"
"""Reads a state from other objects, after a page of it turned out to be damaged or gone. Raises that if it cannot."""


@frozen
class Snapshot:
    """All objects at a commit."""

    key: SortKey
    checkpoints: Checkpoints = field(repr=False)
    items: tuple[Item, ...] = ()
    since: Patch = NOTHING
    changed: Mapping[Id, DataObject | None] = field(default_factory=dict, repr=False)
    """The objects that changed since the checkpoint, as they are; None for one that is not there."""
    reopen: Reopen | None = field(default=None, repr=False)

    def objects(self, key_range: KeyRange = EVERYTHING) -> Iterator[DataObject]:
        """The objects that may hold something in the range, by the first key of each in the order of the pool."""
        seen: set[Id] = set()
        try:
            for o in self._objects(key_range):
                seen.add(o.id)
                yield o
        except CorruptData as damage:
            if self.reopen is None:
                raise
            # Both ways give one order, so what is left comes after what was seen.
            yield from (o for o in self.reopen(damage).objects(key_range) if o.id not in seen)

    def _objects(self, key_range: KeyRange) -> Iterator[DataObject]:
        old = (o for o in self.checkpoints.objects(self.items, key_range) if o.id not in self.changed)
        new = [after for _, after in self.since.effects() if after is not None and after.may_hold(key_range)]
        if not new:
            return old
        sortable = comparer(self.key.order)
        return merge(old, in_order(self.key, new), key=lambda o: sortable((o.first(self.key),)))

    def after(self, patch: Patch) -> Snapshot:
        """The state that a patch makes of this one."""
        since, reopen = self.since.and_then(patch), self.reopen
        again = None if reopen is None else lambda damage: reopen(damage).after(patch)
        return replace(self, since=since, changed={each.id: each.after for each in since.effects()}, reopen=again)

    def by_id(self) -> dict[Id, DataObject]:
        """All objects by their ids."""
        return {o.id: o for o in self.objects()}

    def count(self) -> int:
        """How many objects there are."""
        listed = sum(item.count if isinstance(item, PageRef) else 1 for item in self.items)
        return listed + sum((after is not None) - (before is not None) for before, after in self.since.effects())

    def find(self, idents: Iterable[Id]) -> dict[Id, DataObject]:
        """Those of these objects that are there."""
        missing = set(idents)
        present: dict[Id, DataObject] = {}
        for o in self.objects() if missing else ():
            if o.id in missing:
                missing.remove(o.id)
                present[o.id] = o
                if not missing:
                    break
        return present

    def has(self, o: DataObject) -> bool:
        """Whether an object is there, with the same rows; looks only where its key is."""
        now = self.version(o)
        return now is not None and now.is_same(o)

    def version(self, o: DataObject) -> DataObject | None:
        """An object as it is there, whatever rows of it are hidden; None if it is not."""
        if o.id in self.changed:
            return self.changed[o.id]
        first = o.first(self.key)
        near = KeyRange(Bound(first), Bound(first)) if o.is_ranged and first.data is not None else EVERYTHING
        return next((x for x in self.objects(near) if x.id == o.id), None)


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
        return self._snapshot(*hinted, partial(self._walked, tip, frozenset()))

    def _snapshot(self, items: tuple[Item, ...], since: Iterable[Commit], reopen: Reopen | None) -> Snapshot:
        patch = fold(commit.actions for commit in since)
        changed = {each.id: each.after for each in patch.effects()}
        return Snapshot(self._key, self._checkpoints, items, patch, changed, reopen)

    def _walked(self, tip: Id, bad: frozenset[Id], damage: CorruptData | None = None) -> Snapshot:
        """The state by parents, to the nearest checkpoint that was not seen to be damaged, or to the beginning.

        Where the beginning was cut off, the checkpoint of the horizon is needed: then the damage to it is raised.
        """
        commits: list[Commit] = []
        try:
            for commit in self._commits.walk(tip):
                items = None if commit.id in bad else self._open(commit.id)
                if items is not None:
                    return self._snapshot(items, reversed(commits), partial(self._walked, tip, bad | {commit.id}))
                commits.append(commit)
        except NotFound:
            if damage is not None:
                raise damage from None
            self._checkpoints.open(commits[-1].id)
            raise
        return self._snapshot((), reversed(commits), None)

    def _hinted(self, commit: Commit) -> tuple[tuple[Item, ...], list[Commit]] | None:
        """The checkpoint that a commit names, and the commits since; None if any of that is gone or damaged."""
        items = self._open(commit.checkpoint)
        if items is None:
            return None
        try:
            return items, [*self._commits.read_all(commit.since), commit]
        except CorruptData:
            return None

    def _open(self, checkpoint: Id | None) -> tuple[Item, ...] | None:
        """The top of a checkpoint; None if it cannot be used. Without one there is nothing before."""
        if checkpoint is None:
            return ()
        try:
            if self._is_cut_off(checkpoint):
                return None
            return self._checkpoints.open(checkpoint)
        except CorruptData:
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
        except CorruptData:
            return False
        return True

    def hints(self, parent: Commit | None) -> Hints:
        """What a child of a commit says of checkpoints: the newest that is there, and the commits since."""
        if parent is None:
            return None, ()
        since = (*parent.since, parent.id)
        for count in range(len(since) // CHECKPOINT_EVERY * CHECKPOINT_EVERY, 0, -CHECKPOINT_EVERY):
            if self._checkpoints.exists(since[count - 1]):
                return since[count - 1], since[count:]
        return parent.hints

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
            self._checkpoints.write(ident, self._checkpoints.changed((), patch_of(self.at(ident).objects())))

    def write_checkpoint(self, ident: Id) -> None:
        """Write the checkpoint of a commit, which shares what it can with the one before."""
        now = self.at(ident)
        try:
            items = self._checkpoints.changed(now.items, now.since)
        except CorruptData:
            items = self._checkpoints.changed((), patch_of(now.objects()))
        self._checkpoints.write(ident, items)

    def between(self, base: Id | None, tip: Id | None) -> Patch:
        """What has to change to come from one commit to another."""
        chain: list[Commit] = []
        oldest = 0 if base is None else self._commits.read(base).generation
        for commit in self._commits.walk(tip):
            if commit.id == base:
                return fold(commit.actions for commit in reversed(chain))
            if commit.generation <= oldest:
                break
            chain.append(commit)
        if base is None:
            return fold(commit.actions for commit in reversed(chain))
        return difference(self.at(base).by_id(), self.at(tip).by_id())
