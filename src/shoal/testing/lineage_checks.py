"""Rows by their identities: what a compaction must keep, wherever it puts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shoal.ids import Id
from shoal.lake.history import ancestors
from shoal.lake.identities import Identities, key_lists
from shoal.lake.masks import shown_rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.scans import read_object
from shoal.model.values import Value

Identity = tuple[Id, int]
"""The object that a row was first in, and its number there."""


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
