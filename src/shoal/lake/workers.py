"""Who does the work of writing data anew: this process, or others. The commit that adds it is always made here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

P = TypeVar("P")
R = TypeVar("R")


class Run(Protocol):
    """Calls a function of a module on each of some payloads, here or elsewhere; results come in their order."""

    def __call__(self, work: Callable[[P], Iterable[R]], payloads: Sequence[P], /) -> Generator[R, None, None]: ...


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does the work."""

    run: Run
    count: int = 1
    """In how many parts it is best cut."""
    is_elsewhere: bool = False


Choose = Callable[[int], Workers]
"""Who does the work on so many bytes."""


def _one_by_one(work: Callable[[P], Iterable[R]], payloads: Sequence[P]) -> Generator[R, None, None]:
    for payload in payloads:
        yield from work(payload)


HERE = Workers(_one_by_one)


def here(size: int) -> Workers:
    """This process."""
    return HERE
