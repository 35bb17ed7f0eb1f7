"""Values out of the columns that a statement gives.

A timestamp of any kind is a time. A decimal is the number with its digits: an integer if it is whole, else a float64.
Where those would lose digits it stays what `formats.arrow.reader` makes of it, as does all that Zed has no type for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.arrow.reader import batches, refusing
from shoal.formats.arrow.scalars import SCALES
from shoal.model.values import Value

_MOST_DIGITS = 15
"""Every decimal with this many digits is the shortest text of some float64."""
_WHOLE = ((pa.int64(), -(2**63), 2**63), (pa.uint64(), 0, 2**64))


class _Mixed(Exception):
    """Decimals of one column that are numbers of several types."""


def values_of(answers: Iterable[pa.RecordBatch]) -> Iterator[Value]:
    """The rows of an answer."""
    with refusing("sql"):
        for batch in answers:
            for part in _plain_batches(batch):
                for run in batches(part):
                    yield from run.values()


def _plain_batches(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    try:
        yield _plain_batch(batch)
    except _Mixed:
        for row in range(batch.num_rows):
            yield _plain_batch(batch.slice(row, 1), is_split=True)


def _plain_batch(batch: pa.RecordBatch, is_split: bool = False) -> pa.RecordBatch:
    columns = [_plain(column, is_split) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _plain(column: pa.Array, is_split: bool) -> pa.Array:
    typ: Any = column.type
    if pa.types.is_timestamp(typ):
        return pc.multiply_checked(column.view(pa.int64()), pa.scalar(SCALES[typ.unit])).view(pa.timestamp("ns"))
    if pa.types.is_decimal(typ):
        return _numbers(column, is_split)
    if not _has_parts(typ):
        return column
    if column.offset:
        column = pa.concat_arrays([column])
    nulls = column.is_null() if column.null_count else None
    if pa.types.is_struct(typ):
        inner = [_plain(child, is_split) for child in column.flatten()]
        fields = [pa.field(typ.field(i).name, child.type) for i, child in enumerate(inner)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=nulls)
    if pa.types.is_map(typ):
        keys, values = _plain(column.keys, is_split), _plain(column.items, is_split)
        return pa.MapArray.from_arrays(column.offsets, keys, values, mask=nulls)
    return pa.ListArray.from_arrays(column.offsets, _plain(column.values, is_split), mask=nulls)


def _has_parts(typ: Any) -> bool:
    """Whether values are made of others; those that are made of nothing have nothing to be made plain."""
    if pa.types.is_struct(typ):
        return bool(typ.num_fields)
    return bool(pa.types.is_list(typ) or pa.types.is_map(typ))


def _numbers(column: pa.Array, is_split: bool) -> pa.Array:
    """Decimals as the numbers that they are."""
    data = [None if d is None else d.normalize() for d in column.to_pylist()]
    kinds = {_kind(d, column.type.scale) for d in data if d is not None}
    if not kinds:
        return pa.nulls(len(column), pa.float64() if column.type.scale > 0 else pa.int64())
    if len(kinds) > 1:
        if not is_split:
            raise _Mixed
        return column  # of one list: an exact type for all of them
    (kind,) = kinds
    if kind is None:
        return column
    number = float if kind == pa.float64() else int
    return pa.array([None if d is None else number(d) for d in data], kind)


def _kind(data: Decimal, scale: int) -> pa.DataType | None:
    """The type of number that has all digits of a decimal; None if there is none."""
    if scale > 0:
        return pa.float64() if len(data.as_tuple().digits) <= _MOST_DIGITS else None
    return next((kind for kind, low, high in _WHOLE if low <= int(data) < high), None)
