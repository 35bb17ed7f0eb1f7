"""The types that columns of CSV get from all of their cells, or from options."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Batch, values_of
from shoal.formats.columns.physical import from_arrow
from shoal.formats.csv import column_reader, reader, text, windows
from shoal.formats.csv.column_types import Guess, is_held, kinds_of, parser
from shoal.formats.csv.guesses import convert, see
from shoal.formats.detect import read_pieces
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.testing.csv_tables import texts
from shoal.testing.tiers import examples

COLUMNS = [
    (["1", "-3", "0", ""], ["1", "-3", "0", "null(int64)"]),
    (["1", "2.5"], ["1.", "2.5"]),
    (["1.10", "2.50"], ["1.1", "2.5"]),
    ([".5", "5.", "-1e3", "2E+2"], ["0.5", "5.", "-1000.", "200."]),
    (["-0", "1"], ["-0.", "1."]),
    (["007", "12"], ['"007"', '"12"']),
    (["-012", "1"], ['"-012"', '"1"']),
    (["00.5", "1.5"], ['"00.5"', '"1.5"']),
    (["+44", "1"], ['"+44"', '"1"']),
    (["+4.4", "1.5"], ['"+4.4"', '"1.5"']),
    (["9223372036854775807", "-9223372036854775808"], ["9223372036854775807", "-9223372036854775808"]),
    (["9223372036854775808", "1"], ['"9223372036854775808"', '"1"']),
    (["18446744073709551616", "1.5"], ['"18446744073709551616"', '"1.5"']),
    (["9007199254740993", "1"], ["9007199254740993", "1"]),
    (["9007199254740993", "1.5"], ['"9007199254740993"', '"1.5"']),
    (["9007199254740992", "1.5"], ["9007199254740992.", "1.5"]),
    (["0.30000000000000004", "-73.98513259999999"], ["0.30000000000000004", "-73.98513259999999"]),
    (["0.10000000000000001"], ["0.1"]),
    (["0.12345678901234567890"], ['"0.12345678901234567890"']),
    (["1.500000000000000000000"], ["1.5"]),
    (["1e400"], ['"1e400"']),
    (["1e-400"], ['"1e-400"']),
    (["0e-400", "0.0"], ["0.", "0."]),
    (["5e-324"], ["5e-324"]),
    (["5.1e-324"], ['"5.1e-324"']),
    (["NaN", "1.5"], ['"NaN"', '"1.5"']),
    (["inf", "1"], ['"inf"', '"1"']),
    (["0x10", "1"], ['"0x10"', '"1"']),
    (["1_000"], ['"1_000"']),
    (["1", "x"], ['"1"', '"x"']),
    (["NA", "1"], ['"NA"', '"1"']),
    (["true", "false", ""], ["true", "false", "null(bool)"]),
    (["TRUE", "FALSE"], ["true", "false"]),
    (["True"], ["true"]),
    (["true", "TRUE"], ['"true"', '"TRUE"']),
    (["TRUE", "Paris"], ['"TRUE"', '"Paris"']),
    (["t", "f"], ['"t"', '"f"']),
    (["tRUE"], ['"tRUE"']),
    (["2024-01-05", "2024-02-29"], ["2024-01-05", "2024-02-29"]),
    (["2024-01-05", "2023-02-29"], ['"2024-01-05"', '"2023-02-29"']),
    (["0001-01-01", "9999-12-31"], ["0001-01-01", "9999-12-31"]),
    (["0000-01-01"], ['"0000-01-01"']),
    (["2024-1-5"], ['"2024-1-5"']),
    (["2024-01-05T10:00:00Z", "2024-01-05T10:00:00.5+02:00"], ["2024-01-05T10:00:00Z", "2024-01-05T08:00:00.5Z"]),
    (["2024-01-05t10:00:00z"], ["2024-01-05T10:00:00Z"]),
    (["2024-01-05T10:00:00"], ['"2024-01-05T10:00:00"']),
    (["2024-01-05 10:00:00Z"], ['"2024-01-05 10:00:00Z"']),
    (["2024-01-05T10:00:60Z"], ['"2024-01-05T10:00:60Z"']),
    (["2024-01-05T10:00Z"], ['"2024-01-05T10:00Z"']),
    (["2024-01-05", "2024-01-05T10:00:00Z"], ['"2024-01-05"', '"2024-01-05T10:00:00Z"']),
    (["", ""], ["null", "null"]),
    (["", '""'], ["null(string)", '""']),
    (["1", '""'], ["1", "null(int64)"]),
    (["x", '""', ""], ['"x"', '""', "null(string)"]),
    (['"1"', "2"], ["1", "2"]),
    ([" 1", "2 ", "\t3"], ["1", "2", "3"]),
    (["  ", "1"], ["null(int64)", "1"]),
    ([" x", "y "], ['" x"', '"y "']),
    (["\u00a01", "2"], ['"\u00a01"', '"2"']),
    (["１"], ['"１"']),
]


@pytest.mark.parametrize(("cells", "expected"), COLUMNS, ids=repr)
def test_a_column_has_one_type_that_keeps_what_its_cells_say(cells: list[str], expected: list[str]) -> None:
    table = "a,b\n" + "".join(f"{cell},z\n" for cell in cells)
    assert texts(table) == [f'{{a:{text},b:"z"}}' for text in expected]


@pytest.mark.parametrize(("cells", "expected"), COLUMNS, ids=repr)
def test_a_long_column_has_the_type_of_a_short_one(
    cells: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A few cells are looked at one by one, and the others all at once.
    table = "a,b\n" + "".join(f"{cell},z\n" for cell in cells * 100)
    rows = [f'{{a:{text},b:"z"}}' for text in expected] * 100
    assert texts(table) == rows
    monkeypatch.setattr(windows, "CHUNK", 1000)
    assert texts(table) == rows


@pytest.mark.parametrize("last", ["x", "007", "+1", "12345678901234567890", "1.5"])
@pytest.mark.parametrize("size", [1000, 1 << 24])
def test_the_last_cell_of_a_table_counts_as_much_as_the_first(
    last: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "CHUNK", size)
    rows = texts("a\n" + "1\n" * 5000 + f"{last}\n")
    assert rows == (["{a:1.}"] * 5000 + ["{a:1.5}"] if last == "1.5" else ['{a:"1"}'] * 5000 + [f'{{a:"{last}"}}'])


def test_one_shape_holds_all_rows() -> None:
    (batch,) = column_reader.read(io.BytesIO(b"a,b\n1,x\n,y\n2,\n"), ReadOptions(csv_infer="columns"))
    assert isinstance(batch, Batch)
    assert [part.shape for part in batch.parts] == [t.record((("a", t.INT64), ("b", t.STRING)))]


def test_text_stays_text_if_that_is_asked_for() -> None:
    assert texts("a,b,c\n1,true,\n007,x,\n", csv_infer="text") == [
        '{a:"1",b:"true",c:null(string)}',
        '{a:"007",b:"x",c:null(string)}',
    ]


def test_cells_decide_for_themselves_if_that_is_asked_for() -> None:
    assert texts("a\n1\nx\nT\n", csv_infer="cells") == ["{a:1.}", '{a:"x"}', "{a:true}"]


def test_a_double_holds_a_number_that_it_prints_with_as_many_digits() -> None:
    assert all(
        map(is_held, ("0.1", "123456789012345", "1.7976931348623157e308", "0.1000000000000000055511151231257827"))
    )
    assert not any(map(is_held, ("12345678901234567", "0.1234567890123456789", "1e309", "1e-324", "9" * 2000)))


class Once(io.BytesIO):
    """A stream."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise AssertionError("it cannot be read again")


class Far(Once):
    """A file that is fetched over a network."""

    is_remote = True

    def seekable(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Once, Far])
@pytest.mark.parametrize("in_memory", [100, 1 << 24])
def test_a_stream_has_the_types_of_all_of_it(kind: type[Once], in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_IN_MEMORY", in_memory)
    data = b"a\n" + b"1\n" * 50_000 + b"x\n"
    for read in (reader.read, column_reader.read):
        values = list(values_of(read(kind(data), ReadOptions(csv_infer="columns"))))
        assert (len(values), values[0].data, values[-1].data) == (50_001, ("1",), ("x",))


def test_compressed_tables_have_the_types_of_all_of_them() -> None:
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 50_000 + b"1.5,x\n")
    pieces = read_pieces(io.BytesIO(data), "auto", ReadOptions(csv_infer="columns"))
    assert {format_type(value.type) for value in values_of(pieces)} == {"{a:float64,b:string}"}


def test_a_file_that_grows_is_read_as_far_as_it_was_surveyed() -> None:
    class Growing(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            if offset == 0 and whence == 0:
                end = super().seek(0, 2)
                self.write(b"x\n" if end < 1000 else b"")
            return super().seek(offset, whence)

    values = list(values_of(column_reader.read(Growing(b"a\n1\n2\n"), ReadOptions(csv_infer="columns"))))
    assert [value.data for value in values] == [(1,), (2,)]


def test_memory_does_not_grow_with_a_table(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.write(b"a,b\n")
        for _ in range(100):
            file.write(b"123456,some text\n" * 10_000)
    options = ReadOptions(csv_infer="columns", max_memory=64 << 20)
    with path.open("rb") as file:
        rows = sum(piece.length for piece in read_pieces(file, "csv", options) if isinstance(piece, Batch))
    assert rows == 1_000_000


# ---- given types

GIVEN = [
    ("int64", "007", "7"),
    ("int64", "+44", "44"),
    ("uint8", "255", "255(uint8)"),
    ("float64", "NaN", "NaN"),
    ("float64", "12345678901234567890", "1.2345678901234567e+19"),
    ("float32", "1.5", "1.5(float32)"),
    ("string", "1.10", '"1.10"'),
    ("string", " x", '" x"'),
    ("bool", "T", "true"),
    ("bool", "1", "true"),
    ("time", "2024-01-05 10:00:00", "2024-01-05T10:00:00Z"),
    ("time", "2024-01-05", "2024-01-05T00:00:00Z"),
    ("date", "2024-01-05", "2024-01-05"),
    ("date", "01/05/2024", "2024-01-05"),
    ("decimal(10,2)", "1.10", "1.10(decimal(10,2))"),
    ("decimal(10,2)", "7", "7.00(decimal(10,2))"),
    ("decimal(10,2)", "+1.5e1", "15.00(decimal(10,2))"),
    ("duration", "1h30m", "1h30m"),
    ("ip", "10.0.0.1", "10.0.0.1"),
    ("port=uint16", "80", "80(port=uint16)"),
    ("int64", "", "null(int64)"),
    ("string", "", "null(string)"),
    ("string", '""', '""'),
    ("ip", "", "null(ip)"),
]


@pytest.mark.parametrize(("typ", "cell", "expected"), GIVEN)
def test_a_given_type_takes_any_text_that_can_be_cast_to_it(typ: str, cell: str, expected: str) -> None:
    assert texts(f"a,b\n{cell},1\n", csv_types=f"a={typ}") == [f"{{a:{expected},b:1}}"]


@pytest.mark.parametrize(
    ("typ", "cell"),
    [
        ("int64", "1.5"),
        ("int64", "9223372036854775808"),
        ("uint8", "256"),
        ("float64", "1e400"),
        ("bool", "yes"),
        ("date", "2024-01-05T10:00:00Z"),
        ("date", "x"),
        ("time", "x"),
        ("ip", "10.0.0"),
        ("decimal(4,2)", "1.105"),
        ("decimal(4,2)", "100"),
        ("decimal(4,2)", "NaN"),
    ],
)
def test_a_cell_that_is_not_of_its_given_type_is_named(typ: str, cell: str) -> None:
    with pytest.raises(InvalidInput) as e:
        texts(f"a,b\n,\n{cell},1\n", csv_types=f"a={typ}")
    assert str(e.value) == f"line 3: column 'a': {cell!r} is not of type {typ}"


@pytest.mark.parametrize("infer", ["columns", "cells", "text"])
def test_given_types_come_before_all_others(infer: str) -> None:
    (row,) = texts('"a,b",c\n007,1\n', csv_types='"a,b"=int64', csv_infer=infer)
    assert row.startswith('{"a,b":7,')


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("x=string", "csv.types: no column is called 'x' (columns: a, price)"),
        ("pricf=string", "csv.types: no column is called 'pricf' (did you mean price?)"),
        ("a", "csv.types: 'a' is not a list such as id=string,price=float64"),
        ("a=", "csv.types: 'a=' is not a list such as id=string,price=float64"),
        ("a=int64,a=string", "csv.types: column 'a' has two types"),
        (
            "a=[int64]",
            "csv.types: '[int64]' cannot be the type of a column (such as string, int64, decimal(10,2), date)",
        ),
        ("a=number", "csv.types: 'number' is not a type (no such type name: 'number')"),
    ],
)
def test_types_that_cannot_be_are_refused_in_one_line(types: str, message: str) -> None:
    with pytest.raises(InvalidInput) as e:
        texts("a,price\n1,2\n", csv_types=types)
    assert str(e.value) == message


# ---- columns agree with the rule for single cells

cell = st.one_of(
    st.sampled_from([cell.strip('"') for cells, _ in COLUMNS for cell in cells]),
    st.integers().map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.tuples(st.integers(0, 10**19), st.integers(0, 10**6)).map(lambda pair: f"{pair[0]}.{pair[1]}"),
    st.dates().map(str),
    st.datetimes().map(lambda instant: f"{instant.isoformat()}Z"),
    st.datetimes().map(lambda instant: f"{instant.isoformat()}-07:30"),
    st.text(st.sampled_from("0123456789.eE+-"), max_size=8),
    st.text(st.sampled_from("0123456789-:TZtz+. "), max_size=26),
    st.text(max_size=4),
)
kinds = [
    cell,
    st.integers(-(10**18), 10**18).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["true", "false"]),
    st.sampled_from(["TRUE", "FALSE", "true"]),
    st.dates().map(str),
    st.datetimes().map(lambda instant: f"{instant.isoformat()}Z"),
]


@settings(max_examples=examples(200))
@given(st.sampled_from(kinds).flatmap(lambda kind: st.lists(kind | st.none(), max_size=6)), st.lists(cell, max_size=1))
@example(["1677-09-21T00:12:43.145224192Z"], [])
def test_columns_are_of_the_type_that_their_cells_are_of(cells: list[str | None], more: list[str]) -> None:
    nulls = frozenset(("", "NA"))
    cells = cells + list(more)
    by_cell, by_column, late = Guess(), Guess(), Guess()
    for each in cells:
        if each is not None:
            by_cell.see(each, nulls)
    column = pa.array(cells, pa.string())
    see(by_column, column, nulls)
    assert by_column.type() is by_cell.type()
    # Behind enough cells that are null, those that count are not among the first.
    see(late, pa.array([""] * 64 + cells, pa.string()), nulls)
    assert (late.kinds, late.has_values) == (by_cell.kinds, by_cell.has_values)
    typ = by_cell.type()
    converted, bad = convert(column, typ, nulls, is_inferred=True)
    assert bad == []
    parse = parser(typ, nulls)
    assert from_arrow(typ, converted) == [parse(each) for each in cells]


@settings(max_examples=examples(100))
@given(
    st.lists(cell | st.none(), max_size=8),
    st.sampled_from([t.INT64, t.FLOAT64, t.BOOL, t.DATE, t.TIME, t.UINT8, t.decimal(10, 2)]),
)
def test_columns_of_a_given_type_have_the_same_data_and_the_same_bad_cells(
    cells: list[str | None], typ: t.Type
) -> None:
    nulls = frozenset(("",))
    converted, bad = convert(pa.array(cells, pa.string()), typ, nulls)
    parse = parser(typ, nulls)
    for row, each in enumerate(cells):
        try:
            expected = parse(each)
        except Exception as e:
            assert type(e).__name__ == "BadCell"
            assert row in bad
        else:
            (data,) = from_arrow(typ, converted[row : row + 1])
            assert data == expected or (data != data and expected != expected)
            assert row not in bad


@given(cell)
def test_no_cell_is_of_two_kinds_unless_it_is_a_whole_number(text: str) -> None:
    assert kinds_of(text.strip(" \t")).bit_count() <= 1 or text.strip(" \t").lstrip("-").isdigit()
