"""Values of any shapes in one table, and the very same values out of it."""

from __future__ import annotations

import io

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.columns.batches import batch_of
from shoal.formats.columns.fusion import Fuser, TableColumns, schema, to_batch
from shoal.formats.columns.layouts import Layout, choose_shapes
from shoal.model import types as t
from shoal.model.parse import parse_type, parse_value
from shoal.model.values import Value
from shoal.testing import strategies

CONNECTION = duckdb.connect()


def fuse(values: list[Value]) -> tuple[Layout, pa.Table]:
    """Values as a table, in their order."""
    parts = batch_of(values).parts
    layout = Layout(part.shape for part in parts)
    places = np.empty(len(values), np.int64)
    places[np.concatenate([part.rows for part in parts])] = np.arange(len(values))
    return layout, Fuser(layout, [pa.chunked_array([part.column]) for part in parts]).table(places)


def through_parquet(table: pa.Table) -> pa.Table:
    out = io.BytesIO()
    pq.write_table(table, out)
    return pq.read_table(io.BytesIO(out.getvalue()))


@given(st.lists(strategies.values(), min_size=1, max_size=12))
def test_values_come_back(values: list[Value]) -> None:
    layout, table = fuse(values)
    assert list(to_batch(layout, TableColumns(table)).values()) == values
    assert list(to_batch(layout, TableColumns(through_parquet(table))).values()) == values


@given(st.lists(strategies.records(), min_size=1, max_size=8))
def test_duckdb_reads_every_column(values: list[Value]) -> None:
    layout, table = fuse(values)
    read = CONNECTION.from_arrow(table).to_arrow_table()
    assert read.num_rows == len(values)
    assert list(to_batch(layout, TableColumns(read)).values()) == values


def test_names_of_columns() -> None:
    shapes = ["{a:int64,b:{c:string}}", "{a:string,b:string,A:bool}", "{a:[int64],b:{d:time}}", "int64", "string"]
    layout = Layout(parse_type(shape) for shape in shapes)
    assert [field.name for field in schema(layout)] == [
        "$shape", "a", "a$string", "a$array", "b", "b$string", "A$2", "$value", "$value$string",
    ]  # fmt: skip
    assert schema(layout).field("b").type == pa.struct([("c", pa.string()), ("d", pa.int64())])


def test_names_of_types_make_no_columns() -> None:
    layout = Layout(
        parse_type(shape) for shape in ["{a:port=uint16}", "{a:uint16}", "{a:[port=uint16]}", "{a:[uint16]}"]
    )
    assert len(layout.leaves) == 2


@pytest.mark.parametrize(
    "texts",
    [
        ['{"$shape":1,"$value":2,"":3}', '{"$shape":"x"}', "7", "null"],
        ["{a:null}", "{a:null(int64)}", "{}", "null({})", "{a:{}}", "{a:null({})}", "{a:{b:null}}"],
        ["null({x:int64})", "{x:null(int64)}", "{x:1}", "null"],
        ["{a:1}(=foo)", "{a:1}(=bar)", "{a:1}"],
        ["{a:error(1)}", "error({a:1})", "{a:1}"],
        ["[null]", "[]([null])", "{a:[null]}", "{a:[null,[null]]}"],
    ],
)
def test_odd_values(texts: list[str]) -> None:
    values = [parse_value(text) for text in texts]
    layout, table = fuse(values)
    assert list(to_batch(layout, TableColumns(through_parquet(table))).values()) == values


def test_a_column_inside_of_structs_is_taken_out_once_for_all_shapes() -> None:
    layout, table = fuse([parse_value("{a:{b:{c:1}}}"), parse_value("{a:{b:{c:2,d:3}}}")])
    columns = TableColumns(table)
    assert all(columns.leaf(leaf) is columns.leaf(leaf) for leaf in layout.leaves)


def test_limits_choose_the_first_shapes() -> None:
    wide = [t.record((f"f{i}", t.INT64) for i in range(start, start + 10)) for start in range(0, 100, 10)]
    assert choose_shapes(wide, 100, 35) == 3
    assert choose_shapes(wide, 4, 1000) == 4
    assert choose_shapes(wide, 100, 1000) == 10


@given(st.lists(strategies.types(), min_size=1, max_size=8, unique=True))
def test_limits_count_the_columns_of_the_layout(shapes: list[t.Type]) -> None:
    layout = Layout(shapes)
    columns = len(layout.leaves) + sum(struct.is_bare for struct in layout.structs)
    assert choose_shapes(shapes, len(shapes), columns) == len(shapes)
    assert columns == 0 or choose_shapes(shapes, len(shapes), columns - 1) < len(shapes)
