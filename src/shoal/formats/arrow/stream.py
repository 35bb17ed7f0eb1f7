"""The Arrow IPC stream. Empty input is a stream of no records, which is what writing none makes.

`arrow.reader` and `arrow.writer` map the types, for Parquet as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from shoal.api.options import ReadOptions
from shoal.formats.arrow.reader import batches, refusing
from shoal.formats.arrow.writer import RecordWriter
from shoal.formats.columns.batches import Batch
from shoal.formats.streams import Source, read_exactly
from shoal.model.values import Value

_NAME = "arrows"


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of a stream."""
    for batch in read_columns(source, options):
        yield from batch.values()


def read_columns(source: Source, options: ReadOptions) -> Iterator[Batch]:
    """The records of a stream in columns."""
    pipe = _Pipe(source)
    if pipe.is_empty():
        return
    with refusing(_NAME):
        choices = pa.ipc.IpcReadOptions(use_threads=options.threads > 1)
        for batch in pa.ipc.open_stream(pa.PythonFile(pipe, mode="r"), options=choices):
            yield from batches(batch)


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


class Writer(RecordWriter):
    """Writes records of one type as an Arrow stream."""

    prefix = "arrowio"

    def open_stream(self, sink: pa.NativeFile, schema: pa.Schema) -> Any:
        return pa.ipc.new_stream(sink, schema)
