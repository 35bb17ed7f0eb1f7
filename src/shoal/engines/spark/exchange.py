"""An exchange of rows between tasks, for sorts and joins of everything: each task sorts what it has, gives ranges of
keys away, and merges what it is given.

What goes from task to task are runs of sorted rows as bytes, never single rows.

A key that very many rows have would make one task do most of the work. Several partitions share the rows of such a
key, by the task and the run that they come from, so their order stays. A join sends what the other side has of the key
to all of these partitions.
"""

from __future__ import annotations

import heapq
import pickle
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key
from itertools import groupby
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


class Edge(NamedTuple):
    """Where a partition begins: at a key and, among the rows that have it, at a run of a task."""

    keys: list[Value]
    task: int = -1
    run: int = 0

    @property
    def is_within_key(self) -> bool:
        """Whether the partition before it has rows with this key as well."""
        return self.task >= 0


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
        edges = edges_of([runs], order, split=0)
        parts = on.exchange([(runs, parted(order, edges, 0))], len(edges) + 1)
        for data in stream(parts.then(Step(_merged_part, (order,))), title="shoal: merge sorted rows"):
            yield from decoded(data)


def stage_of(work: Callable[[P], Iterable[SortedRun]], payloads: Sequence[P]) -> Stage:
    """Tasks that give sorted runs, at least one of them."""
    return stage(work, payloads) if payloads else stage(_nothing, [None])


def _nothing(_: None) -> Iterator[SortedRun]:
    return iter(())


def edges_of(stages: Sequence[Stage], order: Ranked, split: int | None) -> list[Edge]:
    """Edges that cut the sorted runs of all tasks into parts of about the same size, as many as there is work for.

    Rows of one key may be in several parts if most of them are of the side to split, if there is one.
    """
    title = "shoal: sort rows"
    sides = [[Edge(*first) for first in stream(runs.then(Step(_firsts)), title=title)] for runs in stages]
    return cut_edges(sides, order, max(PARTS_PER_CORE * cores(), sum(map(len, sides)) // MOST_RUNS), split)


def parted(order: Ranked, edges: list[Edge], side: int, is_split: bool = True) -> Step:
    """Cuts the runs of a task at the edges, and sends each piece to the parts that it belongs to.

    The rows of one key are split where edges are within a key, or sent to all parts of that key.
    """
    return Step(_parted, (order, edges, side, is_split))


def sorted_runs(values: Iterable[Value], order: Ranked) -> Iterator[SortedRun]:
    """Sorted rows as runs of some size."""
    keys_of, _ = order.rank()
    for data in encoded(values):
        yield SortedRun(keys_of(next(iter(decoded(data)))), data)


def cut_edges(sides: Sequence[Sequence[Edge]], order: Ranked, count: int, split: int | None) -> list[Edge]:
    """Edges that cut the rows into about `count` partitions, estimated from the first rows of runs."""
    _, rank = order.rank()
    ranked = sorted((first.keys for firsts in sides for first in firsts), key=rank)
    picked = [ranked[len(ranked) * i // count] for i in range(1, count)] if ranked else []
    edges: list[Edge] = []
    for key, same in groupby(picked, key=rank):
        keys, *more = same
        edges.append(Edge(keys))
        if more and split is not None:
            runs = [[(f.task, f.run) for f in firsts if rank(f.keys) == key] for firsts in sides]
            edges += [Edge(keys, *place) for place in _places(runs, split, len(more) + 1)]
    return edges


def _places(runs: Sequence[list[tuple[int, int]]], split: int, parts: int) -> list[tuple[int, int]]:
    """Where to cut the rows of one key, by the runs of each side; nowhere if most are of a side that is not split."""
    own = sorted(runs[split])
    if 2 * len(own) < sum(map(len, runs)):
        return []
    return sorted({own[len(own) * i // parts] for i in range(1, parts)} - {own[0]}) if own else []


# ---- in tasks


def _firsts(task: int, rows: Iterable[bytes]) -> Iterator[bytes]:
    return framed(lambda: ((opened(row).first, task, run) for run, row in enumerate(rows)))


def _parted(
    task: int, rows: Iterable[bytes], order: Ranked, edges: list[Edge], side: int, is_split: bool
) -> Iterator[tuple[int, bytes]]:
    """The runs of a task, cut at the edges, each with the part that it belongs to."""
    keys_of, rank = order.rank()
    ranks = [rank(edge.keys) for edge in edges]
    number = 0
    for run_number, row in enumerate(rows):
        try:
            run = opened(row)
        except ShoalError:
            yield 0, Sent(side, task, number, row, is_error=True).packed()
            return
        values = list(decoded(run.data))
        place = (task, run_number) if is_split else None
        for part, (start, end) in enumerate(_stretches(values, edges, ranks, lambda v: rank(keys_of(v)), place)):
            if start < end:
                data = run.data if end - start == len(values) else b"".join(encoded(values[start:end]))
                yield part, Sent(side, task, number, data).packed()
                number += 1


def _stretches(
    values: list[Value],
    edges: list[Edge],
    ranks: list[Any],
    rank_of: Callable[[Value], Any],
    place: tuple[int, int] | None,
) -> Iterator[tuple[int, int]]:
    """The rows of a run that go to each part. Without a place, rows of a key go to all parts that have some of it."""
    starts, ends = [0], []
    for edge, rank in zip(edges, ranks, strict=True):
        before = bisect_left(values, rank, key=rank_of)
        after = bisect_right(values, rank, key=rank_of) if edge.is_within_key else before
        is_before = place is not None and place < (edge.task, edge.run)
        ends.append(before if place is not None and not is_before else after)
        starts.append(after if is_before else before)
    return zip(starts, [*ends, len(values)], strict=True)


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
