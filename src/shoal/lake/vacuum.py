"""Taking things out of the store: what nothing reaches (vacuum), the beginning of history (vacate), named data (purge).

An object goes only if it is older than the grace period and no branch, tag or commit that is kept reaches it. The
listing comes first and the references are read after it; an entry in the journal stands between the writers that refer
to something before, and are seen, and those that come later, and see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.errors import Conflict, CorruptData, InvalidInput, NotFound
from shoal.ids import Id, new, parse, to_text
from shoal.lake import branches
from shoal.lake.actions import FOLDERS
from shoal.lake.branches import Refs, VacuumMark
from shoal.lake.journal import Changes, State
from shoal.lake.objects import DATA, data_keys
from shoal.lake.pools import Pool
from shoal.lake.reach import kept_commits, kept_objects, readable_commits
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.storage.store import Listed

if TYPE_CHECKING:
    from shoal.lake import inline_data
else:
    inline_data = lazy("shoal.lake.inline_data")

DEFAULT_GRACE = 7 * 24 * 3600.0
"""In seconds; no less than the longest session, so that what it staged is there when it commits."""
_METADATA = ("commits", "checkpoints", "pages")


@frozen
class Garbage:
    """What a vacuum removes: data objects, and the metadata that goes with them."""

    data: tuple[Listed, ...]
    metadata: tuple[Listed, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(listed.size for listed in (*self.data, *self.metadata))


Kept = Mapping[str, Set[Id]]
"""What must stay, by folder."""


def find_garbage(pool: Pool, grace: float = DEFAULT_GRACE, now: float | None = None) -> Garbage:
    """What could go now: old enough, and not reached."""
    listed = _listed(pool)
    return _garbage(pool, listed, _until(pool, listed, grace, now), pool.refs())


def collect(pool: Pool, grace: float = DEFAULT_GRACE, now: float | None = None) -> Garbage:
    """Remove what is old enough and not reached. It can be done again after a crash.

    An entry in the journal announces it, and what is reached is found out on the very state that the entry comes
    after. So a writer that begins to refer to something old either is seen, or sees the announcement and leaves it.
    """
    listed = _listed(pool)
    until = _until(pool, listed, grace, now)
    if _is_empty(_garbage(pool, listed, until, pool.refs())):
        return Garbage((), ())

    def plan(state: State) -> Changes:
        before = Refs(state).vacuum
        newest = max(int(until * 1e9), 0 if before is None else before.until)
        return branches.set_vacuum(VacuumMark(state.position + 1, newest))

    entry = pool.journal.change(new(), plan)
    garbage = _garbage(pool, listed, until, Refs(pool.journal.at_position(entry.position)))
    for each in (*garbage.data, *garbage.metadata):
        pool.store.delete(each.key)
    return garbage


def _until(pool: Pool, folders: dict[str, list[Listed]], grace: float, now: float | None) -> float:
    """The newest write time that may go, by the clock of the store. What is still to be written is never covered."""
    if grace < 0:
        raise InvalidInput("the grace period cannot be negative")
    newest = max((each.modified for folder in folders.values() for each in folder), default=0.0)
    return min(pool.clock.age_limit(grace, newest) if now is None else now - grace, newest)


def _listed(pool: Pool) -> dict[str, list[Listed]]:
    return {kind: list(pool.store.list(f"{pool.prefix}/{kind}/")) for kind in (*FOLDERS, *_METADATA)}


def _is_empty(garbage: Garbage) -> bool:
    return not garbage.data and not garbage.metadata


def _garbage(pool: Pool, folders: dict[str, list[Listed]], until: float, refs: Refs) -> Garbage:
    keep = _kept(pool, refs)
    dead = {
        kind: tuple(listed for listed in folder if _is_dead(listed, until, keep[kind]))
        for kind, folder in folders.items()
    }
    return Garbage(_joined(dead, FOLDERS), _joined(dead, _METADATA))


def _joined(dead: Mapping[str, tuple[Listed, ...]], folders: Sequence[str]) -> tuple[Listed, ...]:
    return tuple(listed for folder in folders for listed in dead[folder])


def _is_dead(listed: Listed, until: float, keep: Set[Id]) -> bool:
    ident = _ident(listed)
    return ident is not None and ident not in keep and listed.modified <= until


def _ident(listed: Listed) -> Id | None:
    """The id in the name of an object; None for a name that is not ours, which then stays."""
    with suppress(InvalidInput):
        return parse(listed.key.rpartition("/")[2].partition(".")[0])
    return None


def _kept(pool: Pool, refs: Refs) -> Kept:
    """What branches, tags and pending entries reach, and the metadata that goes with it."""
    keep: dict[str, set[Id]] = {folder: set() for folder in (*FOLDERS, *_METADATA)}
    for each in kept_objects(pool.history, refs):
        keep[each.folder].add(each.id)
    keep[DATA].difference_update(refs.purged())  # a lineage stays: it has no data, and other objects refer to it
    for ident in {commit.id for commit in readable_commits(pool.history, refs)}:
        with suppress(CorruptData):
            checkpoints = pool.history.checkpoints
            keep["pages"].update(checkpoints.pages(checkpoints.open(ident)))
    # The commit of a first attempt says from where on a repeat has to look for its entry.
    commits = kept_commits(pool.history, refs).values()
    keep["commits"].update(ident for commit in commits for ident in (commit.id, commit.op))
    keep["checkpoints"] = keep["commits"]
    return keep


def vacate(pool: Pool, ident: Id) -> None:
    """Let history begin with a commit. What came before can no longer be read, and goes with the next vacuum."""
    pool.names.commit(ident)

    def plan(state: State) -> Changes:
        refs = Refs(state)
        for kind, ref in [*(("branch", b) for b in refs.branches()), *(("tag", x) for x in refs.tags())]:
            if not pool.history.descends(ref.commit, ident):
                raise Conflict(
                    f'{kind} "{ref.name}" does not descend from {to_text(ident)}, so its history would be cut '
                    f"(remove it, or choose an older commit)"
                )
        if refs.horizon is not None and not pool.history.descends(ident, refs.horizon):
            raise InvalidInput(f"{to_text(ident)}: history begins with a later commit already")
        return branches.set_horizon(ident)

    plan(pool.journal.read())  # what is refused leaves no checkpoint behind
    pool.snapshots.make_whole(ident)
    pool.journal.change(new(), plan)


def purge(pool: Pool, idents: Sequence[Id]) -> list[Id]:
    """Remove data objects for good, in all of history; the id of a commit stands for what it added. Their ids.

    The journal says so before they go: a scan that misses one knows why. Data that is part of commits goes from all
    commits and checkpoints. What a commit has of it that another writer was about to make, and that nothing will
    reach, goes with the next vacuum.
    """
    if not idents:
        raise InvalidInput("no data objects named")
    named = dict(each for ident in idents for each in _named(pool, ident))
    objects, inline = list(named), {ident for ident, is_inline in named.items() if is_inline}

    def plan(state: State) -> Changes:
        refs = Refs(state)
        for ref in refs.branches():
            live = pool.snapshot(ref.commit).find(objects)
            if live:
                raise Conflict(f'{to_text(next(iter(live)))}: still in branch "{ref.name}" (delete it there first)')
        for ref in refs.tags():
            if pool.snapshot(ref.commit).find(objects):
                raise Conflict(f'tag "{ref.name}" points at this data (remove the tag first: shoal tag -d {ref.name})')
        return branches.purge(objects)

    pool.journal.change(new(), plan)
    for ident in objects:
        for key in data_keys(pool.prefix, ident):
            pool.store.delete(key)
    if inline:
        inline_data.remove_bytes(pool, inline)
    return objects


def _named(pool: Pool, ident: Id) -> Iterable[tuple[Id, bool]]:
    """The data object of this id, or those that the commit of this id added; and whether it is part of commits."""
    for key in data_keys(pool.prefix, ident):
        with suppress(NotFound):
            pool.store.size(key)
            return [(ident, False)]
    commit = pool.commits.lookup(ident)
    if commit is None and inline_data.is_inline(pool, ident):
        return [(ident, True)]
    if commit is None:
        raise NotFound(f"{to_text(ident)}: no data object or commit has this id")
    added = [(o.id, o.inline is not None) for o in commit.adds]
    if not added:
        raise InvalidInput(f"{to_text(ident)}: this commit added no data")
    return added
