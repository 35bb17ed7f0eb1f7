"""Merge policies at the level of objects: which of them have to be read together, and what a policy makes of them.

A policy makes something of the records that have one key, whatever objects they are in. What it makes of all of them
is the same whether it was applied to some of them before or not. So a compaction may apply it to any objects, and a
read to all that were not merged together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from shoal.errors import InvalidInput
from shoal.lake.key_columns import EVERYWHERE, KeyInterval
from shoal.lake.keys import EVERYTHING, Key, KeyRange, SortKey, comparer, key_getter
from shoal.lake.names import Warn
from shoal.lake.objects import DataObject, Form, Purged
from shoal.lake.pools import Pool
from shoal.lake.scans import Partition, partitions, read_object, unless_purged
from shoal.lazy import lazy
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.lake import column_form, key_columns, row_form
else:
    column_form = lazy("shoal.lake.column_form")
    key_columns = lazy("shoal.lake.key_columns")
    row_form = lazy("shoal.lake.row_form")


class Policy(Protocol):
    """What becomes of records with equal keys. It pickles."""

    def merged(self, records: list[Value], /) -> Iterable[Value]:
        """What becomes of records whose pool keys are equal as they sort: there may be several groups among them."""

    def verify(self, records: list[Value], result: list[Value], /) -> None:
        """Fail if applying it to a part of the records first would make another result. A compaction asks this."""


def is_merged(objects: Sequence[DataObject]) -> bool:
    """Whether no two of these objects have something for each other: one compaction wrote them all."""
    first = objects[0].merged
    return first is not None and all(o.merged == first for o in objects)


def parts(key: SortKey, objects: Iterable[DataObject]) -> Iterator[Partition]:
    """Objects, given in the order of the pool, cut where no key is on both sides.

    Values without the pool key never meet those that have it, though both sort as null.
    """
    kinds: dict[bool, list[DataObject]] = {True: [], False: []}
    for o in objects:
        kinds[o.has_key].append(o)
    for has_key in (True, False) if key.order == "asc" else (False, True):
        yield from partitions(key, kinds[has_key], touching=True)


def merged_scan(
    pool: Pool,
    objects: Iterable[DataObject],
    policy: Policy,
    key_range: KeyRange = EVERYTHING,
    warn: Warn | None = None,
) -> Iterator[Value]:
    """What a policy makes of the values of objects, in the order of the pool.

    As in any scan more may come than the range has: of keys outside of it, what comes is of no use.
    """
    purged = frozenset(pool.refs().purged())
    for part in parts(pool.config.key, objects):
        streams = [
            unless_purged(pool, o, read_object(pool.store, pool.prefix, pool.config.key, o, key_range), warn, purged)
            for o in part.objects
        ]
        if is_merged(part.objects):
            yield from _in_order(pool.config.key, streams)
        else:
            yield from _applied(pool, policy, streams)


def merged_values(
    pool: Pool,
    objects: Sequence[DataObject],
    policy: Policy,
    interval: KeyInterval = EVERYWHERE,
    warn: Warn | None = None,
) -> Iterator[Value]:
    """What a policy makes of the values of objects that are between two keys, in the order of the pool."""
    purged = frozenset(pool.refs().purged())
    streams = [unless_purged(pool, o, _between(pool, o, interval), warn, purged) for o in objects]
    yield from _applied(pool, policy, streams)


def compacted_values(
    pool: Pool, objects: Sequence[DataObject], policy: Policy, interval: KeyInterval
) -> Iterator[Value]:
    """Like `merged_values`, for a compaction: it fails if records are missing, or a policy does not keep its word."""
    purged = frozenset(pool.refs().purged())
    if any(o.id in purged for o in objects):
        raise _purged()
    try:
        streams = [_counted(o, _between(pool, o, interval), interval) for o in objects]
        yield from _applied(pool, policy, streams, is_verified=True)
    except Purged:
        raise _purged() from None


def _purged() -> InvalidInput:
    return InvalidInput("compact: some of these objects were purged (delete them from the branch first)")


def _counted(o: DataObject, values: Iterator[Value], interval: KeyInterval) -> Iterator[Value]:
    """All values of an object; fails if there are more or fewer than its description says."""
    count = 0
    for value in values:
        count += 1
        yield value
    if interval == EVERYWHERE and count != o.count:
        raise InvalidInput(f"compact: a data object of {o.count} records gave {count} (see: shoal doctor)")


def _between(pool: Pool, o: DataObject, interval: KeyInterval) -> Iterator[Value]:
    """The values of an object whose keys are in an interval, in its order."""
    key = pool.config.key
    if o.form is Form.ROWS:
        first = key_getter(SortKey(key.paths[:1], key.order))
        for value in row_form.read(pool.store, pool.prefix, key, o):
            if interval == EVERYWHERE or interval.holds(key.order, first(value)[0]):
                yield value
        return
    for batch in column_form.read_interval(pool.store, pool.prefix, key, o, interval):
        yield from key_columns.rows_between(batch, key, interval).values()


def _in_order(key: SortKey, streams: Sequence[Iterator[Value]]) -> Iterator[Value]:
    if len(streams) == 1:
        return streams[0]
    sortable, keys = comparer(key.order), key_getter(key)
    return merge(*streams, key=lambda value: sortable(keys(value)))


def _applied(
    pool: Pool, policy: Policy, streams: Sequence[Iterator[Value]], is_verified: bool = False
) -> Iterator[Value]:
    """What a policy makes of values that are in the order of the pool, in that order."""
    key = pool.config.key
    sortable, keys = comparer(key.order), key_getter(key)
    first, sort_first = _first_key(key), comparer(key.order)

    def sorted_by_key(values: Iterable[Value]) -> list[Value]:
        ordered = list(values)
        if len(key.paths) > 1 and len(ordered) > 1:
            ordered.sort(key=lambda value: sortable(keys(value)))
        return ordered

    for _, group in groupby(_in_order(key, streams), key=_Sameness(first, sort_first)):
        records = list(group)
        result = sorted_by_key(policy.merged(records))
        if is_verified and len(records) > 1:
            policy.verify(records, result)
        yield from result


def _first_key(key: SortKey) -> Any:
    return key_getter(SortKey(key.paths[:1], key.order))


class _Sameness:
    """A number for each value, which is that of the value before if their keys compare equal."""

    def __init__(self, first: Any, sortable: Any) -> None:
        self._first, self._sortable = first, sortable
        self._number = 0
        self._last: Key | None = None

    def __call__(self, value: Value) -> int:
        key: Key = self._first(value)
        last = self._last
        if last is not None and not self._is_same(last[0], key[0]):
            self._number += 1
        self._last = key
        return self._number

    def _is_same(self, a: Value, b: Value) -> bool:
        if a.type is b.type and a.data is not None and b.data is not None and a.data == b.data:
            return True
        same: bool = self._sortable((a,)) == self._sortable((b,))
        return same
