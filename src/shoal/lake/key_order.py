"""The order of rows by columns of keys, such that equal keys stay in the order of arrival.

Keys of one length, as times and identifiers mostly are, become numbers that order as their texts do: numbers are
sorted several times as fast. Such a number counts only the bytes that differ between keys, each by the range that it
has, so that the times of a month fit into 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.formats.columns.batches import Rows
from shoal.lake.keys import Order
from shoal.lazy import lazy

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

Numbers = np.ndarray[Any, Any]
_LONGEST_KEY = 64
_MOST_NUMBERS = 3
"""With more numbers for each key, comparing the texts themselves is as fast."""
_LARGEST = 1 << 64


def stable_order(columns: list[pa.Array], order: Order) -> Rows | None:
    """The places of the rows by these keys, of which the first matters most; None if that is the order they are in.

    Nulls are greater than all else.
    """
    numbers = _numbers(columns)
    if numbers is None:
        return _compared(columns, order)
    if order == "desc":
        numbers = [_reversed(each) for each in numbers]
    if len(numbers) == 1:
        (only,) = numbers
        return None if bool((only[1:] >= only[:-1]).all()) else np.argsort(only, kind="stable")
    return np.lexsort(numbers[::-1])


def _compared(columns: list[pa.Array], order: Order) -> Rows:
    names = [str(i) for i in range(len(columns))]
    direction, nulls = ("ascending", "at_end") if order == "asc" else ("descending", "at_start")
    table = pa.Table.from_arrays(columns, names)
    places: Rows = pc.sort_indices(table, sort_keys=[(name, direction, nulls) for name in names]).to_numpy()
    return places


def _reversed(numbers: Numbers) -> Numbers:
    """Numbers that order in the opposite way. Unlike a negative, the complement of an integer always exists."""
    return np.invert(numbers)


def _numbers(columns: list[pa.Array]) -> list[Numbers] | None:
    """Integers that order as the keys do, for each row; None if there are none, or too many."""
    found: list[Numbers] = []
    for column in columns:
        own = _numbers_of(column)
        if own is None:
            return None
        found += own
    return found if len(found) <= _MOST_NUMBERS else None


def _numbers_of(column: pa.Array) -> list[Numbers] | None:
    if column.null_count or not len(column):
        return None
    if pa.types.is_integer(column.type):
        return [column.to_numpy()]
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        texts = _bytes_by_place(column)
        return None if texts is None else _packed(texts)
    return None


def _bytes_by_place(column: pa.Array) -> Numbers | None:
    """The first bytes of all texts, then the second ones, and so on; None if lengths differ."""
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    length = int(starts[1] - starts[0])
    if not 0 < length <= _LONGEST_KEY or not (np.diff(starts) == length).all():
        return None
    content = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]
    return np.ascontiguousarray(content.reshape(len(column), length).T)


def _packed(texts: Numbers) -> list[Numbers] | None:
    """As many bytes to a number as it can count; the bytes of all texts are given place by place."""
    numbers = [np.zeros(texts.shape[1], np.uint64)]
    size = 1
    for least, greatest, place in zip(texts.min(axis=1).tolist(), texts.max(axis=1).tolist(), texts, strict=True):
        count = greatest - least + 1
        if count == 1:
            continue
        if size * count > _LARGEST:
            if len(numbers) == _MOST_NUMBERS:
                return None
            numbers.append(np.zeros(texts.shape[1], np.uint64))
            size = 1
        size *= count
        numbers[-1] *= np.uint64(count)
        numbers[-1] += place - np.uint8(least)
    return numbers
