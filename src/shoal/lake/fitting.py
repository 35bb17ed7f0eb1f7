"""Whether changes made at one commit can be applied to another, and what they are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.errors import Conflict, NotFound
from shoal.ids import Id, to_text
from shoal.lake.actions import Effect, Patch, describe, effect, patch_to
from shoal.lake.objects import without_rows
from shoal.lake.pools import Pool
from shoal.lake.snapshots import Snapshot
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.lake import keyed_changes, row_masking
else:
    keyed_changes = lazy("shoal.lake.keyed_changes")
    row_masking = lazy("shoal.lake.row_masking")


def fit(pool: Pool, patch: Patch, base: Id | None, tip: Id | None, what: str, is_moved: bool = False) -> Patch:
    """A patch made for a base as it is on a tip; a Conflict if it cannot be applied there, or has been done there.

    In a keyed pool a patch that has been done is nothing, and no conflict.
    """
    fitted = fit_rest(pool, patch, base, tip, what, is_moved=is_moved)
    if fitted.is_empty and not patch.is_empty and (is_moved or not pool.config.settings.primary):
        first = next(before.id for before, _ in patch.effects() if before is not None)
        raise Conflict(
            f"{what}: {_culprit(pool, first, base, tip)} has done the same meanwhile (nothing is left to do)"
        )
    return fitted


def fit_rest(
    pool: Pool,
    patch: Patch,
    base: Id | None,
    tip: Id | None,
    what: str,
    fits_base: bool = True,
    is_moved: bool = False,
) -> Patch:
    """What is left to do on a tip of a patch made for a base; a Conflict that says why, if it cannot be applied there.

    Masks are brought to the objects as they are at the tip. An object that is to go has to be there. In a keyed pool
    records are compared by their keys instead, unless the patch just moves records.
    """
    if tip == base and fits_base:
        return patch
    if pool.config.settings.primary and not is_moved:
        return keyed_changes.fit_by_key(pool, patch, tip, what)
    if not patch.needs_state:
        return patch
    now = pool.snapshot(tip)
    lost = patch.lost_in(now)
    if lost and any(now.version(entry) is not None for entry in lost):
        patch = row_masking.translated(pool, patch, now)
        lost = patch.lost_in(now)
    if lost:
        raise Conflict(
            f"{what}: {_culprit(pool, lost[0].id, base, tip)} has deleted or rewritten {describe(lost)} meanwhile "
            "(revert that commit first, or repeat the change on what is there now)"
        )
    return patch


def missing(pool: Pool, patch: Patch, tip: Id | None) -> Patch:
    """A patch without what is there already at a tip. An object that is there does not come: what it hides is hidden.

    Both sides began with the whole object, whichever commits brought it.
    """
    now = pool.snapshot(tip)
    patch = patch.missing_from(now)
    if not any(now.version(o) is not None for o in patch.adds):
        return patch
    return patch_to(_as_masks(patch, now))


def _as_masks(patch: Patch, now: Snapshot) -> Iterator[Effect]:
    for before, after in patch.effects():
        there = now.version(after) if before is None and after is not None else None
        if there is None or after is None:
            yield Effect(before, after)
        else:
            # Where it is not whole any more, the change is made on what is there; counts of shapes are not looked at.
            yield Effect(there if there.mask is None else without_rows(after, None, 0, None), after)


def _culprit(pool: Pool, ident: Id, base: Id | None, tip: Id | None) -> str:
    """The commit that took an entry away."""
    with suppress(NotFound):  # where history was cut, that commit may be gone
        for commit in pool.commits.walk(tip, base):
            if any(change.id == ident and change.before is not None for change in map(effect, commit.actions)):
                return f"commit {to_text(commit.id)}"
    return "another commit"
