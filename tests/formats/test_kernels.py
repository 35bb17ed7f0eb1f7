"""Operations on columns: few rows go without pyarrow.compute, and come to the same."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.columns import kernels

TYPES = (
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
    (pa.binary(), st.binary(max_size=4)),
    (pa.bool_(), st.booleans()),
    (pa.list_(pa.int64()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), st.fixed_dictionaries({"a": st.integers(0, 9)})),
)


@st.composite
def columns(draw: st.DrawFn, types: Any = TYPES) -> pa.Array:
    """A slice of a column with nulls."""
    typ, items = draw(st.sampled_from(types))
    column = pa.array(draw(st.lists(st.none() | items, max_size=20)), typ)
    start = draw(st.integers(0, len(column)))
    return column.slice(start, draw(st.integers(0, len(column) - start)))


def chunked(column: pa.Array) -> pa.ChunkedArray:
    middle = len(column) // 2
    return pa.chunked_array([column.slice(0, middle), column.slice(middle)])


def shown(column: pa.Array) -> tuple[pa.DataType, str]:
    """The type and items of a column; a NaN equals itself as text."""
    return column.type, str(column.to_pylist())


@pytest.fixture(params=[True, False], ids=["without", "with"])
def _compute(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a test goes without `pyarrow.compute`, which it has loaded itself."""
    monkeypatch.setattr(kernels, "goes_without", lambda rows: request.param)


both = pytest.mark.usefixtures("_compute")


@given(columns())
def test_valid_rows_are_those_that_are_not_null(column: pa.Array) -> None:
    assert kernels.valid_rows(column).tolist() == [item is not None for item in column.to_pylist()]


@given(columns(), st.data())
def test_rows_are_taken_as_pyarrow_takes_them(column: pa.Array, data: st.DataObject) -> None:
    places = st.lists(st.integers(0, len(column) - 1), max_size=30) if len(column) else st.just([])
    rows = np.array(data.draw(places), np.int64)
    absent = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool)
    with pytest.MonkeyPatch.context() as patch:
        for goes_without in (True, False):
            patch.setattr(kernels, "goes_without", lambda rows, answer=goes_without: answer)
            for source in (column, chunked(column)):
                taken = kernels.Selection(rows, absent).take(source)
                assert shown(taken) == shown(column.take(pa.array(rows, mask=absent)))
                assert shown(kernels.take(source, rows)) == shown(column.take(pa.array(rows)))


def test_one_selection_serves_many_columns() -> None:
    selection = kernels.Selection(np.array([2, 0]), np.array([False, True]))
    assert [selection.take(pa.array(items)).to_pylist() for items in ([1, 2, 3], "xyz")] == [[3, None], ["z", None]]


@given(columns([TYPES[-1]]))
def test_a_field_is_null_where_its_struct_is(column: pa.Array) -> None:
    outer = pa.StructArray.from_arrays([column], ["inner"])
    with pytest.MonkeyPatch.context() as patch:
        for goes_without in (True, False):
            patch.setattr(kernels, "goes_without", lambda rows, answer=goes_without: answer)
            for path in ([0], ["b"]):
                assert kernels.field(column, path).equals(pc.struct_field(column, path))
            assert kernels.field(outer, ["inner", "a"]).equals(pc.struct_field(outer, ["inner", "a"]))
            assert kernels.field(chunked(outer), ["inner", 1]).equals(pc.struct_field(chunked(outer), ["inner", 1]))
            assert kernels.field(column, []) is column


@both
@pytest.mark.parametrize("typ", [pa.float32(), pa.float64()])
def test_nan_is_found_among_nulls(typ: pa.DataType) -> None:
    assert kernels.has_nan(pa.array([1.0, None, math.nan], typ))
    assert not kernels.has_nan(pa.array([1.0, None, math.inf], typ))
    assert not kernels.has_nan(pa.array([math.nan, 1.0, math.nan], typ).slice(1, 1))
    assert not kernels.has_nan(pa.array([1], pa.int64()))


@both
@pytest.mark.parametrize(
    ("items", "typ", "ends"),
    [
        ([3, None, 1, 2], pa.int64(), (1, 3)),
        ([2.0, math.nan, None, -1.0], pa.float64(), (-1.0, 2.0)),
        (["b", None, "\U0001f600", "\uffff", "a"], pa.string(), ("a", "\U0001f600")),
        ([b"\x00", b"\xff", b""], pa.binary(), (b"", b"\xff")),
        ([True, False], pa.bool_(), (False, True)),
        ([None], pa.int64(), (None, None)),
        ([math.nan], pa.float64(), (None, None)),
        ([], pa.string(), (None, None)),
    ],
)
def test_extremes_leave_out_nulls_and_nan(items: list[Any], typ: pa.DataType, ends: tuple[Any, Any]) -> None:
    column = pa.array(items, typ)
    assert kernels.extremes(column) == kernels.extremes(chunked(column)) == ends


@pytest.mark.parametrize("few", [0, kernels.FEW])
def test_numbers_that_occur_are_ascending(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "FEW", few)
    assert kernels.distinct(np.array([3, 1, 3, -2, 1])) == [-2, 1, 3]
    assert kernels.distinct(np.zeros(0, np.int64)) == []


@pytest.mark.parametrize("typ", [pa.int8(), pa.int32(), pa.uint16(), pa.int64()])
def test_integers_become_a_column(typ: pa.DataType) -> None:
    numbers = np.arange(10, dtype=np.int64)[::2]
    assert kernels.integers(numbers, typ).equals(pa.array(numbers, typ))
    assert kernels.integers(numbers[:0], typ).equals(pa.array([], typ))


@given(columns([TYPES[-2]]))
def test_items_of_lists_come_end_to_end(column: pa.Array) -> None:
    assert kernels.items(column).equals(column.flatten())
    assert kernels.items(chunked(column)).equals(pc.list_flatten(chunked(column)))


@given(st.lists(st.booleans()))
def test_a_mask_becomes_a_column(mask: list[bool]) -> None:
    assert kernels.booleans(np.array(mask, bool)).to_pylist() == mask


def test_structs_and_lists_are_null_where_they_should_be() -> None:
    typ, nulls = pa.struct([("a", pa.int64())]), np.array([i % 3 == 1 for i in range(11)])
    column = pa.array(range(11))
    assert kernels.structs(typ, [column], nulls, 11).equals(
        pa.StructArray.from_arrays([column], fields=list(typ), mask=pa.array(nulls))
    )
    assert kernels.structs(typ, [column], None, 11).null_count == 0
    items, offsets = pa.array([1, 2, 3]), np.array([0, 2, 2, 3])
    made = kernels.lists(pa.list_(pa.int64()), offsets, items, np.array([False, True, False]))
    made.validate(full=True)
    assert made.to_pylist() == [[1, 2], None, [3]]
    assert kernels.lists(pa.list_(pa.int64()), offsets, items, None).to_pylist() == [[1, 2], [], [3]]
    assert kernels.lists(pa.list_(pa.int64()), np.array([0]), items[:0], None).to_pylist() == []


def test_few_rows_need_no_heavy_module() -> None:
    code = (
        "import sys; from shoal.__main__ import NoPandas; sys.meta_path.insert(0, NoPandas)\n"
        "import numpy as np, pyarrow as pa; from shoal.formats.columns import kernels as k\n"
        "column = pa.chunked_array([pa.array([{'a': 1.5}, None, {'a': 2.5}])])\n"
        "assert k.extremes(k.field(column, ['a'])) == (1.5, 2.5) and not k.has_nan(k.field(column, [0]))\n"
        "k.valid_rows(k.take(column, np.array([2, 0, 1]))), k.distinct(np.array([1]))\n"
        "k.integers(np.array([1]), pa.int32())\n"
        "print([name for name in ('pyarrow.compute', 'numpy.ma') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
