"""ORC and version 1 of Feather, which another process reads: it may die, and nothing else may happen."""

from __future__ import annotations

import io
import os
import warnings
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, orc

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.arrow import apart, apart_child, reader
from shoal.formats.columns.batches import Batch, values_of
from shoal.formats.detect import read_pieces, read_source
from shoal.model.text import format_value
from shoal.testing.files import FILES
from shoal.testing.samples import damaged

TABLE = pa.table(
    {
        "a": [1, None, 3],
        "s": ["x", "é", None],
        "b": [True, None, False],
        "f": pa.array([1.5, None, -0.0], pa.float32()),
        "l": [[1, 2], [], None],
        "r": [{"x": 1}, None, {"x": None}],
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "t": pa.array([datetime(2020, 1, 2, 3, 4, 5, 678), None, datetime(1960, 1, 1)], pa.timestamp("ns")),
        "d": pa.array([1, None, -1], pa.date32()),
        "n": pa.array([Decimal("1.25"), None, Decimal("-0.05")], pa.decimal128(10, 2)),
    }
)


def orc_of(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    orc.write_table(table, out, **options)
    return out.getvalue()


def feather_of(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        feather.write_feather(table, out, version=1)
    return out.getvalue()


def texts(data: bytes, name: str = "auto", options: ReadOptions = ReadOptions()) -> list[str]:
    pieces = list(read_pieces(io.BytesIO(data), name, options))
    assert all(isinstance(piece, Batch) for piece in pieces), "it is read in columns"
    return [format_value(value) for value in values_of(pieces)]


def expected(table: pa.Table) -> list[str]:
    """What the same columns are in an Arrow stream."""
    return [format_value(value) for batch in table.to_batches() for value in values_of(reader.batches(batch))]


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_an_orc_file_is_read_as_the_same_columns_in_arrow(compression: str) -> None:
    assert texts(orc_of(TABLE, compression=compression)) == expected(TABLE)


def test_an_orc_file_is_read_value_by_value_and_by_name() -> None:
    rows = [format_value(value) for value in read_source(io.BytesIO(FILES["orc"]), "orc")]
    assert rows == ['{a:1,b:"x",c:true,d:1.5}', '{a:null(int64),b:"é",c:false,d:-1.}']


def test_an_orc_file_of_several_stripes_is_read_in_batches() -> None:
    table = pa.table({"a": range(100_000), "s": [f"text {i}" for i in range(100_000)]})
    data = orc_of(table, stripe_size=200_000)
    assert orc.ORCFile(io.BytesIO(data)).nstripes > 1
    pieces = list(read_pieces(io.BytesIO(data)))
    assert len(pieces) > 5
    assert [value.data[0] for value in values_of(pieces)] == list(range(100_000))


def test_files_without_rows_have_none() -> None:
    assert texts(orc_of(TABLE.slice(0, 0))) == []
    assert texts(feather_of(pa.table({"a": pa.array([], pa.int64())}))) == []


def test_a_file_of_version_1_of_feather_is_read() -> None:
    table = pa.table({"a": [1, None], "s": ["x", "é"], "b": [True, None], "d": pa.array([1, None], pa.date32())})
    for name in ("auto", "feather"):
        assert texts(feather_of(table), name) == expected(table)
    assert [format_value(value) for value in read_source(io.BytesIO(feather_of(table)))] == expected(table)


@pytest.mark.parametrize("name", ["orc", "feather"])
def test_damage_ends_the_other_process_at_most(name: str) -> None:
    refusals = []
    for bad in damaged(FILES[name], 12, seed=3):
        try:
            list(read_source(io.BytesIO(bad), name))
        except InvalidInput as e:
            refusals.append(str(e))
    assert refusals
    assert [text for text in refusals if "\n" in text or not text.startswith(f"{name}: ")] == []


def test_a_process_that_dies_is_an_error_of_the_file() -> None:
    """pyarrow 26 ends the process on most files of version 1 whose metadata are damaged."""
    good = FILES["feather"]
    size = int.from_bytes(good[-8:-4], "little")
    start = len(good) - 8 - size
    for place in range(start + 20, start + size):
        try:
            list(read_source(io.BytesIO(good[:place] + b"\x7f" * 4 + good[place + 4 :]), "feather"))
        except InvalidInput as e:
            if "the file is damaged, or reading it takes more than" in str(e):
                return
    raise AssertionError("no damage ended the process")


@pytest.mark.parametrize(
    "name, magic", [("orc", b"ORC\0"), ("feather", b"FEA1\0\0\0\0"), ("orc", b""), ("feather", b"")]
)
def test_what_is_not_a_file_of_the_format_is_refused(name: str, magic: bytes) -> None:
    with pytest.raises(InvalidInput, match=f"^{name}: "):
        list(read_source(io.BytesIO(magic), name))


def test_times_beyond_64_bits_of_nanoseconds_are_refused() -> None:
    data = orc_of(pa.table({"t": pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))}))
    with pytest.raises(InvalidInput, match=r"^orc: ORC timestamp .* is out of range"):
        texts(data)


def test_memory_is_limited() -> None:
    data = orc_of(pa.table({"a": ["x" * (100 * MIB)]}), compression="zlib")
    with pytest.raises(InvalidInput, match=r"^orc: .*reading it takes more than 64 MiB of memory, half of the limit"):
        texts(data, options=ReadOptions(max_memory=128 * MIB))


def test_the_other_process_ends_when_the_reader_does() -> None:
    data = orc_of(pa.table({"a": range(1_000_000)}), compression="uncompressed")
    before = children()
    pieces = read_pieces(io.BytesIO(data))
    assert len(list(islice(pieces, 1))) == 1
    assert len(children() - before) == 1
    pieces.close()  # type: ignore[attr-defined]
    assert not children() - before


def children() -> set[int]:
    """The processes that this one has started and that have not been waited for."""
    stats = (path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists())
    fields = ([*text.rpartition(")")[2].split(), text.partition(" ")[0]] for text in stats)
    return {int(own[-1]) for own in fields if own[1] == str(os.getpid())}


def test_files_need_to_seek() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    for name in ("orc", "feather"):
        with pytest.raises(InvalidInput, match=f"^{name} requires a seekable input$"):
            list(read_source(Pipe(FILES[name]), name))


def test_every_format_that_is_read_apart_has_a_reader_in_the_other_process() -> None:
    assert set(apart_child.READERS) == {"orc", "feather"}
    assert apart.read_orc is not None
