"""Changes that write data anew: compaction, and deletion of records by a filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

from shoal.errors import Conflict, InvalidInput, ShoalError
from shoal.ids import Id
from shoal.lake import changes
from shoal.lake.changes import find_objects, list_objects, with_message
from shoal.lake.commits import Note
from shoal.lake.keys import SortKey
from shoal.lake.objects import LARGE, DataObject, in_order, key_of
from shoal.lake.pools import Pool
from shoal.lake.scans import Partition, partitions
from shoal.lake.snapshots import Patch
from shoal.lake.workers import Choose, here, in_packs

if TYPE_CHECKING:
    from shoal.lake.record_deletion import Matches

# ---- compaction


def compact(pool: Pool, branch: str, idents: Sequence[Id], note: Note, choose: Choose = here) -> Id:
    """Replace objects by others with the same values, sorted and without overlaps."""
    base = pool.refs().branch(branch).commit
    old = in_order(pool.config.key, find_objects(pool, base, idents))
    if len(old) < 2:
        raise InvalidInput("compact: two or more source objects required")
    ((_, commit),) = compact_runs(pool, branch, base, [old], note, choose)
    if isinstance(commit, ShoalError):
        raise commit
    return commit


def compact_runs(
    pool: Pool, branch: str, base: Id | None, runs: Sequence[Sequence[DataObject]], note: Note, choose: Choose = here
) -> Iterator[tuple[Sequence[DataObject], Id | ShoalError]]:
    """Compact runs of objects at a commit, each by a commit of its own as soon as it is written; or why not."""
    if not runs:
        return
    shares: Any = import_module("shoal.lake.shares")
    by = choose(sum(o.size for run in runs for o in run))
    cuts = [shares.cut(pool, run, shares.TASK_SHARE if by.is_elsewhere else shares.SHARE) for run in runs]
    with closing(shares.write_cuts(cuts, by)) as results:
        for run, cut in zip(runs, cuts, strict=True):
            made = gathered(pool, islice(results, len(cut.shares)))
            try:
                yield run, _replace(pool, branch, base, run, made, note)
            except (Conflict, InvalidInput) as e:
                remove(pool, made)
                yield run, e


def _replace(
    pool: Pool, branch: str, base: Id | None, old: Sequence[DataObject], made: Sequence[DataObject], note: Note
) -> Id:
    patch = Patch(tuple(made), tuple(old))
    if sum(o.count for o in patch.adds) != sum(o.count for o in patch.deletes):
        raise InvalidInput("compact: some of these objects were purged (delete them from the branch first)")
    note = with_message(note, list_objects("compacted", old))
    return changes.rewrite(pool, branch, base, patch, note, "compact")


def gathered(pool: Pool, results: Iterator[list[DataObject]]) -> list[DataObject]:
    """All objects that were written, by whomever. If writing fails, none of them stay."""
    made: list[DataObject] = []
    try:
        for found in results:
            made.extend(found)
    except BaseException:
        remove(pool, made)
        raise
    return made


def remove(pool: Pool, objects: Iterable[DataObject]) -> None:
    """Remove objects that no commit has named, as far as that can be done."""
    for o in objects:
        with suppress(ShoalError):
            pool.store.delete(key_of(pool.prefix, o))


# ---- deletion of records


def delete_where(pool: Pool, branch: str, matches: Matches, note: Note, choose: Choose = here) -> Id:
    """Remove the records that match."""
    base = pool.refs().branch(branch).commit
    patch = without(pool, base, matches, choose)
    return changes.rewrite(pool, branch, base, patch, with_message(note, describe_patch(patch)), "delete")


def without(pool: Pool, commit: Id | None, matches: Matches, choose: Choose = here) -> Patch:
    """What takes the records away that match: objects that have any are written anew, without them."""
    deletion: Any = import_module("shoal.lake.record_deletion")
    objects = matches.objects(pool, commit)
    by = choose(sum(o.size for o in objects))
    touched: list[DataObject] = []

    def made() -> Iterator[list[DataObject]]:
        packs = in_packs(objects, [o.size for o in objects], by.count)
        for old, new in by.run(deletion.rewrite, [deletion.Pack(pool, pack, matches) for pack in packs]):
            touched.extend(old)
            yield new

    adds = gathered(pool, made())
    return Patch(tuple(adds), tuple(touched))


def describe_patch(patch: Patch) -> str:
    """A message that tells what came and went."""
    parts = [list_objects(verb, side) for verb, side in (("deleted", patch.deletes), ("added", patch.adds)) if side]
    return "\n".join(parts)


def choose_runs(key: SortKey, objects: Iterable[DataObject], object_size: int) -> list[list[DataObject]]:
    """Which objects to compact together: those that overlap, and neighbours that make one object together.

    What a compaction makes of a run is never chosen again, so that policies come to rest.
    """
    kinds: dict[bool, list[DataObject]] = {True: [], False: []}
    for o in objects:
        kinds[o.has_key].append(o)
    keyless = (Partition((o,)) for o in kinds[False])
    keyed = partitions(key, kinds[True], touching=False)
    runs = [*_runs(keyed, object_size), *_runs(keyless, object_size)]
    return [run for run in runs if len(run) > 1]


def _runs(parts: Iterable[Partition], size: int) -> Iterator[list[DataObject]]:
    """Partitions joined as long as they make no full object."""
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
