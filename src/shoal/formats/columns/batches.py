"""Batches: runs of values as shapes and typed columns. All data enters a lake in this form.

A batch holds a run of rows, grouped by shape. Each part has the exact type, one Arrow column of its
rows, and their offsets in the run, so a batch is exactly the sequence of values that was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.errors import InvalidInput
from shoal.formats.columns.physical import from_arrow, to_arrow
from shoal.formats.streams import Columnar
from shoal.model.types import Type
from shoal.model.values import Value

Rows = np.ndarray[Any, np.dtype[np.int64]]
BATCH_ROWS = 50_000
"""Rows of a batch where they are read one by one."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one shape."""

    shape: Type
    column: pa.Array
    """In the physical form of the shape; a struct where the shape is a record."""
    rows: Rows
    """Offsets in the batch, ascending."""


@dataclass(frozen=True, slots=True)
class Batch(Columnar):
    """A run of rows, grouped by shape."""

    parts: tuple[Part, ...]
    length: int

    def values(self) -> Iterator[Value]:
        """The rows one by one, in their order."""
        placed: list[Value | None] = [None] * self.length
        for part in self.parts:
            for row, data in zip(part.rows.tolist(), from_arrow(part.shape, part.column), strict=True):
                placed[row] = Value(part.shape, data)
        return (value for value in placed if value is not None)


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
    rows: dict[Type, list[int]] = {}
    data: dict[Type, list[Any]] = {}
    for i, value in enumerate(values):
        if value.type not in rows:
            rows[value.type], data[value.type] = [], []
        rows[value.type].append(i)
        data[value.type].append(value.data)
    parts = (Part(shape, to_arrow(shape, data[shape]), np.array(rows[shape], np.int64)) for shape in rows)
    return Batch(tuple(parts), len(values))
