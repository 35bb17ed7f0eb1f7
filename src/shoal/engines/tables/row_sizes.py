"""How much memory rows of Arrow take as values, and batches cut so that none takes more than a limit.

A bit of Arrow may become an object of Python, and a text that a dictionary repeats is one text for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.model.extent import CONTAINER_BYTES, LEAF_BYTES, TEXT_BYTES

_DECIMAL_BYTES = 4 * LEAF_BYTES
_INTERVAL_BYTES = CONTAINER_BYTES + 3 * LEAF_BYTES
"""An interval is a record of months, days and nanoseconds."""
_TEXTS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view())


class RowTooLarge(Exception):
    """A single row takes more than the limit."""


def pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in batches that take at most `limit` bytes each as values."""
    if sum(map(size_of_column, batch.columns)) <= limit:
        yield batch
        return
    half = batch.num_rows // 2
    if half == 0:
        raise RowTooLarge
    yield from pieces(batch.slice(0, half), limit)
    yield from pieces(batch.slice(half), limit)


def size_of_column(column: pa.Array) -> int:
    """Bytes that a column takes as values, roughly."""
    typ: Any = column.type
    if isinstance(typ, pa.BaseExtensionType):
        return size_of_column(column.storage)
    if pa.types.is_dictionary(typ):
        return len(column) * LEAF_BYTES + _repeated_bytes(column)
    if typ in _TEXTS:
        return len(column) * TEXT_BYTES + _total(pc.binary_length(column))
    if not pa.types.is_nested(typ):
        return len(column) * _leaf_bytes(typ)
    return len(column) * CONTAINER_BYTES + sum(map(size_of_column, _parts(typ, column)))


def _leaf_bytes(typ: Any) -> int:
    if pa.types.is_decimal(typ):
        return _DECIMAL_BYTES
    return _INTERVAL_BYTES if pa.types.is_interval(typ) else LEAF_BYTES


def _repeated_bytes(column: Any) -> int:
    """Bytes of the texts of a dictionary, each as often as a row has it."""
    if column.type.value_type not in _TEXTS:
        return 0
    return _total(pc.binary_length(column.dictionary).take(column.indices))


def _total(lengths: pa.Array) -> int:
    return int(pc.sum(lengths, min_count=0).as_py())


def _parts(typ: Any, column: Any) -> list[pa.Array]:
    """What the values of nested columns consist of."""
    if pa.types.is_map(typ):
        start, end = (column.offsets[0].as_py(), column.offsets[-1].as_py()) if len(column) else (0, 0)
        return [column.values.slice(start, end - start)]
    if pa.types.is_union(typ):
        return [column.field(i) for i in range(typ.num_fields)]
    if pa.types.is_struct(typ):
        return list(column.flatten())
    return [column.flatten()]
