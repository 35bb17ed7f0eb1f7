"""Joins on Spark: the rows of both sides are exchanged by ranges of keys, and each task joins those that it is given.

A side with few rows, such as groups, is collected by the driver, which sends it to the tasks. Results come in the
order of the keys, since partitions do, so that nothing has to be sorted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol

from shoal.api.options import Statistics
from shoal.engines.interp.engine import needs_names, run_program
from shoal.engines.interp.environment import Run
from shoal.engines.spark.exchange import (
    Ranked,
    SortedRun,
    edges_of,
    merged,
    parted,
    received,
    sorted_by_tasks,
    sorted_runs,
    stage_of,
)
from shoal.engines.spark.jobs import decoded, encoded, framed, stream
from shoal.engines.spark.stages import Step, cluster
from shoal.engines.spark.task_operators import NO_TAIL, Tail, before_join, finished, is_for_join, tail_of
from shoal.engines.sql.nodes import NotColumnar
from shoal.lang import plan
from shoal.lang.walk import has_aggregate, operators
from shoal.model.values import Value

JOINING = "joined by tasks, which exchange rows by key, with"


class InTasks(Protocol):
    """What tasks compute."""

    rest: plan.Seq
    is_reduced: bool
    joined: tuple[int, ...]

    @property
    def can_be_joined(self) -> bool:
        """Whether tasks have all rows, and can sort them by a key."""

    def explain(self) -> tuple[str, ...]:
        """The queries of the tasks."""

    def run(self, context: Run) -> Iterator[Value]:
        """The values that come out."""

    def runs(self, key: plan.Expr, order: plan.Order, run: Run, keeping: ExitStack) -> tuple[Any, Ranked]:
        """The rows that have a key, as runs of tasks, and how these are sorted."""

    def measure(self, statistics: Statistics) -> None:
        """Count what tasks read."""


class Side(NamedTuple):
    """One side of a join."""

    part: InTasks
    scans: tuple[int, ...]
    """The scan that it begins with, if it is one of its own, by its index."""


def check_join(op: plan.Join, sides: Sequence[Side], funcs: tuple[plan.Func, ...]) -> None:
    """NotColumnar, if tasks cannot do it."""
    exprs = (op.left_key, op.right_key, *(arg.expr for arg in op.args))
    if len(sides) != 2 or any(has_aggregate(expr, funcs) for expr in exprs):
        raise NotColumnar("a join of other than two sides, or an aggregate that runs along")
    if needs_names(plan.Program((op, *(o for side in sides for o in side.part.rest)), funcs)):
        raise NotColumnar("a name whose meaning depends on the rows before")
    for part, _ in sides:
        is_small = part.is_reduced and not any(op.traits.is_scan or op.traits.writes for op in operators(part.rest))
        if not part.can_be_joined and not is_small:
            raise NotColumnar("a side that is not in tasks")


class Joined:
    """A join, and the operators after it, as far as they go in tasks."""

    engine = "spark"
    joining = JOINING

    def __init__(self, op: plan.Join, sides: tuple[Side, ...], ops: plan.Seq, funcs: tuple[plan.Func, ...]) -> None:
        self._op, self._sides, self._funcs = op, sides, funcs
        self._tail = tail_of(ops, funcs)
        self.rest = ops[self._tail.length :]
        """The operators that are left to the interpreter of the driver."""
        self.is_reduced = self._tail.is_reduced
        """Whether groups come out, or the first rows."""
        self.joined = tuple(index for side in sides for index in (*side.scans, *side.part.joined))
        """The scans that are read beside the first one, by their indexes."""

    def explain(self) -> tuple[str, ...]:
        """The SQL of both sides."""
        return tuple(query for side in self._sides for query in side.part.explain())

    def run(self, context: Run) -> Iterator[Value]:
        """The values that come out."""
        if context.measure:
            self.measure(context.statistics)
        last = self._tail.last
        with ExitStack() as keeping:
            if isinstance(last, plan.Sort):
                order = Ranked(last, self._funcs)
                yield from sorted_by_tasks(self._stage(self._tail, order, context, keeping), order)
                return
            results = stream(self._stage(self._tail, None, context, keeping), title="shoal: join rows")
            rows = (value for data in results for value in decoded(data))
            yield from rows if last is None else finished(last, rows, self._funcs, context)

    def measure(self, statistics: Statistics) -> None:
        """Count what both sides read."""
        for side in self._sides:
            side.part.measure(statistics)

    # ---- as a side of another join

    @property
    def can_be_joined(self) -> bool:
        """Whether tasks have all rows, and can sort them by a key."""
        return not self.rest and is_for_join(self._tail)

    def runs(self, key: plan.Expr, order: plan.Order, run: Run, keeping: ExitStack) -> tuple[Any, Ranked]:
        """The rows that have a key, as runs of tasks, and how these are sorted."""
        tail = before_join(self._tail, key, order)
        return self._stage(tail, by_key(key, order, self._funcs), run, keeping), sorted_by(tail, self._funcs)

    # ---- the exchange

    def _stage(self, tail: Tail, order: Ranked | None, run: Run, keeping: ExitStack) -> Any:
        """A task a part: what it gives are rows, or runs of rows that are cut by an order."""
        op, direction = self._op, self._direction()
        keys = (op.left_key, op.right_key)
        sides = [
            self._runs(side.part, key, direction, run, keeping) for side, key in zip(self._sides, keys, strict=True)
        ]
        stages, orders = [runs for runs, _ in sides], tuple(ranked for _, ranked in sides)
        cuts = [by_key(key, direction, self._funcs) for key in keys]
        on = cluster()
        keeping.enter_context(on.keeping(stages))
        kept = 1 if op.style == "right" else 0  # the side in whose order rows come out
        has_other_keys = len(orders[kept].sort.keys) > 1  # then the order within a key is not that of the tasks
        edges = edges_of(stages, cuts[0], split=None if has_other_keys else kept)
        sent = [
            (runs, parted(cut, edges, side, is_split=side == kept))
            for side, (runs, cut) in enumerate(zip(stages, cuts, strict=True))
        ]
        join = plan.Join(op.style, *keys, op.args, direction, direction)
        task = _Task(join, orders, tail.in_tasks(), self._funcs, order)
        return on.exchange(sent, len(edges) + 1).then(Step(_join_part, (task,)))

    def _direction(self) -> plan.Order:
        orders = (self._op.left_order, self._op.right_order)
        first, second = reversed(orders) if self._op.style == "right" else orders
        return first or second or "asc"

    def _runs(
        self, part: InTasks, key: plan.Expr, order: plan.Order, run: Run, keeping: ExitStack
    ) -> tuple[Any, Ranked]:
        if part.can_be_joined:
            return part.runs(key, order, run, keeping)
        tail = before_join(NO_TAIL, key, order)
        program = plan.Program((plan.DefaultScan(), *part.rest, *tail.in_tasks()), self._funcs)
        values = run_program(program, part.run(Run(memory=run.memory)), Run(memory=run.memory))
        runs = list(sorted_runs(values, by_key(key, order, self._funcs)))
        return stage_of(_given, runs), sorted_by(tail, self._funcs)


def sorted_by(tail: Tail, funcs: tuple[plan.Func, ...]) -> Ranked:
    """How the rows of a tail are sorted that ends with a sort."""
    assert isinstance(tail.last, plan.Sort)
    return Ranked(tail.last, funcs)


def by_key(key: plan.Expr, order: plan.Order, funcs: tuple[plan.Func, ...]) -> Ranked:
    """The order by the key alone: rows with equal keys must not be parted."""
    return Ranked(plan.Sort((plan.SortKey(key, order),)), funcs)


# ---- in tasks


class _Task(NamedTuple):
    """What a task gets."""

    join: plan.Join
    orders: tuple[Ranked, ...]
    """How what it is given of each side is sorted."""
    ops: plan.Seq
    funcs: tuple[plan.Func, ...]
    cut: Ranked | None


def _join_part(number: int, rows: Iterable[bytes], task: _Task) -> Iterator[bytes]:
    """The join of what a task was given, by the interpreter."""

    def joined() -> Iterable[Any]:
        sent = list(map(received, rows))
        sides = [merged((e for e in sent if e.side == side), order) for side, order in enumerate(task.orders)]
        legs = tuple((plan.Physical(_Received(side)),) for side in sides)
        body = (plan.Fork(legs), task.join, *task.ops)
        run = Run(open_scan=lambda scan: scan.plan.run(run))  # type: ignore[union-attr]
        values = run_program(plan.Program(body, task.funcs), (), run)
        return encoded(values) if task.cut is None else sorted_runs(values, task.cut)

    return framed(joined)


class _Received(NamedTuple):
    """The rows of one side, as they come."""

    rows: Iterator[Value]

    def run(self, context: Run) -> Iterator[Value]:
        """Those rows."""
        return self.rows


def _given(run: SortedRun) -> Iterator[SortedRun]:
    yield run
