"""What a patch changes, record by record: rows that are on both of its sides have only moved, and cancel.

Only what the patch touches is read, and of that only where rows that go and rows that come lie between the same keys.
In a keyed pool two different records with one primary key are one record that was updated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shoal.errors import Unsupported
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import in_batches
from shoal.formats.columns.physical import arrow_type, from_arrow
from shoal.ids import to_text
from shoal.lake import merging
from shoal.lake.actions import Patch
from shoal.lake.key_index import KeyIndex
from shoal.lake.loaded_records import LoadedRecords
from shoal.lake.names import Warn
from shoal.lake.objects import DataObject, in_order
from shoal.lake.pools import Pool
from shoal.lake.primary_keys import key_reader, read_keys
from shoal.lake.row_codes import joined, uncancelled
from shoal.lake.row_masking import changed_parts
from shoal.lake.scans import Partition, read_pieces, unless_purged
from shoal.lake.tallies import Tally, of_update, one_sided, rows_of
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.zcode import encode


@frozen
class RecordChange:
    """A record before and after a change. None: it is not there."""

    before: Value | None
    after: Value | None


class Run(NamedTuple):
    """Values of one type."""

    shape: t.Type
    column: pa.Array

    def values(self) -> Iterator[Value]:
        """One by one."""
        return (Value(self.shape, data) for data in from_arrow(self.shape, self.column))


class Sides(NamedTuple):
    """Runs that go and runs that come."""

    gone: list[Run]
    come: list[Run]


def loaded_changes(pool: Pool, patch: Patch, loaded: LoadedRecords, warn: Warn | None = None) -> Iterator[RecordChange]:
    """The changes of records as they were loaded, where a merge policy may have made others of them."""
    sides = changed_parts(pool, patch)
    if all(o.merged is None for side in sides for o in side):
        yield from record_changes(pool, patch, warn)
        return
    gone, come = ([value for o in side for value in loaded.behind(o)] for side in sides)
    bodies = [Counter((value.type, encode(value.type, value.data)) for value in side) for side in (gone, come)]
    for side, left, make in ((gone, bodies[0] - bodies[1], _deletion), (come, bodies[1] - bodies[0], _insertion)):
        for value in side:
            body = value.type, encode(value.type, value.data)
            if left[body]:
                left[body] -= 1
                yield make(value)


def _deletion(value: Value) -> RecordChange:
    return RecordChange(value, None)


def _insertion(value: Value) -> RecordChange:
    return RecordChange(None, value)


def record_changes(pool: Pool, patch: Patch, warn: Warn | None = None) -> Iterator[RecordChange]:
    """The records that a patch deletes, updates and inserts, always in the same order."""
    sides = net_sides(pool, patch, warn)
    if not pool.config.settings.primary or one_sided(patch) is not None:
        for part in sides:
            yield from (RecordChange(value, None) for run in part.gone for value in run.values())
            yield from (RecordChange(None, value) for run in part.come for value in run.values())
        return
    parts = list(sides)
    gone, come = ([v for part in parts for run in part[side] for v in run.values()] for side in (0, 1))
    yield from _paired(pool, gone, come)


def _paired(pool: Pool, gone: Sequence[Value], come: Sequence[Value]) -> Iterator[RecordChange]:
    """Deletions, updates, and what is inserted. Where a key comes twice nobody knows which record became which."""
    key_at = key_reader(pool.config.settings.primary)
    by_key: dict[object, list[list[int]]] = {}
    for side, values in enumerate((gone, come)):
        for place, value in enumerate(values):
            by_key.setdefault(key_at(value), [[], []])[side].append(place)
    pairs = {
        places[0][0]: places[1][0]
        for key, places in by_key.items()
        if len(places[0]) == len(places[1]) == 1 and None not in key  # type: ignore[operator]
    }
    yield from (RecordChange(value, None) for place, value in enumerate(gone) if place not in pairs)
    yield from (RecordChange(gone[one], come[other]) for one, other in pairs.items())
    updated = frozenset(pairs.values())
    yield from (RecordChange(None, value) for place, value in enumerate(come) if place not in updated)


# ---- without what has only moved


def net_sides(pool: Pool, patch: Patch, warn: Warn | None = None) -> Iterator[Sides]:
    """What goes and what comes, in parts that have no key in common; equal values of both sides are in neither."""
    gone, come = changed_parts(pool, patch)
    for part, old in _parts(pool, gone, come):
        one = [o for o in part.objects if id(o) in old]
        other = [o for o in part.objects if id(o) not in old]
        if one and other:
            _require_unpurged(pool, part.objects)
            yield _net(_by_shape(_read(pool, one, None)), _by_shape(_read(pool, other, None)))
        else:
            for o in part.objects:
                runs = list(_read(pool, [o], warn))
                yield Sides(runs, []) if one else Sides([], runs)


def _parts(
    pool: Pool, gone: Sequence[DataObject], come: Sequence[DataObject]
) -> Iterator[tuple[Partition, frozenset[int]]]:
    """Objects of both sides by their keys, and which go."""
    old = frozenset(map(id, gone))
    key = pool.config.key
    return ((part, old) for part in merging.parts(key, in_order(key, [*gone, *come])))


def _read(pool: Pool, objects: Iterable[DataObject], warn: Warn | None) -> Iterator[Run]:
    purged = frozenset(pool.refs().purged())
    for o in objects:
        pieces = unless_purged(pool, o, read_pieces(pool.store, pool.prefix, pool.config.key, o), warn, purged)
        for batch in in_batches(pieces):
            yield from (Run(part.shape, part.column) for part in batch.parts if len(part.column))


def _require_unpurged(pool: Pool, objects: Iterable[DataObject]) -> None:
    refs = pool.refs()
    purged = next((o for o in objects if refs.is_purged(o.id)), None)
    if purged is not None:
        raise Unsupported(
            f"data object {to_text(purged.id)} was purged, so nobody knows which records were changed and which only "
            "moved (ask for the changes after this commit)"
        )


def _by_shape(runs: Iterable[Run]) -> dict[t.Type, pa.Array]:
    columns: dict[t.Type, list[pa.Array]] = {}
    for shape, column in runs:
        columns.setdefault(shape, []).append(kernels.whole(column).cast(arrow_type(shape)))
    return {shape: joined(each) for shape, each in columns.items()}


def _net(gone: dict[t.Type, pa.Array], come: dict[t.Type, pa.Array]) -> Sides:
    sides = Sides([], [])
    for shape in dict.fromkeys((*gone, *come)):
        columns = gone.get(shape), come.get(shape)
        if columns[0] is not None and columns[1] is not None:
            left = uncancelled(shape, columns[0], columns[1])
            columns = kernels.take(columns[0], left[0]), kernels.take(columns[1], left[1])
        for side, column in zip(sides, columns, strict=True):
            if column is not None and len(column):
                side.append(Run(shape, column))
    return sides


# ---- counts


class ByRecord:
    """Counts what patches do by comparing records. It remembers the last one: a lost race often changes nothing."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._last: tuple[Patch, Tally] | None = None

    def __call__(self, patch: Patch) -> Tally:
        if self._last is None or self._last[0] != patch:
            self._last = patch, compare(self._pool, patch)
        return self._last[1]


def compare(pool: Pool, patch: Patch) -> Tally:
    """The tally of any patch."""
    simple = one_sided(patch)
    if simple is not None:
        return simple
    gone, come = changed_parts(pool, patch)
    if not pool.config.settings.primary:
        same = equal = _equal_rows(pool, gone, come)
    else:
        keys = _keys_of_both(pool, gone, come)
        if keys is None:
            return _counted(record_changes(pool, patch))
        same, equal = keys, _equal_rows(pool, gone, come)
    return Tally(_rows(come) - same, _rows(gone) - same, same - equal)


def _counted(changes: Iterable[RecordChange]) -> Tally:
    kinds = [(change.before is None, change.after is None) for change in changes]
    return Tally(kinds.count((True, False)), kinds.count((False, True)), kinds.count((False, False)))


def _rows(objects: Iterable[DataObject]) -> int:
    return sum(o.count for o in objects)


def _keys_of_both(pool: Pool, gone: Sequence[DataObject], come: Sequence[DataObject]) -> int | None:
    """How many primary keys are on both sides; None if a record has none, or several have the same."""
    index = KeyIndex((0, group) for o in come for group in read_keys(pool, o))
    groups = [read_keys(pool, o) for o in gone]
    matches = [index.find(each).positions for each in groups]
    both = np.unique(np.concatenate([np.zeros(0, np.int64), *matches]))
    has_all = len(index) == _rows(come) and sum(len(each.rows) for keys in groups for each in keys) == _rows(gone)
    if not has_all or len(index.duplicates()) or len(both) != sum(map(len, matches)):
        return None
    return len(both)


def _equal_rows(pool: Pool, gone: Sequence[DataObject], come: Sequence[DataObject]) -> int:
    """How many rows of one side cancel rows of the other."""
    equal = 0
    for part, old in _parts(pool, gone, come):
        one = [o for o in part.objects if id(o) in old]
        other = [o for o in part.objects if id(o) not in old]
        if one and other:
            _require_unpurged(pool, part.objects)
            shapes = [_by_shape(_read(pool, side, None)) for side in (one, other)]
            for shape in shapes[0].keys() & shapes[1].keys():
                left = uncancelled(shape, shapes[0][shape], shapes[1][shape])
                equal += len(shapes[0][shape]) - len(left[0])
    return equal


class ByKey:
    """Counts what patches do that replace records: those whose primary key is on both sides are updated, if only as
    the same again. Without a primary key one cannot tell, and all count that could be."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __call__(self, patch: Patch) -> Tally:
        if not self._pool.config.settings.primary:
            return of_update(patch)
        gone, come = changed_parts(self._pool, patch)
        index = KeyIndex((0, group) for o in come for group in read_keys(self._pool, o))
        both = sum(len(index.find(read_keys(self._pool, o)).rows) for o in gone)
        rows = rows_of(patch)
        return Tally(rows[1] - both, rows[0] - both, both)
