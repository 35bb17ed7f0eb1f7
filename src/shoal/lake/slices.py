"""Objects sliced at boundary keys, for a shuffle: each is read once, and each slice goes to the worker that writes it.

Rows of neighbours with the same layout share a slice, so that slices are large even if objects are small and
boundaries many.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from shoal.formats.columns.batches import Batch
from shoal.formats.columns.fusion import TableColumns, to_batch
from shoal.ids import Id
from shoal.lake import column_form, external_form
from shoal.lake.keys import SortKey, compare_in
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.scans import unless_purged
from shoal.model.node import frozen
from shoal.model.values import Value

BUFFER_SIZE = 64 << 20
"""Bytes of rows that are buffered to make slices of them."""


class SliceInput(NamedTuple):
    """An object to slice."""

    others: int
    """How many objects before it are not sliced. Neighbours have the same number."""
    object: DataObject


@frozen
class Slicing:
    """Objects to slice at the same keys."""

    pool: Pool
    objects: tuple[SliceInput, ...]
    boundaries: tuple[Value, ...]


class SlicePart(NamedTuple):
    """Rows of one object, which follow each other among those of it that are not hidden."""

    id: Id
    start: int
    length: int


class Slice(NamedTuple):
    """Rows between two boundaries, of an object and of its neighbours after it."""

    first: Id
    """The object that the first rows are from."""
    data: bytes
    """The rows in its layout, as a stream of Arrow."""
    parts: tuple[SlicePart, ...]
    """Which rows they are."""

    def batch(self, o: DataObject) -> Batch:
        """The rows, given the object."""
        with pa.ipc.open_stream(self.data) as stream:
            return to_batch(column_form.object_layout(o), TableColumns(stream.read_all()))


def slice_objects(work: Slicing) -> Iterator[tuple[int, Slice]]:
    """Slices with the numbers of their intervals: 0 ends at the first boundary."""
    purged = frozenset(work.pool.refs().purged())
    for _, run in groupby(work.objects, lambda each: (each.others, column_form.object_layout(each.object))):
        buffer = _Buffer(len(work.boundaries) + 1)
        for _, o in run:
            start = 0
            for table in unless_purged(work.pool, o, _tables(work.pool, o), None, purged):
                buffer.add(o, table, start, _offsets(o, table, work.pool.config.key, work.boundaries))
                start += table.num_rows
                if buffer.size >= BUFFER_SIZE:
                    yield from buffer.slices()
                    buffer = _Buffer(len(work.boundaries) + 1)
        yield from buffer.slices()


class _Buffer:
    """Rows for the next slice of each interval."""

    def __init__(self, count: int) -> None:
        self.size = 0
        self._tables: list[list[pa.Table]] = [[] for _ in range(count)]
        self._parts: list[list[SlicePart]] = [[] for _ in range(count)]

    def add(self, o: DataObject, table: pa.Table, first: int, offsets: list[int]) -> None:
        self.size += table.nbytes
        for number, (start, end) in enumerate(zip([0, *offsets], [*offsets, table.num_rows], strict=True)):
            if start < end:
                self._tables[number].append(table.slice(start, end - start))
                self._parts[number].append(SlicePart(o.id, first + start, end - start))

    def slices(self) -> Iterator[tuple[int, Slice]]:
        for number, (parts, tables) in enumerate(zip(self._parts, self._tables, strict=True)):
            if parts:
                yield number, Slice(parts[0].id, _packed(pa.concat_tables(tables).combine_chunks()), tuple(parts))


def _packed(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    packed: bytes = out.getvalue().to_pybytes()
    return packed


def _tables(pool: Pool, o: DataObject) -> Iterator[pa.Table]:
    if o.external is not None:
        return iter((external_form.read_table(pool.store, pool.prefix, o, pool.config.key),))
    return column_form.read_tables(pool.store, pool.prefix, o)


def _offsets(o: DataObject, table: pa.Table, key: SortKey, boundaries: tuple[Value, ...]) -> list[int]:
    """The first row at or after each boundary: the rows of an object are sorted."""
    key_at = column_form.key_reader(column_form.object_layout(o), table, key)

    def first_row(boundary: Value) -> int:
        return bisect_left(range(table.num_rows), 0, key=lambda row: compare_in(key.order, key_at(row), boundary))

    return [first_row(boundary) for boundary in boundaries]
