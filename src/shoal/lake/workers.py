"""Workers that rewrite data: this process, or others. The commit that adds the result is always made here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

from shoal.errors import StorageFailure
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    import pickle
    import tempfile
else:
    pickle = lazy("pickle")
    tempfile = lazy("tempfile")

P = TypeVar("P")
Q = TypeVar("Q")
M = TypeVar("M")
R = TypeVar("R")


class Run(Protocol):
    """Calls a function of a module on each of some payloads, here or elsewhere; results come in their order."""

    def __call__(self, work: Callable[[P], Iterable[R]], payloads: Sequence[P], /) -> Generator[R, None, None]: ...


class Shuffle(Protocol):
    """Two-phase map: `part` emits (bucket, item); `join` runs once per bucket over its items, in payload order.

    Between the phases items are in files, not in memory.
    """

    def __call__(
        self,
        part: Callable[[P], Iterable[tuple[int, M]]],
        payloads: Sequence[P],
        join: Callable[[Q, Iterator[M]], Iterable[R]],
        buckets: Sequence[Q],
        /,
    ) -> Generator[R, None, None]: ...


@frozen
class Workers:
    """How work is run: in this process, or by tasks elsewhere."""

    run: Run
    shuffle: Shuffle
    count: int = 1
    """Into how many parts work is best divided."""
    is_remote: bool = False


Choose = Callable[[int], Workers]
"""The workers for this number of bytes."""


def grouped_by_size(items: Sequence[P], sizes: Sequence[int], count: int) -> list[tuple[P, ...]]:
    """Neighbours in about `count` groups of about the same size."""
    limit = sum(sizes) / max(1, count)
    groups: list[list[P]] = []
    filled = 0
    for item, size in zip(items, sizes, strict=True):
        if not groups or filled >= limit:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += size
    return [tuple(group) for group in groups]


def _run_here(work: Callable[[P], Iterable[R]], payloads: Sequence[P]) -> Generator[R, None, None]:
    for payload in payloads:
        yield from work(payload)


def _shuffle_here(
    part: Callable[[P], Iterable[tuple[int, M]]],
    payloads: Sequence[P],
    join: Callable[[Q, Iterator[M]], Iterable[R]],
    buckets: Sequence[Q],
) -> Generator[R, None, None]:
    with tempfile.TemporaryFile() as file:
        offsets: list[list[int]] = [[] for _ in buckets]
        for number, item in _run_here(part, payloads):
            offsets[number].append(_append(file, item))
        for number, bucket in enumerate(buckets):
            yield from join(bucket, _read_back(file, offsets[number]))


def _append(file: IO[bytes], item: Any) -> int:
    offset = file.tell()
    try:
        pickle.dump(item, file)
    except OSError as e:
        reason = e.strerror or e
        raise StorageFailure(f"temporary file: {reason} (TMPDIR names a directory with more room)") from e
    return offset


def _read_back(file: IO[bytes], offsets: list[int]) -> Iterator[Any]:
    for offset in offsets:
        file.seek(offset)
        yield pickle.load(file)


HERE = Workers(_run_here, _shuffle_here)


def here(size: int) -> Workers:
    """This process."""
    return HERE
