"""Who does the work of writing data anew: this process, or others. The commit that adds it is always made here."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any, Protocol, TypeVar

from shoal.errors import StorageFailure

P = TypeVar("P")
Q = TypeVar("Q")
M = TypeVar("M")
R = TypeVar("R")


class Run(Protocol):
    """Calls a function of a module on each of some payloads, here or elsewhere; results come in their order."""

    def __call__(self, work: Callable[[P], Iterable[R]], payloads: Sequence[P], /) -> Generator[R, None, None]: ...


class Regroup(Protocol):
    """The same in two steps: what the first makes of all payloads goes to the piles that it names by their places.

    The second is called with each of the piles and with what is there: in the order of the payloads, and as it was
    made. In between nothing is held in memory.
    """

    def __call__(
        self,
        part: Callable[[P], Iterable[tuple[int, M]]],
        payloads: Sequence[P],
        join: Callable[[Q, Iterator[M]], Iterable[R]],
        piles: Sequence[Q],
        /,
    ) -> Generator[R, None, None]: ...


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does the work."""

    run: Run
    regroup: Regroup
    count: int = 1
    """In how many parts it is best cut."""
    is_elsewhere: bool = False


Choose = Callable[[int], Workers]
"""Who does the work on so many bytes."""


def in_packs(items: Sequence[P], sizes: Sequence[int], count: int) -> list[tuple[P, ...]]:
    """Things in about so many packs of neighbours, of about the same size."""
    share = sum(sizes) / max(1, count)
    packs: list[list[P]] = []
    held = 0
    for item, size in zip(items, sizes, strict=True):
        if not packs or held >= share:
            packs.append([])
            held = 0
        packs[-1].append(item)
        held += size
    return [tuple(pack) for pack in packs]


def _one_by_one(work: Callable[[P], Iterable[R]], payloads: Sequence[P]) -> Generator[R, None, None]:
    for payload in payloads:
        yield from work(payload)


def _by_a_file(
    part: Callable[[P], Iterable[tuple[int, M]]],
    payloads: Sequence[P],
    join: Callable[[Q, Iterator[M]], Iterable[R]],
    piles: Sequence[Q],
) -> Generator[R, None, None]:
    with TemporaryFile() as file:
        places: list[list[int]] = [[] for _ in piles]
        for number, piece in _one_by_one(part, payloads):
            places[number].append(_append(file, piece))
        for number, pile in enumerate(piles):
            yield from join(pile, _read_back(file, places[number]))


def _append(file: IO[bytes], piece: Any) -> int:
    place = file.tell()
    try:
        pickle.dump(piece, file)
    except OSError as e:
        reason = e.strerror or e
        raise StorageFailure(f"temporary file: {reason} (TMPDIR names a directory with more room)") from e
    return place


def _read_back(file: IO[bytes], places: list[int]) -> Iterator[Any]:
    for place in places:
        file.seek(place)
        yield pickle.load(file)  # noqa: S301 - from this process


HERE = Workers(_one_by_one, _by_a_file)


def here(size: int) -> Workers:
    """This process."""
    return HERE
