"""Distinct rows of a column: what an expression makes of a row, it makes of all that are equal to it.

Rows are equal if they are the same value, floats by their bits. Each row gets the number of a distinct one; these are
numbered in the order in which they first occur.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.engines.physical import Unsuited
from shoal.formats.columns.batches import Rows
from shoal.formats.columns.physical import from_arrow
from shoal.model import types as t
from shoal.model.values import Value

Codes = np.ndarray[Any, np.dtype[np.int64]]
_LEAST = 256
"""Distinct rows that are never too many."""
_SHARE = 8
"""At most one row in eight may be distinct. Beyond that, evaluating every row is as fast."""
_DENSE = 1 << 20
"""Numbers up to here may have gaps."""
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


class Distinct(NamedTuple):
    """The distinct rows of a column."""

    codes: Codes
    """For each row the number of its distinct one."""
    firsts: Rows
    """Where each distinct row first occurs, ascending."""

    def counts(self) -> list[int]:
        """How many rows are equal to each."""
        counts: list[int] = np.bincount(self.codes, minlength=len(self.firsts)).tolist()
        return counts


def distinct_rows(shape: t.Type, column: pa.Array) -> Distinct:
    """The distinct rows of a column of values of a shape; Unsuited if they are many."""
    length = len(column)
    most = max(_LEAST, length // _SHARE)
    codes, size = np.zeros(length, np.int64), 1
    for own, count in _leaf_codes(shape, column):
        if count > most:
            raise Unsuited("many distinct values")
        if count > 1:
            codes, size = codes * count + own, size * count
        if size > _DENSE:
            numbers, codes = np.unique(codes, return_inverse=True)
            size = len(numbers)
            if size > most:
                raise Unsuited("many distinct rows")
    distinct = _numbered(codes, size)
    if len(distinct.firsts) > most:
        raise Unsuited("many distinct rows")
    return distinct


def values_at(shape: t.Type, column: pa.Array, rows: Rows) -> list[Value]:
    """The values at some rows of a column."""
    return [Value(shape, data) for data in from_arrow(shape, column.take(pa.array(rows)))]


def _numbered(codes: Codes, size: int) -> Distinct:
    """Rows numbered by first occurrence, given numbers below `size` that tell them apart."""
    length = len(codes)
    firsts = np.full(size, length, np.int64)
    firsts[codes[::-1]] = np.arange(length - 1, -1, -1)  # of several, the last one stays: the first row
    present = np.flatnonzero(firsts < length)
    order = present[np.argsort(firsts[present], kind="stable")]
    numbers = np.zeros(size, np.int64)
    numbers[order] = np.arange(len(order))
    return Distinct(numbers[codes], firsts[order])


def _leaf_codes(shape: t.Type, column: pa.Array) -> Iterator[tuple[Codes, int]]:
    """For each column that is in it: numbers of its items, and one more than the greatest."""
    under = shape.under
    if isinstance(under, t.Error):
        yield from _leaf_codes(under.inner, column)
    elif isinstance(under, t.Record) and under.fields:
        if column.null_count:
            yield column.is_null().to_numpy(zero_copy_only=False).astype(np.int64), 2
        for field, inner in zip(under.fields, column.flatten(), strict=True):
            yield from _leaf_codes(field.type, inner)
    elif isinstance(under, t.Primitive | t.Enum | t.Record):
        yield _codes(column)
    else:
        raise Unsuited("values with parts")


def _codes(column: pa.Array) -> tuple[Codes, int]:
    """Numbers of the items of a column; nulls have the last one."""
    if not len(column) or column.null_count == len(column):
        return np.zeros(len(column), np.int64), 1
    encoded = column.view(_BITS.get(column.type, column.type)).dictionary_encode()
    count = len(encoded.dictionary)
    if column.null_count:
        return encoded.indices.fill_null(count).to_numpy().astype(np.int64), count + 1
    return encoded.indices.to_numpy().astype(np.int64), count
