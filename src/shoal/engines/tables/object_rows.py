"""The rows of data objects, and other values, in the form of a table, without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines.file_damage import damage_to, unless_changed, without_paths
from shoal.engines.physical import Source
from shoal.engines.tables.forms import ROW, ROW_BITS, TableForm
from shoal.engines.tables.plain import is_plain
from shoal.engines.tables.projection import Projection
from shoal.errors import StorageFailure
from shoal.formats.columns.batches import Batch, Part, Rows, batches
from shoal.formats.columns.fusion import Fuser, TableColumns
from shoal.formats.columns.layouts import SHAPE, layout_of
from shoal.model.values import Value


def rows_of(form: TableForm, sources: Iterable[Source]) -> Iterator[pa.RecordBatch]:
    """The rows of some data objects."""
    for source in sources:
        projection = Projection(form, source.layout, source.present)
        for table, rows in _tables(source, [SHAPE, *projection.top_columns()]):
            batch = projection.batch(TableColumns(table))
            yield (
                batch
                if not form.is_numbered
                else batch.set_column(len(batch.schema) - 1, ROW, row_numbers(source, rows))
            )


def row_numbers(source: Source, rows: Rows) -> pa.Array:
    """The column `ROW` for some rows of a source."""
    return pa.array(rows + (source.number << ROW_BITS), pa.int64())


def rows_in_form(form: TableForm, values: Iterable[Value]) -> Iterator[pa.RecordBatch]:
    """Values as rows of a table, in their order."""
    return (batch_in_form(form, run) for run in batches(iter(values)))


def batch_in_form(form: TableForm, run: Batch) -> pa.RecordBatch:
    """Values in columns as rows of a table, in their order."""
    if len(run.parts) == 1 and _is_in_form(form, run.parts[0]):
        return pa.RecordBatch.from_arrays(run.parts[0].column.flatten(), schema=form.schema)
    layout = layout_of(tuple(part.shape for part in run.parts))
    order = np.empty(run.length, np.int64)
    order[np.concatenate([part.rows for part in run.parts])] = np.arange(run.length)
    table = Fuser(layout, [pa.chunked_array([part.column]) for part in run.parts]).table(order)
    return Projection(form, layout).batch(TableColumns(table))


def _is_in_form(form: TableForm, part: Part) -> bool:
    """Whether records have the columns of a table, in its types, as they are."""
    column = part.column
    if not pa.types.is_struct(column.type) or column.null_count or not is_plain(part.shape, form.style):
        return False
    return bool(column.type == pa.struct(list(form.schema)))


def _without(hidden: Rows, tables: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, Rows]]:
    """Neighbouring rows of a file without those that are hidden, with their places."""
    start = 0
    for table in tables:
        low, high = np.searchsorted(hidden, (start, start + table.num_rows))
        kept = np.ones(table.num_rows, bool)
        kept[hidden[low:high] - start] = False
        yield table if low == high else table.filter(pa.array(kept)), np.flatnonzero(kept) + start
        start += table.num_rows


def _tables(source: Source, columns: list[str]) -> Iterator[tuple[pa.Table, Rows]]:
    """The rows of a data object, some at a time, and their places in its file or table."""
    if source.file is None:
        assert source.table is not None
        table = source.table()
        yield table, np.arange(table.num_rows)
        return
    file = source.file()
    try:
        with pq.ParquetFile(file.path, page_checksum_verification=True) as parquet:
            groups = range(parquet.num_row_groups)
            tables = (parquet.read_row_group(group, columns=columns, use_threads=False) for group in groups)
            hidden = np.zeros(0, np.int64) if source.hidden is None else source.hidden()
            yield from unless_changed([file], _without(hidden, tables))
    except (pa.ArrowException, OSError) as e:
        raise damage_to([file]) or StorageFailure(f"{file.name}: {without_paths(str(e), [file])}") from None
