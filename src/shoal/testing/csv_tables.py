"""Reads tables by both readers of CSV, by records and by columns, which have to agree."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import values_of
from shoal.formats.csv import column_reader, reader
from shoal.model.text import format_value
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece

Outcome = tuple[list[Value], str | None]
"""The values of a table, and the error after them."""


def outcome(read: Callable[[Any, ReadOptions], Iterable[Piece]], data: bytes, options: ReadOptions) -> Outcome:
    """What a reader makes of a table."""
    values: list[Value] = []
    try:
        for value in values_of(read(io.BytesIO(data), options)):
            values.append(value)  # noqa: PERF402 - those before an error count
    except InvalidInput as e:
        return values, str(e)
    return values, None


def both(data: bytes | str, **options: Any) -> Outcome:
    """What both readers make of a table whose columns have one type each, unless options ask for something else."""
    raw = data.encode() if isinstance(data, str) else data
    chosen = ReadOptions(**{"csv_infer": "columns", **options})
    rows, columns = outcome(reader.read, raw, chosen), outcome(column_reader.read, raw, chosen)
    assert columns == rows
    return rows


def texts(data: bytes | str, **options: Any) -> list[str]:
    """The values of a table as both readers give them; raises the error that they end in."""
    values, error = both(data, **options)
    if error is not None:
        raise InvalidInput(error)
    return [format_value(value) for value in values]
