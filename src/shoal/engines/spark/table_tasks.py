"""What tasks of Spark do for a table: they read data objects and give rows in its form. A task can be pickled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from shoal.engines.duckdb.queries import use_threads
from shoal.engines.duckdb.results import FlatColumns, decode_rows
from shoal.engines.duckdb.runner import Compiled
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.physical import Scan, Source
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.object_rows import rows_in_form, rows_of
from shoal.engines.tables.projection import Projection
from shoal.lang import plan


class Task(Protocol):
    """A share of a table."""

    @property
    def form(self) -> TableForm:
        """The form of the table."""

    @property
    def size(self) -> float:
        """Bytes that it reads; infinite if that is not known."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows in the form of the table."""


@dataclass(frozen=True, slots=True)
class ReadObjects:
    """Data objects as they are."""

    form: TableForm
    sources: tuple[Source, ...]

    @property
    def size(self) -> float:
        return sum(source.size for source in self.sources)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return rows_of(self.form, self.sources)


@dataclass(frozen=True, slots=True)
class RunFragment:
    """Data objects and the operators after them, each of which takes rows one by one."""

    form: TableForm
    scan: Scan
    source: plan.PoolScan
    ops: plan.Seq
    funcs: tuple[plan.Func, ...]

    @property
    def size(self) -> float:
        return sum(source.size for source in self.scan.sources)

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
