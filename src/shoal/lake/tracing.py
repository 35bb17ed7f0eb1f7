"""From rows back to the commits that added them, also through compactions."""

from __future__ import annotations

from collections.abc import Iterable, Set
from contextlib import suppress

from shoal.errors import NotFound
from shoal.ids import Id
from shoal.lake.commits import Commit
from shoal.lake.history import ancestors
from shoal.lake.identities import Identities
from shoal.lake.masks import Rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool


def added_by(pool: Pool, commit: Id | None, o: DataObject, rows: Rows) -> list[Id | None]:
    """For each of some rows of an object at a commit, the commit that added it.

    A row that came before history was cut counts as added by the commit that history begins with. None: nothing that
    the commit knows of has added it.
    """
    known = Identities(pool.store, pool.prefix)
    keys = known.own(o, rows)
    wanted = {ident for ident, _ in known.by_object(keys)}
    commits = _first_commits(pool, commit, wanted)
    return [commits.get(known.origin_of(key)[0]) for key in keys.tolist()]


def _first_commits(pool: Pool, tip: Id | None, wanted: Set[Id]) -> dict[Id, Id | None]:
    """The oldest commit that added each of some objects; that may be cut off, then it is the beginning of history."""
    oldest: dict[Id, Commit] = {}
    for commit in ancestors(pool.commits, tip):
        for o in commit.adds:
            if o.id in wanted and (o.id not in oldest or commit.generation <= oldest[o.id].generation):
                oldest[o.id] = commit
    horizon = pool.commits.horizon
    begin = 0 if horizon is None else pool.commits.read(horizon).generation
    return {
        ident: oldest[ident].id if ident in oldest and oldest[ident].generation >= begin else horizon
        for ident in wanted
    }


def origin_objects(pool: Pool, tips: Iterable[Id | None], wanted: Set[Id]) -> dict[Id, DataObject]:
    """Objects by their ids, as history describes them; those that are not found are left out."""
    found: dict[Id, DataObject] = {}
    for tip in tips:
        if len(found) == len(wanted):
            break
        with suppress(NotFound):
            for commit in ancestors(pool.commits, tip):
                found |= {o.id: o for o in (*commit.adds, *commit.deletes) if o.id in wanted}
                if len(found) == len(wanted):
                    break
    return found
