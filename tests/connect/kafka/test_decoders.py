"""Decoders give exact values, refuse bad records, and read many at once as they read one."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.options import MIB, ReadOptions
from shoal.connect.kafka.decoders import DECODERS, Decoder, open_decoder
from shoal.connect.kafka.registry import Registry
from shoal.errors import InvalidInput, StorageFailure
from shoal.formats.json import column_reader, text_columns
from shoal.formats.zng.stream import Writer
from shoal.model.text import format_type, format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.samples import damaged
from shoal.testing.schema_registry import Answer, SchemaRegistry, serving_registry
from shoal.testing.tiers import examples


@pytest.fixture(autouse=True, scope="module")
def _small_input_in_columns() -> Iterator[None]:
    """Few records go the way of many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_reader, "_FEW", 0)
        patch.setattr(text_columns, "FEW", 1)
        yield


@pytest.fixture(scope="module")
def served() -> Iterator[SchemaRegistry]:
    with serving_registry() as registry:
        yield registry


@pytest.fixture
def avro(served: SchemaRegistry) -> Iterator[Decoder]:
    registry = Registry(served.url)
    yield open_decoder("avro", registry)
    registry.close()


def text(name: str, data: bytes) -> str:
    return format_value(open_decoder(name).value(data))


def refusal(decoder: Decoder | str, data: bytes) -> str:
    chosen = open_decoder(decoder) if isinstance(decoder, str) else decoder
    with pytest.raises(InvalidInput) as caught:
        chosen.value(data)
    assert chosen.column([data]) is None
    assert "\n" not in str(caught.value)
    return str(caught.value)


def framed(ident: int, body: bytes) -> bytes:
    return struct.pack(">bi", 0, ident) + body


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": typ} for each, typ in fields.items()]}


def avro_record(ident: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return framed(ident, out.getvalue())


# ---- the table


def test_an_unknown_decoder_is_refused_with_a_hint() -> None:
    with pytest.raises(InvalidInput) as caught:
        open_decoder("debezum")
    assert str(caught.value) == (
        "no decoder named 'debezum' (did you mean debezium?) "
        "(one of: avro, bytes, debezium, json, json-schema, protobuf, text, zng, zson)"
    )


def test_avro_needs_a_registry_and_no_other_decoder_does() -> None:
    with pytest.raises(InvalidInput, match="needs a schema registry"):
        open_decoder("avro")
    for name in DECODERS.keys() - {"avro"}:
        open_decoder(name)


# ---- JSON

BAD_JSON = [
    (b"", "expected one JSON value, found none"),
    (b" \n ", "expected one JSON value, found none"),
    (b"1 2", "expected one JSON value, found 2"),
    (b'{"a":1}\n{"a":2}', "expected one JSON value, found 2"),
    (b'{"a":1', "unexpected end of JSON input"),
    (b'{"a":1} x', "expecting value"),
    (b'{"a":"x\ny"}', "line 1, column 8: invalid control character"),
    (b'{"a":\xff}', "invalid UTF-8 at byte 6 (if it is in another encoding, name it with -encoding, such as latin-1)"),
    (b"NaN", "line 1, column 1: NaN is not JSON"),
    (b"[" * 129 + b"]" * 129, "value nests deeper than 128 levels"),
    (b"[" * 1_000_000, "value nests deeper than 128 levels"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "value nests deeper than 128 levels"),
    (b"1e999", "number out of range of float64"),
]


@pytest.mark.parametrize("data, message", BAD_JSON)
def test_a_json_record_is_exactly_one_value(data: bytes, message: str) -> None:
    assert message.partition(" (")[0] in refusal("json", data)
    assert message.partition(" (")[0] in refusal("json-schema", framed(1, data))


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"null", "null"),
        (b"1", "1"),
        (b"1.0", "1."),
        (b"18446744073709551616", "1.8446744073709552e+19"),
        (b' {"a": 1}\r\n', "{a:1}"),
        (b'{\n "a": [1,\n null]\n}', "{a:[1,null(int64)]}"),
        (b'\xef\xbb\xbf{"a":1}', "{a:1}"),
        (b'{"a":1,"b":2,"a":3}', "{a:3,b:2}"),
        (b'"\\ud800"', '"\ufffd"'),
        (b"[]", "[]"),
    ],
)
def test_json_is_exact(data: bytes, expected: str) -> None:
    assert text("json", data) == expected
    assert text("json-schema", framed(3, data)) == expected
    assert text("debezium", data) == expected


def test_records_with_line_ends_inside_are_read_one_by_one() -> None:
    decoder = open_decoder("json")
    for odd in (b'{\n"a":1}', b"1\n", b"", b" ", b"1\n2"):
        assert decoder.column([b"1", odd, b"2"]) is None
        assert decoder.column([b"1", odd]) is None
    assert decoder.column([b"1\n2", b""]) is None  # as many lines as records
    assert decoder.column([]) is not None


def test_many_json_records_are_columns() -> None:
    records = [json.dumps({"id": i, "name": f"n{i}", "x": i / 2}).encode() for i in range(5000)]
    batch = open_decoder("json").column(records)
    assert batch is not None
    assert [format_type(part.shape) for part in batch.parts] == ["{id:int64,name:string,x:float64}"]
    assert list(batch.values())[4321] == open_decoder("json").value(records[4321])


_odd_records = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([data for data, _ in BAD_JSON if len(data) < 1000]),
    st.sampled_from([b'{"schema":null,"payload":1}', b'{"payload":2,"schema":{}}', b"\xef\xbb\xbf1"]),
)
_json_records = st.one_of(strategies.json_records, strategies.json_values).map(lambda made: json.dumps(made).encode())
_runs = st.tuples(
    st.lists(_json_records, max_size=8), st.lists(_odd_records, max_size=1), st.lists(_json_records, max_size=3)
).map(lambda parts: [*parts[0], *parts[1], *parts[2]])


@given(_runs, st.sampled_from(["json", "json-schema", "debezium", "text", "bytes"]))
@settings(max_examples=examples(150))
def test_many_records_at_once_are_read_as_one_by_one(records: list[bytes], name: str) -> None:
    if name == "json-schema":
        records = [framed(7, record) for record in records]
    decoder = open_decoder(name)
    batch = decoder.column(records)
    if batch is not None:
        assert list(batch.values()) == [decoder.value(record) for record in records]
        assert batch.length == len(records)


@given(st.lists(_json_records, min_size=1, max_size=20))
@settings(max_examples=examples(50))
def test_good_records_in_one_line_are_always_columns(records: list[bytes]) -> None:
    assert open_decoder("json").column(records) is not None


def test_columns_are_put_together_of_runs_that_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_reader, "_CHUNK", 100)
    records = [json.dumps({"a": i} if i % 3 else [i, "x"]).encode() for i in range(200)]
    decoder = open_decoder("json")
    batch = decoder.column(records)
    assert batch is not None
    assert len(batch.parts) == 2
    assert list(batch.values()) == [decoder.value(record) for record in records]


def test_a_record_that_would_take_too_much_is_refused() -> None:
    small = ReadOptions(max_value_size=1000)
    for name in ("json", "text", "bytes", "zson", "zng", "protobuf", "debezium"):
        assert "longer than 1000 bytes" in refusal(open_decoder(name, None, small), b'"' + b"a" * 1000 + b'"')
    lists = open_decoder("json", None, ReadOptions(max_memory=16 * MIB))
    assert "would take more than 8 MiB of memory" in refusal(lists, b"[" + b"1," * MIB + b"1]")


# ---- the header


@pytest.mark.parametrize("name", ["json-schema", "protobuf"])
def test_the_header_of_a_schema_is_checked(name: str) -> None:
    assert refusal(name, b"\0\0\0").startswith("a record of 3 bytes has no schema id before it (to read ")
    assert refusal(name, b'{"a":1}').startswith("a record with a schema id begins with a byte 0, not 0x7b (to read ")
    assert refusal(name, b"\0\xff\xff\xff\xff1") == "schema id -1 is negative"


@pytest.mark.parametrize(
    "body, expected",
    [
        (b"\0ab", "[0(int32)],bytes:0x6162"),
        (b"\x02\x04", "[2(int32)],bytes:0x"),
        (b"\x04\x04\x00\xff", "[2(int32),0(int32)],bytes:0xff"),
        (b"\x02\x80\x01x", "[64(int32)],bytes:0x78"),
    ],
)
def test_a_protobuf_message_keeps_its_bytes_and_says_its_type(body: bytes, expected: str) -> None:
    assert text("protobuf", framed(5, body)) == "{schema:5(int32),message_indexes:" + expected + "}"


@pytest.mark.parametrize(
    "body", [b"", b"\x02", b"\x01", b"\xff\xff\xff\xff\xff\xff\x01", b"\x7fx", b"\x02\xff\xff\xff\xff\x7f"]
)
def test_damaged_message_indexes_are_refused(body: bytes) -> None:
    assert "message indexes" in refusal("protobuf", framed(5, body))


# ---- text, bytes, ZSON and ZNG


def test_text_and_bytes_are_as_they_are() -> None:
    assert text("text", "é\n".encode()) == '"é\\n"'
    assert text("text", b"") == '""'
    assert text("bytes", b"\xff\n") == "0xff0a"
    assert refusal("text", b"a\xff").startswith("invalid UTF-8 at byte 2 (read it as it is with")
    batch = open_decoder("text").column([b"a", "é".encode(), b""])
    assert batch is not None
    assert [value.data for value in batch.values()] == ["a", "é", ""]


def zng(*values: Value) -> bytes:
    out = io.BytesIO()
    writer = Writer(out)
    for value in values:
        writer.write(value)
    writer.close()
    return out.getvalue()


@given(strategies.values())
@settings(max_examples=examples(60))
def test_zson_and_zng_give_any_value_back(value: Value) -> None:
    assert open_decoder("zson").value(format_value(value).encode()) == value
    assert open_decoder("zng").value(zng(value)) == value


def test_zson_and_zng_are_one_value() -> None:
    assert refusal("zson", b"1 2") == "expected one value, found several"
    assert refusal("zson", b"") == "expected a value, found nothing"
    assert refusal("zson", b"{a:") == "expected a value, found the end"
    assert refusal("zson", b"[" * 100_000) == "value nests deeper than 128 levels"
    assert "deep" in refusal("zson", b"null(" + b"[" * 100_000)
    one = Value(*_one())
    assert refusal("zng", zng(one, one)) == "expected one ZNG value, found several"
    assert refusal("zng", b"") == "expected one ZNG value, found none"
    assert refusal("zng", zng(one)[:-1]) == (
        "zng: frame at byte 5: expected the end-of-stream marker, found the end of the input"
    )
    assert refusal("zng", zng(one) + b"\x10\x05garbage").startswith("zng: frame at byte ")


def _one() -> Any:
    value = open_decoder("json").value(b"1")
    return value.type, value.data


# ---- Avro


def test_avro_is_read_by_the_schema_of_its_id(served: SchemaRegistry, avro: Decoder) -> None:
    total = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    schema = record("Order", id="int", total=total, note=["null", "string"])
    ident = served.add(schema)
    data = framed(ident, b"\x02\x04\x04\x1a\x00")
    assert format_value(avro.value(data)) == "{id:1(int32),total:10.50(decimal(12,2)),note:null(string)}"
    assert avro.value(data) == avro.value(data)
    assert served.requests.count(f"GET /schemas/ids/{ident}") == 1
    assert refusal(avro, data + b"x") == "1 bytes after the end of the record (is it of another schema?)"
    assert refusal(avro, data[:-1]).startswith("malformed record (EOFError")
    assert refusal(avro, b'{"a":1}').startswith("a record with a schema id begins with a byte 0, not 0x7b (Avro needs")


def test_a_record_of_a_union_has_the_type_of_its_member(served: SchemaRegistry, avro: Decoder) -> None:
    schema = ["null", "long", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}]
    ident = served.add(schema)
    for value, expected in ((None, "null"), (5, "5"), ({"a": "x"}, '{a:"x"}')):
        assert format_value(avro.value(avro_record(ident, schema, value))) == expected


def test_schemas_that_others_define_are_fetched_with_it(served: SchemaRegistry, avro: Decoder) -> None:
    served.add({"type": "enum", "name": "acme.Color", "symbols": ["RED", "BLUE"]}, "color")
    leaf = {"type": "record", "name": "acme.Leaf", "fields": [{"name": "c", "type": "acme.Color"}]}
    served.add(leaf, "leaf", references=[{"name": "acme.Color", "subject": "color", "version": 1}])
    tree = record("acme.Tree", a="Leaf", b=["null", "Leaf"], c="acme.Color")
    references = [
        {"name": "acme.Leaf", "subject": "leaf", "version": 1},
        {"name": "x", "subject": "color", "version": 1},
    ]
    ident = served.add(tree, "tree", references=references)
    value = avro.value(framed(ident, b"\x02\x02\x00\x00"))
    assert format_value(value).startswith("{a:{c:%BLUE(")
    assert value.data == ((1,), (0,), 0)


def test_an_unknown_schema_is_the_fault_of_the_record(served: SchemaRegistry, avro: Decoder) -> None:
    assert refusal(avro, framed(999, b"")) == f"{served.url}: no schema with id 999"
    assert refusal(avro, framed(999, b"")) == f"{served.url}: no schema with id 999"
    assert served.requests.count("GET /schemas/ids/999") == 1


def test_a_registry_that_fails_is_not_the_fault_of_the_record(served: SchemaRegistry, avro: Decoder) -> None:
    ident = served.add({"type": "fixed", "name": "F", "size": 1})
    served.failure = Answer(503)
    with pytest.raises(StorageFailure):
        avro.value(framed(ident, b"x"))
    served.failure = None
    assert format_value(avro.value(framed(ident, b"x"))) == "0x78"


@pytest.mark.parametrize(
    "schema, kind, message",
    [
        ('{"type":"klingon"}', "AVRO", "schema: unknown type 'klingon'"),
        ("{", "AVRO", "not JSON"),
        ('{"type":"array","items":' * 2000, "AVRO", "not JSON"),
        ('{"type":"array","items":' * 500 + '"int"' + "}" * 500, "AVRO", "schema: "),
        ('{"type":"array","items":"null"}', "AVRO", "schema: an array whose elements take no bytes"),
        ('syntax = "proto3";', "PROTOBUF", "a schema of kind PROTOBUF, not AVRO"),
    ],
)
def test_a_bad_schema_is_named(served: SchemaRegistry, avro: Decoder, schema: str, kind: str, message: str) -> None:
    ident = served.add(schema, "bad", schemaType=kind)
    for _ in range(2):
        assert refusal(avro, framed(ident, b"x")).startswith(f"{served.url}: schema {ident}: {message}")


def test_names_of_kafka_connect_count_in_avro_too(served: SchemaRegistry, avro: Decoder) -> None:
    at = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    ident = served.add(record("R", at=["null", at], d=day))
    assert format_value(avro.value(framed(ident, b"\x02\x02\x04"))) == "{at:1970-01-01T00:00:00.000001Z,d:1970-01-03}"


def test_a_time_that_ours_cannot_hold_keeps_its_base_type(served: SchemaRegistry, avro: Decoder) -> None:
    until = {"type": "long", "logicalType": "timestamp-micros"}
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    schema = record("R", at=until, until=["null", until], days={"type": "array", "items": day}, id="int")
    ident = served.add(schema)
    plain = {"at": 1, "until": 1, "days": [0], "id": 5}
    for_ever = {"at": 1, "until": 253402300799000000, "days": [0, 2147483647], "id": 5}
    numbers = record("R", at="long", until=["null", "long"], days={"type": "array", "items": "int"}, id="int")
    texts = [format_value(avro.value(avro_record(ident, numbers, row))) for row in (plain, for_ever, plain)]
    assert texts[1] == (
        "{at:1970-01-01T00:00:00.000001Z,until:253402300799000000(=avro_timestamp_micros),"
        "days:[0(io.debezium.time.Date=int32),2147483647(io.debezium.time.Date)],id:5(int32)}"
    )
    assert texts[0] == texts[2]
    assert "1970-01-01]" in texts[0]
    small = served.add(record("R", at=until, n="int"))
    wrong = avro_record(small, record("R", at="long", n="long"), {"at": 253402300799000000, "n": 1 << 40})
    assert refusal(avro, wrong) == "1099511627776 is not an int, which has 32 bits"


def test_hostile_avro_is_an_error(served: SchemaRegistry, avro: Decoder) -> None:
    ident = served.add({"type": "array", "items": "long"}, "list")
    assert refusal(avro, framed(ident, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x02")).startswith("malformed record")
    strings = served.add('"string"', "string")
    assert refusal(avro, framed(strings, b"\xfe\xff\xff\xff\xff\x7fa")).startswith("malformed record")


# ---- damage


def read_or_refuse(decoder: Decoder, data: bytes) -> bool:
    """Whether a record is a value; if it is not, it is bad, and nothing else happens."""
    try:
        value = decoder.value(data)
    except InvalidInput as e:
        assert "\n" not in str(e)
        assert decoder.column([data]) is None
        return False
    batch = decoder.column([data])
    assert batch is None or list(batch.values()) == [value]
    return True


TOTAL = {"field": "total", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": 2}}
TAGS = {"type": "map", "keys": {"type": "string"}, "values": {"type": "array", "items": {"type": "string"}}}
AT = {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"}
ENVELOPE = {
    "schema": {"type": "struct", "fields": [{"field": "id", "type": "int32"}, TOTAL, AT, {"field": "tags", **TAGS}]},
    "payload": {"id": 5, "total": "BBo=", "at": 1794814367254878, "tags": {"a": ["x", None], "b": None}},
}
RECORDS = {
    "json": b'{"a":[1,2.5,"x\\u00e9",null,true],"b":{"c":-1e3}}',
    "json-schema": framed(3, b'{"a":[1,2.5,"x"]}'),
    "protobuf": framed(5, b"\x04\x02\x04abcdef"),
    "debezium": json.dumps(ENVELOPE).encode(),
    "text": "Zoë 😀".encode(),
    "bytes": b"abc",
    "zson": b"{a:1(int32),b:|[10.0.0.1]|,c:error({d:<{x:int64}>})}(=rec)",
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_damaged_record_is_a_value_or_bad(name: str) -> None:
    decoder = open_decoder(name)
    assert read_or_refuse(decoder, RECORDS[name])
    results = [read_or_refuse(decoder, bad) for bad in damaged(RECORDS[name], examples(300), seed=5)]
    assert any(results)
    assert not all(results) or name == "bytes"


def test_damaged_zng_and_avro_are_values_or_bad(served: SchemaRegistry, avro: Decoder) -> None:
    good = open_decoder("zson").value(RECORDS["zson"])
    for bad in damaged(zng(good), examples(300), seed=6):
        read_or_refuse(open_decoder("zng"), bad)
    schema = record(
        "Damaged", a={"type": "array", "items": ["null", "string", "long"]}, m={"type": "map", "values": "int"}
    )
    row = {"a": ["x", None, 5, "yy"], "m": {"k": 1, "l": 2}}
    data = avro_record(served.add(schema, "damaged"), schema, row)
    assert read_or_refuse(avro, data)
    results = [read_or_refuse(avro, data[:5] + bad) for bad in damaged(data[5:], examples(300), seed=7)]
    assert any(results)
    assert not all(results)
