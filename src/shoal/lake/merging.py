"""Merge policies at the level of objects: which of them have to be read together, and what a policy makes of them.

A policy makes something of the records that have one key, whatever objects they are in. What it makes of all of them
is the same whether it was applied to some of them before or not. So a compaction may apply it to any objects, and a
read to all that were not merged together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shoal.errors import InvalidInput
from shoal.lake.identities import Identities, Origins, key_lists, listed_origins
from shoal.lake.key_columns import EVERYWHERE, KeyInterval, NumberedBatch, numbered_rows, rows_between
from shoal.lake.keys import EVERYTHING, Key, KeyRange, SortKey, comparer, key_getter
from shoal.lake.names import Warn
from shoal.lake.objects import DataObject, Form, Purged
from shoal.lake.pools import Pool
from shoal.lake.scans import Partition, partitions, read_object, unless_purged
from shoal.lazy import lazy
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.lake import column_form, external_form
else:
    column_form = lazy("shoal.lake.column_form")
    external_form = lazy("shoal.lake.external_form")

_RUN = 20_000
"""How many merged values are written at a time."""


class Group(NamedTuple):
    """Records that a policy merges, and what becomes of them. A result may be one of the records."""

    members: list[Value]
    results: list[Value]


class Policy(Protocol):
    """What becomes of records with equal keys. It pickles."""

    def merged(self, records: list[Value], /) -> Iterable[Value]:
        """What becomes of records whose pool keys are equal as they sort: there may be several groups among them."""

    def groups(self, records: list[Value], /) -> Iterable[Group]:
        """What becomes of them, group by group: each record is a member of one."""

    def verify(self, records: list[Value], result: list[Value], /) -> None:
        """Fail if applying it to a part of the records first would make another result. A compaction asks this."""


class _Traced(NamedTuple):
    """A record, and the identities that it has, its own first."""

    value: Value
    keys: tuple[int, ...]


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
) -> Iterator[tuple[list[Value], Origins]]:
    """Like `merged_values`, for a compaction: runs of values, and what each was before.

    It fails if records are missing, or a policy does not keep its word.
    """
    purged = frozenset(pool.refs().purged())
    if any(o.id in purged for o in objects):
        raise _purged()
    known = Identities(pool.store, pool.prefix)
    try:
        streams = [_counted(o, _keyed(pool, known, o, interval), interval) for o in objects]
        merged = _traced(pool, policy, known, streams)
        while run := list(islice(merged, _RUN)):
            yield [each.value for each in run], listed_origins(known, [each.keys for each in run])
    except Purged:
        raise _purged() from None


def _purged() -> InvalidInput:
    return InvalidInput("compact: some of these objects were purged (delete them from the branch first)")


def _counted(o: DataObject, records: Iterator[_Traced], interval: KeyInterval) -> Iterator[_Traced]:
    """All records of an object; fails if there are more or fewer than its description says."""
    count = 0
    for record in records:
        count += 1
        yield record
    if interval == EVERYWHERE and count != o.count:
        raise InvalidInput(f"compact: a data object of {o.count} records gave {count} (see: shoal doctor)")


def _keyed(pool: Pool, known: Identities, o: DataObject, interval: KeyInterval) -> Iterator[_Traced]:
    """The values of an object whose keys are in an interval and their identities, in its order."""
    for batch, rows in _numbered(pool, o, interval):
        keys = key_lists(known.origins(o, rows))
        yield from map(_Traced, batch.values(), keys)


def _between(pool: Pool, o: DataObject, interval: KeyInterval) -> Iterator[Value]:
    """The values of an object whose keys are in an interval, in its order."""
    for batch, _ in _numbered(pool, o, interval):
        yield from batch.values()


def _numbered(pool: Pool, o: DataObject, interval: KeyInterval) -> Iterator[NumberedBatch]:
    """The rows of an object whose keys are in an interval, in its order."""
    store, name, key = pool.store, pool.prefix, pool.config.key
    if o.form is Form.ROWS:
        batches = numbered_rows(store, name, key, o)
    elif o.external is not None:
        batches = external_form.numbered_batches(store, name, key, o)
    else:
        batches = column_form.read_interval(store, name, key, o, interval)
    return (rows_between(each, key, interval) for each in batches)


def _in_order(key: SortKey, streams: Sequence[Iterator[Value]]) -> Iterator[Value]:
    if len(streams) == 1:
        return streams[0]
    sortable, keys = comparer(key.order), key_getter(key)
    return merge(*streams, key=lambda value: sortable(keys(value)))


def _applied(pool: Pool, policy: Policy, streams: Sequence[Iterator[Value]]) -> Iterator[Value]:
    """What a policy makes of values that are in the order of the pool, in that order."""
    key = pool.config.key
    sortable, keys = comparer(key.order), key_getter(key)
    for _, group in groupby(_in_order(key, streams), key=_Sameness(key)):
        result = list(policy.merged(list(group)))
        if len(key.paths) > 1 and len(result) > 1:
            result.sort(key=lambda value: sortable(keys(value)))
        yield from result


def _traced(pool: Pool, policy: Policy, known: Identities, streams: Sequence[Iterator[_Traced]]) -> Iterator[_Traced]:
    """Like `_applied`, with what each value was before; the policy has to keep its word."""
    key = pool.config.key
    sortable, keys, same = comparer(key.order), key_getter(key), _Sameness(key)
    records = merge(*streams, key=lambda each: sortable(keys(each.value)))
    for _, run in groupby(records, key=lambda each: same(each.value)):
        members = list(run)
        values = [each.value for each in members]
        results = _results(known, policy.groups(values), members)
        if len(key.paths) > 1 and len(results) > 1:
            results.sort(key=lambda each: sortable(keys(each.value)))
        if len(values) > 1:
            policy.verify(values, [each.value for each in results])
        yield from results


def _results(known: Identities, groups: Iterable[Group], records: Sequence[_Traced]) -> list[_Traced]:
    """What becomes of groups. A result has the identity of the record that it equals, or else of the newest, and it
    has absorbed those of all others."""
    identities: dict[int, list[tuple[int, ...]]] = {}
    for record in records:
        identities.setdefault(id(record.value), []).append(record.keys)
    results: list[_Traced] = []
    for members, values in groups:
        keys = [identities[id(member)].pop() for member in members]
        for value in values:
            equal = (each for member, each in zip(members, keys, strict=True) if member == value)
            own = next(equal, None) or max(keys, key=lambda each: known.origin_of(each[0]))
            others = (key for each in keys if each is not own for key in each)
            results.append(_Traced(value, (*own, *others)))
    return results


class _Sameness:
    """A number for each value, which is that of the value before if their keys compare equal."""

    def __init__(self, key: SortKey) -> None:
        self._first, self._sortable = key_getter(SortKey(key.paths[:1], key.order)), comparer(key.order)
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
