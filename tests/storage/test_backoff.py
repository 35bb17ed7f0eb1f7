"""Waits between attempts grow to a bound, and are random so that clients do not collide again."""

from __future__ import annotations

from itertools import islice

from shoal.storage.backoff import backoff

MANY = 400


def longest_waits(count: int, first: float, longest: float) -> list[float]:
    """The longest of many first, second, ... waits."""
    return [max(waits) for waits in zip(*(islice(backoff(first, longest), count) for _ in range(MANY)), strict=True)]


def test_the_bound_of_the_waits_doubles_up_to_the_longest() -> None:
    bounds = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    for most, bound in zip(longest_waits(len(bounds), 0.1, 1.0), bounds, strict=True):
        assert 0.9 * bound < most <= bound


def test_waits_take_any_part_of_their_bound() -> None:
    waits = [next(backoff(1.0, 1.0)) for _ in range(MANY)]
    assert min(waits) < 0.1
    assert len(set(waits)) > MANY / 2


def test_nobody_waits_for_longer_than_half_a_second_unless_asked_to() -> None:
    assert max(islice(backoff(), MANY)) <= 0.5
