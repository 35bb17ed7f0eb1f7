"""Operations on columns that are done without `pyarrow.compute` for few rows, unless it is there already.

To import `pyarrow.compute` takes longer than a command needs to read or write a small object. The results of these
functions do not depend on it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.lazy import lazy

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

Mask = np.ndarray[Any, np.dtype[np.bool_]]
FEW = 2000
"""Rows that are not worth the import."""


def goes_without(rows: int) -> bool:
    """Whether this number of rows is done without `pyarrow.compute`."""
    return rows <= FEW and "pyarrow.compute" not in sys.modules


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def valid_rows(column: pa.Array) -> Mask:
    """Which rows are not null."""
    bits = column.buffers()[0]
    if bits is None or not column.null_count:
        return np.ones(len(column), bool)
    start, end = column.offset, column.offset + len(column)
    mask = np.unpackbits(np.frombuffer(bits, np.uint8)[start // 8 : -(-end // 8)], bitorder="little")
    return mask[start % 8 : start % 8 + len(column)].view(bool)


def integers(numbers: np.ndarray[Any, Any], typ: pa.DataType) -> pa.Array:
    """A column of integers of this type. `pa.array` would import the code of numpy for masked arrays."""
    data = np.ascontiguousarray(numbers, str(typ))
    return pa.Array.from_buffers(typ, len(data), [None, pa.py_buffer(data)])


def booleans(mask: Mask) -> pa.Array:
    """A column of booleans, made as one of integers is."""
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(np.packbits(mask, bitorder="little"))])


def structs(typ: pa.DataType, columns: Sequence[pa.Array], nulls: Mask | None, length: int) -> pa.Array:
    """A column of structs, null where `nulls` is true. pyarrow would compute the inverse of this mask."""
    return pa.Array.from_buffers(typ, length, [_validity(nulls)], children=list(columns))


def lists(typ: pa.DataType, offsets: np.ndarray[Any, Any], items: pa.Array, nulls: Mask | None) -> pa.Array:
    """A column of lists that begin at these offsets, the last being the end; null where `nulls` is true."""
    starts = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    return pa.Array.from_buffers(typ, len(offsets) - 1, [_validity(nulls), starts], children=[items])


def _validity(nulls: Mask | None) -> pa.Buffer | None:
    return None if nulls is None or not nulls.any() else pa.py_buffer(np.packbits(~nulls, bitorder="little"))


class Selection:
    """Places of items to take from columns."""

    def __init__(self, rows: np.ndarray[Any, Any], absent: Mask | None = None) -> None:
        """Where `absent` is true, no item is taken: the result is null."""
        self._rows, self._absent = rows, absent
        self._indices: pa.Array | None = None
        self._ranges: list[tuple[int, int]] | None = None

    def take(self, column: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The items of a column at these places."""
        if not goes_without(len(self._rows)):
            if self._indices is None:
                self._indices = pa.array(self._rows, mask=self._absent)
            return whole(column.take(self._indices))
        if self._ranges is None:
            self._ranges = list(self._find_ranges())
        column = whole(column)
        pieces = [
            pa.nulls(length, column.type) if start < 0 else column.slice(start, length)
            for start, length in self._ranges
        ]
        return pa.concat_arrays(pieces) if pieces else column.slice(0, 0)

    def _find_ranges(self) -> Iterator[tuple[int, int]]:
        """Starts and lengths of ranges in the column; a start of -1 stands for items that are absent."""
        rows = self._rows if self._absent is None else np.where(self._absent, -1, self._rows)
        first, length = 0, 0
        for row in rows.tolist():
            if length and row == (-1 if first < 0 else first + length):
                length += 1
                continue
            if length:
                yield first, length
            first, length = row, 1
        if length:
            yield first, length


def take(column: pa.Array | pa.ChunkedArray, rows: np.ndarray[Any, Any]) -> pa.Array:
    """The items of a column at these places."""
    return Selection(rows).take(column)


def field(column: pa.Array | pa.ChunkedArray, path: Sequence[int | str]) -> Any:
    """The field that a path through structs leads to, null where one of them is."""
    if path and not goes_without(len(column)):
        return pc.struct_field(column, list(path))
    if isinstance(column, pa.ChunkedArray):
        chunks = [field(chunk, path) for chunk in column.chunks]
        return pa.chunked_array(chunks or [field(pa.array([], column.type), path)])
    for step in path:
        place = column.type.get_field_index(step) if isinstance(step, str) else step
        column = column.flatten()[place] if column.null_count else column.field(place)
    return column


def items(column: pa.Array | pa.ChunkedArray) -> Any:
    """The items of lists, end to end, with those that a null list hides, if there are any."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([items(chunk) for chunk in column.chunks], column.type.value_type)
    offsets = column.offsets
    start = offsets[0].as_py() if len(column) else 0
    return column.values.slice(start, offsets[len(column)].as_py() - start if len(column) else 0)


def has_nan(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some item of a column is a floating-point number that is not one."""
    if not pa.types.is_floating(column.type):
        return False
    if not goes_without(len(column)):
        return bool(pc.any(pc.is_nan(column)).as_py())
    return any(item is not None and math.isnan(item) for item in column.to_pylist())


def extremes(column: pa.Array | pa.ChunkedArray) -> tuple[Any, Any]:
    """The least and the greatest item, but for nulls and NaN; None if there is none."""
    if not goes_without(len(column)):
        if pa.types.is_floating(column.type):
            column = column.filter(pc.invert(pc.is_nan(column)))
        ends = pc.min_max(column)
        return ends["min"].as_py(), ends["max"].as_py()
    items = [item for item in column.to_pylist() if item is not None and item == item]
    return (min(items), max(items)) if items else (None, None)


def distinct(numbers: np.ndarray[Any, Any]) -> list[int]:
    """The integers that occur, ascending. For few, `np.unique` would import its code for masked arrays."""
    return sorted(set(numbers.tolist())) if len(numbers) <= FEW else np.unique(numbers).tolist()
