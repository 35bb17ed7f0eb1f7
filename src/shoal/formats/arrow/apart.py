"""Files that pyarrow reads in a process of its own: ORC, and version 1 of Feather.

Their C++ readers trust a file. A damaged one can end the process, and a small one can make them take any amount of
memory before the first row is there. So another process runs them, with a limit of its own, and asks for the bytes of
the file; its records come back as an Arrow stream, which is read like any other.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput, StorageFailure
from shoal.formats.arrow import apart_child, files, stream
from shoal.formats.arrow.apart_child import END, FAILED, HEAD, PIECE, READ
from shoal.formats.columns.batches import Batch
from shoal.formats.limits import RAISE_MEMORY, value_memory
from shoal.formats.metering import give
from shoal.formats.streams import Source, peekable, read_exactly
from shoal.model.values import Value

_ENVIRONMENT = {
    # The limit counts what is mapped: nothing is mapped in advance, and what is freed is unmapped.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
}
_OUT_OF_MEMORY = ("MemoryError", "ArrowMemoryError", "bad_alloc")


def read_orc(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of an ORC file."""
    yield from _values(source, read_orc_columns(source, options))


def read_orc_columns(source: Source, options: ReadOptions) -> Iterator[Batch]:
    """The records of an ORC file in columns."""
    return _read("orc", source, options)


def read_feather(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of a Feather file of either version."""
    yield from _values(source, read_feather_columns(source, options))


def read_feather_columns(source: Source, options: ReadOptions) -> Iterator[Batch]:
    """The records of a Feather file of either version, in columns."""
    if source.seekable() and peekable(source).peek(len(files.MAGIC)) == files.MAGIC:
        return files.read_columns(source, options)
    return _read("feather", source, options)


def _values(source: Source, batches: Iterator[Batch]) -> Iterator[Value]:
    for batch in batches:
        give(source, batch.nbytes)
        yield from batch.values()


def _read(name: str, source: Source, options: ReadOptions) -> Iterator[Batch]:
    if not source.seekable():
        raise InvalidInput(f"{name} requires a seekable input")
    process = _started(name)
    try:
        yield from stream.read_columns(_Stream(name, process, source, options), options)
    except InvalidInput as e:
        text = str(e).removeprefix("arrows: ")
        raise type(e)(f"{name}: {text}") if text != str(e) else e from None
    finally:
        process.kill()
        with suppress(OSError):
            process.communicate()


def _started(name: str) -> subprocess.Popen[bytes]:
    """The other process. It imports from where this one does, and nowhere else."""
    path = os.pathsep.join(filter(None, sys.path))
    try:
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", apart_child.__name__],
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as e:
        raise StorageFailure(f"{name}: cannot start a process to read it: {e.strerror}") from None


class _Stream(io.RawIOBase):
    """The Arrow stream that the other process makes of a file; its requests are answered while it is read."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], source: Source, options: ReadOptions) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._name, self._source = name, source
        self._requests, self._answers = process.stdin, process.stdout
        self._memory = value_memory(options)
        self._left = 0
        """Bytes of a piece that are still to be read."""
        self._is_over = False
        job = {"format": name, "size": source.seek(0, io.SEEK_END), "memory": self._memory}
        self._send(json.dumps(job).encode() + b"\n")

    def read(self, size: int = -1, /) -> bytes:
        while not self._left and not self._is_over:
            self._take_message()
        data = self._answers.read(min(size, self._left)) if self._left else b""
        if self._left and not data:
            raise self._died()
        self._left -= len(data)
        return data

    def _take_message(self) -> None:
        head = self._answers.read(HEAD.size)
        if len(head) < HEAD.size:
            raise self._died()
        kind, first, second = HEAD.unpack(head)
        if kind == READ:
            self._source.seek(first)
            data = read_exactly(self._source, second)
            self._send(struct.pack("<Q", len(data)) + data)
        elif kind == PIECE:
            self._left = second
        elif kind == FAILED:
            raise self._failed(self._answers.read(second).decode(errors="replace"))
        else:
            self._is_over = kind == END

    def _send(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # it says why, or it is gone
            self._requests.write(data)
            self._requests.flush()

    def _failed(self, text: str) -> InvalidInput:
        kind, _, message = text.replace("Could not open ORC input source '<Buffer>': ", "").partition(": ")
        if any(word in text for word in _OUT_OF_MEMORY):
            return InvalidInput(f"{self._name}: {self._limit}")
        if "Unknown error" in text:  # of a library that got no memory
            return self._died()
        return InvalidInput(f"{self._name}: {' '.join(message.split()) or kind}")

    def _died(self) -> InvalidInput:
        return InvalidInput(f"{self._name}: the file is damaged, or {self._limit}")

    @property
    def _limit(self) -> str:
        size = f"{self._memory / MIB:g} MiB of memory, half of the limit"
        return f"reading it takes more than {size} {RAISE_MEMORY}"
