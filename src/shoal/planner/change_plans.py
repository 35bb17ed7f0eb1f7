"""Plans of SQL statements that change a pool: which rows go, and which records come in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from shoal.access.view import Pools, policy_of
from shoal.engines.tables.assignment import (
    Mask,
    Setting,
    as_batch,
    natural_parts,
    records_with,
    taken,
    unchanged,
    with_fields,
)
from shoal.engines.tables.change_statements import CLAUSE, THERE, Action, ChangeStatement, Clause
from shoal.engines.tables.forms import ROW, ROW_BITS, TableForm
from shoal.engines.tables.plain import DUCKDB
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Batch, Part, Rows, in_batches
from shoal.formats.columns.layouts import VALUE
from shoal.formats.columns.parts import merged, moved, rows_by_code
from shoal.ids import Id
from shoal.lake import column_form
from shoal.lake.masks import hidden_rows
from shoal.lake.objects import DataObject, Form
from shoal.lake.pools import Pool
from shoal.lake.row_masking import only
from shoal.lake.scans import read_pieces
from shoal.planner.reach import require_lake
from shoal.planner.scan_units import PoolTable
from shoal.planner.statement_plans import Reading, StatementPlan, plan_once

CHUNK_ROWS, CHUNK_SIZE = 100_000, 64 << 20
"""Rows, or bytes, of an answer that are dealt with at a time."""
_FIXED = 2
"""Columns of the answer of a MERGE before those of its clauses: the number of the row, and that of the clause."""


def insert_batches(
    lake: Pools, change: ChangeStatement, pool: Pool | None, commit: Id | None, reading: Reading
) -> Iterator[Batch]:
    """The records of an INSERT, or of CREATE TABLE, which has no pool yet. An invalid statement fails here."""
    form = TableForm((), DUCKDB) if pool is None else PoolTable(pool, commit, DUCKDB).form
    for rows in _answers(lake, plan_once(lake, change.query, reading)):
        names = _field_names(change, form, rows.schema.names)
        if rows.num_rows:
            settings = [(form.path_of((name,)), natural_parts(rows.column(i))) for i, name in enumerate(names)]
            yield as_batch(records_with(_in_order(form, settings), rows.num_rows, form.types_at), rows.num_rows)


def plan_rows(lake: Pools, change: ChangeStatement, pool: Pool, reading: Reading) -> RowChanges:
    """What an UPDATE, DELETE or MERGE changes in a pool, at the commit that it is taken for."""
    plan = plan_once(lake, change.query, reading)
    assert change.target_index is not None
    form = plan.tables[change.target_index][0]
    return RowChanges(change, pool, form, plan.numbered, _answers(lake, plan))


def _answers(lake: Pools, plan: StatementPlan) -> Iterator[pa.RecordBatch]:
    if plan.engine == "spark":
        require_lake(lake.store.uri)
    return plan.run(is_trusted=policy_of(lake) is None)


# ---- INSERT


def _field_names(change: ChangeStatement, form: TableForm, names: Sequence[str]) -> Sequence[str]:
    """The fields that the columns of a query are for."""
    table = [name for name in form.schema.names if form.column_at((name,)) is not None]
    if change.names is not None:
        if len(change.names) != len(names):
            raise InvalidInput(f"sql: {len(change.names)} fields are named, and each row has {len(names)} values")
        return change.names
    if change.is_values:
        if len(table) != len(names):
            has = f"has {len(table)} columns" if table else "has no columns yet"
            hint = f"name the fields: {change.target} (a, b) values ..."
            raise InvalidInput(f"sql: VALUES has {len(names)} values, and {change.target} {has} ({hint})")
        names = table
    elif not change.by_name and change.verb == "insert" and table and not _is_same(names, table):
        hint = (
            f"name them, as in {change.target} (a, b) select ...; or match them by name: {change.target} by name select"
        )
        raise InvalidInput(f"sql: the query has other columns than {change.target} ({hint} ...)")
    again = next((name for i, name in enumerate(names) if name.lower() in {n.lower() for n in names[:i]}), None)
    if again is not None:
        raise InvalidInput(f"sql: two columns are called {again} (name one of them: {again} as other)")
    if VALUE in names:
        raise InvalidInput(f"sql: {VALUE} has values that are not records, which SQL does not insert (shoal load does)")
    return names


def _is_same(names: Sequence[str], others: Sequence[str]) -> bool:
    return [name.lower() for name in names] == [name.lower() for name in others]


def _in_order(form: TableForm, settings: Iterable[Setting]) -> list[Setting]:
    """Fields in the order that they have in the pool, so that equal fields make equal shapes; new ones at the end."""
    places = {name: place for place, name in enumerate(form.field_names)}
    return sorted(settings, key=lambda setting: places.get(setting[0][0], len(places)))


# ---- UPDATE, DELETE, MERGE


class RowChanges:
    """What a statement changes in a pool. Its answer comes in the order of the rows, some at a time."""

    def __init__(
        self,
        change: ChangeStatement,
        pool: Pool,
        form: TableForm,
        objects: Sequence[DataObject],
        answers: Iterator[pa.RecordBatch],
    ) -> None:
        self._change, self._pool, self._form, self._objects, self._answers = change, pool, form, objects, answers
        self._hidden: dict[int, list[Rows]] = {}
        """The rows that go, by the numbers of their objects."""
        self._last = -1
        """The greatest number of a row in what was dealt with before."""
        self.counts: dict[Action, int] = {"insert": 0, "update": 0, "delete": 0}

    def added(self) -> Iterator[Batch]:
        """The records that come; all of them have to be taken before `hidden` is complete."""
        for table in _gathered(self._answers):
            numbers = table.column(ROW).drop_null().to_numpy()
            self._require_once(numbers)
            for clause, part in self._by_clause(table):
                if part.num_rows:
                    yield from self._apply(clause, part)
            self._last = int(numbers[-1]) if len(numbers) else self._last

    @property
    def hidden(self) -> Iterator[tuple[DataObject, Rows]]:
        """The rows that go, by their numbers: those that are deleted, and those that are replaced."""
        return ((self._objects[number], np.sort(np.concatenate(rows))) for number, rows in self._hidden.items())

    def _by_clause(self, table: pa.Table) -> Iterator[tuple[Clause, pa.Table]]:
        clauses = self._change.clauses
        if CLAUSE not in table.schema.names[:_FIXED]:
            yield clauses[0], table
            return
        numbers = table.column(1).to_numpy()
        for i, clause in enumerate(clauses):
            yield clause, table.filter(pa.array(numbers == i))

    def _require_once(self, numbers: Rows) -> None:
        """InvalidInput if a row of the target stands in the answer more than once: equal numbers are neighbours."""
        again = np.count_nonzero(np.diff(numbers, prepend=self._last) == 0)
        if again and self._change.verb != "delete":
            noun = "record matches" if again == 1 else "records match"
            raise InvalidInput(
                f"sql: {self._change.verb.upper()}: {again} {noun} several rows of the source, so what they become is "
                "open (make the source distinct)"
            )

    def _apply(self, clause: Clause, part: pa.Table) -> Iterator[Batch]:
        if clause.action == "insert":
            self.counts["insert"] += part.num_rows
            settings = _in_order(self._form, self._settings(clause, part))
            yield as_batch(records_with(settings, part.num_rows, self._form.types_at), part.num_rows)
            return
        numbers = part.column(ROW).to_numpy()
        if clause.action == "update":
            yield from self._updated(numbers, clause, part)
        numbers = np.unique(numbers)
        numbers = numbers[numbers != self._last]  # a deletion may find a row again
        self.counts[clause.action] += len(numbers)
        for number, places in _by_object(numbers):
            self._hidden.setdefault(number, []).append(self._physical(number, places))

    def _settings(self, clause: Clause, table: pa.Table) -> list[Setting]:
        return [(self._form.path_of(names), natural_parts(column)) for names, column in self._columns(clause, table)]

    def _columns(self, clause: Clause, table: pa.Table) -> list[tuple[tuple[str, ...], pa.Array]]:
        """The fields that get values, by their names in SQL, and the values."""
        if not clause.takes_all:
            pairs = [(path, table.column(name)) for path, name in zip(clause.fields, clause.columns, strict=True)]
        else:
            first = _FIXED + sum(len(each.columns) for each in self._change.clauses)
            names = table.schema.names[first:]
            pairs = [((name,), table.column(i)) for i, name in enumerate(names, first) if name != THERE]
        return [(names, column.combine_chunks()) for names, column in pairs]

    def _updated(self, numbers: Rows, clause: Clause, table: pa.Table) -> Iterator[Batch]:
        """The records of some rows with new values, object by object. A value that stays as SQL shows it is not set."""
        columns = self._columns(clause, table)
        settings = [(self._form.path_of(names), natural_parts(column)) for names, column in columns]
        start = 0
        for number, places in _by_object(numbers):
            o = only(self._pool, self._objects[number], self._physical(number, places))
            for batch in in_batches(read_pieces(self._pool.store, self._pool.prefix, self._pool.config.key, o)):
                mine = np.arange(start, start + batch.length)
                own = [(path, _rows_of(values, mine)) for path, values in settings]
                new = [(names, column.slice(start, batch.length)) for names, column in columns]
                yield self._set(batch, own, unchanged(self._form, batch, new))
                start += batch.length

    def _set(self, batch: Batch, settings: Sequence[Setting], same: Sequence[Mask]) -> Batch:
        """Records with fields set, each where its value is another one."""
        codes = np.zeros(batch.length, np.int64)
        for i, mask in enumerate(same):
            codes |= mask.astype(np.int64) << i
        out: list[Part] = []
        for code, rows in rows_by_code(codes):
            parts = taken(batch.parts, rows, batch.length)
            own = [(path, taken(v, rows, batch.length)) for i, (path, v) in enumerate(settings) if not code >> i & 1]
            out += moved(with_fields(parts, own, len(rows), self._form.types_at) if own else parts, rows)
        return as_batch(merged(out), batch.length)

    def _physical(self, number: int, places: Rows) -> Rows:
        """The numbers of rows in an object, given their places among those that its source has."""
        o = self._objects[number]
        has_file = o.external is None and o.form is Form.COLUMNS and column_form.has_files(self._pool.store)
        if o.mask is None or has_file:
            return places
        hidden = hidden_rows(self._pool.store, self._pool.prefix, o)
        return np.setdiff1d(np.arange(o.rows), hidden)[places]


def _gathered(answers: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Neighbouring batches together: for each of them the objects of its rows are read."""
    batches: list[pa.RecordBatch] = []
    for batch in answers:
        batches.append(batch)
        if sum(each.num_rows for each in batches) >= CHUNK_ROWS or sum(each.nbytes for each in batches) >= CHUNK_SIZE:
            yield pa.Table.from_batches(batches).combine_chunks()
            batches = []
    if batches:
        yield pa.Table.from_batches(batches).combine_chunks()


def _by_object(numbers: Rows) -> Iterator[tuple[int, Rows]]:
    """Ascending numbers of rows as places in objects."""
    owners = numbers >> ROW_BITS
    for owner in np.unique(owners).tolist():
        low, high = np.searchsorted(owners, (owner, owner + 1))
        yield owner, numbers[low:high] & ((1 << ROW_BITS) - 1)


def _rows_of(parts: Sequence[Part], rows: Rows) -> list[Part]:
    """The parts of neighbouring rows, numbered from 0."""
    out = []
    for part in parts:
        low, high = np.searchsorted(part.rows, (rows[0], rows[-1] + 1))
        if low < high:
            out.append(Part(part.shape, part.column.slice(low, high - low), part.rows[low:high] - rows[0]))
    return out
