"""Operations on columns that are done without `pyarrow.compute` for few rows.

To import `pyarrow.compute` takes longer than a command needs to read or write a small object. So none of these
functions imports it for up to FEW rows. Their results do not depend on that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def take(column: pa.Array | pa.ChunkedArray, rows: np.ndarray[Any, Any], absent: Mask | None = None) -> pa.Array:
    """The items at these places; null where `absent` is true."""
    if len(rows) > FEW:
        return whole(pc.take(column, pa.array(rows, mask=absent)))
    column, places = whole(column), rows.tolist()
    if absent is not None:
        places = [-1 if is_absent else row for row, is_absent in zip(places, absent.tolist(), strict=True)]
    pieces: list[pa.Array] = []
    start = 0
    while start < len(places):
        end, first = start + 1, places[start]
        if first < 0:
            while end < len(places) and places[end] < 0:
                end += 1
            pieces.append(pa.nulls(end - start, column.type))
        else:
            while end < len(places) and places[end] == first + end - start:
                end += 1
            pieces.append(column.slice(first, end - start))
        start = end
    return pa.concat_arrays(pieces) if pieces else column.slice(0, 0)


def field(column: pa.Array | pa.ChunkedArray, path: Sequence[int | str]) -> Any:
    """The field that a path through structs leads to, null where one of them is."""
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
    if len(column) > FEW:
        return bool(pc.any(pc.is_nan(column)).as_py())
    return any(item is not None and math.isnan(item) for item in column.to_pylist())


def extremes(column: pa.Array | pa.ChunkedArray) -> tuple[Any, Any]:
    """The least and the greatest item, but for nulls and NaN; None if there is none."""
    if len(column) > FEW:
        if pa.types.is_floating(column.type):
            column = column.filter(pc.invert(pc.is_nan(column)))
        ends = pc.min_max(column)
        return ends["min"].as_py(), ends["max"].as_py()
    items = [item for item in column.to_pylist() if item is not None and item == item]
    return (min(items), max(items)) if items else (None, None)


def distinct(numbers: np.ndarray[Any, Any]) -> list[int]:
    """The integers that occur, ascending. For few, `np.unique` would import its code for masked arrays."""
    return sorted(set(numbers.tolist())) if len(numbers) <= FEW else np.unique(numbers).tolist()
