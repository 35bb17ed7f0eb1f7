"""A sort of everything, by all tasks: each sorts what it has, gives ranges of keys away, and merges what it is given.

What goes from task to task are runs of sorted rows as bytes, never single rows.
"""

from __future__ import annotations

import heapq
import pickle
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key, partial
from typing import Any, NamedTuple, TypeVar

from shoal.engines.interp.engine import sort_order
from shoal.engines.spark.jobs import cores, framed, opened, stage, stream
from shoal.engines.spark.values import decoded, encoded
from shoal.errors import ShoalError
from shoal.lang import plan
from shoal.model.values import Value

P = TypeVar("P")
PARTS_PER_CORE = 2
MOST_RUNS = 64
"""How many runs are merged in one part, about: they are held in memory."""


class SortedRun(NamedTuple):
    """Some sorted rows."""

    first: list[Value]
    """The keys of the first one."""
    data: bytes


class Sent(NamedTuple):
    """What a task gives to another."""

    task: int
    number: int
    """Of the runs that it gives."""
    data: bytes
    is_error: bool = False


class Ranked(NamedTuple):
    """How rows are sorted: plain data, which goes to tasks."""

    sort: plan.Sort
    funcs: tuple[plan.Func, ...]

    def rank(self) -> tuple[Callable[[Value], list[Value]], Callable[[list[Value]], Any]]:
        """What gives the keys of a row, and what makes keys comparable."""
        keys_of, compare = sort_order(self.sort, self.funcs)
        return keys_of, cmp_to_key(compare)


def sorted_by_tasks(work: Callable[[P], Iterable[SortedRun]], payloads: Sequence[P], order: Ranked) -> Iterator[Value]:
    """All rows in order, of which each task gives sorted runs; equal rows stay in the order of the payloads."""
    from pyspark import StorageLevel  # noqa: PLC0415 - loaded by now

    runs = stage(work, payloads).persist(StorageLevel.DISK_ONLY)
    try:
        firsts = list(stream(runs.mapPartitions(_firsts)))
        edges = _edges(firsts, order, max(PARTS_PER_CORE * cores(), len(firsts) // MOST_RUNS))
        packed = pickle.dumps((order, edges))
        shuffled = runs.mapPartitionsWithIndex(partial(_parted, packed)).partitionBy(len(edges) + 1, int)
        for data in stream(shuffled.mapPartitions(partial(_merged, packed))):
            yield from decoded(data)
    finally:
        runs.unpersist()


def sorted_runs(values: Iterable[Value], order: Ranked) -> Iterator[SortedRun]:
    """Sorted rows as runs of some size."""
    keys_of, _ = order.rank()
    for data in encoded(values):
        yield SortedRun(keys_of(next(iter(decoded(data)))), data)


def _edges(firsts: list[list[Value]], order: Ranked, count: int) -> list[list[Value]]:
    """Keys that cut the rows into about so many parts, as far as the first keys of runs tell."""
    _, rank = order.rank()
    ranked = sorted(firsts, key=rank)
    picked = [ranked[len(ranked) * i // count] for i in range(1, count)] if ranked else []
    edges: list[list[Value]] = []
    for keys in picked:
        if not edges or rank(edges[-1]) < rank(keys):
            edges.append(keys)
    return edges


# ---- in tasks


def _firsts(rows: Iterable[bytes]) -> Iterator[bytes]:
    return framed(lambda: (opened(row).first for row in rows))


def _parted(packed: bytes, place: int, rows: Iterable[bytes]) -> Iterator[tuple[int, Sent]]:
    """The runs of a task, cut at the edges, each with the part that it belongs to."""
    order, edges = pickle.loads(packed)  # noqa: S301 - from our driver
    keys_of, rank = order.rank()
    ranks = [rank(edge) for edge in edges]
    number = 0
    for row in rows:
        try:
            run = opened(row)
        except ShoalError:
            yield 0, Sent(place, number, row, is_error=True)
            return
        values = list(decoded(run.data))
        cuts = [bisect_left(values, edge, key=lambda v: rank(keys_of(v))) for edge in ranks]
        for part, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(values)], strict=True)):
            if start < end:
                data = run.data if end - start == len(values) else b"".join(encoded(values[start:end]))
                yield part, Sent(place, number, data)
                number += 1


def _merged(packed: bytes, rows: Iterable[tuple[int, Sent]]) -> Iterator[bytes]:
    """The rows of a part in order: runs of one task follow each other, those of others are merged."""
    order, _ = pickle.loads(packed)  # noqa: S301 - from our driver
    keys_of, rank = order.rank()
    by_task: dict[int, list[tuple[int, bytes]]] = {}
    for _, sent in rows:
        if sent.is_error:
            yield sent.data
            return
        by_task.setdefault(sent.task, []).append((sent.number, sent.data))

    def values(place: int) -> Iterator[Value]:
        for _, data in sorted(by_task[place]):
            yield from decoded(data)

    streams = [values(place) for place in sorted(by_task)]
    merged = heapq.merge(*streams, key=lambda value: rank(keys_of(value)))
    yield from framed(lambda: encoded(merged))
