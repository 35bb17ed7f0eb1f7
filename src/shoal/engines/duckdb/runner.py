"""Runs fragments by DuckDB: SQL over the files of data objects, and exact values out of what it returns."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key, partial
from itertools import chain, islice, repeat
from typing import Any, TypeVar, assert_never

import pyarrow as pa
from sqlglot import exp

from shoal.api.options import Statistics
from shoal.engines.duckdb.queries import Group, Tables, by_kind, query_batches, text_of
from shoal.engines.duckdb.results import FlatColumns, decode_groups, decode_rows, fields_of
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.interp.operators.records import nested_record
from shoal.engines.interp.reshape import FuseState
from shoal.engines.physical import Scan, Source
from shoal.engines.sql.aggregation import ONLY_SHAPE
from shoal.engines.sql.algebra import Fuse, Groups, Last, Limit, RowOrder, Rows
from shoal.engines.sql.fragments import ScanRows, compile_fragment
from shoal.engines.sql.kept_rows import Reduction
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.sql.relations import Flat, Relation, ordered_by
from shoal.formats.columns.batches import Piece, values_of
from shoal.formats.columns.fusion import to_batch
from shoal.lang import plan
from shoal.lang.aggregates import split_aggregates
from shoal.lang.recursion import deep_frames
from shoal.model import types as t
from shoal.model.values import Value

_P = TypeVar("_P")
Scans = Sequence[tuple[plan.PoolScan, Scan | None]]
"""Scans of a program, and what each of them reads; None if that is not known."""


def compile_scan(
    scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func], others: Scans = ()
) -> Compiled | None:
    """A scan and what follows it in SQL; None if there is no columnar form of it. `others` may be joined with it."""
    try:
        return Compiled(scan, source, ops, funcs, others)
    except NotColumnar:
        return None


class Compiled:
    """A scan and the operators after it, as far as they go in SQL."""

    engine = "duckdb"
    joining = "joined by the queries of"

    def __init__(
        self,
        scan: Scan,
        source: plan.PoolScan,
        ops: plan.Seq,
        funcs: Sequence[plan.Func],
        others: Scans = (),
        is_split: bool = False,
        keep_last: int = 0,
    ) -> None:
        """NotColumnar, if they have no columnar form. Split, it is one of several that read a part of the rows.

        The last `keep_last` operators are always left to the interpreter.
        """
        self._args = (scan, source, ops, tuple(funcs), tuple(others), is_split, keep_last)
        self._scan = scan
        self._tables: Tables = {}
        self._groups = self._read(scan)
        rows = _scan_rows(source, scan, self._groups)
        joined = [
            None if other_scan is None else _scan_rows(other, other_scan, self._read(other_scan))
            for other, other_scan in others
        ]
        with deep_frames():
            fragment = compile_fragment(rows, ops, funcs, joined, is_split, keep_last)
        self.output = fragment.output
        """What comes out: rows, or partial results."""
        self.rest = fragment.rest
        """The operators that are left to the interpreter."""
        self.joined = fragment.joined
        """Which of the other scans were joined with it, by their indexes."""
        self.is_reduced = fragment.is_reduced
        """Whether it returns less than it reads: groups, or the first or last rows."""
        self._selects: dict[tuple[int, bool], exp.Select] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, self._args  # SQL is compiled again where it arrives

    def _read(self, scan: Scan) -> list[Group]:
        """The groups of sources that queries read for a scan, each with a number of its own."""
        groups = _grouped(scan.sources, len(self._tables))
        self._tables |= {g.number: (g, g.sources) for g in groups}
        return groups

    def run(self, context: Run) -> Iterator[Value]:
        """The values that come out."""
        opened: list[Source] = []
        values = self._run(context, opened)
        return self._measured(values, opened, context.statistics) if context.measure else values

    def pieces(self, context: Run) -> Iterator[Piece]:
        """What comes out, in columns where rows are read as they are stored."""
        match self.output:
            case Rows() as rows:
                opened: list[Source] = []
                pieces = self._pieces(rows, opened)
                return self._measured(pieces, opened, context.statistics) if context.measure else pieces
        return self.run(context)

    def _run(self, context: Run, opened: list[Source]) -> Iterator[Value]:
        match self.output:
            case Groups(op):
                opened.extend(self._scan.sources)
                _, final = split_aggregates(op)
                program = plan.Program((plan.DefaultScan(), final))
                return run_program(program, self.partials(context), Run(memory=context.memory))
            case Rows() as rows:
                return values_of(self._pieces(rows, opened))
            case Limit(rows, count):
                return islice(values_of(self._pieces(rows, opened, count)), count)
            case Last(rows, count):
                return reversed(list(islice(values_of(self._pieces(rows, opened, count, is_backwards=True)), count)))
            case Fuse(rows, types):
                opened.extend(self._scan.sources)
                return self._fused(rows, types)
        assert_never(self.output)

    def _measured(self, values: Iterator[_P], opened: list[Source], statistics: Statistics) -> Iterator[_P]:
        """The values; after the last one, or when no more are taken, it is counted what was read for them."""
        try:
            yield from values
        except GeneratorExit:
            self._measure(opened, statistics)
            raise
        self._measure(opened, statistics)

    def _measure(self, opened: Sequence[Source], statistics: Statistics) -> None:
        _, source, _, funcs, others, *_ = self._args
        count_scan(statistics, opened, matched_rows(source, opened, funcs))
        for index in self.joined:
            other, scan = others[index]
            assert scan is not None
            count_scan(statistics, scan.sources, matched_rows(other, scan.sources, funcs))

    @property
    def is_row_wise(self) -> bool:
        """Whether each row comes out by itself: none are counted, sorted or brought together."""
        match self.output:
            case Rows(relations, RowOrder.STORED, are_groups=False):
                return len(relations) == len(self._groups)
        return False

    @property
    def relations(self) -> tuple[tuple[Relation, Flat], ...]:
        """The relations of the rows that come out; none if there are groups."""
        match self.output:
            case Rows(relations):
                return relations
            case Limit(rows) | Last(rows) | Fuse(rows):
                return rows.relations
            case Groups():
                return ()
        assert_never(self.output)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, Flat]]:
        """The rows in columns, in no order."""
        for relation, flat in self.relations:
            for batch in self._query(relation.select(flat.columns())):
                yield batch, flat

    @property
    def directions(self) -> list[bool]:
        """Which of the items of `ordered` descend."""
        return _directions(self.relations)

    def ordered(self, limit: int | None = None) -> Iterator[tuple[tuple[Any, ...], Value]]:
        """Rows in their order, with what they are ordered by; each relation gives the first `limit`."""
        return self._merged(self.relations, self._tables, limit)

    def explain(self) -> tuple[str, ...]:
        """The SQL, a text for each query."""
        return tuple(map(text_of, self._queries()))

    def _queries(self) -> Iterator[exp.Select]:
        match self.output:
            case Groups() as groups:
                yield from (summary.query for summary in groups.summaries)
                yield from (reduction.query for relations in groups.reductions for reduction in relations)
            case Rows() as rows:
                yield from self._row_queries(rows)
            case Limit(rows, count):
                yield from self._row_queries(rows, count)
            case Last(rows, count):
                yield from (self._in_order(relation, flat, count) for relation, flat in rows.relations)
            case Fuse(rows, types):
                yield from self._row_queries(rows)
                yield from (reduction.query for reduction in types)
            case _:
                assert_never(self.output)

    def _row_queries(self, rows: Rows, limit: int | None = None) -> Iterator[exp.Select]:
        select = self._as_stored if rows.order is RowOrder.STORED else self._in_order
        return (select(relation, flat, limit) for relation, flat in rows.relations)

    def _fused(self, rows: Rows, types: Sequence[Reduction]) -> Iterator[Value]:
        """Rows in the type that all of them fuse to, which is known before the first one is read."""
        state = FuseState()
        for row in self._reduced(types):
            state.observe(fields_of(row)[0])
        return map(state.convert, values_of(self._pieces(rows, [])))

    # ---- groups

    def partials(self, context: Run) -> Iterator[Value]:
        """Partial results of the aggregation."""
        groups = self.output
        assert isinstance(groups, Groups)
        counted = self._from_metadata(groups)
        if counted is not None:
            yield from counted
        else:
            for summary in groups.summaries:
                for batch in self._query(summary.query):
                    yield from decode_groups(batch, summary, groups.plain)
        for kept, queries in zip(groups.kept, groups.reductions, strict=True):
            program = plan.Program((plan.DefaultScan(), kept))
            yield from run_program(program, self._reduced(queries), Run(memory=context.memory))

    def _reduced(self, reductions: Sequence[Reduction]) -> Iterator[Value]:
        """The rows that matter to an aggregate, in order if they have one."""
        streams = [_with_order(self._query(r.in_order()), r.flat, len(r.order)) for r in reductions]
        directions = [item.is_descending for r in reductions[:1] for item in r.order]
        return (value for _, value in (_merge(streams, directions) if directions else chain.from_iterable(streams)))

    def _from_metadata(self, groups: Groups) -> list[Value] | None:
        """Partial counts by keys that follow from the shapes alone, which the metadata has."""
        if not groups.is_known or not all(group.is_file for group in self._groups):
            return None
        partials: list[Value] = []
        op = groups.plain
        for group, summary in zip(self._groups, groups.summaries, strict=True):
            counts = [sum(source.counts[i] for source in group.sources) for i in range(len(group.layout.shapes))]
            for shape, key in (summary.by_shape or {}).items():
                count = sum(counts) if shape == ONLY_SHAPE else counts[shape]
                fields = [(path, field) for (path, _), field in zip(op.keys, fields_of(key), strict=True)]
                partials.append(nested_record(fields + [(path, Value(t.UINT64, count)) for path, _ in op.aggs]))
        return partials

    # ---- rows

    def _pieces(
        self, rows: Rows, opened: list[Source], limit: int | None = None, is_backwards: bool = False
    ) -> Iterator[Piece]:
        """Rows in their order; each query gives the first `limit`. The sources that are read are added to `opened`."""
        if rows.order is not RowOrder.STORED:
            opened.extend(self._scan.sources)
            yield from (value for _, value in self._merged(rows.relations, self._tables, limit))
            return
        queries = dict(zip((g.number for g in self._groups), rows.relations, strict=True))
        groups = {group.sources[0].kind: group for group in self._groups}

        def group_of(source: Source) -> Group:
            return groups[source.kind]

        runs = self._scan.runs[::-1] if is_backwards else self._scan.runs
        for sources in _sections(runs, group_of, is_lazy=limit is not None):
            opened.extend(sources)
            tables: Tables = {}
            for source in sources:
                group = group_of(source)
                tables.setdefault(group.number, (group, []))[1].append(source)
            relations = [queries[number] for number in tables]
            is_in_order = len(sources) == 1 or (len(tables) == 1 and not _overlap(sources, runs))
            if is_in_order and not is_backwards:
                relation, flat = relations[0]
                for batch in query_batches(self._as_stored(relation, flat, limit), tables):
                    yield to_batch(flat.layout, FlatColumns(batch, flat))
            else:
                yield from (value for _, value in self._merged(relations, tables, limit))

    def _merged(
        self, relations: Sequence[tuple[Relation, Flat]], tables: Tables, limit: int | None
    ) -> Iterator[tuple[tuple[Any, ...], Value]]:
        """Rows of several relations in their order."""
        streams = [
            _with_order(query_batches(self._in_order(relation, flat, limit), tables), flat, len(relation.order))
            for relation, flat in relations
        ]
        return _merge(streams, self.directions)

    def _as_stored(self, relation: Relation, flat: Flat, limit: int | None) -> exp.Select:
        return self._once(relation, False, lambda: _limited(relation.select(flat.columns()), limit))

    def _in_order(self, relation: Relation, flat: Flat, limit: int | None) -> exp.Select:
        def make() -> exp.Select:
            query = ordered_by(relation.select([*flat.columns(), *relation.order_columns()]), relation.order)
            return _limited(query, limit)

        return self._once(relation, True, make)

    def _once(self, relation: Relation, is_ordered: bool, make: Callable[[], exp.Select]) -> exp.Select:
        """A query that is built when it is first needed: a plan may run many times, always with one limit."""
        key = (id(relation), is_ordered)
        if key not in self._selects:
            self._selects[key] = make()
        return self._selects[key]

    def _query(self, query: exp.Select) -> Iterator[pa.RecordBatch]:
        return query_batches(query, self._tables)


def _limited(query: exp.Select, limit: int | None) -> exp.Select:
    return query if limit is None else query.limit(limit, copy=False)


def _directions(relations: Sequence[tuple[Relation, Flat]]) -> list[bool]:
    return [item.is_descending for relation, _ in relations[:1] for item in relation.order]


def _merge(
    streams: list[Iterator[tuple[tuple[Any, ...], Value]]], directions: list[bool]
) -> Iterator[tuple[tuple[Any, ...], Value]]:
    if len(streams) == 1:
        return streams[0]
    rank = cmp_to_key(partial(compare_by, directions))
    return heapq.merge(*streams, key=lambda pair: rank(pair[0]))


def _with_order(batches: Iterator[pa.RecordBatch], flat: Flat, count: int) -> Iterator[tuple[tuple[Any, ...], Value]]:
    for batch in batches:
        columns = [batch.column(f"o{i}").to_pylist() for i in range(count)]
        order = zip(*columns, strict=True) if columns else repeat((), batch.num_rows)
        yield from zip(order, decode_rows(batch, flat), strict=True)


def compare_by(directions: list[bool], a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """The order of two rows by what they are sorted by."""
    for x, y, is_descending in zip(a, b, directions, strict=True):
        if x is None or y is None:
            continue  # an item before this one says that it is null
        if verdict := _compare(x, y):
            return -verdict if is_descending else verdict
    return 0


def _compare(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _scan_rows(source: plan.PoolScan, scan: Scan, groups: Sequence[Group]) -> ScanRows:
    needs_merge = any(len(run) > 1 for run in scan.runs)
    key = plan.SortKey(plan.This(scan.key), "desc" if scan.is_descending else "asc") if needs_merge else None
    return ScanRows(source, [group.relation for group in groups], key)


def _grouped(sources: Sequence[Source], first: int) -> list[Group]:
    return [Group(number, same) for number, same in enumerate(by_kind(sources), first)]


def _overlap(sources: list[Source], runs: Sequence[tuple[Source, ...]]) -> bool:
    indexes = {source.number for source in sources}
    return any(len(run) > 1 and run[0].number in indexes for run in runs)


def _sections(
    runs: Sequence[tuple[Source, ...]], group_of: Callable[[Source], Group], is_lazy: bool
) -> Iterator[list[Source]]:
    """Sources to be read by one query each: runs that overlap, and neighbours of one layout that do not.

    With a limit, sections begin small, since what follows may never be needed.
    """
    section: list[Source] = []
    most = 1 if is_lazy else 1 << 30
    for run in runs:
        is_alone = len(run) == 1
        if section and not (is_alone and group_of(run[0]) is group_of(section[0]) and len(section) < most):
            yield section
            section = []
            most *= 2
        if is_alone:
            section.append(run[0])
        else:
            yield list(run)
    if section:
        yield section


# ---- statistics


def count_scan(statistics: Statistics, read: Sequence[Source], matched: int) -> None:
    """Count data objects that were read, of which some rows meet the filter of the scan.

    Objects count as a whole: the engine does not say which row groups it skipped. Bytes are those of the objects as
    they are stored; those that match are the same share of them as of the rows.
    """
    records, size = sum(each.count for each in read), sum(each.size for each in read)
    statistics.records_read += records
    statistics.bytes_read += size
    statistics.records_matched += matched
    statistics.bytes_matched += size * matched // records if records else 0


def matched_rows(source: plan.PoolScan, read: Sequence[Source], funcs: Sequence[plan.Func]) -> int:
    """How many rows of data objects meet the filter of a scan: a query of its own."""
    if source.filter is None:
        return sum(each.count for each in read)
    count = plan.Summarize((((_COUNT,), plan.Agg("count", None)),), ())
    compiled = Compiled(Scan(tuple((each,) for each in read), ()), source, (count,), funcs)
    values = compiled.run(Run())
    if compiled.rest:
        values = run_program(plan.Program((plan.DefaultScan(), *compiled.rest), tuple(funcs)), values, Run())
    counts = (value.field(_COUNT) for value in values)
    return sum(count.data for count in counts if count is not None)


_COUNT = "count"
