"""The column registry of a pool: which name and which Parquet field id each path and type has in all of its objects.

It is a journal of its own, `<pool>/columns`, to which entries are only added. A writer that needs columns which are
not registered adds all of them by one entry, before it writes the object. An entry without such an object does no
harm. Reading never needs the registry: an object says how its columns are called.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from shoal.errors import CorruptData, OutcomeUnknown, StorageFailure
from shoal.formats.columns.layouts import SHAPE, VALUE, Layout, Leaf, Path, Struct, free_name, node_count, type_word
from shoal.ids import new
from shoal.lake.claims import Patience
from shoal.lake.journal import Changes, Journal, State
from shoal.model.fields import get_data, named, uint64
from shoal.model.text import format_type
from shoal.model.values import Value, string
from shoal.storage.store import ObjectStore

COLUMNS = "columns"
"""The folder of a pool that has its registry."""
_SETTLED = 120 * 10**9
"""Nanoseconds after which an entry is in the store for good, whatever became of its writer."""


class Column(NamedTuple):
    """A column as it is in all objects."""

    name: str
    id: int
    """The field id. What is inside of a column that is not a struct has the ids that follow."""


class Pair(NamedTuple):
    """What has a column: a path, and a type or records of any kind."""

    key: str
    """In the journal: the path as JSON, a space, and the type without names; `record` is the struct of all records at
    the path, `{}` one without columns."""
    path: Path
    word: str
    """What stands for the type in the name of a column."""
    ids: int
    """How many field ids it takes."""


class ColumnRegistry:
    """The registry of one pool. Threads may share a handle; what it has seen costs no further request."""

    def __init__(self, store: ObjectStore, prefix: str, patience: Patience | None = None) -> None:
        folder = f"{prefix}/{COLUMNS}"
        self._folder = folder
        self._journal = Journal(store, folder) if patience is None else Journal(store, folder, patience)
        self._columns: dict[str, Column] = {}

    def register(self, layout: Layout) -> tuple[Column, ...]:
        """The columns of a layout, in its order; those that are not registered yet are registered first.

        StorageFailure if the store does not say whether that was done: then it can be tried again.
        """
        pairs = pairs_of(layout)
        missing = [pair for pair in pairs if pair.key not in self._columns]
        if missing:
            try:
                entries = self._registered(missing)
            except OutcomeUnknown as e:
                raise StorageFailure(
                    f"{self._folder}: the store does not say whether new columns were registered (try again)"
                ) from e
            self._columns.update({pair.key: _parse(entries, pair, self._folder) for pair in missing})
        return tuple(self._columns[pair.key] for pair in pairs)

    def _registered(self, pairs: list[Pair]) -> Mapping[str, Value]:
        """The state of the journal, in which all of the pairs are."""
        state = self._journal.read()
        if all(pair.key in state.entries for pair in pairs):
            return self._settled(state).entries

        def plan(state: State) -> Changes:
            changes = assign(state.entries, pairs)
            if not changes:
                raise _Registered
            return changes

        try:
            self._journal.change(new(), plan)
        except _Registered:  # by another writer meanwhile
            return self._settled(self._journal.known).entries
        return self._journal.known.entries

    def _settled(self, state: State) -> State:
        """The state itself, once its last entry is as sure to stay as can be: its writer may have died before the sync.

        An entry that is lost nevertheless takes names with it, but never a value.
        """
        if time.time_ns() - state.at < _SETTLED:
            with suppress(OutcomeUnknown):
                self._journal.confirm(self._journal.entry(state.position), new())
        return state


class _Registered(Exception):
    """All columns are registered already."""


def assign(entries: Mapping[str, Value], pairs: Iterable[Pair]) -> dict[str, Value]:
    """What to add to the entries of a registry, so that these pairs are in it: a name and field ids for each.

    The first type at a path has the name of the field, any other one `field$type`; names differ within a struct, also
    for engines that do not tell upper from lower case.
    """
    used: dict[Path, set[str]] = {(): {SHAPE}}
    paths: set[Path] = set()
    next_id = 1
    for key, value in entries.items():
        path = _parse_path(key)
        paths.add(path)
        used.setdefault(path[:-1], set()).add(get_data(value, "name", key).lower())
        next_id = max(next_id, get_data(value, "id", key) + get_data(value, "ids", key))
    added: dict[str, Value] = {}
    for pair in pairs:
        if pair.key in entries or pair.key in added:
            continue
        field = pair.path[-1] if pair.path else VALUE
        plain = f"{field}${pair.word}" if pair.path in paths else field
        name = free_name(plain, used.setdefault(pair.path[:-1], set()))
        added[pair.key] = named("Column", ("name", string(name)), ("id", uint64(next_id)), ("ids", uint64(pair.ids)))
        paths.add(pair.path)
        next_id += pair.ids
    return added


@lru_cache(maxsize=512)
def pairs_of(layout: Layout) -> tuple[Pair, ...]:
    """What the columns of a layout stand for, in its order."""
    return tuple(_pair(column) for column in layout.columns)


def _pair(column: Struct | Leaf) -> Pair:
    path = column.path
    if isinstance(column, Leaf):
        return Pair(_key(path, format_type(column.type)), path, type_word(column.type), node_count(column.type))
    # A struct without columns is a column of bools, which cannot have the name of the struct in another object.
    return Pair(_key(path, "{}"), path, "empty", 1) if column.is_bare else Pair(_key(path, "record"), path, "record", 1)


def _key(path: Path, kind: str) -> str:
    return f"{json.dumps(path, ensure_ascii=False, separators=(',', ':'))} {kind}"


def _parse(entries: Mapping[str, Value], pair: Pair, where: str) -> Column:
    value = entries[pair.key]
    return Column(get_data(value, "name", where), get_data(value, "id", where))


def _parse_path(key: str) -> Path:
    try:
        path, _ = json.JSONDecoder().raw_decode(key)
    except ValueError:
        raise CorruptData(f"{key!r} is not a key of a column registry") from None
    return tuple(path)
