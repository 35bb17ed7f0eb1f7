"""Batches are cut by the size that their rows have as values."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from shoal.engines.tables.answers import batches_of
from shoal.engines.tables.row_sizes import RowTooLarge, pieces, size_of_column
from shoal.formats.columns.batches import values_of
from shoal.model.extent import size_of

COLUMNS = [
    "range", "range % 2 = 0", "null", "range::varchar", "repeat('ж', range::int)", "range::varchar::blob",
    "range(range)", "[[range], [], null]", "list_transform(range(range), lambda x: x % 2 = 0)", "[null, null]",
    "{'a': range, 'b': {'c': [range]}}", "map(range(range), range(range))", "[range, range]::bigint[2]",
    "('name ' || range % 3)::enum('name 0', 'name 1', 'name 2')", "range::hugeint * 1000000000000000000000",
    "(range / 7)::decimal(30, 10)", "interval (range) day", "timestamp '2024-01-01' + interval (range) day",
    "date '2024-01-01' + range::int", "time '12:00'", "uuid()", "'101'::bit", "to_json(range)",
]  # fmt: skip


def batch_of(column: str, rows: int = 50) -> pa.RecordBatch:
    with duckdb.connect() as con:
        return con.sql(f"select {column} as x from range({rows})").to_arrow_table().combine_chunks().to_batches()[0]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_takes_no_less_than_its_values(column: str) -> None:
    batch = batch_of(column)
    sizes = [size_of(value) for value in values_of(batches_of([batch]))]
    assert sum(sizes) <= size_of_column(batch.column(0)) + len(sizes) * size_of_record()
    parts = [batch.column(0).slice(row, 1) for row in range(batch.num_rows)]
    assert sum(map(size_of_column, parts)) == size_of_column(batch.column(0))


def size_of_record() -> int:
    """What the record of a row takes beside its fields."""
    (value,) = values_of(batches_of([pa.record_batch({"x": pa.array([1])})]))
    return size_of(value)


@pytest.mark.parametrize("column", COLUMNS)
def test_pieces_are_small_and_hold_all_rows(column: str) -> None:
    batch = batch_of(column)
    limit = 2 * max(size_of_column(batch.column(0).slice(row, 1)) for row in range(batch.num_rows))
    cut = list(pieces(batch, limit))
    assert len(cut) > 1
    assert all(size_of_column(piece.column(0)) <= limit for piece in cut)
    assert pa.Table.from_batches(cut).equals(pa.Table.from_batches([batch]))


def test_a_row_is_not_cut() -> None:
    with pytest.raises(RowTooLarge):
        list(pieces(batch_of("repeat('x', 10000)"), 10_000))


def test_a_text_that_a_dictionary_repeats_counts_for_each_row() -> None:
    repeated = pa.array(["x" * 1000] * 100).dictionary_encode()
    assert size_of_column(repeated) > 100_000
