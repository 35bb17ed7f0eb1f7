"""Equal rows of columns: a code tells values apart exactly as their types and bytes do."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.columns import kernels
from shoal.formats.columns.physical import from_arrow, to_arrow
from shoal.lake.row_codes import row_codes, uncancelled
from shoal.model import types as t
from shoal.model.zcode import Data, encode
from shoal.testing.strategies import data_of, types

columns = types().flatmap(lambda typ: st.tuples(st.just(typ), st.lists(data_of(typ), min_size=1, max_size=6)))


@pytest.fixture(params=["in columns", "one by one"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "goes_without", lambda rows: request.param == "one by one")


def bodies(typ: t.Type, column: pa.Array) -> list[bytes | None]:
    return [encode(typ, data) for data in from_arrow(typ, column)]


@given(columns, st.randoms())
def test_rows_have_the_same_code_if_their_bytes_are_the_same(case: tuple[t.Type, list[Data]], random: Random) -> None:
    typ, data = case
    column = to_arrow(typ, random.choices(data, k=12))
    codes, texts = row_codes(typ, column).tolist(), bodies(typ, column)
    assert len(set(codes)) == len(set(texts)) == len(set(zip(codes, texts, strict=True)))


@given(columns, st.randoms())
def test_what_is_left_of_two_columns_is_their_difference(case: tuple[t.Type, list[Data]], random: Random) -> None:
    typ, data = case
    gone, come = (to_arrow(typ, random.choices(data, k=random.randrange(1, 9))) for _ in range(2))
    left = uncancelled(typ, gone, come)
    one, other = (Counter(bodies(typ, column)) for column in (gone, come))
    taken = [Counter(bodies(typ, kernels.take(column, rows))) for column, rows in zip((gone, come), left, strict=True)]
    assert taken == [one - other, other - one]


def test_floats_are_compared_by_their_bits() -> None:
    column = to_arrow(t.FLOAT64, [0.0, -0.0, math.nan, math.nan, None, 1.0])
    codes = row_codes(t.FLOAT64, column).tolist()
    assert len(set(codes)) == 5
    assert codes[2] == codes[3]


def test_many_rows_with_many_columns_do_not_overflow() -> None:
    rows, width = 50_000, 30
    typ = t.record([(f"f{i}", t.INT64) for i in range(width)])
    fields = [pa.array(np.arange(rows) * (i + 1) % (rows - i)) for i in range(width)]
    column = pa.StructArray.from_arrays(fields, [f"f{i}" for i in range(width)])
    assert len(np.unique(row_codes(typ, column))) == len(set(zip(*(f.to_pylist() for f in fields), strict=True)))
