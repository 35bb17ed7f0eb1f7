"""What tasks of Spark do for a table: they read data objects and give rows in its form. A task can be pickled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines.duckdb.queries import use_threads
from shoal.engines.duckdb.results import FlatColumns, decode_rows
from shoal.engines.duckdb.runner import Compiled
from shoal.engines.file_damage import damage_to, unless_changed, without_paths
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.physical import Scan, Source
from shoal.engines.tables.forms import Projection, TableForm
from shoal.errors import StorageFailure
from shoal.formats.columns.batches import batches
from shoal.formats.columns.fusion import Fuser, TableColumns
from shoal.formats.columns.layouts import SHAPE, layout_of
from shoal.lang import plan
from shoal.model.values import Value


class Task(Protocol):
    """A share of a table."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows in the form of the table."""


@dataclass(frozen=True, slots=True)
class ReadObjects:
    """Data objects as they are."""

    form: TableForm
    sources: tuple[Source, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for source in self.sources:
            projection = Projection(self.form, source.layout)
            for table in _tables(source, [SHAPE, *projection.top_columns()]):
                yield projection.batch(TableColumns(table))


@dataclass(frozen=True, slots=True)
class RunFragment:
    """Data objects and the operators after them, each of which takes rows one by one."""

    form: TableForm
    scan: Scan
    source: plan.PoolScan
    ops: plan.Seq
    funcs: tuple[plan.Func, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        use_threads(1)
        compiled = Compiled(self.scan, self.source, self.ops, self.funcs)
        if compiled.rest:
            rows = (value for batch, flat in compiled.batches() for value in decode_rows(batch, flat))
            program = plan.Program((plan.DefaultScan(), *compiled.rest), self.funcs)
            yield from rows_in_form(self.form, run_program(program, rows, Run()))
            return
        for batch, flat in compiled.batches():
            if batch.num_rows:
                yield Projection(self.form, flat.layout).batch(FlatColumns(batch, flat))


def _tables(source: Source, columns: list[str]) -> Iterator[pa.Table]:
    """The rows of a data object, some at a time."""
    if source.file is None:
        assert source.table is not None
        yield source.table()
        return
    file = source.file()
    try:
        with pq.ParquetFile(file.path, page_checksum_verification=True) as parquet:
            groups = range(parquet.num_row_groups)
            tables = (parquet.read_row_group(group, columns=columns, use_threads=False) for group in groups)
            yield from unless_changed([file], tables)
    except (pa.ArrowException, OSError) as e:
        raise damage_to([file]) or StorageFailure(f"{file.name}: {without_paths(str(e), [file])}") from None


def rows_in_form(form: TableForm, values: Iterable[Value]) -> Iterator[pa.RecordBatch]:
    """Values as rows of a table, in no order."""
    for run in batches(iter(values)):
        layout = layout_of(tuple(part.shape for part in run.parts))
        table = Fuser(layout, [pa.chunked_array([part.column]) for part in run.parts]).everything()
        yield Projection(form, layout).batch(TableColumns(table))
