"""The other process of `apart`: reads one file with pyarrow and sends its records as an Arrow stream.

It imports next to nothing of the package. It writes messages to standard output: pieces of the stream, and requests
for bytes of the file, which come back on standard input. What it takes is limited by the kernel.
"""

from __future__ import annotations

import io
import json
import os
import resource
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from shoal.lazy import lazy, load

if TYPE_CHECKING:
    from pyarrow import dataset, feather
else:
    dataset = lazy("pyarrow.dataset")
    feather = lazy("pyarrow.feather")

HEAD = struct.Struct("<cQQ")
"""A message: its kind and two numbers, the second of which is the length of what follows, but for `READ`."""
READ, PIECE, FAILED, END = b"r", b"p", b"f", b"e"
_BATCH_ROWS = 16_384
_CELL = 64
"""How much of the memory, in bytes, a cell of a batch may have."""
_PADDING = 1024
"""Bytes that Arrow may add to the buffers of a column."""
_MEMORY = Path("/proc/self/statm")
_ROOM = 64 << 20
"""What threads and libraries take for themselves."""


class _Wire:
    """The messages to and from the process that wants the records."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._answers, self._requests = answers, requests
        self._sending, self._asking = Lock(), Lock()

    def send(self, kind: bytes, data: bytes | memoryview = b"") -> None:
        """Send a message."""
        self._write(kind, 0, len(data), data)

    def ask(self, offset: int, size: int) -> bytes:
        """Bytes of the file, short only at its end."""
        with self._asking:  # pyarrow reads in threads of its own
            self._write(READ, offset, size)
            (length,) = struct.unpack("<Q", self._requests.read(8))
            return self._requests.read(length)

    def _write(self, kind: bytes, first: int, second: int, data: bytes | memoryview = b"") -> None:
        with self._sending:
            self._answers.write(HEAD.pack(kind, first, second))
            self._answers.write(data)
            self._answers.flush()


class _Remote(io.RawIOBase):
    """The file, whose bytes the other process has."""

    def __init__(self, wire: _Wire, size: int) -> None:
        self._wire, self._size, self._at = wire, size, 0

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._size - self._at)
        data = self._wire.ask(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _orc(file: Any, memory: int) -> Iterator[pa.RecordBatch]:
    """The rows of an ORC file, some at a time: a stripe may be very large."""
    fragment = dataset.OrcFileFormat().make_fragment(pa.PythonFile(file, mode="r"))
    rows = max(1, min(_BATCH_ROWS, memory // (_CELL * _leaves(fragment.physical_schema))))
    options = {"batch_size": rows, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
    scanner = dataset.Scanner.from_fragment(fragment, **options)
    yield from _with_schema(scanner.projected_schema, scanner.to_batches())


def _leaves(fields: Any) -> int:
    """The number of columns, those inside of others included."""
    types = [field.type for field in fields]
    return sum(1 + _leaves([typ.field(i) for i in range(typ.num_fields)]) for typ in types)


def _feather(file: Any, memory: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file of Feather version 1, whose columns are read as a whole, and as they are in the file.

    The reader believes the number of rows and the places of columns: it looks for them beyond the end of the file.
    """
    table = feather.read_table(file)
    table.validate(full=True)
    if table.get_total_buffer_size() > file.seek(0, io.SEEK_END) + _PADDING * table.num_columns:
        raise pa.ArrowInvalid("the columns are longer than the file")
    yield from _with_schema(table.schema, table.to_batches(_BATCH_ROWS))


def _with_schema(schema: pa.Schema, batches: Any) -> Iterator[pa.RecordBatch]:
    """At least one batch, so that a file without rows has its columns."""
    yield pa.RecordBatch.from_pylist([], schema)
    yield from batches


READERS: dict[str, Callable[[Any, int], Iterator[pa.RecordBatch]]] = {"orc": _orc, "feather": _feather}
"""How each format is read."""


def limit_memory(size: int) -> None:
    """Let the process have `size` bytes more than it has now. Only Linux limits all kinds of memory this way."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(FileNotFoundError):
        pages = int(_MEMORY.read_text().split()[5])
        limit = pages * resource.getpagesize() + size + _ROOM
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


class _NoPandas:
    """Lets pyarrow find no pandas: it would import it, which takes as long as all the rest."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Refuse to import pandas, and leave all else to others."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def main() -> None:
    """Read the file that the first line of standard input describes."""
    job = json.loads(sys.stdin.buffer.readline())
    wire = _Wire(sys.stdin.buffer, sys.stdout.buffer)
    warnings.simplefilter("ignore")
    sys.meta_path.insert(0, _NoPandas)
    load(dataset if job["format"] == "orc" else feather)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    limit_memory(job["memory"])
    try:
        _send(wire, READERS[job["format"]](_Remote(wire, job["size"]), job["memory"]))
        wire.send(END)
    except BrokenPipeError:
        pass  # nobody waits for it
    except Exception as e:
        wire.send(FAILED, f"{type(e).__name__}: {e}".encode(errors="replace")[:2000])


def _send(wire: _Wire, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, first.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            wire.send(PIECE, out.getbuffer())
            out.seek(0)
            out.truncate()
    wire.send(PIECE, out.getvalue())


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of pyarrow may be at work
