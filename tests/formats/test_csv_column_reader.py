from __future__ import annotations

import io
import time
import tracemalloc
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Batch, values_of
from shoal.formats.columns.physical import arrow_type
from shoal.formats.csv import column_reader as csv_column_reader
from shoal.formats.csv import reader as csv_reader
from shoal.formats.csv import windows
from shoal.formats.csv.cells import classify, parts
from shoal.formats.csv.windows import Windows
from shoal.formats.streams import NAME_ENCODING
from shoal.model import types as t
from shoal.model.text import format_type, format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.samples import damaged
from shoal.testing.tiers import examples

Outcome = tuple[list[Value], str | None]


def by_columns(data: bytes, options: ReadOptions = ReadOptions(), tsv: bool = False) -> Outcome:
    values: list[Value] = []
    try:
        read = csv_column_reader.read_tsv if tsv else csv_column_reader.read
        for value in values_of(read(io.BytesIO(data), options)):
            values.append(value)
    except InvalidInput as e:
        return values, str(e)
    return values, None


def by_rows(data: bytes, options: ReadOptions = ReadOptions(), tsv: bool = False) -> Outcome:
    values: list[Value] = []
    try:
        values.extend((csv_reader.read_tsv if tsv else csv_reader.read)(io.BytesIO(data), options))
    except InvalidInput as e:
        return values, str(e)
    return values, None


def texts(data: bytes) -> list[str]:
    values, error = by_columns(data)
    assert error is None
    return [format_value(value) for value in values]


@pytest.fixture
def no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read in this test is read in columns."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("fell back to rows")

    monkeypatch.setattr(Windows, "_by_rows", refuse)
    monkeypatch.setattr(csv_column_reader, "cell_values", refuse)


# ---- regular text, all in columns


@pytest.mark.usefixtures("no_rows")
def test_cells_decide_their_own_type() -> None:
    data = b"a,b,c\n1,x,true\n,y,F\n1.5e3,2,t\nfoo,,\n"
    assert texts(data) == [
        '{a:1.,b:"x",c:true}',
        '{a:null,b:"y",c:false}',
        "{a:1500.,b:2.,c:true}",
        '{a:"foo",b:null,c:null}',
    ]


@pytest.mark.usefixtures("no_rows")
def test_rows_of_the_same_types_are_one_part_in_physical_form() -> None:
    (batch,) = csv_column_reader.read(io.BytesIO(b"a,b\n1,x\ny,z\n2,w\n,\n"))
    assert isinstance(batch, Batch)
    assert [(format_type(part.shape), part.rows.tolist()) for part in batch.parts] == [
        ("{a:null,b:null}", [3]),
        ("{a:float64,b:string}", [0, 2]),
        ("{a:string,b:string}", [1]),
    ]
    assert all(part.column.type == arrow_type(part.shape) for part in batch.parts)
    assert batch.length == 4


@pytest.mark.usefixtures("no_rows")
def test_numbers_are_those_of_go() -> None:
    cells = (
        "+1 1. .5 -0 1e400 1_000 0x1p-2 0x_1p4 Inf -inf +Infinity nan NaN -nan 1e5 1__0 0x1 1e 4.9e-324 iNf 12a - i n"
    )
    data = ("a,b\n" + "".join(f"{cell},1\n" for cell in cells.split())).encode()
    assert [format_value(v.field("a") or v) for v in by_columns(data)[0]] == [
        *("1.", "1.", "0.5", "-0.", '"1e400"', "1000.", "0.25", "16.", "+Inf", "-Inf", "+Inf", "NaN", "NaN"),
        *('"-nan"', "100000.", '"1__0"', '"0x1"', '"1e"', "5e-324", "+Inf", '"12a"', '"-"', '"i"', '"n"'),
    ]


@pytest.mark.usefixtures("no_rows")
def test_regular_quotes_are_read_in_columns() -> None:
    data = b'"a","b ""c"""\n"1","x,y"\n"","two\nlines"\n" 1","""q"""\n'
    assert texts(data) == [
        '{a:1.,"b \\"c\\"":"x,y"}',
        '{a:null,"b \\"c\\"":"two\\nlines"}',
        '{a:" 1","b \\"c\\"":"\\"q\\""}',
    ]


@pytest.mark.usefixtures("no_rows")
def test_spaces_before_fields_do_not_count() -> None:
    assert texts("a, b\n 1,  x \n\u3000\u00a0y,\u2003\n".encode()) == ['{a:1.,b:"x "}', '{a:"y",b:null}']
    assert texts(b'a,b\n x,"y"\n') == ['{a:"x",b:"y"}']


@pytest.mark.usefixtures("no_rows")
def test_blank_lines_carriage_returns_and_a_mark_are_no_data() -> None:
    assert texts(b"\xef\xbb\xbf\r\n\na,b\r\n\r\n1,2\r\n\n\n") == ["{a:1.,b:2.}"]
    assert texts(b"") == []
    assert texts(b"\n\r\n") == []
    assert texts(b"a,b") == []
    assert texts(b"a,b\n") == []
    assert texts(b"a\n\nx\n") == ['{a:"x"}']


@pytest.mark.usefixtures("no_rows")
def test_columns_of_the_same_name_get_a_number() -> None:
    assert texts(b"a,a,,\n1,2,3,4\n") == ['{a:1.,a1:2.,"":3.,"1":4.}']


@pytest.mark.usefixtures("no_rows")
def test_tabs_and_other_delimiters_separate() -> None:
    assert [v.data for v in by_columns(b"a\tb\n x\t1\n", tsv=True)[0]] == [(" x", 1.0)]
    for delimiter in "|; :x\\'#":
        found = by_columns(f"a{delimiter}b\n1{delimiter}2\n".encode(), ReadOptions(csv_delimiter=delimiter))[0]
        assert [v.data for v in found] == [(1.0, 2.0)], delimiter


@pytest.mark.usefixtures("no_rows")
def test_many_columns_of_mixed_kinds_are_told_apart() -> None:
    width = 70
    rows = [[("1", "x", "", "true")[(i * j) % 4] for j in range(width)] for i in range(9)]
    data = "\n".join(",".join(row) for row in [[f"c{j}" for j in range(width)], *rows]) + "\n"
    plain = {"1": 1.0, "x": "x", "": None, "true": True}
    assert [v.data for v in by_columns(data.encode())[0]] == [tuple(plain[cell] for cell in row) for row in rows]


@pytest.mark.usefixtures("no_rows")
def test_threads_change_nothing() -> None:
    data = b"a,b\n" + b"1,x\n" * 1000
    assert by_columns(data, ReadOptions(threads=4)) == by_columns(data)


@pytest.mark.usefixtures("no_rows")
def test_long_input_comes_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CHUNK", 40)
    data = b"a,b\n" + b"".join(b'%d,"x\n%d"\n' % (i, i) for i in range(100))
    found = list(csv_column_reader.read(io.BytesIO(data)))
    assert len(found) > 20
    assert [v.data for v in values_of(found)] == [(float(i), f"x\n{i}") for i in range(100)]


# ---- text for the row reader


@pytest.mark.parametrize(
    "data",
    [
        b'a,b\n1,x"y"\n2,z\n',
        b'a,b\n1, "y"\n',
        b'a,b\n x," y"\n',
        b'a,b\n"x" ,1\n',
        b'a,b\n"1\r\n2",3\n',
        b"a,b\r\r\n1,2\r\r\n",
        b"a,b\n1\r2,3\n",
        b"a,b\n1,2\r",
        b"a,b\n1,2\n1\n3,4\n",
        b"a,b\n1,2\n1,2,3\n",
        b"a,b\n1,2\n\n \n3,4\n",
        b'a,b\n1,2\n"3,4\n',
        b"a,b\n1,\xff\n",
        b"a\xff,b\n1,2\n",
        b'"a,b\n',
        b"\xef\xbb\xbf\xef\xbb\xbfa,b\n1,2\n",
        b'\xef\xbb\xbf"a",b\n1,2\n',
        b'a,b\n""x,1\n',
        b"a\n \n",
        b"a\0b,c\n\0,1\0\n",
        b'""\n1\n',
        b" \n1\n",
    ],
    ids=repr,
)
def test_irregular_text_means_the_same_as_in_rows(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_columns(data) == by_rows(data)
    for size in (1, 4, 9):
        monkeypatch.setattr(windows, "CHUNK", size)
        assert by_columns(data) == by_rows(data), size


def test_errors_name_the_line_and_come_after_the_rows_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CHUNK", 1000)
    data = b'\n"a\nb",c\n' + b"1,2\n\n" * 5000 + b"1\n"
    values, error = by_columns(data)
    assert len(values) == 5000
    assert error == "line 10004: expected 2 fields, found 1"
    assert by_columns(data[:-2] + b'"1\n')[1] == "line 10004: quote is not closed"
    assert by_columns(data[:-2] + b"\xff,1\n")[1] == f"line 10004: invalid UTF-8 at byte 1 {NAME_ENCODING}"


def test_delimiters_that_arrow_does_not_take_go_through_the_rows() -> None:
    assert [v.data for v in by_columns("aéb\n1é2\n".encode(), ReadOptions(csv_delimiter="é"))[0]] == [(1.0, 2.0)]
    for bad in ("", '"', "\n", "ab"):
        with pytest.raises(InvalidInput, match="invalid CSV delimiter"):
            csv_column_reader.read(io.BytesIO(b"a\n1\n"), ReadOptions(csv_delimiter=bad))


def test_records_that_are_too_long_are_refused_as_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CHUNK", 1000)
    options = ReadOptions(max_value_size=300_000)
    for data in (b"a\n1\n" + b"x" * 700_000, b'a\n1\n"' + b"x\n" * 400_000):
        assert by_columns(data, options) == by_rows(data, options)
        assert by_columns(data, options)[1] is not None


def test_short_reads_are_put_together() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(3, size or 0))

    found = list(csv_column_reader.read(Slow(b"a,b\n1,2\n3,4\n")))
    assert [isinstance(b, Batch) and b.length for b in found] == [2]


cell = st.one_of(
    st.sampled_from(["", "1", "-1.5", "+2", ".5", "1e400", "0x1p-2", "1_0", "nan", "Inf", "true", "F", "t", "x", "tr"]),
    st.sampled_from(
        [" ", " 1", "\u3000", "\u00a0x", "é", "\ufeff", "\0", "'", "ı", "\u212a", "2020-01-01", "10.0.0.1"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.floats().map(str),
    st.integers().map(str),
)
csv_text = strategies.csv_texts(cell, most_lines=6, one_odd_in=16)


@settings(max_examples=examples(100))
@given(csv_text, st.sampled_from([1, 8, 50, 1 << 24]))
def test_columns_give_what_rows_give(data: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "CHUNK", size)
        assert by_columns(data) == by_rows(data)
        tabbed = data.replace(b",", b"\t")
        assert by_columns(tabbed, tsv=True) == by_rows(tabbed, tsv=True)


@given(st.lists(cell, min_size=1, max_size=8))
def test_cells_are_classified_as_in_rows(cells: list[str]) -> None:
    found = classify(pa.array(cells, pa.string()))
    (part, *others) = parts(["x"], [found])
    expected = [_cell(text) for text in cells]
    got: list[Value | None] = [None] * len(cells)
    for piece in (part, *others):
        for row, data in zip(piece.rows.tolist(), piece.column.to_pylist(), strict=True):
            got[row] = Value(piece.shape, (data["x"],))
    assert got == expected


def _cell(text: str) -> Value:
    """What a row reader makes of a cell that is quoted, so that all of it counts."""
    quoted_cell = '"' + text.replace('"', '""') + '"'
    if "\r" in text or "\n" in text:
        return Value(t.record([("x", t.STRING)]), (text,))
    (value,) = by_rows(f"x\n{quoted_cell}\n".encode())[0]
    return value


def test_damaged_text_gives_what_rows_give() -> None:
    good = b'ts,name,flag,note\n1.5,"a b",true,\n2,x,F,"say ""hi"""\n,y,,z\r\n3, w,0x1p4,"two\nlines"\n' * 3
    started = time.monotonic()
    errors = 0
    for bad in damaged(good, 1000, seed=5):
        found = by_columns(bad)
        assert found == by_rows(bad)
        errors += found[1] is not None
    assert 0 < errors < 1000
    assert time.monotonic() - started < 60


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1, /) -> bytes:
            return b"abc,1\n" * (size // 6)

        def seekable(self) -> bool:
            return False

    monkeypatch.setattr(windows, "CHUNK", 2_000_000)
    tracemalloc.start()
    for batch in islice(csv_column_reader.read(Endless()), 20):
        assert isinstance(batch, Batch)
        assert batch.length > 300_000
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def test_a_sparse_table_means_the_same_as_in_rows() -> None:
    rows = "".join(",".join(str(j) if i >> j & 1 else "" for j in range(11)) + ",x\n" for i in range(2**11))
    data = (",".join(f"c{j}" for j in range(12)) + "\n" + rows).encode()
    assert by_columns(data) == by_rows(data)


def test_a_table_of_thousands_of_columns_means_the_same_as_in_rows() -> None:
    data = (",".join(f"c{j}" for j in range(5000)) + "\n" + ",".join(map(str, range(5000))) + "\n").encode()
    assert by_columns(data) == by_rows(data)
