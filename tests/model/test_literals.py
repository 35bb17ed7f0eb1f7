from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidInput
from shoal.model import literals as lit

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(INT64)
def test_durations_survive_as_text(ns: int) -> None:
    assert lit.parse_duration(lit.format_duration(ns)) == ns


@given(INT64)
def test_times_survive_as_text(ns: int) -> None:
    assert lit.parse_time(lit.format_time(ns)) == ns


@given(st.floats(), st.sampled_from([2, 4, 8]))
def test_floats_survive_as_text(value: float, size: int) -> None:
    rounded = lit.round_float(value, size)
    again = lit.round_float(lit.parse_float(lit.format_float(rounded, size)), size)
    assert again == rounded or math.isnan(rounded)
    assert math.copysign(1, again) == math.copysign(1, rounded) or math.isnan(rounded)


@pytest.mark.parametrize(
    "ns, text",
    [
        (0, "0s"),
        (10, "10ns"),
        (1_500, "1.5us"),
        (2_716_000, "2.716ms"),
        (1_000_000_000, "1s"),
        (1_000_000_000_000, "16m40s"),
        (90_061_500_000_000, "1d1h1m1.5s"),
        (-(2**63), "-292y171d23h47m16.854775808s"),
        (2**63 - 1, "292y171d23h47m16.854775807s"),
    ],
)
def test_durations_print_as_the_reference_prints_them(ns: int, text: str) -> None:
    assert lit.format_duration(ns) == text


@pytest.mark.parametrize("text, ns", [("1.5h", 5_400_000_000_000), ("2w", 14 * 86400 * 10**9), (".5s", 500_000_000)])
def test_durations_may_be_written_in_other_ways(text: str, ns: int) -> None:
    assert lit.parse_duration(text) == ns


@pytest.mark.parametrize(
    "value, text",
    [
        (1.0, "1."),
        (0.5, "0.5"),
        (-0.0, "-0."),
        (1521911721.926018, "1.521911721926018e+09"),
        (123456.5, "123456.5"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        (1e30, "1e+30"),
        (1e18, "1000000000000000000."),
        (math.inf, "+Inf"),
        (math.nan, "NaN"),
    ],
)
def test_floats_cannot_be_taken_for_integers(value: float, text: str) -> None:
    assert lit.format_float(value) == text


@pytest.mark.parametrize(
    "text, written",
    [
        ("2020-01-01T00:00:00+01:00", "2019-12-31T23:00:00Z"),
        ("2020-01-01T00:00:00.100Z", "2020-01-01T00:00:00.1Z"),
        ("1677-09-21T00:12:43.145224192Z", "1677-09-21T00:12:43.145224192Z"),
    ],
)
def test_times_are_printed_in_utc(text: str, written: str) -> None:
    assert lit.format_time(lit.parse_time(text)) == written


@pytest.mark.parametrize(
    "parse, text",
    [
        (lit.parse_time, "2262-04-12T00:00:00Z"),
        (lit.parse_time, "2020-13-01T00:00:00Z"),
        (lit.parse_time, "2020-01-01"),
        (lit.parse_time, "2020-01-01T00:00:61Z"),
        (lit.parse_duration, "1x"),
        (lit.parse_duration, ""),
        (lit.parse_duration, "1..5s"),
        (lit.parse_duration, "300y"),
        (lit.parse_ip, "1.2.3"),
        (lit.parse_ip, "fe80::1%eth0"),
        (lit.parse_net, "1.2.3.4"),
        (lit.parse_net, "1.2.3.4/33"),
        (lit.parse_float, "0x1"),
    ],
)
def test_what_is_none_is_refused(parse: object, text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)  # type: ignore[operator]


@pytest.mark.parametrize("ip", ["0.0.0.0", "::", "::1", "fe80::1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8"])
def test_addresses_survive_as_text(ip: str) -> None:
    assert lit.format_ip(lit.parse_ip(ip)) == ip
    assert lit.format_net(lit.parse_net(f"{ip}/24")) == f"{ip}/24"


@pytest.mark.parametrize(
    "name, quoted",
    [("a", "a"), ("$x", "$x"), ("a b", '"a b"'), ("", '""'), ("1a", '"1a"'), ("é", "é"), ("a.b", '"a.b"')],
)
def test_names_are_quoted_where_they_must_be(name: str, quoted: str) -> None:
    assert lit.quote_name(name) == quoted
