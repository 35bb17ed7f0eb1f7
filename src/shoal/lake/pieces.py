"""Objects sliced at keys: each is read once, and the rows between two keys go in pieces to the worker that writes them.

Slices of neighbours with the same layout are put together, so that pieces are large although objects may be small and
cuts many.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from shoal.formats.columns.batches import Batch
from shoal.formats.columns.fusion import TableColumns, to_batch
from shoal.ids import Id
from shoal.lake import column_form
from shoal.lake.keys import SortKey, compare_in
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.scans import unless_purged
from shoal.model.values import Value

HELD = 64 << 20
"""Bytes of slices that are put together."""


class SliceInput(NamedTuple):
    """An object to cut."""

    others: int
    """How many before it are not cut: where that changes, two are no neighbours."""
    object: DataObject


@dataclass(frozen=True, slots=True)
class Slicing:
    """Objects to cut at the same keys."""

    pool: Pool
    objects: tuple[SliceInput, ...]
    edges: tuple[Value, ...]


class Piece(NamedTuple):
    """Rows between two keys, of an object and of those after it."""

    first: Id
    """The object that the first rows are from."""
    data: bytes
    """The rows in its layout, as a stream of Arrow."""

    def batch(self, o: DataObject) -> Batch:
        """The rows, given the object."""
        with pa.ipc.open_stream(self.data) as stream:
            return to_batch(column_form.object_layout(o), TableColumns(stream.read_all()))


def slice_objects(work: Slicing) -> Iterator[tuple[int, Piece]]:
    """Pieces with the places of the intervals that they lie in: 0 is the one that ends with the first edge."""
    purged = frozenset(work.pool.refs().purged())
    for _, run in groupby(work.objects, lambda each: (each.others, column_form.object_layout(each.object))):
        held = _Held(len(work.edges) + 1)
        for _, o in run:
            for table in unless_purged(work.pool, o, _tables(work.pool, o), None, purged):
                held.add(o, table, _cuts(o, table, work.pool.config.key, work.edges))
                if held.size >= HELD:
                    yield from held.pieces()
                    held = _Held(len(work.edges) + 1)
        yield from held.pieces()


class _Held:
    """Slices that wait to be put together, for each interval."""

    def __init__(self, count: int) -> None:
        self.size = 0
        self._slices: list[list[pa.Table]] = [[] for _ in range(count)]
        self._firsts: list[Id | None] = [None] * count

    def add(self, o: DataObject, table: pa.Table, cuts: list[int]) -> None:
        self.size += table.nbytes
        for place, (start, end) in enumerate(zip([0, *cuts], [*cuts, table.num_rows], strict=True)):
            if start < end:
                self._slices[place].append(table.slice(start, end - start))
                self._firsts[place] = self._firsts[place] or o.id

    def pieces(self) -> Iterator[tuple[int, Piece]]:
        for place, (first, slices) in enumerate(zip(self._firsts, self._slices, strict=True)):
            if first is not None:
                yield place, Piece(first, _packed(pa.concat_tables(slices).combine_chunks()))


def _packed(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    packed: bytes = out.getvalue().to_pybytes()
    return packed


def _tables(pool: Pool, o: DataObject) -> Iterator[pa.Table]:
    return column_form.read_tables(pool.store, pool.prefix, o)


def _cuts(o: DataObject, table: pa.Table, key: SortKey, edges: tuple[Value, ...]) -> list[int]:
    """The row that the keys from each edge on begin with: those of an object are sorted."""
    key_at = column_form.key_reader(column_form.object_layout(o), table, key)

    def first_row(edge: Value) -> int:
        return bisect_left(range(table.num_rows), 0, key=lambda row: compare_in(key.order, key_at(row), edge))

    return [first_row(edge) for edge in edges]
