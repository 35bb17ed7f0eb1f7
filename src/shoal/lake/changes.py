"""The changes of a branch: load, delete, revert, merge, rebase. Each is checked against the tip it lands on.

All of them deal in actions on objects. Where a compaction has moved the rows meanwhile that a change speaks of, it is
done where they are now; only rows that somebody else has changed are a Conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shoal.errors import Conflict, InvalidInput, NotFound, ShoalError
from shoal.ids import Id, to_text
from shoal.lake import branches
from shoal.lake.actions import Patch, difference, patch_of
from shoal.lake.branches import Refs, VacuumMark
from shoal.lake.commits import Commit, Note
from shoal.lake.committer import Change
from shoal.lake.fitting import Basis, changed_entries, fit, fit_rest, own_changes, planned_at, without_data
from shoal.lake.history import beyond, brought_in, common_ancestors, own_commits
from shoal.lake.journal import Changes, State
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.snapshots import Snapshot
from shoal.lake.tallies import Count, Tally, of_deletion, of_upsert, one_sided
from shoal.lake.workers import HERE, Workers
from shoal.lazy import lazy
from shoal.model.fields import NO_ID

if TYPE_CHECKING:
    from shoal.lake import keyed_changes, merge_tallies, record_changes, row_patches, translation
    from shoal.lake.primary_keys import KeyGroup
else:
    keyed_changes = lazy("shoal.lake.keyed_changes")
    merge_tallies = lazy("shoal.lake.merge_tallies")
    record_changes = lazy("shoal.lake.record_changes")
    row_patches = lazy("shoal.lake.row_patches")
    translation = lazy("shoal.lake.translation")

_MOST_LISTED = 10


def with_message(note: Note, message: str) -> Note:
    """The note, with this message if it has none."""
    return note if note.message else replace(note, message=message)


def list_objects(verb: str, objects: Sequence[DataObject]) -> str:
    """A message about objects: how many, and the first few of them."""
    lines = [f"{verb} {len(objects)} data object{'' if len(objects) == 1 else 's'}", ""]
    lines += [
        f"  {to_text(o.id)} {o.count} record{'' if o.count == 1 else 's'} in {o.size} data bytes"
        for o in objects[:_MOST_LISTED]
    ]
    if len(objects) > _MOST_LISTED:
        lines.append("  ...")
    return "\n".join(lines) + "\n"


def load(
    branch: str, objects: Sequence[DataObject], note: Note, op: Id | None = None, begun: int | None = None
) -> Change:
    """Add objects that were just written, to a pool that is not keyed: nothing can be in their way.

    `begun` is a position that the journal had reached before they were.
    """
    if not objects:
        raise InvalidInput("empty transaction")
    if not note.message:
        note = replace(note, message=list_objects("loaded", objects))
    return Change(branch, patch_of(objects), note, op, is_fresh=True, begun=begun)


def load_into(
    pool: Pool,
    branch: str,
    objects: Sequence[DataObject],
    note: Note,
    op: Id | None = None,
    begun: int | None = None,
    by: Workers = HERE,
) -> Change:
    """Add objects that were just written to a pool; if it is keyed, their keys must not be there."""
    change = load(branch, objects, note, op, begun)
    if not pool.config.settings.primary:
        return change
    return replace(change, build=keyed_changes.adding(pool, branch, objects, by))


def expecting(pool: Pool, change: Change, expected: Id | None) -> Change:
    """A change that is a Conflict if its branch has changed since a commit. Maintenance changes nothing."""
    build = change.build

    def checked(tip: Id | None) -> Patch:
        news = next((c for c in pool.commits.walk(tip, expected) if not c.is_maintenance), None)
        if news is not None or (expected is not None and tip is None):
            since = "it was empty" if expected is None else f"commit {to_text(expected)}"
            by = "" if news is None else f": commit {to_text(news.id)}"
            raise Conflict(f'"{change.branch}" has changed since {since}{by} (read what is there, and try again)')
        return build if isinstance(build, Patch) else build(tip)

    return replace(change, build=checked)


def adding(pool: Pool, branch: str, objects: Sequence[DataObject], view: Id | None) -> Patch:
    """What adds objects that were just written, at a commit; in a keyed pool their keys must not be there."""
    if not pool.config.settings.primary:
        return patch_of(objects)
    return keyed_changes.adding(pool, branch, objects)(view)


def upsert(
    pool: Pool,
    branch: str,
    base: Id | None,
    objects: Sequence[DataObject],
    note: Note,
    resolution: keyed_changes.Resolution,
    op: Id | None = None,
    begun: int | None = None,
    by: Workers = HERE,
) -> Change:
    """Add objects that were just written to a keyed pool, in place of the records with the same keys."""
    change = load(branch, objects, with_message(note, list_objects("upserted", objects)), op, begun)
    return replace(change, build=keyed_changes.upserting(pool, base, objects, resolution, by), count=of_upsert)


def delete_keys(
    pool: Pool,
    branch: str,
    base: Id | None,
    keys: Sequence[KeyGroup],
    note: Note,
    resolution: keyed_changes.Resolution,
    op: Id | None = None,
) -> Change:
    """Remove the records of a keyed pool that have some keys."""
    count = sum(len(group.rows) for group in keys)
    note = with_message(note, f"deleted records by {count} primary key{'' if count == 1 else 's'}")
    build = keyed_changes.deleting(pool, base, keys, resolution)
    if build(base).is_empty:
        raise NotFound("no record has one of these primary keys")
    return Change(branch, build, note, op, is_fresh=True, count=of_deletion)


def delete(pool: Pool, branch: str, idents: Sequence[Id], note: Note, op: Id | None = None) -> Id:
    """Remove objects by their ids."""
    base = pool.refs().branch(branch).commit
    objects = find_objects(pool, base, idents)
    patch = patch_of(deletes=objects)
    note = with_message(note, list_objects("deleted", objects))
    build = partial(fit, pool, patch, planned_at(base), what="delete")
    return pool.committer.commit(Change(branch, build, note, op, count=of_deletion))


def find_objects(pool: Pool, tip: Id | None, idents: Sequence[Id]) -> list[DataObject]:
    """Objects at a commit by their ids."""
    if not idents:
        raise InvalidInput("no data objects named (see: shoal query 'from POOL:objects')")
    objects = pool.snapshot(tip).find(idents)
    for ident in idents:
        if ident not in objects:
            raise NotFound(
                f"{to_text(ident)}: not found (no such data object here; see: shoal query 'from POOL:objects')"
            )
    return [objects[ident] for ident in dict.fromkeys(idents)]


def rewrite(pool: Pool, branch: str, base: Id | None, patch: Patch, note: Note, what: str, op: Id | None = None) -> Id:
    """Replace objects by others, as a compaction or a deletion of records does."""
    if patch.is_empty:
        raise InvalidInput("empty transaction")
    is_moved = what == "compact"
    build = partial(fit, pool, patch, planned_at(base), what=what, is_moved=is_moved)
    change = Change(branch, build, note, op, is_fresh=True, count=of_deletion, is_maintenance=is_moved)
    return pool.committer.commit(change)


def revert(pool: Pool, branch: str, ident: Id, note: Note, op: Id | None = None) -> Id:
    """Take a commit back by a new one that does the opposite."""
    commit = pool.names.commit(ident)
    patch = Patch(commit.actions).inverse()
    if patch.is_empty:
        raise InvalidInput(f"{to_text(ident)}: revert commit is empty (this commit changed no data)")

    basis = Basis(ident, ident)

    def build(tip: Id | None) -> Patch:
        if pool.config.settings.primary:  # it may bring back what is from before the pool had this primary key
            return fit_rest(pool, patch, basis, tip, "revert", fits_base=False)
        return fit(pool, patch, basis, tip, "revert")

    note = with_message(note, f"reverted commit {to_text(ident)}")
    count = _as_before(pool, patch, None if commit.records is None else commit.records.inverse())
    change = Change(branch, build, note, op, needs=(ident,), count=count, is_maintenance=commit.is_maintenance)
    return pool.committer.commit(change)


def cherry_pick(pool: Pool, branch: str, ident: Id, note: Note, op: Id | None = None) -> Id:
    """Apply the changes of one commit, of any branch, to a branch. What it adds and is there already stays as it is."""
    commit = pool.names.commit(ident)
    changes, name = Patch(commit.actions), f"cherry-pick of {to_text(ident)}"
    if changes.is_empty:
        raise InvalidInput(f"{name}: this commit changed no data")

    def build(tip: Id | None) -> Patch:
        _require_one_each(pool, changes, commit.parent, name)
        patch = fit_rest(pool, changes, Basis(commit.parent, ident), tip, name, fits_base=False)
        if patch.is_empty:
            raise InvalidInput(f'{name}: its changes are in "{branch}" already')
        return patch

    note = with_message(note, commit.note.message)
    count = _as_before(pool, changes, commit.records)
    change = Change(branch, build, note, op, needs=(ident,), count=count, is_maintenance=commit.is_maintenance)
    return pool.committer.commit(change)


def _as_before(pool: Pool, patch: Patch, records: Tally | None) -> Count:
    """Counts what a patch does that was counted before, as long as it lands as it was."""
    by_record = record_changes.ByRecord(pool)
    return lambda landed: one_sided(landed) or (records if landed == patch else None) or by_record(landed)


def merge(pool: Pool, child: str, parent: str, note: Note, op: Id | None = None) -> Id:
    """Bring what a branch has done since it last met another into that other one, as one commit."""
    if child == parent:
        raise InvalidInput("cannot merge branch into itself")
    source = pool.refs().branch(child).commit
    count = merge_tallies.ByBranch(pool, source)

    def build(tip: Id | None) -> Patch:
        what = f'error merging "{child}" into "{parent}"'
        basis, patch = _news(pool, source, tip, what)
        count.base = basis.base
        if not patch.is_empty:
            patch = fit_rest(pool, patch, basis, tip, what)
        if patch.is_empty:
            raise InvalidInput(f"{what}: nothing to merge")
        return patch

    note = with_message(note, f'merged "{child}" into "{parent}"')
    return pool.committer.commit(Change(parent, build, note, op, merged=source, needs=(source,), count=count))


def _require_one_each(pool: Pool, patch: Patch, base: Id | None, what: str) -> None:
    """Conflict if nobody can tell which record of a key a patch means: the pool had no primary key yet at its base."""
    if pool.config.settings.primary and branches.primary_of(pool.journal.known) is not None:
        keyed_changes.require_one_each(pool, patch, base, what)


def _news(pool: Pool, source: Id | None, tip: Id | None, what: str) -> tuple[Basis, Patch]:
    """What was done up to a source since it last met a tip, which may know some of it; and where they met.

    If they met in several commits, none of which knows of the other, those are merged first, as both sides did.
    """
    met = common_ancestors(pool.commits, source, tip)
    base = met[0] if met else None
    if len(met) < 2:
        theirs = pool.snapshots.between(base, source)
    else:
        theirs = difference(_joined(pool, met).by_id(), pool.snapshot(source).by_id())
    _require_one_each(pool, theirs, base, what)
    return Basis(base, source, commits=lambda: own_changes(pool, source, tip), is_merge=True), theirs


def _joined(pool: Pool, met: list[Id]) -> Snapshot:
    """The state of several commits merged: what all have, and what one has got and the others have not lost."""
    joined = pool.snapshot(met[0])
    for ident in met[1:]:
        before = common_ancestors(pool.commits, met[0], ident)
        patch = pool.snapshots.between(before[0] if before else None, ident)
        joined = joined.after(translation.translated(pool, patch, joined, "merge", None, met))
    return joined


def rebase(pool: Pool, branch: str, onto: str, op: Id | None = None) -> Id | None:
    """Replay the commits that a branch has of its own on the tip of another; the new tip of the branch."""
    if branch == onto:
        raise InvalidInput("cannot rebase branch onto itself")

    replayed: dict[tuple[Id | None, Id | None, VacuumMark | None], Id | None] = {}

    def plan(state: State) -> Changes:
        refs = Refs(state)
        tip, target = refs.branch(branch).commit, refs.branch(onto).commit
        # A vacuum may take what was replayed before it and is in no branch yet.
        case = tip, target, refs.vacuum
        if case not in replayed:
            replayed[case] = _replay(pool, branch, tip, target)
        return branches.set_branch(branch, replayed[case], pool.clock.now())

    entry = pool.names.once(op, plan)
    landed = branches.commit_set(entry.changes, branch)
    return None if landed == NO_ID else landed


def _replay(pool: Pool, branch: str, tip: Id | None, target: Id | None) -> Id | None:
    """New commits on a target for those that a tip has beyond it; the last one."""
    begin, bases, has_taken, touched = target, list[Id](), False, row_patches.Touched()
    own = own_commits(pool.commits, tip, target)
    for before, commit in zip((None, *own), own, strict=False):
        if before is None or before.merged is not None:
            touched.add(changed_entries(beyond(pool.commits, begin, commit.parent)))
        if before is None or commit.merged is not None:  # only a merge brings in commits of the target
            bases = common_ancestors(pool.commits, commit.id, begin)
        touched.add(changed_entries([commit]))
        may_restore = has_taken or commit.merged is not None
        has_taken = has_taken or any(map(_takes, (commit, *brought_in(pool.commits, commit))))
        if commit.merged is not None and _brings_nothing(pool, commit, begin):
            continue  # what it brought in is in the branch that is rebased onto, but for compactions
        what = f'rebase of "{branch}" at {to_text(commit.id)}'
        patch = Patch(commit.actions)
        _require_one_each(pool, patch, commit.parent, what)
        basis = _basis_of(pool, commit, begin, touched)
        if may_restore:  # else it brings nothing that was there when the two parted
            basis = replace(basis, bases=tuple(bases) or (None,))
        patch = fit_rest(pool, patch, basis, target, what, fits_base=False)
        parent = None if target is None else pool.commits.read(target)
        draft = pool.history.draft(parent, patch, commit.note, commit.merged)
        replayed = replace(
            draft,
            date=commit.date,
            op=commit.op,
            txn=commit.txn,
            position=commit.position,
            records=_records_of(pool, commit, patch),
            is_maintenance=commit.is_maintenance,
        )
        pool.commits.write(replayed)
        pool.history.leave_checkpoint(replayed)
        touched.add(changed_entries([replayed]))
        target = replayed.id
    return target


def _takes(commit: Commit) -> bool:
    """Whether a commit may take rows away, and not just move them."""
    return Patch(commit.actions).needs_state and not commit.is_maintenance


def _records_of(pool: Pool, commit: Commit, patch: Patch) -> Tally | None:
    """What a commit does in records that is replayed by a patch."""
    if commit.is_maintenance:
        return commit.records
    with suppress(ShoalError):
        return _as_before(pool, Patch(commit.actions), commit.records)(patch)
    return None


def _brings_nothing(pool: Pool, merge: Commit, target: Id | None) -> bool:
    """Whether a target knows all that a merge has brought in, but for compactions."""
    assert merge.merged is not None
    if without_data(pool, merge.id, beyond(pool.commits, merge.merged, target)):
        return False
    commits = own_changes(pool, merge.merged, target)
    return all(row_patches.is_move(pool, Patch(commit.actions)) for commit in commits)


def _basis_of(pool: Pool, commit: Commit, target: Id | None, touched: row_patches.Touched) -> Basis:
    """Where a commit that is done again on a target comes from."""
    basis = Basis(commit.parent, commit.id, is_merge=True, others=target, touched=touched)
    merged = commit.merged
    if merged is None:
        return basis
    basis = replace(basis, is_merged=True)
    if without_data(pool, commit.id, beyond(pool.commits, merged, target)):
        return basis  # the merge stands for what it brought in
    return replace(basis, commits=lambda: own_changes(pool, merged, target))
