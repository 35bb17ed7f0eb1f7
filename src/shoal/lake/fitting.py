"""Whether changes made at one commit can be applied to another, and what they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from shoal.errors import Conflict, NotFound
from shoal.ids import Id, to_text
from shoal.lake import actions
from shoal.lake.actions import Entry, Patch, describe
from shoal.lake.commits import Commit
from shoal.lake.history import beyond, brought_in
from shoal.lake.pools import Pool
from shoal.lake.reach import readable_commits
from shoal.lake.snapshots import Snapshot
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    from shoal.lake import keyed_changes, row_conflicts, row_patches, translation
else:
    keyed_changes = lazy("shoal.lake.keyed_changes")
    row_conflicts = lazy("shoal.lake.row_conflicts")
    row_patches = lazy("shoal.lake.row_patches")
    translation = lazy("shoal.lake.translation")


class AlreadyDone(Conflict):
    """Somebody else has moved the rows that a compaction was to move."""


@frozen
class Basis:
    """Where a patch comes from."""

    base: Id | None
    """The commit that it was made for."""
    source: Id | None
    """A commit that knows of all that it does; what the tip knows beyond that, somebody else has done."""
    is_fresh: bool = False
    """Whether its objects were just written, and no commit has named them yet."""
    commits: Callable[[], Iterable[Commit]] | None = None
    """The commits that it is the sum of; None if it is one by itself."""
    is_merge: bool = False
    """Whether it brings a branch together with another, where rows that one of them has deleted stay away."""
    others: Id | None = None
    """Where to look for what others have done; None: at the tip."""
    bases: tuple[Id | None, ...] = ()
    """Of a commit of a branch that is done again on `others`: where the two have parted."""
    is_merged: bool = False
    """Whether that commit is a merge."""
    touched: row_patches.Touched | None = None
    """Where the tip may differ from the base; None: it is to be found out from their histories."""

    def patches(self, patch: Patch) -> Iterable[Patch]:
        """What it is the sum of."""
        return [patch] if self.commits is None else (Patch(commit.actions) for commit in self.commits())


def planned_at(base: Id | None) -> Basis:
    """Of a patch that was planned at a commit, with objects of its own."""
    return Basis(base, base, is_fresh=True)


def fit(pool: Pool, patch: Patch, basis: Basis, tip: Id | None, what: str, is_moved: bool = False) -> Patch:
    """A patch as it is on a tip; a Conflict if it cannot be applied there, or has been done there.

    In a keyed pool a patch that has been done is nothing, and no conflict.
    """
    fitted = fit_rest(pool, patch, basis, tip, what, is_moved=is_moved)
    if fitted.is_empty and not patch.is_empty and (is_moved or not pool.config.settings.primary):
        who = row_conflicts.who_did(pool, patch, _others(pool, basis, tip))
        entries = [before for before, _ in patch.effects() if before is not None] or patch.adds
        message = f"{what}: {who} has done the same with {describe(entries)} meanwhile (nothing is left to do)"
        raise AlreadyDone(message) if is_moved else Conflict(message)
    return fitted


def fit_rest(
    pool: Pool, patch: Patch, basis: Basis, tip: Id | None, what: str, fits_base: bool = True, is_moved: bool = False
) -> Patch:
    """What is left to do of a patch on a tip; a Conflict that says why, if it cannot be applied there.

    Rows are changed where compactions have put them. In a keyed pool records are compared by their keys instead, unless
    the patch just moves records.
    """
    is_by_key = bool(pool.config.settings.primary) and not is_moved
    if tip == basis.base and (fits_base or not is_by_key):
        return patch
    if is_by_key:
        return keyed_changes.fit_by_key(pool, patch, tip, what)
    if basis.is_fresh and not patch.needs_state:
        return patch
    now = pool.snapshot(tip)
    is_as_it_was = not patch.lost_in(now) and not patch.present_in(now)
    if is_as_it_was and (basis.is_fresh or not (basis.bases or _may_be_elsewhere(pool, patch, basis, tip, now))):
        return patch
    parted = None
    if basis.bases:
        bases = tuple(map(pool.snapshot, basis.bases))
        parted = row_conflicts.Parted(bases, pool.snapshot(basis.others), basis.is_merged)
    sides = row_conflicts.Sides(
        ours=lambda: basis.patches(patch),
        theirs=lambda: _others(pool, basis, tip),
        commits=lambda: _unknown(pool, tip, basis.source),
        is_merge=basis.is_merge,
        parted=parted,
    )
    return translation.translated(pool, patch, now, what, sides, (tip, basis.source))


def _may_be_elsewhere(pool: Pool, patch: Patch, basis: Basis, tip: Id | None, now: Snapshot) -> bool:
    """Whether rows that a patch brings may be on a tip already, in objects that it does not speak of."""
    if basis.touched is not None:
        return row_patches.may_be_elsewhere(pool, patch, now, basis.touched)
    touched = row_patches.Touched()
    try:
        touched.add(changed_entries(beyond(pool.commits, tip, basis.source)))
        if basis.base != basis.source and not basis.is_merge:
            touched.add(changed_entries(beyond(pool.commits, basis.base, tip)))
    except NotFound:  # where history was cut, some commits are gone
        touched.add(now.objects())
    return row_patches.may_be_elsewhere(pool, patch, now, touched)


def changed_entries(commits: Iterable[Commit]) -> Iterator[Entry]:
    """What commits have changed, as it was and as it is then."""
    return (entry for commit in commits for entry in actions.touched(commit.actions))


def _others(pool: Pool, basis: Basis, tip: Id | None) -> Iterator[tuple[str, Patch]]:
    """What others have done on a tip, commit by commit."""
    with suppress(NotFound):  # where history was cut, some commits are gone
        for commit in own_changes(pool, basis.others or tip, basis.source):
            yield f"commit {to_text(commit.id)}", Patch(commit.actions)


def _unknown(pool: Pool, tip: Id | None, source: Id | None) -> Iterator[Commit]:
    """The commits that a tip knows of and a source does not, as far as their data stays."""
    with suppress(NotFound):
        commits = beyond(pool.commits, tip, source)
        lost = without_data(pool, tip, commits)
        yield from (commit for commit in commits if commit.id not in lost)


def own_changes(pool: Pool, tip: Id | None, other: Id | None) -> Iterator[Commit]:
    """The commits that a tip knows of and another does not, without merges of such commits, which change nothing.

    Where the data of what was merged may be gone, the merge stands for it.
    """
    commits = beyond(pool.commits, tip, other)
    lost = without_data(pool, tip, commits)
    for commit in commits:
        if commit.id not in lost and (commit.merged is None or _stands_alone(pool, commit, lost)):
            yield commit


def _stands_alone(pool: Pool, merge: Commit, lost: Set[Id]) -> bool:
    """Whether some commit that a merge has brought in is gone, or its data is."""
    if merge.merged is None or pool.commits.lookup(merge.merged) is None:
        return True
    return bool(lost) and any(commit.id in lost for commit in brought_in(pool.commits, merge))


def without_data(pool: Pool, tip: Id | None, commits: Iterable[Commit]) -> Set[Id]:
    """Those of some commits that a tip knows of whose data may go: they were merged into a history that was cut."""
    refs = pool.refs()
    if refs.horizon is None:
        return frozenset()
    lost = {commit.id for commit in commits}
    for commit in chain(pool.history.log(tip, refs.horizon), readable_commits(pool.history, refs)):
        if not lost:
            break
        lost.discard(commit.id)
    return lost
