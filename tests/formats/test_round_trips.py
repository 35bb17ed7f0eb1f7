"""Every type survives every format that can hold it."""

from __future__ import annotations

import io
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.formats import registry
from shoal.formats.columns.batches import Batch, Part, batch_of
from shoal.formats.columns.physical import arrow_type
from shoal.formats.streams import WriteOptions
from shoal.model.values import Value
from shoal.model.zcode import decode_type, encode_type
from shoal.testing.samples import every_kind_everywhere, written
from shoal.testing.strategies import types, values
from shoal.testing.tiers import examples

EXACT = ["zson", "zng", "zjson", "vng"]
some_values = st.lists(values(), max_size=5)


def through(name: str, given_values: list[Value], options: WriteOptions = WriteOptions()) -> list[Value]:
    found = registry.by_name(name)
    data = written(found.load_writer(), given_values, options)
    return list(found.load_reader()(io.BytesIO(data), ReadOptions()))


@pytest.mark.parametrize("name", EXACT)
def test_the_samples_survive(name: str) -> None:
    samples = every_kind_everywhere()
    assert through(name, samples) == samples


@pytest.mark.parametrize("name", EXACT)
@given(some_values)
@settings(max_examples=examples(60))
def test_any_values_survive(name: str, given_values: list[Value]) -> None:
    assert through(name, given_values) == given_values


@pytest.mark.parametrize("pretty", [1, 4])
def test_indented_zson_survives(pretty: int) -> None:
    samples = every_kind_everywhere()
    assert through("zson", samples, WriteOptions(pretty=pretty)) == samples


def test_zson_with_persistent_type_names_survives() -> None:
    samples = every_kind_everywhere()
    assert through("zson", samples, WriteOptions(persist=".*")) == samples


@pytest.mark.parametrize("frame", [1, 100, 1 << 20])
@pytest.mark.parametrize("compress", [True, False])
def test_zng_survives_with_any_frame_size(frame: int, compress: bool) -> None:
    samples = every_kind_everywhere()
    assert through("zng", samples, WriteOptions(zng_frame_size=frame, zng_compress=compress)) == samples


@given(some_values)
@settings(max_examples=examples(60))
def test_any_values_survive_in_columns(given_values: list[Value]) -> None:
    assert list(batch_of(given_values).values()) == given_values


def test_the_samples_survive_in_columns_of_a_parquet_file_with_their_shapes() -> None:
    samples = every_kind_everywhere()
    assert list(through_parquet(batch_of(samples)).values()) == samples


@given(some_values)
@settings(max_examples=examples(25))
def test_any_values_survive_in_columns_of_a_parquet_file_with_their_shapes(given_values: list[Value]) -> None:
    assert list(through_parquet(batch_of(given_values)).values()) == given_values


def through_parquet(batch: Batch) -> Batch:
    """Each part as a Parquet file of one column, with its shape in the metadata."""
    parts = []
    for part in batch.parts:
        schema = pa.schema([pa.field("column", part.column.type)], {b"shape": encode_type(part.shape)})
        out = io.BytesIO()
        pq.write_table(pa.table([part.column], schema=schema), out)
        table = pq.read_table(io.BytesIO(out.getvalue()))
        shape = decode_type(table.schema.metadata[b"shape"])
        assert table.column(0).type == arrow_type(shape)
        column = table.column(0).combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        parts.append(Part(shape, column, part.rows))
    return Batch(tuple(parts), batch.length)


@given(types())
def test_a_type_value_survives(typ: object) -> None:
    assert decode_type(encode_type(typ)) is typ  # type: ignore[arg-type]


@given(values())
def test_a_pickled_value_is_equal_and_its_type_the_same_object(value: Value) -> None:
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value
    assert copy.type is value.type
