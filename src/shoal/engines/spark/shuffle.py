"""Work in two steps, with what the first makes brought together in buckets for the second: by a shuffle of Spark."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from shoal.engines.spark.jobs import framed, opened, stage_calls, stream, title_of
from shoal.engines.spark.stages import Step, cluster
from shoal.errors import ShoalError

P = TypeVar("P")
Q = TypeVar("Q")
M = TypeVar("M")
R = TypeVar("R")


class Sent(NamedTuple):
    """An item on its way to a bucket."""

    task: int
    number: int
    """Its number among the items of the task."""
    row: bytes


def regroup(
    part: Callable[[P], Iterable[tuple[int, M]]],
    payloads: Sequence[P],
    join: Callable[[Q, Iterator[M]], Iterable[R]],
    buckets: Sequence[Q],
) -> Generator[R, None, None]:
    """The results of `join` for each bucket and the items that `part` emitted for it, in the order of the buckets."""
    # Each bucket is sent like a piece, and first: so a task gets its own, and no other.
    joins: list[tuple[int, Any]] = list(enumerate((join, bucket) for bucket in buckets))
    calls: list[tuple[Any, Any]] = [(_as_it_is, joins), *((part, payload) for payload in payloads)]
    received = cluster().exchange([(stage_calls(calls), Step(_sent, (len(buckets),)))], len(buckets))
    yield from stream(received.then(Step(_joined)), title=title_of(join, None))


# ---- in tasks


def _as_it_is(pieces: Iterable[M]) -> Iterable[M]:
    return pieces


def _sent(task: int, rows: Iterable[bytes], count: int) -> Iterator[tuple[int, bytes]]:
    """The pieces of a task, each with the number of its bucket. An error goes to all of them."""
    for number, row in enumerate(rows):
        try:
            buckets: Iterable[int] = (opened(row)[0],)
        except ShoalError:
            buckets = range(count)
        for bucket in buckets:
            yield bucket, pickle.dumps((task, number, row))


def _joined(task: int, rows: Iterable[bytes]) -> Iterator[bytes]:
    """The results of a bucket, whose pieces come in any order."""
    pieces_ = deque(sorted(Sent(*pickle.loads(row)) for row in rows))  # noqa: S301 - from tasks of ours
    join, payload = opened(pieces_.popleft().row)[1]

    def pieces() -> Iterator[Any]:
        while pieces_:
            yield opened(pieces_.popleft().row)[1]

    return framed(lambda: join(payload, pieces()))
