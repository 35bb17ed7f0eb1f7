"""Arrow files: the index at the end says what is read, and is not believed where it makes no sense."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.arrow import files
from shoal.formats.arrow.messages import index_of
from shoal.formats.columns.batches import Batch, values_of
from shoal.formats.detect import read_pieces, read_source
from shoal.formats.splits import read_split, split
from shoal.formats.streams import WriteOptions
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing.samples import written

TABLE = pa.table(
    {
        "a": [1, None, 3],
        "s": pa.array(["x", "y", "x"]).dictionary_encode(),
        "l": [[1, 2], [], None],
        "r": [{"x": 1.5}, None, {"x": None}],
    }
)
ROWS = [
    '{a:1,s:"x",l:[1,2],r:{x:1.5}}',
    '{a:null(int64),s:"y",l:[]([int64]),r:null({x:float64})}',
    '{a:3,s:"x",l:null([int64]),r:{x:null(float64)}}',
]


def file_of(table: pa.Table, compression: str | None = None, rows: int | None = None) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return out.getvalue()


def texts(data: bytes, name: str = "auto") -> list[str]:
    rows = [format_value(value) for value in read_source(io.BytesIO(data), name)]
    pieces = list(read_pieces(io.BytesIO(data), name))
    assert all(isinstance(piece, Batch) for piece in pieces), "it is read in columns"
    assert rows == [format_value(value) for value in values_of(pieces)]
    return rows


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("rows", [None, 1])
@pytest.mark.parametrize("name", ["auto", "arrow", "feather"])
def test_a_file_is_read(compression: str | None, rows: int | None, name: str) -> None:
    assert texts(file_of(TABLE, compression, rows), name) == ROWS


def test_files_of_other_writers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.feather"
    feather.write_feather(TABLE, str(path))
    assert texts(path.read_bytes()) == ROWS
    out = io.BytesIO()
    pl.DataFrame({"a": [1, 2], "b": ["x", None]}).write_ipc(out, compat_level=pl.CompatLevel.oldest())
    assert [row.partition(",b")[0] for row in texts(out.getvalue())] == ["{a:1", "{a:2"]


def test_what_is_written_is_read() -> None:
    values = [parse_value('{a:1,b:"x",t:2024-05-01T09:00:00Z}'), parse_value("{a:2,b:null(string),t:null(time)}")]
    data = written(files.Writer, values)
    assert list(read_source(io.BytesIO(data))) == values
    assert pa.ipc.open_file(data).read_all().num_rows == 2
    assert texts(written(files.Writer, [])) == []


def test_the_index_decides_on_the_order() -> None:
    """A file may be read in another order than it was written in."""
    data = file_of(pa.table({"a": [1, 2]}), rows=1)
    size = int.from_bytes(data[-10:-6], "little")
    index = data[-10 - size : -10]
    blocks = index_of(index).batches
    first, second = (struct.pack("<qi4xq", *block) for block in blocks)
    assert index.count(first + second) == 1
    assert texts(data.replace(first + second, second + first)) == ["{a:2}", "{a:1}"]
    with pytest.raises(InvalidInput, match="arrow: the blocks of the file overlap"):
        texts(data.replace(first + second, second + second))


def test_a_large_file_is_read_in_parts() -> None:
    data = file_of(pa.table({"a": list(range(1000)), "s": pa.array(["x"] * 1000).dictionary_encode()}), rows=100)
    parts = split(io.BytesIO(data), "auto", ReadOptions(), len(data) // 4)
    assert len(parts) > 2
    values: list[Value] = []
    for part in parts:
        values += values_of(read_split(io.BytesIO(data), part, ReadOptions()))
    assert [value.data for value in values] == [(i, "x") for i in range(1000)]


def cut(data: bytes) -> bytes:
    return data[:-20]


def without_end(data: bytes) -> bytes:
    return data[:200]


def large_index(data: bytes) -> bytes:
    return data[:-10] + b"\xff\xff\xff\x7fARROW1"


def no_index(data: bytes) -> bytes:
    return data[:-10] + b"\0\0\0\0ARROW1"


def far_block(data: bytes) -> bytes:
    size = int.from_bytes(data[-10:-6], "little")
    (block,) = index_of(data[-10 - size : -10]).batches
    return data.replace(struct.pack("<qi4xq", *block), struct.pack("<qi4xq", block[0], block[1], 1 << 40))


@pytest.mark.parametrize("damage", [cut, without_end, large_index, no_index, far_block])
def test_a_file_with_a_bad_index_is_refused(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(InvalidInput, match=r"^arrow: (not an Arrow file|a block is beyond|malformed index)"):
        texts(damage(file_of(TABLE)))


def test_a_batch_that_claims_too_much_is_refused() -> None:
    data = file_of(pa.table({"a": ["x" * (40 * MIB)]}), "zstd")
    assert len(data) < MIB
    with pytest.raises(InvalidInput, match=r"^arrow: a batch that claims \d{8} bytes would take more than 32 MiB"):
        list(read_source(io.BytesIO(data), "auto", ReadOptions(max_memory=64 * MIB)))


def test_an_index_that_would_take_too_much_memory_is_refused() -> None:
    data = file_of(pa.table({"a": [1]}))
    size = 4 * MIB
    large = data[:-10] + bytes(size) + size.to_bytes(4, "little") + b"ARROW1"
    with pytest.raises(InvalidInput, match=r"^arrow: an index of 4194304 bytes would take more than 32 MiB"):
        list(read_source(io.BytesIO(large), "auto", ReadOptions(max_memory=64 * MIB)))


def test_a_file_needs_to_seek() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(InvalidInput, match="arrow requires a seekable input"):
        list(read_source(Pipe(file_of(TABLE)), "arrow"))
    with pytest.raises(InvalidInput, match="arrow: requires seekable input"):
        list(read_source(Pipe(file_of(TABLE))))


def test_records_of_several_types_cannot_be_written() -> None:
    with pytest.raises(InvalidInput, match="arrowio: encountered multiple types"):
        written(files.Writer, [parse_value("{a:1}"), parse_value("{b:1}")], WriteOptions())
