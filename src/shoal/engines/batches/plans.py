"""The physical plan over batches: the filters after a scan, and the aggregation that may follow them.

A batch is aggregated, or filtered, by the first of three ways that suits it: by its distinct rows and with numpy, by
DuckDB, or by the interpreter, value by value. All make the same rows or partial results of it, so that each batch may
go its own way. Input that comes value by value needs none of the libraries, and loads none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Env, Run
from shoal.engines.interp.operators.compiler import Compiler
from shoal.engines.physical import Unsuited
from shoal.lang import plan
from shoal.lang.aggregates import split_aggregates
from shoal.lang.recursion import deep_frames
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.engines.batches import filters, groups, runs
    from shoal.engines.duckdb import batches as sql_batches
    from shoal.formats.columns.batches import Batch, Piece
else:
    filters = lazy("shoal.engines.batches.filters")
    groups = lazy("shoal.engines.batches.groups")
    runs = lazy("shoal.engines.batches.runs")
    sql_batches = lazy("shoal.engines.duckdb.batches")

Way = Literal["columns", "sql"]
WAYS: tuple[Way, ...] = ("columns", "sql")
Fields = tuple[plan.Path, ...] | None
Open = Callable[[Fields], Iterator["Piece"]]
"""Opens the input, given the fields that are used; None is all of them."""


@frozen
class Stage:
    """What is done with the values of a scan."""

    filters: tuple[plan.Filter, ...]
    summarize: plan.Summarize | None
    """The aggregation of what the filters keep; without one, that comes out."""
    fields: Fields
    """Those that filters and aggregation look at; None if that is all, or if values come out."""
    funcs: tuple[plan.Func, ...]

    @property
    def partly(self) -> plan.Program:
        """The program that does it for some of the values: an aggregation gives partial results."""
        ops: plan.Seq = self.filters if self.summarize is None else (*self.filters, split_aggregates(self.summarize)[0])
        return plan.Program((plan.DefaultScan(), *ops), self.funcs)


class BatchPlan:
    """A stage over an input."""

    def __init__(self, stage: Stage, open_input: Open, ways: Sequence[Way] = WAYS) -> None:
        """`ways` are tried in their order; what none of them suits, the interpreter does."""
        self._stage = stage
        self._open = open_input
        self._ways = ways

    def run(self, context: Run) -> Iterator[Value]:
        """The values that come out."""
        results = _Steps(self._stage, self._ways, context).results(self._open(self._stage.fields))
        if self._stage.summarize is None:
            return results
        final = plan.Program((plan.DefaultScan(), split_aggregates(self._stage.summarize)[1]))
        return run_program(final, results, Run(memory=context.memory))


class _Steps:
    """One run of a stage."""

    def __init__(self, stage: Stage, ways: Sequence[Way], context: Run) -> None:
        self._stage, self._context = stage, context
        named: dict[Way, Callable[[Batch], Iterator[Value]]] = {"columns": self._in_columns, "sql": self._in_sql}
        self._ways = [*(named[way] for way in ways), self._interpreted]
        """How batches are dealt with. The first one is left out once it does not suit one of them."""
        self._columns: _Columns | None = None
        self._sql: sql_batches.BatchFragment | None = None

    def results(self, pieces: Iterable[Piece]) -> Iterator[Value]:
        """What comes out of the pieces of an input."""
        stop = self._context.stop
        filled = (piece for piece in stop.checked(pieces) if isinstance(piece, Value) or piece.length)
        for are_values, run in groupby(filled, lambda piece: isinstance(piece, Value)):
            some: Any = run
            if are_values:
                yield from self._values(some)
            else:
                for batch in runs.gathered(some, self._stage.fields):
                    yield from self._batch(batch)

    def _values(self, values: Iterator[Value]) -> Iterator[Value]:
        return run_program(self._stage.partly, values, Run(memory=self._context.memory))

    def _batch(self, batch: Batch) -> Iterator[Value]:
        while True:
            results = self._tried(batch)
            if results is not None:
                return results

    def _tried(self, batch: Batch) -> Iterator[Value] | None:
        """The results for a batch; None if another way has to be tried."""
        try:
            return self._ways[0](batch)
        except Unsuited:
            self._ways.pop(0)
            return None

    def _in_columns(self, batch: Batch) -> Iterator[Value]:
        if self._columns is None:
            self._columns = _Columns(self._stage, self._context)
        return iter(self._columns.results(batch))

    def _in_sql(self, batch: Batch) -> Iterator[Value]:
        if self._sql is None:
            self._sql = sql_batches.BatchFragment(self._stage.partly)
        return self._sql.results(batch, self._context)

    def _interpreted(self, batch: Batch) -> Iterator[Value]:
        return self._values(batch.values())


class _Columns:
    """A stage by distinct rows and with numpy."""

    def __init__(self, stage: Stage, context: Run) -> None:
        with deep_frames():
            compiler, env = Compiler(stage.partly), Env(context)
            self._filter = filters.Filter([op.expr for op in stage.filters], compiler, env)
            self._grouping = None if stage.summarize is None else groups.Grouping(stage.summarize, compiler, env)

    def results(self, batch: Batch) -> list[Value]:
        """Rows or partial results, in the order of the rows."""
        placed: list[tuple[int, Value]] = []
        for part in batch.parts:
            rows = self._filter.rows(part)
            placed += runs.placed(part, rows) if self._grouping is None else self._grouping.partials(part, rows)
        return [value for _, value in sorted(placed, key=lambda pair: pair[0])]
