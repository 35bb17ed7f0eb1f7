from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.model.order import compare_values, sort_key
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing.strategies import values


def in_order(texts: str, nulls_max: bool = True) -> list[str]:
    return [format_value(v) for v in sorted(map(parse_value, texts.split()), key=sort_key(nulls_max))]


def test_numbers_of_any_type_order_by_amount() -> None:
    assert in_order("3 1(uint8) 2.5 -1(int8) 1e30 2s") == ["-1(int8)", "1(uint8)", "2.5", "3", "2s", "1e+30"]


def test_values_of_other_types_order_by_type_first() -> None:
    assert in_order('[1] {a:1} "b" 1 "a" 1.2.3.4 true <int64>') == [
        "1", "true", '"a"', '"b"', "1.2.3.4", "<int64>", "{a:1}", "[1]",
    ]  # fmt: skip


def test_nulls_go_to_the_end_or_to_the_start() -> None:
    assert in_order('null 1 null(string) "a"') == ["1", '"a"', "null", "null(string)"]
    assert in_order('null 1 null(string) "a"', nulls_max=False) == ["null", "null(string)", "1", '"a"']


def test_addresses_order_by_family_and_then_by_number() -> None:
    assert in_order("10.0.0.2 ::1 9.255.0.0 10.0.0.10") == ["9.255.0.0", "10.0.0.2", "10.0.0.10", "::1"]


def test_arrays_order_element_by_element() -> None:
    assert in_order("[2] [1,5] [1] []([int64])") == ["[]([int64])", "[1]", "[1,5]", "[2]"]


def test_nan_is_less_than_any_number() -> None:
    assert in_order("0. NaN -Inf") == ["NaN", "-Inf", "0."]


@given(st.tuples(values(), values(), values()))
def test_the_order_is_total(three: tuple[Value, Value, Value]) -> None:
    a, b, c = three
    assert compare_values(a, a) == 0
    assert compare_values(a, b) == -compare_values(b, a)
    if compare_values(a, b) <= 0 and compare_values(b, c) <= 0:
        assert compare_values(a, c) <= 0
