"""Runs fragments on Spark: objects are packed into a few tasks a core, each of which runs the SQL of its fragment, in
DuckDB, next to its data. What comes back are rows, or partial results that the driver merges.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cmp_to_key, partial
from typing import Any, NamedTuple

from shoal.engines.duckdb.queries import use_threads
from shoal.engines.duckdb.runner import Compiled, compare_by, first_values
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.spark.exchange import Ranked, SortedRun, sorted_by_tasks, sorted_runs
from shoal.engines.spark.jobs import run_tasks, task_count
from shoal.engines.spark.tails import NO_TAIL, Tail, tail_of
from shoal.engines.spark.values import decoded, encoded
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.units import Scan, Source
from shoal.lang import plan
from shoal.lang.rules.split_aggregates import split_aggregates
from shoal.model.values import Value

MOST_ROWS = 200_000
"""Of a task whose rows are the result: what tasks give at a time is held in memory."""


Pack = tuple[tuple[Source, ...], ...]
"""Runs of sources that go to one task."""


def compile_scan(scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func]) -> OnSpark | None:
    """A scan and what follows it on Spark; None if there is no columnar form of it."""
    try:
        return OnSpark(scan, source, ops, funcs)
    except NotColumnar:
        return None


class OnSpark:
    """A scan and the operators after it, as far as they go in tasks.

    A task runs the fragment in SQL, then what has no SQL but looks at one row at a time, by the interpreter, and then
    its share of what brings rows together: partial aggregates, first rows, sorted rows.
    """

    def __init__(self, scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func]) -> None:
        """NotColumnar, if they have no columnar form."""
        self._scan, self._source, self._funcs = scan, source, tuple(funcs)
        self._ops = _for_tasks(ops)
        self._whole = Compiled(scan, source, self._ops, funcs, is_split=True)
        left = (*self._whole.rest, *ops[len(self._ops) :])
        self._tail = NO_TAIL if self._gives_few else tail_of(left, self._funcs)
        self.rest = left[self._tail.length :]
        """The operators that are left to the interpreter of the driver."""
        self.is_reduced = self._whole.is_reduced or isinstance(
            self._tail.last, plan.Summarize | plan.Head | plan.TopK | plan.Top
        )
        """Whether groups come out, or the first rows."""

    @property
    def _gives_few(self) -> bool:
        whole = self._whole
        return whole.aggregation is not None or whole.is_sorted or whole.limit is not None

    def explain(self) -> tuple[str, ...]:
        """The SQL of the fragments, a text for each layout."""
        return self._whole.explain()

    def values(self, run: Run) -> Iterator[Value]:
        """What comes out."""
        if self._whole.aggregation is not None:
            is_ordered = self._whole.needs_order
            packs = self._stretches() if is_ordered else self._any_packs()
            partials = self._stream("partials", packs, at_once=not is_ordered)
            return self._summed_up(self._whole.aggregation, partials, run)
        if self._whole.is_sorted:
            return self._merged()
        last = self._tail.last
        if isinstance(last, plan.Sort):
            order = Ranked(last, self._funcs)
            return sorted_by_tasks(_sort_rows, self._payloads("values", self._stretches()), order)
        if isinstance(last, plan.Summarize):
            return self._summed_up(last, self._stream("values", self._stretches()), run)
        rows = self._stream("values", self._stretches())
        if isinstance(last, plan.Head | plan.TopK | plan.Top):
            return run_program(plan.Program((plan.DefaultScan(), last), self._funcs), rows, Run(memory=run.memory))
        if self._whole.is_backwards:
            return iter(deque(rows, maxlen=self._whole.limit))
        return rows if self._whole.limit is None else first_values(rows, self._whole.limit)

    def _summed_up(self, op: plan.Summarize, partials: Iterator[Value], run: Run) -> Iterator[Value]:
        _, final = split_aggregates(op)
        return run_program(plan.Program((plan.DefaultScan(), final)), partials, Run(memory=run.memory))

    def _merged(self) -> Iterator[Value]:
        """The first rows of a sort, from those of each task."""
        found = [
            list(zip(order, decoded(data), strict=True))
            for order, data in run_tasks(_run_fragment, self._payloads("ordered", self._any_packs()), at_once=True)
        ]
        rank = cmp_to_key(partial(compare_by, self._whole.directions))
        merged = heapq.merge(*found, key=lambda pair: rank(pair[0]))
        assert self._whole.limit is not None
        return first_values((value for _, value in merged), self._whole.limit)

    # ---- jobs

    def _any_packs(self) -> list[Pack]:
        return packed([(source,) for source in self._scan.sources], task_count())

    def _stretches(self) -> list[Pack]:
        """In the order of the pool."""
        rows = sum(map(_rows, self._scan.runs))
        return _stretches(self._scan.runs, max(task_count(), -(-rows // MOST_ROWS)))

    def _stream(self, what: str, packs: list[Pack], at_once: bool = False) -> Iterator[Value]:
        for data in run_tasks(_run_fragment, self._payloads(what, packs), at_once):
            yield from decoded(data)

    def _payloads(self, what: str, packs: list[Pack]) -> list[Task]:
        scans = [Scan(pack, self._scan.key, self._scan.is_descending) for pack in packs]
        return [Task(what, scan, self._source, self._ops, self._tail, self._funcs) for scan in scans]


def _for_tasks(ops: plan.Seq) -> plan.Seq:
    """The operators that tasks may begin with: a sort of everything is not theirs, its first rows are."""
    for place, op in enumerate(ops):
        if isinstance(op, plan.Sort | plan.Uniq | plan.Fuse):
            return ops[:place]
    return ops


def packed(runs: list[tuple[Source, ...]], count: int) -> list[Pack]:
    """Runs in so many packs of about as many rows, in no order."""
    packs: list[list[tuple[Source, ...]]] = [[] for _ in range(min(count, len(runs)))]
    sizes = [0] * len(packs)
    for run in sorted(runs, key=_rows, reverse=True):
        place = sizes.index(min(sizes))
        packs[place].append(run)
        sizes[place] += _rows(run)
    return [tuple(pack) for pack in packs]


def _stretches(runs: Sequence[tuple[Source, ...]], count: int) -> list[Pack]:
    """Runs in about so many packs, in their order."""
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
    return sum(sum(source.counts) for source in run)


# ---- in tasks


class Task(NamedTuple):
    """What a task is told."""

    what: str
    scan: Scan
    source: plan.PoolScan
    ops: plan.Seq
    tail: Tail
    funcs: tuple[plan.Func, ...]


def _run_fragment(task: Task) -> Iterator[Any]:
    """What a task does."""
    compiled = _compiled(task)
    if task.what == "ordered":
        pairs = list(compiled.ordered())
        yield [order for order, _ in pairs], b"".join(encoded(value for _, value in pairs))
    elif task.what == "partials":
        yield from encoded(compiled.partials(Run()))
    else:
        yield from encoded(_after(task, compiled.values(Run())))


def _sort_rows(task: Task) -> Iterator[SortedRun]:
    """The rows of a task, sorted."""
    assert isinstance(task.tail.last, plan.Sort)
    return sorted_runs(_after(task, _compiled(task).values(Run())), Ranked(task.tail.last, task.funcs))


def _compiled(task: Task) -> Compiled:
    use_threads(1)
    return Compiled(task.scan, task.source, task.ops, task.funcs, is_split=True)


def _after(task: Task, rows: Iterator[Value]) -> Iterator[Value]:
    """What the interpreter makes of rows in a task."""
    ops = task.tail.in_tasks()
    return run_program(plan.Program((plan.DefaultScan(), *ops), task.funcs), rows, Run()) if ops else rows
