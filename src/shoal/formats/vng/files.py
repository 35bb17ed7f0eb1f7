"""VNG version 4: values stored by column. A file is any number of objects, each complete in itself.

An object is a header of 16 bytes, metadata (a ZNG stream of one value that describes the columns)
and the data section (the columns' segments, anywhere in it). The writer starts a new object every
so often, so that neither it nor a reader ever holds more than one object in memory.

Metadata is itself a Zed value and takes up to eight levels for each level of a record, so a value
that nests deeper than about 15 records does not fit: writing it raises InvalidInput.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.limits import value_memory
from shoal.formats.streams import Sink, Source, WriteOptions, read_exactly
from shoal.formats.vng.decoding import read_columns
from shoal.formats.vng.encoding import encode_columns
from shoal.formats.vng.metadata import Meta
from shoal.formats.vng.segments import SegmentReader, SegmentWriter
from shoal.formats.zng import stream as zng
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data

MAGIC = b"VNG\0"
VERSION = 4
_HEADER = struct.Struct("<4sIII")
_MAX_VALUES = 120_000
_MAX_WEIGHT = 64 * 1024 * 1024
_MAX_SECTION = 2**32 - 1


class Writer:
    """Writes values as VNG. They are buffered until an object is full."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out
        self._wrote = False
        self._reset()

    def _reset(self) -> None:
        self._tag_of: dict[t.Type, int] = {}
        self._rows: list[list[Data]] = []
        self._tags: list[int] = []
        self._weight = 0

    def write(self, value: Value) -> None:
        """Add a value."""
        tag = self._tag_of.get(value.type)
        if tag is None:
            tag = self._tag_of[value.type] = len(self._rows)
            self._rows.append([])
        self._rows[tag].append(value.data)
        self._tags.append(tag)
        self._weight += _weight(value.data)
        if len(self._tags) >= _MAX_VALUES or self._weight >= _MAX_WEIGHT:
            self._flush()

    def close(self) -> None:
        """Write the last object. A stream without values is one object without columns."""
        if self._tags or not self._wrote:
            self._flush()

    def _flush(self) -> None:
        columns = list(zip(self._tag_of, self._rows, strict=True))
        tags = self._tags
        self._reset()
        segments = SegmentWriter()
        try:
            metadata = _encode_metadata(encode_columns(columns, tags, segments))
        except InvalidInput as e:
            raise InvalidInput(f"vng: cannot hold this value: {e}") from e
        if max(len(metadata), segments.size) > _MAX_SECTION:
            raise InvalidInput("vng: cannot hold this value: a section would be larger than 4 GiB")
        self._out.write(_HEADER.pack(MAGIC, VERSION, len(metadata), segments.size))
        self._out.write(metadata)
        for part in segments.parts:
            self._out.write(part)
        self._wrote = True


def _weight(data: Data) -> int:
    """Roughly the bytes that `data` takes in a file; cheap, since every value is weighed."""
    if type(data) is tuple:
        return 1 + sum(map(_weight, data))
    return 2 + len(data) if type(data) in (str, bytes) else 8


def _encode_metadata(metadata: Value) -> bytes:
    out = io.BytesIO()
    writer = zng.Writer(out, WriteOptions())
    writer.write(metadata)
    writer.close()
    return out.getvalue()


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The values of a VNG file."""
    if not source.seekable():
        raise InvalidInput("VNG requires a seekable input")
    start = source.tell()
    end = source.seek(0, io.SEEK_END)
    while True:
        try:
            metadata, segments = _open_object(source, start, end, options)
            yield from read_columns(metadata, segments, options)
        except InvalidInput as e:
            raise InvalidInput(f"vng: object at byte {start}: {e}") from None
        except (IndexError, ValueError, struct.error) as e:
            raise InvalidInput(f"vng: object at byte {start}: malformed ({e})") from None
        start = segments.end
        if start == end:
            return


def _open_object(source: Source, start: int, end: int, options: ReadOptions) -> tuple[Meta, SegmentReader]:
    """The metadata of the object at `start`, and access to its segments."""
    source.seek(start)
    header = read_exactly(source, _HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(MAGIC):
        raise InvalidInput("expected a header of 16 bytes that begins with VNG and a zero byte")
    _, version, meta_size, data_size = _HEADER.unpack(header)
    if version != VERSION:
        raise InvalidInput(f"expected version {VERSION}, got {version}")
    data_start = start + _HEADER.size + meta_size
    if data_start + data_size > end:
        raise InvalidInput(f"declares {meta_size} + {data_size} bytes, more than the file has")
    stream = io.BytesIO(read_exactly(source, meta_size))
    values = list(islice(zng.read(stream, replace(options, zng_validate=True)), 2))
    if len(values) != 1:
        raise InvalidInput("expected one value in the metadata section")
    return Meta.of(values[0]), SegmentReader(source, data_start, data_size, value_memory(options))
