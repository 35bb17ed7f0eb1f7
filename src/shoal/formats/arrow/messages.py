"""The messages of Arrow streams and files, as far as they say how large they are, before Arrow takes memory for them.

Each buffer of a compressed batch begins with the size that it claims to have without compression, which Arrow believes.
A message is described by a flatbuffer, whose structure Arrow has verified when it comes here. The index of a file is
a flatbuffer that nobody has verified.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

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
_INDEX_DICTIONARIES, _INDEX_BATCHES = 2, 3
"""Fields of the index of a file."""
_BLOCK = struct.Struct("<qi4xq")


class Block(NamedTuple):
    """Where a message is in a file."""

    offset: int
    metadata_size: int
    body_size: int

    @property
    def size(self) -> int:
        """The bytes of the message."""
        return self.metadata_size + self.body_size


class Index(NamedTuple):
    """The blocks of a file, in the order that they have in it."""

    dictionaries: tuple[Block, ...]
    batches: tuple[Block, ...]


def index_of(data: bytes) -> Index:
    """The index of an Arrow file. One that is malformed raises pa.ArrowInvalid."""
    buf = memoryview(data)
    try:
        index = _Table(buf, _number("<I", buf, 0))
        return Index(
            *(
                tuple(Block(*fields) for fields in _BLOCK.iter_unpack(index.structs(field, _BLOCK.size)))
                for field in (_INDEX_DICTIONARIES, _INDEX_BATCHES)
            )
        )
    except (struct.error, IndexError) as e:
        raise pa.ArrowInvalid(f"malformed index ({e})") from None


def check_message(message: Any, options: ReadOptions, name: str = "arrows") -> int:
    """The bytes that a message claims to unpack to. Refuses too many; a malformed one raises pa.ArrowInvalid."""
    if message.type == "schema" and message.metadata.size * _SCHEMA_GROWTH > value_memory(options):
        raise too_much(f"{name}: a schema of {message.metadata.size} bytes", options)
    try:
        size = sum(_unpacked_sizes(memoryview(message.metadata), message.body))
    except (struct.error, IndexError) as e:
        raise pa.ArrowInvalid(f"malformed message ({e})") from None
    if size > value_memory(options):
        raise too_much(f"{name}: a batch that claims {size} bytes", options)
    return size


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
    for offset, length in struct.iter_unpack("<qq", batch.structs(_BUFFERS, 16)):
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

    def structs(self, number: int, size: int) -> memoryview:
        """A field that is a vector of structs of this size; empty if it is absent."""
        at = self._field(number)
        if not at:
            return memoryview(b"")
        start = at + _number("<I", self._buf, at)
        count = _number("<I", self._buf, start)
        return self._buf[start + 4 : start + 4 + size * count]


def _number(form: str, buf: memoryview, pos: int) -> int:
    if pos < 0:
        raise IndexError(pos)
    (number,) = struct.unpack_from(form, buf, pos)
    return int(number)
