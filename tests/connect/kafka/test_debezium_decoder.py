"""Change events with their schema get exact types; without it they are JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.connect.kafka import debezium_decoder
from shoal.connect.kafka.debezium_decoder import DebeziumDecoder
from shoal.errors import InvalidInput
from shoal.model.text import format_value
from shoal.testing.tiers import examples

CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."
DATA = "io.debezium.data."


def field(name_of_field: str, kind: str, /, **more: Any) -> dict[str, Any]:
    return {"field": name_of_field, "type": kind, "optional": True, **more}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "optional": False, "name": "shop.public.orders.Value"}


def event(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def decoder() -> DebeziumDecoder:
    return DebeziumDecoder(ReadOptions())


def text(schema: Any, payload: Any) -> str:
    """A payload, decoded twice: the second time by the bytes that its schema has."""
    reader = decoder()
    first, second = (format_value(reader.value(event(schema, payload))) for _ in range(2))
    assert first == second
    return first


def one(kind: str, payload: Any, /, **more: Any) -> str:
    return text(struct(field("a", kind, **more)), {"a": payload}).removeprefix("{a:").removesuffix("}")


def refusal(schema: Any, payload: Any) -> str:
    reader = decoder()
    for _ in range(2):
        with pytest.raises(InvalidInput) as caught:
            reader.value(event(schema, payload))
    assert reader.column([event(schema, payload)]) is None
    return str(caught.value)


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def digits(number: int) -> str:
    return base64(number.to_bytes(20, "big", signed=True))


# ---- types


@pytest.mark.parametrize(
    "kind, payload, expected",
    [
        ("int8", -128, "-128(int8)"),
        ("int16", 5, "5(int16)"),
        ("int32", 5, "5(int32)"),
        ("int64", 1 << 62, "4611686018427387904"),
        ("float", 0.1, "0.1(float32)"),
        ("float32", 1, "1.(float32)"),
        ("double", 0.1, "0.1"),
        ("float64", "NaN", "NaN"),
        ("double", "-Infinity", "-Inf"),
        ("boolean", True, "true"),
        ("string", "é😀", '"é😀"'),
        ("bytes", base64(b"\xff\0"), "0xff00"),
        ("int32", None, "null(int32)"),
        ("bytes", None, "null(bytes)"),
    ],
)
def test_base_types_are_exact(kind: str, payload: Any, expected: str) -> None:
    assert one(kind, payload) == expected


DECIMAL = {"name": CONNECT + "Decimal", "parameters": {"scale": "2", "connect.decimal.precision": "12"}}
WIDE = {"name": CONNECT + "Decimal", "parameters": {"scale": "2"}}


@pytest.mark.parametrize(
    "kind, name, payload, expected",
    [
        ("int32", TIME + "Date", 19_000, "2022-01-08"),
        ("int32", CONNECT + "Date", -1, "1969-12-31"),
        ("int32", TIME + "Time", 1_500, "1.5s"),
        ("int32", CONNECT + "Time", 1, "1ms"),
        ("int64", TIME + "MicroTime", 1, "1us"),
        ("int64", TIME + "NanoTime", 1, "1ns"),
        ("int64", TIME + "MicroDuration", -1_000_000, "-1s"),
        ("int64", TIME + "Timestamp", 1, "1970-01-01T00:00:00.001Z"),
        ("int64", CONNECT + "Timestamp", 1_500, "1970-01-01T00:00:01.5Z"),
        ("int64", TIME + "MicroTimestamp", -1, "1969-12-31T23:59:59.999999Z"),
        ("int64", TIME + "NanoTimestamp", 1, "1970-01-01T00:00:00.000000001Z"),
        ("string", TIME + "ZonedTimestamp", "2024-05-01T12:00:00.5+02:00", "2024-05-01T10:00:00.5Z"),
        ("string", TIME + "ZonedTime", "10:00:00Z", '"10:00:00Z"'),
        ("string", TIME + "Interval", "P1Y2M", '"P1Y2M"'),
        ("int32", TIME + "Year", 2024, "2024(int32)"),
        ("string", DATA + "Enum", "open", '"open"'),
        ("string", DATA + "EnumSet", "b,a", '|["a","b"]|'),
        ("string", DATA + "EnumSet", "", "|[]|(|[string]|)"),
        ("string", DATA + "Uuid", "5", '"5"'),
        ("string", DATA + "Json", '{"a": 1}', '"{\\"a\\": 1}"'),
        ("string", DATA + "Ltree", "a.b", '"a.b"'),
        ("bytes", DATA + "Bits", base64(b"\5"), "0x05"),
        ("int64", "com.acme.Unknown", 7, "7"),
        ("int64", TIME + "Date", 7, "7"),
        ("int64", TIME + "MicroTimestamp", None, "null(time)"),
    ],
)  # fmt: skip
def test_names_give_values_their_meaning(kind: str, name: str, payload: Any, expected: str) -> None:
    assert one(kind, payload, name=name, parameters={"allowed": "open,shut"}) == expected


@pytest.mark.parametrize(
    "payload, parameters, expected",
    [
        ("BBo=", DECIMAL, "10.50(decimal(12,2))"),
        (digits(-5), DECIMAL, "-0.05(decimal(12,2))"),
        (digits(0), WIDE, "0.00(decimal(38,2))"),
        (12.5, DECIMAL, "12.50(decimal(12,2))"),
        (7, DECIMAL, "7.00(decimal(12,2))"),
        (digits(10**38), WIDE, f'"1{"0" * 36}.00"(=org.apache.kafka.connect.data.Decimal)'),
        (digits(10**12), DECIMAL, '"10000000000.00"(=org.apache.kafka.connect.data.Decimal)'),
        (digits(15), {"name": CONNECT + "Decimal", "parameters": {"scale": "-3"}}, "15000(decimal(38,0))"),
        (digits(15), {"name": CONNECT + "Decimal"}, "15(decimal(38,0))"),
        (digits(15), {"name": CONNECT + "Decimal", "parameters": {"scale": "40"}},
         f'"0.{"0" * 38}15"(=org.apache.kafka.connect.data.Decimal)'),
        (base64(b"\5"), {"name": CONNECT + "Decimal", "parameters": {"scale": "1000000000"}}, "0x05"),
        (base64(b"\5"), {"name": CONNECT + "Decimal", "parameters": {"scale": "x"}}, "0x05"),
        (None, DECIMAL, "null(decimal(12,2))"),
    ],
)  # fmt: skip
def test_decimals_are_exact(payload: Any, parameters: dict[str, Any], expected: str) -> None:
    assert one("bytes", payload, **parameters) == expected


def test_decimals_written_as_numbers_keep_their_digits() -> None:
    schema = struct(field("a", "bytes", **WIDE), field("b", "double"))
    data = event(schema, {"a": 1, "b": 0.5}).replace(b'"a":1', b'"a":123456789012345678901234567890.12')
    reader = decoder()
    for _ in range(2):
        assert format_value(reader.value(data)) == "{a:123456789012345678901234567890.12(decimal(38,2)),b:0.5}"
    with pytest.raises(InvalidInput, match=r"0\.125 has more than 2 digits after the point"):
        reader.value(event(schema, {"a": 0.125, "b": 1}))


def test_a_decimal_of_variable_scale_is_exact_text() -> None:
    parts = [field("scale", "int32"), field("value", "bytes")]
    schema = struct(field("a", "struct", name=DATA + "VariableScaleDecimal", fields=parts))
    assert text(schema, {"a": {"scale": 3, "value": digits(1500)}}) == (
        '{a:"1.500"(=io.debezium.data.VariableScaleDecimal)}'
    )
    assert text(schema, {"a": None}) == "{a:null(io.debezium.data.VariableScaleDecimal=string)}"
    assert refusal(schema, {"a": {"scale": None, "value": digits(1)}}) == "a: malformed"
    assert refusal(schema, {"a": {"scale": 1 << 30, "value": digits(1)}}) == "a decimal with scale 1073741824"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, max_value=10**30, min_value=-(10**30)))
@settings(max_examples=examples(50))
def test_any_decimal_comes_back(number: Decimal) -> None:
    unscaled = int(number.scaleb(4))
    schema = struct(field("a", "bytes", name=CONNECT + "Decimal", parameters={"scale": "4"}))
    value = decoder().value(event(schema, {"a": digits(unscaled)}))
    assert value.data == (number,)


def test_a_value_that_its_type_cannot_hold_keeps_its_base_type() -> None:
    schema = struct(
        field("id", "int32"),
        field("until", "int64", name=TIME + "MicroTimestamp"),
        field("day", "int32", name=TIME + "Date"),
        field("days", "array", items={"type": "int32", "name": TIME + "Date"}),
        field("at", "string", name=TIME + "ZonedTimestamp"),
    )
    for_ever = {"id": 1, "until": 253402300799000000, "day": 2147483647, "days": [1, 2147483647], "at": "infinity"}
    assert text(schema, for_ever) == (
        "{id:1(int32),until:253402300799000000(=io.debezium.time.MicroTimestamp),"
        "day:2147483647(io.debezium.time.Date=int32),"
        "days:[1(io.debezium.time.Date),2147483647(io.debezium.time.Date)],"
        'at:"infinity"(=io.debezium.time.ZonedTimestamp)}'
    )
    plain = {"id": 1, "until": 0, "day": 0, "days": [0], "at": "2024-01-01T00:00:00Z"}
    reader = decoder()
    values = [reader.value(event(schema, each)) for each in (plain, for_ever, plain)]
    assert values[0] == values[2]
    assert values[0].type is not values[1].type


def test_containers_keep_the_types_of_what_is_in_them() -> None:
    item = {"type": "int64", "name": TIME + "Timestamp"}
    assert one("array", [0, None], items=item) == "[1970-01-01T00:00:00Z,null(time)]"
    assert one("array", [], items=item) == "[]([time])"
    assert one("map", {"b": 1, "a": None}, keys={"type": "string"}, values={"type": "int8"}) == (
        '|{"a":null(int8),"b":1(int8)}|'
    )
    assert one("map", [[2, "x"], [1, "y"]], keys={"type": "int32"}, values={"type": "string"}) == (
        '|{1(int32):"y",2(int32):"x"}|'
    )
    point = {"fields": [field("x", "double"), field("wkb", "bytes"), field("srid", "int32")]}
    assert one("struct", {"x": 1, "wkb": "AQ==", "srid": None}, name=DATA + "geometry.Point", **point) == (
        "{x:1.,wkb:0x01,srid:null(int32)}"
    )
    assert one("struct", None, fields=[field("x", "int8")]) == "null({x:int8})"


def test_a_payload_need_not_be_a_struct() -> None:
    assert text({"type": "int32", "optional": False}, 5) == "5(int32)"
    assert text({"type": "string", "optional": True}, None) == "null(string)"
    assert text(struct(field("a", "int8")), None) == "null({a:int8})"


def test_a_field_that_is_optional_may_be_left_out() -> None:
    schema = struct(field("a", "int8"), {"field": "b", "type": "int8", "optional": False})
    assert text(schema, {"b": 1}) == "{a:null(int8),b:1(int8)}"
    assert text(schema, {"b": 1, "a": 2}) == "{a:2(int8),b:1(int8)}"
    assert refusal(schema, {"a": 1}) == "b: the field is missing"
    assert refusal(schema, {"a": 1, "c": 2, "b": 1}) == "c: a field that the schema does not have"


# ---- what is wrong


@pytest.mark.parametrize(
    "kind, payload, message",
    [
        ("int8", 128, "128 is not an int8"),
        ("int32", 1.0, "expected an int32, found a number"),
        ("int32", "1", "expected an int32, found a string"),
        ("int64", True, "expected an int64, found a boolean"),
        ("int64", 1 << 63, "9223372036854775808 is not an int64"),
        ("float", 1e300, "number out of range of float32"),
        ("double", "x", "expected a float, found a string"),
        ("boolean", 1, "expected a boolean, found a number"),
        ("string", {}, "expected a string, found an object"),
        ("bytes", "$", "expected bytes as text in base64"),
        ("bytes", "é", "expected bytes as text in base64"),
        ("array", {}, "expected an array, found an object"),
        ("map", [[1]], "expected a map, found an array"),
        ("map", {"a": 1}, "expected a map, found an object"),
        ("struct", [], "expected an object, found an array"),
    ],
)
def test_a_payload_that_is_not_of_its_schema_is_refused_with_the_path(kind: str, payload: Any, message: str) -> None:
    inner = field("a", kind, items={"type": "int8"}, keys={"type": "int8"}, values={"type": "int8"}, fields=[])
    assert refusal(struct(field("row", "struct", fields=[inner])), {"row": {"a": payload}}) == f"row.a: {message}"


@pytest.mark.parametrize(
    "schema, message",
    [
        ({"type": "klingon"}, "schema: payload: unknown type 'klingon'"),
        (struct(field("a", "array")), "schema: a.[]: NoneType, not an object"),
        ({"type": "struct"}, "schema: payload: a struct without fields"),
        ({"type": "struct", "fields": [{"type": "int8"}]}, "schema: payload: a field without a name"),
        (struct(field("a", "int8"), field("a", "int8")), "schema: duplicate field 'a' in record type"),
    ],
)
def test_a_bad_schema_is_refused(schema: Any, message: str) -> None:
    assert refusal(schema, {"a": 1}) == message


def test_schemas_and_payloads_that_nest_too_deep_are_refused() -> None:
    for depth in (130, 400, 100_000):
        inner = '{"type":"array","items":' * depth + '{"type":"int8"}' + "}" * depth
        with pytest.raises(InvalidInput, match="deep"):
            decoder().value(f'{{"schema":{inner},"payload":null}}'.encode())
        lists = "[" * depth + "]" * depth
        with pytest.raises(InvalidInput):
            decoder().value(f'{{"schema":{{"type":"int8"}},"payload":{lists}}}'.encode())
    inner = '{"type":"int8","default":' + "[" * 900 + "]" * 900 + "}"
    assert format_value(decoder().value(f'{{"schema":{inner},"payload":1}}'.encode())) == "1(int8)"


# ---- with a schema, without one, and in between


def test_events_without_a_schema_are_exact_json() -> None:
    plain = b'{"before":null,"after":{"id":1,"total":"BBo="},"op":"c"}'
    assert format_value(decoder().value(plain)) == '{before:null,after:{id:1,total:"BBo="},op:"c"}'
    assert text(None, {"a": 1}) == "{a:1}"
    assert text(None, None) == "null"


@pytest.mark.parametrize(
    "data, expected",
    [
        (b'{"schema":{"type":1},"payload":2}', "{schema:{type:1},payload:2}"),
        (b'{"schema":"x","payload":2}', '{schema:"x",payload:2}'),
        (b'{"schema":{"type":"int8"},"payload":2,"more":3}', '{schema:{type:"int8"},payload:2,more:3}'),
        (b'{"payload":2,"schema":{"type":"int8"}}', "2(int8)"),
        (b' { "schema" : {"type":"int8"} , "payload" : 2 } \n', "2(int8)"),
        (b'{"schema":{"type":"int8","payload":1},"payload":2}', "2(int8)"),
        (b'{"schema":{"type":"string"},"payload":"\\ud800"}', '"\ufffd"'),
        (b'{"schema":{"type":"int8"},"payload":1,"payload":2}', "2(int8)"),
        (b'{"schema":{"type":"int8"},"schema":{"type":"int16"},"payload":2}', "2(int16)"),
    ],
)
def test_envelopes_are_recognised_however_they_are_written(data: bytes, expected: str) -> None:
    reader = decoder()
    assert [format_value(reader.value(data)) for _ in range(3)] == [expected] * 3
    batch = reader.column([data, data])
    assert batch is None or [format_value(value) for value in batch.values()] == [expected] * 2


def test_a_schema_is_recognised_by_its_bytes_and_nothing_else() -> None:
    reader = decoder()
    narrow, wide = struct(field("a", "int8")), struct(field("a", "int64"), field("payload", "int8"))
    for _ in range(3):
        assert format_value(reader.value(event(narrow, {"a": 1}))) == "{a:1(int8)}"
        assert format_value(reader.value(event(wide, {"a": 1, "payload": 2}))) == "{a:1,payload:2(int8)}"
    assert len(reader._prefixes) == 2
    good = event(narrow, {"a": 1})
    for bad in (good + b"}", good[:-1], good[:-1] + b",}", good[:-2] + b',"b":1}', good.replace(b"1}}", b"1}]}")):
        with pytest.raises(InvalidInput):
            reader.value(bad)
    assert format_value(reader.value(good[:-1] + b',"payload":{"a":2}}')) == "{a:2(int8)}"
    assert format_value(reader.value(good[:-1] + b',"c":{"a":2}}')).startswith("{schema:{type:")


def test_many_schemas_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debezium_decoder, "_MOST_SCHEMAS", 10)
    reader = decoder()
    for i in [*range(100), *range(100)]:
        assert format_value(reader.value(event(struct(field(f"a{i}", "int8")), {f"a{i}": 1}))) == f"{{a{i}:1(int8)}}"
    assert len(reader._prefixes) == 32
    assert len(reader._schemas) <= 10
