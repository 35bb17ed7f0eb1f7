"""Runs fragments by DuckDB: SQL over the files of data objects, and exact values out of what it returns."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key, partial
from itertools import chain, repeat
from typing import Any

import pyarrow as pa
from sqlglot import exp

from shoal.engines.duckdb.queries import Group, Held, query_batches, text_of
from shoal.engines.duckdb.results import decode_groups, decode_rows, fields_of
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.interp.operators.records import nested_record
from shoal.engines.interp.reshape import FuseState
from shoal.engines.sql.fragments import Begun, Partials, compile_fragment
from shoal.engines.sql.frames import Flat, Frame, ordered_by
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.sql.orders import ITEMS_WHEN_SPLIT
from shoal.engines.sql.reductions import Reduction
from shoal.engines.sql.summaries import ONLY_SHAPE
from shoal.engines.units import Scan, Source
from shoal.formats.columns.layouts import Layout
from shoal.lang import plan
from shoal.lang.aggregates import split_aggregates
from shoal.lang.frames import deep_frames
from shoal.model import types as t
from shoal.model.values import Value

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
        spared: int = 0,
    ) -> None:
        """NotColumnar, if they have no columnar form. Split, it has but some of the rows.

        So many of the last operators as are `spared` are left to the interpreter, whether they have SQL or not.
        """
        self._given = (scan, source, ops, tuple(funcs), tuple(others), is_split, spared)
        self._scan = scan
        self._everything: Held = {}
        self._groups = self._read(scan)
        begun = _begun(source, scan, self._groups)
        joined = [None if found is None else _begun(other, found, self._read(found)) for other, found in others]
        with deep_frames():
            self._fragment = compile_fragment(begun, ops, funcs, joined, is_split, spared)
        self.rest = self._fragment.rest
        """The operators that are left to the interpreter."""
        self.limit = self._fragment.limit
        """How many rows come out at most; None if all."""
        self.is_reduced = self._fragment.is_reduced
        """Whether groups come out, or the first rows."""
        self.is_sorted = self._fragment.is_sorted
        self.sort_items = ITEMS_WHEN_SPLIT * self._fragment.sort_keys
        """How many of the items of `ordered` are what the first rows of split work were sorted by."""
        self.is_backwards = self._fragment.is_backwards
        """Whether it is the last rows that come out."""
        self.aggregation = None if self._fragment.partials is None else self._fragment.partials.op
        """The operator of which partial results come out, if it is one."""
        self.joined = self._fragment.joined
        """Which of the other scans were joined with it, by their places."""
        self.needs_order = self._fragment.partials is not None and self._fragment.partials.is_ordered
        """Whether those depend on the order of rows."""
        self._made: dict[tuple[int, bool], exp.Select] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, self._given  # SQL is compiled again where it arrives

    def _read(self, scan: Scan) -> list[Group]:
        """The groups of sources that queries read for a scan, each with a number of its own."""
        groups = _grouped(scan.sources, len(self._everything))
        self._everything |= {g.number: (g, g.sources) for g in groups}
        return groups

    def run(self, context: Run) -> Iterator[Value]:
        """The values that come out."""
        if self.aggregation is not None:
            _, final = split_aggregates(self.aggregation)
            return run_program(
                plan.Program((plan.DefaultScan(), final)), self.partials(context), Run(memory=context.memory)
            )
        rows = self._rows()
        if self._fragment.fused is not None:
            return self._in_one_type(rows, self._fragment.fused)
        if self.limit is None:
            return rows
        found = first_values(rows, self.limit)
        return reversed(list(found)) if self.is_backwards else found

    @property
    def is_row_wise(self) -> bool:
        """Whether each row comes out by itself: none are counted, sorted or brought together."""
        made = self._fragment
        is_apart = made.partials is None and not made.is_reduced and not made.is_sorted and made.fused is None
        return is_apart and made.is_plain and len(made.rows) == len(self._groups)

    @property
    def layouts(self) -> list[Layout]:
        """Those of the rows that come out."""
        return [flat.layout for _, flat in self._fragment.rows]

    def batches(self) -> Iterator[tuple[pa.RecordBatch, Flat]]:
        """The rows in columns, in no order."""
        for frame, flat in self._fragment.rows:
            for batch in self._query(frame.select(flat.columns())):
                yield batch, flat

    @property
    def directions(self) -> list[bool]:
        """Which of the items of `ordered` descend."""
        return [item.is_descending for frame, _ in self._fragment.rows[:1] for item in frame.order]

    def ordered(self) -> Iterator[tuple[tuple[Any, ...], Value]]:
        """Rows in their order, with what they are ordered by."""
        return self._merged(self._fragment.rows, self._everything)

    def explain(self) -> tuple[str, ...]:
        """The SQL, a text for each query."""
        partials = self._fragment.partials
        if partials is None:
            lies = self._fragment.is_plain and not self.is_backwards
            made = self._as_they_lie if lies else self._in_order
            found = [made(frame, flat) for frame, flat in self._fragment.rows]
            found += [reduction.query for reduction in self._fragment.fused or ()]
            return tuple(text_of(query) for query in found)
        queries = [summary.query for summary in partials.groups]
        queries += [reduction.query for frames in partials.reductions for reduction in frames]
        return tuple(text_of(query) for query in queries)

    def _in_one_type(self, rows: Iterator[Value], types: Sequence[Reduction]) -> Iterator[Value]:
        """Rows in the type that all of them fuse to, which is known before the first one is read."""
        state = FuseState()
        for row in self._reduced(types):
            state.observe(fields_of(row)[0])
        return map(state.convert, rows)

    # ---- groups

    def partials(self, run: Run) -> Iterator[Value]:
        """Partial results of the aggregation."""
        partials = self._fragment.partials
        assert partials is not None
        known = self._from_metadata(partials)
        if known is not None:
            yield from known
        else:
            for summary in partials.groups:
                for batch in self._query(summary.query):
                    yield from decode_groups(batch, summary, partials.plain)
        for kept, found in zip(partials.kept, partials.reductions, strict=True):
            program = plan.Program((plan.DefaultScan(), kept))
            yield from run_program(program, self._reduced(found), Run(memory=run.memory))

    def _reduced(self, found: Sequence[Reduction]) -> Iterator[Value]:
        """The rows that matter to an aggregate, in order if they have one."""
        streams = [_with_order(self._query(r.in_order()), r.flat, len(r.order)) for r in found]
        directions = [item.is_descending for r in found[:1] for item in r.order]
        return (value for _, value in (_merge(streams, directions) if directions else chain.from_iterable(streams)))

    def _from_metadata(self, partials: Partials) -> list[Value] | None:
        """Partial counts by keys that follow from the shapes alone, which the metadata tells."""
        if not partials.is_known or not all(group.is_file for group in self._groups):
            return None
        made: list[Value] = []
        op = partials.plain
        for group, summary in zip(self._groups, partials.groups, strict=True):
            counts = [sum(source.counts[i] for source in group.sources) for i in range(len(group.layout.shapes))]
            for shape, key in (summary.by_shape or {}).items():
                count = sum(counts) if shape == ONLY_SHAPE else counts[shape]
                fields = [(path, field) for (path, _), field in zip(op.keys, fields_of(key), strict=True)]
                made.append(nested_record(fields + [(path, Value(t.UINT64, count)) for path, _ in op.aggs]))
        return made

    # ---- rows

    def _rows(self) -> Iterator[Value]:
        fragment = self._fragment
        if not fragment.is_plain:
            yield from (value for _, value in self.ordered())
            return
        queries = dict(zip((g.number for g in self._groups), fragment.rows, strict=True))
        by_shapes = {(g.layout.shapes, g.is_file): g for g in self._groups}

        def group_of(source: Source) -> Group:
            return by_shapes[source.shapes, source.file is not None]

        runs = self._scan.runs[::-1] if fragment.is_backwards else self._scan.runs
        for sources in _stretches(runs, group_of, is_lazy=fragment.limit is not None):
            held: Held = {}
            for source in sources:
                group = group_of(source)
                held.setdefault(group.number, (group, []))[1].append(source)
            rows = [queries[number] for number in held]
            is_in_order = len(sources) == 1 or (len(held) == 1 and not _overlap(sources, runs))
            if is_in_order and not fragment.is_backwards:
                frame, flat = rows[0]
                for batch in query_batches(self._as_they_lie(frame, flat), held):
                    yield from decode_rows(batch, flat)
            else:
                yield from (value for _, value in self._merged(rows, held))

    def _merged(self, rows: Sequence[tuple[Frame, Flat]], held: Held) -> Iterator[tuple[tuple[Any, ...], Value]]:
        """Rows of several frames in their order."""
        found = [(query_batches(self._in_order(frame, flat), held), flat, len(frame.order)) for frame, flat in rows]
        return _merge([_with_order(*one) for one in found], self.directions)

    def _as_they_lie(self, frame: Frame, flat: Flat) -> exp.Select:
        return self._once(frame, False, lambda: frame.select(flat.columns()))

    def _in_order(self, frame: Frame, flat: Flat) -> exp.Select:
        def make() -> exp.Select:
            return ordered_by(frame.select([*flat.columns(), *frame.order_columns()]), frame.order)

        return self._once(frame, True, make)

    def _once(self, frame: Frame, is_ordered: bool, make: Callable[[], exp.Select]) -> exp.Select:
        """A query that is made when it is first asked for: a fragment may be run again and again."""
        place = (id(frame), is_ordered)
        if place not in self._made:
            self._made[place] = self._limited(make())
        return self._made[place]

    def _limited(self, query: exp.Select) -> exp.Select:
        return query if self.limit is None else query.limit(self.limit, copy=False)

    def _query(self, query: exp.Select) -> Iterator[pa.RecordBatch]:
        return query_batches(query, self._everything)


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


def _begun(source: plan.PoolScan, scan: Scan, groups: Sequence[Group]) -> Begun:
    needs_merge = any(len(run) > 1 for run in scan.runs)
    key = plan.SortKey(plan.This(scan.key), "desc" if scan.is_descending else "asc") if needs_merge else None
    return Begun(source, [group.frame for group in groups], key)


def _grouped(sources: Sequence[Source], first: int) -> list[Group]:
    held: dict[tuple[tuple[t.Type, ...], bool], list[Source]] = {}
    for source in sources:
        held.setdefault((source.shapes, source.file is not None), []).append(source)
    return [Group(number, same) for number, same in enumerate(held.values(), first)]


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
