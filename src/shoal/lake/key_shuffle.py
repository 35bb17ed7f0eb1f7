"""Finding the keys of new objects in a state by workers: a shuffle by the hash of the key, for changes of any size.

Each object is read once, for its keys, and each bucket compares the new keys that it gets with the old ones. The
process that commits gets the numbers of rows that are replaced, and no keys but those that an error names.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from shoal.errors import AlreadyExists, InvalidInput
from shoal.lake.actions import Effect, Patch, patch_to
from shoal.lake.key_index import MOST_NAMED, KeyIndex
from shoal.lake.keys import KeyRange
from shoal.lake.masks import Rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.primary_keys import INTEGER, KeyGroup, read_keys
from shoal.lake.row_masking import hide_rows
from shoal.lake.snapshots import Snapshot
from shoal.lake.workers import Workers, grouped_by_size
from shoal.lake.zones import FieldRange, may_match, ranges_at
from shoal.model.node import frozen

KEYS_PER_BUCKET = 1 << 20
_MIXER = np.uint64(0x9E3779B97F4A7C15)


@frozen
class KeySources:
    """Objects whose keys are to be compared."""

    pool: Pool
    objects: tuple[tuple[int, DataObject], ...]
    """With their numbers among the new objects, or among the old ones."""
    is_new: bool
    buckets: int


@frozen
class KeyPortion:
    """The keys of an object that belong to a bucket."""

    number: int
    is_new: bool
    groups: tuple[KeyGroup, ...]


@frozen
class KeyMatches:
    """What a bucket has found."""

    rows: tuple[tuple[int, Rows], ...]
    """By the number of an old object: its rows that have one of the new keys."""
    duplicates: int = 0
    """How many new keys come again."""
    names: str = ""
    """Some of these; or else of those that are there already."""


def touched_objects(pool: Pool, now: Snapshot, new: Sequence[DataObject]) -> list[DataObject]:
    """The objects of a state that may have a key of the new ones, by the bounds of the first field of the key."""
    path = pool.config.settings.primary[0]
    ranges: set[KeyRange] = set()
    for o in new:
        own = ranges_at(o, path)
        if own is None:
            return list(now.objects())
        ranges.update(own)
    return [o for o in now.objects() if any(may_match(o, FieldRange(path, each)) for each in ranges)]


def find_keys(pool: Pool, new: Sequence[DataObject], old: Sequence[DataObject], by: Workers) -> Iterator[KeyMatches]:
    """What the old objects have of the keys of the new ones."""
    buckets = max(by.count, 1 + sum(o.count for o in (*new, *old)) // KEYS_PER_BUCKET)
    sources = [
        KeySources(pool, group, is_new, buckets)
        for is_new, side in ((True, new), (False, old))
        for group in grouped_by_size(list(enumerate(side)), [o.count for o in side], by.count)
    ]
    yield from by.shuffle(divide_keys, sources, match_keys, list(range(buckets)))


def replacing(pool: Pool, now: Snapshot, new: Sequence[DataObject], by: Workers) -> Patch:
    """The patch that adds objects, and hides the records with their keys; InvalidInput if a key comes twice."""
    old = touched_objects(pool, now, new)
    hidden: dict[int, list[Rows]] = {}
    for matches in find_keys(pool, new, old, by):
        _require_distinct(matches)
        for number, rows in matches.rows:
            hidden.setdefault(number, []).append(rows)
    masks = [hide_rows(pool, old[number], np.sort(np.concatenate(rows))) for number, rows in hidden.items()]
    return patch_to([*(Effect(None, o) for o in new), *masks])


def adding(pool: Pool, branch: str, now: Snapshot, new: Sequence[DataObject], by: Workers) -> Patch:
    """The patch that adds objects; AlreadyExists if one of their keys is there."""
    for matches in find_keys(pool, new, touched_objects(pool, now, new), by):
        _require_distinct(matches)
        if matches.rows:
            raise AlreadyExists(
                f'{matches.names}: records have this primary key in "{branch}" (upsert replaces records)'
            )
    return patch_to(Effect(None, o) for o in new)


def _require_distinct(matches: KeyMatches) -> None:
    if matches.duplicates:
        noun = "key is" if matches.duplicates == 1 else "keys are"
        raise InvalidInput(f"duplicate records: primary {noun} given more than once: {matches.names}")


# ---- in tasks


def divide_keys(sources: KeySources) -> Iterator[tuple[int, KeyPortion]]:
    """The keys of objects by buckets."""
    for number, o in sources.objects:
        portions: dict[int, list[KeyGroup]] = {}
        for group in read_keys(sources.pool, o):
            for bucket, portion in _divided(group, sources.buckets):
                portions.setdefault(bucket, []).append(portion)
        for bucket, groups in portions.items():
            yield bucket, KeyPortion(number, sources.is_new, tuple(groups))


def _divided(group: KeyGroup, count: int) -> Iterator[tuple[int, KeyGroup]]:
    buckets = _buckets_of(group, count)
    order = np.argsort(buckets, kind="stable")
    starts = np.searchsorted(buckets[order], np.arange(count + 1))
    for bucket in np.unique(buckets).tolist():
        places = order[starts[bucket] : starts[bucket + 1]]
        yield bucket, KeyGroup(group.kinds, tuple(_taken(c, places) for c in group.columns), group.rows[places])


def _buckets_of(group: KeyGroup, count: int) -> Rows:
    if group.kinds == (INTEGER,):
        mixed = (group.columns[0].astype(np.int64).view(np.uint64) * _MIXER) >> np.uint64(32)
        buckets: Rows = (mixed % np.uint64(count)).astype(np.int64)
        return buckets
    lists: Iterable[Iterable[Any]] = (c.to_pylist() if hasattr(c, "to_pylist") else list(c) for c in group.columns)
    texts = (repr((group.kinds, *key)).encode() for key in zip(*lists, strict=True))
    return np.fromiter((zlib.crc32(text) % count for text in texts), np.int64, len(group.rows))


def _taken(column: Any, places: Rows) -> Any:
    return [column[place] for place in places.tolist()] if isinstance(column, list) else column.take(places)


def match_keys(bucket: int, portions: Iterator[KeyPortion]) -> Iterator[KeyMatches]:
    """Compare the keys of a bucket; those of new objects come first."""
    new: list[tuple[int, KeyGroup]] = []
    index: KeyIndex | None = None
    rows: dict[int, list[Rows]] = {}
    found: list[int] = []
    for portion in portions:
        if portion.is_new:
            new += [(portion.number, group) for group in portion.groups]
            continue
        index = KeyIndex(new) if index is None else index
        matches = index.find(portion.groups)
        if len(matches.rows):
            rows.setdefault(portion.number, []).append(matches.rows)
            found += matches.positions[:MOST_NAMED].tolist()
    index = KeyIndex(new) if index is None else index
    again = index.duplicates()
    named = again if len(again) else found[:MOST_NAMED]
    joined = tuple((number, np.concatenate(each)) for number, each in rows.items())
    if joined or len(again):
        yield KeyMatches(joined, len(again), index.texts(named))
