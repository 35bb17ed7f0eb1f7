"""Avro container files, without their compression: a header with the schema, and then blocks of records.

A block is unpacked here, within limits, because fastavro would unpack it whatever its size. What is given to fastavro
is a container again, whose header has the schema that it should read by, and whose blocks are plain.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import compression
from shoal.formats.limits import check_memory, check_text, too_much, value_memory
from shoal.formats.metering import give
from shoal.formats.streams import CHUNK, Source
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

MAGIC = b"Obj\x01"
_SYNC = 16
_SCHEMA, _CODEC = "avro.schema", "avro.codec"
_MOST_ENTRIES = 10_000
_LIGHT = 1 << 16
"""Up to this size a block is decoded without a look at what it may become."""
_SNAPPY_RATIO = 64
"""Snappy cannot do better than this, so a block that claims more is lying."""


@frozen
class Header:
    """What a file says of itself."""

    schema: Any
    codec: str
    sync: bytes
    """What ends each block."""


class Container:
    """A container file that is being read."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        """Read the header."""
        self._source, self._options = source, options
        self._input = _Input(source)
        self.header = self._read_header()
        if self.header.codec not in _CODECS:
            known = ", ".join(_CODECS)
            raise InvalidInput(f"codec {self.header.codec!r} is not supported (write the file with one of: {known})")

    def _read_header(self) -> Header:
        if self._input.take(len(MAGIC)) != MAGIC:
            raise InvalidInput("expected a container file, which begins with Obj and a byte 1")
        entries: dict[str, bytes] = {}
        while count := self._input.long():
            if count < 0:
                self._input.long()  # the size of the entries, for readers that skip them
            if abs(count) + len(entries) > _MOST_ENTRIES:
                raise InvalidInput(f"the header has more than {_MOST_ENTRIES} entries")
            for _ in range(abs(count)):
                name = self._input.bytes().decode(errors="replace")
                entries[name] = self._input.bytes()
        if _SCHEMA not in entries:
            raise InvalidInput("the header has no schema")
        codec = entries.get(_CODEC, b"null").decode(errors="replace")
        return Header(_parsed(entries[_SCHEMA], self._options), codec, self._input.take(_SYNC))

    def plain(self, schema: Any, growth: int) -> io.BufferedReader:
        """The file without compression, with another schema. Records take up to `growth` times their bytes."""
        return io.BufferedReader(_Plain(self._parts(schema, growth)), CHUNK)

    def _parts(self, schema: Any, growth: int) -> Iterator[bytes]:
        yield _header(schema, self.header.sync)
        number = 0
        while not self._input.is_at_end():
            number += 1
            count, packed = self._input.long(), self._input.bytes()
            if self._input.take(_SYNC) != self.header.sync:
                raise InvalidInput(f"block {number} does not end with the marker of the file")
            block = _CODECS[self.header.codec](packed, self._options)
            give(self._source, len(block))
            if len(block) > _LIGHT:
                check_memory(len(block) * growth, self._options, f"block {number}")
            yield _long(count) + _long(len(block)) + block + self.header.sync


def _parsed(text: bytes, options: ReadOptions) -> Any:
    check_text(text, options, "schema")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise InvalidInput(f"schema: not JSON ({e})") from None


def _header(schema: Any, sync: bytes) -> bytes:
    text = json.dumps(schema).encode()
    name = _SCHEMA.encode()
    return MAGIC + _long(1) + _long(len(name)) + name + _long(len(text)) + text + b"\0" + sync


def _long(number: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Input:
    """The bytes of a source, some at a time."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ready, self._at = b"", 0

    def is_at_end(self) -> bool:
        """Whether there is nothing left."""
        if self._at == len(self._ready):
            self._ready, self._at = self._source.read(CHUNK), 0
        return not self._ready

    def take(self, size: int) -> bytes:
        """That many bytes. Memory is taken for bytes that are there, not for what a size claims."""
        parts = []
        while size > 0:
            if self.is_at_end():
                raise InvalidInput("expected more data, found the end of the input")
            part = self._ready[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def long(self) -> int:
        """A number."""
        number = shift = 0
        while (byte := self.take(1)[0]) > 0x7F:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise InvalidInput("a number beyond 64 bits")
        number |= byte << shift
        return number >> 1 ^ -(number & 1)

    def bytes(self) -> bytes:
        """Bytes with their number in front."""
        size = self.long()
        if size < 0:
            raise InvalidInput(f"a size of {size}")
        return self.take(size)


class _Plain(io.RawIOBase):
    """Parts as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._part = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there is something ready."""
        if not self._part:
            self._part = memoryview(next(self._parts, b""))
        size = min(len(buffer), len(self._part))
        buffer[:size] = self._part[:size]
        self._part = self._part[size:]
        return size


# ---- codecs


def _stored(packed: bytes, options: ReadOptions) -> bytes:
    return packed


def _inflated(packed: bytes, options: ReadOptions) -> bytes:
    engine = zlib.decompressobj(wbits=-15)
    most = value_memory(options)
    try:
        block = engine.decompress(packed, most)
    except zlib.error as e:
        raise InvalidInput(f"deflate: {e}") from None
    if not engine.eof:
        raise _too_large(options) if len(block) >= most else InvalidInput("deflate: a block is cut off")
    return block


def _unpacked(name: str) -> Callable[[bytes, ReadOptions], bytes]:
    """Unpacks by a compression that files have, too."""

    def unpack(packed: bytes, options: ReadOptions) -> bytes:
        parts, size = [], 0
        for part in compression.by_name(name).unpack(io.BytesIO(packed), options.max_ratio):
            parts.append(part)
            size += len(part)
            if size > value_memory(options):
                raise _too_large(options)
        return b"".join(parts)

    return unpack


def _unsnapped(packed: bytes, options: ReadOptions) -> bytes:
    """A Snappy block, which begins with its size, and the checksum of what it holds."""
    body, checksum = packed[:-4], packed[-4:]
    size = shift = 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > value_memory(options):
        raise _too_large(options)
    if size > _SNAPPY_RATIO * (len(body) + 1):
        raise InvalidInput(f"snappy: a block claims {size} bytes, more than its {len(body)} can hold")
    try:
        block: bytes = pa.decompress(body, size, "snappy", asbytes=True)
    except (pa.ArrowException, OSError, ValueError) as e:
        raise InvalidInput(f"snappy: {e}") from None
    if zlib.crc32(block).to_bytes(4, "big") != checksum:
        raise InvalidInput("snappy: a block does not have its checksum")
    return block


def _too_large(options: ReadOptions) -> InvalidInput:
    return too_much("a block", options)


_CODECS: dict[str, Callable[[bytes, ReadOptions], bytes]] = {
    "null": _stored,
    "deflate": _inflated,
    "bzip2": _unpacked("bzip2"),
    "xz": _unpacked("xz"),
    "zstandard": _unpacked("zstd"),
    "snappy": _unsnapped,
}
"""Unpacks a block."""
