from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.interp.reshape import FuseState, ShapeState, explode
from shoal.model import types as t
from shoal.model.parse import parse_type, parse_value
from shoal.model.text import format_value
from shoal.model.values import Value, is_error
from shoal.model.zcode import decode, encode
from shoal.testing.strategies import data_of, primitive_types, record_types, types, values


def converted(state: FuseState | ShapeState, values: Sequence[Value]) -> list[Value]:
    """All values as the state makes them, once it has seen them all."""
    for value in values:
        state.observe(value)
    return [state.convert(value) for value in values]


def read(texts: str) -> list[Value]:
    return [parse_value(text) for text in texts.split(" & ")] if texts else []


def written(found: list[Value]) -> str:
    return " & ".join(map(format_value, found))


# ---- fuse

FUSED = [
    ("", ""),
    ("{a:1} & {b:2}", "{a:1,b:null(int64)} & {a:null(int64),b:2}"),
    (
        '{a:"hello",b:"world"} & {a:"goodnight",b:123(int32)}',
        '{a:"hello",b:"world"((int32,string))} & {a:"goodnight",b:123(int32)((int32,string))}',
    ),
    (
        '{x:1} & {x:"foo",y:"foo"} & {x:2,y:"bar"}',
        '{x:1((int64,string)),y:null(string)} & {x:"foo"((int64,string)),y:"foo"} & {x:2((int64,string)),y:"bar"}',
    ),
    ('1 & "a" & null', '1((int64,string)) & "a"((int64,string)) & null((int64,string))'),
    ('[{a:1}] & [{b:"x"}]', '[{a:1,b:null(string)}] & [{a:null(int64),b:"x"}]'),
    ('{a:1}(=r) & {a:2}(=r)', "{a:1}(=r) & {a:2}(=r)"),
    ('error("x") & 1', 'error("x") & 1((int64,error(string)))'),
    (
        "1 & {a:1} & {b:2}",
        ("1((int64,{a:int64,b:int64})) & {a:1,b:null(int64)}((int64,{a:int64,b:int64}))"
        " & {a:null(int64),b:2}((int64,{a:int64,b:int64}))"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("given_, expected", FUSED)
def test_fuse_gives_all_values_one_type(given_: str, expected: str) -> None:
    assert written(list(converted(FuseState(), read(given_)))) == expected


def test_fuse_converts_values_that_were_kept_elsewhere() -> None:
    state = FuseState()
    assert state.type is None
    for value in read("{a:1} & {b:2}"):
        state.observe(value)
    assert state.type is parse_type("{a:int64,b:int64}")
    assert format_value(state.convert(parse_value("{b:2}"))) == "{a:null(int64),b:2}"


rows = st.lists(record_types(primitive_types), min_size=1, max_size=3).flatmap(
    lambda mixed: st.tuples(*(st.builds(Value, st.just(typ), data_of(typ)) for typ in mixed))
)


@given(rows)
def test_fused_records_keep_all_their_information(given_: tuple[Value, ...]) -> None:
    fused = list(converted(FuseState(), given_))
    assert len({value.type for value in fused}) == 1
    for before, after in zip(given_, fused, strict=True):
        assert after.is_null == before.is_null
        for name in () if before.is_null else before.type.index:  # type: ignore[attr-defined]
            old, new = before.field(name), after.field(name)
            assert old is not None
            assert new is not None
            assert new.is_null if old.is_null else new.under() == old


@given(st.lists(values(), max_size=4))
def test_fuse_takes_any_values(given_: list[Value]) -> None:
    for before, after in zip(given_, converted(FuseState(), given_), strict=True):
        assert decode(after.type, encode(after.type, after.data)) is not None or after.is_null
        assert after == before or not is_error(before)


# ---- shape

SHAPED = [
    ("", ""),
    ("{a:10,b:null} & {a:null,b:11}", "{a:10,b:null(int64)} & {a:null(int64),b:11}"),
    (
        "{a:10.,b:null,c:null(float64)} & {a:null,b:11.,c:11.2} & {a:null,b:null,c:1.}",
        "{a:10,b:null(int64),c:null(float64)} & {a:null(int64),b:11,c:11.2} & {a:null(int64),b:null(int64),c:1.}",
    ),
    ("{a:null}", "{a:null(int64)}"),
    ("{a:null(float64)}", "{a:null(int64)}"),
    ("{a:null(string)} & {a:null}", "{a:null(string)} & {a:null(string)}"),
    ("{a:1.} & {a:NaN}", "{a:1.} & {a:NaN}"),
    ("{a:1.} & {a:Inf}", "{a:1.} & {a:+Inf}"),
    ("{a:9223372036854775808.} & {a:1.}", "{a:9223372036854775808(uint64)} & {a:1(uint64)}"),
    ("{a:9223372036854775808.} & {a:-1.}", "{a:9.223372036854776e+18} & {a:-1.}"),
    ("{a:1e20}", "{a:1e+20}"),
    ("{a:-9223372036854775808.}", "{a:-9223372036854775808}"),
    ("{a:-0.}", "{a:0}"),
    # Only columns of float64 change their type.
    ("{a:1(uint8),b:2.(float32),c:1s,d:[1.]}", "{a:1(uint8),b:2.(float32),c:1s,d:[1.]}"),
    ("{a:3.(=f)}", "{a:3.(=f)}"),
    ('{a:1} & {a:"x"} & {a:null}', '{a:1} & {a:"x"} & {a:null(string)}'),
    ("{a:1,b:1} & {b:1,a:null}", "{a:1,b:1} & {b:1,a:null(int64)}"),
    ("{a:1.}(=r)", "{a:1}"),
    ('1. & "x" & null & error("e")', '1. & "x" & null & error("e")'),
    ("null({a:float64}) & {a:1.}", "null({a:int64}) & {a:1}"),
]  # fmt: skip


@pytest.mark.parametrize("given_, expected", SHAPED)
def test_shape_settles_nulls_and_whole_numbers(given_: str, expected: str) -> None:
    assert written(list(converted(ShapeState(), read(given_)))) == expected


def test_shape_converts_values_that_were_kept_elsewhere() -> None:
    state = ShapeState()
    for value in read("{a:1.} & {a:null}"):
        state.observe(value)
    assert format_value(state.convert(parse_value("{a:null}"))) == "{a:null(int64)}"


@given(st.lists(values(), max_size=5))
def test_shape_keeps_the_information_of_any_values(given_: list[Value]) -> None:
    for before, after in zip(given_, converted(ShapeState(), given_), strict=True):
        assert after.data == before.data or encode(before.type, before.data) == encode(after.type, after.data)


# ---- explode

EXPLODED = [
    ("1", "int64", "1"),
    ("1", "string", ""),
    ("null(int64)", "int64", ""),
    ('{a:1,b:[10,11],c:["a","b"]}', "int64", "1 & 10 & 11"),
    ('{a:1,b:"x"((int64,string)),c:2((int64,string))}', "int64", "1 & 2"),
    ("{a:{a:1},b:[{a:2}]}", "{a:int64}", "{a:1} & {a:2}"),
    ("[[1],[2]]", "[int64]", "[1] & [2]"),
    ("|{1:2,3:4}|", "int64", "1 & 2 & 3 & 4"),
    ("|[1,2]|", "int64", "1 & 2"),
    ("{p:80(port=uint16)}", "uint16", "80(uint16)"),
    ("{p:80(port=uint16)}", "port=uint16", "80(port=uint16)"),
    ("[80(port=uint16)]", "port=uint16", "80(port=uint16)"),
    ("{e:error(1)}", "int64", "1"),
]  # fmt: skip


@pytest.mark.parametrize("given_, typ, expected", EXPLODED)
def test_explode_finds_the_values_of_a_type(given_: str, typ: str, expected: str) -> None:
    assert written(list(explode(parse_value(given_), parse_type(typ)))) == expected


@given(values(), types(2))
def test_explode_finds_values_of_just_that_type_in_any_value(value: Value, typ: t.Type) -> None:
    found = list(explode(value, typ))
    assert all(v.type is typ and not v.is_null for v in found)
    assert list(explode(value, value.type)) == ([] if value.is_null else [value])
