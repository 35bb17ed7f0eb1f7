"""Plain tables: one column for each field, of the common type of what is in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.plain import SPARK_INTEGERS
from shoal.errors import InvalidInput
from shoal.frames.results import Results
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.tables import plain_row, rows_of, same_text


def of(text: str) -> Results:
    return shoal.query("pass", text.encode(), format="zson")


MIXED: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "int and float": ("{a:6} {a:6.5} {a:null}", pa.float64(), [6.0, 6.5, None]),
    "ints of several sizes": ("{a:1(uint8)} {a:-1(int16)}", pa.int16(), [1, -1]),
    "int64 and uint64": ("{a:-1} {a:18446744073709551615(uint64)}", pa.decimal128(20, 0), [
        Decimal(-1), Decimal(2**64 - 1),
    ]),
    "int and decimal": ("{a:1} {a:1.10(decimal(10,2))}", pa.decimal128(21, 2), [Decimal("1.00"), Decimal("1.10")]),
    "float and decimal": ("{a:1.5} {a:1.10(decimal(10,2))}", pa.float64(), [1.5, 1.1]),
    "date": ("{a:2024-01-05}", pa.date32(), [date(2024, 1, 5)]),
    "text and number": ('{a:"x"} {a:77} {a:1.5} {a:true}', pa.string(), ["x", "77", "1.5", "true"]),
    "record and number": ("{a:{b:1}} {a:{c:[2]}} {a:7}", pa.string(), ['{"b":1}', '{"c":[2]}', "7"]),
    "records": ("{a:{b:1}} {a:{b:2.5,c:3}}", pa.struct([("b", pa.float64()), ("c", pa.int64())]), [
        {"b": 1.0, "c": None}, {"b": 2.5, "c": 3},
    ]),
    "lists": ("{a:[1]} {a:|[2.5]|} {a:[]}", pa.list_(pa.float64()), [[1.0], [2.5], []]),
    "list of a union": ('{a:[1,"x"]}', pa.list_(pa.string()), [["1", "x"]]),
    "union of numbers": ("{a:1((int64,float64))} {a:2.5((int64,float64))}", pa.float64(), [1.0, 2.5]),
    "address": ("{a:10.0.0.1}", pa.string(), ["10.0.0.1"]),
    "null alone": ("{a:null}", pa.string(), [None]),
    "named": ("{a:80(port=uint16)}", pa.uint16(), [80]),
}  # fmt: skip


@pytest.mark.parametrize("kind", MIXED)
def test_a_field_is_one_column(kind: str) -> None:
    text, typ, data = MIXED[kind]
    table = of(text).to_arrow()
    assert table.schema == pa.schema([("a", typ)])
    assert table["a"].to_pylist() == data


def test_values_that_are_not_records_have_a_column_of_their_own() -> None:
    assert of("1 {a:2} 2.5").to_arrow().to_pydict() == {"a": [None, 2, None], "$value": [1.0, None, 2.5]}
    assert of("").to_arrow().shape == (0, 0)


def test_numbers_are_numbers_in_pandas_and_polars() -> None:
    frame = of("{a:6,b:1} {a:6.5,b:null}").to_pandas()
    assert frame["a"].dtype == "float64"
    assert frame["a"].mean() == 6.25
    assert frame["b"].dtype == pd.ArrowDtype(pa.int64())
    other = of("{a:6,d:2024-01-05,p:1.10(decimal(10,2))} {a:6.5,d:null,p:null}").to_polars()
    assert other.dtypes == [pl.Float64, pl.Date, pl.Decimal(10, 2)]
    assert other["a"].sum() == 12.5


FRAMES: dict[str, Callable[[Results], Any]] = {
    "arrow": Results.to_arrow, "pandas": Results.to_pandas, "polars": Results.to_polars,
}  # fmt: skip


@pytest.mark.parametrize("kind", FRAMES)
def test_decimals_and_dates_come_back_as_they_were(kind: str) -> None:
    text = "{d:2024-01-05,p:1.10(decimal(10,2))}\n{d:9999-12-31,p:-0.05(decimal(10,2))}"
    assert shoal.query("pass", FRAMES[kind](of(text))).to_zson() == text


@given(st.lists(strategies.values(), max_size=6))
def test_every_value_is_in_its_column(values: list[Value]) -> None:
    form = TableForm(tuple(dict.fromkeys(value.type for value in values)), SPARK_INTEGERS)
    try:
        table = shoal.query("pass", values).to_arrow()
    except InvalidInput as e:
        assert "null for a key" in str(e) or "out of the range of times" in str(e)
        return
    if not form.columns:
        assert table.shape == (0, 0)
        return
    ints = pa.table(
        {name: _without_times(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    )
    rows = [same_text(row) for row in rows_of(ints.to_batches())]
    assert rows == [same_text(plain_row(form, value)) for value in values]


def _without_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_time = pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)
    return column.cast(pa.int64()) if is_time else column
