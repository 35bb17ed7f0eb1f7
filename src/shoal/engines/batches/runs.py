"""Batches that are large enough to be worth a step each, and rows of them as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from shoal.engines.batches.distinct import values_at
from shoal.errors import ShoalError
from shoal.formats.columns.batches import Batch, Part, Rows
from shoal.formats.columns.physical import from_arrow
from shoal.formats.columns.projection import Paths, project_column, project_shape
from shoal.model import types as t
from shoal.model.values import Value

_ROWS = 1 << 16
_BYTES = 16 << 20


def gathered(batches: Iterable[Batch], fields: Paths | None) -> Iterator[Batch]:
    """Batches of just some fields, small ones together. Those before an error come out before it does."""
    waiting: list[Batch] = []
    length = size = 0
    error: ShoalError | None = None
    batches = iter(batches)
    while error is None:
        try:
            batch = next(batches, None)
        except ShoalError as e:
            error, batch = e, None
        if batch is not None:
            narrow = Batch(tuple(_projected(part, fields) for part in batch.parts), batch.length)
            waiting.append(narrow)
            length, size = length + narrow.length, size + narrow.nbytes
        if waiting and (batch is None or length >= _ROWS or size >= _BYTES):
            yield _joined(waiting)
            waiting, length, size = [], 0, 0
        if batch is None:
            break
    if error is not None:
        raise error


def _projected(part: Part, fields: Paths | None) -> Part:
    shape = project_shape(part.shape, fields)
    return part if shape is part.shape else Part(shape, project_column(part.shape, part.column, fields), part.rows)


def _joined(batches: list[Batch]) -> Batch:
    """Several batches as one, in which each shape has one part."""
    by_shape: dict[t.Type, list[tuple[pa.Array, Rows]]] = {}
    start = 0
    for batch in batches:
        for part in batch.parts:
            by_shape.setdefault(part.shape, []).append((part.column, part.rows + start))
        start += batch.length
    return Batch(tuple(_part(shape, pieces) for shape, pieces in by_shape.items()), start)


def _part(shape: t.Type, pieces: list[tuple[pa.Array, Rows]]) -> Part:
    if len(pieces) == 1:
        return Part(shape, *pieces[0])
    column, rows = pa.concat_arrays([column for column, _ in pieces]), np.concatenate([rows for _, rows in pieces])
    if (rows[1:] > rows[:-1]).all():
        return Part(shape, column, rows)
    order = np.argsort(rows, kind="stable")
    return Part(shape, column.take(pa.array(order)), rows[order])


def placed(part: Part, rows: Rows | None) -> list[tuple[int, Value]]:
    """Some rows of a part, None being all, and their places in the batch."""
    if rows is None:
        values = [Value(part.shape, data) for data in from_arrow(part.shape, part.column)]
        return list(zip(part.rows.tolist(), values, strict=True))
    return list(zip(part.rows[rows].tolist(), values_at(part.shape, part.column, rows), strict=True))
