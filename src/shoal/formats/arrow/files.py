"""Arrow files, which are also version 2 of Feather: an Arrow stream in blocks, with an index of the blocks at the end.

The index says what belongs to the file, in which order. Each block is a message, which is checked before pyarrow
unpacks it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.arrow.messages import Block, Index, check_message, index_of
from shoal.formats.arrow.reader import batches, refusing
from shoal.formats.arrow.writer import RecordWriter
from shoal.formats.columns.batches import Batch
from shoal.formats.limits import too_much, value_memory
from shoal.formats.metering import give
from shoal.formats.streams import Source, read_exactly
from shoal.model.values import Value

_NAME = "arrow"
MAGIC = b"ARROW1"
_START = 8
"""Where the first block begins at the earliest: the magic bytes and two zeros are before it."""
_TAIL = 4 + len(MAGIC)
"""Bytes at the end of a file: the size of the index, and the magic bytes."""
_INDEX_GROWTH = 32
"""How much larger an index may be in memory."""


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of a file."""
    for batch in read_columns(source, options):
        give(source, batch.nbytes)
        yield from batch.values()


def read_columns(source: Source, options: ReadOptions, selection: range | None = None) -> Iterator[Batch]:
    """The records of a file in columns; of these blocks, if any are named."""
    with refusing(_NAME):
        index = _read_index(source, options)
        handle = _Handle(source)
        choices = pa.ipc.IpcReadOptions(use_threads=options.threads > 1)
        file = pa.ipc.open_file(pa.PythonFile(handle, mode="r"), options=choices)
        size = sum(check_message(handle.take(block), options, _NAME) for block in index.dictionaries)
        if size > value_memory(options):
            raise too_much(f"{_NAME}: dictionaries of {size} bytes", options)
        for i in range(len(index.batches)) if selection is None else selection:
            check_message(handle.take(index.batches[i]), options, _NAME)
            yield from batches(file.get_batch(i), options.arrow_types)


def block_sizes(source: Source) -> list[int]:
    """Bytes of each block of records, as they are stored."""
    with refusing(_NAME):
        return [block.size for block in _read_index(source, DEFAULT_READ).batches]


def _read_index(source: Source, options: ReadOptions) -> Index:
    """The index at the end of a file, whose blocks lie in the file and nowhere overlap."""
    if not source.seekable():
        raise InvalidInput(f"{_NAME} requires a seekable input")
    whole = source.seek(0, io.SEEK_END)
    source.seek(max(0, whole - _TAIL))
    tail = read_exactly(source, _TAIL)
    size = int.from_bytes(tail[:4], "little")
    if not tail.endswith(MAGIC) or size > whole - _TAIL - _START:
        raise pa.ArrowInvalid("not an Arrow file, or cut off: there is no index at its end")
    if size * _INDEX_GROWTH > value_memory(options):
        raise too_much(f"{_NAME}: an index of {size} bytes", options)
    end = whole - _TAIL - size
    source.seek(end)
    index = index_of(read_exactly(source, size))
    position = _START
    for block in sorted((*index.dictionaries, *index.batches)):
        if block.offset < position or block.metadata_size < 0 or block.body_size < 0:
            raise pa.ArrowInvalid("the blocks of the file overlap")
        position = block.offset + block.size
    if position > end:
        raise pa.ArrowInvalid("a block is beyond the end of the file")
    return index


class _Handle:
    """A source as a file for pyarrow, which takes a short read for the end. A block that is looked at is read once."""

    closed = False

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0
        self._block, self._data = Block(0, 0, 0), b""

    def take(self, block: Block) -> Any:
        """The message of a block, whose bytes are kept until another one is taken."""
        self._source.seek(block.offset)
        self._block, self._data = block, read_exactly(self._source, block.size)
        try:
            return pa.ipc.read_message(pa.py_buffer(self._data))
        except EOFError:
            raise pa.ArrowInvalid("a block holds no message") from None

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset if whence == 0 else self._source.seek(offset, whence)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        start = self._at - self._block.offset
        if start >= 0 and start + size <= len(self._data):
            data = self._data[start : start + size]
        else:
            self._source.seek(self._at)
            data = read_exactly(self._source, size)
        self._at += len(data)
        return data

    def close(self) -> None:
        pass


class Writer(RecordWriter):
    """Writes records of one type as an Arrow file."""

    prefix = "arrowio"

    def close(self) -> None:
        """Write what is buffered and the index. Without records of a known type the file has no columns."""
        if self.is_empty() and self._shape is None:
            self.start(pa.schema([]))
        super().close()

    def open_stream(self, sink: pa.NativeFile, schema: pa.Schema) -> Any:
        return pa.ipc.new_file(sink, schema)
