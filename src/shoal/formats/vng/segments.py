"""Segments: the stretches of a VNG data section. Any may be compressed, and two may overlap.

So the sizes of the segments say nothing about the size of the file, and a reader counts what it
has unpacked from one object.
"""

from __future__ import annotations

from collections.abc import Iterable

import lz4.block

from shoal.errors import InvalidInput
from shoal.formats.compression import unpack_lz4
from shoal.formats.limits import RAISE_MEMORY
from shoal.formats.metering import give, grow
from shoal.formats.streams import Source, read_exactly
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import encode_int, tagged

SEGMENT = t.named(
    "Segment",
    t.record((("Offset", t.INT64), ("Length", t.INT32), ("MemLength", t.INT32), ("CompressionFormat", t.UINT8))),
)
_PLAIN, _LZ4 = 0, 1
_MAX_MEMORY = 1 << 30


class SegmentWriter:
    """Collects the data section of one object."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, body: bytes) -> Value:
        """Store `body`; where it went, as metadata has it."""
        if len(body) > _MAX_MEMORY:
            raise InvalidInput(f"a column would be larger than {_MAX_MEMORY} bytes")
        packed: bytes = lz4.block.compress(body, store_size=False) if body else body
        smaller = len(packed) < len(body)
        stored = packed if smaller else body
        offset = self.size
        self.parts.append(stored)
        self.size += len(stored)
        return Value(SEGMENT, (offset, len(stored), len(body), _LZ4 if smaller else _PLAIN))

    def add_ints(self, numbers: list[int]) -> Value:
        """Store numbers as tag-encoded int64s."""
        bodies = {n: tagged(encode_int(n)) for n in set(numbers)}
        return self.add(b"".join(map(bodies.__getitem__, numbers)))

    def add_bodies(self, bodies: Iterable[bytes]) -> Value:
        """Store bodies, tag-encoded."""
        return self.add(b"".join(map(tagged, bodies)))


class SegmentReader:
    """Reads the segments of one object, whose data section spans `start` to `end`."""

    def __init__(self, source: Source, start: int, size: int, limit: int = _MAX_MEMORY) -> None:
        """Unpacks at most `limit` bytes."""
        self._source = source
        self._limit = min(limit, _MAX_MEMORY)
        self._start = start
        self._size = size
        self._memory = 0
        self.end = start + size

    def grow(self, size: int) -> None:
        """Count bytes of memory that the segments do not account for."""
        grow(self._source, size)
        give(self._source, size)

    def read(self, offset: int, length: int, mem_length: int, compression: int) -> bytes:
        """The plain bytes of a segment."""
        if offset + length > self._size:
            raise InvalidInput(f"segment of {length} bytes at {offset} ends outside the {self._size} bytes of data")
        self._memory += mem_length
        if self._memory > self._limit:
            raise InvalidInput(f"segments unpack to more than {self._limit} bytes {RAISE_MEMORY}")
        if compression not in (_PLAIN, _LZ4):
            raise InvalidInput(f"unknown compression format {compression} of a segment")
        if compression == _PLAIN and mem_length > length:
            raise InvalidInput(f"segment claims {mem_length} bytes, more than its {length} can hold")
        if compression == _PLAIN and mem_length < length:
            raise InvalidInput(f"segment holds {length} bytes, not the declared {mem_length}")
        self._source.seek(self._start + offset)
        stored = read_exactly(self._source, length)
        return unpack_lz4(stored, mem_length, "segment") if compression == _LZ4 else stored
