"""Values as plain tables and data frames: a column for each field, of the common type of what is in it.

This is the form that SQL and Spark have of a pool as well (`engines.tables.forms`). It does not keep the exact types of
values; `arrow_tables` and `dataframes` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.object_rows import batch_in_form
from shoal.engines.tables.plain import FRAMES
from shoal.errors import Unsupported
from shoal.formats.columns.batches import Piece, in_batches
from shoal.lazy import optional_library
from shoal.model import types as t
from shoal.model.values import Value

_DEEPEST = 60
"""Levels that polars can take: it fails at 64."""
_NOT_A_TIME = -(2**63)
"""NaT in numpy, which is a time like any other elsewhere."""


def to_table(pieces: Iterable[Piece], shape: t.Type | None = None) -> pa.Table:
    """An Arrow table; of no values, one with the columns of a type that they would have."""
    runs = list(in_batches(pieces))
    shapes = tuple(dict.fromkeys(part.shape for run in runs for part in run.parts))
    form = TableForm(shapes or (() if shape is None else (shape,)), FRAMES)
    if not form.columns:
        return pa.table({})
    return pa.Table.from_batches((batch_in_form(form, run) for run in runs), form.schema)


def to_batches(pieces: Iterable[Piece], rows: int) -> Iterator[pa.RecordBatch]:
    """Record batches of up to `rows` rows. An empty piece says that what there is should not wait for more."""
    waiting: list[Piece] = []
    count = 0
    for piece in pieces:
        length = 1 if isinstance(piece, Value) else piece.length
        if waiting and (not length or count + length > rows):
            yield from to_table(waiting).to_batches(rows)
            waiting, count = [], 0
        if length:
            waiting.append(piece)
            count += length
    if waiting:
        yield from to_table(waiting).to_batches(rows)


def to_pandas(pieces: Iterable[Piece]) -> Any:
    """A pandas DataFrame. Integers with nulls, and types that numpy lacks, have columns of Arrow types."""
    pandas = optional_library("pandas")
    table = to_table(pieces)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return pandas.DataFrame({name: _pandas_column(pandas, column) for name, column in columns.items()})


def _pandas_column(pandas: Any, column: pa.ChunkedArray) -> Any:
    return column.to_pandas() if _is_of_numpy(column) else pandas.Series(pandas.arrays.ArrowExtensionArray(column))


def _is_of_numpy(column: pa.ChunkedArray) -> bool:
    """Whether a column is the same in numpy; pandas takes a NaN for a null."""
    typ = column.type
    if pa.types.is_timestamp(typ) or pa.types.is_duration(typ):
        return bool(pc.min(column.cast(pa.int64())).as_py() != _NOT_A_TIME)
    if pa.types.is_integer(typ) or pa.types.is_boolean(typ):
        return not column.null_count
    return bool(pa.types.is_floating(typ) or pa.types.is_string(typ))


def to_polars(pieces: Iterable[Piece]) -> Any:
    """A polars DataFrame."""
    polars = optional_library("polars")
    table = to_table(pieces)
    if any(_depth(typ) > _DEEPEST for typ in table.schema.types):
        raise Unsupported(f"polars cannot hold values that nest deeper than {_DEEPEST} levels")
    return polars.from_arrow(table) if table.num_columns else polars.DataFrame()


def _depth(typ: Any) -> int:
    """How many levels an Arrow type has."""
    return 1 + max((_depth(typ.field(i).type) for i in range(typ.num_fields)), default=0)
