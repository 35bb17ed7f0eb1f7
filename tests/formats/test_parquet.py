from __future__ import annotations

import base64
import errno
import io
import json
import time
import tracemalloc
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import zson
from shoal.formats.arrow import parquet
from shoal.formats.columns.batches import Batch
from shoal.formats.columns.physical import arrow_type
from shoal.formats.streams import WriteOptions
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.text import Formatter, format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.samples import damaged, written

WRITTEN = (
    "{u1:1(uint8),u2:2(uint16),u4:3(uint32),i1:-1(int8),i2:-2(int16),i4:-3(int32),i8:-4,at:2001-02-03T04:05:06.7Z,"
    'f4:0.25(float32),f8:-1.5,flag:true,raw:0xfeed,text:"é",addr:10.0.0.1,block:10.0.0.0/8,kind:<[string]>,'
    'bad:error("why"),inner:{x:1}}'
)
PRINTED = (
    "{u1:1(uint8),u2:2(uint16),u4:3(uint32),i1:-1(int8),i2:-2(int16),i4:-3(int32),i8:-4,at:2001-02-03T04:05:06.7Z,"
    'f4:0.25(float32),f8:-1.5,flag:true,raw:0xfeed,text:"é",addr:"10.0.0.1",block:"10.0.0.0/8",kind:"[string]",'
    'bad:"error(\\"why\\")",inner:{x:1}}'
)
NULLS = (
    "{u1:null(uint8),u2:null(uint16),u4:null(uint32),i1:null(int8),i2:null(int16),i4:null(int32),i8:null(int64),"
    "at:null(time),f4:null(float32),f8:null(float64),flag:null(bool),raw:null(bytes),text:null(string),"
    "addr:null(string),block:null(string),kind:null(string),bad:null(string),inner:null({x:int64})}"
)


def write(values: Sequence[Value]) -> bytes:
    return written(parquet.Writer, values)


def read(data: bytes, types: str = "zed") -> list[Value]:
    return list(parquet.read(io.BytesIO(data), ReadOptions(arrow_types=types)))


def columns(data: bytes) -> list[Batch]:
    return list(parquet.read_columns(io.BytesIO(data), ReadOptions(arrow_types="zed")))


def file(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def texts(data: bytes) -> list[str]:
    return [format_value(value) for value in read(data)]


# ---- conformance


def test_values_are_printed_as_they_were_written_or_as_their_text() -> None:
    value = parse_value(WRITTEN)
    nulls = Value(value.type, (None,) * len(value.data))
    assert texts(write([value, nulls])) == [PRINTED, NULLS]


def test_a_record_is_written_and_read() -> None:
    assert texts(write([parse_value("{a:1}")])) == ["{a:1}"]


CASES = Path(__file__).parents[2].parent / "shared" / "conformance" / "script.jsonl"


@pytest.mark.skipif(not CASES.exists(), reason="the conformance cases are not on this machine")
def test_files_of_the_conformance_cases_read_as_expected() -> None:
    cases = {case["name"]: case for case in map(json.loads, CASES.read_text().splitlines())}
    conn = cases["zio/parquetio/ztests/write-zng.yaml"]
    data = base64.b64decode(conn["inputs"][0]["data_b64"])
    assert "".join(text + "\n" for text in texts(data)) == conn["outputs"][0]["data"]
    dns = cases["cmd/zq/ztests/s3-parquet.yaml"]
    assert len(read(base64.b64decode(dns["inputs"][1]["data_b64"]))) == 10
    types = cases["zio/parquetio/ztests/types.yaml"]
    records = list(zson.read(io.BytesIO(types["inputs"][0]["data"].encode())))
    formatter = Formatter(4)
    assert "".join(formatter.format(v) + "\n" for v in read(write(records))) == types["outputs"][0]["data"]


# ---- types


@pytest.mark.parametrize(
    "text",
    [
        "{a:null}",
        "{a:1.5(float16)}",
        "{a:1h2m3.000000001s,b:-1ns}",
        "{a:1s(=arrow_duration_s),b:1ms(=arrow_duration_ms),c:1us(=arrow_duration_us)}",
        "{a:2022-12-04T19:43:48.123456789Z,b:1677-09-21T00:12:43.145224192Z}",
        "{a:2022-12-04T00:00:00Z(=arrow_date32)}",
        "{a:2022-12-04T19:43:48.123Z(=arrow_timestamp_ms),b:2022-12-04T19:43:48.123456Z(=arrow_timestamp_us)}",
        "{a:1970-01-01T19:43:48.123Z(=arrow_time32_ms),b:1970-01-01T19:43:48.123456Z(=arrow_time64_us)}",
        "{a:1970-01-01T19:43:48.123456789Z(=arrow_time64_ns)}",
        "{a:18446744073709551615(uint64),b:-9223372036854775808}",
        "{a:{high:1,low:2(uint64)}(=arrow_decimal128)}",
        "{a:[1(uint64),2(uint64),3(uint64),4(uint64)](=arrow_decimal256)}",
        '{a:"x"(=arrow_large_string),b:0x00(=arrow_large_binary),c:[1](=arrow_large_list)}',
        "{a:0x0102(=arrow_fixed_size_binary_2),b:[1,2](=arrow_fixed_size_list_2)}",
        '{a:[{b:[1,null(int64)]},null({b:[int64]})],m:|{1:"a",2:null(string)}|}',
        '{"a.b":1,"":2,"c d":{"":"x"}}',
    ],
)
def test_types_that_parquet_can_hold_survive(text: str) -> None:
    value = parse_value(text)
    nulls = Value(value.type, (None,) * len(value.data))
    assert read(write([value, nulls, value])) == [value, nulls, value]


def test_units_that_parquet_lacks_become_finer() -> None:
    text = (
        "{a:2022-12-04T19:43:48Z(=arrow_timestamp_s),b:1970-01-01T19:43:48Z(=arrow_time32_s),"
        "c:2022-12-04T00:00:00Z(=arrow_date64)}"
    )
    expected = (
        "{a:2022-12-04T19:43:48Z(=arrow_timestamp_ms),b:1970-01-01T19:43:48Z(=arrow_time32_ms),"
        "c:2022-12-04T00:00:00Z(=arrow_date32)}"
    )
    assert texts(write([parse_value(text)])) == [expected]


def test_dictionaries_and_logical_types_read_as_their_values() -> None:
    table = pa.table(
        {
            "d": pa.array(["a", None]).dictionary_encode(),
            "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16))),
            "j": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(["[1]", None])),
        }
    )
    expected = '{d:"a",u:0x30303030303030303030303030303030(=arrow_fixed_size_binary_16),j:"[1]"}'
    assert texts(file(table))[0] == expected


def test_a_file_without_an_arrow_schema_has_the_types_of_parquet() -> None:
    table = pa.table({"d": pa.array([1], pa.duration("ns")), "l": pa.array(["x"], pa.large_string())})
    assert texts(file(table, store_schema=False)) == ['{d:1,l:"x"}']


def test_columns_have_the_physical_form_of_their_shape() -> None:
    value = parse_value(WRITTEN)
    (batch,) = columns(write([value, value]))
    (part,) = batch.parts
    assert part.column.type == arrow_type(part.shape)
    assert part.rows.tolist() == [0, 1]
    assert [v.type for v in batch.values()] == [part.shape] * 2


def test_old_times_are_read_but_not_beyond_what_nanoseconds_hold() -> None:
    near = pa.table({"t": pa.array([1, None, -1], pa.int64()).view(pa.timestamp("ns"))})
    data = file(near, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(io.BytesIO(data)).schema.column(0).physical_type == "INT96"
    assert [v.data for v in read(data)] == [(1,), (None,), (-1,)]
    far = pa.table({"n": [1], "t": pa.array([253_402_300_799], pa.int64()).view(pa.timestamp("s"))})
    with pytest.raises(InvalidInput, match=r"parquet: timestamp\[us\] is out of range"):
        read(file(far, use_deprecated_int96_timestamps=True))


def test_times_beyond_64_bits_of_nanoseconds_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"parquet: timestamp\[us\] is out of range"):
        read(file(pa.table({"t": pa.array([2**62], pa.int64()).view(pa.timestamp("us"))})))


# ---- reading


def test_a_source_that_cannot_seek_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(InvalidInput, match=r"^parquet requires a seekable input$"):
        list(parquet.read(Pipe(write([parse_value("{a:1}")])), ReadOptions()))


def test_row_groups_are_read_in_bounded_batches() -> None:
    table = pa.table({"a": range(50_000), "l": [[i] for i in range(50_000)]})
    found = columns(file(table, row_group_size=20_000))
    assert [b.length for b in found] == [16_384, 3_616, 16_384, 3_616, 10_000]
    assert [v.data for b in found for v in b.values()] == [(i, (i,)) for i in range(50_000)]


def test_wide_rows_are_read_in_shorter_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1_000_000)
    data = file(pa.table({"a": [str(i) * 4_000 for i in range(100, 300)]}), use_dictionary=False)
    assert [b.length for b in columns(data)] == [83, 83, 34]


def test_files_of_no_rows_and_of_no_columns_are_read() -> None:
    assert read(file(pa.table({"a": pa.array([], pa.int64())}))) == []
    assert read(file(pa.table({}))) == []


def test_a_source_of_short_reads_is_read_whole() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(3, size or 0))

    assert [v.data for v in parquet.read(Slow(write([parse_value("{x:1}")])), ReadOptions())] == [(1,)]


def test_a_failure_of_the_file_itself_stays_what_it_is() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        list(parquet.read(Broken(write([parse_value("{x:1}")])), ReadOptions()))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"x" * 100, b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_what_is_no_parquet_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="parquet: "):
        read(data)


def test_a_file_that_is_cut_off_is_refused() -> None:
    good = write([parse_value("{a:1}")])
    with pytest.raises(InvalidInput, match="parquet: "):
        read(good[:-10])
    with pytest.raises(InvalidInput, match="parquet: "):
        read(good[10:])


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"parquet: .*UTF8"):
        read(file(pa.table({"a": pa.array([b"\xff"]).view(pa.string())})))


def test_many_rows_of_next_to_no_bytes_are_read_in_bounded_memory() -> None:
    table = pa.table({"a": pa.nulls(3_000_000, pa.int64())})
    tracemalloc.start()
    assert sum(b.length for b in parquet.read_columns(io.BytesIO(file(table)), ReadOptions())) == 3_000_000
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


# ---- writing


def test_only_records_of_one_type_can_be_written() -> None:
    with pytest.raises(InvalidInput, match=r"^parquetio: not a record: 1$"):
        write([parse_value("1")])
    text = r"^parquetio: encountered multiple types \(consider 'fuse'\): {a:int64} and {b:int64}$"
    with pytest.raises(InvalidInput, match=text):
        write([parse_value("{a:1}"), parse_value("{b:1}")])


@pytest.mark.parametrize("text", ["{}", "{a:{}}", "{a:[{}]}", "{a:|{1:{}}|}"])
def test_an_empty_record_cannot_be_written(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^parquetio: unsupported type: empty record$"):
        write([parse_value(text)])


@pytest.mark.parametrize(
    "text, typ",
    [
        ("{a:1((int64,string))}", "(int64,string)"),
        ('{a:[1,"x"]}', "(int64,string)"),
        ("{a:1(arrow_month_interval=int32)}", "arrow_month_interval=int32"),
        ("{a:0x(=arrow_fixed_size_binary_0)}", "arrow_fixed_size_binary_0=bytes"),
        ("{a:[](arrow_fixed_size_list_0=[int64])}", "arrow_fixed_size_list_0=[int64]"),
        ("{a:|{}|}", "|{null:null}|"),
    ],
)
def test_types_that_parquet_lacks_cannot_be_written(text: str, typ: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        write([parse_value(text)])
    assert str(caught.value) == f"parquetio: unsupported type: {typ}"


def test_what_is_inside_an_error_does_not_matter() -> None:
    assert texts(write([parse_value("{a:error({b:{}})}")])) == ['{a:"error({b:{}})"}']
    typ = t.record([("a", t.error(t.union([t.INT64, t.STRING])))])
    assert texts(write([Value(typ, (None,))])) == ["{a:null(string)}"]


def test_no_records_make_a_file_that_can_be_read() -> None:
    out = io.BytesIO()
    parquet.Writer(out, WriteOptions()).close()
    assert pq.read_table(io.BytesIO(out.getvalue())).num_rows == 0
    assert list(parquet.read(io.BytesIO(out.getvalue()), ReadOptions())) == []


def test_records_are_gathered_into_row_groups() -> None:
    data = write([Value(t.record([("a", t.INT64)]), (i,)) for i in range(200_000)])
    meta = pq.ParquetFile(io.BytesIO(data)).metadata
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [131_000, 69_000]
    assert meta.row_group(0).column(0).compression == "ZSTD"
    assert [v.data for v in islice(parquet.read(io.BytesIO(data), ReadOptions()), 130_990, 131_010)] == [
        (i,) for i in range(130_990, 131_010)
    ]


def test_the_sink_stays_open_and_need_not_seek() -> None:
    class Out:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes, /) -> None:
            self.data += data

    out = Out()
    writer = parquet.Writer(out, WriteOptions())
    writer.write(parse_value("{x:1}"))
    writer.close()
    assert texts(out.data) == ["{x:1}"]


lossless = st.sampled_from([typ for typ in t.PRIMITIVES.values() if typ not in (t.IP, t.NET, t.TYPE)])
plain_types = st.recursive(
    lossless,
    lambda inner: st.one_of(
        strategies.record_types(inner, min_size=1),
        inner.map(t.array),
        st.tuples(inner.filter(lambda key: key is not t.NULL), inner).map(lambda kv: t.map_of(*kv)),
    ),
    max_leaves=3,
)
plain = strategies.record_types(plain_types, min_size=1)


@given(plain.flatmap(lambda typ: strategies.data_of(typ).map(lambda data: Value(typ, data))))
def test_records_of_plain_types_survive(value: Value) -> None:
    record = value.type.under
    assert isinstance(record, t.Record)
    try:
        data = write([value, value])
    except InvalidInput as e:
        assume("null key in a map" not in str(e))
        raise
    expected = Value(record, (None,) * len(record.fields)) if value.data is None else value
    assert read(data, "plain") == [expected, expected]


def files_to_damage() -> list[bytes]:
    value = parse_value('{a:1,s:"text",l:[1,null(int64)],r:{x:"y"},m:|{"k":1.5}|,t:2022-12-04T00:00:00Z}')
    nulls = Value(value.type, (None,) * len(value.data))
    table = pa.table({"d": pa.array(["a", None, "b"] * 9), "b": [True, None, False] * 9, "i": np.arange(27)})
    return [
        write([value, nulls, value]),
        write([parse_value(WRITTEN)] * 3),
        file(table),
        file(table, compression="none", use_dictionary=False, store_schema=False),
        file(table, compression="zstd", data_page_version="2.0", use_byte_stream_split=["i"], use_dictionary=["d"]),
    ]


def test_damaged_files_give_values_or_a_typed_error() -> None:
    messages, survivors, started = [], 0, time.monotonic()
    before = pa.total_allocated_bytes()
    for good in files_to_damage():
        for bad in damaged(good, 250, seed=4):
            try:
                survivors += len(list(islice(parquet.read(io.BytesIO(bad), ReadOptions()), 1000)))
            except InvalidInput as e:
                messages.append(str(e))
    assert all(message.startswith(("parquet: ", "type ", "duplicate ")) for message in messages)
    assert messages
    assert survivors
    assert time.monotonic() - started < 60
    assert pa.total_allocated_bytes() - before < 100_000_000


def test_any_byte_of_the_metadata_may_be_wrong() -> None:
    good = file(pa.table({"a": ["x", None]}), store_schema=False)
    messages = set()
    for place in range(len(good) - int.from_bytes(good[-8:-4], "little") - 8, len(good)):
        for change in (1, 2, 4, 16, 255):
            bad = bytearray(good)
            bad[place] ^= change
            try:
                list(islice(parquet.read(io.BytesIO(bad), ReadOptions()), 1000))
            except InvalidInput as e:
                messages.add(str(e).partition(",")[0])
    assert "parquet: Definition level histogram size mismatch" in messages
    assert all(message.startswith("parquet: ") for message in messages)
