from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model import types as t
from shoal.model.cast import cast_named, cast_primitive, is_castable, parse_any_time
from shoal.model.literals import format_time
from shoal.model.parse import parse_type, parse_value
from shoal.model.shape import cast
from shoal.model.text import format_value
from shoal.model.values import Value, is_error
from shoal.model.zcode import decode, encode
from shoal.testing.strategies import primitive_types, values

castable_types = primitive_types.filter(is_castable)


def failure(to: str, on: str) -> str:
    return f'error({{message:"cannot cast to {to}",on:{on}}})'


OF_UINT64 = "(error({message:string,on:uint64}))"

CASES = [
    # integers
    ("int8", "1", "1(int8)"),
    ("int8", "200", failure("int8", "200")),
    ("int8", '"123"', "123(int8)"),
    ("int8", '"200"', failure("int8", '"200"')),
    ("int64", "-1.9", "-1"),
    ("int64", "1.9", "1"),
    ("int64", "NaN", failure("int64", "NaN")),
    ("int64", "+Inf", failure("int64", "+Inf")),
    ("int64", "1e30", failure("int64", "1e+30")),
    ("int64", "9223372036854775807(uint64)", "9223372036854775807"),
    ("int64", "9223372036854775808(uint64)", failure("int64", "9223372036854775808(uint64)") + OF_UINT64),
    ("int64", '"+5"', "5"),
    ("int64", '"94607"', "94607"),
    ("int64", '"1.5"', failure("int64", '"1.5"')),
    ("int64", '" 5"', failure("int64", '" 5"')),
    ("int64", '"1_000"', failure("int64", '"1_000"')),
    ("int64", '"٣"', failure("int64", '"٣"')),
    ("int64", "true", failure("int64", "true")),
    ("int64", "2022-02-12T15:48:36.761595Z", "1644680916761595000"),
    ("int64", "2s", "2000000000"),
    ("int64", "{a:1}", failure("int64", "{a:1}")),
    ("uint64", "2022-02-12T15:48:36.761595Z", "1644680916761595000(uint64)"),
    ("uint8", "-1", failure("uint8", "-1")),
    ("uint8", "-0.5", "0(uint8)"),
    ("uint8", '"+5"', failure("uint8", '"+5"')),
    ("uint16", '"available"', failure("uint16", '"available"')),
    # floats
    ("float64", "2022-02-12T15:48:36.761595Z", "1644680916761594880."),
    ("float64", '"1"', "1."),
    ("float64", '"1e999"', failure("float64", '"1e999"')),
    ("float64", '"-Infinity"', "-Inf"),
    ("float64", '"nan"', "NaN"),
    ("float64", '"+nan"', failure("float64", '"+nan"')),
    ("float64", '"0x1p-2"', "0.25"),
    ("float64", '"0x10"', failure("float64", '"0x10"')),
    ("float64", '"1_000.5"', "1000.5"),
    ("float64", '"_1"', failure("float64", '"_1"')),
    ("float64", "1.1.1.1", failure("float64", "1.1.1.1")),
    ("float32", "0.1", "0.1(float32)"),
    ("float16", "100000.", "+Inf(float16)"),
    # bool
    ("bool", "0", "false"),
    ("bool", "-1", "true"),
    ("bool", "0.5", "false"),
    ("bool", "NaN", "true"),
    ("bool", '"T"', "true"),
    ("bool", '"False"', "false"),
    ("bool", '"yes"', failure("bool", '"yes"')),
    ("bool", "0x00", failure("bool", "0x00")),
    # addresses
    ("ip", "1.1.1.1", "1.1.1.1"),
    ("ip", '"10.0.0.1"', "10.0.0.1"),
    ("ip", '"::1"', "::1"),
    ("ip", "1", failure("ip", "1")),
    ("ip", '"foo"', failure("ip", '"foo"')),
    ("net", "10.0.0.0/8", "10.0.0.0/8"),
    ("net", '"74.53.140.153/32"', "74.53.140.153/32"),
    ("net", "1.1.1.1", failure("net", "1.1.1.1")),
    # durations
    ("duration", '"1h30m"', "1h30m"),
    ("duration", '"1500"', "1.5us"),
    ("duration", '""', failure("duration", '""')),
    ("duration", '"inf"', failure("duration", '"inf"')),
    ("duration", "1.5e9", "1.5s"),
    ("duration", "1000", "1us"),
    ("duration", "2022-02-12T15:48:36.761595Z", "52y55d15h48m36.761595s"),
    ("duration", "true", failure("duration", "true")),
    # times
    ("time", "null", "null(time)"),
    ("time", "1.521911720600843e+18", "2018-03-24T17:15:20.600843008Z"),
    ("time", '"2018-03-24T17:15:20.600843Z"', "2018-03-24T17:15:20.600843Z"),
    ("time", '"3"', "1970-01-01T00:00:00.000000003Z"),
    ("time", '"1.5e9"', "1970-01-01T00:00:01.5Z"),
    ("time", "-1", "1969-12-31T23:59:59.999999999Z"),
    ("time", "NaN", failure("time: coerce to int failed", "NaN")),
    ("time", "true", failure("time", "true")),
    ("time", '"a"', failure("time", '"a"')),
    # strings
    ("string", "0x303132", '"012"'),
    ("string", "0xc328", failure("string: invalid UTF-8", "0xc328")),
    ("string", "%bar(enum(foo,bar,baz))", '"bar"'),
    ("string", "1", '"1"'),
    ("string", "1(uint8)", '"1(uint8)"'),
    ("string", "1(=port)", '"1(=port)"'),
    ("string", '{a:"x"}', '"{a:\\"x\\"}"'),
    ("string", "<int64>", '"<int64>"'),
    # bytes
    ("bytes", '"hello"', "0x68656c6c6f"),
    ("bytes", "0x01", "0x01"),
    ("bytes", "1", "0x02"),
    ("bytes", "1.1.1.1", "0x01010101"),
    # types
    ("type", '"<int64>"', "<int64>"),
    ("type", '"<{x:string}>"', "<{x:string}>"),
    ("type", "<int64>", "<int64>"),
    ("type", '"1"', failure("type", '"1"')),
    ("type", "1.", failure("type", "1.")),
    # null is never castable to, errors pass
    ("null", "1", 'error("cast to null not implemented")'),
    ("int64", 'error("x")', 'error("x")'),
    ("ip", "null", "null(ip)"),
    ("string", "null(int64)", "null(string)"),
    # named targets
    ("port=uint16", "80", "80(port=uint16)"),
    ("port=uint16", '"x"', failure("uint16", '"x"')),
    ("uint16", "80(port=uint16)", "80(uint16)"),
    ("p=ip", '"1.1.1.1"', "1.1.1.1(=p)"),
]


@pytest.mark.parametrize(("to", "given_", "wanted"), CASES)
def test_primitive_casts(to: str, given_: str, wanted: str) -> None:
    assert format_value(cast(parse_value(given_), parse_type(to))) == wanted


def test_what_is_no_type_text_is_refused_with_the_parser_s_words() -> None:
    made = cast(parse_value('"<"'), t.TYPE)
    assert is_error(made)
    assert made.data[1] == "<"


TIMES = [
    ("2015-03-05T16:07:13.154566+0100", "2015-03-05T15:07:13.154566Z"),
    ("2015-03-05T16:07:13.154566+01:00", "2015-03-05T15:07:13.154566Z"),
    ("2021-06-08T09:41-04", "2021-06-08T13:41:00Z"),
    ("2021-06-08T09:41:07:250", "2021-06-08T09:41:07.25Z"),
    ("2021-06-08", "2021-06-08T00:00:00Z"),
    ("2021-6-8", "2021-06-08T00:00:00Z"),
    ("2021-06", "2021-06-01T00:00:00Z"),
    ("2021.06", "2021-06-01T00:00:00Z"),
    ("2021", "2021-01-01T00:00:00Z"),
    ("2021-06-08+08:00", "2021-06-07T16:00:00Z"),
    ("2021-06-08 09:41", "2021-06-08T09:41:00Z"),
    ("2021-06-08 09:41:07", "2021-06-08T09:41:07Z"),
    ("2021-06-08 09:41:07,123", "2021-06-08T09:41:07.123Z"),
    ("2021-06-08 09:41:07.123456789", "2021-06-08T09:41:07.123456789Z"),
    ("2021-06-08 09:41:07 PM", "2021-06-08T21:41:07Z"),
    ("2021-06-08 09:41:07 UTC", "2021-06-08T09:41:07Z"),
    ("2021-06-08 09:41:07 PST", "2021-06-08T09:41:07Z"),
    ("2021-06-08 09:41:07+00:00", "2021-06-08T09:41:07Z"),
    ("2021-06-08 09:41:07 +0530", "2021-06-08T04:11:07Z"),
    ("2021-06-08 09:41:07.5 -06:00 MDT", "2021-06-08T15:41:07.5Z"),
    ("2021-06-08 09:41:07 +0300 +03", "2021-06-08T06:41:07Z"),
    ("2021-06-08 09:41:07 +0300 MSK m=+0.000000001", "2021-06-08T06:41:07Z"),
    ("2021/06/08", "2021-06-08T00:00:00Z"),
    ("2021/6/8 9:4", "2021-06-08T09:04:00Z"),
    ("2021/06/08 09:41:07.123 AM", "2021-06-08T09:41:07.123Z"),
    ("2021:06:08 09:41", "2021-06-08T09:41:00Z"),
    ("2021.06.08", "2021-06-08T00:00:00Z"),
    ("2021年06月08日 09:41:07", "2021-06-08T09:41:07Z"),
    ("1/2/2020", "2020-01-02T00:00:00Z"),
    ("06/08/2021 09:41:07", "2021-06-08T09:41:07Z"),
    ("5/26/2020 3:27pm", "2020-05-26T15:27:00Z"),
    ("8/8/65 12:00 AM", "2065-08-08T00:00:00Z"),
    ("8/8/71 12:30 PM", "1971-08-08T12:30:00Z"),
    ("6.8.2021", "2021-06-08T00:00:00Z"),
    ("Tue, 08 Jun 2021 09:41:07 GMT", "2021-06-08T09:41:07Z"),
    ("Tue, 08 Jun 2021 09:41:07 MST", "2021-06-08T09:41:07Z"),
    ("Tue, 8 Jun 2021 09:41:07 -0700", "2021-06-08T16:41:07Z"),
    ("Tue, 8 Jun 2021 09:41:07 +0200 (CEST)", "2021-06-08T07:41:07Z"),
    ("Tuesday, 08-Jun-21 09:41:07 MST", "2021-06-08T09:41:07Z"),
    ("Tue Jun  8 09:41:07 2021", "2021-06-08T09:41:07Z"),
    ("Tue Jun  8 09:41:07 MST 2021", "2021-06-08T09:41:07Z"),
    ("Tue Jun 08 09:41:07 -0700 2021", "2021-06-08T16:41:07Z"),
    ("Tue Jun 8 09:41:07 CEST+0200 2021", "2021-06-08T07:41:07Z"),
    ("Tue Jun 08 2021 09:41:07 GMT+0100 (British Summer Time)", "2021-06-08T08:41:07Z"),
    ("May 8, 2009 5:57:51 PM", "2009-05-08T17:57:51Z"),
    ("June 8, 2021", "2021-06-08T00:00:00Z"),
    ("June 8th, 2021, 09:41:07", "2021-06-08T09:41:07Z"),
    ("June 8, 2021 at 9:41am PST-08", "2021-06-08T17:41:00Z"),
    ("June 8, 2021 at 9:41am UTC-08", "2021-06-08T09:41:00Z"),
    ("oct 7, 1970", "1970-10-07T00:00:00Z"),
    ("Oct. 7, '70", "1970-10-07T00:00:00Z"),
    ("sept. 7, 1970", "1970-09-07T00:00:00Z"),
    ("7 oct 70", "1970-10-07T00:00:00Z"),
    ("12 Feb 2006 19:17", "2006-02-12T19:17:00Z"),
    ("12 Feb 2006, 19:17:22.5", "2006-02-12T19:17:22.5Z"),
    ("03 February 2013", "2013-02-03T00:00:00Z"),
    ("2013-Feb-03", "2013-02-03T00:00:00Z"),
    ("06/Jan/2008:08:11:17 -0700", "2008-01-06T15:11:17Z"),
    ("20210608", "2021-06-08T00:00:00Z"),
    ("20210608094107", "2021-06-08T09:41:07Z"),
    ("210608 09:41:07", "2021-06-08T09:41:07Z"),
    ("1332151919", "2012-03-19T10:11:59Z"),
    ("1384216367111", "2013-11-12T00:32:47.111Z"),
    ("1384216367111222", "2013-11-12T00:32:47.111222Z"),
    ("1384216367111222333", "2013-11-12T00:32:47.111222333Z"),
]


@pytest.mark.parametrize(("text", "wanted"), TIMES)
def test_times_in_many_layouts(text: str, wanted: str) -> None:
    assert format_time(parse_any_time(text)) == wanted
    assert cast(Value(t.STRING, text), t.TIME) == Value(t.TIME, parse_any_time(text))


@pytest.mark.parametrize(
    "text",
    [
        "", "tomorrow", "2021-13-01", "2021-02-30", "13/13/2021", "2021-06-08 25:00", "2021-06-08 13:00 PM",
        "2021-06-08 09:60", "2021-06-08 09:41:07 +2500", " 2021-06-08", "29-06-2016", "5,000-9,999", "xyzq-baad",
        "septe. 7, 1970", "1066-10-14", "9999-12-31", "1" * 200 + "-01-01", "٢٠٢١-06-08",
    ],
)  # fmt: skip
def test_texts_that_are_no_times(text: str) -> None:
    assert format_value(cast(Value(t.STRING, text), t.TIME)).startswith('error({message:"cannot cast to time",on:"')


def test_a_name_is_given_to_the_type_below_all_names() -> None:
    assert format_value(cast_named(parse_value("{a:1,b:2}"), "foo")) == "{a:1,b:2}(=foo)"
    assert format_value(cast_named(parse_value("80(port=uint16)"), "foo")) == "80(foo=uint16)"
    assert format_value(cast_named(parse_value('error("x")'), "foo")) == 'error("x")'
    wanted = r'error("bad type name \"int64\": primitive type name")'
    assert format_value(cast_named(parse_value("1"), "int64")) == wanted


def test_a_value_at_the_depth_limit_fails_without_its_value() -> None:
    deep = t.array(t.INT64)
    while deep.depth < t.MAX_DEPTH:
        deep = t.array(deep)
    value = Value(deep, ())
    assert format_value(cast_primitive(value, t.IP)) == 'error("cannot cast to ip")'
    assert is_error(cast_named(value, "foo"))


@given(values(), castable_types)
def test_any_value_casts_to_any_primitive_or_to_an_error(value: Value, to: t.Type) -> None:
    made = cast_primitive(value, to)
    assert made.type is to or is_error(made)
    body = encode(made.type, made.data)
    assert encode(made.type, decode(made.type, body)) == body
    assert parse_value(format_value(made)) == made


@given(st.text(), castable_types)
def test_any_text_casts_to_any_primitive_or_to_an_error(text: str, to: t.Type) -> None:
    made = cast_primitive(Value(t.STRING, text), to)
    assert made.type is to or is_error(made)


time_like = st.from_regex(r"[0-9]{1,4}[-/. :][0-9A-Za-z]{1,4}[-/. ,:]{1,2}[0-9]{1,4}([ T][0-9:.,apmAPMZ+-]{1,12})?")


@given(time_like)
def test_texts_that_look_like_times_never_raise(text: str) -> None:
    made = cast_primitive(Value(t.STRING, text), t.TIME)
    assert made.type is t.TIME or is_error(made)


@given(values())
def test_a_name_comes_off_again(value: Value) -> None:
    made = cast_named(value, "a_name_of_its_own")
    if not is_error(made):
        assert Value(value.type.under, made.data) == Value(value.type.under, value.data)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from((t.INT64, t.TIME, t.DURATION)))
def test_numbers_come_back_from_their_text(n: int, typ: t.Type) -> None:
    value = Value(typ, n)
    text = cast_primitive(value, t.STRING)
    if typ is not t.TIME or 4 <= len(text.data.partition("-")[0]):
        assert cast_primitive(text, typ) == value
