"""Avro files keep their types, exactly, and are not believed."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import compression
from shoal.formats.avro import container, reader
from shoal.formats.columns.batches import values_of
from shoal.formats.detect import read_pieces, read_source
from shoal.model.text import format_type, format_value
from shoal.model.zcode import uvarint
from shoal.testing.tiers import examples


def file_of(schema: Any, values: list[Any], codec: str = "null", **options: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, values, codec=codec, **options)
    return out.getvalue()


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": typ} for name, typ in fields.items()]}


def texts(data: bytes, options: ReadOptions = ReadOptions()) -> list[str]:
    rows = [format_value(value) for value in read_source(io.BytesIO(data), "auto", options)]
    assert rows == [format_value(value) for value in values_of(read_pieces(io.BytesIO(data), "avro", options))]
    return rows


def refusal(data: bytes, options: ReadOptions = ReadOptions()) -> str:
    with pytest.raises(InvalidInput) as caught:
        for _ in read_source(io.BytesIO(data), "avro", options):
            pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def one(typ: Any, value: Any) -> str:
    """What a field of this type becomes."""
    (text,) = texts(file_of(record(a=typ), [{"a": value}]))
    return text.removeprefix("{a:").removesuffix("}")


def raw(schema: Any, count: int, block: bytes, codec: str = "null") -> bytes:
    """A file with one block, as it is."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    out = b"Obj\x01" + long(2)
    for part in (b"avro.schema", text, b"avro.codec", codec.encode()):
        out += long(len(part)) + part
    return out + b"\0" + bytes(16) + long(count) + long(len(block)) + block + bytes(16)


def long(number: int) -> bytes:
    return uvarint(number << 1)


# ---- types


@pytest.mark.parametrize(
    "typ, value, expected",
    [
        ("null", None, "null"),
        ("boolean", True, "true"),
        ("int", -(1 << 31), "-2147483648(int32)"),
        ("long", 1 << 62, "4611686018427387904"),
        ("float", 0.5, "0.5(float32)"),
        ("double", -0.0, "-0."),
        ("bytes", b"\xff\0", "0xff00"),
        ("string", "é", '"é"'),
        ({"type": "string", "avro.java.string": "String"}, "x", '"x"'),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "0x6162"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "%B(enum(A,B))"),
        ({"type": "array", "items": "long"}, [1, 2], "[1,2]"),
        ({"type": "array", "items": ["null", "long"]}, [1, None], "[1,null(int64)]"),
        ({"type": "map", "values": "long"}, {"b": 1, "a": 2}, '|{"a":2,"b":1}|'),
        ({"type": "array", "items": {"type": "map", "values": {"type": "array", "items": "int"}}}, [{"k": [1]}],
         '[|{"k":[1(int32)]}|]'),
        (["null", "string"], None, "null(string)"),
        (["null", "string"], "x", '"x"'),
        (["string", "null"], "x", '"x"'),
        (["long"], 3, "3"),
        (["null"], None, "null"),
        (["null", {"type": "record", "name": "S", "fields": [{"name": "x", "type": "long"}]}], {"x": 1}, "{x:1}"),
        (["null", "long", "string"], "x", '"x"((int64,string))'),
        (["null", "long", "string"], None, "null((int64,string))"),
        (["int", "long"], 1 << 40, "1099511627776((int32,int64))"),
        (["int", "long"], 5, "5(int32)((int32,int64))"),
        ({"type": "record", "name": "S", "fields": []}, {}, "{}"),
    ],
)  # fmt: skip
def test_types_become_zed_types(typ: Any, value: Any, expected: str) -> None:
    assert one(typ, value) == expected


@pytest.mark.parametrize(
    "base, logical, value, expected",
    [
        ("long", "timestamp-millis", 1_500, "1970-01-01T00:00:01.5Z"),
        ("long", "timestamp-micros", -1, "1969-12-31T23:59:59.999999Z"),
        ("long", "timestamp-nanos", 1, "1970-01-01T00:00:00.000000001Z"),
        ("long", "local-timestamp-millis", 0, "1970-01-01T00:00:00Z"),
        ("long", "local-timestamp-micros", 0, "1970-01-01T00:00:00Z"),
        ("long", "local-timestamp-nanos", 0, "1970-01-01T00:00:00Z"),
        ("int", "time-millis", 3_723_004, "1h2m3.004s"),
        ("long", "time-micros", 1, "1us"),
        ("int", "date", -1, "1969-12-31"),
        ("string", "uuid", str(UUID(int=5)), '"00000000-0000-0000-0000-000000000005"'),
        ("string", "klingon", "x", '"x"'),
        ("long", "date", 1, "1"),
    ],
)
def test_logical_types_become_zed_types(base: str, logical: str, value: Any, expected: str) -> None:
    number = value if isinstance(value, str) else (value << 1) ^ (value >> 63)
    block = uvarint(number) if isinstance(number, int) else long(len(number)) + number.encode()
    (text,) = texts(raw(record(a={"type": base, "logicalType": logical}), 1, block))
    assert text == f"{{a:{expected}}}"


def decimals(precision: int, scale: int, number: int, size: int = 30) -> bytes:
    """A file with a decimal in bytes and one that is fixed."""
    data = number.to_bytes(size, "big", signed=True)
    typ: dict[str, Any] = {"logicalType": "decimal", "precision": precision, "scale": scale}
    schema = record(a={"type": "bytes", **typ}, b={"type": "fixed", "name": "F", "size": size, **typ})
    return raw(schema, 1, long(size) + data + data)


@pytest.mark.parametrize(
    "precision, scale, number, expected",
    [
        (10, 2, 1234, "12.34"),
        (10, 2, -5, "-0.05"),
        (10, 0, -5, "-5"),
        (4, 4, 1, "0.0001"),
        (9, 2, 0, "0.00"),
        (38, 38, 10**38 - 1, "0." + "9" * 38),
    ],
)
def test_decimals_are_exact(precision: int, scale: int, number: int, expected: str) -> None:
    (value,) = read_source(io.BytesIO(decimals(precision, scale, number, size=max(1, (precision + 1) // 2))))
    assert format_value(value) == "{{a:{0},b:{0}}}".format(f"{expected}(decimal({precision},{scale}))")
    assert str(value.data[0]) == expected


def test_decimals_of_more_digits_than_ours_are_exact_text() -> None:
    (text,) = texts(decimals(60, 3, 10**50))
    assert text.startswith('{a:"100000000000000000000000000000000000000000000000.000"(=avro_decimal_60_3),b:"1000')


def test_decimals_with_more_digits_than_they_may_have_are_refused() -> None:
    assert refusal(decimals(4, 2, 10_000, 3)) == "avro: a decimal has more than its 4 digits"
    assert texts(decimals(4, 2, -9_999, 16)) == ["{a:-99.99(decimal(4,2)),b:-99.99(decimal(4,2))}"]
    schema = record(a={"type": "bytes", "logicalType": "decimal", "precision": 10_000, "scale": 10_000})
    assert refusal(raw(schema, 1, long(1) + b"1")) == "avro: schema: a decimal of 10000 digits"
    schema = record(a={"type": "bytes", "logicalType": "decimal", "precision": 10})
    assert refusal(raw(schema, 1, long(2000) + bytes(2000))) == "avro: a decimal has more than its 10 digits"


def test_dates_beyond_the_calendar_are_refused() -> None:
    schema = record(a={"type": "int", "logicalType": "date"})
    assert texts(raw(schema, 1, long(2_932_896))) == ["{a:9999-12-31}"]
    assert refusal(raw(schema, 1, long(2_932_897))) == (
        "avro: a date is out of range: dates reach from year 1 to year 9999"
    )


def test_other_logical_types_of_bytes() -> None:
    duration = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    uuid = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    block = b"".join(n.to_bytes(4, "little") for n in (1, 2, 3)) + bytes(15) + b"\5"
    (text,) = texts(raw(record(d=duration, u=uuid), 1, block))
    assert text == (
        "{d:{months:1(uint32),days:2(uint32),milliseconds:3(uint32)}(=avro_duration),"
        'u:"00000000-0000-0000-0000-000000000005"}'
    )


def test_what_fastavro_writes_of_python_objects_is_read() -> None:
    schema = record(
        t={"type": "long", "logicalType": "timestamp-micros"},
        d={"type": "int", "logicalType": "date"},
        m={"type": "int", "logicalType": "time-millis"},
        n={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        u={"type": "string", "logicalType": "uuid"},
    )
    row = {
        "t": datetime(2024, 5, 1, 9, tzinfo=UTC),
        "d": date(2024, 5, 1),
        "m": time(1, 2, 3),
        "n": Decimal("12.30"),
        "u": UUID(int=1),
    }
    (text,) = texts(file_of(schema, [row]))
    assert text == (
        '{t:2024-05-01T09:00:00Z,d:2024-05-01,m:1h2m3s,n:12.30(decimal(9,2)),u:"00000000-0000-0000-0000-000000000001"}'
    )


def test_types_are_defined_once_and_used_by_name() -> None:
    schema = {
        "type": "record",
        "name": "Tree",
        "namespace": "a.b",
        "fields": [
            {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
            {"name": "other", "type": ["null", "Color"]},
            {"name": "leaf", "type": {**record(c="a.b.Color"), "name": "Leaf"}},
            {"name": "leaves", "type": {"type": "array", "items": ["string", "Leaf"]}},
        ],
    }
    row = {"color": "RED", "other": "BLUE", "leaf": {"c": "RED"}, "leaves": ["x", {"c": "BLUE"}]}
    (value,) = read_source(io.BytesIO(file_of(schema, [row])))
    shown = format_type(value.type).replace("enum(RED,BLUE)", "E")
    assert shown == "{color:E,other:E,leaf:{c:E},leaves:[(string,{c:E})]}"
    assert value.data == (0, 1, (0,), ((0, "x"), (1, (1,))))


def test_names_without_a_namespace_mean_the_same_inside_a_union() -> None:
    leaf = {"type": "record", "name": "Leaf", "fields": [{"name": "x", "type": "long"}]}
    other = {"type": "record", "name": "Other", "fields": [{"name": "leaf", "type": "Leaf"}]}
    schema = record(a=leaf, b=["null", "string", other], c="Other")
    row = {"a": {"x": 1}, "b": ("Other", {"leaf": {"x": 2}}), "c": {"leaf": {"x": 3}}}
    (text,) = texts(file_of(schema, [row]))
    assert text == "{a:{x:1},b:{leaf:{x:2}}((string,{leaf:{x:int64}})),c:{leaf:{x:3}}}"


def test_members_of_a_union_that_are_one_type_in_zed_become_one() -> None:
    records = [{"type": "record", "name": name, "fields": [{"name": "x", "type": "long"}]} for name in "AB"]
    data = file_of(record(a=records), [{"a": ("A", {"x": 1})}, {"a": ("B", {"x": 2})}])
    assert texts(data) == ["{a:{x:1}}", "{a:{x:2}}"]


def test_a_file_need_not_hold_records() -> None:
    assert texts(file_of("string", ["a", "b"])) == ['"a"', '"b"']
    assert texts(file_of(["null", "string", "long"], ["a", None, 3])) == ['"a"', "null", "3"]
    records = [{"type": "record", "name": name, "fields": [{"name": name, "type": "long"}]} for name in "AB"]
    assert texts(file_of(records, [("A", {"A": 1}), ("B", {"B": 2})])) == ["{A:1}", "{B:2}"]
    assert texts(file_of("long", [])) == []


@given(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), st.text(), st.floats(), st.dictionaries(st.text(), st.binary())
)
@settings(max_examples=examples(50))
def test_any_values_come_back(numbers: list[int], text: str, number: float, entries: dict[str, bytes]) -> None:
    schema = record(n={"type": "array", "items": "long"}, s="string", f="double", m={"type": "map", "values": "bytes"})
    data = file_of(schema, [{"n": numbers, "s": text, "f": number, "m": entries}])
    (value,) = read_source(io.BytesIO(data))
    assert value.data[:2] == (tuple(numbers), text)
    assert str(value.data[2]) == str(number)
    assert dict(value.data[3]) == entries


# ---- codecs


def deflated(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


def snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, "snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_every_codec_of_fastavro_is_read(codec: str) -> None:
    data = file_of(record(a="long"), [{"a": i} for i in range(10_000)], codec, sync_interval=1000)
    assert texts(data) == [f"{{a:{i}}}" for i in range(10_000)]


@pytest.mark.parametrize("codec, pack", [("snappy", snappy), ("zstandard", zstandard.compress), ("deflate", deflated)])
def test_codecs_of_other_writers_are_read(codec: str, pack: Callable[[bytes], bytes]) -> None:
    block = b"".join(long(i) for i in range(1000))
    assert texts(raw("long", 1000, pack(block), codec)) == [str(i) for i in range(1000)]


def test_other_codecs_are_refused_by_name() -> None:
    assert refusal(raw("long", 1, b"\2", "lz4")) == (
        "avro: codec 'lz4' is not supported (write the file with one of: null, deflate, bzip2, xz, zstandard, snappy)"
    )


@pytest.mark.parametrize("codec, pack", [("snappy", snappy), ("zstandard", zstandard.compress), ("deflate", deflated)])
def test_a_damaged_block_is_refused(codec: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(range(256)) * 20)
    for bad in (packed[:-3], b"\xff" + packed[1:], b""):
        assert refusal(raw("long", 5120, bad, codec)).startswith("avro: ")


# ---- what is not believed


def test_a_block_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    small = ReadOptions(max_memory=16 * MIB)
    block = long(12 * MIB) + bytes(12 * MIB)
    for codec, pack in {"deflate": deflated, "zstandard": zstandard.compress, "snappy": snappy}.items():
        text = refusal(raw("string", 1, pack(block), codec), small)
        assert text.startswith("avro: a block would take more than 8 MiB of memory, half of the limit (raise -read.mem")
    monkeypatch.setattr(compression, "FREE", MIB)
    assert "expands more than 1000 times" in refusal(raw("string", 1, deflated(block), "deflate"))


@pytest.mark.parametrize(
    "item, least",
    [("int", 1), (record(x="int"), 1), ({"type": "map", "values": "null"}, 1), (["null", "int"], 1), ("double", 8)],
)
def test_lists_are_weighed_before_they_are_decoded(item: Any, least: int) -> None:
    count = 2 * MIB // least
    schema = {"type": "array", "items": item}
    text = refusal(raw(schema, 1, long(count) + bytes(2 * MIB + 1)), ReadOptions(max_memory=24 * MIB))
    assert text.startswith("avro: block 1: one value would take more than 12 MiB of memory")


def test_elements_without_bytes_are_refused() -> None:
    for item in ("null", record(), record(x="null"), {"type": "fixed", "name": "F", "size": 0}):
        assert refusal(raw({"type": "array", "items": item}, 1, long(1 << 60) + b"\0")) == (
            "avro: schema: an array whose elements take no bytes could have any number of them"
        )


def test_values_without_bytes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE", MIB)
    assert "expands more than 1000 times" in refusal(raw("null", 1 << 60, b""))


def test_types_that_contain_themselves_are_refused() -> None:
    schema = record(next=["null", "R"])
    assert refusal(raw(schema, 1, b"\0")) == "avro: schema: type 'R' contains itself, which no Zed type does"


@pytest.mark.parametrize(
    "schema, message",
    [
        (b"oops", "schema: not JSON"),
        (b'{"type":"array","items":' * 5000, "schema: not JSON"),
        ({"type": "klingon"}, "schema: unknown type 'klingon'"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}, "schema: "),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "schema: "),
        ({"type": "fixed", "name": "F", "size": -1}, "schema: type 'F' has a size of -1"),
        ({"type": {"type": "string"}}, "schema: "),
        (7, "schema: "),
        ({"type": "array"}, "schema: "),
    ],
)
def test_a_bad_schema_is_refused(schema: Any, message: str) -> None:
    assert refusal(raw(schema, 1, b"\0")).startswith(f"avro: {message}")


def test_damage_is_an_error() -> None:
    good = raw("string", 2, long(1) + b"a" + long(1) + b"b")
    assert texts(good) == ['"a"', '"b"']
    assert refusal(good[:-1]) == "avro: expected more data, found the end of the input"
    assert refusal(good[:-1] + b"x") == "avro: block 1 does not end with the marker of the file"
    assert refusal(b"Obj\x02") == "avro: expected a container file, which begins with Obj and a byte 1"
    assert refusal(b"Obj\x01" + b"\0" + bytes(16)) == "avro: the header has no schema"
    assert refusal(b"Obj\x01" + long(1 << 40)) == "avro: the header has more than 10000 entries"
    assert refusal(raw("string", 3, long(1) + b"a")).startswith("avro: malformed record")
    assert refusal(raw("string", 1, long(1) + b"\xff")).startswith("avro: malformed record (UnicodeDecodeError")
    assert refusal(raw("string", 1, long(1 << 50) + b"a")).startswith("avro: malformed record")
    assert refusal(raw("int", 1, long(1 << 40))) == "avro: 1099511627776 is not an int, which has 32 bits"


def test_times_beyond_64_bits_of_nanoseconds_are_refused() -> None:
    typ = {"type": "long", "logicalType": "timestamp-millis"}
    year_9999 = 253_402_300_799_000
    assert refusal(raw(record(t=typ), 1, long(year_9999))) == (
        "avro: a time is out of range: 64 bits of nanoseconds reach from 1677 to 2262"
    )


def test_a_file_is_read_from_a_pipe() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    assert [value.data for value in read_source(Pipe(file_of("long", [1, 2])))] == [1, 2]


def test_numbers_are_written_as_avro_reads_them() -> None:
    for number in (0, 1, -1, 63, 64, -64, -65, (1 << 63) - 1, -(1 << 63)):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, "long", number)
        assert container._long(number) == out.getvalue()
        assert container._Input(io.BytesIO(out.getvalue())).long() == number


def test_metadata_in_several_blocks_is_read() -> None:
    entries = [(b"avro.schema", b'"long"'), (b"user", b"x" * 1000)]
    head = b"Obj\x01"
    for name, value in entries:
        body = long(len(name)) + name + long(len(value)) + value
        head += uvarint(1) + long(len(body)) + body  # a negative count, and the size
    data = head + b"\0" + bytes(16) + long(1) + long(1) + b"\4" + bytes(16)
    assert [value.data for value in reader.read(io.BytesIO(data), ReadOptions())] == [2]
