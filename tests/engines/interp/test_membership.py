"""Membership in a constant: hashed parts give the same answers as comparing one by one."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from shoal.engines.interp.environment import Env, Run
from shoal.engines.interp.expressions.compare import contained, contained_in_literal
from shoal.engines.interp.reshape import parts
from shoal.model.parse import parse_value
from shoal.model.values import NULL, Value, is_error
from shoal.testing.queries import answer
from shoal.testing.strategies import values

NUMBERS = [
    "1",
    "1.",
    "1(uint8)",
    "NaN",
    "0.",
    "-0.",
    "9007199254740993",
    "9007199254740992.",
    "1s",
    "1970-01-01T00:00:00Z",
]
SIMPLE = [*NUMBERS, "null", "null(string)", '"a"', "0x61", "true", "10.0.0.1", "10.0.0.0/8", "<int64>", "%a(enum(b,a))"]
SPECIAL = [parse_value(text) for text in SIMPLE]


def same(needle: Value, container: Value) -> None:
    env = Env(Run())
    plain = contained(lambda this, env: needle, lambda this, env: container)(NULL, env)
    assert contained_in_literal(lambda this, env: needle, container)(NULL, env) == plain


@given(values(), values(), st.data())
def test_hashed_parts_are_what_comparing_one_by_one_gives(needle: Value, container: Value, data: st.DataObject) -> None:
    assume(not is_error(container))
    same(needle, container)
    members = [Value(typ, part) for typ, part in parts(container.type, container.data)]
    same(data.draw(st.sampled_from(members)), container)


def test_numbers_nulls_and_simple_values() -> None:
    for text in (
        f"[{','.join(SIMPLE)}]",
        f"|[{','.join(NUMBERS)}]|",
        f"{{a:[{','.join(NUMBERS)}],b:null}}",
        "1",
        "null",
    ):
        for needle in SPECIAL:
            same(needle, parse_value(text))


def test_a_long_list_of_constants_takes_no_time() -> None:
    constants = ",".join(map(str, range(0, 40_000, 2)))
    numbers = " ".join(map(str, range(20_000)))
    assert answer(f"this in [{constants}] | count()", numbers) == "10000(uint64)"
