"""Pool keys: parsing, order, ranges."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.interp.engine import evaluate
from shoal.errors import InvalidInput
from shoal.lake.keys import Bound, Key, KeyRange, Order, comparer, key_getter, parse_sort_key, sorted_indices
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import Value
from shoal.testing.queries import parse_values

KEYS = 'null 1 2(uint8) 2.5 NaN -1. "a" "b" 10.0.0.1 2024-01-01T00:00:00Z null(string) 1(port=uint16)'


@pytest.mark.parametrize(
    ("text", "paths", "order"),
    [
        ("ts", (("ts",),), "asc"),
        ("ts:desc", (("ts",),), "desc"),
        ("a.b,c:asc", (("a", "b"), ("c",)), "asc"),
        ("this", ((),), "asc"),
    ],
)
def test_a_key_is_fields_and_an_order(text: str, paths: tuple[tuple[str, ...], ...], order: str) -> None:
    found = parse_sort_key(text)
    assert (found.paths, found.order) == (paths, order)


@pytest.mark.parametrize("text", ["", "a:up", "a,,b", "a..b", "1a", "a,a", "a b"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_sort_key(text)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_nulls_are_greater_than_all_else(order: Order) -> None:
    values = list(parse_values(KEYS))
    places = sorted_indices([(v,) for v in values], order)
    nulls = [i for i, v in enumerate(values) if v.data is None]
    assert places[-2:] == nulls if order == "asc" else places[:2] == nulls


@given(st.lists(st.one_of(st.none(), st.integers(0, 5))), st.sampled_from(["asc", "desc"]))
def test_the_fast_sort_is_the_slow_one(numbers: list[int | None], order: Order) -> None:
    keys: list[Key] = [(Value(t.INT64, n),) for n in numbers]
    compared = [comparer(order)(key) for key in keys]
    assert sorted_indices(keys, order) == sorted(range(len(keys)), key=compared.__getitem__)


def test_missing_fields_count_as_null_and_unions_for_what_is_in_them() -> None:
    get = key_getter(parse_sort_key("a,b"))
    one, other = parse_values('{a:1} {a:"x"((int64,string)),b:2}')
    assert [v.data for v in get(one)] == [1, None]
    assert [v.data for v in get(other)] == ["x", 2]


def test_a_range_never_leaves_out_what_a_comparison_would_find() -> None:
    """For all keys and bounds: if some key between low and high passes the comparison, the range may hold it."""
    keys = list(parse_values(KEYS))
    order = sorted_indices([(v,) for v in keys], "asc")
    for bound, inclusive in itertools.product(keys, (True, False)):
        if bound.data is None:
            continue
        for i, j in itertools.combinations_with_replacement(range(len(order)), 2):
            inside = [keys[order[n]] for n in range(i, j + 1)]
            low, high = inside[0], inside[-1]
            above = KeyRange(lower=Bound(bound, inclusive)).may_hold(low, high)
            below = KeyRange(upper=Bound(bound, inclusive)).may_hold(low, high)
            assert above or not any(_passes(">=" if inclusive else ">", v, bound) for v in inside)
            assert below or not any(_passes("<=" if inclusive else "<", v, bound) for v in inside)


def _passes(op: str, value: Value, bound: Value) -> bool:
    found = evaluate(plan.Binary(op, plan.Literal(value), plan.Literal(bound)))
    return found.data is True
