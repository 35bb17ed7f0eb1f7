"""Schemas of shapes say all that there is to say, and are widened so that they read what was written before."""

from __future__ import annotations

import io
import json
from copy import deepcopy
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connect.kafka.avro_merging import merged
from shoal.connect.kafka.avro_schemas import avro_names, schema_of
from shoal.connect.kafka.encoders import AvroSchema
from shoal.errors import InvalidInput
from shoal.formats.avro.schemas import compile_schema
from shoal.model import types as t
from shoal.model.parse import parse_type, parse_value
from shoal.model.text import format_type, format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.tiers import examples


def schema(text: str) -> Any:
    return schema_of(parse_type(text), "shop.Order")


def field(text: str) -> Any:
    """The schema of a field of a type."""
    return schema(f"{{a:{text}}}")["fields"][0]["type"]


def shape(made: Any) -> str:
    return format_type(compile_schema(made).type)


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": typ} for name, typ in fields.items()]}


# ---- schemas of shapes


def test_the_schema_of_a_record() -> None:
    assert schema("{id:int64,at:time,tags:|[string]|}") == {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": ["null", "long"], "default": None},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-nanos"}], "default": None},
            {
                "name": "tags",
                "type": ["null", {"type": "array", "items": ["null", "string"], "zed_type": "set"}],
                "default": None,
            },
        ],
    }


@pytest.mark.parametrize(
    "typ, expected",
    [
        ("int32", "int"),
        ("uint8", {"type": "int", "zed_type": "uint8"}),
        ("uint32", {"type": "long", "zed_type": "uint32"}),
        ("uint64", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0, "zed_type": "uint64"}),
        ("float16", {"type": "float", "zed_type": "float16"}),
        ("date", {"type": "int", "logicalType": "date"}),
        ("duration", {"type": "long", "zed_type": "duration"}),
        ("decimal(9,2)", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("ip", {"type": "string", "zed_type": "ip"}),
        ("type", {"type": "string", "zed_type": "type"}),
        ("[int64]", {"type": "array", "items": ["null", "long"]}),
        ("[null]", {"type": "array", "items": ["null"]}),
        ("|{string:int64}|", {"type": "map", "values": ["null", "long"]}),
        ("port=uint16", {"type": "int", "zed_type": "uint16", "zed_name": "port"}),
        ("enum(a,b)", {"type": "enum", "name": "shop.Order_a", "symbols": ["a", "b"]}),
        ('enum("a b",a,"+")', {"type": "enum", "name": "shop.Order_a", "symbols": ["a_b", "a", "_"],
                               "zed_symbols": ["a b", "a", "+"]}),
        ("error(string)", {"type": "record", "name": "shop.Order_a", "zed_type": "error",
                           "fields": [{"name": "error", "type": "string"}]}),
        ("(int64)", {"type": "record", "name": "shop.Order_a", "zed_type": "union",
                     "fields": [{"name": "value", "type": ["long"]}]}),
        ("|{int64:string}|", {"type": "array", "zed_type": "map", "items": {
            "type": "record", "name": "shop.Order_a_entry", "fields": [
                {"name": "key", "type": ["null", "long"], "default": None},
                {"name": "value", "type": ["null", "string"], "default": None}]}}),
    ],
)  # fmt: skip
def test_each_type_has_a_schema_that_leads_back_to_it(typ: str, expected: Any) -> None:
    assert field(typ) == ["null", expected]
    assert shape(schema(f"{{a:{typ}}}")) == f"{{a:{typ}}}"


def test_a_null_of_no_type_is_null() -> None:
    assert schema("{a:null}")["fields"] == [{"name": "a", "type": "null", "default": None}]


def test_members_of_a_union_are_members_in_avro_as_far_as_they_can_be_told_apart() -> None:
    assert field("(int64,string)") == ["null", "long", "string"]
    assert field("({x:int64},{y:int64})") == [
        "null",
        {"type": "record", "name": "shop.Order_a",
         "fields": [{"name": "x", "type": ["null", "long"], "default": None}]},
        {"type": "record", "name": "shop.Order_a_2",
         "fields": [{"name": "y", "type": ["null", "long"], "default": None}]},
    ]  # fmt: skip
    assert field("(int64,duration)") == [
        "null",
        "long",
        {"type": "record", "name": "shop.Order_a", "zed_type": "value",
         "fields": [{"name": "value", "type": {"type": "long", "zed_type": "duration"}}]},
    ]  # fmt: skip


def test_names_that_avro_does_not_allow_are_kept_beside_others() -> None:
    made = schema('{"a b":int64,a_b:int64,"":int64,"1":int64,"é":int64}')
    assert [(each["name"], each.get("zed_name")) for each in made["fields"]] == [
        ("a_b_2", "a b"), ("a_b", None), ("_", ""), ("_1", "1"), ("__2", "é"),
    ]  # fmt: skip
    assert shape(made) == '{"a b":int64,a_b:int64,"":int64,"1":int64,é:int64}'
    assert schema_of(parse_type("{}"), "1st topic.é")["name"] == "_1st_topic._"
    assert schema_of(parse_type("{}"), "int")["name"] == "_int"


@given(
    st.lists(strategies.field_names, max_size=6, unique=True), st.lists(st.sampled_from(["a", "_", "a_2"]), unique=True)
)
def test_names_in_avro_are_distinct_and_allowed(names: list[str], taken: list[str]) -> None:
    plain = avro_names(names, taken)
    assert (list(plain.keys() & set(names)) and set(plain) == set(names)) or not names
    assert len(set(plain.values()) | set(taken)) == len(names) + len(taken)
    for name in plain.values():
        assert name.isascii()
        assert name.isidentifier()


def test_an_enum_without_symbols_is_refused() -> None:
    with pytest.raises(InvalidInput, match="an enum without symbols"):
        schema_of(t.record((("a", t.enum([])),)), "R")


@given(strategies.types())
@settings(max_examples=examples(150))
def test_the_schema_of_any_type_leads_back_to_it(typ: t.Type) -> None:
    made = schema_of(typ, "shop.Order")
    assert compile_schema(json.loads(json.dumps(made))).type is typ
    fastavro.parse_schema(made)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "int", "zed_type": "ip"},
        {"type": "int", "zed_type": 7},
        {"type": "int", "zed_name": "string"},
        {"type": "int", "zed_name": ["x"]},
        {"type": "string", "zed_name": "shoal_date"},
        {"type": "bytes", "zed_type": "uint64"},
        {"type": "array", "items": "int", "zed_type": "map"},
        {"type": "enum", "name": "E", "symbols": ["a", "b"], "zed_symbols": ["a", "a"]},
        {"type": "enum", "name": "E", "symbols": ["a", "b"], "zed_symbols": ["a"]},
        {"type": "record", "name": "W", "zed_type": "error", "fields": []},
    ],
)
def test_properties_that_make_no_sense_are_ignored(odd: dict[str, Any]) -> None:
    plain = {key: value for key, value in odd.items() if not key.startswith("zed_")}
    assert compile_schema(record(a=odd)).type is compile_schema(record(a=plain)).type


# ---- wider schemas


@pytest.mark.parametrize(
    "before, typ, after",
    [
        ("int", "int32", "int"),
        ("int", "int64", "long"),
        ("int", "uint32", "long"),
        ("long", "int32", "long"),
        ({"type": "int", "zed_type": "uint8"}, "uint16", {"type": "int", "zed_type": "uint16"}),
        ({"type": "int", "zed_type": "uint8"}, "int8", {"type": "int", "zed_type": "int16"}),
        ("long", "uint64", ["long", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0,
                                     "zed_type": "uint64"}]),
        ("float", "float64", "double"),
        ("double", "float32", "double"),
        ("int", "float64", ["int", "double"]),
        ("double", "int64", ["double", "long"]),
        ("int", "null", ["null", "int"]),
        (["null", "int"], "int64", ["null", "long"]),
        (["null", "int"], "string", ["null", "int", "string"]),
        (["null", "int", "string"], "int64", ["null", "long", "string"]),
        (["null", "double", "long"], "int32", ["null", "double", "long"]),
        ("string", "(int64,string,null)", ["null", "string", "long"]),
        ({"type": "long", "zed_name": "port"}, "port=int64", {"type": "long", "zed_name": "port"}),
        ({"type": "long", "zed_name": "port"}, "int64", {"type": "long"}),
        ({"type": "int", "zed_name": "port"}, "port=int64", "long"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "time",
         {"type": "long", "logicalType": "timestamp-micros"}),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "decimal(9,2)",
         {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "decimal(9,1)",
         {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        ({"type": "array", "items": ["null"]}, "[int64]", {"type": "array", "items": ["null", "long"]}),
        ({"type": "array", "items": "int"}, "[string]", {"type": "array", "items": ["int", "string"]}),
        ({"type": "map", "values": "int"}, "|{string:int64}|", {"type": "map", "values": "long"}),
        ({"type": "enum", "name": "E", "symbols": ["b", "a"]}, 'enum(a,c,"d e")',
         {"type": "enum", "name": "E", "symbols": ["b", "a", "c", "d_e"], "zed_symbols": ["b", "a", "c", "d e"]}),
    ],
)  # fmt: skip
def test_a_field_is_widened_to_hold_both_types(before: Any, typ: str, after: Any) -> None:
    old = record(a=before)
    new = merged(old, parse_type(f"{{a:{typ}}}"))
    assert new["fields"][0]["type"] == after
    assert old == record(a=before)


def test_types_that_avro_cannot_tell_apart_are_told_apart_by_records() -> None:
    new = merged(record(a="long", b=["null", "long"]), parse_type("{a:time,b:duration}"))
    assert shape(new) == "{a:(int64,time),b:(int64,duration)}"
    assert new["fields"][0]["type"] == [
        "long",
        {
            "type": "record",
            "name": "R_a",
            "fields": [{"name": "value", "type": {"type": "long", "logicalType": "timestamp-nanos"}}],
            "zed_type": "value",
        },
    ]
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert shape(merged(record(a=decimal), parse_type("{a:decimal(4,3)}"))) == "{a:(decimal(4,2),decimal(4,3))}"


def test_new_fields_and_missing_ones_may_be_null() -> None:
    new = merged(record(a="int", b=["null", "int"]), parse_type('{b:int32,"c d":int64,R:{x:ip}}'))
    assert new["fields"] == [
        {"name": "a", "type": ["null", "int"], "default": None},
        {"name": "b", "type": ["null", "int"]},
        {"name": "c_d", "type": ["null", "long"], "default": None, "zed_name": "c d"},
        {"name": "R", "default": None, "type": ["null", {"type": "record", "name": "R_R", "fields": [
            {"name": "x", "type": ["null", {"type": "string", "zed_type": "ip"}], "default": None}]}]},
    ]  # fmt: skip


def test_a_default_stays_that_of_the_first_member() -> None:
    old = record(a="int", b="int")
    old["fields"][0]["default"] = 5
    new = merged(old, parse_type("{b:string}"))
    assert new["fields"] == [
        {"name": "a", "type": ["int", "null"], "default": 5},
        {"name": "b", "type": ["int", "string"]},
    ]
    fastavro.parse_schema(new)


def test_a_schema_that_takes_a_shape_is_the_schema_itself() -> None:
    old = {**record(a="long", b=["null", "string"]), "namespace": "shop", "doc": "orders", "version": 3}
    for text in ("{a:int64,b:string}", "{a:int64}", "{a:uint32,b:null}"):
        assert merged(old, parse_type(text)) is old
    new = merged(old, parse_type("{a:int64,c:bool}"))
    assert (new["name"], new["doc"], new["version"]) == ("shop.R", "orders", 3)


def test_types_that_are_used_by_name_are_widened_wherever_they_are_used() -> None:
    leaf = {"type": "record", "name": "Leaf", "fields": [{"name": "x", "type": "int"}]}
    old = {**record(a=leaf, b=["null", "Leaf"]), "namespace": "shop"}
    new = merged(old, parse_type("{a:{x:int64},b:{y:string}}"))
    assert shape(new) == "{a:{x:int64,y:string},b:{x:int64,y:string}}"
    assert new["fields"][1]["type"] == ["null", "shop.Leaf"]


@pytest.mark.parametrize(
    "old, text, message",
    [
        (record(a="int"), "int64",
         "int64 is of another kind than the records of the topic, {a:int32} (leave it out, or send it to another to"),
        ("string", "{a:int64}",
         "{a:int64} is of another kind than the records of the topic, string (leave it out, or send it to "),
        (record(a="int"), "error({a:int64})", "error({a:int64}) is of another kind than the records of the topic"),
        (record(a=["null", "R"]), "{a:int64}", "schema: type 'R' contains itself, which no Zed type does"),
        (record(a="klingon"), "{a:int64}", "schema: unknown type 'klingon'"),
    ],
)  # fmt: skip
def test_what_cannot_be_widened_is_refused(old: Any, text: str, message: str) -> None:
    before = deepcopy(old)
    with pytest.raises(InvalidInput) as caught:
        merged(old, parse_type(text))
    assert str(caught.value).startswith(message)
    assert old == before


def test_a_topic_of_several_types_takes_more() -> None:
    assert merged(["null", "string"], parse_type("int64")) == ["null", "string", "long"]
    assert merged("int", parse_type("int64")) == "long"


# ---- what was written before, and what is written after

_leaves = st.one_of(strategies.primitive_types, strategies.enums)


def _composed(inner: st.SearchStrategy[t.Type]) -> st.SearchStrategy[t.Type]:
    return st.one_of(
        _records(inner),
        inner.map(t.array),
        inner.map(t.set_of),
        inner.map(lambda value: t.map_of(t.STRING, value)),
        st.tuples(inner, inner).map(lambda both: t.map_of(*both)),
        st.lists(inner, min_size=1, max_size=3).map(t.union),
        inner.map(t.error),
        st.tuples(st.sampled_from(["port", "T"]), inner).map(lambda both: t.named(*both)),
    )


def _records(inner: st.SearchStrategy[t.Type]) -> st.SearchStrategy[t.Record]:
    names = st.sampled_from(["a", "b", "a b"])
    return st.lists(st.tuples(names, inner), max_size=3, unique_by=lambda each: each[0]).map(t.record)


similar_records = _records(st.recursive(_leaves, _composed, max_leaves=4)).flatmap(
    lambda typ: st.tuples(*(strategies.data_of(each.type) for each in typ.fields)).map(lambda data: Value(typ, data))
)
"""Records that have fields in common."""


def is_kept(value: Value, out: Value) -> bool:
    """Whether a value is another one but for names, nulls in place of missing fields, and the width of numbers."""
    value, out = value.under(), out.under()
    a, b = value.type, out.type
    if value.data is None or out.data is None:
        return value.data is None and out.data is None
    match a, b:
        case t.Record(), t.Record():
            missing = [out.field(name) for name in b.index if name not in a.index]
            fields = [(value.field(name), out.field(name)) for name in a.index]
            kept = all(x is not None and y is not None and is_kept(x, y) for x, y in fields)
            return kept and all(each is not None and each.data is None for each in missing)
        case t.Array(), t.Array():
            pairs = zip(value.data, out.data, strict=False)
            return len(value.data) == len(out.data) and all(
                is_kept(Value(a.elem, x), Value(b.elem, y)) for x, y in pairs
            )
        case t.Set(), t.Set():
            return all(any(is_kept(Value(a.elem, x), Value(b.elem, y)) for y in out.data) for x in value.data)
        case t.Map(), t.Map():
            return all(
                any(is_kept(Value(a.key, k), Value(b.key, x)) and is_kept(Value(a.value, v), Value(b.value, y))
                    for x, y in out.data) for k, v in value.data
            )  # fmt: skip
        case t.Error(), t.Error():
            return is_kept(Value(a.inner, value.data), Value(b.inner, out.data))
        case t.Enum(), t.Enum():
            return a.symbols[value.data] == b.symbols[out.data]
    if a in t.FLOATS:
        return b in t.FLOATS and str(value.data) == str(out.data)
    is_exact = isinstance(a, t.Decimal) or a in t.SIGNED | t.UNSIGNED
    may_be = isinstance(b, t.Decimal) or b in t.SIGNED | t.UNSIGNED
    return (may_be if is_exact else a is b) and bool(value.data == out.data)


def body(made: AvroSchema, value: Value) -> bytes | None:
    """A value in Avro; None if it has what Avro lacks."""
    try:
        return made.body(value)
    except InvalidInput as e:
        assert "which Avro takes for any null" in str(e) or "which Avro does not have" in str(e)
        return None


def read(schema: Any, data: bytes) -> Value:
    node = compile_schema(schema)
    return node.value(fastavro.schemaless_reader(io.BytesIO(data), node.plain, None, True, True))


@given(similar_records, similar_records)
@settings(max_examples=examples(150))
def test_a_wider_schema_takes_both_shapes_and_reads_what_was_written(first: Value, second: Value) -> None:
    old = schema_of(first.type, "o")
    new = merged(old, second.type)
    assert merged(new, first.type) is new
    assert merged(new, second.type) is new
    for value in (first, second):
        data = body(AvroSchema(new), value)
        assert data is None or is_kept(value, read(new, data)), (value, new)
    data = body(AvroSchema(old), first)
    if data is not None:
        assert read(old, data) == first
        fastavro.schemaless_reader(io.BytesIO(data), old, new)  # as a consumer with the new schema reads it


def test_a_consumer_with_the_new_schema_reads_old_data() -> None:
    old = schema("{id:int32,name:string,at:time}")
    new = merged(old, parse_type("{id:int64,vip:bool,at:time,name:int64}"))
    data = AvroSchema(old).body(parse_value('{id:1(int32),name:"Ann",at:1970-01-01T00:00:00.000000001Z}'))
    assert fastavro.schemaless_reader(io.BytesIO(data), old, new) == {"id": 1, "name": "Ann", "at": 1, "vip": None}
    data = AvroSchema(new).body(parse_value("{id:5000000000,vip:true}"))
    assert format_value(read(new, data)) == ("{id:5000000000,name:null((int64,string)),at:null(time),vip:true}")
