"""What may come of a function is known beforehand: whatever the interpreter makes of values is among it."""

from __future__ import annotations

import random
from itertools import product

import pytest

from shoal.engines.interp.engine import evaluate
from shoal.engines.sql import build
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, always
from shoal.engines.sql.result_types import FUNCTIONS, results_of
from shoal.lang import plan
from shoal.lang.functions import SIGNATURES
from shoal.model.parse import parse_value
from shoal.model.values import Value

VALUES = [parse_value(text) for text in (
    "1", "-1", "0", "9223372036854775807", "-9223372036854775808", "null(int64)", "255(uint8)", "0(uint8)",
    "18446744073709551615(uint64)", "-128(int8)", "33", "null(uint16)", "1.5", "-1.5", "NaN", "-Inf", "null(float64)",
    "1.5(float32)", "2.5(float16)", "true", "null(bool)", '""', '"x"', '"12"', '"-7"', '"1.5"', '"1h"', '"ß é"',
    '"10.0.0.1"', '"10.0.0.0/8"', '"http://a.b:80/c?d=e#f"', '"http://[::"', '"2020-01-01"', '"0x0a"', '"0aff"',
    '"AQID"', '"<int64>"', '"%Y"', '"%"', '"("', '"(a)"', "null(string)", '"x"(=name)', "80(port=uint16)", "0x0aff",
    "0xff", "0x", "null(bytes)", "10.0.0.1", "255.255.0.0", "::1", "ff::", "null(ip)", "10.0.0.0/8", "::/0",
    "null(net)", "1s", "-3h", "null(duration)", "2020-01-01T00:00:00Z", "null(time)", "<int64>", "<{a:int64}>",
    "null(type)", "[1,2]", "[]([int64])", '["a","b"]', "null([string])", '[1,"a"]', "|[1]|", "|{1:2}|", '|{"a":"b"}|',
    "{a:1}", "{}", '{a:"x",b:{c:10.0.0.1}}', "null({a:int64})", "1((int64,string))", '"x"((int64,string))',
    "null((int64,string))", "%a(enum(a,b))", "null(enum(a,b))", 'error("x")', "error(1)", "null", "[null]",
)]  # fmt: skip
TYPES = [parse_value(f"<{name}>") for name in (
    "int64", "uint8", "int16", "float64", "float16", "bool", "string", "bytes", "time", "duration", "ip", "net", "type",
    "port=uint16",
)]  # fmt: skip


def column(value: Value) -> Node:
    return Leaf(value.type, build.column("x"))


def check(make, values: tuple[Value, ...], nodes: tuple[Node, ...]) -> None:  # type: ignore[no-untyped-def]
    expr = make(*map(plan.Literal, values))
    try:
        expected = results_of(expr, [always(node) for node in nodes])
    except NotColumnar:
        return
    found = evaluate(expr)
    assert found in expected or found.type in expected, (expr, found, expected)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name: str) -> None:
    signature = SIGNATURES[name]
    dice = random.Random(name)
    least = max(1, signature.min_args + (signature.default is not None))
    most = max(least, signature.max_args or least + 1)
    for count in range(least, most + 1):
        others = TYPES if name == "cast" else VALUES
        args = list(product(*[VALUES, *[others] * (count - 1)]))
        for values in dice.sample(args, min(len(args), 300)):
            nodes = tuple(map(column, values))
            if count > 1 and (name == "cast" or dice.random() < 0.5):
                place = dice.randrange(1, count) if name == "cast" else dice.randrange(count)
                nodes = (*nodes[:place], Const(values[place]), *nodes[place + 1 :])
            check(lambda *found: plan.Call(name, found), values, nodes)


@pytest.mark.parametrize("op", ["==", "<", "in", "+", "-", "*", "/", "%"])
def test_operators(op: str) -> None:
    for a, b in random.Random(op).sample(list(product(VALUES, VALUES)), 300):
        check(lambda x, y: plan.Binary(op, x, y), (a, b), (column(a), column(b)))


def test_elements_parts_and_signs() -> None:
    for a, b in random.Random(1).sample(list(product(VALUES, VALUES)), 1000):
        check(plan.Index, (a, b), (column(a), column(b)))
        check(lambda x, y: plan.Slice(x, y, None), (a, b), (column(a), column(b)))
        check(lambda x: plan.Unary("-", x), (a,), (column(a),))
        check(lambda x: plan.Dot(x, "a"), (a,), (column(a),))
