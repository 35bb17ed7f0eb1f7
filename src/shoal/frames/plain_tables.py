"""Values as plain tables and data frames: a column for each field, of the common type of what is in it.

This is the form that SQL and Spark have of a pool as well (`engines.tables.forms`). It does not keep the exact types of
values; `arrow_tables` and `dataframes` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.object_rows import rows_in_form
from shoal.engines.tables.plain import FRAMES
from shoal.errors import Unsupported
from shoal.lazy import optional_library
from shoal.model.values import Value

_DEEPEST = 60
"""Levels that polars can take: it fails at 64."""
_NOT_A_TIME = -(2**63)
"""NaT in numpy, which is a time like any other elsewhere."""


def to_table(values: Sequence[Value]) -> pa.Table:
    """An Arrow table."""
    form = TableForm(tuple(dict.fromkeys(value.type for value in values)), FRAMES)
    if not form.columns:
        return pa.table({})
    return pa.Table.from_batches(rows_in_form(form, values), form.schema)


def to_pandas(values: Sequence[Value]) -> Any:
    """A pandas DataFrame. Integers with nulls, and types that numpy lacks, have columns of Arrow types."""
    pandas = optional_library("pandas")
    table = to_table(values)
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


def to_polars(values: Sequence[Value]) -> Any:
    """A polars DataFrame."""
    polars = optional_library("polars")
    if any(value.type.depth > _DEEPEST for value in values):
        raise Unsupported(f"polars cannot hold values that nest deeper than {_DEEPEST} levels")
    table = to_table(values)
    return polars.from_arrow(table) if table.num_columns else polars.DataFrame()
