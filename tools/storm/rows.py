"""The records of a load, which follow from its number alone: workers write them, and the checker expects them.

A record is known by its load and its position `i` there. `w` is a number that no other record is likely to have, so
that the sum of `w` over some records says which ones they are.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

Row = dict[str, Any]
KEYS = 10_000
"""Keys `k` are below this."""
SHAPES = 300
"""The number of shapes in a load that has too many of them for the column form."""


def weight(load: int, i: int) -> int:
    """A number of 31 bits that looks like chance."""
    n = (load * 1_000 + i) * 0x9E3779B97F4A7C15 % 2**64
    return (n ^ n >> 29) * 0xBF58476D1CE4E5B9 % 2**64 >> 33


@lru_cache(maxsize=4096)
def rows_of(load: int) -> tuple[Row, ...]:
    """The records of a load."""
    chance = random.Random(load)
    kind = chance.random()
    if kind < 0.02:
        return tuple(_row(chance, load, i, {f"f{i}": 1}) for i in range(SHAPES))
    count = chance.choice((1, 2, 3, 5, 8, 20, 60) if kind < 0.9 else (200, 400))
    return tuple(_row(chance, load, i, _extra(chance, load)) for i in range(count))


def _row(chance: random.Random, load: int, i: int, extra: Row) -> Row:
    return {"k": chance.randrange(KEYS), "load": load, "i": i, "w": weight(load, i), **extra}


def _extra(chance: random.Random, load: int) -> Row:
    """A field that is not always there, and not always of one type."""
    n = chance.randrange(1_000)
    options: tuple[Row, ...] = ({}, {"x": n}, {"x": f"{load}-{n}"}, {"x": n + 0.5}, {"x": {"a": n, "b": f"b{n}"}})
    return options[min(load % 7, 4) if chance.random() < 0.8 else chance.randrange(5)]


class Total(NamedTuple):
    """What is said of some records instead of listing them."""

    records: int
    weights: int
    keys: int

    def __add__(self, other: object) -> Total:
        assert isinstance(other, Total)
        return Total(self.records + other.records, self.weights + other.weights, self.keys + other.keys)


def total(rows: Iterable[Row]) -> Total:
    """Count records and add up their numbers."""
    listed = list(rows)
    return Total(len(listed), sum(row["w"] for row in listed), sum(row["k"] for row in listed))


class Filter(NamedTuple):
    """Records of one load up to a position, or with keys in a range."""

    low: int = 0
    high: int = KEYS
    load: int | None = None
    before: int = 1_000

    def accepts(self, row: Row) -> bool:
        """Whether a record matches."""
        if self.load is not None:
            return bool(row["load"] == self.load and row["i"] < self.before)
        return bool(self.low <= row["k"] < self.high)

    def text(self) -> str:
        """The filter in the query language, and in SQL."""
        if self.load is not None:
            return f"load == {self.load} and i < {self.before}"
        return f"k >= {self.low} and k < {self.high}"
