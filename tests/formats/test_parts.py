"""Rows by number: what grouping by shape is made of."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.formats.columns.batches import MANY_SHAPES
from shoal.formats.columns.parts import TooManyShapes, check_shapes, rows_by_code


@pytest.mark.parametrize("codes", [[], [5], [3, 1, 3, 2, 1, 3], list(range(100)) * 2, [7] * 10])
def test_rows_are_grouped_by_number_in_order(codes: list[int]) -> None:
    expected = [(code, [row for row, each in enumerate(codes) if each == code]) for code in sorted(set(codes))]
    assert [(code, rows.tolist()) for code, rows in rows_by_code(np.array(codes, np.int64))] == expected


def test_many_shapes_are_too_many_only_for_few_rows() -> None:
    check_shapes(MANY_SHAPES, 10)
    check_shapes(2 * MANY_SHAPES, 1_000_000)
    with pytest.raises(TooManyShapes):
        check_shapes(2 * MANY_SHAPES, 3 * MANY_SHAPES)
