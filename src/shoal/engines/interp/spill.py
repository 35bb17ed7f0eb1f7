"""Values on disk while there are too many of them for memory: plain ZNG files in one temporary folder."""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from shoal.formats import zng
from shoal.model.values import Value

VALUE_OVERHEAD = 96
"""What a value costs in memory beside its data, roughly."""


class Workspace:
    """A temporary folder that appears with its first file and goes away with `close`."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._names = count(1)

    def new_file(self) -> Path:
        """The path of a file that does not exist yet."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="shoal-spill-"))
        return self._folder / f"{next(self._names)}.zng"

    def close(self) -> None:
        """Remove all files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class SpillFile:
    """A sequence of values in a file: first written, then read, as often as needed."""

    def __init__(self, workspace: Workspace, values: Iterable[Value] = ()) -> None:
        self.path = workspace.new_file()
        self.count = 0
        self._stream = self.path.open("wb")
        self._writer = zng.Writer(self._stream)
        for value in values:
            self.append(value)

    def append(self, value: Value) -> None:
        """Write one more value."""
        self._writer.write(value)
        self.count += 1

    def seal(self) -> SpillFile:
        """End writing."""
        if not self._stream.closed:
            self._writer.close()
            self._stream.close()
        return self

    def __iter__(self) -> Iterator[Value]:
        self.seal()
        with self.path.open("rb") as stream:
            yield from zng.read(stream)

    def remove(self) -> None:
        """Give the disk space back."""
        self.seal()
        self.path.unlink(missing_ok=True)


def estimate(value: Value) -> int:
    """Roughly how many bytes of memory a value takes."""
    return VALUE_OVERHEAD + _data_size(value.data)


def _data_size(data: Any) -> int:
    if data is None or isinstance(data, int | float):
        return 32
    if isinstance(data, str | bytes):
        return 56 + len(data)
    if isinstance(data, tuple):
        return 64 + sum(map(_data_size, data))
    return 64


class Room:
    """How much memory is left. Only some values are measured; the others are taken to be like them."""

    __slots__ = ("_count", "_size", "left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit
        self._count = self._size = 0

    def take(self, value: Value) -> bool:
        """Account for a value; whether memory is now full."""
        if not self._count & 15:
            self._size = estimate(value)
        self._count += 1
        self.left -= self._size
        return self.left <= 0

    def reset(self) -> None:
        """Start anew: what was held is gone."""
        self.left = self.limit


def merge_sorted(runs: Iterable[Iterable[Value]], key: Callable[[Value], Any]) -> Iterator[Value]:
    """Sorted runs as one; equal values in the order of their runs."""
    return heapq.merge(*runs, key=key)
