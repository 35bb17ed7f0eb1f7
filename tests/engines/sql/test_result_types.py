"""What may come of a function is known beforehand: whatever the interpreter makes of values is among it."""

from __future__ import annotations

import os
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
from shoal.testing.samples import ODD_TEXTS

SAMPLES = 3000 if os.environ.get("SHOAL_TESTS") == "long" else 100
VALUES = [parse_value(text) for text in ODD_TEXTS]
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
        for _ in range(SAMPLES):
            values = (dice.choice(VALUES), *(dice.choice(others) for _ in range(count - 1)))
            nodes = tuple(map(column, values))
            if count > 1 and (name == "cast" or dice.random() < 0.5):
                place = dice.randrange(1, count) if name == "cast" else dice.randrange(count)
                nodes = (*nodes[:place], Const(values[place]), *nodes[place + 1 :])
            check(lambda *found: plan.Call(name, found), values, nodes)


@pytest.mark.parametrize("op", ["==", "<", "in", "+", "-", "*", "/", "%"])
def test_operators(op: str) -> None:
    for a, b in random.Random(op).sample(list(product(VALUES, VALUES)), SAMPLES):
        check(lambda x, y: plan.Binary(op, x, y), (a, b), (column(a), column(b)))


def test_elements_parts_and_signs() -> None:
    for a, b in random.Random(1).sample(list(product(VALUES, VALUES)), SAMPLES):
        check(plan.Index, (a, b), (column(a), column(b)))
        check(lambda x, y: plan.Slice(x, y, None), (a, b), (column(a), column(b)))
        check(lambda x: plan.Unary("-", x), (a,), (column(a),))
        check(lambda x: plan.Dot(x, "a"), (a,), (column(a),))
