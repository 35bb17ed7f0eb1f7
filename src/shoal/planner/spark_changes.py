"""Reads the change feed of a branch as a stream of Spark: the option `changes` of the source `shoal`.

    from       `earliest`, all changes; `latest`; or a commit or tag to begin after
    limit      about how many changes a batch has at most; a commit is never divided
    lake, path, at, times, tasks      as for other streams

The columns are change, before, after, commit, author and ts; before and after are records of the columns of the pool.
An offset is the last commit that was read, so a query that starts again at its checkpoint tells each commit once.
Importing this module imports pyspark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.object_rows import batch_in_form
from shoal.engines.tables.plain import Style
from shoal.errors import InvalidInput
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import batch_of
from shoal.ids import Id, parse, to_text
from shoal.lake.actions import Patch, touched
from shoal.lake.change_feed import BEGINNING, Position, chain_of, changes_of, is_moving
from shoal.lake.commits import Commit
from shoal.lake.lake import open_at
from shoal.lake.loaded_records import LoadedRecords
from shoal.lake.pools import Pool
from shoal.lake.record_changes import RecordChange
from shoal.lake.tallies import rows_of
from shoal.model import types as t
from shoal.model.values import Value
from shoal.planner import merge_policies
from shoal.planner.scan_units import PoolTable, with_shapes
from shoal.planner.spark_plan import style_of
from shoal.planner.spark_streams import StreamOptions, fitted

_ROWS = 10_000
"""Changes in one batch of rows."""


def change_schema(table: PoolTable) -> pa.Schema:
    """The columns of the changes up to a commit: of all records that there were."""
    record = pa.struct(list(_form_of(table).schema))
    when = pa.timestamp("us", "UTC") if table.style.times == "microseconds" else pa.int64()
    kinds = {"change": pa.string(), "before": record, "after": record, "commit": pa.string(), "author": pa.string()}
    return pa.schema([*kinds.items(), ("ts", when)])


def _form_of(table: PoolTable) -> TableForm:
    commits = map(table.pool.commits.read, chain_of(table.pool, _first(table.pool), table.commit))
    return TableForm(_shapes_of(table.pool, commits), table.style)


def _first(pool: Pool) -> Position:
    """Where history begins."""
    horizon = pool.refs().horizon
    return BEGINNING if horizon is None else Position(horizon)


def _shapes_of(pool: Pool, commits: Iterator[Commit]) -> tuple[t.Type, ...]:
    """The types of all values that commits bring or take away."""
    objects = {o.id: o for commit in commits if not is_moving(commit) for o in touched(commit.actions)}
    return tuple(dict.fromkeys(shape for o in with_shapes(pool, objects.values()) for shape, _ in o.shapes or ()))


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """The changes of some commits, for a task."""

    pool: Pool
    commits: tuple[Id, ...]
    shapes: tuple[t.Type, ...]
    style: Style

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows with all columns that the changes have."""
        group = merge_policies.group_of(self.pool.config)
        for ident in self.commits:
            commit = self.pool.commits.read(ident)
            loaded = None if group is None else LoadedRecords(self.pool, ident, group)
            changes = changes_of(self.pool, commit, loaded)
            while run := list(islice(changes, _ROWS)):
                yield self._rows(commit, run)

    def _rows(self, commit: Commit, changes: Sequence[RecordChange]) -> pa.RecordBatch:
        kinds = ["insert" if c.before is None else "delete" if c.after is None else "update" for c in changes]
        sides = [self._records([c.before for c in changes]), self._records([c.after for c in changes])]
        count, ts = len(changes), commit.date
        stamp = pa.scalar(ts, pa.int64())
        if self.style.times == "microseconds":
            stamp = pa.scalar(ts // 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
        same = [pa.repeat(value, count) for value in (to_text(commit.id), commit.note.author, stamp)]
        names = ["change", "before", "after", "commit", "author", "ts"]
        return pa.RecordBatch.from_arrays([pa.array(kinds, pa.string()), *sides, *same], names)

    def _records(self, values: Sequence[Value | None]) -> pa.Array:
        """Records as structs of the columns of the pool; null where there is none."""
        present = np.array([value is not None for value in values], bool)
        some = [value for value in values if value is not None]
        form = TableForm(tuple(dict.fromkeys((*self.shapes, *(value.type for value in some)))), self.style)
        typ = pa.struct(list(form.schema))
        if not some:
            return pa.nulls(len(values), typ)
        rows = batch_in_form(form, batch_of(some))
        structs = pa.StructArray.from_arrays(rows.columns, fields=list(form.schema))
        places = np.cumsum(present) - 1
        return kernels.Selection(places, ~present).take(structs)


class ShoalChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads the changes of a branch. One lives on the driver; others are copied to tasks, for `read`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, is_explicit: bool) -> None:
        self._options = StreamOptions.parse(options)
        if self._options.skips_deletes:
            raise InvalidInput("deletes: the changes of a branch have its deletions (leave this option out)")
        self._schema, self._is_explicit = schema, is_explicit
        self._target: tuple[Id | None] | None = None

    @cached_property
    def _pool(self) -> Pool:
        return open_at(self._options.lake).pool(self._options.pool)

    def _tip(self) -> Id | None:
        return self._pool.refs().branch(self._options.branch).commit

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name for it
        """Where a new query begins."""
        match self._options.begin:
            case "earliest":
                return _offset(_first(self._pool).commit)
            case "latest":
                return _offset(self._tip())
            case commitish:
                return _offset(self._pool.resolve(commitish))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the option `limit` says."""
        return ReadAllAvailable() if self._options.limit is None else ReadMaxRows(self._options.limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends."""
        target = self._tip() if self._target is None else self._target[0]
        chain = chain_of(self._pool, _position(start), target)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if not chain:
            return start
        return _offset(chain[-1] if most is None else chain[_fitting(self._pool, chain, most) - 1])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to here and end."""
        self._target = (self._tip(),)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        pool, style = self._pool, style_of(self._options.times)
        commits = [pool.commits.read(i) for i in chain_of(pool, _position(start), _position(end).commit)]
        commits = [commit for commit in commits if not is_moving(commit)]
        shapes = _shapes_of(pool, iter(commits))
        share = max(1, -(-len(commits) // self._options.tasks))
        idents = [commit.id for commit in commits]
        groups = [tuple(idents[i : i + share]) for i in range(0, len(idents), share)]
        return [InputPartition(pickle.dumps(ReadChanges(pool, group, shapes, style))) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for batch in pickle.loads(partition.value).batches():  # noqa: S301 - from our planning
            if not self._is_explicit:
                _require_fields(batch, schema)
            yield fitted(batch, schema)


def _offset(commit: Id | None) -> dict[str, Any]:
    return {"changes": "" if commit is None else to_text(commit)}


def _position(offset: Mapping[str, Any]) -> Position:
    if "changes" not in offset:
        raise InvalidInput("this checkpoint is of a stream without the option changes (start with another one)")
    return Position(parse(offset["changes"]) if offset["changes"] else None)


def _fitting(pool: Pool, chain: Sequence[Id], most: int) -> int:
    """How many commits go into one batch: one, and more as long as their rows are within the limit."""
    total = 0
    for number, ident in enumerate(chain):
        commit = pool.commits.read(ident)
        total += 0 if is_moving(commit) else sum(rows_of(Patch(commit.actions)))
        if number and total > most:
            return number
    return len(chain)


def _require_fields(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """InvalidInput if records have fields that the query has no place for."""
    for name in ("before", "after"):
        if schema.get_field_index(name) < 0:
            continue
        known = {field.name for field in schema.field(name).type}
        new = next((field.name for field in batch.schema.field(name).type if field.name not in known), None)
        if new is not None:
            raise InvalidInput(
                f"field {new} is not a column of this stream (start the query again, or name the columns wanted with "
                ".schema(...))"
            )
