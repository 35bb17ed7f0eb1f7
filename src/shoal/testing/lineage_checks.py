"""Rows by their identities: what a compaction must keep, wherever it puts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from shoal.ids import Id, to_text
from shoal.lake.actions import Action, effect
from shoal.lake.history import ancestors
from shoal.lake.identities import Identities, key_lists
from shoal.lake.masks import shown_rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.scans import read_object
from shoal.model.values import Value
from shoal.storage.store import ObjectStore
from shoal.testing.lake_model import Layout

Identity = tuple[Id, int]
"""The object that a row was first in, and its number there."""
REMOVES_WHAT_IS_GONE = "removes an object that is not there"


def identities(pool: Pool, commit: Id | None) -> dict[Identity, Value]:
    """All rows at a commit by identity: no identity is there twice. Rows that were absorbed have the value of none."""
    rows: dict[Identity, Value] = {}
    for o in pool.snapshot(commit).objects():
        for own, _, value in traced(pool, o):
            assert own not in rows, f"{own} is there twice"
            rows[own] = value
    return rows


def contributors(pool: Pool, commit: Id | None) -> set[Identity]:
    """The identities of all rows at a commit, and of those that were merged into them."""
    return {each for o in pool.snapshot(commit).objects() for own, more, _ in traced(pool, o) for each in (own, *more)}


def traced(pool: Pool, o: DataObject) -> Iterator[tuple[Identity, list[Identity], Value]]:
    """The visible rows of an object: what each was before, what it absorbed, and its value."""
    known = Identities(pool.store, pool.prefix)
    values = read_object(pool.store, pool.prefix, pool.config.key, o)
    keys = key_lists(known.origins(o, shown_rows(pool.store, pool.prefix, o)))
    for (own, *more), value in zip(keys, values, strict=True):
        yield known.origin_of(own), [known.origin_of(key) for key in more], value


def visible_rows(store: ObjectStore, pool: str, o: DataObject) -> dict[int, tuple[str, int]]:
    """The visible rows of an object, and which row each was first, as the model of a lake has them."""
    known, rows = Identities(store, pool), shown_rows(store, pool, o)
    origins = (known.origin_of(key) for key in known.own(o, rows).tolist())
    return {row: (to_text(first), number) for row, (first, number) in zip(rows.tolist(), origins, strict=True)}


def layout_after(store: ObjectStore, pool: str, before: Layout, actions: Iterable[Action]) -> Layout:
    """The objects after actions, and which rows they have."""
    layout = dict(before)
    for old, new in map(effect, actions):
        if old is not None:
            assert to_text(old.id) in layout, REMOVES_WHAT_IS_GONE
            del layout[to_text(old.id)]
        if new is not None:
            assert to_text(new.id) not in layout, "an object comes twice"
            layout[to_text(new.id)] = visible_rows(store, pool, new)
    return layout


def require_origins(pool: Pool, commit: Id | None) -> None:
    """Each row at a commit has the value that it had where it was first."""
    first: dict[Id, list[Value]] = {}
    tips = [ref.commit for ref in pool.refs().branches()]
    objects = {o.id: o for tip in (*tips, commit) for c in ancestors(pool.commits, tip) for o in c.adds}
    for (ident, row), value in identities(pool, commit).items():
        if ident not in first:
            o = objects[ident]
            assert o.lineage is None, "an origin that has one itself"
            whole = replace(o, mask=None, count=o.rows)
            first[ident] = list(read_object(pool.store, pool.prefix, pool.config.key, whole))
        assert first[ident][row] == value
