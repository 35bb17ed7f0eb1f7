"""Equal rows of columns: numbers that are the same exactly where values are, and what is left when equal rows cancel.

Values are compared as they are stored, type and bits: a NaN equals itself here, and 0.0 is not -0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from shoal.errors import Unsupported
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Rows
from shoal.formats.columns.physical import from_arrow
from shoal.model import types as t
from shoal.model.zcode import encode

_INTEGERS_OF_FLOATS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def row_codes(shape: t.Type, column: pa.Array) -> Rows:
    """A number for each value of a column: two are the same if the values are."""
    if kernels.goes_without(len(column)):
        return _by_bytes(shape, column)
    codes = np.zeros(len(column), np.int64)
    for leaf in _leaves(shape, column):
        encoded = leaf.dictionary_encode()
        places = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + places, return_inverse=True)
    return codes


def _by_bytes(shape: t.Type, column: pa.Array) -> Rows:
    numbers: dict[bytes | None, int] = {}
    bodies = (encode(shape, data) for data in from_arrow(shape, column))
    return np.fromiter((numbers.setdefault(body, len(numbers)) for body in bodies), np.int64, len(column))


def _leaves(shape: t.Type, column: pa.Array) -> Iterator[pa.Array]:
    """Columns without parts that tell rows apart. What is not made of records is written as bytes, value by value."""
    under = shape.under
    if isinstance(under, t.Record) and under.fields:
        if column.null_count:
            yield kernels.booleans(kernels.valid_rows(column))
        for field, part in zip(under.fields, column.flatten(), strict=True):
            yield from _leaves(field.type, part)
    elif isinstance(under, t.Primitive | t.Enum) or pa.types.is_boolean(column.type):
        typ = _INTEGERS_OF_FLOATS.get(column.type)
        yield column if typ is None else column.view(typ)
    elif isinstance(under, t.Error):
        yield from _leaves(under.inner, column)
    else:
        yield pa.array([encode(shape, data) for data in from_arrow(shape, column)], pa.binary())


def uncancelled(shape: t.Type, gone: pa.Array, come: pa.Array) -> tuple[Rows, Rows]:
    """The rows of two columns that are left when equal values of both cancel, one by one."""
    codes = row_codes(shape, joined([gone, come]))
    one, other = codes[: len(gone)], codes[len(gone) :]
    net = np.bincount(one, minlength=len(codes)) - np.bincount(other, minlength=len(codes))
    return _first(one, np.maximum(net, 0)), _first(other, np.maximum(-net, 0))


def joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Columns of one type, end to end; Unsupported if their texts are more than a column can hold."""
    try:
        return pa.concat_arrays(columns)
    except pa.ArrowInvalid as e:
        raise Unsupported(f"these records are too large to be compared: {str(e).splitlines()[0]}") from None


def _first(codes: Rows, counts: Rows) -> Rows:
    """The first rows of each code, as many as it counts."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.searchsorted(ordered, ordered)
    return np.sort(order[np.arange(len(codes)) - starts < counts[ordered]])
