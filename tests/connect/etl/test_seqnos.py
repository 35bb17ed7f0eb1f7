"""Sets of numbers, as runs and as what a query reads."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from shoal.connect.etl.raw import batches_of
from shoal.connect.etl.seqnos import Leg, count, is_readable, joined, legs_of, numbers, runs_of, without

SETS = st.frozensets(st.integers(0, 300))


@given(SETS, SETS)
def test_runs_are_sets(some: frozenset[int], others: frozenset[int]) -> None:
    runs, gone = runs_of(some), runs_of(others)
    assert set(numbers(runs)) == some
    assert count(runs) == len(some)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(runs))
    assert joined(runs, gone) == runs_of(some | others)
    assert without(runs, gone) == runs_of(some - others)


def meant(legs: list[Leg]) -> set[int]:
    return {
        number
        for leg in legs
        for number in range(leg.first, leg.last + 1)
        if leg.mask is None or leg.mask[number - leg.first] == "1"
    }


@given(st.frozensets(st.integers(0, 100_000), max_size=400))
def test_legs_have_the_numbers_of_their_runs(some: frozenset[int]) -> None:
    legs = legs_of(runs_of(some))
    assert is_readable(legs)
    assert meant(legs) == some
    assert len(legs) <= 100


def test_numbers_that_are_far_apart_take_several_queries() -> None:
    some = {n * 10_000 for n in range(250)} | {n * 10_000 + 2 for n in range(250)}
    batches = list(batches_of(runs_of(some)))
    assert 2 <= len(batches) <= 6
    assert set().union(*map(meant, batches)) == some
    assert all(is_readable(legs) for legs in batches)


def test_nothing_takes_no_query() -> None:
    assert list(batches_of([])) == []
