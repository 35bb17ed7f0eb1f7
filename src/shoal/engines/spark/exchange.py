"""An exchange of rows between tasks, for sorts and joins of everything: each task sorts what it has, gives ranges of
keys away, and merges what it is given.

What goes from task to task are runs of sorted rows as bytes, never single rows.
"""

from __future__ import annotations

import heapq
import pickle
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key
from typing import Any, NamedTuple, TypeVar

from shoal.engines.interp.engine import sort_order
from shoal.engines.spark.jobs import cores, decoded, encoded, framed, opened, stage, stream
from shoal.engines.spark.stages import Stage, Step, cluster
from shoal.errors import ShoalError
from shoal.lang import plan
from shoal.model.values import Value

P = TypeVar("P")
PARTS_PER_CORE = 2
MOST_RUNS = 64
"""About how many runs are merged in one part: they are in memory."""


class SortedRun(NamedTuple):
    """Some sorted rows."""

    first: list[Value]
    """The keys of the first one."""
    data: bytes


class Sent(NamedTuple):
    """What a task gives to another."""

    side: int
    """Of a join; a sort has but one."""
    task: int
    number: int
    """Of the runs that it gives."""
    data: bytes
    is_error: bool = False

    def packed(self) -> bytes:
        """As a row of a stage."""
        return pickle.dumps(tuple(self))


def received(row: bytes) -> Sent:
    """What a task was given."""
    return Sent(*pickle.loads(row))  # noqa: S301 - from a task of ours


class Ranked(NamedTuple):
    """How rows are sorted: plain data, which goes to tasks."""

    sort: plan.Sort
    funcs: tuple[plan.Func, ...]

    def rank(self) -> tuple[Callable[[Value], list[Value]], Callable[[list[Value]], Any]]:
        """What gives the keys of a row, and what makes keys comparable."""
        keys_of, compare = sort_order(self.sort, self.funcs)
        return keys_of, cmp_to_key(compare)


def sorted_by_tasks(runs: Stage, order: Ranked) -> Iterator[Value]:
    """All rows in order, of which each task gives sorted runs; equal rows stay in the order of the tasks."""
    on = cluster()
    with on.keeping([runs]):
        edges = edges_of([runs], order)
        parts = on.exchange([(runs, parted(order, edges, 0))], len(edges) + 1)
        for data in stream(parts.then(Step(_merged_part, (order,))), title="shoal: merge sorted rows"):
            yield from decoded(data)


def stage_of(work: Callable[[P], Iterable[SortedRun]], payloads: Sequence[P]) -> Stage:
    """Tasks that give sorted runs, at least one of them."""
    return stage(work, payloads) if payloads else stage(_nothing, [None])


def _nothing(_: None) -> Iterator[SortedRun]:
    return iter(())


def edges_of(stages: Sequence[Stage], order: Ranked) -> list[list[Value]]:
    """Keys that cut the sorted runs of all tasks into parts of about the same size, as many as there is work for."""
    title = "shoal: sort rows"
    firsts = [first for runs in stages for first in stream(runs.then(Step(_firsts)), title=title)]
    return _edges(firsts, order, max(PARTS_PER_CORE * cores(), len(firsts) // MOST_RUNS))


def parted(order: Ranked, edges: list[list[Value]], side: int) -> Step:
    """Cuts the runs of a task at the edges, and sends each piece to the part that it belongs to."""
    return Step(_parted, (order, edges, side))


def sorted_runs(values: Iterable[Value], order: Ranked) -> Iterator[SortedRun]:
    """Sorted rows as runs of some size."""
    keys_of, _ = order.rank()
    for data in encoded(values):
        yield SortedRun(keys_of(next(iter(decoded(data)))), data)


def _edges(firsts: list[list[Value]], order: Ranked, count: int) -> list[list[Value]]:
    """Keys that cut the rows into about `count` partitions, estimated from the first keys of runs."""
    _, rank = order.rank()
    ranked = sorted(firsts, key=rank)
    picked = [ranked[len(ranked) * i // count] for i in range(1, count)] if ranked else []
    edges: list[list[Value]] = []
    for keys in picked:
        if not edges or rank(edges[-1]) < rank(keys):
            edges.append(keys)
    return edges


# ---- in tasks


def _firsts(task: int, rows: Iterable[bytes]) -> Iterator[bytes]:
    return framed(lambda: (opened(row).first for row in rows))


def _parted(
    task: int, rows: Iterable[bytes], order: Ranked, edges: list[list[Value]], side: int
) -> Iterator[tuple[int, bytes]]:
    """The runs of a task, cut at the edges, each with the part that it belongs to."""
    keys_of, rank = order.rank()
    ranks = [rank(edge) for edge in edges]
    number = 0
    for row in rows:
        try:
            run = opened(row)
        except ShoalError:
            yield 0, Sent(side, task, number, row, is_error=True).packed()
            return
        values = list(decoded(run.data))
        cuts = [bisect_left(values, edge, key=lambda v: rank(keys_of(v))) for edge in ranks]
        for part, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(values)], strict=True)):
            if start < end:
                data = run.data if end - start == len(values) else b"".join(encoded(values[start:end]))
                yield part, Sent(side, task, number, data).packed()
                number += 1


def _merged_part(task: int, rows: Iterable[bytes], order: Ranked) -> Iterator[bytes]:
    """The rows of a part in order."""
    return framed(lambda: encoded(merged(map(received, rows), order)))


def merged(sent: Iterable[Sent], order: Ranked) -> Iterator[Value]:
    """What tasks have sent, in order: runs of one task follow each other, those of others are merged."""
    keys_of, rank = order.rank()
    by_task: dict[int, list[tuple[int, bytes]]] = {}
    for each in sent:
        if each.is_error:
            opened(each.data)
        by_task.setdefault(each.task, []).append((each.number, each.data))

    def values(task: int) -> Iterator[Value]:
        for _, data in sorted(by_task[task]):
            yield from decoded(data)

    streams = [values(task) for task in sorted(by_task)]
    return heapq.merge(*streams, key=lambda value: rank(keys_of(value)))
