from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.fusion import Fusion, fuse_types
from shoal.model.parse import parse_type
from shoal.model.shape import shape
from shoal.model.text import format_type
from shoal.model.values import Value
from shoal.testing.strategies import data_of, primitive_types, record_types, types
from shoal.testing.tiers import examples

CASES = [
    ("int64", "int64"),
    ("int64 & int64", "int64"),
    ("null & int64", "int64"),
    ("int64 & null", "int64"),
    ("int64 & string", "(int64,string)"),
    ("port=uint16 & uint16", "(uint16,port=uint16)"),
    ("{a:int64} & {b:int64}", "{a:int64,b:int64}"),
    ("{b:int64} & {a:int64}", "{b:int64,a:int64}"),
    ("{a:int64,b:int64} & {a:int64,b:string}", "{a:int64,b:(int64,string)}"),
    ("{a:null} & {a:ip}", "{a:ip}"),
    ("r={a:int64} & r={a:int64}", "r={a:int64}"),
    ("r={a:int64} & {a:int64}", "{a:int64}"),
    (
        "{a:string,r:{x:int32,y:int32}} & {r:{y:int32,z:int32},s:string,r2:{x:int32}}",
        "{a:string,r:{x:int32,y:int32,z:int32},s:string,r2:{x:int32}}",
    ),
    ("[{a:int64}] & [{b:string}]", "[{a:int64,b:string}]"),
    ("[int64] & [string]", "[(int64,string)]"),
    ("[int64] & |[int64]|", "[int64]"),
    ("|[int64]| & [int64]", "[int64]"),
    ("|[int64]| & |[string]|", "|[(int64,string)]|"),
    ("|{string:int64}| & |{string:string}|", "|{string:(int64,string)}|"),
    ("(int64,string) & ip", "(int64,string,ip)"),
    ("ip & (int64,string)", "(int64,string,ip)"),
    ("(int64,string) & (ip,string)", "(int64,string,ip)"),
    ("(int64,{a:int64}) & {b:int64}", "(int64,{a:int64,b:int64})"),
    ("{b:int64} & (int64,{a:int64})", "(int64,{a:int64,b:int64})"),
    ("error(string) & error(int64)", "(error(int64),error(string))"),
    ("enum(a) & enum(b)", "(enum(a),enum(b))"),
    # Arrays merge with arrays, but not with those in a union.
    ("[int64] & [string] & string", "(string,[(int64,string)])"),
    ("string & [int64] & [string]", "(string,[int64],[string])"),
]


@pytest.mark.parametrize("given_, fused", CASES)
def test_types_fuse_to_the_least_type_for_all(given_: str, fused: str) -> None:
    found = fuse_types(map(parse_type, given_.split(" & ")))
    assert found is not None
    assert format_type(found) == fused


def test_a_union_of_one_record_fuses_to_a_record() -> None:
    assert fuse_types([t.union([t.record([("a", t.IP)])]), t.record([("b", t.IP)])]) is parse_type("{a:ip,b:ip}")


def test_nothing_fuses_to_no_type() -> None:
    assert Fusion().type is None
    assert fuse_types([]) is None


def test_a_fusion_knows_what_it_saw_in_order() -> None:
    fusion = Fusion()
    for typ in (t.IP, t.INT64, t.IP, t.IP, t.INT64, t.NET):
        fusion.mix(typ)
    assert fusion.types == (t.IP, t.INT64, t.NET)


def test_a_fusion_goes_on_after_its_type_was_asked() -> None:
    fusion = Fusion()
    fusion.mix(t.IP)
    found = [fusion.type]
    fusion.mix(t.NET)
    assert [*found, fusion.type] == [t.IP, t.union([t.IP, t.NET])]


def test_a_type_that_would_nest_too_deep_is_refused_each_time_it_is_asked() -> None:
    deep: t.Type = t.IP
    for _ in range(t.MAX_DEPTH - 1):
        deep = t.array(deep)
    fusion = Fusion()
    for typ in (deep, t.IP):
        fusion.mix(typ)
    for _ in range(2):
        with pytest.raises(InvalidInput, match="nests deeper"):
            _ = fusion.type


@given(st.lists(types(), max_size=5))
def test_mixing_again_changes_nothing(mixed: list[t.Type]) -> None:
    assert fuse_types(mixed) is fuse_types(mixed + mixed)


@given(st.lists(types(), min_size=1, max_size=4))
def test_any_types_fuse(mixed: list[t.Type]) -> None:
    assert fuse_types(mixed) is not None


flat_records = record_types(primitive_types)
nested_records = record_types(st.one_of(primitive_types, flat_records, flat_records.map(t.array)))


@settings(max_examples=examples(25))
@given(st.lists(nested_records, min_size=2, max_size=2), st.data())
def test_records_of_scalars_records_and_arrays_can_be_shaped_to_their_fused_type(
    mixed: list[t.Record], draw: st.DataObject
) -> None:
    fused = fuse_types(mixed)
    assert fused is not None
    for typ in mixed:
        value = Value(typ, draw.draw(data_of(typ)))
        assert shape(value, fused).type is fused
