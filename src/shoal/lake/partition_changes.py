"""Changes of whole partitions: deletion, which reads no data, and replacement by other records of the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.errors import Conflict, InvalidInput, NotFound
from shoal.ids import Id, to_text
from shoal.lake.actions import Patch, describe, patch_of
from shoal.lake.changes import list_objects, with_message
from shoal.lake.commits import Note
from shoal.lake.committer import Change
from shoal.lake.fitting import fit, planned_at
from shoal.lake.objects import DataObject
from shoal.lake.pool_partitions import IsIn, members
from shoal.lake.pools import Pool
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Rows
    from shoal.lake import keyed_changes, record_changes, row_patches
else:
    keyed_changes = lazy("shoal.lake.keyed_changes")
    record_changes = lazy("shoal.lake.record_changes")
    row_patches = lazy("shoal.lake.row_patches")


@frozen
class WholePartitions:
    """All records of some partitions, for `rewriting.delete_where`."""

    name: str
    is_in: IsIn

    def objects(self, pool: Pool, commit: Id | None) -> Sequence[DataObject]:
        """The objects of the partitions at a commit; NotFound if there are none."""
        require_partitions(pool)
        objects = members(pool.snapshot(commit).objects(), self.is_in)
        if not objects:
            raise NotFound(f"{self.name}: no such partition (see: shoal ls -partitions {pool.config.name})")
        return objects

    def covers(self, pool: Pool, o: DataObject) -> bool:
        """Whether all records of an object are to go: they are."""
        return True

    def rows(self, pool: Pool, o: DataObject) -> Rows:
        """Never asked for."""
        raise AssertionError("partitions go as a whole")


def require_partitions(pool: Pool) -> None:
    """InvalidInput if a pool has no partitions."""
    if not pool.config.settings.partition:
        raise InvalidInput(
            f"{pool.config.name}: this pool has no partitions (set them when creating a pool: shoal create -partition)"
        )


def require_unpurged(pool: Pool, objects: Sequence[DataObject]) -> None:
    """InvalidInput if some objects were purged, so that what is read is not all."""
    purged = frozenset(pool.refs().purged())
    if any(o.id in purged for o in objects):
        raise InvalidInput("rewrite: some objects of this partition were purged (delete them from the branch first)")


def replace_partitions(
    pool: Pool,
    branch: str,
    base: Id | None,
    old: Sequence[DataObject],
    new: Sequence[DataObject],
    is_in: IsIn,
    note: Note,
    op: Id | None = None,
) -> Id:
    """Replace all objects that partitions had at a commit; a Conflict if there are others by now."""
    patch = patch_of(new, old)
    known = {o.id for o in old}

    def build(tip: Id | None) -> Patch:
        if tip != base:
            others = [o for o in members(pool.snapshot(tip).objects(), is_in) if o.id not in known]
            if others and not row_patches.is_of(pool, others, old):
                raise Conflict(f"rewrite: {describe(others)} came into this partition meanwhile (repeat the rewrite)")
        fitted = fit(pool, patch, planned_at(base), tip, what="rewrite")
        if pool.config.settings.primary:
            keyed_changes.require_free(pool, tip, fitted, fitted.adds, "rewrite")
        return fitted

    note = with_message(note, "\n".join(list_objects(*side) for side in (("rewrote", old), ("added", new)) if side[1]))
    count = record_changes.ByRecord(pool)
    return pool.committer.commit(Change(branch, build, note, op, is_fresh=True, count=count))


def view_of(pool: Pool, objects: Sequence[DataObject]) -> Id:
    """A commit with these objects and nothing else, which is on no branch: for queries of them."""
    ids = ", ".join(to_text(o.id) for o in objects[:1])
    commit = pool.history.draft(None, patch_of(objects), Note(message=f"view of {len(objects)} data objects: {ids}"))
    pool.commits.write(commit)
    return commit.id
