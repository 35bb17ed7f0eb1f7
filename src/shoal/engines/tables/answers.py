"""Values out of the columns that a statement gives.

They have the plain types of `formats.arrow.reader`, but for one: engines add integers up in types of 20 digits and
more, which are shown as decimals without a fraction. These are integers again where they fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.arrow.reader import batches, refusing
from shoal.formats.columns.batches import Batch

_LEAST_DIGITS = 20
"""Those of the narrowest type that no integer type of ours has: Spark's form of uint64."""
_INTEGERS = ((pa.int64(), -(2**63), 2**63 - 1), (pa.uint64(), 0, 2**64 - 1))


def batches_of(answers: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    """The rows of an answer."""
    with refusing("sql"):
        for batch in answers:
            columns = [plain_integers(column) for column in batch.columns]
            yield from batches(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))


def plain_integers(column: pa.Array) -> pa.Array:
    """A column in which wide decimals that stand for integers are integers."""
    typ: Any = column.type
    if pa.types.is_decimal(typ):
        return _integers(column)
    if not _has_wide_decimals(typ):
        return column
    if column.offset:
        column = pa.concat_arrays([column])
    nulls = column.is_null() if column.null_count else None
    if pa.types.is_struct(typ):
        inner = [plain_integers(child) for child in column.flatten()]
        fields = [pa.field(typ.field(i).name, child.type) for i, child in enumerate(inner)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=nulls)
    if pa.types.is_map(typ):
        return pa.MapArray.from_arrays(
            column.offsets, plain_integers(column.keys), plain_integers(column.items), mask=nulls
        )
    return pa.ListArray.from_arrays(column.offsets, plain_integers(column.values), mask=nulls)


def _has_wide_decimals(typ: Any) -> bool:
    """Whether a type has decimals in it that may stand for integers."""
    if pa.types.is_struct(typ):
        return any(_has_wide_decimals(field.type) for field in typ)
    if pa.types.is_map(typ):
        return _has_wide_decimals(typ.key_type) or _has_wide_decimals(typ.item_type)
    if pa.types.is_list(typ):
        return _has_wide_decimals(typ.value_type)
    return bool(pa.types.is_decimal(typ) and typ.scale == 0 and typ.precision >= _LEAST_DIGITS)


def _integers(column: pa.Array) -> pa.Array:
    """Decimals as integers, if these are what they stand for and all of them fit."""
    if not _has_wide_decimals(column.type):
        return column
    bounds = pc.min_max(column).as_py()
    low, high = bounds["min"] or 0, bounds["max"] or 0
    kind = next((kind for kind, least, most in _INTEGERS if least <= low and high <= most), None)
    return column if kind is None else column.cast(kind)
