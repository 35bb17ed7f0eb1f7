"""Converts values to data frames of pandas and polars and back, without loss.

A column whose type Arrow has is a column of that type. Any other has the Python objects of `python_values`. If these
do not imply their Zed type (all are null, or a member of their union does not occur), the frame has a column `$shape`
(see `table_layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.arrow.reader import refusing
from shoal.formats.csv.names import unique_names
from shoal.frames.arrow_tables import natural_array, read_column, reads_as, type_of
from shoal.frames.python_values import column_type, remember, to_cell
from shoal.frames.table_layout import Column, lay_out, rows
from shoal.frames.table_types import is_plain
from shoal.lazy import optional_library
from shoal.model import types as t
from shoal.model.values import Value

Make = Callable[[Column], Any]
"""Creates a column of a frame."""


def _series(values: Sequence[Value], typed: Make, untyped: Make, with_shapes: bool = False) -> dict[str, Any]:
    """The columns of a frame by name. `typed` returns None if the library has no type for a column."""
    layout = lay_out(values, with_shapes)
    series = {}
    for column in layout.columns:
        series[column.name] = typed(column)
        if series[column.name] is None:
            cells = Column(column.name, None, [to_cell(layout.value_in(column, v)) for v in values])
            if layout.shapes is None and column_type(cells.data) is not column.type:
                return _series(values, typed, untyped, with_shapes=True)
            series[column.name] = untyped(cells)
    if layout.shapes is not None:
        series[layout.shapes.name] = typed(layout.shapes)
    return series


# ---- pandas


def to_pandas(values: Sequence[Value]) -> Any:
    """A pandas DataFrame. A column has a numpy type if that is exact, or else an Arrow type, or else objects."""
    pandas = optional_library("pandas")

    def typed(column: Column) -> Any:
        array = natural_array(column)
        if array is None or _is_exact_in_numpy(type_of(column), array):
            return None if array is None else array.to_pandas()
        return pandas.Series(pandas.arrays.ArrowExtensionArray(array))

    def untyped(column: Column) -> Any:
        return pandas.Series([remember(c, t.FLOAT64) if _is_nan(c) else c for c in column.data], dtype=object)

    return pandas.DataFrame(_series(values, typed, untyped))


def _is_nan(cell: Any) -> bool:
    """Whether a cell is a NaN, which pandas treats as null, and not one that remembers its type."""
    return type(cell) is float and cell != cell


def _is_exact_in_numpy(typ: t.Type, array: pa.ChunkedArray) -> bool:
    """Whether numpy types hold a column exactly. pandas uses NaN and NaT for nulls as well."""
    if typ is t.TIME or typ is t.DURATION:
        return bool(pc.min(array.cast(pa.int64())).as_py() != -(2**63))
    if typ in t.FLOATS:
        return not array.null_count and not pc.any(pc.is_nan(array)).as_py()
    return typ is t.STRING or ((typ in t.UNSIGNED | t.SIGNED or typ is t.BOOL) and not array.null_count)


def from_pandas(frame: Any) -> Iterator[Value]:
    """The rows of a pandas DataFrame, without its index."""
    series = [frame.iloc[:, i] for i in range(frame.shape[1])]
    names = unique_names([str(name) for name in frame.columns])
    return rows([_from_pandas_series(name, s) for name, s in zip(names, series, strict=True)])


def _from_pandas_series(name: str, series: Any) -> Column:
    if series.dtype == object:
        cells, missing = series.tolist(), (optional_library("pandas").NA, optional_library("pandas").NaT)
        return Column(name, None, [None if _is_nan(c) or any(c is m for m in missing) else c for c in cells])
    with refusing(f"column {name!r}"):
        array = pa.array(series, from_pandas=True)
    is_small = not isinstance(series.dtype, optional_library("pandas").ArrowDtype)
    return read_column(name, array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]), is_small)


# ---- polars


def to_polars(values: Sequence[Value]) -> Any:
    """A polars DataFrame. Columns of types that polars lacks have Python objects."""
    polars = optional_library("polars")

    def typed(column: Column) -> Any:
        array = natural_array(column) if _passes_to_polars(type_of(column)) else None
        return None if array is None else _polars_series(polars, column, array)

    return polars.DataFrame(_series(values, typed, lambda column: polars.Series(column.data, dtype=polars.Object)))


def _polars_series(polars: Any, column: Column, array: pa.ChunkedArray) -> Any:
    """An Arrow column as a Series; None if polars lacks the type."""
    if is_plain(type_of(column)):
        return polars.from_arrow(array)
    if not any(is_type(array.type) for is_type in _IN_POLARS):
        return None
    series = polars.from_arrow(array)
    return series if reads_as(_arrow_of(series), column, is_small=True) else None


_IN_POLARS = (pa.types.is_date32, pa.types.is_timestamp, pa.types.is_duration, pa.types.is_decimal128)
"""The types that polars takes in addition to plain ones. It may change others, or panic."""


_DEEPEST = 60


def _passes_to_polars(typ: t.Type) -> bool:
    """Whether a type can pass from Arrow to polars, which cuts names at U+0000 and fails at 64 levels."""
    names = typ.index if isinstance(typ, t.Record) else ()
    return (
        typ.depth <= _DEEPEST
        and not any("\0" in name for name in names)
        and all(map(_passes_to_polars, typ.children()))
    )


def from_polars(frame: Any) -> Iterator[Value]:
    """The rows of a polars DataFrame."""
    polars = optional_library("polars")
    return rows([_from_polars_series(s, s.dtype == polars.Object) for s in frame.get_columns()])


def from_lazy_polars(frame: Any) -> Iterator[Value]:
    """The rows of a polars LazyFrame."""
    return from_polars(frame.collect())


def _from_polars_series(series: Any, is_object: bool) -> Column:
    if is_object:
        return Column(series.name, None, series.to_list())
    return read_column(series.name, _arrow_of(series), is_small=True)


def _arrow_of(series: Any) -> pa.ChunkedArray:
    return pa.chunked_array([series.alias("").to_arrow()])
