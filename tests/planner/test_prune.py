"""Pruning never changes an answer: every filter gives the same on a pruned scan as on all values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.api.lake import Lake
from shoal.model.text import format_value

KEYS = ["1", "2", "3", "2.5", "NaN", "null", "null(int64)", '"a"', '"b"', "10.0.0.1", "10.0.0.2", "3(port=uint16)",
        "2024-01-01T00:00:00Z", "true", "[1]", "-5", "%b(enum(a,b,c))",
        "1((int64,string))", '"a"((int64,string))']  # fmt: skip
LITERALS = ["1", "2", "2.5", "uint8(3)", '"a"', "10.0.0.1", "2024-01-01T00:00:00Z", "null", "true", "NaN", "-1."]

comparisons = st.builds(
    lambda op, literal, flipped: f"{literal} {op} k" if flipped else f"k {op} {literal}",
    st.sampled_from(["==", "<", "<=", ">", ">=", "!="]),
    st.sampled_from(LITERALS),
    st.booleans(),
)
filters = st.recursive(
    st.one_of(comparisons, st.sampled_from(["x == 1", "has(k)", "!(k > 2)"])),
    lambda inner: st.builds(lambda a, op, b: f"({a} {op} {b})", inner, st.sampled_from(["and", "or"]), inner),
    max_leaves=4,
)


@given(
    st.lists(st.lists(st.sampled_from(["{}", "{x:1}", *(f"{{k:{key}}}" for key in KEYS)]), min_size=1), max_size=4),
    filters,
    st.sampled_from(["asc", "desc"]),
)
def test_a_pruned_scan_finds_what_a_filter_keeps(loads: list[list[str]], condition: str, order: str) -> None:
    lake = shoal.create("memory://")
    pool = lake.create("p", key="k", order=order, object_size=30, seek_stride=8)
    for texts in loads:
        pool.load(" ".join(texts).encode(), format="zson")
    everything = " ".join(text for texts in loads for text in texts).encode()
    expected = shoal.query(f"where {condition}", everything, format="zson") if loads else ()
    found = lake.query(f"from p | where {condition}")
    assert sorted(map(format_value, found)) == sorted(map(format_value, expected))


def test_keys_inside_of_unions_and_maps_are_found() -> None:
    lake = shoal.create("memory://")
    pool = lake.create("p", key="a.b", object_size=1)
    pool.load(b'{a:{b:1}} {a:{b:2}((int64,{b:int64}))} {a:|{"b":3}|} {a:5}', format="zson")
    for n in (1, 2, 3):
        assert len(lake.query(f"from p | a.b == {n}").to_list()) == 1
    whole = lake.create("q", key="k")
    whole.load(b'|{"k":1}|', format="zson")
    assert len(lake.query("from q | k == 1").to_list()) == 1


LONG = '"' + "x" * 40 + '{}"'
"""A string that is cut in a zone map, whatever comes at its end."""


def count(lake: Lake, condition: str) -> list[int]:
    """The number of records that each engine finds; DuckDB skips objects by zone maps."""
    return [len(lake.query(f"from p | {condition}", engine=engine).to_list()) for engine in ("interp", "duckdb")]


def lake_of(text: str) -> Lake:
    lake = shoal.create("memory://")
    lake.create("p", key="k").load(text.encode(), format="zson")
    return lake


@pytest.mark.parametrize("field", ["k", "x"])
@pytest.mark.parametrize("literal", ["2", "2.5", '"b"', "10.0.0.1", LONG.format("m")])
def test_comparisons_find_the_value_at_their_bound(field: str, literal: str) -> None:
    """In an object that holds nothing else; by the range of the pool key, and by a zone map."""
    lake = lake_of(f"{{k:{literal},x:{literal}}}")
    found = {op: count(lake, f"{field} {op} {literal}") for op in ("==", "<=", ">=", "<", ">")}
    assert found == {"==": [1, 1], "<=": [1, 1], ">=": [1, 1], "<": [0, 0], ">": [0, 0]}


def test_a_long_string_is_found_between_others_that_begin_alike() -> None:
    lake = lake_of(f"{{k:1,x:{LONG.format('m')}}}")
    assert count(lake, f"x > {LONG.format('a')} and x < {LONG.format('z')}") == [1, 1]


def test_one_of_two_conditions_is_enough() -> None:
    lake = lake_of("{k:1,x:1,y:2}")
    assert count(lake, "x == 1 or y == 9") == [1, 1]
    assert count(lake, "k == 9 or y == 2") == [1, 1]
