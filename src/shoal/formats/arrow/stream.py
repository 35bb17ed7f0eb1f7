"""The Arrow IPC stream. Empty input is a stream of no records, which is what writing none makes.

`arrow.reader` and `arrow.writer` map the types, for Parquet as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from shoal.api.options import ReadOptions
from shoal.formats.arrow.messages import check_message
from shoal.formats.arrow.reader import batches, refusing
from shoal.formats.arrow.writer import RecordWriter
from shoal.formats.columns.batches import Batch
from shoal.formats.metering import give
from shoal.formats.streams import Source, read_exactly
from shoal.model.values import Value

_NAME = "arrows"


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of a stream."""
    for batch in read_columns(source, options):
        give(source, batch.nbytes)
        yield from batch.values()


def read_columns(source: Source, options: ReadOptions) -> Iterator[Batch]:
    """The records of a stream in columns."""
    pipe = _Pipe(source)
    if pipe.is_empty():
        return
    with refusing(_NAME):
        for batch in open_checked(pipe, options):
            yield from batches(batch, options.arrow_types)


def open_checked(source: Any, options: ReadOptions) -> pa.RecordBatchReader:
    """The batches of a stream; each message is checked before it is unpacked."""
    choices = pa.ipc.IpcReadOptions(use_threads=options.threads > 1)
    return pa.ipc.open_stream(pa.PythonFile(_Checked(source, options), mode="r"), options=choices)


class _Pipe:
    """A source as a file for pyarrow, which takes a short read for the end."""

    closed = False

    def __init__(self, source: Source) -> None:
        self._source = source
        self._head = b""

    def is_empty(self) -> bool:
        """Whether there is not a single byte."""
        self._head = self._source.read(1)
        return not self._head

    def read(self, size: int) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head + read_exactly(self._source, size - len(head))

    def close(self) -> None:
        pass


class _Checked:
    """A stream, message after message: each is checked before pyarrow unpacks it."""

    closed = False

    def __init__(self, source: Any, options: ReadOptions) -> None:
        self._messages = pa.ipc.MessageReader.open_stream(pa.PythonFile(source, mode="r"))
        self._options = options
        self._parts: deque[memoryview] = deque()

    def read(self, size: int) -> bytes:
        """The next bytes; short only at the end."""
        out = []
        while size > 0 and (self._parts or self._next()):
            part = self._parts.popleft()
            out.append(part[:size])
            if len(part) > size:
                self._parts.appendleft(part[size:])
            size -= len(out[-1])
        return b"".join(out)

    def _next(self) -> bool:
        try:
            message = self._messages.read_next_message()
        except StopIteration:
            return False
        check_message(message, self._options)
        self._parts.append(memoryview(message.serialize()))
        return True

    def close(self) -> None:
        pass


class Writer(RecordWriter):
    """Writes records of one type as an Arrow stream."""

    prefix = "arrowio"

    def open_stream(self, sink: pa.NativeFile, schema: pa.Schema) -> Any:
        return pa.ipc.new_stream(sink, schema)
