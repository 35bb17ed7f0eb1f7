"""The parts of a file, read one after the other, are the file; where they are not, reading one fails."""

from __future__ import annotations

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Piece
from shoal.formats.detect import read_pieces
from shoal.formats.splits import Split, read_split, split
from shoal.model.text import format_value
from shoal.model.values import Value

OPTIONS = ReadOptions()


def texts(pieces: list[Piece]) -> list[str]:
    return [format_value(v) for piece in pieces for v in ((piece,) if isinstance(piece, Value) else piece.values())]


def whole(data: bytes, name: str = "auto") -> list[str]:
    return texts(list(read_pieces(io.BytesIO(data), name, OPTIONS)))


def in_parts(data: bytes, size: int, name: str = "auto") -> tuple[list[Split], list[str]]:
    parts = split(io.BytesIO(data), name, OPTIONS, size)
    found = [text for part in parts for text in texts(list(read_split(io.BytesIO(data), part, OPTIONS)))]
    return parts, found


LINES = st.lists(
    st.one_of(
        st.dictionaries(st.sampled_from("abc"), st.one_of(st.integers(-9, 9), st.text('x\n"é', max_size=30))),
        st.integers(),
        st.text("ab", max_size=200),
    ),
    min_size=1,
    max_size=30,
)


@given(LINES, st.integers(1, 300), st.booleans())
def test_lines_of_json(values: list[object], size: int, ends: bool) -> None:
    data = "\n".join(map(json.dumps, values)).encode() + (b"\n" if ends else b"")
    parts, found = in_parts(data, size, "ndjson")
    assert found == whole(data, "ndjson")
    assert len(parts) == -(-len(data) // size) or len(data) <= size


@given(st.lists(st.lists(st.text("a1 .,\n\"'", max_size=12), min_size=2, max_size=2), max_size=20), st.integers(1, 100))
def test_tables_come_out_the_same_or_fail(cells: list[list[str]], size: int) -> None:
    rows = [["x", "y"], *cells]
    data = "\n".join(",".join('"' + c.replace('"', '""') + '"' if set(c) & set(',\n"') else c for c in r) for r in rows)
    try:
        _, found = in_parts(data.encode(), size, "csv")
    except InvalidInput:
        return  # a line end in quotes: the file is read whole
    assert found == whole(data.encode(), "csv")


def test_a_large_table_has_its_header_in_every_part() -> None:
    data = b"a,b\n" + b"".join(b"%d,word%d\n" % (i, i) for i in range(1000))
    parts, found = in_parts(data, 2000)
    assert len(parts) == 6
    assert found == whole(data)


def test_values_over_several_lines_are_not_parted_in_silence() -> None:
    data = json.dumps([{"a": i, "b": [1, {"c": 2}]} for i in range(50)], indent=1).encode()
    with pytest.raises(InvalidInput):
        in_parts(data, 300)


def test_row_groups_are_parts() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(1000)), "s": [f"text {i}" for i in range(1000)]}), out, row_group_size=100)
    parts, found = in_parts(out.getvalue(), 4000)
    assert len(parts) > 2
    assert found == whole(out.getvalue())


def test_what_is_compressed_or_has_no_lines_is_read_whole() -> None:
    data = gzip.compress(b'{"a":1}\n' * 1000)
    assert [part.is_whole for part in split(io.BytesIO(data), "auto", OPTIONS, 10)] == [True]
    zson = b"{a:1(uint8)}\n" * 100
    assert split(io.BytesIO(zson), "auto", OPTIONS, 10) == [Split("zson")]
