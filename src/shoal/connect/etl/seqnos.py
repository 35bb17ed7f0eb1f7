"""Sets of numbers of raw records: as runs that are contiguous, and as legs that a query reads.

A query has few legs, so a leg may have gaps: a mask says which of its numbers are meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from shoal.model.node import frozen

Run = tuple[int, int]
"""The first and the last number."""
_MOST_LEGS = 100
"""A program has at most 1,000 operators."""
_GAP = 16
"""Numbers that are read in vain, rather than to begin another leg."""
MOST_MASKED = 1 << 18
"""Characters of masks in a query: a program has at most a million."""


def runs_of(numbers: Iterable[int]) -> list[Run]:
    """The runs of some numbers."""
    runs: list[Run] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def joined(*several: Iterable[Run]) -> list[Run]:
    """Runs of the numbers that are in any of these, which may overlap."""
    runs: list[Run] = []
    for first, last in sorted(run for each in several for run in each if run[0] <= run[1]):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = runs[-1][0], max(runs[-1][1], last)
        else:
            runs.append((first, last))
    return runs


def without(runs: Iterable[Run], gone: Iterable[Run]) -> list[Run]:
    """Runs of the numbers that are in the first, and not in the second."""
    rest: list[Run] = []
    holes = iter(joined(gone))
    hole = next(holes, None)
    for first, last in joined(runs):
        while hole is not None and hole[1] < first:
            hole = next(holes, None)
        while hole is not None and hole[0] <= last:
            if first < hole[0]:
                rest.append((first, hole[0] - 1))
            first = hole[1] + 1
            if hole[1] > last:
                break
            hole = next(holes, None)
        if first <= last:
            rest.append((first, last))
    return rest


def count(runs: Iterable[Run]) -> int:
    """How many numbers there are."""
    return sum(last - first + 1 for first, last in runs)


def numbers(runs: Iterable[Run]) -> Iterable[int]:
    """All numbers."""
    return (number for first, last in runs for number in range(first, last + 1))


@frozen
class Leg:
    """A range that is read in one go."""

    first: int
    last: int
    mask: str | None = None
    """A `1` for each number that is meant, and a `0` for the others; None if all are."""


def legs_of(runs: Sequence[Run]) -> list[Leg]:
    """A few legs that have all of these runs, which are in order: the widest gaps are left out."""
    gaps = sorted((after[0] - before[1] for before, after in pairwise(runs)), reverse=True)
    widest = max(_GAP, gaps[_MOST_LEGS - 1]) if len(gaps) >= _MOST_LEGS else _GAP
    groups: list[list[Run]] = []
    for run in runs:
        if groups and run[0] - groups[-1][-1][1] <= widest:
            groups[-1].append(run)
        else:
            groups.append([run])
    return [Leg(group[0][0], group[-1][1], _mask(group)) for group in groups]


def _mask(group: Sequence[Run]) -> str | None:
    if len(group) == 1:
        return None
    if group[-1][1] - group[0][0] > MOST_MASKED:
        return ""
    pieces, at = [], group[0][0]
    for first, last in group:
        pieces.append("0" * (first - at) + "1" * (last - first + 1))
        at = last + 1
    return "".join(pieces)


def is_readable(legs: Iterable[Leg]) -> bool:
    """Whether the masks of legs fit into a query."""
    lengths = [len(leg.mask) for leg in legs if leg.mask is not None]
    return 0 not in lengths and sum(lengths) <= MOST_MASKED
