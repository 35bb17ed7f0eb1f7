"""Batches: runs of values as shapes and typed columns. All data enters a lake in this form.

A batch holds a run of rows, grouped by shape. Each part has the exact type, one Arrow column of its
rows, and their offsets in the run, so a batch is exactly the sequence of values that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.errors import InvalidInput
from shoal.formats.columns.physical import from_arrow, to_arrow
from shoal.formats.streams import Columnar
from shoal.model.node import frozen
from shoal.model.types import Type
from shoal.model.values import Value
from shoal.model.zcode import Data

Rows = np.ndarray[Any, np.dtype[np.int64]]
BATCH_ROWS = 50_000
"""Rows of a batch where they are read one by one."""


@frozen
class Part:
    """The rows of one shape."""

    shape: Type
    column: pa.Array
    """In the physical form of the shape; a struct where the shape is a record."""
    rows: Rows
    """Offsets in the batch, ascending."""


@frozen
class Batch(Columnar):
    """A run of rows, grouped by shape."""

    parts: tuple[Part, ...]
    length: int
    skipped: int = 0
    """Bad records of the input that were left out."""

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(part.column.nbytes for part in self.parts)

    def values(self) -> Iterator[Value]:
        """The rows one by one, in their order."""
        placed: list[Value | None] = [None] * self.length
        for part in self.parts:
            for row, data in zip(part.rows.tolist(), from_arrow(part.shape, part.column), strict=True):
                placed[row] = Value(part.shape, data)
        return (value for value in placed if value is not None)


EMPTY = Batch((), 0)
"""No values: who takes one value at a time is told to work on those that have come."""


def skipping(count: int) -> Batch:
    """No values, and how many records of the input are not among those that came."""
    return Batch((), 0, count)


Piece: TypeAlias = Value | Batch
"""A value, or a run of values as columns."""


def values_of(pieces: Iterable[Piece]) -> Iterator[Value]:
    """The values of pieces, in their order."""
    for piece in pieces:
        yield from (piece,) if isinstance(piece, Value) else piece.values()


def in_batches(pieces: Iterable[Piece]) -> Iterator[Batch]:
    """Pieces as columns, in their order."""
    run: list[Value] = []
    for piece in pieces:
        if isinstance(piece, Value):
            run.append(piece)
            if len(run) < BATCH_ROWS:
                continue
        if run:
            yield batch_of(run)
            run = []
        if isinstance(piece, Batch) and piece.length:
            yield piece
    if run:
        yield batch_of(run)


def batches(values: Iterator[Value], size: int = BATCH_ROWS) -> Iterator[Batch]:
    """Values in runs, as columns. Those before an error come out before it does."""
    while True:
        run: list[Value] = []
        try:
            run.extend(islice(values, size))
        except InvalidInput:
            if run:
                yield batch_of(run)
            raise
        if not run:
            return
        yield batch_of(run)


def batch_of(values: Sequence[Value]) -> Batch:
    """Values as columns."""
    return _batch(by_shape(values), len(values))


def _batch(groups: Mapping[Type, Group], length: int) -> Batch:
    parts = (Part(shape, to_arrow(shape, data), np.array(rows, np.int64)) for shape, (rows, data) in groups.items())
    return Batch(tuple(parts), length)


Group = tuple[list[int], list[Data]]
"""Values of one shape: their offsets in the run, and their data."""


def by_shape(values: Sequence[Value]) -> dict[Type, Group]:
    """Values grouped by shape, in the order in which the shapes come."""
    groups: dict[Type, Group] = {}
    for i, value in enumerate(values):
        group = groups.get(value.type)
        if group is None:
            group = groups[value.type] = ([], [])
        group[0].append(i)
        group[1].append(value.data)
    return groups


# ---- values that columns do not suit

MANY_SHAPES = 1000
"""In a run of more shapes than this, the rare ones are not worth columns of their own."""
RARE = 16
"""Rows of a shape that is rare among many."""
MANY_FIELDS = 4000
"""A shape with more parts than this hardly fits into any layout. Its values stay rows from the start."""


def suits_columns(shape: Type, rows: int, shapes: int) -> bool:
    """Whether the rows of a shape, one of several in a run, are worth a column."""
    return shape.size <= MANY_FIELDS and (shapes <= MANY_SHAPES or rows >= RARE)


def sift(values: Sequence[Value]) -> tuple[Batch, list[int]]:
    """Values as columns, as far as columns suit them, and the offsets of the others in the run."""
    groups = by_shape(values)
    suited = {shape: group for shape, group in groups.items() if suits_columns(shape, len(group[0]), len(groups))}
    loose = [row for shape, (rows, _) in groups.items() if shape not in suited for row in rows]
    return _batch(suited, len(values)), loose
