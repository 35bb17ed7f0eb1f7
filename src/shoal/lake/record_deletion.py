"""Deletion of records: rows are hidden; an object of which few are left is written again, in columns, without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from shoal.formats.columns.batches import Rows
from shoal.ids import Id
from shoal.lake.actions import Effect
from shoal.lake.identities import Identities
from shoal.lake.masks import hidden_rows
from shoal.lake.objects import DataObject
from shoal.lake.partitioning import object_batches
from shoal.lake.pool_partitions import by_partition, shared_partition
from shoal.lake.pools import Pool
from shoal.lake.row_masking import REWRITTEN_SHARE, hide_rows, only
from shoal.model.node import frozen


class Matches(Protocol):
    """Which records are to go."""

    def objects(self, pool: Pool, commit: Id | None, /) -> Sequence[DataObject]:
        """The objects at a commit that may have some."""

    def covers(self, pool: Pool, o: DataObject, /) -> bool:
        """Whether all records of an object are to go, as far as its description tells."""

    def rows(self, pool: Pool, o: DataObject, /) -> Rows:
        """Those of an object, by their numbers in its order; hidden ones are counted, and not among them."""


@frozen
class ObjectGroup:
    """Objects of which rows are to go."""

    pool: Pool
    objects: tuple[DataObject, ...]
    matches: Matches
    uncommitted: frozenset[Id] = frozenset()
    """Objects that no commit has named. They are not written again: a row is traced to an object that history knows."""


def delete_rows(group: ObjectGroup) -> Iterator[tuple[list[Effect], list[DataObject]]]:
    """What happens to objects, and new ones, which have the rows that are left of those that go."""
    groups = by_partition(group.objects)
    inline = group.pool.config.settings.inline // max(1, len(groups))
    for objects in groups:
        yield _delete_rows(replace(group, objects=tuple(objects)), inline)


def _delete_rows(group: ObjectGroup, inline: int) -> tuple[list[Effect], list[DataObject]]:
    """Delete rows of objects of one partition. The description of a new object has at most `inline` bytes of data."""
    pool, objects, matches = group.pool, group.objects, group.matches
    writer = pool.writer(partition=shared_partition(objects))
    known = Identities(pool.store, pool.prefix)
    effects: list[Effect] = []
    try:
        for o in objects:
            if pool.refs().is_purged(o.id) or matches.covers(pool, o):
                effects.append(Effect(o, None))
                continue
            rows = matches.rows(pool, o)
            if not len(rows):
                continue
            hidden = o.hidden + len(rows)
            if hidden < REWRITTEN_SHARE * o.rows or hidden == o.rows or o.id in group.uncommitted:
                effects.append(hide_rows(pool, o, rows))
                continue
            effects.append(Effect(o, None))
            left = np.setdiff1d(np.arange(o.rows), np.union1d(rows, hidden_rows(pool.store, pool.prefix, o)))
            for batch, numbers in object_batches(pool, only(pool, o, left)):
                writer.write_batch(batch, known.origins(o, numbers))
        return effects, writer.close(inline)
    except BaseException:
        writer.discard()
        raise
