from __future__ import annotations

import errno
import io
import json
import time
import tracemalloc
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.arrow import reader as arrow_reader
from shoal.formats.arrow import stream as arrow
from shoal.formats.arrow import writer as arrow_writer
from shoal.formats.arrow.intervals import DAY_TIME, MONTHS
from shoal.formats.columns.batches import Batch
from shoal.formats.columns.physical import arrow_type
from shoal.formats.streams import WriteOptions
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.text import Formatter, format_primitive, format_type, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_map
from shoal.testing import strategies
from shoal.testing.samples import damaged, every_kind, written

ROUND_TRIP = (
    "{nil:null,flag:false,u1:250(uint8),i1:-3(int8),u2:40000(uint16),i2:-300(int16),u4:4000000000(uint32),"
    'i4:-70000(int32),u8:10000000000000000000(uint64),i8:-5,f2:0.5(float16),f4:0.25(float32),f8:-1.5,text:"é",'
    "raw:0xfeed,raw3:0x010203(=arrow_fixed_size_binary_3),day:1999-12-31T00:00:00Z(=arrow_date32),"
    "day64:2001-02-03T00:00:00Z(=arrow_date64),at_s:2001-02-03T04:05:06Z(=arrow_timestamp_s),"
    "at_ms:2001-02-03T04:05:06.007Z(=arrow_timestamp_ms),at_us:2001-02-03T04:05:06.007008Z(=arrow_timestamp_us),"
    "at:2001-02-03T04:05:06.007008009Z,clock_s:1970-01-01T01:02:03Z(=arrow_time32_s),"
    "clock_ms:1970-01-01T01:02:03.004Z(=arrow_time32_ms),clock_us:1970-01-01T01:02:03.004005Z(=arrow_time64_us),"
    "clock:1970-01-01T01:02:03.004005006Z(=arrow_time64_ns),months:7(arrow_month_interval=int32),"
    "span:{days:3(int32),milliseconds:4(uint32)}(=arrow_day_time_interval),"
    "money:{high:5,low:6(uint64)}(=arrow_decimal128),"
    'big:[9(uint64),8(uint64),7(uint64),6(uint64)](=arrow_decimal256),items:[4,5],inner:{x:1,y:"z"},'
    'either:"two"((int64,string)),pairs:|{2:"two"}|,triple:[1,2,3](=arrow_fixed_size_list_3),'
    "took_s:5s(=arrow_duration_s),took_ms:6ms(=arrow_duration_ms),took_us:7us(=arrow_duration_us),took:8ns,"
    'long:"l"(=arrow_large_string),wide:0x0a(=arrow_large_binary),many:[6](=arrow_large_list),'
    "mixed:{month:9(int32),day:8(int32),nanoseconds:7}(=arrow_month_day_nano_interval)}"
)


def write(values: Sequence[Value]) -> bytes:
    return written(arrow.Writer, values)


def read(data: bytes, types: str = "zed") -> list[Value]:
    return list(arrow.read(io.BytesIO(data), ReadOptions(arrow_types=types)))


def columns(data: bytes) -> list[Batch]:
    return list(arrow.read_columns(io.BytesIO(data), ReadOptions(arrow_types="zed")))


def stream(*batches: pa.RecordBatch) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return out.getvalue()


def texts(data: bytes) -> list[str]:
    return [format_value(value) for value in read(data)]


def of(array: pa.Array) -> list[str]:
    """The values of an array as a stream carries it, as text."""
    struct = pa.StructArray.from_arrays([array], ["x"])
    found = read(stream(pa.RecordBatch.from_struct_array(struct)))
    # Beyond one run of rows, and from the middle of the array.
    assert [v for b in columns(stream(pa.RecordBatch.from_struct_array(struct.slice(1)))) for v in b.values()] == found[
        1:
    ]
    return [format_value(value.field("x") or value) for value in found]


def ints(values: list[int | None], typ: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int32() if typ.bit_width == 32 else pa.int64()).view(typ)


# ---- conformance


def test_every_arrow_type_survives_a_round_trip() -> None:
    value = parse_value(ROUND_TRIP)
    (found,) = read(write([value]))
    assert format_value(found) == ROUND_TRIP
    nulls = Value(value.type, (None,) * len(value.data))
    assert read(write([value, nulls, value])) == [value, nulls, value]


def test_a_record_is_written_and_read() -> None:
    assert texts(write([parse_value("{x:1}")])) == ["{x:1}"]


# ---- types that come from Arrow


@pytest.mark.parametrize(
    "array, expected",
    [
        (pa.nulls(2), ["null", "null"]),
        (pa.array([True, None, False]), ["true", "null(bool)", "false"]),
        (pa.array([255, None], pa.uint8()), ["255(uint8)", "null(uint8)"]),
        (pa.array([65535, None], pa.uint16()), ["65535(uint16)", "null(uint16)"]),
        (pa.array([2**32 - 1], pa.uint32()), ["4294967295(uint32)"]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615(uint64)"]),
        (pa.array([-128], pa.int8()), ["-128(int8)"]),
        (pa.array([-(2**15)], pa.int16()), ["-32768(int16)"]),
        (pa.array([-(2**31)], pa.int32()), ["-2147483648(int32)"]),
        (pa.array([-(2**63), None]), ["-9223372036854775808", "null(int64)"]),
        (pa.array([1.5, None], pa.float16()), ["1.5(float16)", "null(float16)"]),
        (pa.array([1.1], pa.float32()), ["1.1(float32)"]),
        (pa.array([1.1, float("nan"), -0.0]), ["1.1", "NaN", "-0."]),
        (pa.array(["a", None, "é"]), ['"a"', "null(string)", '"é"']),
        (pa.array(["a", None, "b" * 20], pa.string_view()), ['"a"', "null(string)", f'"{"b" * 20}"']),
        (pa.array(["a", None], pa.large_string()), ['"a"(=arrow_large_string)', "null(arrow_large_string=string)"]),
        (pa.array([b"a", None]), ["0x61", "null(bytes)"]),
        (pa.array([b"a", None], pa.binary_view()), ["0x61", "null(bytes)"]),
        (pa.array([b"a"], pa.large_binary()), ["0x61(=arrow_large_binary)"]),
        (
            pa.array([b"ab", None], pa.binary(2)),
            ["0x6162(=arrow_fixed_size_binary_2)", "null(arrow_fixed_size_binary_2=bytes)"],
        ),
        (
            ints([0, -1, None], pa.date32()),
            ["1970-01-01T00:00:00Z(=arrow_date32)", "1969-12-31T00:00:00Z(=arrow_date32)", "null(arrow_date32=time)"],
        ),
        (ints([86_400_000], pa.date64()), ["1970-01-02T00:00:00Z(=arrow_date64)"]),
        (
            ints([1, None], pa.timestamp("s")),
            ["1970-01-01T00:00:01Z(=arrow_timestamp_s)", "null(arrow_timestamp_s=time)"],
        ),
        (ints([1], pa.timestamp("ms")), ["1970-01-01T00:00:00.001Z(=arrow_timestamp_ms)"]),
        (ints([1], pa.timestamp("us")), ["1970-01-01T00:00:00.000001Z(=arrow_timestamp_us)"]),
        (ints([1, None], pa.timestamp("ns", "America/New_York")), ["1970-01-01T00:00:00.000000001Z", "null(time)"]),
        (ints([1], pa.time32("s")), ["1970-01-01T00:00:01Z(=arrow_time32_s)"]),
        (ints([1], pa.time32("ms")), ["1970-01-01T00:00:00.001Z(=arrow_time32_ms)"]),
        (ints([1], pa.time64("us")), ["1970-01-01T00:00:00.000001Z(=arrow_time64_us)"]),
        (ints([1], pa.time64("ns")), ["1970-01-01T00:00:00.000000001Z(=arrow_time64_ns)"]),
        (ints([1], pa.duration("s")), ["1s(=arrow_duration_s)"]),
        (ints([1], pa.duration("ms")), ["1ms(=arrow_duration_ms)"]),
        (ints([1], pa.duration("us")), ["1us(=arrow_duration_us)"]),
        (ints([1, -1], pa.duration("ns")), ["1ns", "-1ns"]),
        (
            pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
            [
                "{month:1(int32),day:2(int32),nanoseconds:3}(=arrow_month_day_nano_interval)",
                "null(arrow_month_day_nano_interval={month:int32,day:int32,nanoseconds:int64})",
            ],
        ),
        (
            pa.array([Decimal("-1.23"), None], pa.decimal128(10, 2)),
            [
                "{high:-1,low:18446744073709551493(uint64)}(=arrow_decimal128_10_2)",
                "null(arrow_decimal128_10_2={high:int64,low:uint64})",
            ],
        ),
        (pa.array([Decimal("1.23")], pa.decimal32(5, 2)), ["{high:0,low:123(uint64)}(=arrow_decimal128_5_2)"]),
        (pa.array([Decimal("1.23")], pa.decimal64(15, 2)), ["{high:0,low:123(uint64)}(=arrow_decimal128_15_2)"]),
        (
            pa.array([Decimal("1.23"), None], pa.decimal256(50, 2)),
            [
                "[123(uint64),0(uint64),0(uint64),0(uint64)](=arrow_decimal256_50_2)",
                "null(arrow_decimal256_50_2=[uint64])",
            ],
        ),
        (pa.array([[1, None], [], None]), ["[1,null(int64)]", "[]([int64])", "null([int64])"]),
        (
            pa.array([[1, None], [], None, [2]], pa.list_view(pa.int64())),
            ["[1,null(int64)]", "[]([int64])", "null([int64])", "[2]"],
        ),
        (
            pa.array([["a"], None], pa.large_list(pa.string())),
            ['["a"](=arrow_large_list)', "null(arrow_large_list=[string])"],
        ),
        (pa.array([["a"]], pa.large_list_view(pa.string())), ['["a"](=arrow_large_list)']),
        (
            pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
            ["[1,2](=arrow_fixed_size_list_2)", "null(arrow_fixed_size_list_2=[int64])"],
        ),
        (pa.array([{"a": 1, "b": None}, None]), ["{a:1,b:null}", "null({a:int64,b:null})"]),
        (pa.array([{}, None], pa.struct([])), ["{}", "null({})"]),
        (
            pa.array([[("b", 1), ("a", 2)], [], None], pa.map_(pa.string(), pa.int64())),
            ['|{"a":2,"b":1}|', "|{}|(|{string:int64}|)", "null(|{string:int64}|)"],
        ),
        (pa.array(["b", None, "a", "b"]).dictionary_encode(), ['"b"', "null(string)", '"a"', '"b"']),
        (
            pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 4]), pa.array(["a", None, "b"])),
            ['"a"', '"a"', "null(string)", '"b"'],
        ),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
            ["0x" + "30" * 16 + "(=arrow_fixed_size_binary_16)"],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_arrow_types_become_zed_types(array: pa.Array, expected: list[str]) -> None:
    assert of(array) == expected


def test_unions_dense_and_sparse_take_zeds_order_of_members() -> None:
    codes = pa.array([5, 7, 5, 7], pa.int8())
    dense = pa.UnionArray.from_dense(
        codes, pa.array([0, 0, 1, 1], pa.int32()), [pa.array(["x", None]), pa.array([1, 2])], ["s", "i"], [5, 7]
    )
    expected = ['"x"((int64,string))', "1((int64,string))", "null((int64,string))", "2((int64,string))"]
    assert of(dense) == expected
    sparse = pa.UnionArray.from_sparse(
        codes, [pa.array(["x", None, None, None]), pa.array([0, 1, 0, 2])], ["s", "i"], [5, 7]
    )
    assert of(sparse) == expected


def test_members_of_a_union_that_are_one_type_in_zed_become_one() -> None:
    members = [pa.array(["x"]), pa.array([1]), pa.array(["y", "z"], pa.string_view())]
    union = pa.UnionArray.from_dense(
        pa.array([2, 0, 1, 2], pa.int8()), pa.array([0, 0, 0, 1], pa.int32()), members, ["0", "1", "2"]
    )
    assert of(union) == ['"y"((int64,string))', '"x"((int64,string))', "1((int64,string))", '"z"((int64,string))']


def test_intervals_that_pyarrow_cannot_open_are_read_wherever_they_stand() -> None:
    months, days = pa.array([1, None], pa.int32()), pa.array([2 + (3 << 32), None], pa.int64())
    plain = pa.StructArray.from_arrays(
        [months, days, pa.ListArray.from_arrays([0, 1, 2], months), pa.StructArray.from_arrays([days], ["d"])],
        ["m", "d", "l", "s"],
    )
    whole = pa.struct([("m", MONTHS), ("d", DAY_TIME), ("l", pa.list_(MONTHS)), ("s", pa.struct([("d", DAY_TIME)]))])
    data = stream(pa.RecordBatch.from_struct_array(plain.view(whole)))
    assert texts(data)[0] == (
        "{m:1(arrow_month_interval=int32),d:{days:2(int32),milliseconds:3(uint32)}(=arrow_day_time_interval),"
        "l:[1(arrow_month_interval)],s:{d:{days:2,milliseconds:3}(arrow_day_time_interval)}}"
    )
    assert read(write(read(data))) == read(data)


def test_milliseconds_below_zero_do_not_fit_zeds_day_time_interval() -> None:
    plain = pa.StructArray.from_arrays([pa.array([-1], pa.int64())], ["d"])
    with pytest.raises(InvalidInput, match="arrows: "):
        read(stream(pa.RecordBatch.from_struct_array(plain.view(pa.struct([("d", DAY_TIME)])))))


def test_nested_types_of_every_sort_keep_their_rows() -> None:
    inner = pa.array([[{"a": [1, 2], "b": "x"}, None], [], None, [{"a": None, "b": None}]])
    assert of(inner) == [
        '[{a:[1,2],b:"x"},null({a:[int64],b:string})]',
        "[]([{a:[int64],b:string}])",
        "null([{a:[int64],b:string}])",
        "[{a:null([int64]),b:null(string)}]",
    ]
    assert of(pa.DictionaryArray.from_arrays([3, None, 0], inner)) == [
        "[{a:null([int64]),b:null(string)}]",
        "null([{a:[int64],b:string}])",
        '[{a:[1,2],b:"x"},null({a:[int64],b:string})]',
    ]


def test_list_views_may_share_and_reorder_their_elements() -> None:
    views = pa.ListViewArray.from_arrays(
        pa.array([2, 0, 1], pa.int32()), pa.array([1, 2, 2], pa.int32()), pa.array([1, 2, 3])
    )
    assert of(views) == ["[3]", "[1,2]", "[2,3]"]


def test_maps_take_the_canonical_order_of_keys_and_the_last_of_equal_keys() -> None:
    maps = pa.array([[(2, "b"), (1, "a"), (2, "c")], [(3, "d")]], pa.map_(pa.int64(), pa.string()))
    assert of(maps) == ['|{1:"a",2:"c"}|', '|{3:"d"}|']
    (value,) = read(stream(pa.record_batch([maps.slice(0, 1)], ["m"])))
    assert value.data == (normal_map(t.INT64, [(1, "a"), (2, "c")]),)


def test_what_lies_under_a_null_record_means_nothing() -> None:
    times = pa.array([2**62, 1], pa.int64()).view(pa.timestamp("s"))
    union = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    records = pa.StructArray.from_arrays([times, union, pa.nulls(2)], ["ts", "u", "n"], mask=pa.array([True, False]))
    assert of(records) == [
        "null({ts:arrow_timestamp_s=time,u:(int64),n:null})",
        "{ts:1970-01-01T00:00:01Z(=arrow_timestamp_s),u:2((int64)),n:null}",
    ]


def test_what_lies_under_a_null_string_view_is_not_followed() -> None:
    views = np.array([[1 | 0x61 << 32, 0], [0xFF000000, 2**64 - 1]], "<u8")
    bad = pa.Array.from_buffers(pa.string_view(), 2, [pa.py_buffer(b"\1"), pa.py_buffer(views)])
    assert of(bad) == ['"a"', "null(string)"]


def test_columns_of_the_same_name_get_a_number() -> None:
    batch = pa.record_batch([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "a"])
    assert texts(stream(batch)) == ["{a:1,a1:2,a2:3}"]


def test_a_batch_without_columns_has_empty_records() -> None:
    assert texts(stream(pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([]))))) == ["{}", "{}"]


def test_batches_of_no_rows_are_passed_over() -> None:
    batch = pa.record_batch([pa.array([1, 2])], names=["a"])
    assert texts(stream(batch.slice(0, 0), batch, batch.slice(0, 0))) == ["{a:1}", "{a:2}"]
    assert read(stream(batch.slice(0, 0))) == []


def test_dictionaries_may_be_replaced_between_batches() -> None:
    first = pa.record_batch([pa.array(["a"]).dictionary_encode()], names=["x"])
    second = pa.record_batch([pa.array(["b", "c"]).dictionary_encode()], names=["x"])
    assert texts(stream(first, second)) == ['{x:"a"}', '{x:"b"}', '{x:"c"}']


def test_columns_have_the_physical_form_of_their_shape() -> None:
    value = parse_value(ROUND_TRIP)
    (batch,) = columns(write([value, value]))
    (part,) = batch.parts
    assert part.shape is value.type
    assert part.column.type == arrow_type(value.type)
    assert part.rows.tolist() == [0, 1]
    part.column.validate(full=True)


def test_long_batches_are_read_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch([pa.array(range(120_000)), pa.array([[i] for i in range(120_000)])], names=["a", "l"])
    found = columns(stream(batch))
    assert [b.length for b in found] == [50_000, 50_000, 20_000]
    assert [v.data for b in found for v in b.values()] == [(i, (i,)) for i in range(120_000)]
    monkeypatch.setattr(arrow_reader, "_BATCH_BYTES", 1_000_000)
    wide = pa.record_batch([pa.array(["x" * 10_000] * 150)], names=["a"])
    assert [b.length for b in columns(stream(wide))] == [99, 51]


def test_an_empty_source_is_an_empty_stream() -> None:
    assert read(b"") == []


def test_a_source_of_short_reads_is_read_whole() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(3, size or 0))

    assert [v.data for v in arrow.read(Slow(write([parse_value("{x:1}")])), ReadOptions())] == [(1,)]


def test_a_failure_of_the_file_itself_stays_what_it_is() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 20:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(size)

    with pytest.raises(OSError, match="Input/output error"):
        list(arrow.read(Broken(write([parse_value("{x:1}")])), ReadOptions()))


# ---- what is refused in reading


@pytest.mark.parametrize(
    "array, text",
    [
        (ints([2**62], pa.timestamp("s")), r"timestamp\[s\] is out of range"),
        (ints([-(2**62)], pa.duration("us")), r"duration\[us\] is out of range"),
        (ints([2**31 - 1], pa.date32()), r"date32\[day\] is out of range"),
    ],
    ids=str,
)
def test_times_beyond_64_bits_of_nanoseconds_are_refused(array: pa.Array, text: str) -> None:
    with pytest.raises(InvalidInput, match=f"arrows: {text}"):
        read(stream(pa.record_batch([array], names=["x"])))


@pytest.mark.parametrize(
    "data", [b"x", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x10\0\0\0", b"ARROW1\0\0" + b"\0" * 90, b"\0" * 100]
)
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="arrows: "):
        read(data)


def test_a_stream_that_is_cut_off_is_refused() -> None:
    good = write([parse_value("{x:1}")])
    for size in (10, 100, len(good) - 100):
        with pytest.raises(InvalidInput, match="arrows: "):
            read(good[:size])


def test_text_that_is_not_utf8_is_refused() -> None:
    bad = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(InvalidInput, match=r"arrows: .*UTF8"):
        read(stream(pa.record_batch([bad], names=["x"])))


def test_an_index_outside_of_its_dictionary_is_refused() -> None:
    bad = pa.DictionaryArray.from_arrays(pa.array([5], pa.int8()), pa.array(["a"]), safe=False)
    with pytest.raises(InvalidInput, match="arrows: "):
        read(stream(pa.record_batch([bad], names=["x"])))


def peak_of_refusal(batch: pa.RecordBatch, text: str) -> None:
    data = stream(batch)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    with pytest.raises(InvalidInput, match=text):
        read(data)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    assert pa.total_allocated_bytes() - before < 50_000_000
    tracemalloc.stop()


def test_rows_that_no_bytes_account_for_are_refused() -> None:
    nulls = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])
    peak_of_refusal(pa.record_batch([nulls], names=["x"]), "arrows: 2147483647 rows in a batch of 0 bytes")


def test_lists_of_billions_of_nulls_are_refused() -> None:
    lists = pa.ListArray.from_arrays([0, 2**31 - 1], pa.Array.from_buffers(pa.null(), 2**31 - 1, [None]))
    peak_of_refusal(pa.record_batch([lists], names=["x"]), "arrows: lists of 2147483647 elements of type null")
    fixed = pa.Array.from_buffers(
        pa.list_(pa.null(), 2**30), 1, [None], children=[pa.Array.from_buffers(pa.null(), 2**30, [None])]
    )
    peak_of_refusal(pa.record_batch([fixed], names=["x"]), "arrows: lists of 1073741824 elements of type null")


def test_long_values_that_a_dictionary_repeats_too_often_are_refused() -> None:
    text = pa.DictionaryArray.from_arrays(np.zeros(49_000, np.int32), pa.array(["x" * 1_000_000]))
    peak_of_refusal(pa.record_batch([text], names=["x"]), "arrows: repeated values grow to 49000392000 bytes")
    lists = pa.DictionaryArray.from_arrays(np.zeros(49_000, np.int32), pa.array([[{"a": 1}] * 100_000]))
    peak_of_refusal(pa.record_batch([lists], names=["x"]), "arrows: repeated values grow to")


def test_list_views_that_share_too_much_are_refused() -> None:
    zeros = pa.array(np.zeros(40_000, np.int32))
    views = pa.ListViewArray.from_arrays(zeros, pa.array(np.full(40_000, 10_000, np.int32)), pa.array(range(10_000)))
    peak_of_refusal(pa.record_batch([views], names=["x"]), "arrows: lists of 400000000 elements of type int64")


# ---- writing


def test_only_records_can_be_written() -> None:
    with pytest.raises(InvalidInput, match=r"^arrowio: not a record: 1$"):
        write([parse_value("1")])
    with pytest.raises(InvalidInput, match=r'^arrowio: not a record: error\({a:"x"}\)$'):
        write([parse_value('error({a:"x"})')])


def test_records_of_another_type_cannot_be_written() -> None:
    text = r"^arrowio: encountered multiple types \(consider 'fuse'\): {a:int64} and {a:string}$"
    with pytest.raises(InvalidInput, match=text):
        write([parse_value("{a:1}"), parse_value('{a:"x"}')])


def test_a_name_of_the_record_type_does_not_count() -> None:
    assert texts(write([parse_value("{a:1}"), parse_value("{a:2}(=named)")])) == ["{a:1}", "{a:2}"]


def test_a_null_record_is_a_record_of_nulls() -> None:
    assert texts(write([Value(parse_value("{a:1}").type, None)])) == ["{a:null(int64)}"]


@pytest.mark.parametrize("text", ["{}", "{a:{}}", "{a:[{}]}", "{a:null({})}"])
def test_an_empty_record_cannot_be_written(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^arrowio: unsupported type: empty record$"):
        write([parse_value(text)])


def test_no_records_write_nothing() -> None:
    assert write([]) == b""


def test_what_arrow_has_no_type_for_is_written_as_text() -> None:
    text = (
        "{i:1.2.3.4,n:10.0.0.0/8,t:<{a:int64}>,e:%b(enum(a,b)),r:error({m:1}),x:null(ip),s:|[2,1]|,p:80(port=uint16)}"
    )
    assert texts(write([parse_value(text)])) == [
        '{i:"1.2.3.4",n:"10.0.0.0/8",t:"{a:int64}",e:"b",r:"error({m:1})",x:null(string),s:[1,2],p:80(uint16)}'
    ]


def test_members_of_a_union_that_are_one_type_in_arrow_become_one() -> None:
    assert texts(write([parse_value('{u:[1.2.3.4,"x",1,::1,null]}')])) == ['{u:["1.2.3.4","x",1,"::1",null]}']


def test_a_union_of_too_many_members_cannot_be_written() -> None:
    union = t.union(t.named(f"n{i}", t.INT64) for i in range(129))
    with pytest.raises(InvalidInput, match=r"^arrowio: unsupported type: union with more than 128 fields$"):
        write([Value(t.record([("u", union)]), (None,))])


def test_a_null_key_of_a_map_cannot_be_written() -> None:
    with pytest.raises(InvalidInput, match=r"^arrowio: null key in a map of type \|{int64:string}\|$"):
        write([parse_value('{m:|{null(int64):"x",1:"y"}|}')])
    with pytest.raises(InvalidInput, match=r"^arrowio: unsupported type: \|{null:null}\|$"):
        write([parse_value("{m:|{}|}")])


@pytest.mark.parametrize(
    "text, message",
    [
        ("{a:0x01(=arrow_fixed_size_binary_2)}", "arrowio: .*"),
        ("{a:[1](=arrow_fixed_size_list_2)}", "arrowio: a value of type arrow_fixed_size_list_2 has another number"),
        ("{a:1970-01-02T00:00:00Z(=arrow_time32_s)}", "arrowio: .*time32"),
        ("{a:2100-01-02T00:00:00Z(=arrow_time32_s)}", "arrowio: .*"),
        ("{a:[1(uint64),2(uint64)](=arrow_decimal256)}", r"arrowio: no decimal256\(76, 0\) has the parts \[1, 2\]"),
        ("{a:{high:null(int64),low:2(uint64)}(=arrow_decimal128)}", "arrowio: no decimal128"),
        ("{a:{high:9223372036854775807,low:2(uint64)}(=arrow_decimal128)}", "arrowio: .*does not fit in precision"),
        ("{a:{days:1(int32),milliseconds:4294967295(uint32)}(=arrow_day_time_interval)}", "arrowio: no day_time"),
    ],
)
def test_what_does_not_fit_its_arrow_type_cannot_be_written(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        write([parse_value(text)])


def test_nulls_of_lists_of_an_enormous_size_are_refused_quickly() -> None:
    typ = t.record([("a", t.named("arrow_fixed_size_list_999999999", t.array(t.INT64)))])
    with pytest.raises(InvalidInput, match="arrowio: too many nulls of type arrow_fixed_size_list_999999999"):
        write([Value(typ, (None,))])


def test_names_that_do_not_go_with_their_types_are_only_names() -> None:
    text = (
        "{a:1(arrow_date32=int64),b:[1](=arrow_decimal256),c:{x:1}(=arrow_decimal128),"
        "d:0x00(=arrow_fixed_size_binary_x)}"
    )
    assert texts(write([parse_value(text)])) == ["{a:1,b:[1],c:{x:1},d:0x00}"]


def test_lists_and_bytes_of_no_size_survive() -> None:
    value = parse_value("{a:0x(=arrow_fixed_size_binary_0),b:[](arrow_fixed_size_list_0=[int64])}")
    nulls = Value(value.type, (None, None))
    assert read(write([value, nulls])) == [value, nulls]


def test_times_finer_than_their_unit_lose_the_excess() -> None:
    text = (
        "{a:1969-12-31T12:00:00Z(=arrow_date32),b:1969-12-31T12:00:00Z(=arrow_date64),"
        "c:1970-01-01T00:00:01.5Z(=arrow_timestamp_s),d:-1.5s(=arrow_duration_s)}"
    )
    expected = (
        "{a:1969-12-31T00:00:00Z(=arrow_date32),b:1969-12-31T00:00:00Z(=arrow_date64),"
        "c:1970-01-01T00:00:01Z(=arrow_timestamp_s),d:-1s(=arrow_duration_s)}"
    )
    assert texts(write([parse_value(text)])) == [expected]


def test_records_are_written_in_batches_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [parse_value(f"{{a:{i}}}") for i in range(25_000)]
    reader = pa.ipc.open_stream(write(small))
    assert [batch.num_rows for batch in reader] == [1000, 10_000, 10_000, 4000]
    monkeypatch.setattr(arrow_writer, "_BATCH_BYTES", 1_000_000)
    large = [Value(t.record([("a", t.STRING)]), ("x" * 10_000,)) for _ in range(1250)]
    assert [batch.num_rows for batch in pa.ipc.open_stream(write(large))] == [1000, 99, 99, 52]


def test_the_sink_stays_open() -> None:
    out = io.BytesIO()
    writer = arrow.Writer(out, WriteOptions())
    writer.write(parse_value("{x:1}"))
    writer.close()
    assert not out.closed


def exchanged_type(typ: t.Type) -> t.Type:
    """The type that comes back from Arrow."""
    under = typ.under
    match under:
        case t.Record():
            return t.record((f.name, exchanged_type(f.type)) for f in under.fields)
        case t.Array() | t.Set():
            return t.array(exchanged_type(under.elem))
        case t.Map():
            return t.map_of(exchanged_type(under.key), exchanged_type(under.value))
        case t.Union():
            return t.union(exchanged_type(m) for m in under.types)
        case t.Primitive():
            return t.STRING if under in (t.IP, t.NET, t.TYPE) else under
        case _:
            return t.STRING


def exchanged(typ: t.Type, data: Data) -> Data:
    """The data that come back from Arrow."""
    under = typ.under
    if data is None:
        return None
    match under:
        case t.Record():
            return tuple(exchanged(f.type, d) for f, d in zip(under.fields, data, strict=True))
        case t.Array() | t.Set():
            return tuple(exchanged(under.elem, d) for d in data)
        case t.Map():
            pairs = [(exchanged(under.key, k), exchanged(under.value, v)) for k, v in data]
            return normal_map(exchanged_type(under.key), pairs)
        case t.Union():
            inner = exchanged(under.types[data[0]], data[1])
            tag = t.union(exchanged_type(m) for m in under.types).tags[exchanged_type(under.types[data[0]])]
            return None if inner is None else (tag, inner)
        case t.Enum():
            return under.symbols[data]
        case t.Error():
            return format_value(Value(under, data))
        case t.Primitive():
            texts: dict[t.Type, Any] = {t.TYPE: format_type}
            if under in (t.IP, t.NET):
                return format_primitive(under, data)
            return texts[under](data) if under in texts else data
        case _:
            raise AssertionError(typ)


def has_empty_record(typ: t.Type) -> bool:
    under = typ.under
    if isinstance(under, t.Error):
        return False
    return (isinstance(under, t.Record) and not under.fields) or any(map(has_empty_record, under.children()))


@given(strategies.records())
def test_any_record_that_arrow_can_hold_comes_back(value: Value) -> None:
    assume(not has_empty_record(value.type))
    try:
        data = write([value, value])
    except InvalidInput as e:
        assume("null key in a map" not in str(e) and "unsupported type: |{" not in str(e))
        raise
    expected = Value(exchanged_type(value.type), exchanged(value.type, value.data))
    assert read(data, "plain") == [expected, expected]


def writable() -> list[Value]:
    """A few records of many types."""
    records = []
    for value in every_kind():
        record = Value(t.record([("x", value.type), ("n", t.INT64)]), (value.data, 1))
        try:
            write([record])
        except InvalidInput:
            continue
        records.append(record)
    return records


def streams_to_damage() -> list[bytes]:
    value = parse_value(ROUND_TRIP)
    encoded = pa.record_batch(
        {
            "d": pa.array(["a", None, "b"]).dictionary_encode(),
            "r": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), pa.array(["a", None])),
            "v": pa.array([[1], [], None], pa.list_view(pa.int64())),
            "s": pa.array(["a" * 20, None, ""], pa.string_view()),
            "u": pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a"] * 3)]),
        }
    )
    mixed = writable()
    return [write([value, value]), stream(encoded, encoded), *(write([record]) for record in mixed[::12])]


def test_damaged_streams_give_values_or_a_typed_error() -> None:
    files = streams_to_damage()
    messages, survivors, started = [], 0, time.monotonic()
    before = pa.total_allocated_bytes()
    for good in files:
        for bad in damaged(good, 1500 // len(files), seed=3):
            try:
                survivors += len(list(islice(arrow.read(io.BytesIO(bad), ReadOptions()), 1000)))
            except InvalidInput as e:
                messages.append(str(e))
    assert all(message.startswith(("arrows: ", "type ", "duplicate ", "a union ")) for message in messages)
    assert messages
    assert survivors
    assert time.monotonic() - started < 60
    assert pa.total_allocated_bytes() - before < 100_000_000


CASES = Path(__file__).parents[2].parent / "shared" / "conformance" / "script.jsonl"


@pytest.mark.skipif(not CASES.exists(), reason="the conformance cases are not on this machine")
def test_the_conformance_case_survives_a_round_trip() -> None:
    cases = {case["name"]: case for case in map(json.loads, CASES.read_text().splitlines())}
    case = cases["zio/arrowio/ztests/roundtrip.yaml"]
    (found,) = read(write([parse_value(case["inputs"][0]["data"])]))
    assert Formatter(4).format(found) + "\n" == case["outputs"][0]["data"]


@pytest.mark.parametrize("typ", [pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal256(50, 4)])
def test_decimals_keep_their_precision_and_scale(typ: pa.DataType) -> None:
    column = pa.array([Decimal("123") / 4 if typ.scale else Decimal(7), None, Decimal(-1)], typ)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, pa.schema([("d", typ)])) as stream:
        stream.write_table(pa.table({"d": column}))
    again = io.BytesIO()
    writer = arrow.Writer(again, WriteOptions())
    for value in arrow.read(io.BytesIO(out.getvalue()), ReadOptions()):
        writer.write(value)
    writer.close()
    assert pa.ipc.open_stream(again.getvalue()).read_all().column("d").combine_chunks().equals(column)


# ---- plain types


def plain_of(array: pa.Array) -> list[str]:
    return [format_value(value.field("x") or value) for value in read(stream(pa.record_batch([array], ["x"])), "plain")]


PLAIN: dict[str, tuple[pa.Array, list[str]]] = {
    "date32": (pa.array([0, -1, 2932896, None], pa.int32()).view(pa.date32()), [
        "1970-01-01", "1969-12-31", "9999-12-31", "null(date)",
    ]),
    "date64": (ints([86_400_000, -86_400_000, None], pa.date64()), ["1970-01-02", "1969-12-31", "null(date)"]),
    "decimal": (pa.array([Decimal("1.10"), Decimal("-0.05"), None], pa.decimal128(10, 2)), [
        "1.10(decimal(10,2))", "-0.05(decimal(10,2))", "null(decimal(10,2))",
    ]),
    "small decimal": (pa.array([Decimal("7.5")], pa.decimal32(4, 1)), ["7.5(decimal(4,1))"]),
    "large decimal": (pa.array([Decimal(7)], pa.decimal256(50, 0)), [
        "[7(uint64),0(uint64),0(uint64),0(uint64)](=arrow_decimal256_50_0)",
    ]),
    "scale below zero": (pa.array([Decimal("1E+2")], pa.decimal128(3, -2)), [
        "{high:0,low:1(uint64)}(=\"arrow_decimal128_3_-2\")",
    ]),
    "timestamp": (ints([1_000_001], pa.timestamp("us")), ["1970-01-01T00:00:01.000001Z"]),
    "timestamp with a zone": (ints([1], pa.timestamp("s", "Europe/Paris")), ["1970-01-01T00:00:01Z"]),
    "time of day": (ints([1], pa.time32("s")), ["1970-01-01T00:00:01Z(=arrow_time32_s)"]),
    "duration": (ints([5], pa.duration("ms")), ["5ms"]),
    "large string": (pa.array(["a"], pa.large_string()), ['"a"']),
    "large binary": (pa.array([b"a"], pa.large_binary()), ["0x61"]),
    "binary of a size": (pa.array([b"ab"], pa.binary(2)), ["0x6162"]),
    "large list": (pa.array([["a"]], pa.large_list(pa.large_string())), ['["a"]']),
    "list of a size": (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), ["[1,2]"]),
    "dictionary": (pa.array(["a", "a"]).cast(pa.large_string()).dictionary_encode(), ['"a"', '"a"']),
    "record": (pa.array([{"d": date(2024, 1, 5)}]), ["{d:2024-01-05}"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_types_are_those_that_mean_the_same(kind: str) -> None:
    array, expected = PLAIN[kind]
    assert plain_of(array) == expected


def test_a_date_beyond_the_year_9999_is_refused() -> None:
    with pytest.raises(InvalidInput, match="dates reach from year 1 to year 9999"):
        plain_of(pa.array([2932897], pa.int32()).view(pa.date32()))


def test_dates_and_decimals_are_written_as_what_they_are() -> None:
    data = write([parse_value("{day:2024-01-05,price:1.10(decimal(10,2))}")])
    table = pa.ipc.open_stream(data).read_all()
    assert table.schema.types == [pa.date32(), pa.decimal128(10, 2)]
    assert table.to_pylist() == [{"day": date(2024, 1, 5), "price": Decimal("1.10")}]
