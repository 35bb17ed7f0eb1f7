from __future__ import annotations

import ipaddress
import json
import pickle
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from shoal.errors import InvalidInput
from shoal.frames.python_values import Error, from_python, to_python
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.samples import every_kind_everywhere


@given(strategies.values())
def test_every_value_comes_back_from_python(value: Value) -> None:
    assert from_python(to_python(value)) == value


def test_values_of_every_kind_come_back_from_python_and_from_a_pickle() -> None:
    for value in every_kind_everywhere():
        assert from_python(to_python(value)) == value
        assert from_python(pickle.loads(pickle.dumps(to_python(value)))) == value


@pytest.mark.parametrize(
    "text, expected",
    [
        ("null", None),
        ("true", True),
        ("1", 1),
        ("255(uint8)", 255),
        ("1.5", 1.5),
        ("1.5(float32)", 1.5),
        ('"x"', "x"),
        ('"x"(=name)', "x"),
        ("%b(enum(a,b))", "b"),
        ("0x00ff", b"\0\xff"),
        ("1970-01-01T00:00:00.000000001Z", np.datetime64(1, "ns")),
        ("-1ns", np.timedelta64(-1, "ns")),
        ("10.0.0.1", ipaddress.ip_address("10.0.0.1")),
        ("::1", ipaddress.ip_address("::1")),
        ("10.0.0.0/8", ipaddress.ip_network("10.0.0.0/8")),
        ("10.1.2.3/8", ipaddress.ip_interface("10.1.2.3/8")),
        ('{a:1,b:{c:null(ip),d:80(uint16)},e:["x"]}', {"a": 1, "b": {"c": None, "d": 80}, "e": ["x"]}),
        ("|[1,2]|", {1, 2}),
        ("|[{a:1}]|", [{"a": 1}]),
        ("|[0.,-0.]|", [0.0, -0.0]),
        ('|{1:"a"}|', {1: "a"}),
        ('|{{a:1}:"a"}|', [({"a": 1}, "a")]),
        ('[1,"a",null]', [1, "a", None]),
        ('error("missing")', Error("missing")),
        ("error({message:1})", Error({"message": 1})),
    ],
)
def test_values_look_like_plain_python(text: str, expected: object) -> None:
    made = to_python(parse_value(text))
    assert made == expected
    assert repr(made) == repr(expected) or isinstance(made, frozenset)


@pytest.mark.parametrize(
    "text", ["null(ip)", "true(=flag)", "1((int64,string))", "1970-01-01T00:00:00Z(=t)", "error(null)"]
)
def test_what_python_has_no_class_for_stays_a_value(text: str) -> None:
    value = parse_value(text)
    assert to_python(value) is value


def test_records_are_dicts_to_everybody() -> None:
    made = to_python(parse_value("{a:1(uint8),b:[null(string)]}"))
    assert isinstance(made, dict)
    assert json.dumps(made) == '{"a": 1, "b": [null]}'


def test_a_changed_record_keeps_its_type_while_it_fits() -> None:
    made = to_python(parse_value('{a:1(uint8),e:%x(enum(x,y)),u:"s"((int64,string))}'))
    made.update(a=2, e="y", u=3)
    assert format_value(from_python(made)) == "{a:2(uint8),e:%y(enum(x,y)),u:3((int64,string))}"
    made["a"] = 256
    assert format_value(from_python(made)) == '{a:256,e:"y",u:3}'
    made["a"], made["z"] = 1, None
    assert format_value(from_python(made)) == '{a:1,e:"y",u:3,z:null}'


@pytest.mark.parametrize(
    "obj, expected",
    [
        ({"a": 1, "b": [1, 2.5, None]}, "{a:1,b:[1,2.5,null]}"),
        ({"a": 1, 2: "b"}, '|{2:"b","a":1}|'),
        ((1, 2), "[1,2]"),
        ({3, 1}, "|[1,3]|"),
        ([], "[]"),
        (2**63, "9223372036854775808(uint64)"),
        (-(2**63), "-9223372036854775808"),
        (bytearray(b"a"), "0x61"),
        (memoryview(b"a"), "0x61"),
        (uuid.UUID(int=0), '"00000000-0000-0000-0000-000000000000"'),
        (datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2024-01-02T03:04:05.000006Z"),
        (datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "2024-01-02T01:00:00Z"),
        (datetime(2024, 1, 2), "2024-01-02T00:00:00Z"),
        (Decimal("1.10"), "1.10(decimal(18,2))"),
        (Decimal("-1234567890123456789"), "-1234567890123456789(decimal(38,0))"),
        (Decimal("1E+3"), "1000(decimal(18,0))"),
        (date(2024, 1, 2), "2024-01-02"),
        (timedelta(days=-1, microseconds=1), "-23h59m59.999999s"),
        (np.uint8(3), "3(uint8)"),
        (np.float32(0.5), "0.5(float32)"),
        (np.float64(0.5), "0.5"),
        (np.bool(True), "true"),
        (np.array([[1, 2], [3, 4]], np.int16), "[[1(int16),2(int16)],[3(int16),4(int16)]]"),
        (np.datetime64("2024-01-02"), "2024-01-02T00:00:00Z"),
        (np.timedelta64(5, "s"), "5s"),
        (np.datetime64("NaT"), "null(time)"),
        (pd.Timestamp(1, unit="ns", tz="Europe/Berlin"), "1970-01-01T00:00:00.000000001Z"),
        (pd.Timedelta(1, unit="ns"), "1ns"),
        (pd.NA, "null"),
        (Error({"a": Error(1)}), "error({a:error(1)})"),
        ({"v": parse_value("1(uint8)")}, "{v:1(uint8)}"),
        ({"v": to_python(parse_value("{a:null(ip)}"))}, "{v:{a:null(ip)}}"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_python_objects_become_values(obj: object, expected: str) -> None:
    assert format_value(from_python(obj)) == expected


def nested() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    "obj, error",
    [
        (2**64, "an int of more than 64 bits"),
        (Decimal("NaN"), "NaN is not a number that a decimal can hold"),
        (Decimal(10) ** 40, "has more than 38 digits"),
        (object(), "no Zed value for a Python object of type object"),
        ("\ud800", "is not valid text"),
        ({"\ud800": 1}, "is not valid text"),
        (nested(), "nests deeper than 128 levels"),
        (datetime(1600, 1, 1), "out of range"),
        (timedelta(days=365 * 300), "out of range"),
        (np.datetime64("1600-01-01"), "out of range"),
        (np.complex128(1), "no Zed value for complex128 of numpy"),
        (ipaddress.ip_address("fe80::1%eth0"), "a zone is not part of an address"),
    ],
    ids=lambda item: item if isinstance(item, str) and item.isascii() else type(item).__name__,
)
def test_what_zed_has_no_value_for_is_refused(obj: object, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        from_python(obj)
