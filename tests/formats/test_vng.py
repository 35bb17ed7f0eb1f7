from __future__ import annotations

import io
import struct
import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.streams import WriteOptions
from shoal.formats.vng import files as vng
from shoal.formats.vng.metadata import count, make
from shoal.formats.vng.segments import SegmentWriter
from shoal.formats.zng import stream as zng
from shoal.model import types as t
from shoal.model import values as v
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.samples import damaged, every_kind, every_kind_everywhere, written


def write(values: list[Value]) -> bytes:
    return written(vng.Writer, values)


def read(data: bytes) -> list[Value]:
    return list(vng.read(io.BytesIO(data), ReadOptions()))


def sections(data: bytes) -> tuple[Value, bytes]:
    _, _, size, _ = struct.unpack("<4sIII", data[:16])
    (value,) = zng.read(io.BytesIO(data[16 : 16 + size]), ReadOptions())
    return value, data[16 + size :]


def metadata(data: bytes) -> str:
    return format_value(sections(data)[0])


def as_object(meta: Value, data: bytes = b"") -> bytes:
    out = io.BytesIO()
    writer = zng.Writer(out, WriteOptions(zng_compress=False))
    writer.write(meta)
    writer.close()
    body = out.getvalue()
    return struct.pack("<4sIII", b"VNG\0", 4, len(body), len(data)) + body + data


def parse(*texts: str) -> list[Value]:
    return [parse_value(text) for text in texts]


# ---- what is written


def test_one_distinct_value_is_a_constant_and_takes_no_data() -> None:
    data = write(parse("1", "1", "1"))
    assert struct.unpack("<4sIII", data[:16]) == (b"VNG\0", 4, 35, 0)
    assert metadata(data) == "{Value:1,Count:3(uint32)}(=Const)"


def test_few_distinct_values_make_a_dictionary_sorted_by_value() -> None:
    data = write(parse('"b"', '"a"', '"b"'))
    entries = '[{Value:"a",Count:1(uint32)}(=DictEntry),{Value:"b",Count:2}(DictEntry)]'
    segment = "{Offset:0,Length:3(int32),MemLength:3(int32),CompressionFormat:0(uint8)}(=Segment)"
    assert metadata(data) == (
        f'{{Type:<string>,Location:{segment},Dict:{entries},Min:"a",Max:"b",Count:3(uint32)}}(=Primitive)'
    )
    assert data.endswith(bytes((1, 0, 1)))


def test_many_distinct_values_are_stored_as_they_are() -> None:
    data = write([v.int64(i) for i in range(257)])
    assert "Dict:null" in metadata(data)
    assert "Min:0,Max:256" in metadata(data)


def test_nulls_are_runs_that_begin_with_values() -> None:
    data = write(parse("null(int64)", "null(int64)", "7", "7", "null(int64)"))
    assert data.endswith(b"\1\2\4\2\4\2\2")
    assert metadata(data).endswith("Values:{Value:7,Count:2(uint32)}(=Const),Count:3(uint32)}(=Nulls)")


def test_values_of_several_types_are_a_variant_in_order_of_appearance() -> None:
    data = write(parse('"a"', "1", '"a"'))
    assert metadata(data).endswith(
        'Values:[{Value:"a",Count:2(uint32)}(=Const),{Value:1,Count:1(uint32)}(=Const)],Length:3(uint32)}(=Variant)'
    )


def test_segments_are_compressed_only_if_that_helps() -> None:
    assert "CompressionFormat:1" in metadata(write([v.string(f"a long common prefix {i}") for i in range(300)]))
    assert "CompressionFormat:0" in metadata(write(parse("true", "false")))


def test_long_values_stay_out_of_metadata() -> None:
    values = [v.string("x" * 3_000_000)] * 2
    assert len(write(values)) < 100_000
    assert len(metadata(write(values))) < 1000
    assert read(write(values)) == values


# ---- round trips


def test_values_of_every_kind_round_trip_in_one_file() -> None:
    values = every_kind_everywhere()
    assert list(map(format_value, read(write(values)))) == list(map(format_value, values))
    assert read(write(values)) == values


@pytest.mark.parametrize("value", every_kind(), ids=format_value)
def test_a_column_of_one_type_round_trips(value: Value) -> None:
    values = [value, Value(value.type, None), value, value]
    assert read(write(values)) == values
    assert read(write([value])) == [value]


@given(st.lists(strategies.values(), max_size=6))
def test_any_values_round_trip(values: list[Value]) -> None:
    assert read(write(values)) == values


def test_a_file_without_values_round_trips() -> None:
    assert write([])
    assert read(write([])) == []


def test_columns_with_many_distinct_values_round_trip() -> None:
    values = [
        parse_value(f'{{i:{i}(uint16),s:"{i}",f:{i}.5,ip:1.2.{i >> 8}.{i & 255},a:[{i},null],u:{i}((int64,string))}}')
        for i in range(1000)
    ]
    assert read(write(values)) == values


def test_objects_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vng, "_MAX_VALUES", 7)
    values = every_kind()
    data = write(values)
    assert data.count(b"VNG\0") == -(-len(values) // 7)
    assert read(data) == values
    assert read(data + write([]) + data) == values + values


def test_large_values_start_a_new_object_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vng, "_MAX_WEIGHT", 1000)
    values = [v.string(f"{i:500d}") for i in range(10)]
    assert write(values).count(b"VNG\0") == 5
    assert read(write(values)) == values


def test_members_of_a_union_may_be_listed_in_any_order() -> None:
    segments = SegmentWriter()
    tags = segments.add_ints([0, 1, 0])
    text = make("Const", {"Value": v.string("x"), "Count": count(2)})
    number = make("Const", {"Value": v.int64(1), "Count": count(1)})
    meta = make("Union", {"Length": count(3), "Tags": tags, "Values": v.array([text, number])})
    entries = make("Union", {"Length": count(3), "Tags": tags, "Values": v.array([text, text])})
    assert list(map(format_value, read(as_object(meta, b"".join(segments.parts))))) == [
        '"x"((int64,string))',
        "1((int64,string))",
        '"x"((int64,string))',
    ]
    with pytest.raises(InvalidInput, match="columns of another length"):
        read(as_object(entries, b"".join(segments.parts)))


def test_a_value_that_nests_too_deep_for_metadata_is_refused() -> None:
    value = v.int64(1)
    for _ in range(15):
        value = v.record([("a", value)])
    assert read(write([value])) == [value]
    for _ in range(15):
        value = v.record([("a", value)])
    with pytest.raises(InvalidInput, match="vng: cannot hold this value: type nests deeper"):
        write([value])


# ---- what is refused


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


def test_a_source_that_cannot_seek_is_refused() -> None:
    with pytest.raises(InvalidInput, match="VNG requires a seekable input"):
        list(vng.read(Pipe(write(parse("1"))), ReadOptions()))


def segment(offset: int, length: int, mem_length: int, compression: int = 0) -> Value:
    names = ("Offset", "Length", "MemLength", "CompressionFormat")
    numbers = (offset, length, mem_length, compression)
    return make("Segment", {n: Value(t.INT64, x) for n, x in zip(names, numbers, strict=True)})


def primitive(where: Value, length: int, typ: t.Type = t.INT64, entries: Value = v.NULL) -> Value:
    fields = {"Type": Value(t.TYPE, typ), "Location": where, "Dict": entries, "Min": v.NULL, "Max": v.NULL}
    return make("Primitive", {**fields, "Count": count(length)})


def const(value: Value, length: int) -> Value:
    return make("Const", {"Value": value, "Count": Value(t.UINT32, length)})


def array(where: Value, length: int, values: Value, kind: str = "Array") -> Value:
    return make(kind, {"Length": count(length), "Lengths": where, "Values": values})


def dictionary(*texts: str) -> Value:
    return v.array([make("DictEntry", {"Value": x, "Count": count(1)}) for x in parse(*texts)])


def record(length: int, *columns: Value) -> Value:
    fields = [make("Field", {"Name": v.string(f"f{i}"), "Values": c}) for i, c in enumerate(columns)]
    return make("Record", {"Length": count(length), "Fields": v.array(fields)})


def nulls(where: Value, values: Value, number: int) -> Value:
    return make("Nulls", {"Runs": where, "Values": values, "Count": count(number)})


ONE = v.int64(1)
HOSTILE = [
    (v.string("x"), b"", "expected metadata"),
    (Value(t.named("Record", t.record([])), None), b"", "expected metadata"),
    (make("Widget", {}), b"", "unknown kind of metadata 'Widget'"),
    (make("Const", {"Value": ONE}), b"", "expected a field 'Count'"),
    (make("Const", {"Value": ONE, "Count": v.string("3")}), b"", "expected a count as 'Count'"),
    (make("Const", {"Value": ONE, "Count": v.int64(-1)}), b"", "not a plausible count"),
    (make("Const", {"Value": ONE, "Count": v.int64(2**40)}), b"", "not a plausible count"),
    (make("Named", {"Name": v.string("int64"), "Values": const(ONE, 1)}), b"", "bad type name"),
    (make("Named", {"Name": ONE, "Values": const(ONE, 1)}), b"", "expected a string as 'Name'"),
    (make("Error", {"Values": make("Variant", {})}), b"", "unknown kind of metadata 'Variant'"),
    (primitive(segment(0, 9, 9), 1), b"\2\2", "ends outside the 2 bytes"),
    (primitive(segment(-1, 2, 2), 1), b"\2\2", "not a plausible count"),
    (primitive(segment(0, 2, 3), 1), b"\2\2", "claims 3 bytes, more than its 2 can hold"),
    (primitive(segment(0, 2, 1), 1), b"\2\2", "holds 2 bytes, not the declared 1"),
    (primitive(segment(0, 2, 1000, 1), 1), b"\2\2", "claims 1000 bytes"),
    (primitive(segment(0, 2, 2, 1), 1), b"\2\2", "bad LZ4 data|holds"),
    (primitive(segment(0, 2, 2, 7), 1), b"\2\2", "unknown compression format 7"),
    (primitive(segment(0, 2, 2), 2), b"\2\2", "another number of values"),
    (primitive(segment(0, 4, 4), 1), b"\2\2\2\2", "another number of values"),
    (primitive(segment(0, 1, 1), 1), b"\0", "null or cut value"),
    (primitive(segment(0, 1, 1), 1), b"\3", "null or cut value"),
    (primitive(segment(0, 1, 1), 1), b"\xff", "malformed"),
    (primitive(segment(0, 2, 2), 1, t.IP), b"\2\2", "bad length of ip"),
    (primitive(segment(0, 2, 2), 1, t.STRING), b"\2\xff", "malformed"),
    (primitive(segment(0, 2, 2), 1, t.array(t.INT64)), b"\2\2", "expected a primitive type or an enum"),
    (primitive(segment(0, 2, 2), 2, t.INT64, dictionary("1", "2")), b"\0\2", "position 2 in a dictionary of 2"),
    (primitive(segment(0, 2, 2), 3, t.INT64, dictionary("1", "2")), b"\0\1", "holds 2 positions, not the declared 3"),
    (primitive(segment(0, 1, 1), 1, t.INT64, dictionary('"x"')), b"\0", "values of another type"),
    (record(2, const(ONE, 2), const(ONE, 3)), b"", "field 'f1' has 3 values in a record of 2"),
    (make("Record", {"Length": count(1), "Fields": ONE}), b"", "expected an array as 'Fields'"),
    (array(segment(0, 2, 2), 1, const(ONE, 2)), b"\2\2", "1 elements belong to no container"),
    (array(segment(0, 2, 2), 1, const(ONE, 0)), b"\2\2", "exceed the number of elements"),
    (array(segment(0, 2, 2), 1, const(ONE, 1)), b"\2\3", "not negative"),
    (array(segment(0, 2, 2), 3, const(ONE, 1)), b"\2\2", "holds 1 numbers, not the declared 3"),
    (array(segment(0, 1, 1), 1, const(ONE, 1), "Set"), b"\0", "not negative"),
    (nulls(segment(0, 4, 4), const(ONE, 1), 2), b"\2\2\2\2", "runs of nulls end before"),
    (nulls(segment(0, 4, 4), const(ONE, 0), 1), b"\2\2\2\2", "runs of values exceed"),
    (nulls(segment(0, 4, 4), const(ONE, 1), 0), b"\2\2\2\2", "runs of nulls exceed"),
]


@pytest.mark.parametrize(("meta", "data", "message"), HOSTILE)
def test_nothing_that_a_file_declares_is_believed(meta: Value, data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^vng: object at byte 0: .*({message})"):
        read(as_object(meta, data))


@pytest.mark.parametrize("good", [write(parse("1")), write(every_kind())])
def test_a_cut_file_is_refused(good: bytes) -> None:
    for size in (0, 3, 15, 16, 17, len(good) // 2, len(good) - 1):
        with pytest.raises(InvalidInput, match=r"^vng: "):
            read(good[:size])
    with pytest.raises(InvalidInput, match=f"^vng: object at byte {len(good)}: expected a header"):
        read(good + b"x")


def test_another_version_is_refused() -> None:
    good = write(parse("1"))
    with pytest.raises(InvalidInput, match="expected version 4, got 5"):
        read(good[:4] + b"\5" + good[5:])


def test_metadata_of_several_values_is_refused() -> None:
    two = io.BytesIO()
    writer = zng.Writer(two, WriteOptions())
    for _ in range(2):
        writer.write(const(ONE, 1))
    writer.close()
    with pytest.raises(InvalidInput, match="expected one value in the metadata section"):
        read(struct.pack("<4sIII", b"VNG\0", 4, len(two.getvalue()), 0) + two.getvalue())


def test_billions_of_constants_take_no_memory() -> None:
    many = 2**31 - 1
    runs = SegmentWriter()
    where = runs.add_ints([0, many])
    data = as_object(record(many, const(ONE, many), nulls(where, const(v.NULL, 0), many)), b"".join(runs.parts))
    tracemalloc.start()
    assert [x.data for x in islice(vng.read(io.BytesIO(data), ReadOptions()), 3)] == [(1, None)] * 3
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_value_of_billions_of_constants_is_refused() -> None:
    many = 2**31 - 1
    lengths = SegmentWriter()
    where = lengths.add_ints([many])
    with pytest.raises(InvalidInput, match="one value would take more than 2048 MiB of memory"):
        read(as_object(array(where, 1, const(ONE, many)), b"".join(lengths.parts)))


def test_damaged_files_give_values_or_a_typed_error() -> None:
    messages, survivors = [], 0
    files = [write(every_kind()), write(every_kind()[:60] * 2), write(parse("{a:[1,2]}"))]
    for good in (*files, *(as_object(*sections(data)) for data in files)):
        for bad in damaged(good, 250, seed=2):
            try:
                survivors += len(list(islice(vng.read(io.BytesIO(bad), ReadOptions()), 1000)))
            except InvalidInput as e:
                messages.append(str(e))
    assert all(message.startswith("vng: ") for message in messages)
    assert messages
    assert survivors
