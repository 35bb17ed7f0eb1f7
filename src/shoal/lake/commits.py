"""Commits: immutable objects, each with its parent, its metadata and what it adds and deletes.

A commit also names the checkpoint that its state is best read from and the commits since, so that opening a
branch takes a few reads and not a walk. Both are hints: the parents alone say what the state is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shoal.errors import CorruptData, NotFound, OutcomeUnknown
from shoal.ids import Id, to_text
from shoal.lake.claims import Patience, claim, unknown
from shoal.lake.objects import DataObject, format_object, parse_object, show_object
from shoal.lake.sealed import seal, unseal
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
from shoal.model.values import NULL, Value, string
from shoal.storage.store import Listed, ObjectStore

_FEW, _SLOW, _AT_ONCE = 2, 0.003, 16


@dataclass(frozen=True, slots=True)
class Note:
    """What its author says of a commit."""

    author: str = ""
    message: str = ""
    meta: Value = NULL


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit."""

    id: Id
    parent: Id | None
    date: int
    note: Note
    adds: tuple[DataObject, ...] = ()
    deletes: tuple[DataObject, ...] = ()
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

    @property
    def parents(self) -> tuple[Id, ...]:
        """The commits that this one knows of directly."""
        return tuple(p for p in (self.parent, self.merged) if p is not None)


class Commits:
    """The commits of a pool."""

    def __init__(self, store: ObjectStore, pool: str) -> None:
        self._store = store
        self._pool = pool
        self._known: dict[Id, Commit] = {}
        self.horizon: Id | None = None
        """The commit that history begins with, if its beginning was taken away: ancestors may be gone."""

    def _key(self, ident: Id) -> str:
        return f"{self._pool}/commits/{to_text(ident)}.zng"

    def write(self, commit: Commit) -> None:
        """Store a commit. Nobody sees it before a branch points at it."""
        key = self._key(commit.id)
        self._store.put(key, seal(format_commit(commit), key))
        self._keep(commit)

    def create(self, commit: Commit) -> bool:
        """Store a commit under a name that others may want as well; False if theirs is there."""
        key = self._key(commit.id)
        try:
            is_ours = claim(self._store, key, seal(format_commit(commit), key), Patience())
        except OutcomeUnknown as e:
            raise unknown(commit.id, e) from e
        if not is_ours:
            return False
        self._keep(commit)
        return True

    def read(self, ident: Id) -> Commit:
        """A commit by its id."""
        found = self._known.get(ident)
        if found is None:
            key = self._key(ident)
            try:
                data = self._store.get(key)
            except NotFound:
                raise NotFound(f"{to_text(ident)}: commit not found (see: shoal log)") from None
            found = parse_commit(unseal(data, key), key)
            self._keep(found)
        return found

    def has(self, ident: Id) -> bool:
        """Whether there is a commit of this id."""
        try:
            self.read(ident)
        except NotFound:
            return False
        return True

    def find(self, ident: Id) -> Listed | None:
        """The object of a commit as it is in the store now, whatever is remembered of it."""
        key = self._key(ident)
        return next((listed for listed in self._store.list(key) if listed.key == key), None)

    def read_all(self, idents: Sequence[Id]) -> list[Commit]:
        """Commits by their ids; several at a time where the store takes its time for one."""
        unknown = [ident for ident in idents if ident not in self._known]
        began = time.monotonic()
        if unknown:
            self.read(unknown[0])
        if len(unknown) > _FEW and time.monotonic() - began > _SLOW:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                return list(pool.map(self.read, idents))
        return [self.read(ident) for ident in idents]

    def _keep(self, commit: Commit) -> None:
        if len(self._known) >= 10_000:
            self._known.clear()
        self._known[commit.id] = commit

    def walk(self, tip: Id | None, until: Id | None = None) -> Iterator[Commit]:
        """Commits from a tip back, by parents, up to one that is not included or to the beginning."""
        while tip is not None and tip != until:
            commit = self.read(tip)
            yield commit
            tip = commit.parent


# ---- as values


def format_commit(c: Commit) -> Iterator[Value]:
    """A commit as it is stored: its metadata, then its actions."""
    yield _named_with_extras(c)
    for o in c.adds:
        yield named("Add", ("commit", id_value(c.id)), ("object", format_object(o)))
    for o in c.deletes:
        yield named("Delete", ("commit", id_value(c.id)), ("id", id_value(o.id)), ("object", format_object(o)))


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
    ]
    return named("Commit", *_metadata(c), *extras)


def show_commit(c: Commit) -> Value:
    """A commit as meta-queries show it; a merge says what it merged."""
    merged = [("merged", id_value(c.merged))] if c.merged is not None else []
    return named("Commit", *_metadata(c), *merged)


def show_actions(c: Commit) -> Iterator[Value]:
    """What a commit did, as meta-queries show it."""
    for o in c.adds:
        yield named("Add", ("commit", id_value(c.id)), ("object", show_object(o)))
    for o in c.deletes:
        yield named("Delete", ("commit", id_value(c.id)), ("id", id_value(o.id)))
    yield show_commit(c)


def parse_commit(values: list[Value], where: str) -> Commit:
    """The commit in its stored values. An action that is not known is not passed over: it would change the state."""
    if not values or name_of(values[0]) != "Commit":
        raise CorruptData(f"{where}: a commit without its metadata")
    head = values[0]
    adds: list[DataObject] = []
    deletes: list[DataObject] = []
    for value in values[1:]:
        places = {"Add": adds, "Delete": deletes}
        if name_of(value) not in places:
            raise CorruptData(f"{where}: unknown action {name_of(value)!r} (written by a newer version?)")
        places[name_of(value)].append(parse_object(get(value, "object", where), where))
    parent = get_id(head, "parent", where)
    note = Note(get_data(head, "author", where), get_data(head, "message", where), get(head, "meta", where))
    return Commit(
        get_id(head, "id", where),
        None if parent == NO_ID else parent,
        get_data(head, "date", where),
        note,
        tuple(adds),
        tuple(deletes),
        get_or(head, "merged", None),
        get_data(head, "retries", where),
        get_data(head, "generation", where),
        get_or(head, "checkpoint", None),
        get_id(head, "op", where),
        get_data(head, "position", where),
        get_or(head, "since", ()),
    )
