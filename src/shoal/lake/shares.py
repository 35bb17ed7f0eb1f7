"""Objects that overlap, cut into shares by key: each is sorted and written by itself, also at the same time.

Where to cut is told by the keys that row groups and segments begin with, so that shares are about equal and fit into
memory, however the objects overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shoal.formats.columns import Batch, batches
from shoal.lake import column_form, row_form
from shoal.lake.key_columns import EVERYWHERE, Stretch, rows_between
from shoal.lake.keys import comparer
from shoal.lake.objects import LARGEST_RUN, DataObject, Form, Purged, key_of
from shoal.lake.pools import Pool
from shoal.lake.scans import unless_purged
from shoal.model.values import Value

SHARE = LARGEST_RUN // 2
"""Bytes of values that are sorted at a time."""


@dataclass(frozen=True, slots=True)
class Share:
    """Those values of some objects whose keys are in a stretch."""

    pool: Pool
    objects: tuple[DataObject, ...]
    stretch: Stretch = EVERYWHERE


class _Sample(NamedTuple):
    """A key, and how many bytes of values begin with it."""

    key: Value
    size: float


def cut(pool: Pool, objects: Sequence[DataObject], size: int = SHARE) -> list[Share]:
    """Shares of about so many bytes, in the order of the pool."""
    total = sum(o.value_size for o in objects)
    count = -(-total // size)
    edges = [] if count < 2 else _edges(pool, objects, total / count)
    made = []
    for begin, end in zip([None, *edges], [*edges, None], strict=True):
        stretch = Stretch(begin, end)
        order, key = pool.config.key.order, pool.config.key
        held = tuple(o for o in objects if stretch.may_hold(order, o.first(key), o.last(key)))
        made.append(Share(pool, held, stretch))
    return made


def _edges(pool: Pool, objects: Sequence[DataObject], size: float) -> list[Value]:
    """Keys between which there are about so many bytes."""
    sortable = comparer(pool.config.key.order)
    samples = sorted((s for o in objects for s in _samples(pool, o)), key=lambda s: sortable((s.key,)))
    edges: list[Value] = []
    held, last = 0.0, samples[0].key
    for sample in samples:
        if held >= size and sortable((last,)) < sortable((sample.key,)):
            edges.append(sample.key)
            held, last = 0.0, sample.key
        held += sample.size
    return edges


def _samples(pool: Pool, o: DataObject) -> Iterator[_Sample]:
    key, name = pool.config.key, key_of(pool.prefix, o)
    try:
        if o.form is Form.COLUMNS:
            groups: Iterable[tuple[Value, int]] = column_form.group_keys(pool.store, pool.prefix, key, o)
        else:
            groups = ((s.first, s.count) for s in row_form.segments(pool.store, name, key, o))
        for first, count in groups:
            yield _Sample(first, o.value_size * count / max(1, o.count))
    except Purged:
        yield _Sample(o.first(key), o.value_size)


def read_share(share: Share) -> Iterator[Batch]:
    """The values of a share in columns, one object after the other."""
    pool = share.pool
    purged = frozenset(pool.refs().purged())
    for o in share.objects:
        for batch in unless_purged(pool, o, object_batches(pool, o, share.stretch), None, purged):
            found = rows_between(batch, pool.config.key, share.stretch)
            if found.length:
                yield found


def object_batches(pool: Pool, o: DataObject, stretch: Stretch = EVERYWHERE) -> Iterator[Batch]:
    """The values of an object in columns, in its order: of the parts that may hold some in a stretch."""
    if o.form is Form.ROWS:
        return batches(row_form.read(pool.store, pool.prefix, pool.config.key, o))
    return column_form.read_stretch(pool.store, pool.prefix, pool.config.key, o, stretch)


def write_share(share: Share) -> list[list[DataObject]]:
    """New objects with the values of a share, sorted; nobody sees them before a commit adds them."""
    writer = share.pool.writer(as_one_run=True)
    try:
        for batch in read_share(share):
            writer.write_batch(batch)
        return [writer.close()]
    except BaseException:
        writer.discard()
        raise
