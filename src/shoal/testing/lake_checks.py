"""What must be true of a lake after whatever went wrong: checks for tests, on stored objects and on what reads give.

They open the lake again and trust no hint: the state of a journal or a branch by its hints is compared with the state
by its entries and commits alone.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from shoal.errors import NotFound
from shoal.ids import Id, to_text
from shoal.lake import column_form, lake, scans, vacuum
from shoal.lake.actions import fold
from shoal.lake.column_registry import COLUMNS, pairs_of
from shoal.lake.journal import Entry, Journal
from shoal.lake.keys import EVERYTHING, KeyRange, SortKey
from shoal.lake.lake import Lake
from shoal.lake.objects import DataObject, Form, RowMask, data_key
from shoal.lake.pools import Pool
from shoal.lake.scans import read_object, scan
from shoal.lake.timelines import timeline_of
from shoal.model.text import format_type
from shoal.model.values import Value
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore
from shoal.testing.lake_scenes import Facts, load

_SLOT = re.compile(r".+/(\d{20})\.zng")
GONE = "not found"
NO_POOL = "no pool"
MARKERS = 2000
"""Keys from here on are of the commits that `take_commits` makes."""


_MOST_REMEMBERED = 1000
_remembered: dict[tuple[str, RowMask | None, bytes], list[Value]] = {}
"""The values of objects by their names and bytes."""


@contextmanager
def reading_once() -> Iterator[None]:
    """Within, bytes that were read before are not read again: checks meet the same objects thousands of times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "read_object", _read_once)
        yield


def _read_once(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, key_range: KeyRange = EVERYTHING
) -> Iterator[Value]:
    assert key_range is EVERYTHING
    name = data_key(pool, o.id, o.form)
    try:
        entry = name, o.mask, store.get(name)
    except NotFound:
        return read_object(store, pool, key, o)
    if entry not in _remembered:
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[entry] = list(read_object(store, pool, key, o))
    return iter(_remembered[entry])


def copied(store: ObjectStore) -> MemoryStore:
    """A copy of all objects, in memory."""
    copy = MemoryStore("copy")
    for listed in store.list():
        copy.put(listed.key, store.get(listed.key))
    return copy


# ---- what a lake looks like to a reader


@dataclass(frozen=True, slots=True)
class BranchView:
    """A branch: its values, how they lie in objects, and its history; no ids, which differ from run to run."""

    values: tuple[str, ...]
    objects: tuple[tuple[str, str, int], ...]
    log: tuple[str, ...]
    chain: tuple[Id, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool."""

    id: Id
    branches: Mapping[str, BranchView]
    tags: Mapping[str, tuple[str, ...]]
    horizon: str
    purged: int


@dataclass(frozen=True, slots=True)
class World:
    """All that can be read from a lake, and what the commits of the past give now."""

    pools: Mapping[str, PoolView] | None
    """By name; None if there is no lake."""
    past: Mapping[str, str]
    """By the messages of commits."""
    entries: int = field(compare=False)
    """How many the journals have that anybody reads, without those that change nothing or just announce a vacuum."""

    def branches(self) -> dict[tuple[Id, str], BranchView]:
        """All branches by pool and name."""
        pools = (self.pools or {}).values()
        return {(pool.id, name): branch for pool in pools for name, branch in pool.branches.items()}


@reading_once()
def inspect(store: ObjectStore, facts: Facts) -> World:
    """What a new client finds, when all that lies in the store has been checked."""
    opened = open_or_none(store)
    if opened is None:
        return World(None, {}, 0)
    pools = {config.name: opened.pool(config.name) for config in opened.configs()}
    read = ["pools", *(f"{pool.prefix}/branches" for pool in pools.values())]
    entries = 0
    for prefix in read:
        entries += _check_hints(store, prefix, check_journal(store, prefix))
    for pool in pools.values():
        check_columns(store, pool)
        # What is decided about a transaction counts, whether an entry says so yet or not.
        entries += sum(key.startswith("branch/") for key in pool.journal.settled().changes)
    of_scene = next((pool for pool in pools.values() if pool.config.id == facts.pool), None)
    past = {message: _read_past(of_scene, ident) for message, ident in facts.commits.items()}
    return World({name: _view(pool) for name, pool in pools.items()}, past, entries)


def open_or_none(store: ObjectStore) -> Lake | None:
    """The lake, if there is one."""
    try:
        return lake.open_lake(store)
    except NotFound:
        return None


def _view(pool: Pool) -> PoolView:
    refs = pool.refs()
    horizon = "" if refs.horizon is None else pool.commits.read(refs.horizon).note.message
    for ref in (*refs.branches(), *refs.tags()):
        _check_snapshot(pool, ref.commit)
    tags = {ref.name: values_at(pool, ref.commit) for ref in refs.tags()}
    branches = {ref.name: _branch(pool, ref.commit) for ref in refs.branches()}
    return PoolView(pool.config.id, branches, tags, horizon, len(refs.purged()))


def _branch(pool: Pool, tip: Id | None) -> BranchView:
    listed = list(pool.snapshot(tip).objects())
    purged = [to_text(o.id) for o in listed if pool.refs().is_purged(o.id)]
    assert not purged, f"a branch holds {purged}, which was purged"
    objects = tuple((repr(o.min.data), repr(o.max.data), o.count) for o in listed)
    chain = check_chain(pool, tip)
    log = tuple(pool.commits.read(ident).note.message for ident in chain)
    return BranchView(values_at(pool, tip), objects, log, tuple(chain))


def values_at(pool: Pool, commit: Id | None) -> tuple[str, ...]:
    """All values at a commit, in the order of the pool."""
    return tuple(show(value) for value in scan(pool, commit))


def show(value: Value) -> str:
    """A value, with its type."""
    return f"{format_type(value.type)} {value.data!r}"


def _read_past(pool: Pool | None, ident: Id) -> str:
    """The values of a commit and the warnings; or that there is no such commit any more."""
    if pool is None:
        return NO_POOL
    warnings: list[str] = []
    try:
        values = [show(value) for value in scan(pool, pool.resolve(to_text(ident)), warn=warnings.append)]
    except NotFound:
        return GONE
    return f"{values} {warnings}"


# ---- what is in the store


def check_journal(store: ObjectStore, prefix: str) -> list[Entry]:
    """The entries of a journal, which has no gap and no operation in it twice."""
    slots = (_SLOT.fullmatch(listed.key) for listed in store.list(f"{prefix}/"))
    positions = sorted(int(slot[1]) for slot in slots if slot)
    assert positions == list(range(1, len(positions) + 1)), f"{prefix}: a gap in {positions}"
    entries = list(Journal(store, prefix).entries())
    assert len(entries) == len(positions)
    twice = [to_text(op) for op, count in Counter(op for e in entries for op in (e.op, *e.group)).items() if count > 1]
    assert not twice, f"{prefix}: operations {twice} are there twice"
    times = effective_times(entries)
    assert times == sorted(times), f"{prefix}: times go back"
    return entries


def effective_times(entries: Sequence[Entry]) -> list[int]:
    """The times that all entries of a journal count by."""
    state = {key: value for entry in entries for key, value in entry.changes.items() if value is not None}
    corrected = [timeline_of(state).time(entry.position) for entry in entries]
    return [entry.at if at is None else at for entry, at in zip(entries, corrected, strict=True)]


def _check_hints(store: ObjectStore, prefix: str, entries: list[Entry]) -> int:
    """The state by HEAD and snapshots, as every new client reads it, is that of the entries alone; how many matter."""
    state: dict[str, Value] = {}
    for entry in entries:
        for key, value in entry.changes.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
    newest = Journal(store, prefix).read()
    assert newest.position == len(entries), f"{prefix}: HEAD leads to {newest.position} of {len(entries)}"
    assert newest.entries == state, f"{prefix}: a snapshot says something else than the entries"
    return sum(map(_weight, entries))


def _weight(entry: Entry) -> int:
    """How many changes an entry counts for: one that resolves transactions may do so for several branches."""
    if "pending" in entry.changes:
        return sum(key.startswith("branch/") for key in entry.changes)
    return bool(entry.changes.keys() - {"vacuum", "clock"})


def check_columns(store: ObjectStore, pool: Pool) -> None:
    """The column registry has each name once within a struct and each field id once, and never changes a key.

    The columns of all objects have the names that are registered.
    """
    prefix = f"{pool.prefix}/{COLUMNS}"
    entries = check_journal(store, prefix)
    _check_hints(store, prefix, entries)
    keys = Counter(key for entry in entries for key in entry.changes)
    assert all(count == 1 for count in keys.values()), f"{prefix}: a key was registered twice"
    names: set[tuple[str, str]] = set()
    ids: list[int] = []
    state = Journal(store, prefix).read().entries
    for key, value in state.items():
        name, first, count = value.data
        path, _ = json.JSONDecoder().raw_decode(key)
        sibling = (json.dumps(path[:-1]), name.lower())
        assert sibling not in names, f"{prefix}: {name!r} is there twice"
        names.add(sibling)
        ids += range(first, first + count)
    assert sorted(ids) == list(range(1, len(ids) + 1)), f"{prefix}: field ids are not dense"
    objects = {o.id: o for ref in pool.refs().branches() for o in pool.snapshot(ref.commit).objects()}
    for o in objects.values():
        if o.form is Form.COLUMNS and o.external is None:
            layout = column_form.object_layout(o)
            registered = tuple(state[pair.key].data[0] for pair in pairs_of(layout))
            assert layout.names == registered, f"{to_text(o.id)}: columns have other names than in the registry"


def check_chain(pool: Pool, tip: Id | None) -> list[Id]:
    """The history of a tip is one chain of different commits; their ids, newest first."""
    chain = list(pool.log(tip))
    idents = [commit.id for commit in chain]
    assert len(set(idents)) == len(idents), "a commit is in its own history"
    for commit, parent in pairwise(chain):
        assert commit.parent == parent.id
        assert commit.generation > parent.generation, f"{to_text(commit.id)} is not younger than its parent"
    if chain:
        assert chain[-1].parent is None or chain[-1].id == pool.refs().horizon, "the history has no beginning"
    return idents


def _check_snapshot(pool: Pool, tip: Id | None) -> None:
    """The objects by checkpoints are those of the commits alone, where these go back to the beginning."""
    if pool.refs().horizon is not None:
        return
    commits = list(pool.commits.walk(tip))[::-1]
    by_commits = {o.id for o in fold(commit.actions for commit in commits).adds}
    by_hints = [o.id for o in pool.snapshot(tip).objects()]
    assert len(by_hints) == len(set(by_hints))
    assert set(by_hints) == by_commits, "a checkpoint says something else than the commits"


# ---- how it may change


def check_growth(before: World, after: World, moves: Iterable[str] = ()) -> None:
    """A branch that is in both worlds only grew, but for those that may move."""
    later = after.branches()
    for (pool, name), branch in before.branches().items():
        now = later.get((pool, name))
        if now is not None and branch.chain and name not in moves:
            assert branch.chain[0] in now.chain, f'"{name}" has lost {to_text(branch.chain[0])}'


@reading_once()
def take_commits(store: ObjectStore, world: World) -> dict[tuple[Id, str], str]:
    """Commit one new value to every branch, by a new client; the values by pool and branch."""
    opened = lake.open_lake(store)
    markers: dict[tuple[Id, str], str] = {}
    for i, (ident, name) in enumerate(sorted(world.branches())):
        branch = world.branches()[ident, name]
        pool = opened.pool(to_text(ident))
        commit = load(pool, (MARKERS + i,), "marker", name)
        values = Counter(values_at(pool, commit))
        (marker,) = set(values) - set(branch.values)
        assert values == Counter((*branch.values, marker)), f'a commit to "{name}" changed other values'
        assert pool.commits.read(commit).parent == (branch.chain[0] if branch.chain else None)
        markers[ident, name] = marker
    return markers


def clean_up(store: ObjectStore) -> None:
    """Remove all that nobody needs, of any age."""
    opened = lake.open_lake(store)
    for config in opened.configs():
        vacuum.collect(opened.pool(config.name), 0.0)
    opened.remove(opened.leftovers(-3600.0))


def check_markers(world: World, markers: Mapping[tuple[Id, str], str]) -> None:
    """Each value that `take_commits` put on a branch is there exactly once, if there is the branch."""
    for name, branch in world.branches().items():
        if name in markers:
            count = branch.values.count(markers[name])
            assert count == 1, f'an acknowledged commit is {count} times in branch "{name[1]}"'
