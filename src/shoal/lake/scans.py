"""Reading a pool in the order of its key: objects one after the other, and merged where they overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import TYPE_CHECKING, TypeVar

from shoal.ids import Id, to_text
from shoal.lake import row_form
from shoal.lake.keys import EVERYTHING, KeyRange, SortKey, compare_in, comparer, key_getter
from shoal.lake.names import Warn, unreached
from shoal.lake.objects import DataObject, Form, Missing, Purged, data_key, missing
from shoal.lake.pools import Pool
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import NULL, Value
from shoal.storage.store import ObjectStore

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece
    from shoal.lake import column_form, external_form
else:
    column_form = lazy("shoal.lake.column_form")
    external_form = lazy("shoal.lake.external_form")

_P = TypeVar("_P")


@frozen
class Partition:
    """Objects that overlap, and so have to be read together; those of the next partition come after them."""

    objects: tuple[DataObject, ...]

    def bounds(self) -> tuple[Value, Value]:
        """The least and the greatest key."""
        low, high = self.objects[0].min, self.objects[0].max
        for o in self.objects[1:]:
            low = o.min if compare_in("asc", o.min, low) < 0 else low
            high = o.max if compare_in("asc", o.max, high) > 0 else high
        return low, high


def partitions(key: SortKey, objects: Iterable[DataObject], touching: bool = True) -> Iterator[Partition]:
    """Objects in the order of the pool, cut where none overlaps the next.

    Objects that share just one key at their ends are `touching`: with several keys they may still have to be merged.
    """
    limit = 0 if touching else -1
    group: list[DataObject] = []
    end = NULL
    for o in objects:
        if group and compare_in(key.order, o.first(key), end) > limit:
            yield Partition(tuple(group))
            group = []
        if not group or compare_in(key.order, o.last(key), end) > 0:
            end = o.last(key)
        group.append(o)
    if group:
        yield Partition(tuple(group))


def scan(pool: Pool, commit: Id | None, key_range: KeyRange = EVERYTHING, warn: Warn | None = None) -> Iterator[Value]:
    """All values at a commit that may be in a range, in the order of the pool; more may come than the range has."""
    try:
        yield from scan_objects(pool, pool.snapshot(commit).objects(key_range), key_range, warn)
    except Missing as e:
        if commit is not None and not pool.names.is_reached(commit, pool.refs()):
            raise unreached(commit) from e
        raise


def scan_objects(
    pool: Pool, objects: Iterable[DataObject], key_range: KeyRange = EVERYTHING, warn: Warn | None = None
) -> Iterator[Value]:
    """The values of objects, given in the order of the pool, in that order."""
    key = pool.config.key
    sortable, key_of = comparer(key.order), key_getter(key)
    purged = frozenset(pool.refs().purged())
    for partition in partitions(key, objects, touching=len(key.paths) > 1):
        streams = [_read(pool, o, key_range, warn, purged) for o in partition.objects]
        if len(streams) == 1:
            yield from streams[0]
        else:
            yield from merge(*streams, key=lambda value: sortable(key_of(value)))


def _read(pool: Pool, o: DataObject, key_range: KeyRange, warn: Warn | None, purged: frozenset[Id]) -> Iterator[Value]:
    values = read_object(pool.store, pool.prefix, pool.config.key, o, key_range)
    return unless_purged(pool, o, values, warn, purged)


def unless_purged(
    pool: Pool, o: DataObject, pieces: Iterator[_P], warn: Warn | None, purged: frozenset[Id]
) -> Iterator[_P]:
    """What is in an object; one that was purged gives nothing, and a warning, even if its bytes are still about."""
    try:
        if o.id in purged:
            raise Purged(to_text(o.id))
        yield from pieces
    except Purged:
        if not pool.refs().is_purged(o.id):
            raise missing(data_key(pool.prefix, o.id, o.form)) from None
        if warn is not None:
            warn(f"{pool.config.name}: data object {to_text(o.id)} ({o.count} records) was purged and is left out")


# ---- one object, whatever its form


def read_object(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, key_range: KeyRange = EVERYTHING
) -> Iterator[Value]:
    """The values of an object, in its order: those of the parts that may hold something in the range."""
    if o.external is not None:
        return external_form.read(store, pool, key, o)
    read = row_form.read if o.form is Form.ROWS else column_form.read
    return read(store, pool, key, o, key_range)


def read_pieces(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterator[Piece]:
    """The values of an object, in its order, in columns where it has them."""
    if o.external is not None:
        return external_form.read_batches(store, pool, key, o)
    if o.form is Form.COLUMNS:
        return column_form.read_batches(store, pool, key, o)
    return row_form.read_all(store, pool, o)


def object_shapes(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterable[tuple[t.Type, int]]:
    """How many values of which types are in an object: from what its commit says, or by counting."""
    if o.shapes is not None:
        return [(shape, count) for shape, count in o.shapes if count]
    return Counter(value.type for value in read_object(store, pool, key, o)).items()
