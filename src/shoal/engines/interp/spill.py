"""Values on disk while there are too many of them for memory, in one temporary folder; a list and a queue of values.

The files never leave the process: types stay in memory and rows are marshalled by the thousand,
which is several times as fast as a format that others could read. Every value is measured, since one may be as large as
a million others.
"""

from __future__ import annotations

import heapq
import marshal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from shoal.engines.stopping import NEVER, Stop
from shoal.engines.temporary_folders import TemporaryFolder
from shoal.errors import StorageFailure
from shoal.model import types as t
from shoal.model.extent import size_of
from shoal.model.values import Value
from shoal.model.zcode import decode, encode

VALUE_OVERHEAD = 96
"""What a value costs in memory beside its data, roughly."""
BLOCK = 1000
"""How many values are written at once, at most."""
BLOCK_BYTES = 1 << 20
"""The size of the values from which on they are written."""
MOST_RUNS = 64
"""How many files are merged at once: each needs an open file and a block in memory."""


class Workspace:
    """A temporary folder that appears with its first file and goes away with `close`."""

    def __init__(self, stop: Stop = NEVER) -> None:
        self._folder: TemporaryFolder | None = None
        self._names = count(1)
        self._stop = stop
        self._size = 0
        self.files: set[SpillFile] = set()
        """Those that may have to be closed."""

    def grow(self, size: int) -> None:
        """Account for bytes that are written, or removed if negative. Fails beyond the limit of the work."""
        self._size += size
        if self._stop.disk is not None and self._size > self._stop.disk:
            raise self._stop.out_of_disk()

    def new_file(self) -> Path:
        """The path of a file that does not exist yet."""
        if self._folder is None:
            self._folder = TemporaryFolder()
        return self._folder.path / str(next(self._names))

    def close(self) -> None:
        """Remove all files."""
        for file in self.files:
            file.abandon()
        self.files.clear()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None


class SpillFile:
    """A sequence of values in a file: first written, then read, as often as needed."""

    def __init__(self, workspace: Workspace, values: Iterable[Value] = ()) -> None:
        self.count = 0
        self._types: list[t.Type] = []
        self._places: dict[t.Type, int] = {}
        self._rows: list[tuple[int, Any]] = []
        self._waiting = self._written = 0
        self._workspace = workspace
        self._path = workspace.new_file()
        self._out: BinaryIO | None = _open(self._path, "wb")
        workspace.files.add(self)
        for value in values:
            self.append(value)

    def append(self, value: Value) -> None:
        """Write one more value."""
        index = self._places.get(value.type)
        if index is None:
            index = self._places[value.type] = len(self._types)
            self._types.append(value.type)
        self._rows.append((index, value.data))
        self.count += 1
        self._waiting += size_of(value)
        if len(self._rows) >= BLOCK or self._waiting >= BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows and self._out is not None:
            block = self._block()
            self._workspace.grow(len(block))
            self._written += len(block)
            with _named(self._path):
                self._out.write(block)
            self._rows, self._waiting = [], 0

    def _block(self) -> bytes:
        """The waiting rows. Data that holds types cannot be marshalled, and goes in binary form."""
        try:
            body, is_plain = marshal.dumps(self._rows), b"\1"
        except ValueError:
            body, is_plain = marshal.dumps([(i, encode(self._types[i], data)) for i, data in self._rows]), b"\0"
        return len(body).to_bytes(8, "little") + is_plain + body

    def seal(self) -> SpillFile:
        """End writing."""
        if self._out is not None:
            self._flush()
            out, self._out = self._out, None
            with _named(self._path):
                out.close()
        return self

    def __iter__(self) -> Iterator[Value]:
        self.seal()
        types = self._types
        with _open(self._path, "rb") as stream:
            while head := stream.read(9):
                rows = marshal.loads(stream.read(int.from_bytes(head[:8], "little")))  # noqa: S302 - our own file
                is_plain = head[8]
                for i, data in rows:
                    yield Value(types[i], data if is_plain else decode(types[i], data))

    def remove(self) -> None:
        """Give the disk space back."""
        self.abandon()
        self._workspace.files.discard(self)
        self._workspace.grow(-self._written)
        self._written = 0
        self._path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Stop writing; what was not written yet is of no use any more."""
        out, self._out, self._rows = self._out, None, []
        if out is not None:
            with suppress(OSError):
                out.close()


def _open(path: Path, mode: str) -> BinaryIO:
    with _named(path):
        return path.open(mode)  # type: ignore[return-value]


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Failures of the disk as errors of ours."""
    try:
        yield
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None


def estimate(value: Value) -> int:
    """Roughly how many bytes of memory a value takes."""
    return VALUE_OVERHEAD + size_of(value)


class Room:
    """How much memory is left."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit

    def take(self, value: Value) -> bool:
        """Account for a value; whether memory is now full."""
        self.left -= VALUE_OVERHEAD + size_of(value)
        return self.left <= 0

    def keep(self, values: Iterable[Value]) -> bool:
        """Start over with these values alone; whether memory is full by them."""
        self.left = self.limit - sum(map(estimate, values))
        return self.left <= 0

    def reset(self) -> None:
        """Drop all values and start over."""
        self.left = self.limit


def merge_runs(
    runs: list[SpillFile], key: Callable[[Value], Any], workspace: Workspace, stop: Stop = NEVER
) -> Iterator[Value]:
    """Sorted files as one stream, some of them at a time; equal values in the order of their files."""
    while len(runs) > MOST_RUNS:
        some, runs = runs[:MOST_RUNS], runs[MOST_RUNS:]
        merged = SpillFile(workspace, stop.checked(heapq.merge(*some, key=key))).seal()
        for run in some:
            run.remove()
        runs.insert(0, merged)
    yield from stop.checked(heapq.merge(*runs, key=key))
    for run in runs:
        run.remove()


QUEUE_LENGTH = 50_000
"""How many values a queue keeps in memory at either end, at most."""


class SpillingList:
    """A growing list that can be read again and again."""

    def __init__(self, workspace: Workspace, limit: int) -> None:
        self._workspace = workspace
        self._room = Room(limit)
        self._values: list[Value] = []
        self._file: SpillFile | None = None

    def __len__(self) -> int:
        return len(self._values) if self._file is None else self._file.count

    def append(self, value: Value) -> None:
        """Add a value."""
        if self._file is not None:
            self._file.append(value)
            return
        self._values.append(value)
        if self._room.take(value):
            self._file = SpillFile(self._workspace, self._values)
            self._values = []

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values) if self._file is None else iter(self._file)

    def remove(self) -> None:
        """Give memory and disk space back."""
        self._values = []
        if self._file is not None:
            self._file.remove()


class SpillingQueue:
    """First in, first out. What is beyond a length waits in files, of which one is read and one is written."""

    def __init__(self, workspace: Workspace, limit: int = 1 << 62) -> None:
        self._workspace = workspace
        self._room = Room(limit)
        self._front: deque[Value] = deque()
        self._files: deque[SpillFile] = deque()
        self._reading: Iterator[Value] | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, value: Value) -> None:
        """Add a value at the end."""
        self._count += 1
        if not self._files and len(self._front) < QUEUE_LENGTH and self._room.left > 0:
            self._front.append(value)
            self._room.take(value)
            return
        if not self._files or self._files[-1].count >= QUEUE_LENGTH or self._is_read(self._files[-1]):
            self._files.append(SpillFile(self._workspace))
        self._files[-1].append(value)

    def _is_read(self, file: SpillFile) -> bool:
        return self._reading is not None and file is self._files[0]

    def pop(self) -> Value:
        """Take the first value; the queue must not be empty."""
        self._count -= 1
        if self._front:
            value = self._front.popleft()
            if not self._front:
                self._room.reset()
            return value
        while True:
            if self._reading is None:
                self._reading = iter(self._files[0])
            for value in self._reading:
                return value
            self._files.popleft().remove()
            self._reading = None

    def clear(self) -> None:
        """Forget everything."""
        self._front.clear()
        self._room.reset()
        for file in self._files:
            file.remove()
        self._files.clear()
        self._reading = None
        self._count = 0
