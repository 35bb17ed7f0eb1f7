"""Sorting columns of keys: the order of Arrow's sort, which compares the keys themselves."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from shoal.lake.key_order import stable_order
from shoal.lake.keys import Order


def _expected(columns: list[pa.Array], order: Order) -> list[int]:
    names = [str(i) for i in range(len(columns))]
    direction, nulls = ("ascending", "at_end") if order == "asc" else ("descending", "at_start")
    keys = [(name, direction, nulls) for name in names]
    places: list[int] = pc.sort_indices(pa.Table.from_arrays(columns, names), sort_keys=keys).to_pylist()
    return places


def _times(dice: random.Random, count: int) -> pa.Array:
    return pa.array(
        [f"2024-03-{dice.randrange(1, 29):02d}T{dice.randrange(24):02d}:00:0{dice.randrange(3)}Z" for _ in range(count)]
    )


def _texts(dice: random.Random, count: int, length: int, alphabet: str) -> pa.Array:
    return pa.array(["".join(dice.choices(alphabet, k=length)) for _ in range(count)], pa.string())


def _columns(dice: random.Random) -> dict[str, list[pa.Array]]:
    count = 500
    integers = pa.array([dice.choice([-(2**63), 2**63 - 1, -1, 0, 1, dice.randrange(50)]) for _ in range(count)])
    large = pa.array([dice.choice([0, 2**64 - 1, 2**63]) for _ in range(count)], pa.uint64())
    times = _times(dice, count)
    return {
        "times": [times],
        "a part of a column": [pa.concat_arrays([times, times]).slice(7, count)],
        "equal texts": [pa.array(["same"] * count)],
        "texts beyond one number": [_texts(dice, count, 14, "0123456789abcdef")],
        "texts beyond all numbers": [_texts(dice, count, 60, "azé")],
        "long texts of few characters": [_texts(dice, count, 60, "ab")],
        "texts of several lengths": [pa.array([text[: dice.randrange(20)] for text in times.to_pylist()])],
        "empty texts": [pa.array([""] * count)],
        "bytes": [pa.array([bytes(dice.choices(range(256), k=3)) for _ in range(count)])],
        "nulls": [pa.array([dice.choice([None, "a", "b"]) for _ in range(count)])],
        "integers": [integers],
        "large integers": [large],
        "floats": [pa.array([dice.choice([0.5, -1.0, 2.0]) for _ in range(count)])],
        "several keys": [_texts(dice, count, 1, "ab"), integers],
        "keys of several kinds": [times, large, integers],
        "too many keys": [integers, large, times, large],
        "a text that cannot be a number": [integers, pa.array(["a" * dice.randrange(3) for _ in range(count)])],
    }


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("kind", _columns(random.Random(0)))
def test_keys_are_sorted_as_they_compare(kind: str, order: Order) -> None:
    for seed in range(5):
        columns = _columns(random.Random(seed))[kind]
        found = stable_order(columns, order)
        places = range(len(columns[0])) if found is None else found.tolist()
        assert list(places) == _expected(columns, order)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_rows_that_are_in_order_stay_as_they_are(order: Order) -> None:
    days = np.sort(np.random.default_rng(0).integers(10, 99, 100))
    column = pa.array([f"2024-{day}" for day in (days if order == "asc" else days[::-1])])
    assert stable_order([column], order) is None
