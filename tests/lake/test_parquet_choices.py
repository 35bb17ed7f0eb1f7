"""The columns of a Parquet file that have dictionaries."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

from shoal.formats.columns import kernels
from shoal.lake.parquet_choices import with_dictionaries

ROWS = 3 * kernels.FEW


def test_only_values_that_come_again_have_a_dictionary() -> None:
    table = pa.table({
        "number": pa.array(range(ROWS)),
        "word": pa.array([f"word {i % 900}" for i in range(ROWS)]),
        "place": pa.array([{"city": i % 7, "point": str(i)} for i in range(ROWS)]),
        "tags": pa.array([[i, i + ROWS] for i in range(ROWS)]),
        "nothing": pa.nulls(ROWS, pa.string()),
        "rare": pa.array([i if i % 100 == 0 else None for i in range(ROWS)]),
        "flag": pa.array([i % 2 == 0 for i in range(ROWS)]),
    })  # fmt: skip
    assert with_dictionaries(table, kernels.FEW) == ["flag", "nothing", "place.city", "word"]


def test_columns_of_few_values_all_have_a_dictionary() -> None:
    table = pa.table({
        "bytes": pa.array([b"%d" % (i % 9) for i in range(ROWS)]),
        "date": pa.array([datetime.date(2024, 1, 1)] * ROWS),
        "decimal": pa.array([Decimal("1.25")] * ROWS),
        "float": pa.array([0.5, float("nan")] * (ROWS // 2)),
    })  # fmt: skip
    assert with_dictionaries(table, ROWS) is True


def test_few_rows_are_not_looked_at() -> None:
    assert with_dictionaries(pa.table({"number": pa.array(range(kernels.FEW))}), kernels.FEW) is True
