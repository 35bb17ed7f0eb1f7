"""Batches as bytes, exactly: each part is an Arrow stream of its own, with the type of its values beside it.

A service sends large results to clients in this way, so that neither has to take them apart value by value.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.arrow.reader import refusing
from shoal.formats.arrow.stream import open_checked
from shoal.formats.columns.batches import Batch, Part
from shoal.formats.columns.physical import arrow_type
from shoal.model.zcode import decode_type, encode_type

_HEAD = struct.Struct("<II")
"""The number of rows, and of parts."""
_SIZE = struct.Struct("<I")
"""The bytes of a part."""
_SHAPE = b"shape"
_CHOICES = pa.ipc.IpcWriteOptions(compression="lz4")
_NAME = "columns"


def slices(batch: Batch, size: int) -> Iterator[Batch]:
    """A batch in runs of about `size` bytes."""
    step = max(1, size * batch.length // max(1, batch.nbytes))
    for start in range(0, batch.length, step):
        length = min(step, batch.length - start)
        parts = (_rows_of(part, start, start + length) for part in batch.parts)
        yield Batch(tuple(part for part in parts if len(part.rows)), length)


def _rows_of(part: Part, start: int, stop: int) -> Part:
    first, last = np.searchsorted(part.rows, (start, stop)).tolist()
    return Part(part.shape, part.column.slice(first, last - first), part.rows[first:last] - start)


def encode(batch: Batch) -> bytes:
    """A batch as bytes."""
    parts = [_encode_part(part) for part in batch.parts]
    sized = (piece for part in parts for piece in (_SIZE.pack(len(part)), part))
    return b"".join((_HEAD.pack(batch.length, len(parts)), *sized))


def _encode_part(part: Part) -> bytes:
    fields = [pa.field("value", part.column.type), pa.field("row", pa.int64())]
    schema = pa.schema(fields, metadata={_SHAPE: encode_type(part.shape)})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, schema, options=_CHOICES) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([part.column, pa.array(part.rows)], schema=schema))
    return out.getvalue()


def decode(data: bytes, options: ReadOptions = DEFAULT_READ) -> Batch:
    """The batch in some bytes; InvalidInput if they do not hold one."""
    with refusing(_NAME):
        try:
            length, count = _HEAD.unpack_from(data)
            parts, pos = [], _HEAD.size
            for _ in range(count):
                (size,) = _SIZE.unpack_from(data, pos)
                pos += _SIZE.size
                parts.append(_decode_part(data[pos : pos + size], options))
                pos += size
        except (struct.error, StopIteration):
            raise InvalidInput(f"{_NAME}: cut off") from None
        rows = np.concatenate([part.rows for part in parts]) if parts else np.zeros(0, np.int64)
        if len(rows) != length or not np.array_equal(np.sort(rows), np.arange(length)):
            raise InvalidInput(f"{_NAME}: rows are missing, or are there twice")
        return Batch(tuple(parts), length)


def _decode_part(data: bytes, options: ReadOptions) -> Part:
    reader = open_checked(io.BytesIO(data), options)
    batch = reader.read_next_batch()
    batch.validate(full=True)
    shape = decode_type((reader.schema.metadata or {}).get(_SHAPE, b""))
    column, rows = batch.columns
    if column.type != arrow_type(shape) or rows.null_count or rows.type != pa.int64():
        raise pa.ArrowInvalid("columns of other types than their shape has")
    return Part(shape, column, rows.to_numpy())
