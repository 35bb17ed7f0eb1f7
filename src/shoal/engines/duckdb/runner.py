"""Runs fragments by DuckDB: SQL over the files of data objects, and exact values out of what it returns."""

from __future__ import annotations

import heapq
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cmp_to_key, partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from shoal.engines.duckdb.formulas import Functions
from shoal.engines.duckdb.results import decode_groups, decode_rows, fields_of
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.interp.operators.records import nested_record
from shoal.engines.sql import build
from shoal.engines.sql.formulas import Computed
from shoal.engines.sql.fragments import Fragment, compile_fragment
from shoal.engines.sql.frames import Flat, Frame, scan_frame
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.sql.orders import Item, Order
from shoal.engines.sql.summaries import ONLY_SHAPE
from shoal.engines.units import Scan, Source
from shoal.formats.layouts import layout_of
from shoal.lang import plan
from shoal.lang.frames import deep_frames
from shoal.lang.rules.split_aggregates import split_aggregates
from shoal.model import types as t
from shoal.model.values import Value

_BATCH_ROWS = 8192
_DIALECT = "duckdb"
_lock = threading.Lock()
_database: list[duckdb.DuckDBPyConnection] = []


def connection() -> duckdb.DuckDBPyConnection:
    """A connection to the database of this process, which holds nothing."""
    with _lock:
        if not _database:
            made = duckdb.connect(":memory:")
            made.execute("SET preserve_insertion_order = true")
            # What does not fit into memory would go to a directory where the user stands.
            made.execute("SET GLOBAL temp_directory = ?", [str(Path(gettempdir()) / f"shoal-{os.getpid()}")])
            made.execute("SET GLOBAL parquet_metadata_cache = true")
            made.execute("SET arrow_large_buffer_size = false")
            _database.append(made)
        return _database[0].cursor()


def use_threads(count: int) -> None:
    """How many threads a query may have from here on, in this process."""
    connection().execute(f"SET GLOBAL threads = {count}")


class Group:
    """Sources of the same layout."""

    def __init__(self, number: int, sources: list[Source]) -> None:
        self.number = number
        self.sources = sources
        self.layout = layout_of(sources[0].shapes)
        self.is_file = sources[0].file is not None
        present = sorted({i for source in sources for i in source.present})
        table = exp.to_table(f"t{number}")
        self.frame = scan_frame(table, self.layout, present, with_nulls=not self.is_file)


def compile_scan(scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func]) -> Compiled | None:
    """A scan and what follows it in SQL; None if there is no columnar form of it."""
    try:
        return Compiled(scan, source, ops, funcs)
    except NotColumnar:
        return None


class Compiled:
    """A scan and the operators after it, as far as they go in SQL."""

    def __init__(self, scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func]) -> None:
        """NotColumnar, if they have no columnar form."""
        self._scan = scan
        self._groups = _grouped(scan.sources)
        needs_merge = any(len(run) > 1 for run in scan.runs)
        frames = [group.frame for group in self._groups]
        key = plan.SortKey(plan.This(scan.key), "desc" if scan.is_descending else "asc") if needs_merge else None
        with deep_frames():
            self._fragment = compile_fragment(source, ops, frames, funcs, key)
        self.rest = self._fragment.rest
        """The operators that are left to the interpreter."""
        self.limit = self._fragment.limit
        """How many rows come out at most; None if all."""
        self.is_sorted = self._fragment.is_sorted
        self.aggregation: plan.Summarize | None = None
        """The operator of which groups come out, if it is one."""
        if self._fragment.groups is not None:
            last = ops[len(ops) - len(self.rest) - 1]
            assert isinstance(last, plan.Summarize)
            self.aggregation = last

    def values(self, run: Run) -> Iterator[Value]:
        """What comes out."""
        if self.aggregation is not None:
            return self._summarized(self.aggregation, run)
        rows = self._rows(self._fragment)
        return rows if self.limit is None else first_values(rows, self.limit)

    @property
    def directions(self) -> list[bool]:
        """Which of the items of `ordered` descend."""
        order = self._fragment.order[0] if self._fragment.order else ()
        return [item.is_descending for item in (*order, *_places([]))]

    def ordered(self) -> Iterator[tuple[tuple[Any, ...], Value]]:
        """Sorted rows, with what they are sorted by."""
        assert self._fragment.rows is not None
        streams = [
            self._sorted(group, group.sources, *query, order, self.limit)
            for group, query, order in zip(self._groups, self._fragment.rows, self._fragment.order, strict=True)
        ]
        return _merge(streams, self.directions)

    def explain(self) -> tuple[str, ...]:
        """The SQL, a text for each layout."""
        if self._fragment.groups is not None:
            return tuple(_text(summary.query) for summary in self._fragment.groups)
        assert self._fragment.rows is not None
        return tuple(_text(frame.select(flat.columns())) for frame, flat in self._fragment.rows)

    # ---- groups

    def _summarized(self, op: plan.Summarize, run: Run) -> Iterator[Value]:
        assert self._fragment.groups is not None
        _, final = split_aggregates(op)
        if self._from_metadata(op) is None and len(self._groups) == 1 and self._fragment.groups[0].is_final:
            return self._grouped(op, is_final=True)
        return run_program(plan.Program((plan.DefaultScan(), final)), self.partials(), Run(memory=run.memory))

    def partials(self) -> Iterator[Value]:
        """Partial results of the aggregation."""
        assert self.aggregation is not None
        known = self._from_metadata(self.aggregation)
        return self._grouped(self.aggregation, is_final=False) if known is None else iter(known)

    def _grouped(self, op: plan.Summarize, is_final: bool) -> Iterator[Value]:
        assert self._fragment.groups is not None
        for group, summary in zip(self._groups, self._fragment.groups, strict=True):
            for batch in _query(summary.query, {group.number: (group, group.sources)}):
                yield from decode_groups(batch, summary, op, is_final)

    def _from_metadata(self, op: plan.Summarize) -> list[Value] | None:
        """Partial counts by keys that follow from the shapes alone, which the metadata tells."""
        if any(agg.name != "count" or agg.expr is not None or agg.where is not None for _, agg in op.aggs):
            return None
        assert self._fragment.groups is not None
        made: list[Value] = []
        for group, summary in zip(self._groups, self._fragment.groups, strict=True):
            if not group.is_file or summary.by_shape is None:
                return None
            counts = [sum(source.counts[i] for source in group.sources) for i in range(len(group.layout.shapes))]
            for shape, key in summary.by_shape.items():
                count = sum(counts) if shape == ONLY_SHAPE else counts[shape]
                fields = [(path, field) for (path, _), field in zip(op.keys, fields_of(key), strict=True)]
                made.append(nested_record(fields + [(path, Value(t.UINT64, count)) for path, _ in op.aggs]))
        return made

    # ---- rows

    def _rows(self, fragment: Fragment) -> Iterator[Value]:
        assert fragment.rows is not None
        queries = dict(zip((g.number for g in self._groups), fragment.rows, strict=True))
        orders = dict(zip((g.number for g in self._groups), fragment.order, strict=True)) if fragment.order else {}
        if fragment.is_sorted:
            everything = {g.number: (g, g.sources) for g in self._groups}
            yield from self._merged(everything, queries, orders, fragment.limit)
            return
        by_shapes = {(g.layout.shapes, g.is_file): g for g in self._groups}

        def group_of(source: Source) -> Group:
            return by_shapes[source.shapes, source.file is not None]

        for sources in _stretches(self._scan.runs, group_of, is_lazy=fragment.limit is not None):
            groups: dict[int, tuple[Group, list[Source]]] = {}
            for source in sources:
                group = group_of(source)
                groups.setdefault(group.number, (group, []))[1].append(source)
            if len(sources) == 1 or (len(groups) == 1 and not _overlap(sources, self._scan.runs)):
                ((group, held),) = groups.values()
                frame, flat = queries[group.number]
                yield from self._in_order(frame, flat, group, held, fragment.limit)
            else:
                yield from self._merged(groups, queries, orders, fragment.limit)

    def _in_order(
        self, frame: Frame, flat: Flat, group: Group, sources: list[Source], limit: int | None
    ) -> Iterator[Value]:
        query = frame.select(flat.columns())
        if limit is not None:
            query = query.limit(limit, copy=False)
        for batch in _query(query, {group.number: (group, sources)}):
            yield from decode_rows(batch, flat)

    def _merged(
        self,
        groups: dict[int, tuple[Group, list[Source]]],
        queries: dict[int, tuple[Frame, Flat]],
        orders: dict[int, Order],
        limit: int | None,
    ) -> Iterator[Value]:
        """Sorted rows; equal ones are in the order of the objects and their rows."""
        streams = [
            self._sorted(group, sources, *queries[number], orders[number], limit)
            for number, (group, sources) in groups.items()
        ]
        return (value for _, value in _merge(streams, self.directions))

    def _sorted(
        self, group: Group, sources: list[Source], frame: Frame, flat: Flat, order: Order, limit: int | None
    ) -> Iterator[tuple[tuple[Any, ...], Value]]:
        items = [*order, *_places(sources)]
        query = frame.select([*flat.columns(), *((f"o{i}", item.sql) for i, item in enumerate(items))])
        for i, item in enumerate(items):
            ordered = exp.Ordered(this=build.column(f"o{i}"), desc=item.is_descending, nulls_first=False)
            query = query.order_by(ordered, copy=False)
        if limit is not None:
            query = query.limit(limit, copy=False)
        return _with_order(_query(query, {group.number: (group, sources)}), flat, len(items))


def _merge(
    streams: list[Iterator[tuple[tuple[Any, ...], Value]]], directions: list[bool]
) -> Iterator[tuple[tuple[Any, ...], Value]]:
    if len(streams) == 1:
        return streams[0]
    rank = cmp_to_key(partial(compare_by, directions))
    return heapq.merge(*streams, key=lambda pair: rank(pair[0]))


def _places(sources: list[Source]) -> list[Item]:
    """The numbers of the object and of the row."""
    place = build.call(
        "list_extract",
        exp.Array(expressions=[build.integer(s.place) for s in sources]),
        build.cast(build.binary("+", build.column("file_index"), build.integer(1)), "BIGINT"),
    )
    return [Item(place), Item(build.column("file_row_number"))]


def _with_order(batches: Iterator[pa.RecordBatch], flat: Flat, count: int) -> Iterator[tuple[tuple[Any, ...], Value]]:
    for batch in batches:
        order = zip(*(batch.column(f"o{i}").to_pylist() for i in range(count)), strict=True)
        yield from zip(order, decode_rows(batch, flat), strict=True)


def compare_by(directions: list[bool], a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """The order of two rows by what they are sorted by."""
    for x, y, is_descending in zip(a, b, directions, strict=True):
        if x is None or y is None:
            continue  # an item before this one has told that it is null
        if verdict := _compare(x, y):
            return -verdict if is_descending else verdict
    return 0


def _compare(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def first_values(values: Iterator[Value], count: int) -> Iterator[Value]:
    """So many values."""
    for number, value in enumerate(values):
        if number >= count:
            return
        yield value


def _grouped(sources: Sequence[Source]) -> list[Group]:
    held: dict[tuple[tuple[t.Type, ...], bool], list[Source]] = {}
    for source in sources:
        held.setdefault((source.shapes, source.file is not None), []).append(source)
    return [Group(number, same) for number, same in enumerate(held.values())]


def _overlap(sources: list[Source], runs: Sequence[tuple[Source, ...]]) -> bool:
    held = {source.place for source in sources}
    return any(len(run) > 1 and run[0].place in held for run in runs)


def _stretches(
    runs: Sequence[tuple[Source, ...]], group_of: Callable[[Source], Group], is_lazy: bool
) -> Iterator[list[Source]]:
    """Sources to be read by one query each: runs that overlap, and neighbours of one layout that do not.

    Where only the first rows are wanted, stretches begin small, since what follows may never be needed.
    """
    held: list[Source] = []
    most = 1 if is_lazy else 1 << 30
    for run in runs:
        is_alone = len(run) == 1
        if held and not (is_alone and group_of(run[0]) is group_of(held[0]) and len(held) < most):
            yield held
            held = []
            most *= 2
        if is_alone:
            held.append(run[0])
        else:
            yield list(run)
    if held:
        yield held


# ---- queries


def _text(
    query: exp.Select, tables: Mapping[str, exp.Expr] | None = None, name_of: Callable[[Computed], str] | None = None
) -> str:
    """A query as the engine reads it, once it is known what its tables and formulas are called there."""

    def filled(node: exp.Expr) -> exp.Expr:
        if isinstance(node, Computed):
            return build.call(name_of(node) if name_of else node.name, *node.expressions)
        return tables.get(node.name, node) if tables and isinstance(node, exp.Table) else node

    with deep_frames():
        return query.transform(filled).sql(_DIALECT)


def _query(query: exp.Select, groups: dict[int, tuple[Group, list[Source]]]) -> Iterator[pa.RecordBatch]:
    """The batches that a query gives, as they come."""
    con = connection()
    functions = Functions(con)
    try:
        names = {f"t{number}": _source(con, number, *held) for number, held in groups.items()}

        yield from con.sql(_text(query, names, functions.name)).to_arrow_reader(_BATCH_ROWS)
    except Exception as e:
        raise functions.failure or e from None
    finally:
        functions.drop()
        con.close()


def _source(con: duckdb.DuckDBPyConnection, number: int, group: Group, sources: list[Source]) -> exp.Expr:
    """What stands for a group in a query: its files, or a table that is registered."""
    if group.is_file:
        files = [build.text(source.file()) for source in sources if source.file is not None]
        return exp.Table(this=build.call("read_parquet", exp.Array(expressions=files)))
    con.register(f"t{number}", _table(sources))
    return exp.to_table(f"t{number}")


def _table(sources: list[Source]) -> pa.Table:
    tables = []
    for number, source in enumerate(sources):
        assert source.table is not None
        table = source.table()
        table = table.append_column("file_index", pa.array(np.full(len(table), number, np.int64)))
        tables.append(table.append_column("file_row_number", pa.array(np.arange(len(table), dtype=np.int64))))
    return pa.concat_tables(tables)
