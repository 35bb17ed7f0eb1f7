"""What stands in the way of a patch at another commit: rows that are missing there, and who has taken them away.

Which rows were replaced is judged commit by commit: a commit that takes rows away and brings others has replaced them.
A row that one side has replaced, and the other has replaced or deleted, is a Conflict. So is one that nobody is known
to have taken away: an older version may have written down its object without its lineage, and then the row is there,
and not to be told from a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple, TypeVar

import numpy as np

from shoal.errors import Conflict
from shoal.ids import Id
from shoal.lake.actions import Patch, describe
from shoal.lake.commits import Commit
from shoal.lake.history import knows
from shoal.lake.identities import NO_KEYS, Identities, Keys, is_in
from shoal.lake.keys import EVERYTHING
from shoal.lake.pools import Pool
from shoal.lake.row_patches import Located, RowPatch, State, hull_of, row_patch

T = TypeVar("T")


class Parted(NamedTuple):
    """Where a branch and another one parted, for what may not come back."""

    bases: tuple[State, ...]
    """The states that both knew."""
    target: State
    """The other branch as it is."""
    is_merge: bool
    """Whether the rows were merged into the branch: then they stay away. Else it has restored them: a Conflict."""


class Sides(NamedTuple):
    """What both sides have done since they parted, commit by commit. It is asked for only if a row is missing."""

    ours: Callable[[], Iterable[Patch]]
    """What the patch is the sum of."""
    theirs: Callable[[], Iterable[tuple[str, Patch]]]
    """What has become of the state, and who has done it."""
    commits: Callable[[], Iterable[Commit]] | None = None
    """All that has become of the state, merges included; None if it is sure that no older version was among them."""
    is_merge: bool = False
    """Whether rows that both sides have, because one has picked them from the other, go if one of them deleted them."""
    parted: Parted | None = None
    """Of a branch whose commits are done again one by one."""


def leave_out(rows: RowPatch, parted: Parted, what: str) -> None:
    """Rows that were there where two branches parted do not come back if the other side has deleted them since.

    A branch that has deleted and restored a row has not changed it, and so does not undo its deletion elsewhere.
    """
    if not len(rows.new):
        return
    hull = hull_of(part.object for part in rows.come)
    before = np.concatenate([NO_KEYS, *(Located(rows.known, base, hull, rows).keys for base in parted.bases)])
    old = rows.new[np.isin(rows.new, before)]
    deleted = old[~is_in(old, Located(rows.known, parted.target, hull, rows).keys)] if len(old) else old
    if len(deleted) and not parted.is_merge:
        objects = [part.object for part in rows.come if is_in(part.owned.keys, deleted).any()]
        raise Conflict(
            f"{what}: it brings back records of {describe(objects)}, which the other branch has deleted or rewritten "
            "(merge instead, or delete them here as well)"
        )
    rows.new = rows.new[~is_in(rows.new, deleted)]


def leave_deleted(pool: Pool, rows: RowPatch, there: Located, sides: Sides) -> None:
    """Rows of objects that both sides have added go, if one of them has deleted them.

    One has picked the other's commit. An object of which the state has no row any more comes as any other.
    """
    known = rows.known
    both = {ident for ident, _ in known.by_object(rows.new[is_in(rows.new, there.keys)])}
    if not both:
        return
    ours, theirs = (
        _deleted(pool, known, patches, both) for patches in (list(sides.ours()), [patch for _, patch in sides.theirs()])
    )
    rows.new = rows.new[is_in(rows.new, there.keys) | ~is_in(rows.new, theirs)]
    gone = ours[~is_in(ours, rows.gone_keys) & ~is_in(ours, rows.come_keys)]
    if len(gone):
        there.locate(gone, EVERYTHING)
        rows.lost = np.union1d(rows.lost, gone)


def _deleted(pool: Pool, known: Identities, patches: Iterable[Patch], ids: Set[Id]) -> Keys:
    """The rows of some objects that patches (the newest first) have taken away and not brought back, ascending."""
    deleted = NO_KEYS
    for patch in reversed(list(patches)):
        if any(known.has_any(entry, ids) for change in patch.effects() for entry in change if entry is not None):
            rows = row_patch(pool, known, patch)
            deleted = np.union1d(deleted, rows.lost)
            deleted = deleted[~is_in(deleted, rows.new)]
    return known.of_objects(deleted, ids)


# ---- conflicts


def require_unchanged(pool: Pool, rows: RowPatch, there: Located, missing: Keys, what: str, sides: Sides) -> None:
    """Conflict if a row that is missing was replaced, by us or by who has taken it away, or if nobody has."""
    who, taken, returns = "another commit", NO_KEYS, False
    for name, theirs in _concerning(pool, rows.known, sides.theirs(), missing):
        if is_in(theirs.lost, missing).any():
            who = name
            if not is_in(theirs.new, rows.new).all():
                raise _changed(what, name, rows, np.intersect1d(theirs.lost, missing))
        taken = np.union1d(taken, theirs.lost)
        returns |= bool(is_in(theirs.new, missing).any())
    for _, ours in _concerning(pool, rows.known, (("", patch) for patch in sides.ours()), missing):
        there.locate(ours.new, hull_of(part.object for part in ours.come))
        if is_in(ours.lost, missing).any() and not is_in(ours.new, there.keys).all():
            raise _changed(what, who, rows, np.intersect1d(ours.lost, missing))
    if sides.commits is None or (not returns and is_in(missing, taken).all()):
        return
    unknown = missing[~is_in(missing, _taken(pool, rows.known, list(sides.commits()), missing))]
    if len(unknown):
        raise Conflict(
            f"{what}: records of {_objects_of(rows, unknown)} are not found here, and no commit has deleted them: they "
            "were never here, or an older version has moved them (delete what is meant: shoal delete -where)"
        )


def _taken(pool: Pool, known: Identities, commits: Iterable[Commit], keys: Keys) -> Keys:
    """Those of some rows that a commit has taken away, and none that knows of it has brought back; ascending."""
    by_id = ((commit.id, Patch(commit.actions)) for commit in commits)
    steps = [(ident, rows.lost, rows.new) for ident, rows in _concerning(pool, known, by_id, keys)]
    taken = NO_KEYS
    for ident, lost, _ in steps:
        later = [new for other, _, new in steps if is_in(new, lost).any() and knows(pool.commits, other, ident)]
        back = np.unique(np.concatenate([NO_KEYS, *later]))
        taken = np.union1d(taken, lost[is_in(lost, keys) & ~is_in(lost, back)])
    return taken


def _concerning(
    pool: Pool, known: Identities, patches: Iterable[tuple[T, Patch]], keys: Keys
) -> Iterator[tuple[T, RowPatch]]:
    """The patches that have taken some rows away or brought them, and what they did."""
    ids = {ident for ident, _ in known.by_object(keys)}
    for name, patch in patches:
        if any(known.has_any(entry, ids) for change in patch.effects() for entry in change if entry is not None):
            rows = row_patch(pool, known, patch)
            if is_in(rows.lost, keys).any() or is_in(rows.new, keys).any():
                yield name, rows


def _changed(what: str, who: str, rows: RowPatch, keys: Keys) -> Conflict:
    return Conflict(
        f"{what}: {who} has deleted or rewritten records of {_objects_of(rows, keys)} meanwhile "
        "(revert that commit first, or repeat the change on what is there now)"
    )


def _objects_of(rows: RowPatch, keys: Keys) -> str:
    """The objects that some rows go from, for an error."""
    return describe(part.object for part in rows.gone if is_in(part.owned.keys, keys).any())


def who_did(pool: Pool, patch: Patch, commits: Iterable[tuple[str, Patch]]) -> str:
    """The commit that has done what a patch was to do."""
    known = Identities(pool.store, pool.prefix)
    rows = row_patch(pool, known, patch)
    objects = {part.object.id for part in rows.gone}
    for name, other in commits:
        if any(is_in(each.lost, rows.lost).any() for _, each in _concerning(pool, known, [(name, other)], rows.lost)):
            return name
        if not len(rows.lost) and any(before is not None and before.id in objects for before, _ in other.effects()):
            return name
    return "another commit"
