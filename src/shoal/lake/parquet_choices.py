"""Which columns of a Parquet file have statistics, and which have dictionaries.

The columns are those of Parquet, which has none for structs and lists, but one for each leaf in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.formats.columns import kernels
from shoal.lazy import lazy

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

_GLANCE = 1024
"""Rows that show most columns of few values."""


def with_statistics(table: pa.Table) -> bool | list[str]:
    """The columns that tell their least and greatest value: all but those with a NaN.

    A NaN does not count for these, and engines that take it for a number would think that there is none.
    """
    columns = list(_leaves(table))
    with_nan = {path for path, column in columns if kernels.has_nan(column)}
    return sorted({path for path, _ in columns} - with_nan) if with_nan else True


def with_dictionaries(table: pa.Table, group_rows: int) -> bool | list[str]:
    """The columns that are written as a dictionary and places in it: those with values that come again.

    Elsewhere a dictionary takes time and room. The row group in the middle stands for all.
    """
    if table.num_rows <= kernels.FEW:
        return True
    start = (table.num_rows - group_rows) // 2
    group = table.slice(max(0, start), group_rows)
    doubtful = {path for path, column in _leaves(group.slice(0, _GLANCE)) if _is_diverse(column)}
    columns = list(_leaves(group))
    diverse = {path for path, column in columns if path in doubtful and _is_diverse(column)}
    return sorted({path for path, _ in columns} - diverse) if diverse else True


def _is_diverse(column: pa.ChunkedArray) -> bool:
    """Whether most values occur once."""
    count = len(column) - column.null_count
    return bool(count) and 2 * pc.count_distinct(column).as_py() > count


def _leaves(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    for name in table.column_names:
        yield from _parquet_leaves(name, table.column(name))


def _parquet_leaves(path: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The columns that Parquet makes of one, by their paths."""
    typ = column.type
    if pa.types.is_struct(typ):
        for inner, values in zip(typ, column.flatten(), strict=True):
            yield from _parquet_leaves(f"{path}.{inner.name}", values)
    elif pa.types.is_list(typ):
        yield from _parquet_leaves(f"{path}.list.element", kernels.items(column))
    else:
        yield path, column
