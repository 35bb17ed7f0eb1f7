"""The messages of an Arrow stream, as far as they say how large they are, before Arrow takes memory for them.

Each buffer of a compressed batch begins with the size that it claims to have without compression, which Arrow believes.
A message is described by a flatbuffer, whose structure Arrow has verified when it comes here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from shoal.api.options import ReadOptions
from shoal.formats.limits import too_much, value_memory

_SCHEMA_GROWTH = 32
"""How much larger a schema may be in memory."""
_HEADER_TYPE, _HEADER = 1, 2
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_DICTIONARY_DATA = 1
_BUFFERS, _COMPRESSION = 2, 3
"""Fields of messages, of batches of dictionaries and of records."""


def check_message(message: Any, options: ReadOptions) -> None:
    """Refuse a message that would take too much memory. Malformed ones raise pa.ArrowInvalid."""
    if message.type == "schema" and message.metadata.size * _SCHEMA_GROWTH > value_memory(options):
        raise too_much(f"arrows: a schema of {message.metadata.size} bytes", options)
    try:
        size = sum(_unpacked_sizes(memoryview(message.metadata), message.body))
    except (struct.error, IndexError) as e:
        raise pa.ArrowInvalid(f"malformed message ({e})") from None
    if size > value_memory(options):
        raise too_much(f"arrows: a batch that claims {size} bytes", options)


def _unpacked_sizes(metadata: memoryview, body: Any) -> Iterator[int]:
    """What the buffers of a compressed batch claim to hold; nothing for other messages."""
    message = _Table(metadata, _number("<I", metadata, 0))
    kind = message.byte(_HEADER_TYPE)
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return
    batch = message.table(_HEADER)
    if kind == _DICTIONARY_BATCH and batch is not None:
        batch = batch.table(_DICTIONARY_DATA)
    if batch is None or batch.table(_COMPRESSION) is None:
        return
    for offset, length in batch.pairs(_BUFFERS):
        if length >= 8 and body is not None:
            yield max(length, _number("<q", memoryview(body), offset))


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, buf: memoryview, pos: int) -> None:
        self._buf = buf
        self._pos = pos
        self._vtable = pos - _number("<i", buf, pos)

    def _field(self, number: int) -> int:
        """The position of a field; 0 if it is absent."""
        at = 4 + 2 * number
        if at + 2 > _number("<H", self._buf, self._vtable):
            return 0
        offset = _number("<H", self._buf, self._vtable + at)
        return self._pos + offset if offset else 0

    def byte(self, number: int) -> int:
        """A field of one byte; 0 if it is absent."""
        at = self._field(number)
        return self._buf[at] if at else 0

    def table(self, number: int) -> _Table | None:
        """A field that is a table."""
        at = self._field(number)
        return _Table(self._buf, at + _number("<I", self._buf, at)) if at else None

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """A field that is a vector of pairs of numbers."""
        at = self._field(number)
        if at:
            start = at + _number("<I", self._buf, at)
            count = _number("<I", self._buf, start)
            first = start + 4  # aligned by the verifier
            yield from struct.iter_unpack("<qq", self._buf[first : first + 16 * count])


def _number(form: str, buf: memoryview, pos: int) -> int:
    if pos < 0:
        raise IndexError(pos)
    (number,) = struct.unpack_from(form, buf, pos)
    return int(number)
