"""Runs fragments on Spark: objects are packed into a few tasks a core, each of which runs the SQL of its fragment, in
DuckDB, next to its data. What comes back are rows, or partial results that the driver merges.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cmp_to_key, partial
from itertools import islice, pairwise
from typing import Any, assert_never

from shoal.api.options import Statistics
from shoal.engines.duckdb.queries import use_threads
from shoal.engines.duckdb.runner import Compiled, Scans, compare_by, count_scan, matched_rows
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.physical import Scan, Source
from shoal.engines.spark.exchange import Ranked, SortedRun, sorted_by_tasks, sorted_runs, stage_of
from shoal.engines.spark.jobs import decoded, encoded, run_tasks, task_count
from shoal.engines.spark.joins import JOINING, Joined, Side, by_key, check_join, sorted_by
from shoal.engines.spark.task_operators import NO_TAIL, Tail, before_join, finished, is_for_join, tail_of
from shoal.engines.sql.algebra import Fuse, Groups, Last, Limit, RowOrder, Rows
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.sql.sort_keys import ITEMS_WHEN_SPLIT
from shoal.lang import plan
from shoal.lang.walk import legs_of
from shoal.model.values import Value

MOST_ROWS = 200_000
"""Of a task whose rows are the result: what tasks give at a time is in memory."""


Pack = tuple[tuple[Source, ...], ...]
"""Runs of sources that go to one task."""


def compile_scan(
    scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func], others: Scans = ()
) -> OnSpark | Joined | None:
    """A scan and what follows it on Spark; None if there is no columnar form of it. `others` may be joined with it."""
    try:
        return _in_tasks(partial(OnSpark, scan, source, funcs=funcs), ops, tuple(funcs), others)
    except NotColumnar:
        return None


def _in_tasks(
    begin: Callable[[plan.Seq], OnSpark | Joined], ops: plan.Seq, funcs: tuple[plan.Func, ...], others: Scans
) -> OnSpark | Joined:
    """The part of some operators that tasks run. A join among them is a shuffle, if both sides allow it.

    NotColumnar if tasks can run none of them.
    """
    whole = begin(ops)
    index = _join_index(whole.rest)
    if index is None:
        return whole
    index += len(ops) - len(whole.rest)
    split, op = ops[index], ops[index + 1]
    assert isinstance(split, plan.Fork | plan.Switch)
    assert isinstance(op, plan.Join)

    def side(leg: plan.Seq) -> Side:
        if not leg or not isinstance(leg[0], plan.PoolScan):
            before = tuple(o for o in (*ops[:index], *leg) if not isinstance(o, plan.Pass))
            return Side(_in_tasks(begin, before, funcs, others), ())
        number, scan = next(((i, scan) for i, (source, scan) in enumerate(others) if source == leg[0]), (0, None))
        if scan is None:
            raise NotColumnar("a scan of which the data is not known")
        source = leg[0]
        return Side(_in_tasks(partial(OnSpark, scan, source, funcs=funcs), leg[1:], funcs, others), (number,))

    try:
        sides = tuple(map(side, legs_of(split)))
        check_join(op, sides, funcs)
    except NotColumnar:
        return whole
    return _in_tasks(partial(Joined, op, sides, funcs=funcs), ops[index + 2 :], funcs, others)


def _join_index(ops: plan.Seq) -> int | None:
    """Where the first join is, with the legs before it."""
    joins = (i for i, (a, b) in enumerate(pairwise(ops)) if isinstance(b, plan.Join) and a.traits.splits)
    return next(joins, None)


class OnSpark:
    """A scan and the operators after it, as far as they go in tasks.

    A task runs the fragment in SQL, then what has no SQL but looks at one row at a time, by the interpreter, and then
    its share of what brings rows together: partial aggregates, first rows, sorted rows.
    """

    joined: tuple[int, ...] = ()
    """The other scans that were joined with it: none."""
    engine = "spark"
    joining = JOINING

    def __init__(self, scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func]) -> None:
        """NotColumnar, if they have no columnar form."""
        self._scan, self._source, self._funcs = scan, source, tuple(funcs)
        self._ops = _for_tasks(ops)
        self._whole = Compiled(scan, source, self._ops, funcs, is_split=True)
        rest = self._whole.rest
        # A filter may be done in part, and it does no harm to apply that part twice.
        self._keep_last = len(rest) - (bool(rest) and isinstance(rest[0], plan.Filter))
        left = (*rest, *ops[len(self._ops) :])
        self._tail = tail_of(left, self._funcs) if self._has_all_rows else NO_TAIL
        self.rest = left[self._tail.length :]
        """The operators that are left to the interpreter of the driver."""
        self.is_reduced = self._whole.is_reduced or self._tail.is_reduced
        """Whether it returns less than it reads: groups, or the first or last rows."""

    @property
    def _has_all_rows(self) -> bool:
        """Whether the fragments of the tasks return all rows, in the order of the pool."""
        match self._whole.output:
            case Rows(order=order):
                return order is not RowOrder.SORTED
        return False

    def explain(self) -> tuple[str, ...]:
        """The SQL of the fragments, a text for each layout."""
        return self._whole.explain()

    def run(self, context: Run) -> Iterator[Value]:
        """The values that come out."""
        if context.measure:
            self.measure(context.statistics)
        match self._whole.output:
            case Groups(op) as groups:
                packs = self._stretches() if groups.is_ordered else self._any_packs()
                tasks = [PartialGroups(work) for work in self._work(packs)]
                partials = _decoded(run_tasks(_run, tasks, at_once=not groups.is_ordered))
                return finished(op, partials, self._funcs, context)
            case Limit(rows) as first if rows.order is RowOrder.SORTED:
                return self._first_sorted(first)
            case Limit(_, count):
                return islice(self._rows(), count)
            case Last(_, count):
                return iter(deque(self._rows(), maxlen=count))
            case Rows():
                return self._with_tail(context)
            case Fuse():
                raise AssertionError("tasks do not fuse rows: `_for_tasks` ends before it")
        assert_never(self._whole.output)

    def measure(self, statistics: Statistics) -> None:
        """Count all that tasks read; with a filter, by tasks that count what meets it."""
        matched = sum(source.count for source in self._scan.sources)
        if self._source.filter is not None:
            packs = (tuple(source for run in pack for source in run) for pack in self._any_packs())
            tasks = [CountRows(self._source, pack, self._funcs) for pack in packs]
            matched = sum(run_tasks(_run, tasks, at_once=True))
        count_scan(statistics, self._scan.sources, matched)

    def _with_tail(self, context: Run) -> Iterator[Value]:
        """All rows, after what tasks do with them by the interpreter."""
        last = self._tail.last
        if isinstance(last, plan.Sort):
            order = Ranked(last, self._funcs)
            return sorted_by_tasks(self._sorted(self._tail, order), order)
        return self._rows() if last is None else finished(last, self._rows(), self._funcs, context)

    def _rows(self) -> Iterator[Value]:
        tasks = [ReadRows(work, self._tail) for work in self._work(self._stretches())]
        return _decoded(run_tasks(_run, tasks))

    # ---- as a side of a join

    @property
    def can_be_joined(self) -> bool:
        """Whether tasks have all rows, of which each can be sorted by a key."""
        return not self.rest and self._has_all_rows and is_for_join(self._tail)

    def runs(self, key: plan.Expr, order: plan.Order, run: Run, keeping: ExitStack) -> tuple[Any, Ranked]:
        """The rows that have a key, as runs of tasks, and how these are sorted."""
        tail = before_join(self._tail, key, order)
        return self._sorted(tail, by_key(key, order, self._funcs)), sorted_by(tail, self._funcs)

    def _sorted(self, tail: Tail, order: Ranked) -> Any:
        """The rows of all tasks, sorted, as runs that are cut by an order."""
        return stage_of(_run, [SortRows(work, tail, order) for work in self._work(self._stretches())])

    def _first_sorted(self, first: Limit) -> Iterator[Value]:
        """The first rows of a sort, from those of each task; equal ones in the order of the tasks, that of the pool."""
        count = ITEMS_WHEN_SPLIT * first.sort_keys
        tasks = [FirstRows(work, first.count) for work in self._work(self._stretches())]
        streams = [
            list(zip((items[:count] for items in order), decoded(data), strict=True))
            for order, data in run_tasks(_run, tasks, at_once=True)
        ]
        rank = cmp_to_key(partial(compare_by, self._whole.directions[:count]))
        merged = heapq.merge(*streams, key=lambda pair: rank(pair[0]))
        return islice((value for _, value in merged), first.count)

    # ---- jobs

    def _any_packs(self) -> list[Pack]:
        return packed([(source,) for source in self._scan.sources], task_count(self._size))

    @property
    def _size(self) -> int:
        return sum(source.size for source in self._scan.sources)

    def _stretches(self) -> list[Pack]:
        """In the order of the pool."""
        rows = sum(map(_rows, self._scan.runs))
        return _stretches(self._scan.runs, max(task_count(self._size), -(-rows // MOST_ROWS)))

    def _work(self, packs: list[Pack]) -> list[Work]:
        scans = [Scan(pack, self._scan.key, self._scan.is_descending) for pack in packs]
        return [Work(scan, self._source, self._ops, self._keep_last, self._funcs) for scan in scans]


def _decoded(results: Iterator[bytes]) -> Iterator[Value]:
    return (value for data in results for value in decoded(data))


def _for_tasks(ops: plan.Seq) -> plan.Seq:
    """The operators that tasks may begin with: a sort of everything is not theirs, its first rows are."""
    for index, op in enumerate(ops):
        if isinstance(op, plan.Sort | plan.Uniq | plan.Fuse):
            return ops[:index]
    return ops


def packed(runs: list[tuple[Source, ...]], count: int) -> list[Pack]:
    """Runs in `count` packs of about as many rows, in no order."""
    packs: list[list[tuple[Source, ...]]] = [[] for _ in range(min(count, len(runs)))]
    by_size = [(0, number) for number in range(len(packs))]
    for run in sorted(runs, key=_rows, reverse=True):
        size, smallest = by_size[0]
        packs[smallest].append(run)
        heapq.heapreplace(by_size, (size + _rows(run), smallest))
    return [tuple(pack) for pack in packs]


def _stretches(runs: Sequence[tuple[Source, ...]], count: int) -> list[Pack]:
    """Runs in about `count` packs, in their order."""
    share = sum(map(_rows, runs)) / max(1, count)
    packs: list[list[tuple[Source, ...]]] = []
    size = 0
    for run in runs:
        if not packs or size >= share:
            packs.append([])
            size = 0
        packs[-1].append(run)
        size += _rows(run)
    return [tuple(pack) for pack in packs]


def _rows(run: tuple[Source, ...]) -> int:
    return sum(source.count for source in run)


# ---- in tasks


@dataclass(frozen=True, slots=True)
class Work:
    """The fragment of a task."""

    scan: Scan
    source: plan.PoolScan
    ops: plan.Seq
    keep_last: int
    """How many of these have no SQL for all rows of the pool, though they may have for those of the task."""
    funcs: tuple[plan.Func, ...]

    def compiled(self) -> Compiled:
        """The SQL of the fragment."""
        use_threads(1)
        return Compiled(self.scan, self.source, self.ops, self.funcs, is_split=True, keep_last=self.keep_last)

    def rows(self, tail: Tail) -> Iterator[Value]:
        """The rows of the fragment, after what the interpreter does with them."""
        compiled = self.compiled()
        unfinished = compiled.rest[: len(compiled.rest) - self.keep_last]
        ops, rows = (*unfinished, *tail.in_tasks()), compiled.run(Run())
        return run_program(plan.Program((plan.DefaultScan(), *ops), self.funcs), rows, Run()) if ops else rows


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Returns the rows."""

    work: Work
    tail: Tail

    def run(self) -> Iterator[bytes]:
        return encoded(self.work.rows(self.tail))


@dataclass(frozen=True, slots=True)
class SortRows:
    """Returns the rows as sorted runs."""

    work: Work
    tail: Tail
    order: Ranked

    def run(self) -> Iterator[SortedRun]:
        return sorted_runs(self.work.rows(self.tail), self.order)


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Returns the first rows of a sort, with what they are sorted by."""

    work: Work
    count: int

    def run(self) -> Iterator[tuple[list[Any], bytes]]:
        pairs = list(self.work.compiled().ordered(self.count))
        yield [order for order, _ in pairs], b"".join(encoded(value for _, value in pairs))


@dataclass(frozen=True, slots=True)
class PartialGroups:
    """Returns partial results of an aggregation."""

    work: Work

    def run(self) -> Iterator[bytes]:
        return encoded(self.work.compiled().partials(Run()))


@dataclass(frozen=True, slots=True)
class CountRows:
    """Returns how many rows meet the filter of a scan."""

    source: plan.PoolScan
    read: tuple[Source, ...]
    funcs: tuple[plan.Func, ...]

    def run(self) -> Iterator[int]:
        use_threads(1)
        yield matched_rows(self.source, self.read, self.funcs)


def _run(task: ReadRows | SortRows | FirstRows | PartialGroups | CountRows) -> Iterator[Any]:
    return task.run()
