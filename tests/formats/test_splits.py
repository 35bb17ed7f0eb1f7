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
from shoal.formats.splits import Split, needs_survey, read_split, split, survey_split, surveyed
from shoal.formats.streams import Place
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


# ---- parts that have to know about each other


def surveyed_parts(data: bytes, size: int, name: str, options: ReadOptions) -> list[str]:
    """What the parts of a file give, after they were surveyed."""
    parts = split(io.BytesIO(data), name, options, size)
    if len(parts) > 1 and needs_survey(parts[0], options):
        parts = surveyed(parts, [survey_split(io.BytesIO(data), part, options) for part in parts])
    place = Place("f")
    return [text for part in parts for text in texts(list(read_split(io.BytesIO(data), part, options, place)))]


def read_whole(data: bytes, name: str, options: ReadOptions) -> list[str]:
    return texts(list(read_pieces(io.BytesIO(data), name, options, Place("f"))))


@pytest.mark.parametrize("last", ["7", "7.5", "007", "x", ""])
@pytest.mark.parametrize("header", ["a,b\n", "\ufeffa;b\n", '"a",b\n', "# c\nx\na|b\n"])
def test_all_parts_of_a_table_have_the_types_of_the_whole(last: str, header: str) -> None:
    delimiter = next(c for c in ",;|" if c in header)
    rows = "".join(f"{i}{delimiter}{'' if i % 3 else 'word'}\n" for i in range(1000))
    data = (header + rows + f"{last}{delimiter}y\n").encode()
    options = ReadOptions(csv_infer="columns", csv_comment="#", csv_skip=2 if header.startswith("#") else 0)
    parts = split(io.BytesIO(data), "csv", options, 2000)
    assert len(parts) > 2
    assert surveyed_parts(data, 2000, "csv", options) == read_whole(data, "csv", options)


@pytest.mark.parametrize("header", ["none", "x,y"])
def test_parts_of_a_table_without_a_header_have_its_names(header: str) -> None:
    data = b"".join(b"%d,word%d\n" % (i, i) for i in range(1000))
    options = ReadOptions(csv_infer="columns", csv_header=header)
    found = surveyed_parts(data, 2000, "csv", options)
    assert found == read_whole(data, "csv", options)
    assert len(found) == 1000


def test_parts_of_a_ragged_table_have_the_columns_of_the_longest_row() -> None:
    data = b"a,b\n" + b"".join(b"%d,x\n" % i for i in range(500)) + b"1,2,3\n"
    options = ReadOptions(csv_infer="columns", csv_ragged="fill")
    found = surveyed_parts(data, 1000, "csv", options)
    assert found == read_whole(data, "csv", options)
    assert found[0] == '{a:0,b:"x",c2:null(int64)}'


@pytest.mark.parametrize("name", ["ndjson", "csv", "line"])
def test_bad_records_in_parts_have_the_lines_of_the_file(name: str) -> None:
    lines = [b'{"a":%d}' % i if name != "csv" else b"%d,x" % i for i in range(300)]
    lines[0] = b"a,b" if name == "csv" else lines[0]
    lines[50], lines[250] = b"\xff", b"\xff,,"
    data = b"\n".join(lines)
    options = ReadOptions(csv_infer="columns", bad="keep")
    found = surveyed_parts(data, 700, name, options)
    assert found == read_whole(data, name, options)
    assert sum(text.startswith('error({file:"f"') for text in found) == 2
    assert any("line:251," in text for text in found)


def test_a_part_that_ends_in_quotes_is_not_read_by_itself() -> None:
    data = b"a,b\n" + b'1,"two\nlines"\n' * 200
    options = ReadOptions(csv_infer="columns", bad="keep")
    with pytest.raises(InvalidInput, match="quote is not closed"):
        surveyed_parts(data, 501, "csv", options)


def test_text_in_another_encoding_is_read_whole() -> None:
    data = ("a,b\n" + "1,ä\n" * 500).encode("utf-16")
    options = ReadOptions(csv_infer="columns", csv_encoding="utf-16")
    assert [part.is_whole for part in split(io.BytesIO(data), "csv", options, 100)] == [True]
