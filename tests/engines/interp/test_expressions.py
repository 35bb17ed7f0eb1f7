"""Expressions over values of any type; what each means is in `tests/cases/language`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.model.values import Value
from shoal.testing.queries import run
from shoal.testing.strategies import values

OPERATORS = ["==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%", "and", "or"]


@given(values(), values(), st.sampled_from(OPERATORS))
def test_an_operator_has_an_answer_for_any_two_values(a: Value, b: Value, op: str) -> None:
    pair = run("yield {a:this[0],b:this[1]}", run("collect(this)", [a, b]))
    for value in pair:
        assert len(run(f"yield a {op} b", [value])) == 1


@given(values())
def test_a_value_is_itself(value: Value) -> None:
    assert run("yield this", [value]) == [value]
    assert run("uniq", [value, value]) == [value]
