"""Of a Parquet file, only the columns that hold a field in use are read."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.api.options import ReadOptions
from shoal.formats.arrow import parquet
from shoal.formats.columns.batches import values_of
from shoal.model.text import format_value


def file_of(**columns: Any) -> io.BytesIO:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=2)
    return out


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ((("a",),), ["{a:1}", "{a:2}", "{a:3}"]),
        ((("s", "x"),), ["{s:{x:1,y:2}}"] * 3),
        ((("b", "none"), ("nowhere",)), ['{b:"u"}', '{b:"v"}', '{b:"w"}']),
        ((), ["{}"] * 3),
        (None, ['{a:1,b:"u",s:{x:1,y:2}}', '{a:2,b:"v",s:{x:1,y:2}}', '{a:3,b:"w",s:{x:1,y:2}}']),
    ],
)
def test_the_columns_in_use_are_read(fields: tuple[tuple[str, ...], ...] | None, rows: list[str]) -> None:
    file = file_of(a=[1, 2, 3], b=["u", "v", "w"], s=[{"x": 1, "y": 2}] * 3)
    assert [format_value(value) for value in values_of(parquet.read_fields(file, ReadOptions(), fields))] == rows


def test_a_name_with_a_dot_is_not_taken_for_a_path() -> None:
    """Then all columns are read."""
    file = file_of(**{"a.b": [1], "a": [{"b": 2}], "c": [3]})
    values = list(values_of(parquet.read_fields(file, ReadOptions(), (("a",),))))
    assert [format_value(value) for value in values] == ['{"a.b":1,a:{b:2},c:3}']
