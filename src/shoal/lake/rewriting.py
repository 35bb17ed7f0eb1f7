"""Changes that write data anew: compaction, and deletion of records by a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from shoal.errors import InvalidInput
from shoal.ids import Id
from shoal.lake import changes
from shoal.lake.changes import find_objects, list_objects, with_message
from shoal.lake.commits import Note
from shoal.lake.keys import KeyRange, SortKey
from shoal.lake.objects import LARGE, LARGEST_RUN, DataObject, in_order
from shoal.lake.pools import Pool
from shoal.lake.scans import Partition, partitions, pieces_of, scan_objects
from shoal.lake.snapshots import Patch
from shoal.model.values import Value

Keep = Callable[[Iterator[Value]], Iterable[Value]]
"""Those of some values that are to stay, in their order."""


def compact(pool: Pool, branch: str, idents: Sequence[Id], note: Note) -> Id:
    """Replace objects by others with the same values, sorted and without overlaps."""
    base = pool.refs().branch(branch).commit
    old = in_order(pool.config.key, find_objects(pool, base, idents))
    if len(old) < 2:
        raise InvalidInput("compact: two or more source objects required")
    fits = sum(o.value_size for o in old) < LARGEST_RUN // 2
    writer = pool.writer(as_one_run=fits)
    if fits:
        # What fits into one run is sorted by the writer, whole columns at a time.
        for piece in pieces_of(pool, old):
            writer.write_piece(piece)
    else:
        for value in scan_objects(pool, old):
            writer.write(value)
    patch = Patch(tuple(writer.close()), tuple(old))
    if sum(o.count for o in patch.adds) != sum(o.count for o in patch.deletes):
        raise InvalidInput("compact: some of these objects were purged (delete them from the branch first)")
    note = with_message(note, list_objects("compacted", old))
    return changes.rewrite(pool, branch, base, patch, note, "compact")


def delete_where(pool: Pool, branch: str, keep: Keep, wanted: KeyRange, note: Note) -> Id:
    """Remove the records that `keep` does not keep, of the objects that may hold any in a range."""
    base = pool.refs().branch(branch).commit
    patch = without(pool, base, keep, wanted)
    return changes.rewrite(pool, branch, base, patch, with_message(note, describe_patch(patch)), "delete")


def without(pool: Pool, commit: Id | None, keep: Keep, wanted: KeyRange) -> Patch:
    """What takes the records away that `keep` does not keep: objects that have any are written anew, without them."""
    writer = pool.writer()
    touched: list[DataObject] = []
    for o in pool.snapshot(commit).objects(wanted):
        kept = list(keep(scan_objects(pool, [o])))
        if len(kept) < o.count:
            touched.append(o)
            for value in kept:
                writer.write(value)
    return Patch(tuple(writer.close()), tuple(touched))


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
