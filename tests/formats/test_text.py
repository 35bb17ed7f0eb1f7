"""Values as plain text."""

from __future__ import annotations

import io

import pytest

from shoal.formats import text
from shoal.formats.streams import WriteOptions
from shoal.model import types as t
from shoal.model.literals import SECOND, parse_ip, parse_time
from shoal.model.values import MISSING, NULL, Value, array, int64, map_of, record, set_of, string, text_error

ENDPOINT = t.record([("orig_h", t.IP), ("orig_p", t.named("port", t.UINT16))])
CONN = t.record([("_path", t.STRING), ("ts", t.TIME), ("id", ENDPOINT)])
TS = parse_time("2015-03-05T14:25:14.419939Z")

LINES = [
    (string("a@b"), "a@b"),
    (string("tab\there"), "tab\\x09here"),
    (string(""), ""),
    (Value(t.named("name", t.STRING), "x"), "x"),
    (int64(-1), "-1"),
    (Value(t.UINT8, 1), "1"),
    (Value(t.FLOAT64, 472.0), "472"),
    (Value(t.FLOAT64, 484.99019042123484), "484.99019042123484"),
    (Value(t.FLOAT64, 1e21), "1000000000000000000000"),
    (Value(t.BOOL, True), "T"),
    (Value(t.TIME, TS), "2015-03-05T14:25:14.419939Z"),
    (Value(t.DURATION, 60 * SECOND), "60.000000"),
    (Value(t.IP, parse_ip("::1")), "::1"),
    (Value(t.BYTES, b"\x01"), "AQ=="),
    (Value(t.TYPE, CONN.fields[0].type), "<string>"),
    (Value(t.enum(["up", "down"]), 1), "down"),
    (Value(t.union([t.INT64, t.STRING]), (1, "x")), "x"),
    (Value(t.TIME, None), "-"),
    (NULL, "-"),
    (MISSING, "-"),
    (text_error("no"), 'error("no")'),
    (array([int64(1), int64(2)]), "1,2"),
    (set_of([string("a"), string("b")]), "a,b"),
    (array([]), "(empty)"),
    (array([record([("a", int64(1))])]), "[{a:1}]"),
    (map_of([(string("k"), int64(1))]), '|{"k":1}|'),
    (Value(CONN, ("conn", TS, (b"\x0a\0\0\1", 80))), "conn\t2015-03-05T14:25:14.419939Z\t10.0.0.1\t80"),
    (Value(CONN, ("conn", TS, None)), "conn\t2015-03-05T14:25:14.419939Z\t-\t-"),
    (record([("a", string("x y")), ("b", string("z"))]), "x y\tz"),
    (Value(t.record([]), ()), ""),
]


@pytest.mark.parametrize(("value", "line"), LINES)
def test_a_value_is_written_without_decoration(value: Value, line: str) -> None:
    out = io.BytesIO()
    writer = text.Writer(out, WriteOptions())
    writer.write(value)
    writer.close()
    assert out.getvalue().decode() == line + "\n"
