"""Commits: immutable objects, each with its parent, its metadata and its actions.

A commit also names the checkpoint that its state is best read from and the commits since, so that opening a
branch takes a few reads and not a walk. Both are hints: the parents alone say what the state is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shoal.errors import CorruptData, NotFound, OutcomeUnknown
from shoal.ids import Id, to_text
from shoal.lake.actions import (
    Action,
    added,
    deleted,
    format_action,
    mapped,
    parse_action,
    show_action,
    touched,
)
from shoal.lake.claims import Patience, claim, unknown
from shoal.lake.objects import DataObject, without_bytes
from shoal.lake.sealed import seal, unseal
from shoal.lake.tallies import Tally, parse_tally, show_tally
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.fields import (
    NO_ID,
    get,
    get_data,
    get_id,
    get_or,
    id_list,
    id_value,
    name_of,
    named,
    optional_id,
    time_value,
    uint64,
)
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, string
from shoal.storage.store import Listed, ObjectStore, dropping_damage

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = lazy("concurrent.futures")

_FEW, _SLOW, _AT_ONCE = 2, 0.003, 16


Hints = tuple[Id | None, tuple[Id, ...]]
"""A checkpoint that has been written, None being the beginning, and the commits since, oldest first."""


class MissingCommit(CorruptData):
    """A commit that is gone, and that a branch, a tag or another commit refers to."""


@frozen
class Note:
    """What the author of a commit writes about it."""

    author: str = ""
    message: str = ""
    meta: Value = NULL


@frozen
class Commit:
    """One commit."""

    id: Id
    parent: Id | None
    date: int
    note: Note
    actions: tuple[Action, ...] = ()
    merged: Id | None = None
    """The commit of another branch whose changes this one brings in."""
    retries: int = 0
    generation: int = 1
    """More than that of its parent and of the commit it merged."""
    checkpoint: Id | None = None
    """An ancestor whose checkpoint had been written."""
    op: Id = NO_ID
    """The operation that made it, which is the id of the commit of its first attempt."""
    position: int = 0
    """Where the journal stood when this was made: an entry for it can only come later."""
    since: tuple[Id, ...] = ()
    """The commits after that checkpoint (or after the beginning) up to the parent, oldest first."""
    records: Tally | None = None
    """What it did in records; None if that is unknown, as in commits of older versions."""
    is_maintenance: bool = False
    """Whether it only moves rows, so that no query sees a difference."""
    txn: Id | None = None
    """The transaction over several pools that it is part of."""

    @property
    def parents(self) -> tuple[Id, ...]:
        """The commits that this one knows of directly."""
        return tuple(p for p in (self.parent, self.merged) if p is not None)

    @property
    def hints(self) -> Hints:
        """What a child says of checkpoints, if none has been written since."""
        return self.checkpoint, (*self.since, self.id)

    @property
    def adds(self) -> tuple[DataObject, ...]:
        """The data objects that it adds."""
        return added(self.actions)

    @property
    def deletes(self) -> tuple[DataObject, ...]:
        """The data objects that it deletes."""
        return deleted(self.actions)


class Commits:
    """The commits of a pool."""

    def __init__(
        self,
        store: ObjectStore,
        pool: str,
        horizon: Callable[[], Id | None],
        is_purged: Callable[[Id], bool] = lambda ident: False,
    ) -> None:
        self._store = store
        self._is_purged = is_purged
        self._pool = pool
        self._horizon = horizon
        self._cache: dict[Id, Commit] = {}

    @property
    def horizon(self) -> Id | None:
        """The commit that history begins with, if its beginning was cut off: ancestors may be gone."""
        return self._horizon()

    def _key(self, ident: Id) -> str:
        return f"{self._pool}/commits/{to_text(ident)}.zng"

    def write(self, commit: Commit) -> None:
        """Store a commit. Nobody sees it before a branch points at it."""
        key, commit = self._key(commit.id), self._without_purged(commit)
        self._store.put(key, seal(format_commit(commit), key))
        self._keep(commit)

    def create(self, commit: Commit) -> bool:
        """Store a commit under a name that others may want as well; False if theirs is there."""
        key, commit = self._key(commit.id), self._without_purged(commit)
        try:
            is_ours = claim(self._store, key, seal(format_commit(commit), key), Patience())
        except OutcomeUnknown as e:
            raise unknown(commit.id, e) from e
        if not is_ours:
            return False
        self._keep(commit)
        return True

    def _without_purged(self, commit: Commit) -> Commit:
        """The commit as it may be written: who has read an object before it was purged does not bring it back."""
        if not any(entry.inline and self._is_purged(entry.id) for entry in touched(commit.actions)):
            return commit
        emptied = partial(without_bytes, is_purged=self._is_purged)
        return replace(commit, actions=tuple(mapped(action, emptied) for action in commit.actions))

    def forget(self, objects: Set[Id]) -> None:
        """Forget what was read of commits that describe some objects."""
        for commit in list(self._cache.values()):
            if any(entry.id in objects for entry in touched(commit.actions)):
                self._cache.pop(commit.id, None)

    def read(self, ident: Id) -> Commit:
        """A commit that has to exist, because something refers to it."""
        commit = self.lookup(ident)
        if commit is None:
            raise MissingCommit(
                f"{self._key(ident)}: this commit is gone, and history refers to it (restore it from a backup)"
            )
        return commit

    def lookup(self, ident: Id) -> Commit | None:
        """A commit by an id that may be anything; None if there is no such commit."""
        commit = self._cache.get(ident)
        if commit is None:
            key = self._key(ident)
            try:
                data = self._store.get(key)
            except NotFound:
                return None
            with dropping_damage(self._store, key):
                commit = parse_commit(unseal(data, key), key)
            self._keep(commit)
        return commit

    def read_for(self, ident: Id, child: Commit) -> Commit | None:
        """A commit that another one refers to; None if it may be gone and is, because the beginning was cut off.

        A child of the horizon or of a later commit has its parent. What it merged may be older than the horizon.
        """
        horizon = self.horizon
        if horizon is None or (ident == child.parent and child.generation > self.read(horizon).generation):
            return self.read(ident)
        return self.lookup(ident)

    def find(self, ident: Id) -> Listed | None:
        """The object of a commit as it is in the store now, whatever is remembered of it."""
        key = self._key(ident)
        return next((listed for listed in self._store.list(key) if listed.key == key), None)

    def needed_by(self, child: Commit) -> tuple[Id, ...]:
        """Commits that another one names and that cannot have been cut off from history."""
        if self.horizon is None:
            return (*child.since, *child.parents)
        return () if child.parent is None or child.id == self.horizon else (child.parent,)

    def read_all(self, idents: Sequence[Id]) -> list[Commit]:
        """Commits by their ids; several at a time where the store takes its time for one."""
        uncached = [ident for ident in idents if ident not in self._cache]
        began = time.monotonic()
        if uncached:
            self.read(uncached[0])
        if len(uncached) > _FEW and time.monotonic() - began > _SLOW:
            with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
                return list(pool.map(self.read, idents))
        return [self.read(ident) for ident in idents]

    def _keep(self, commit: Commit) -> None:
        if len(self._cache) >= 10_000:
            self._cache.clear()
        self._cache[commit.id] = commit

    def walk(self, tip: Id | None, until: Id | None = None) -> Iterator[Commit]:
        """Commits from a tip back, by parents, up to one that is not included or to the beginning.

        NotFound, if that leads to commits that were cut off from history and are gone.
        """
        if tip is None or tip == until:
            return
        commit = self.read(tip)
        yield commit
        while commit.parent is not None and commit.parent != until:
            parent = self.read_for(commit.parent, commit)
            if parent is None:
                raise older_than_history(commit.parent, self.horizon)
            commit = parent
            yield commit


def older_than_history(ident: Id, horizon: Id | None) -> NotFound:
    """The error of a commit that was cut off from history."""
    return NotFound(f"{to_text(ident)}: this commit is older than {to_text(horizon or NO_ID)}, where history begins")


# ---- as values


def format_commit(c: Commit) -> Iterator[Value]:
    """A commit as it is stored: its metadata, then its actions."""
    yield _named_with_extras(c)
    for action in c.actions:
        yield format_action(action, c.id)


def _metadata(c: Commit) -> list[tuple[str, Value]]:
    return [
        ("id", id_value(c.id)),
        ("parent", id_value(c.parent or NO_ID)),
        ("retries", Value(t.UINT8, min(c.retries, 255))),
        ("author", string(c.note.author)),
        ("date", time_value(c.date)),
        ("message", string(c.note.message)),
        ("meta", c.note.meta),
    ]


def _named_with_extras(c: Commit) -> Value:
    extras = [
        ("merged", optional_id(c.merged)),
        ("generation", uint64(c.generation)),
        ("op", id_value(c.op)),
        ("position", uint64(c.position)),
        ("checkpoint", optional_id(c.checkpoint)),
        ("since", id_list(c.since)),
        *_deeds(c),
    ]
    return named("Commit", *_metadata(c), *extras, *_transaction(c))


def _transaction(c: Commit) -> list[tuple[str, Value]]:
    """The field of a commit that is part of a transaction; other commits do not have it."""
    return [] if c.txn is None else [("transaction", id_value(c.txn))]


def _deeds(c: Commit) -> Iterator[tuple[str, Value]]:
    """What it did in records, as far as that is known, and whether that is nothing on purpose."""
    if c.records is not None:
        yield "records", show_tally(c.records)
    if c.is_maintenance:
        yield "maintenance", Value(t.BOOL, True)


def show_commit(c: Commit) -> Value:
    """A commit as meta-queries show it; a merge says what it merged."""
    merged = [("merged", id_value(c.merged))] if c.merged is not None else []
    return named("Commit", *_metadata(c), *merged, *_deeds(c), *_transaction(c))


def show_actions(c: Commit) -> Iterator[Value]:
    """What a commit did, as meta-queries show it."""
    for action in c.actions:
        yield show_action(action, c.id)
    yield show_commit(c)


def parse_commit(values: list[Value], where: str) -> Commit:
    """The commit in its stored values."""
    if not values or name_of(values[0]) != "Commit":
        raise CorruptData(f"{where}: a commit without its metadata")
    head = values[0]
    parent = get_id(head, "parent", where)
    return Commit(
        id=get_id(head, "id", where),
        parent=None if parent == NO_ID else parent,
        date=get_data(head, "date", where),
        note=Note(
            author=get_data(head, "author", where),
            message=get_data(head, "message", where),
            meta=get(head, "meta", where),
        ),
        actions=tuple(parse_action(value, where) for value in values[1:]),
        merged=get_or(head, "merged", None),
        retries=get_data(head, "retries", where),
        generation=get_data(head, "generation", where),
        checkpoint=get_or(head, "checkpoint", None),
        op=get_id(head, "op", where),
        position=get_data(head, "position", where),
        since=get_or(head, "since", ()),
        records=parse_tally(head.field("records"), where),
        is_maintenance=get_or(head, "maintenance", False),
        txn=get_or(head, "transaction", None),
    )
