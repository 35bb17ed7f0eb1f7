"""Reads a branch as a stream of Spark: `spark.readStream.format("shoal").option("lake", uri).load("pool")`.

    lake       where the lake is
    path       the pool, or pool@branch; `load` gives it
    from       `earliest`, all records and then what is added; `latest`; or a commit or tag to begin after
    limit      about how many records a batch has at most; a commit is never divided
    deletes    `error`, or `ignore`: pass over commits that delete records
    times      `microseconds`, which are timestamps, or `integers`, of nanoseconds
    tasks      how many there are at most

Without a schema the columns are those of the branch when the query starts, and records that do not fit into them stop
the query. With one, fields that it does not name are left out. Importing this module imports pyspark.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from shoal.api.commitish import parse_head
from shoal.engines.duckdb.queries import connection
from shoal.engines.physical import Source
from shoal.engines.spark.jobs import TASKS_PER_CORE
from shoal.engines.spark.table_tasks import Task
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.object_rows import rows_of
from shoal.errors import InvalidInput, Unsupported
from shoal.ids import Id, to_text
from shoal.lake.lake import open_at
from shoal.lake.pools import Pool
from shoal.model import types as t
from shoal.planner.scan_units import PoolTable, stored_sources, with_shapes
from shoal.planner.spark_plan import plan_sources, style_of
from shoal.planner.stream_changes import Added, BranchChanges, Offset, deletion_error


@dataclass(frozen=True)
class StreamOptions:
    """What a stream is to read."""

    lake: str
    pool: str
    branch: str
    begin: str
    limit: int | None
    skips_deletes: bool
    times: str
    tasks: int

    @staticmethod
    def parse(options: Mapping[str, str]) -> StreamOptions:
        """From the options of a source."""
        way = 'spark.readStream.format("shoal").option("lake", uri).load("pool")'
        for name in ("lake", "path"):
            if not options.get(name):
                raise InvalidInput(f"the source shoal has no option {name} (such as {way})")
        if "query" in options:
            raise Unsupported("a stream has no option query (use select and where of the DataFrame)")
        deletes = options.get("deletes", "error")
        if deletes not in ("error", "ignore"):
            raise InvalidInput(f"deletes: {deletes!r} is not one of error, ignore")
        pool, branch = parse_head(options["path"])
        tasks = int(options.get("tasks", TASKS_PER_CORE * (os.cpu_count() or 1)))
        limit = _limit(options["limit"]) if "limit" in options else None
        times = options.get("times", "microseconds")
        begin = options.get("from", "earliest")
        branch = options.get("at") or branch
        return StreamOptions(options["lake"], pool, branch, begin, limit, deletes == "ignore", times, tasks)


def _limit(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise InvalidInput(f"limit: {text!r} is not a number of records above 0")
    return int(text)


class ShoalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads a branch. One lives on the driver as long as the query; others are copied to tasks, for `read`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, pinned: Id | None, is_explicit: bool) -> None:
        self._options = StreamOptions.parse(options)
        self._schema, self._pinned, self._is_explicit = schema, pinned, is_explicit
        self._target: tuple[Id | None] | None = None
        """The last commit to read, if the query ends there."""

    @cached_property
    def _pool(self) -> Pool:
        return open_at(self._options.lake).pool(self._options.pool)

    @cached_property
    def _changes(self) -> BranchChanges:
        return BranchChanges(self._pool, self._options.branch, self._options.skips_deletes)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name for it
        """Where a new query begins."""
        match self._options.begin:
            case "earliest":
                return Offset().to_json()
            case "latest":
                commit = self._changes.tip()
            case commitish:
                commit = self._pool.resolve(commitish)
        return Offset(commit, commit).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the option `limit` says."""
        return ReadAllAvailable() if self._options.limit is None else ReadMaxRows(self._options.limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends."""
        target = self._changes.tip() if self._target is None else self._target[0]
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._changes.next_offset(Offset.from_json(start), target, most).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to here and end."""
        self._target = (self._changes.tip(),)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        parts = self._changes.between(Offset.from_json(start), Offset.from_json(end))
        return [InputPartition(pickle.dumps(task)) for task in self._tasks(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for batch in pickle.loads(partition.value).batches():  # noqa: S301 - from our planning
            yield fitted(batch, schema)

    def _tasks(self, parts: Sequence[Added]) -> Iterator[Task]:
        shapes = dict.fromkeys(shape for part in parts for shape in self._shapes(part))
        if not self._is_explicit:
            base = PoolTable(self._pool, self._pinned, style_of(self._options.times)).form.shapes
            for part in parts:
                self._require_columns(base, part)
            shapes = dict.fromkeys((*base, *shapes))
        everything = TableForm(tuple(shapes), style_of(self._options.times))
        names = frozenset(name.lower() for name in self._schema.names)
        form = everything.for_statement(names, names)
        plain = [source for part in parts if not part.removed for source in self._sources(part.objects)]
        yield from plan_sources(form, plain, self._options.tasks).tasks if plain else ()
        for part in parts:
            if part.removed:
                new, known, old = (tuple(self._sources(side)) for side in (part.objects, part.known, part.removed))
                yield ReadAdded(form, part.commit, new, known, old, not self._options.skips_deletes)

    def _sources(self, objects: Sequence[Any]) -> list[Source]:
        return stored_sources(self._pool, objects, None)

    def _shapes(self, part: Added) -> Iterator[t.Type]:
        for o in with_shapes(self._pool, (*part.objects, *part.known, *part.removed)):
            yield from (shape for shape, _ in o.shapes or ())

    def _require_columns(self, base: tuple[t.Type, ...], part: Added) -> None:
        """InvalidInput if records do not fit into the columns that the query has."""
        shapes = tuple(dict.fromkeys((*base, *self._shapes(part))))
        fields = from_arrow_schema(TableForm(shapes, style_of(self._options.times)).schema)
        columns = {field.name: field.dataType for field in self._schema}
        for field in fields:
            if columns.get(field.name) != field.dataType:
                was = columns.get(field.name)
                what = "which is not a column" if was is None else f"which is {was.simpleString()}"
                raise InvalidInput(
                    f"commit {to_text(part.commit)} has field {field.name} as {field.dataType.simpleString()}, {what} "
                    "of this stream (start the query again, or name the columns wanted with .schema(...))"
                )


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with the columns of a schema; those that are missing are null."""
    columns = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        try:
            column = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index).cast(field.type)
        except pa.ArrowException as e:
            raise InvalidInput(f"column {field.name} of the schema does not fit: {str(e).splitlines()[0]}") from None
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class ReadAdded:
    """The records of objects that are not in those which they replace."""

    form: TableForm
    commit: Id
    objects: tuple[Source, ...]
    known: tuple[Source, ...]
    removed: tuple[Source, ...]
    is_strict: bool
    """Whether it is an error if a record has gone."""

    @property
    def size(self) -> float:
        """Bytes that it reads."""
        return sum(source.size for source in (*self.objects, *self.known, *self.removed))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows in the form of the table. Records are compared in all their columns."""
        whole = TableForm(self.form.shapes, self.form.style)
        database = connection()
        sides = {"added": self.objects, "known": self.known, "removed": self.removed}
        for name, sources in sides.items():
            rows = pa.Table.from_batches(rows_of(whole, sources), whole.schema)
            database.register(name, rows)
        if self.is_strict and self._is_any(database, "from removed except all from added"):
            raise deletion_error(self.commit)
        rest = "from added except all (from removed except all from known)"
        if self._is_any(database, rest):
            rows = database.sql(rest).to_arrow_table().cast(whole.schema)
            names = [name for name in self.form.schema.names if name in rows.column_names]
            yield from rows.select(names).combine_chunks().to_batches()

    @staticmethod
    def _is_any(database: Any, query: str) -> bool:
        return bool(database.execute(f"{query} limit 1").fetchall())
