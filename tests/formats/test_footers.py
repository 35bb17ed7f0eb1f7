"""Footers of Parquet files: bounds hold for all values, damage is one typed error."""

from __future__ import annotations

import io
import math
import random
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidInput
from shoal.formats.arrow.footers import Footer, footer_size, parse_footer
from shoal.formats.arrow.reader import shape_of
from shoal.model import types as t
from shoal.model.values import Value

ROUNDS = 3000
SECONDS = 2.0
COLUMNS: dict[str, tuple[pa.DataType, t.Type, Any]] = {
    "int8": (pa.int8(), t.INT8, st.integers(-128, 127)),
    "int64": (pa.int64(), t.INT64, st.integers(-(2**63), 2**63 - 1)),
    "uint8": (pa.uint8(), t.UINT8, st.integers(0, 255)),
    "uint32": (pa.uint32(), t.UINT32, st.integers(0, 2**32 - 1)),
    "uint64": (pa.uint64(), t.UINT64, st.integers(0, 2**64 - 1)),
    "float": (pa.float32(), t.FLOAT32, st.floats(width=32)),
    "double": (pa.float64(), t.FLOAT64, st.floats()),
    "flag": (pa.bool_(), t.BOOL, st.booleans()),
    "text": (pa.string(), t.STRING, st.text(st.characters(codec="utf-8"))),
    "raw": (pa.binary(), t.BYTES, st.binary()),
    "day": (pa.date32(), t.DATE, st.integers(-719_162, 2_932_896)),
    "at": (pa.timestamp("us"), t.TIME, st.integers(-(2**50), 2**50)),
}


def footer_of(table: pa.Table, **choices: Any) -> tuple[bytes, Footer]:
    out = io.BytesIO()
    pq.write_table(table, out, **choices)
    tail = out.getvalue()[-footer_size(out.getvalue()) :]
    return tail, parse_footer(tail)


@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_no_value_is_beyond_the_bounds(name: str, version: str, data: st.DataObject) -> None:
    arrow, typ, elements = COLUMNS[name]
    items = data.draw(st.lists(st.none() | elements, max_size=12))
    _, footer = footer_of(pa.table({"r": pa.array([{"x": None}] * len(items)), "c": pa.array(items, arrow)}),
                          row_group_size=4, version=version)  # fmt: skip
    shape = shape_of(footer.schema)
    assert isinstance(shape, t.Record)
    typ = shape.fields[1].type  # version 1.0 of Parquet has another one for uint32
    extent = footer.extent(("c",), typ)
    held = [item for item in items if item is not None]
    held = [item * 1000 for item in held] if name == "at" else held
    assert footer.rows == extent.rows == len(items)
    assert extent.nulls in (None, len(items) - len(held))
    numbers = [item for item in held if not (isinstance(item, float) and math.isnan(item))]
    if extent.is_known:
        for value in numbers:
            assert extent.least <= value <= extent.greatest
    elif numbers and len(numbers) == len(held):
        assert not items or name in ("uint8", "uint32", "uint64", "text", "raw", "float", "double", "flag")


def test_statistics_of_old_writers_count_for_signed_numbers_alone() -> None:
    _, footer = footer_of(pa.table({"i": [2, 1], "s": ["b", "a"]}))
    old = [
        {path: chunk._replace(old_least=chunk.least, old_greatest=chunk.greatest, least=None, greatest=None)}
        for group in footer.groups
        for path, chunk in group.items()
    ]
    numbers, texts = (footer._replace(groups=(group,)) for group in old)
    assert numbers.extent(("i",), t.INT64)[:2] == (1, 2)
    assert texts.extent(("s",), t.STRING)[:2] == (None, None)


def test_columns_inside_of_lists_have_no_bounds() -> None:
    _, footer = footer_of(
        pa.table({"l": [[1], [2]], "m": pa.array([[("a", 1)]] * 2, pa.map_(pa.string(), pa.int64()))})
    )
    assert all(len(path) > 1 or path not in (("l",), ("m",)) for group in footer.groups for path in group)
    assert footer.extent(("l",), t.INT64)[:2] == (None, None)


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_footer_is_an_error_or_gives_bounds_in_no_time(seed: int) -> None:
    rng = random.Random(seed)
    table = pa.table({"i": [3, 1, None], "s": ["b", "a", None], "r": [{"x": 1, "y": [1.5]}] * 3})
    tail, _ = footer_of(table, row_group_size=2)
    begin = time.monotonic()
    for _ in range(ROUNDS // 3):
        data = bytearray(tail)
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.randrange(len(data) - 8)] = rng.randrange(256)
        try:
            footer = parse_footer(bytes(data))
            for path, typ in ((("i",), t.INT64), (("s",), t.STRING), (("r", "x"), t.INT64)):
                extent = footer.extent(path, typ)
                for end in (extent.least, extent.greatest):
                    assert end is None or Value(typ, end) is not None
        except InvalidInput as e:
            assert "\n" not in str(e)
    assert time.monotonic() - begin < 60 * SECONDS


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 20, b"\x04\0\0\0PARE"])
def test_what_is_not_parquet_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a Parquet file"):
        footer_size(data)
