"""Changes that rewrite data: compaction, and deletion of records by a filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import count, islice
from typing import TYPE_CHECKING

from shoal.errors import Conflict, InvalidInput, ShoalError
from shoal.ids import Id
from shoal.lake import changes
from shoal.lake.actions import Effect, Patch, patch_of, patch_to, stored
from shoal.lake.changes import find_objects, list_objects, with_message
from shoal.lake.commits import Note
from shoal.lake.fitting import AlreadyDone
from shoal.lake.keys import SortKey
from shoal.lake.objects import LARGE, DataObject, in_order
from shoal.lake.pool_partitions import by_partition
from shoal.lake.pools import Pool
from shoal.lake.scans import Partition, partitions
from shoal.lake.workers import Choose, grouped_by_size, here
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.lake import merging, partitioning, record_deletion, row_masking
else:
    merging = lazy("shoal.lake.merging")
    row_masking = lazy("shoal.lake.row_masking")
    record_deletion = lazy("shoal.lake.record_deletion")
    partitioning = lazy("shoal.lake.partitioning")

_ATTEMPTS = 10
"""How often a deletion is planned again, if other commits rewrite what it was planned for."""

# ---- compaction


def compact(
    pool: Pool,
    branch: str,
    idents: Sequence[Id],
    note: Note,
    choose: Choose = here,
    op: Id | None = None,
    policy: merging.Policy | None = None,
) -> Id:
    """Replace objects by others with the same values, or what a merge policy makes of them; none overlap.

    What another compaction has replaced meanwhile is left out. If nothing is left to do, it is the tip of the branch.
    """
    for attempt in count():
        base = pool.refs().branch(branch).commit
        try:
            old = _worth_compacting(pool, find_objects(pool, base, idents), policy)
        except InvalidInput:
            if attempt == 0:
                raise
            return _tip(pool, branch)
        ((_, outcome),) = _compacted(pool, branch, base, [old], note, choose, op, policy)
        if not isinstance(outcome, AlreadyDone):
            return _landed(outcome)
        present = pool.snapshot(pool.refs().branch(branch).commit).find(idents)
        idents = [ident for ident in idents if ident in present]
    raise AssertionError


def _landed(outcome: Id | ShoalError) -> Id:
    if isinstance(outcome, ShoalError):
        raise outcome
    return outcome


def _tip(pool: Pool, branch: str) -> Id:
    tip = pool.refs().branch(branch).commit
    assert tip is not None, "a branch with objects has a commit"
    return tip


def _worth_compacting(pool: Pool, objects: list[DataObject], policy: merging.Policy | None) -> list[DataObject]:
    """Those of some objects that can be compacted, in order; InvalidInput if that is of no use."""
    old = in_order(pool.config.key, objects)
    is_copied = any(o.external is not None for o in old)
    if len(old) < 2 and not is_copied and (policy is None or merging.is_merged(old)):
        raise InvalidInput("compact: two or more source objects required")
    if pool.config.settings.partition and not is_copied:
        groups = [group for group in by_partition(old) if len(group) > 1]
        old = in_order(pool.config.key, [o for group in groups for o in group])
        if not old:
            raise InvalidInput("compact: these objects are of different partitions, which stay apart")
    return old


def compact_runs(
    pool: Pool,
    branch: str,
    base: Id | None,
    runs: Sequence[Sequence[DataObject]],
    note: Note,
    choose: Choose = here,
    op: Id | None = None,
    policy: merging.Policy | None = None,
) -> Iterator[tuple[Sequence[DataObject], Id | ShoalError]]:
    """Compact runs of objects at a commit, each by a commit of its own as soon as it is written; or why not.

    Objects of different partitions in a run stay apart. Of what others have compacted meanwhile it is the tip.
    """
    for run, outcome in _compacted(pool, branch, base, runs, note, choose, op, policy):
        yield run, _tip(pool, branch) if isinstance(outcome, AlreadyDone) else outcome


def _compacted(
    pool: Pool,
    branch: str,
    base: Id | None,
    runs: Sequence[Sequence[DataObject]],
    note: Note,
    choose: Choose,
    op: Id | None,
    policy: merging.Policy | None,
) -> Iterator[tuple[Sequence[DataObject], Id | ShoalError]]:
    """Compact runs of objects; what others have compacted meanwhile has an error."""
    if not runs:
        return
    by = choose(sum(o.size for run in runs for o in run))
    size = partitioning.TASK_PARTITION_SIZE if by.is_remote else partitioning.PARTITION_SIZE
    work = [
        [partitioning.partition_to_merge(pool, run, policy)]
        if policy is not None
        else [partitioning.partition_objects(pool, group, size) for group in by_partition(run)]
        for run in runs
    ]
    with closing(partitioning.write_partitions([each for planned in work for each in planned], by)) as results:
        for run, planned in zip(runs, work, strict=True):
            new = gathered(pool, islice(results, sum(len(each.partitions) for each in planned)))
            try:
                yield run, _replace(pool, branch, base, patch_of(new, run), note, op, policy is not None)
            except (Conflict, InvalidInput) as e:
                remove(pool, new)
                yield run, e


def _replace(pool: Pool, branch: str, base: Id | None, patch: Patch, note: Note, op: Id | None, is_merged: bool) -> Id:
    # Who applies a merge policy counts the records that it takes: there may be fewer afterwards.
    if not is_merged and sum(o.count for o in patch.adds) != sum(o.count for o in patch.deletes):
        raise InvalidInput("compact: some of these objects were purged (delete them from the branch first)")
    note = with_message(note, list_objects("compacted", patch.deletes))
    return changes.rewrite(pool, branch, base, patch, note, "compact", op)


def gathered(pool: Pool, results: Iterator[list[DataObject]]) -> list[DataObject]:
    """All objects that workers have written. If writing fails, none of them stay."""
    objects: list[DataObject] = []
    try:
        for written in results:
            objects.extend(written)
    except BaseException:
        remove(pool, objects)
        raise
    return objects


def remove(pool: Pool, objects: Iterable[DataObject]) -> None:
    """Remove objects that no commit has named, as far as that can be done."""
    for o in objects:
        with suppress(ShoalError):
            for each in stored(o):
                pool.store.delete(each.key(pool.prefix))


# ---- deletion of records


def delete_where(
    pool: Pool,
    branch: str,
    matches: record_deletion.Matches,
    note: Note,
    choose: Choose = here,
    op: Id | None = None,
) -> Id:
    """Remove the records that match."""
    for attempt in count(1):
        base = pool.refs().branch(branch).commit
        patch = without(pool, base, matches, choose)
        note = with_message(note, describe_patch(patch))
        try:
            return changes.rewrite(pool, branch, base, patch, note, "delete", op)
        except Conflict:
            remove(pool, patch.adds)
            # What was rewritten meanwhile is looked through again: the records that match are those of the newest tip.
            if attempt == _ATTEMPTS or pool.refs().branch(branch).commit == base:
                raise
    raise AssertionError


def without(
    pool: Pool,
    commit: Id | None,
    matches: record_deletion.Matches,
    choose: Choose = here,
    uncommitted: Iterable[Id] = (),
) -> Patch:
    """What takes the records away that match: they are hidden, or objects that have many written again without them.

    Objects that were staged, and no commit has named, are not written again.
    """
    candidates = matches.objects(pool, commit)
    covered = [o for o in candidates if matches.covers(pool, o)]
    effects = [Effect(o, None) for o in covered]
    gone = {o.id for o in covered}
    objects = [o for o in candidates if o.id not in gone]
    by = choose(sum(o.size for o in objects))

    def results() -> Iterator[list[DataObject]]:
        groups = grouped_by_size(objects, [o.size for o in objects], by.count)
        work = [record_deletion.ObjectGroup(pool, group, matches, frozenset(uncommitted)) for group in groups]
        for changed, new in by.run(record_deletion.delete_rows, work):
            effects.extend(changed)
            yield new

    adds = gathered(pool, results())
    return patch_to([*(Effect(None, o) for o in adds), *effects])


def describe_patch(patch: Patch) -> str:
    """A message about the objects that came, went and changed."""
    sides = ("deleted", patch.deletes), ("added", patch.adds)
    parts = [list_objects(verb, side) for verb, side in sides if side]
    return "\n".join([*parts, *([row_masking.describe_masks(patch)] if patch.masks else [])])


def choose_runs(
    key: SortKey, objects: Iterable[DataObject], object_size: int, is_merging: bool = False
) -> list[list[DataObject]]:
    """Which objects to compact together: those that overlap, and neighbours that make one object together.

    All objects of a run are of one partition. The result of a compaction is never chosen again, so that a policy ends.
    Attached files stay where they are: only who names them copies them. With a merge policy also objects are chosen
    that it was not applied to, and those that share a key.
    """
    groups = by_partition(objects)
    return [run for group in groups for run in _choose_runs(key, group, object_size, is_merging)]


def _choose_runs(
    key: SortKey, objects: Iterable[DataObject], object_size: int, is_merging: bool
) -> list[list[DataObject]]:
    kinds: dict[bool, list[DataObject]] = {True: [], False: []}
    for o in (o for o in objects if o.external is None):
        kinds[o.has_key].append(o)
    if is_merging:
        chosen = [run for kind in kinds.values() for run in _runs(_unmerged_apart(key, kind), object_size)]
        # A compaction writes two objects at most of what fits into one: columns, and rows that do not suit them.
        return [run for run in chosen if run and (len(run) > 2 or not merging.is_merged(run))]
    keyless = (Partition((o,)) for o in kinds[False])
    keyed = partitions(key, kinds[True], touching=False)
    runs = [*_runs(keyed, object_size), *_runs(keyless, object_size)]
    return [run for run in runs if len(run) > 1]


def _unmerged_apart(key: SortKey, objects: Iterable[DataObject]) -> Iterator[Partition]:
    """Objects that a policy has something to do for, together; all others by themselves."""
    for part in merging.parts(key, objects):
        if merging.is_merged(part.objects):
            yield from (Partition((o,)) for o in part.objects)
        else:
            yield part


def _runs(parts: Iterable[Partition], size: int) -> Iterator[list[DataObject]]:
    """Partitions joined as long as they do not make a full object."""
    run: list[DataObject] = []
    for part in parts:
        if run and not _fit([*run, *part.objects], size):
            yield run
            run = []
        run.extend(part.objects)
    yield run


def _fit(objects: list[DataObject], object_size: int) -> bool:
    """Whether objects together make one that is not full, as a writer counts."""
    return sum(o.value_size for o in objects) < min(object_size, LARGE)
