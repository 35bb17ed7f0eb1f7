"""Deletion of records: objects are written again, in columns, without some of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from shoal.formats.columns.batches import Batch, Rows
from shoal.ids import Id
from shoal.lake.key_columns import kept_rows
from shoal.lake.objects import DataObject
from shoal.lake.partitioning import object_batches
from shoal.lake.pools import Pool
from shoal.model.node import frozen


class Matches(Protocol):
    """Which records are to go."""

    def objects(self, pool: Pool, commit: Id | None, /) -> Sequence[DataObject]:
        """The objects at a commit that may have some."""

    def rows(self, pool: Pool, o: DataObject, /) -> Rows:
        """Those of an object, by their numbers in its order."""


@frozen
class ObjectGroup:
    """Objects of which some rows are to go."""

    pool: Pool
    objects: tuple[DataObject, ...]
    matches: Matches


def rewrite(group: ObjectGroup) -> list[tuple[list[DataObject], list[DataObject]]]:
    """Objects that go, and those that come instead: the same values without the rows that match."""
    writer = group.pool.writer()
    touched: list[DataObject] = []
    try:
        for o in group.objects:
            if group.pool.refs().is_purged(o.id):
                touched.append(o)  # nothing of it is left
                continue
            gone = group.matches.rows(group.pool, o)
            if not len(gone):
                continue
            touched.append(o)
            for batch in _kept(group.pool, o, gone):
                writer.write_batch(batch)
        return [(touched, writer.close())]
    except BaseException:
        writer.discard()
        raise


def _kept(pool: Pool, o: DataObject, gone: Rows) -> Iterator[Batch]:
    """An object without some rows."""
    start = 0
    for batch in object_batches(pool, o):
        here = gone[(gone >= start) & (gone < start + batch.length)] - start
        kept = kept_rows(batch, [~np.isin(part.rows, here) for part in batch.parts])
        start += batch.length
        if kept.length:
            yield kept
