"""The source `shoal` of Spark: `spark.read.format("shoal").option("lake", uri).load("pool")`.

    lake       where the lake is
    path       the pool, or pool@commitish; `load` gives it
    at         a branch, a tag, a commit or a time; `main` unless given (also called `commit`)
    query      a program that tasks run over the pool, such as `where status >= 500 | cut host`
    times      `microseconds`, which are timestamps, or `integers`, of nanoseconds
    tasks      how many there are at most
    prune      `true`: filters of Spark leave out data objects
    plan       all of this, made by the driver beforehand
    changes    `true`: a stream has the changes of a branch (`spark_changes`)

Spark asks for the columns, then for the tasks, each in a process of its own. The first one finds out which commit is
read, and all that follows reads that one. Streams are in `spark_streams` and `spark_stream_writer`.
Importing this module imports pyspark.

Filters are not asked for unless `prune` is set: Spark 4.3 keeps what the tasks of a filtered query are, and gives them
to the next query of the same DataFrame if that has no filter to push, which then misses rows.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from shoal.api.commitish import parse_head
from shoal.engines.spark.jobs import TASKS_PER_CORE
from shoal.engines.tables.statements import Condition, Constant
from shoal.errors import InvalidInput
from shoal.lake.lake import Lake, open_at
from shoal.planner.catalog import LakeCatalog
from shoal.planner.execute import Question, compile_question
from shoal.planner.scan_sources import commit_of
from shoal.planner.scan_units import PoolTable
from shoal.planner.spark_changes import ShoalChangeReader, change_schema
from shoal.planner.spark_plan import SparkPlan, plan_pool, plan_program, style_of
from shoal.planner.spark_stream_writer import ShoalStreamWriter
from shoal.planner.spark_streams import ShoalStreamReader
from shoal.planner.spark_writer import ShoalWriter

_OPS = {
    datasource.EqualTo: "=",
    datasource.EqualNullSafe: "=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
}


class ShoalSource(DataSource):  # type: ignore[misc]
    """A pool, or what a program makes of it."""

    pinned: str | None = None
    """The commit that is read, once it is known."""
    query_plan: str | None = None
    """The plan of a query; planning may have to run the query, so it is done once."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "shoal"

    def schema(self) -> StructType:
        """The columns."""
        if self.tells_changes():
            return from_arrow_schema(change_schema(self._table()))
        plan = self.plan()
        if "query" in self.options:
            self.query_plan = plan.to_text()
        return from_arrow_schema(plan.form.schema)

    def tells_changes(self) -> bool:
        """Whether a stream has the changes of a branch, and not what is added to it."""
        told: str = self.options.get("changes", "false").lower()
        if told not in ("true", "false"):
            raise InvalidInput(f"changes: {told!r} is not one of true, false")
        return told == "true"

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns that are asked for."""
        if self.tells_changes():
            raise InvalidInput("changes: only a stream has them (spark.readStream; or query: from POOL:changes)")
        return (_PruningReader if self.options.get("prune", "").lower() == "true" else _Reader)(self, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer of DataFrames to a pool."""
        return ShoalWriter(dict(self.options), overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name for it
        """A reader of what is added to a branch. Spark asks for the columns first, unless the user gave a schema."""
        pinned = None if self.pinned is None else commit_of(self.pinned)
        if self.tells_changes():
            return ShoalChangeReader(dict(self.options), schema, self.pinned is None)
        return ShoalStreamReader(dict(self.options), schema, pinned, self.pinned is None)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """A writer of streams to a pool."""
        return ShoalStreamWriter(dict(self.options), overwrite)

    def plan(self, conditions: Sequence[Condition] = (), names: frozenset[str] | None = None) -> SparkPlan:
        """What there is to do, for rows that meet conditions; all columns, or some of them."""
        text = self.options.get("plan") or self.query_plan
        if text is not None:
            return SparkPlan.from_text(text)
        count = int(self.options.get("tasks", TASKS_PER_CORE * (os.cpu_count() or 1)))
        query = self.options.get("query")
        if query is not None:
            lake, head = self._place()
            question = Question(query, head)
            style = style_of(self.options.get("times", "microseconds"))
            return plan_program(lake, question, compile_question(lake, question), style, count)
        return plan_pool(self._table(), conditions, names, count)

    def _place(self) -> tuple[Lake, tuple[str, str]]:
        """The lake, and the pool and commitish in it."""
        lake = open_at(self._required("lake"))
        pool, commitish = parse_head(self._required("path"))
        return lake, (pool, self.options.get("at") or self.options.get("commit") or commitish)

    def _table(self) -> PoolTable:
        """The pool at the commit that is read."""
        lake, (name, commitish) = self._place()
        if self.pinned is None:
            catalog = LakeCatalog(lake)
            self.pinned = catalog.commit(catalog.pool(name), commitish)
        style = style_of(self.options.get("times", "microseconds"))
        return PoolTable(lake.pool(name), commit_of(self.pinned), style)

    def _required(self, name: str) -> str:
        option: str | None = self.options.get(name)
        if not option:
            way = 'spark.read.format("shoal").option("lake", uri).load("pool")'
            raise InvalidInput(f"the source shoal has no option {name} (such as {way})")
        return option


class _Reader(DataSourceReader):  # type: ignore[misc]
    """Reads a table."""

    def __init__(self, source: ShoalSource, schema: StructType) -> None:
        self._source = source
        self._schema = schema
        self._conditions: tuple[Condition, ...] = ()

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task."""
        names = self._schema.names
        plan = self._source.plan(self._conditions, frozenset(name.lower() for name in names))
        unknown = sorted(set(names) - set(plan.form.schema.names))
        if unknown:
            raise InvalidInput(f"there is no column {unknown[0]} (without a schema, there are all columns)")
        # Spark goes by pickles of its own; ours hold types, which have to be interned where they arrive.
        return [InputPartition(pickle.dumps(task)) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if partition.value is None:
            return
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for batch in pickle.loads(partition.value).batches():  # noqa: S301 - from our planning
            yield batch.select(schema.names).cast(schema)


class _PruningReader(_Reader):
    """Reads what filters leave of a table."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name for it
        """Filters leave out data objects, not rows: Spark has to apply all of them."""
        self._conditions = tuple(condition for each in filters for condition in _conditions(each))
        return filters


def _conditions(each: Filter) -> Iterator[Condition]:
    op = _OPS.get(type(each))
    if op is not None:
        value = _constant(each.value)
        if value is not None:
            yield Condition(tuple(each.attribute), op, value)
    elif isinstance(each, datasource.In):
        values = [_constant(value) for value in each.value if value is not None]
        constants = tuple(value for value in values if value is not None)
        if constants and len(constants) == len(values):
            yield Condition(tuple(each.attribute), "in", constants)


def _constant(value: Any) -> Constant | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else None
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        return moment.replace(tzinfo=None).isoformat(" ", "microseconds")
    return value if isinstance(value, int | float | str) else None
