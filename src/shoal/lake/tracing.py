"""From rows back to the commits that added them, also through compactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager

from shoal.ids import Id
from shoal.lake.actions import stored
from shoal.lake.commits import Commit, MissingCommit
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
    """Objects by their ids, as history describes them. Those that are not found, or that a vacuum takes, are left out.

    A commit that was picked may have brought rows whose first object is in the history of another branch alone. That
    may be dropped, and history may be cut, when a vacuum comes.
    """
    refs = pool.refs()
    objects: dict[Id, DataObject] = {}
    for tip in dict.fromkeys((*tips, *(ref.commit for ref in (*refs.branches(), *refs.tags())))):
        with _unless_dropped(pool, tip):
            for commit in ancestors(pool.commits, tip):
                if len(objects) == len(wanted):
                    break
                objects |= {o.id: o for o in (*commit.adds, *commit.deletes) if o.id in wanted}
    lost = pool.names.vacuumed.objects((each for o in objects.values() for each in stored(o)), refs.vacuum)
    return {ident: o for ident, o in objects.items() if lost.isdisjoint(stored(o)) and not refs.is_purged(ident)}


@contextmanager
def _unless_dropped(pool: Pool, tip: Id | None) -> Iterator[None]:
    """Go on without the rest of a history that a vacuum takes, because its branch was dropped meanwhile."""
    try:
        yield
    except MissingCommit:
        if tip is None or pool.names.is_reached(tip, pool.refs()):
            raise
