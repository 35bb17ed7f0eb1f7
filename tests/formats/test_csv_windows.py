"""Columns and rows agree on any text: where records are, what their cells are, and which of them are bad."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.formats.columns.batches import Batch, values_of
from shoal.formats.csv import column_reader, windows
from shoal.formats.csv.records import Cutter
from shoal.formats.csv.windows import Windows
from shoal.model.text import format_value
from shoal.testing import strategies
from shoal.testing.csv_tables import both, outcome, texts
from shoal.testing.samples import damaged
from shoal.testing.tiers import examples

cell = st.one_of(
    st.sampled_from(["", "1", "-1.5", "+2", "007", "true", "x", " ", " 1", "2024-01-05", "é", "\ufeff", "NA", "5 in"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.integers().map(str),
)
csv_text = strategies.csv_texts(cell, most_lines=8, one_odd_in=10)


@settings(max_examples=examples(150))
@given(
    csv_text,
    st.sampled_from([1, 8, 50, 1 << 24]),
    st.sampled_from(["fail", "skip", "keep"]),
    st.sampled_from(["columns", "text", "cells"]),
    st.sampled_from(["error", "error", "fill"]),
    st.sampled_from([None, "NA", "1,x"]),
)
@example(b'\n0\r\n"\n', 8, "keep", "columns", "error", None)
def test_columns_give_what_rows_give(
    data: bytes, size: int, bad: str, infer: str, ragged: str, null: str | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "CHUNK", size)
        patch.setattr(windows, "SMALL", min(size, 1 << 16))
        both(data, csv_delimiter=",", csv_infer=infer, bad=bad, csv_ragged=ragged, csv_null=null)


@settings(max_examples=examples(100))
@given(csv_text, st.integers(0, 40))
def test_records_do_not_depend_on_how_the_text_comes(data: bytes, at: int) -> None:
    options = ReadOptions(csv_infer="columns", csv_delimiter=",", bad="keep")

    class InParts(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(at + 1, size or 0))

    def read_in_parts(_: io.BytesIO, chosen: ReadOptions) -> Any:
        return column_reader.read(InParts(data), chosen)

    assert outcome(read_in_parts, data, options) == outcome(column_reader.read, data, options)


def test_damaged_tables_are_read_alike() -> None:
    good = b'ts,name,flag,note\n1.5,"a b",true,\n2,x,false,"say ""hi"""\n,y,,z\r\n3, w,true,"two\nlines"\n' * 3
    started = time.monotonic()
    kept = 0
    for number, damage in enumerate(damaged(good, 300, seed=5)):
        values, _ = both(damage, bad=("fail", "keep")[number % 2])
        kept += sum(format_value(value).startswith("error") for value in values)
    assert kept > 100
    assert time.monotonic() - started < 120


# ---- regular text, all in columns


@pytest.fixture
def no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is read in this test after the header is read in columns."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("fell back to rows")

    monkeypatch.setattr(Windows, "_by_rows", refuse)


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize(
    "table",
    [
        "a,b\n1,x\n2,y\n",
        'a,b\n"1","x,y"\n"","two\nlines"\n',
        'a,b\r\n"x\r\ny",1\r\n',
        'a,b\n5" pipe,1\n"x" y,2\n""z,3\n',
        "a,b\n 1, x\n",
        "a,b\n\n\n1,2\n\n",
    ],
)
def test_text_that_arrow_cuts_as_it_should_is_read_in_columns(table: str) -> None:
    assert len(texts(table)) > 0


def test_one_bad_line_leaves_the_rest_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 200_000
    lines = [b"%d,name %d,2.5" % (i, i) for i in range(rows)]
    lines[100_000] = b"bad"
    cut: list[int] = []
    by_row = Cutter.cut

    def counted(self: Cutter, data: bytes, *rest: Any, **more: Any) -> Any:
        cut.append(len(data))
        return by_row(self, data, *rest, **more)

    monkeypatch.setattr(Cutter, "cut", counted)
    data = b"id,name,n\n" + b"\n".join(lines) + b"\n"
    options = ReadOptions(csv_infer="columns", bad="keep")
    pieces = list(column_reader.read(io.BytesIO(data), options))
    assert all(isinstance(piece, Batch) for piece in pieces)
    assert sum(piece.length for piece in pieces if isinstance(piece, Batch)) == rows
    errors = [value for value in values_of(pieces) if format_value(value).startswith("error")]
    assert [format_value(value) for value in errors] == [
        'error({file:null(string),line:100002,text:"bad",message:"expected 3 fields, found 1"})'
    ]
    assert sum(cut[2:]) < len(data) / 10  # the header of both readings is cut by rows, too


def test_an_open_quote_costs_one_line_where_it_is_kept() -> None:
    lines = [f"{i},x" for i in range(30_000)]
    lines[10_000] = '10000,"x'
    rows = texts("a,b\n" + "\n".join(lines) + "\n", bad="keep")
    assert len(rows) == 30_000
    assert [row for row in rows if row.startswith("error")] == [
        'error({file:null(string),line:10002,text:"10000,\\"x",message:"quote is not closed"})'
    ]
