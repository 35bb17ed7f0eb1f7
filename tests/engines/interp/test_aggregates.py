from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.engines.aggregates import AGGREGATES
from shoal.engines.interp.aggregates.contract import Aggregate, Limits, feed
from shoal.engines.interp.aggregates.gathering import PACKED, pack, unpack
from shoal.lang import aggregates as lang
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import MISSING, NULL, QUIET, Value, int64, string
from shoal.model.zcode import decode, encode
from shoal.testing.strategies import values
from shoal.testing.tiers import examples


def fed(name: str, given_: list[Value], limits: Limits = Limits()) -> Aggregate:
    aggregate = AGGREGATES[name].state(limits)
    for value in given_:
        feed(aggregate, value)
    return aggregate


def read(texts: str) -> list[Value]:
    return [parse_value(text) for text in texts.split(" & ")] if texts else []


def result(name: str, texts: str, limits: Limits = Limits()) -> str:
    return format_value(fed(name, read(texts), limits).result())


CASES = [
    ("and", "", "null(bool)"),
    ("and", 'null(bool) & "x" & 1', "null(bool)"),
    ("and", "true & null(bool) & true", "true"),
    ("and", "true & false & true", "false"),
    ("and", "true(=flag) & false(=flag)", "false"),
    ("and", "false((bool,string))", "null(bool)"),
    ("or", "", "null(bool)"),
    ("or", "false & null", "false"),
    ("or", "false & true & false", "true"),
    # ---- any
    ("any", "", "null"),
    ("any", "1 & 2", "1"),
    ("any", '"foo" & 1', '"foo"'),
    ("any", "0(int32) & 5(int32)", "0(int32)"),
    ("any", "null(string) & null(ip)", "null(string)"),
    ("any", "null(string) & 80(port=uint16) & 1", "80(port=uint16)"),
    ("any", 'null & error("x")', 'error("x")'),
    # ---- avg
    ("avg", "", "null(float64)"),
    ("avg", "null(int64)", "null(float64)"),
    ("avg", '1 & 2 & 3 & 4 & "foo"', "2.5"),
    ("avg", '"1" & "2e0"', "1.5"),
    ("avg", "2(uint8) & 2.5 & null", "2.25"),
    ("avg", "1((int64,string)) & 2s", "1.0000000005e+09"),
    # ---- collect
    ("collect", "", "null"),
    ("collect", "null & null(int64)", "null"),
    ("collect", '1 & 2 & "foo"', '[1,2,"foo"]'),
    ("collect", "{a:1} & {b:1.5} & {a:2}", "[{a:1},{b:1.5},{a:2}]"),
    ("collect", "80(port=uint16) & 81(uint16)", "[80(uint16),81(uint16)]"),
    ("collect", "1((int64,string)) & 2 & null & 3", "[1,2,3]"),
    ("collect", 'error("x")', '[error("x")]'),
    # ---- collect_map
    ("collect_map", "", "null"),
    ("collect_map", "1 & null(|{string:int64}|)", "null"),
    (
        "collect_map", '|{"APPL":145.03}| & |{"GOOG":87.07}| & |{"APPL":150.13}|',
        '|{"APPL":150.13,"GOOG":87.07}|',
    ),
    (
        "collect_map",
        '|{"foo"(=s):"bar"((int64,string))}| & |{1(u=(int32,int64)):1}| & |{2.:2.}| & |{["bar"]:["bar","baz"]}|',
        '|{1:1,"foo"(=s):"bar",["bar"]:["bar","baz"],2.:2.}|',
    ),
    # ---- count
    ("count", "", "0(uint64)"),
    ("count", '1 & null & error("x")', "3(uint64)"),
    # ---- dcount
    ("dcount", "", "0(uint64)"),
    ("dcount", "1 & 2 & 2 & 3", "3(uint64)"),
    ("dcount", '1 & "foo" & 10.0.0.1', "3(uint64)"),
    ("dcount", "1 & 1(int32) & 1(uint64)", "3(uint64)"),
    ("dcount", "80(port=uint16) & 80(uint16)", "1(uint64)"),
    ("dcount", 'null(string) & ""', "1(uint64)"),
    # ---- fuse
    ("fuse", "", "null(type)"),
    ("fuse", '{a:1,b:2} & {a:2,b:"foo"}', "<{a:int64,b:(int64,string)}>"),
    ("fuse", '{x:1} & {x:"foo",y:"foo"} & {x:2,y:"bar"}', "<{x:(int64,string),y:string}>"),
    ("fuse", "null(ip) & 1", "<(int64,ip)>"),
    # ---- sum, min and max
    ("sum", "", "null"),
    ("sum", 'null & "foo" & [1]', "null"),
    ("sum", "null(int32) & null(uint8)", "null(int64)"),
    ("sum", "1 & 2 & 3 & 4", "10"),
    ("sum", '1 & "foo" & null & 2', "3"),
    ("sum", "1(int32) & 2(int8)", "3"),
    ("sum", "1(uint8) & 2(uint64)", "3(uint64)"),
    ("sum", "1(uint8) & -2(int8)", "-1"),
    ("sum", "80(port=uint16) & 1(uint8)", "81(uint64)"),
    ("sum", "2 & 2.5", "4.5"),
    ("sum", "1.(float32) & 2.(float16)", "3."),
    ("sum", "1s & 5", "1.000000005s"),
    ("sum", "5 & 1s & 2(uint8)", "1.000000007s"),
    ("sum", "1970-01-01T00:00:01Z & 1s & 1", "1970-01-01T00:00:02.000000001Z"),
    ("sum", "1s & 1.", "1000000001."),
    ("sum", "null(time) & 5", "1970-01-01T00:00:00.000000005Z"),
    ("sum", "9223372036854775807 & 1", "-9223372036854775808"),
    ("sum", "18446744073709551615(uint64) & 2(uint64)", "1(uint64)"),
    ("sum", "18446744073709551615(uint64) & 3", "2"),
    ("sum", "9223372036854775807 & 1 & 0.", "-9223372036854775808."),
    ("sum", "1 & 18446744073709551615(uint64)", "0"),
    ("sum", "1. & 9223372036854775808(uint64)", "9.223372036854776e+18"),
    ("sum", "-0.", "0."),
    ("sum", "1((int64,string)) & 2", "3"),
    ("min", "3 & 1 & 2 & null(int64)", "1"),
    ("min", "0(int32) & 5(int32)", "0"),
    ("min", "2 & 2.5", "2."),
    ("min", "null(uint64) & 5", "5"),
    ("min", "Inf", "+Inf"),
    ("min", "NaN & 1. & 2.", "1."),
    ("min", "1. & NaN", "1."),
    ("min", "NaN & NaN", "NaN"),
    ("max", "0(int32) & 10(int32)", "10"),
    ("max", "1(uint8) & 3(uint16)", "3(uint64)"),
    ("max", "2 & 2.5", "2.5"),
    ("max", "-Inf & NaN", "-Inf"),
    ("max", "1s & 2s & 3(uint8)", "2s"),
    ("max", "2020-01-01T00:00:00Z & 2021-01-01T00:00:00Z", "2021-01-01T00:00:00Z"),
    # ---- union
    ("union", "", "null"),
    ("union", "null(int64)", "null"),
    ("union", "1(int32) & -1(int32) & 8(int32) & 1(int32)", "|[1(int32),-1(int32),8(int32)]|"),
    ("union", "1((int64,string)) & 1((int64,string))", "|[1]|(|[(int64,string)]|)"),
    ("union", '"a" & 1 & "a"', '|[1,"a"]|'),
    ("union", "80(port=uint16) & 80(uint16)", "|[80(uint16),80(port=uint16)]|"),
]  # fmt: skip


@pytest.mark.parametrize("name, given_, expected", CASES)
def test_results(name: str, given_: str, expected: str) -> None:
    assert result(name, given_) == expected


@pytest.mark.parametrize("name, given_, expected", [c for c in CASES if c[0] not in ("sum", "min", "max")])
def test_results_of_partials_merged_value_by_value(name: str, given_: str, expected: str) -> None:
    whole = AGGREGATES[name].state(Limits())
    for value in read(given_):
        whole.merge(fed(name, [value]).partial())
    assert format_value(whole.result()) == expected


def test_the_names_are_those_of_the_language() -> None:
    assert AGGREGATES.keys() == lang.AGGREGATES.keys()


def test_missing_values_are_not_fed_but_quiet_ones_are() -> None:
    assert fed("count", [MISSING, QUIET, NULL]).result() == Value(t.UINT64, 2)


def test_the_fast_way_of_sums_and_bounds_agrees_with_the_slow_one() -> None:
    for name, expected in (("sum", 12), ("min", -3), ("max", 9)):
        assert fed(name, [int64(n) for n in (5, 9, -3, 1)]).result() == int64(expected)


# ---- limits


def test_a_collect_drops_the_oldest_values_over_its_limit() -> None:
    assert result("collect", "{a:1}", Limits(1)) == "null"
    assert result("collect", '"ab" & "cd" & "e"', Limits(3)) == '["cd","e"]'
    assert result("collect", '"ab" & "abcd" & "e"', Limits(3)) == '["e"]'


def test_a_union_drops_the_oldest_values_over_its_limit() -> None:
    assert result("union", "{a:1}", Limits(1)) == "null"
    assert result("union", '"ab" & "ab" & "c" & "de"', Limits(3)) == '|["c","de"]|'


def test_merging_keeps_the_limit() -> None:
    for name, expected in (("collect", '["b","c"]'), ("union", '|["b","c"]|')):
        whole = fed(name, [string("a")], Limits(2))
        whole.merge(fed(name, [string("b"), string("c")], Limits(2)).partial())
        assert format_value(whole.result()) == expected


@pytest.mark.parametrize("name", ["any", "collect", "collect_map", "union", "fuse"])
def test_a_value_that_nests_to_the_limit_raises_nothing(name: str) -> None:
    typ: t.Type = t.map_of(t.IP, t.IP)
    while typ.depth < t.MAX_DEPTH:
        typ = t.array(typ) if name != "collect_map" or typ.depth < t.MAX_DEPTH - 1 else t.map_of(t.IP, typ)
    aggregate = fed(name, [int64(1), Value(typ, ())])
    fresh = AGGREGATES[name].state(Limits())
    fresh.merge(aggregate.partial())
    assert fresh.result() == aggregate.result()


def test_a_result_that_would_nest_too_deep_is_an_error_value() -> None:
    typ: t.Type = t.IP
    while typ.depth < t.MAX_DEPTH:
        typ = t.array(typ)
    for name in ("collect", "union", "fuse"):
        found = format_value(fed(name, [int64(1), Value(typ, ())]).result())
        assert found == f'error("type nests deeper than {t.MAX_DEPTH} levels")'


# ---- many distinct values


def test_a_distinct_count_of_many_values_is_about_right() -> None:
    n = 20_000
    parts = [fed("dcount", [int64(i) for i in range(k, n, 2)]) for k in (0, 1)]
    parts[0].merge(parts[1].partial())
    assert abs(parts[0].result().data - n) < 0.03 * n


def test_a_distinct_count_is_the_same_whatever_the_order_and_the_split() -> None:
    n = 20_000
    values = [int64(i) for i in range(n)]
    parts = [fed("dcount", values[k::3]) for k in range(3)]
    for part in parts[1:]:
        parts[0].merge(part.partial())
    found = [fed("dcount", values), fed("dcount", values[::-1]), parts[0]]
    assert len({aggregate.result().data for aggregate in found}) == 1


def test_a_distinct_count_of_some_hundred_values_is_exact() -> None:
    assert fed("dcount", [string(str(i)) for i in range(900)]).result() == Value(t.UINT64, 900)


# ---- any values, split anywhere


def carried(partial: Value) -> Value:
    """A partial value after a way through its binary form."""
    return Value(partial.type, decode(partial.type, encode(partial.type, partial.data)))


def check_split(name: str, given_: list[Value], at: int) -> None:
    first, second = fed(name, given_[:at]), AGGREGATES[name].state(Limits())
    second.merge(carried(first.partial()))
    second.merge(carried(fed(name, given_[at:]).partial()))
    assert second.result() == fed(name, given_).result()


ANY_VALUES = sorted(AGGREGATES.keys() - {"sum", "min", "max", "avg"})


@pytest.mark.parametrize("name", ANY_VALUES)
@settings(max_examples=examples(15))
@given(given_=st.lists(values(), max_size=5), at=st.integers(0, 5))
def test_split_anywhere_the_result_is_the_same(name: str, given_: list[Value], at: int) -> None:
    check_split(name, given_, at)


numbers = st.sampled_from([*t.INT_RANGES, *t.FLOATS]).flatmap(
    lambda typ: st.one_of(st.none(), st.integers(0 if typ in t.UNSIGNED else -100, 100)).map(
        lambda n: Value(typ, float(n) if n is not None and typ in t.FLOATS else n)
    )
)
in_unions = numbers.map(lambda v: Value(u := t.union([v.type, t.STRING]), (u.tags[v.type], v.data)))
no_numbers = values().filter(lambda v: not t.is_number(v.under().type) and v.under().type is not t.STRING)


@pytest.mark.parametrize("name", ["sum", "min", "max", "avg"])
@settings(max_examples=examples(20))
@given(given_=st.lists(st.one_of(numbers, numbers, in_unions, no_numbers), max_size=6), at=st.integers(0, 6))
def test_split_anywhere_small_numbers_add_up_the_same(name: str, given_: list[Value], at: int) -> None:
    check_split(name, given_, at)


@pytest.mark.parametrize("name", sorted(AGGREGATES))
@settings(max_examples=examples(15))
@given(given_=st.lists(values(), max_size=5))
def test_any_values_give_a_value_of_its_type(name: str, given_: list[Value]) -> None:
    aggregate = fed(name, given_)
    for made in (aggregate.result(), aggregate.partial()):
        assert carried(made) == made


@given(st.lists(values(), max_size=5))
def test_packed_values_come_out_as_they_were(given_: list[Value]) -> None:
    packed = pack(given_)
    assert packed.type is PACKED
    assert list(unpack(carried(packed))) == given_


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6))
def test_sums_wrap_around_at_64_bits(given_: list[int]) -> None:
    found = fed("sum", [int64(n) for n in given_]).result().data
    assert -(2**63) <= found < 2**63
    assert (found - sum(given_)) % 2**64 == 0


@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=6))
def test_the_mean_lies_between_the_bounds(given_: list[float]) -> None:
    given_values = [Value(t.FLOAT64, f) for f in given_]
    low, mean, high = (fed(name, given_values).result().data for name in ("min", "avg", "max"))
    assert (low, high) == (min(given_), max(given_))
    assert math.isnan(mean) or low - 1e30 <= mean <= high + 1e30
