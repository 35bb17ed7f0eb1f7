"""What encoders write, decoders read as the very same values; what would not be exact is refused with its field."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connect.kafka.avro_schemas import schema_of
from shoal.connect.kafka.decoders import Decoder, open_decoder
from shoal.connect.kafka.encoders import ENCODERS, AvroEncoder, AvroSchema, open_encoder
from shoal.connect.kafka.registry import Registry
from shoal.errors import InvalidInput, StorageFailure
from shoal.formats.avro.schemas import compile_schema
from shoal.model.parse import parse_type, parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.samples import every_kind_everywhere
from shoal.testing.schema_registry import Answer, SchemaRegistry, serving_registry
from shoal.testing.tiers import examples


@pytest.fixture
def served() -> Iterator[SchemaRegistry]:
    with serving_registry() as registry:
        yield registry


@pytest.fixture
def registry(served: SchemaRegistry) -> Iterator[Registry]:
    client = Registry(served.url)
    yield client
    client.close()


@pytest.fixture
def encoder(registry: Registry) -> AvroEncoder:
    return AvroEncoder(registry, "orders-value")


@pytest.fixture
def decoder(registry: Registry) -> Decoder:
    return open_decoder("avro", registry)


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": typ} for name, typ in fields.items()]}


def read(schema: Any, data: bytes) -> Value:
    node = compile_schema(schema)
    stream = io.BytesIO(data)
    value = node.value(fastavro.schemaless_reader(stream, node.plain, None, True, True))
    assert stream.tell() == len(data)
    return value


def again(schema: Any, text: str) -> str:
    """A value, written by a schema and read again."""
    return format_value(read(schema, AvroSchema(schema).body(parse_value(text))))


def refusal(schema: Any, text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        AvroSchema(schema).body(parse_value(text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- the table


def test_an_unknown_encoder_is_refused_with_a_hint() -> None:
    with pytest.raises(InvalidInput) as caught:
        open_encoder("arvo")
    assert str(caught.value) == (
        "no encoder named 'arvo' (did you mean avro?) (one of: avro, bytes, json, text, zng, zson)"
    )
    with pytest.raises(InvalidInput, match="needs a schema registry and a subject"):
        open_encoder("avro")


@given(strategies.values())
@settings(max_examples=examples(60))
def test_zson_and_zng_give_any_value_back(value: Value) -> None:
    for name in ("zson", "zng"):
        encoder = open_encoder(name)
        encoder.prepare([value.type])
        assert open_decoder(name).value(encoder.encode(value)) == value


@given(strategies.json_values)
@settings(max_examples=examples(60))
def test_json_gives_the_values_of_json_back(made: Any) -> None:
    value = open_decoder("json").value(json.dumps(made).encode())
    again = open_decoder("json").value(open_encoder("json").encode(value))
    assert json.loads(open_encoder("json").encode(again)) == json.loads(open_encoder("json").encode(value))


def test_text_and_bytes_are_written_as_they_are() -> None:
    assert open_encoder("text").encode(parse_value('"é\\n"(name=string)')) == "é\n".encode()
    assert open_encoder("bytes").encode(parse_value("0xff00")) == b"\xff\x00"
    for name, text, message in (
        ("text", "1", "a value of kind primitive is not a string (write it with the encoder zson)"),
        ("text", "null(string)", "null is not a string (write it with the encoder zson)"),
        ("bytes", "{a:1}", "a value of kind record is not bytes (write it with the encoder zson)"),
    ):
        with pytest.raises(InvalidInput) as caught:
            open_encoder(name).encode(parse_value(text))
        assert str(caught.value) == message


def test_each_encoder_has_a_decoder() -> None:
    assert ENCODERS.keys() <= {"json", "avro", "text", "bytes", "zson", "zng"}


# ---- values of any type in Avro, and back

LACKING = ("which Avro takes for any null", "which Avro does not have", "null, which the schema does not allow")


def check(value: Value) -> bool:
    """Whether a value comes back; false if it is refused for what Avro lacks."""
    schema = json.loads(json.dumps(schema_of(value.type, "shop.Order")))
    try:
        data = AvroSchema(schema).body(value)
    except InvalidInput as e:
        assert str(e).endswith(LACKING), e
        return False
    assert read(schema, data) == value
    fastavro.schemaless_reader(io.BytesIO(data), schema)  # others can read it, too
    return True


def test_values_of_every_kind_come_back() -> None:
    values = [value for value in every_kind_everywhere() if value.data is not None]
    assert sum(map(check, values)) > 0.9 * len(values)


@given(strategies.records())
@settings(max_examples=examples(200))
def test_any_record_comes_back(value: Value) -> None:
    check(value)


def test_what_avro_lacks_is_refused_with_the_place() -> None:
    schema = schema_of(parse_type("{a:{b:(int64,string)},m:|{string:int64}|}"), "R")
    assert refusal(schema, '{a:{b:null(int64)((int64,string))},m:|{"k":1}|}') == (
        "a.b: a null of type int64 in a union, which Avro takes for any null"
    )
    assert refusal(schema, "{a:{b:null((int64,string))},m:|{null(string):1}|}") == (
        "m: a key of a map is null, which Avro does not have"
    )
    assert refusal(schema, "null({a:{b:(int64,string)},m:|{string:int64}|})") == (
        "null, which the schema does not allow"
    )


# ---- schemas of others

_plain_schemas: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "null": ("null", st.none()),
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    "float": ("float", st.floats(width=32)),
    "double": ("double", st.floats()),
    "bytes": ("bytes", st.binary(max_size=5)),
    "string": ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    "date": ({"type": "int", "logicalType": "date"}, st.integers(-700_000, 2_900_000)),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, st.integers(0, 86_399_999)),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, st.integers(0, 86_399_999_999)),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-9_000_000_000_000, 9_000_000_000_000)),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, st.integers(-(1 << 53), 1 << 53)),
    "nanos": ({"type": "long", "logicalType": "timestamp-nanos"}, st.integers(-(1 << 63), (1 << 63) - 1)),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, st.integers(-(1 << 53), 1 << 53)),
    "uuid": ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
}


def _number(size: int, digits: int) -> st.SearchStrategy[bytes]:
    """A decimal in as few bytes as hold it, or in `size` bytes."""
    numbers = st.integers(-(10**digits) + 1, 10**digits - 1)
    return numbers.map(
        lambda n: n.to_bytes(size or ((n if n >= 0 else n + 1).bit_length() // 8 + 1), "big", signed=True)
    )


Made = tuple[Any, st.SearchStrategy[Any]]
"""A schema, and what fastavro may write by it if it has no logical types."""


class Maker:
    """Draws schemas in which each type with a name may be used again."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._named: dict[str, st.SearchStrategy[Any]] = {}
        self._count = 0

    def schema(self, depth: int) -> Made:
        """A schema that nests no deeper."""
        makers = [self._plain, self._plain, self._enum, self._fixed, self._decimal]
        if self._named:
            makers.append(self._reference)
        if depth:
            makers += [lambda each=each: each(depth - 1) for each in (self.record, self._array, self._map, self._union)]  # type: ignore[misc]
        made: Made = self._draw(st.sampled_from(makers))()
        return made

    def _plain(self) -> Made:
        return _plain_schemas[self._draw(st.sampled_from(sorted(_plain_schemas)))]

    def _reference(self) -> Made:
        name = self._draw(st.sampled_from(sorted(self._named)))
        return name, self._named[name]

    def _decimal(self) -> Made:
        return {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}, _number(0, 30)

    def _name(self) -> str:
        self._count += 1
        return f"{'acme' if self._count % 3 else 'shop'}.N{self._count}"

    def _defined(self, made: dict[str, Any], values: st.SearchStrategy[Any]) -> Made:
        self._named[made["name"]] = values
        return made, values

    def _enum(self) -> Made:
        symbols = self._draw(st.lists(st.sampled_from(["A", "B", "C"]), min_size=1, unique=True))
        return self._defined({"type": "enum", "name": self._name(), "symbols": symbols}, st.sampled_from(symbols))

    def _fixed(self) -> Made:
        size, logical, values = self._draw(st.sampled_from(_fixed_schemas))
        return self._defined({"type": "fixed", "name": self._name(), "size": size, **logical}, values)

    def record(self, depth: int) -> Made:
        """A record."""
        name, fields, values = self._name(), [], {}
        for label in self._draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True)):
            inner, values[label] = self.schema(depth)
            fields.append({"name": label, "type": inner})
        return self._defined({"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(values))

    def _array(self, depth: int) -> Made:
        """An array; its elements take a byte at least."""
        item, values = self.schema(depth)
        members = item if isinstance(item, list) else [item]
        items = members if "null" in members else ["null", *members]
        return {"type": "array", "items": items}, st.lists(_in_union(item, values), max_size=3)

    def _map(self, depth: int) -> Made:
        item, values = self.schema(depth)
        return {"type": "map", "values": item}, st.dictionaries(st.sampled_from(["x", "y"]), values, max_size=2)

    def _union(self, depth: int) -> Made:
        """A union whose values name their member."""
        members: dict[str, Made] = {}
        for _ in range(self._draw(st.integers(1, 4))):
            inner, values = self.schema(depth)
            if not isinstance(inner, list):
                members.setdefault(_label(inner), (inner, _in_union(inner, values)))
        if not members:
            return "null", st.none()
        return [inner for inner, _ in members.values()], st.one_of([values for _, values in members.values()])


def _label(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema.get("name", schema["type"]))


def _in_union(schema: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of a schema as members of a union."""
    if isinstance(schema, list) or schema == "null":
        return values
    return values.map(lambda value: (_label(schema), value))


_fixed_schemas: list[tuple[int, dict[str, Any], st.SearchStrategy[bytes]]] = [
    (3, {}, st.binary(min_size=3, max_size=3)),
    (8, {"logicalType": "decimal", "precision": 12, "scale": 2}, _number(8, 12)),
    (16, {"logicalType": "uuid"}, st.binary(min_size=16, max_size=16)),
    (12, {"logicalType": "duration"}, st.binary(min_size=12, max_size=12)),
]


@st.composite
def foreign(draw: st.DrawFn) -> Made:
    """A record as others may have defined it."""
    return Maker(draw).record(4)


def is_told_apart(node: Any) -> bool:
    """Whether members of unions are of different types in Zed: if they are not, it is not known which was written."""
    types = [part.node.type.under for part in node.parts] if node.form == "union" else []
    return len(set(types)) == len(types) and all(is_told_apart(part.node) for part in node.parts)


@given(st.data())
@settings(max_examples=examples(200))
def test_what_was_read_by_any_schema_is_written_as_it_was(data: st.DataObject) -> None:
    schema, values = data.draw(foreign())
    try:
        node = compile_schema(schema)
    except InvalidInput as e:
        assert "unknown type" in str(e)  # a union left out the member that defined it
        return
    out = io.BytesIO()
    fastavro.schemaless_writer(out, without_logical_types(schema), data.draw(values))
    value = read(schema, out.getvalue())
    if is_told_apart(node):
        written = AvroSchema(schema).body(value)
        assert read(schema, written) == value
        assert written == out.getvalue() or '"map"' in json.dumps(schema)  # the order of entries is not kept


def without_logical_types(part: Any) -> Any:
    """A schema by which fastavro writes numbers and bytes as they are."""
    if isinstance(part, list):
        return [without_logical_types(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {key: without_logical_types(item) for key, item in part.items() if key != "logicalType"}


@pytest.mark.parametrize(
    "typ, value, expected",
    [
        ("int", "5", "5(int32)"),
        ("long", "5(uint8)", "5"),
        ("double", "5", "5."),
        ("double", "0.5(float32)", "0.5"),
        ("float", "0.5", "0.5(float32)"),
        ("float", "NaN", "NaN(float32)"),
        (["null", "double", "long"], "5(int32)", "5((int64,float64))"),
        (["null", "double", "int"], "5000000000", "5000000000.((int32,float64))"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "5", "5.00(decimal(9,2))"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, '"1.5"(decimal(3,1))',
         "1.50(decimal(9,2))"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, '"B"', "%B(enum(A,B))"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "%B(enum(B))", "%B(enum(A,B))"),
        ({"type": "array", "items": "long"}, "|[1,2]|", "[1,2]"),
        ({"type": "map", "values": "int"}, '|{"a":5}|', '|{"a":5(int32)}|'),
        ({"type": "long", "logicalType": "timestamp-millis"}, "1970-01-01T00:00:01Z", "1970-01-01T00:00:01Z"),
        ("string", '"x"(name=string)', '"x"'),
        ({"type": "array", "items": "long"}, "[]", "[]([int64])"),
        ({"type": "map", "values": "long"}, "|{}|", "|{}|(|{string:int64}|)"),
        ({"type": "array", "items": ["null", "long"]}, "[null,null]", "[null(int64),null(int64)]"),
    ],
)  # fmt: skip
def test_values_of_other_types_are_written_if_they_fit(typ: Any, value: str, expected: str) -> None:
    assert again(record(a=typ), f"{{a:{value}}}") == f"{{a:{expected}}}"


@pytest.mark.parametrize(
    "typ, value, message",
    [
        ("int", "5000000000", "a: 5000000000 does not fit into int32"),
        ("int", "1.5", "a: float64 does not fit into a schema for int32"),
        ("int", "1.", "a: float64 does not fit into a schema for int32"),
        ("double", "9007199254740993", "a: 9007199254740993 is not exact as a float of 64 bits"),
        ("float", "0.1", "a: 0.1 is not exact as a float of 32 bits"),
        ("string", "1", "a: int64 does not fit into a schema for string"),
        ("string", "10.0.0.1", "a: ip does not fit into a schema for string"),
        ("long", "null(int64)", "a: null, which the schema does not allow"),
        ("long", "null", "a: null, which the schema does not allow"),
        ("int", "[1]", "a: [int64] does not fit into a schema for int32"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "1970-01-01T00:00:00.000000001Z",
         "a: a time is not a whole number of microseconds"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, '"1.55"(decimal(5,2))',
         "a: 1.55 is not a decimal of 3 digits, 1 of them after the point"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, "100",
         "a: 100 is not a decimal of 3 digits, 1 of them after the point"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, '"C"', "a: 'C' is not a symbol of enum(A)"),
        ({"type": "fixed", "name": "F", "size": 2}, "0x01", "a: 1 bytes where there have to be 2"),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, '"x"',
         "a: 'x' is not a UUID as it is usually written"),
        ({"type": "array", "items": "long", "zed_type": "set"}, "[1]",
         "a: [int64] does not fit into a schema for |[int64]|"),
        ({"type": "array", "items": "int"}, "[5000000000]", "a[]: 5000000000 does not fit into int32"),
        ({"type": "map", "values": "int"}, '|{"k":5000000000}|', "a{}: 5000000000 does not fit into int32"),
        (["null", "int", "string"], "1.5", "a: float64 does not fit into a schema for (int32,string)"),
        (["int", "null"], "5000000000", "a: 5000000000 does not fit into int32"),
        ({"type": "array", "items": "long"}, "[null]", "a[]: null, which the schema does not allow"),
        (record(x="long"), "{x:1,y:2}", "a.y: the schema has no such field"),
        (record(x="long"), "{}", "a.x: the field is missing, and the schema does not allow null"),
        (record(x="long"), "error({x:1})", "a: error({x:int64}) does not fit into a schema for {x:int64}"),
    ],
)  # fmt: skip
def test_what_would_not_be_exact_is_refused_with_the_path(typ: Any, value: str, message: str) -> None:
    if isinstance(typ, dict) and typ["type"] == "record":
        typ = {**typ, "name": "Inner"}
    assert refusal(record(a=typ), f"{{a:{value}}}") == message


# ---- with a registry


def test_a_schema_is_registered_for_the_first_values(
    served: SchemaRegistry, encoder: AvroEncoder, decoder: Decoder
) -> None:
    value = parse_value("{id:1,at:2024-01-01T00:00:00Z,ip:10.0.0.1}")
    assert decoder.value(encoder.encode(value)) == value
    assert decoder.value(encoder.encode(value)) == value
    assert served.subjects == {"orders-value": [1]}
    assert json.loads(served.schemas[1]["schema"])["name"] == "orders"
    assert served.requests.count("POST /subjects/orders-value/versions") == 1


def test_one_schema_is_registered_for_all_shapes_of_a_batch(
    served: SchemaRegistry, encoder: AvroEncoder, decoder: Decoder
) -> None:
    values = [parse_value(text) for text in ("{a:1}", '{b:"x"}', "{a:1.5}", "{c:{d:1}}")]
    encoder.prepare(value.type for value in values)
    records = [encoder.encode(value) for value in values]
    assert served.subjects == {"orders-value": [1]}
    assert [format_value(decoder.value(each)) for each in records][2] == (
        "{a:1.5((int64,float64)),b:null(string),c:null({d:int64})}"
    )


def test_an_encoder_goes_on_with_the_latest_schema(
    served: SchemaRegistry, registry: Registry, decoder: Decoder
) -> None:
    first = AvroEncoder(registry, "orders-value")
    old = first.encode(parse_value("{a:1}"))
    second = AvroEncoder(registry, "orders-value")
    assert second.encode(parse_value("{a:1}")) == old
    new = second.encode(parse_value("{a:2,b:10.0.0.1}"))
    assert [format_value(decoder.value(each)) for each in (old, new)] == ["{a:1}", "{a:2,b:10.0.0.1}"]
    assert served.subjects == {"orders-value": [1, 2]}
    assert format_value(decoder.value(second.encode(parse_value("{b:10.0.0.2}")))) == "{a:null(int64),b:10.0.0.2}"


def test_a_shape_that_no_schema_takes_does_not_stop_the_others(encoder: AvroEncoder, decoder: Decoder) -> None:
    good, bad = parse_value("{a:1}"), parse_value('error("x")')
    encoder.prepare([good.type, bad.type])
    assert decoder.value(encoder.encode(good)) == good
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"^error\(string\) is of another kind than the records of the topic"):
            encoder.encode(bad)


def test_a_registry_that_fails_is_not_the_fault_of_the_value(
    served: SchemaRegistry, encoder: AvroEncoder, decoder: Decoder
) -> None:
    value = parse_value("{a:1}")
    served.failure = Answer(503)
    with pytest.raises(StorageFailure):
        encoder.encode(value)
    served.failure = None
    assert decoder.value(encoder.encode(value)) == value


def test_a_schema_that_the_registry_refuses_is_said_to_be(served: SchemaRegistry, encoder: AvroEncoder) -> None:
    encoder.encode(parse_value("{a:1}"))
    served.failure = Answer(409, b'{"error_code":409,"message":"Incompatible"}')
    with pytest.raises(InvalidInput, match=r"the registry refuses the schema: Incompatible \(409\)"):
        encoder.encode(parse_value("{b:1}"))
    assert len(encoder.encode(parse_value("{a:2}"))) == 7


def test_a_subject_of_another_kind_is_refused(served: SchemaRegistry, encoder: AvroEncoder) -> None:
    served.add("{}", "orders-value", schemaType="JSON")
    with pytest.raises(InvalidInput, match="the schema of orders-value is not one of Avro alone"):
        encoder.encode(parse_value("{a:1}"))
