"""What changes a branch beside loading: delete, revert, merge, rebase. Each is checked against the tip it lands on.

All of them deal in whole objects. An object that a change removes has to be there still: if another commit removed
or rewrote it meanwhile, its records may live on elsewhere, and the change is refused as a Conflict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from shoal.errors import Conflict, InvalidInput, NotFound
from shoal.ids import Id, to_text
from shoal.lake import branches
from shoal.lake.branches import Refs, VacuumMark
from shoal.lake.commits import Note
from shoal.lake.history import common_ancestors, knows, own_commits
from shoal.lake.journal import Changes, State
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.snapshots import Patch, describe
from shoal.model.fields import NO_ID

_MOST_LISTED = 10


def with_message(note: Note, message: str) -> Note:
    """The note, with this message if it has none."""
    return note if note.message else replace(note, message=message)


def list_objects(verb: str, objects: Sequence[DataObject]) -> str:
    """A message that tells what happened to objects."""
    lines = [f"{verb} {len(objects)} data object{'' if len(objects) == 1 else 's'}", ""]
    lines += [
        f"  {to_text(o.id)} {o.count} record{'' if o.count == 1 else 's'} in {o.size} data bytes"
        for o in objects[:_MOST_LISTED]
    ]
    if len(objects) > _MOST_LISTED:
        lines.append("  ...")
    return "\n".join(lines) + "\n"


def load(
    pool: Pool,
    branch: str,
    objects: Sequence[DataObject],
    note: Note,
    op: Id | None = None,
    after: int | None = None,
) -> Id:
    """Add objects that were just written. Others cannot be in their way, so this never conflicts."""
    if not objects:
        raise InvalidInput("empty transaction")
    patch = Patch(tuple(objects))
    note = with_message(note, list_objects("loaded", objects))
    return pool.commit(branch, lambda tip: patch, note, op=op, after=after, is_fresh=True)


def delete(pool: Pool, branch: str, idents: Sequence[Id], note: Note) -> Id:
    """Remove objects by their ids; the id of a commit stands for the objects that it added."""
    base = pool.refs().branch(branch).commit
    objects = find_objects(pool, base, idents)
    patch = Patch((), tuple(objects))
    note = with_message(note, list_objects("deleted", objects))
    return pool.commit(branch, lambda tip: pool.checked(patch, base, tip, "delete"), note)


def once(pool: Pool, branch: str, op: Id | None, act: Callable[[Pool], Id]) -> Id:
    """The commit that `act` makes in a branch; under an id, the one that it has made already."""
    if op is None:
        return act(pool)
    done = pool.done(op, branch)
    try:
        return act(pool.under(op)) if done is None else done
    except (Conflict, InvalidInput, NotFound):
        # What it was to remove, or to merge, may be so because another attempt has done it meanwhile.
        done = pool.done(op, branch)
        if done is None:
            raise
        return done


def find_objects(pool: Pool, tip: Id | None, idents: Sequence[Id]) -> list[DataObject]:
    """Objects at a commit by their ids."""
    if not idents:
        raise InvalidInput("no data objects named (see: shoal query 'from POOL:objects')")
    found = pool.snapshot(tip).find(idents)
    for ident in idents:
        if ident not in found:
            raise NotFound(
                f"{to_text(ident)}: not found (no such data object here; see: shoal query 'from POOL:objects')"
            )
    return [found[ident] for ident in dict.fromkeys(idents)]


def rewrite(pool: Pool, branch: str, base: Id | None, patch: Patch, note: Note, what: str) -> Id:
    """Replace objects by others, as a compaction or a deletion of records does."""
    if patch.is_empty:
        raise InvalidInput("empty transaction")
    return pool.commit(branch, lambda tip: pool.checked(patch, base, tip, what), note, is_fresh=True)


def revert(pool: Pool, branch: str, ident: Id, note: Note) -> Id:
    """Take a commit back by a new one that does the opposite."""
    commit = pool.commits.read(ident)
    patch = Patch(commit.adds, commit.deletes).inverse()
    if patch.is_empty:
        raise InvalidInput(f"{to_text(ident)}: revert commit is empty (this commit changed no data)")

    def build(tip: Id | None) -> Patch:
        now = pool.snapshot(tip)
        back = [o for o in patch.adds if now.has(o)]
        if back:
            raise Conflict(f"revert: {describe(back)}, which commit {to_text(ident)} deleted, is there again")
        return pool.checked(patch, ident, tip, "revert")

    return pool.commit(branch, build, with_message(note, f"reverted commit {to_text(ident)}"), needs=[ident])


def merge(pool: Pool, child: str, parent: str, note: Note) -> Id:
    """Bring what a branch has done since it last met another into that other one, as one commit."""
    if child == parent:
        raise InvalidInput("cannot merge branch into itself")
    source = pool.refs().branch(child).commit

    def build(tip: Id | None) -> Patch:
        base, patch = _news(pool, source, tip)
        if patch.is_empty:
            raise InvalidInput(f'error merging "{child}" into "{parent}": nothing to merge')
        return pool.checked(patch, base, tip, f'error merging "{child}" into "{parent}"')

    note = with_message(note, f'merged "{child}" into "{parent}"')
    return pool.commit(parent, build, note, merged=source, needs=[source])


def _news(pool: Pool, source: Id | None, tip: Id | None) -> tuple[Id | None, Patch]:
    """What a tip does not know yet of what was done up to a source; and the commit where both last met.

    If they met in several commits, none of which knows of the other, those are merged first, as both sides did.
    """
    met = common_ancestors(pool.commits, source, tip)
    base = met[0] if met else None
    theirs = pool.snapshots.between(base, source) if len(met) < 2 else _difference(_joined(pool, met), pool, source)
    now = pool.snapshot(tip)
    return base, Patch(tuple(o for o in theirs.adds if not now.has(o)), theirs.deletes)


def _joined(pool: Pool, met: list[Id]) -> dict[Id, DataObject]:
    """The objects of several commits merged: what all have, and what one has got and the others have not lost."""
    joined = {o.id: o for o in pool.snapshot(met[0]).objects()}
    for ident in met[1:]:
        before = common_ancestors(pool.commits, met[0], ident)
        old = {o.id for o in pool.snapshot(before[0] if before else None).objects()}
        other = {o.id: o for o in pool.snapshot(ident).objects()}
        joined = {i: o for i, o in (joined | other).items() if i not in old or (i in joined and i in other)}
    return joined


def _difference(old: dict[Id, DataObject], pool: Pool, tip: Id | None) -> Patch:
    """What has to change to come from some objects to those of a commit."""
    new_ones = {o.id: o for o in pool.snapshot(tip).objects()}
    adds = tuple(o for i, o in new_ones.items() if i not in old)
    return Patch(adds, tuple(o for i, o in old.items() if i not in new_ones))


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
        return branches.set_branch(branch, replayed[case], time.time_ns())

    entry = pool.once(op, plan)
    landed = branches.commit_set(entry.changes, branch)
    return None if landed == NO_ID else landed


def _replay(pool: Pool, branch: str, tip: Id | None, target: Id | None) -> Id | None:
    """New commits on a target for those that a tip has beyond it; the last one."""
    met = common_ancestors(pool.commits, tip, target)
    base, begin = (met[0] if met else None), target
    for commit in own_commits(pool.commits, tip, target):
        if commit.merged is not None and knows(pool.commits, begin, commit.merged):
            continue  # what it brought in came from the very branch that is rebased onto
        now = pool.snapshot(target)
        patch = Patch(tuple(o for o in commit.adds if not now.has(o)), commit.deletes)
        what = f'rebase of "{branch}" at {to_text(commit.id)}'
        checked = pool.checked(patch, base, target, what, fits_base=False)
        made = pool.new_commit(target, checked, commit.note, commit.merged)
        made = replace(made, date=commit.date, op=commit.op, position=commit.position)
        pool.commits.write(made)
        pool.leave_checkpoint(made)
        target = made.id
    return target
