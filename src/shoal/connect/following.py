"""Follows an input that grows, a file or standard input, and loads it batch by batch, each as one commit.

A batch is some whole lines. With an id, each commit says in its metadata how many bytes of the input are loaded:

    {follow: {id: "web-1", position: 81920, head: 2868963459}}

So a process that starts again goes on after the last commit, wherever it was stopped. `head` is a checksum of the first
bytes, which tells another file of the same name from the one that was followed. The operation of a commit is made of
the id and the position that the batch begins at: two processes with one id cannot load a batch twice.
"""

from __future__ import annotations

import io
import os
import select
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol

from shoal.api.branch import Branch
from shoal.api.options import ReadOptions
from shoal.api.requests import NoteArgs
from shoal.errors import Conflict, InvalidInput, NotFound, StorageFailure
from shoal.formats.detect import detect
from shoal.ids import derived, to_text
from shoal.model import types as t
from shoal.model.fields import get_or
from shoal.model.node import frozen
from shoal.model.values import Value

FORMATS = ("ndjson", "json", "zson", "zjson", "line", "csv", "tsv")
"""Those of which whole lines can be read alone; tables have their header in front of each batch."""
_TABLES = ("csv", "tsv")
_BLOCK = 1 << 20
_HEAD = 4096
_LONGEST = 256 << 20
"""Bytes of a line; an input without line ends would fill the memory."""
_POLL = 0.1
_META = t.record((("follow", t.record((("id", t.STRING), ("position", t.INT64), ("head", t.INT64)))),))


@frozen
class Limits:
    """When a batch ends: as soon as one of these is reached."""

    seconds: float = 1.0
    lines: int = 100_000
    size: int = 8 << 20


class Input(Protocol):
    """Something that grows."""

    name: str

    def read(self, wait: float) -> bytes | None:
        """What has come; empty if nothing came in that time; None at the end."""

    def skip_to(self, position: int) -> None:
        """Go on at a position behind what was read."""

    def close(self) -> None:
        """Read no more."""


class GrowingFile:
    """A file that others append to. It has no end."""

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - open as long as it is followed
        except FileNotFoundError:
            raise NotFound(f"{path}: file does not exist") from None
        except OSError as e:
            raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None

    def read(self, wait: float) -> bytes:
        data = self._file.read(_BLOCK)
        if not data:
            self._require_same()
            time.sleep(wait)
        return data

    def skip_to(self, position: int) -> None:
        if os.fstat(self._file.fileno()).st_size < position:
            raise InvalidInput(f"{self.name}: shorter than what was loaded of it, {position} bytes ({_ANOTHER})")
        self._file.seek(position)

    def close(self) -> None:
        self._file.close()

    def _require_same(self) -> None:
        """A file that was truncated or replaced, as log rotation does, is not the one that was followed."""
        status = os.fstat(self._file.fileno())
        try:
            is_same = os.path.samestat(status, os.stat(self.name))
        except FileNotFoundError:
            is_same = False
        if not is_same or status.st_size < self._file.tell():
            raise InvalidInput(f"{self.name}: was replaced or truncated; all of it up to then is loaded ({_ANOTHER})")


class Pipe:
    """Standard input, or another stream that ends."""

    def __init__(self, file: int, name: str = "stdio:stdin") -> None:
        self._file, self.name, self._position = file, name, 0

    def read(self, wait: float) -> bytes | None:
        ready, _, _ = select.select([self._file], [], [], wait)
        return (self._take(_BLOCK) or None) if ready else b""

    def skip_to(self, position: int) -> None:
        while self._position < position:
            if not self._take(min(position - self._position, _BLOCK)):
                raise InvalidInput(f"{self.name}: shorter than what was loaded of it, {position} bytes ({_ANOTHER})")

    def close(self) -> None:
        """Leave it open: it belongs to the process."""

    def _take(self, most: int) -> bytes:
        data = os.read(self._file, most)
        self._position += len(data)
        return data


_ANOTHER = "follow a new input with another -id"


@frozen
class Batch:
    """Some whole lines of an input."""

    start: int
    """The position of the first byte."""
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def follow(
    branch: Branch,
    source: Input,
    limits: Limits,
    is_over: Callable[[], bool],
    *,
    ident: str | None = None,
    format_name: str = "auto",
    options: ReadOptions = ReadOptions(),
    note: NoteArgs | None = None,
) -> Iterator[str]:
    """Load an input as it grows, until it ends or is over; gives the id of each commit once it is made."""
    with closing(source):
        if format_name not in ("auto", *FORMATS):
            raise InvalidInput(f"format {format_name} cannot be followed (one of: {', '.join(FORMATS)})")
        head = _first_line(source, is_over)
        if head is None:
            _Loaded(branch, ident, zlib.crc32(b"")).position(source.name)  # it may have been truncated
            return
        name = _detected(head, options) if format_name == "auto" else format_name
        first = head[: head.find(b"\n") + 1 or None]
        header = first if name in _TABLES else b""
        loaded = _Loaded(branch, ident, zlib.crc32(first[:_HEAD]))
        start = max(loaded.position(source.name), len(header))
        if start > len(head):
            source.skip_to(start)
        for batch in batches(source, limits, is_over, start, head[start:], is_table=bool(header)):
            yield loaded.load(batch, header, name, options, note or {})


def batches(
    source: Input, limits: Limits, is_over: Callable[[], bool], start: int, rest: bytes = b"", is_table: bool = False
) -> Iterator[Batch]:
    """Whole lines of an input from a position on. The last line of one that ends needs no line end."""
    waiting, began = bytearray(rest), time.monotonic()
    while True:
        piece = source.read(min(_POLL, limits.seconds))
        if not waiting:
            began = time.monotonic()
        waiting += piece or b""
        has_ended = piece is None
        is_last = has_ended or is_over()
        end = len(waiting) if has_ended else _end_of_lines(waiting, is_table)
        if end and (is_last or _is_due(waiting, limits, began)):
            yield Batch(start, bytes(waiting[:end]))
            start, began = start + end, time.monotonic()
            del waiting[:end]
        if is_last:
            return
        if len(waiting) > max(_LONGEST, limits.size):
            raise InvalidInput(f"{source.name}: a line is longer than {_LONGEST >> 20} MiB (follow an input of lines)")


def _is_due(waiting: bytearray, limits: Limits, began: float) -> bool:
    is_late = time.monotonic() - began >= limits.seconds
    return is_late or len(waiting) >= limits.size or waiting.count(b"\n") >= limits.lines


def _end_of_lines(data: bytearray, is_table: bool) -> int:
    """Where the last whole line ends. In a table, a line end between quotes does not end one."""
    end = data.rfind(b"\n") + 1
    while is_table and end and data.count(b'"', 0, end) % 2:
        end = data.rfind(b"\n", 0, end - 1) + 1
    return end


def _first_line(source: Input, is_over: Callable[[], bool]) -> bytes | None:
    """The beginning of an input, with at least its first line; None if it ends without anything."""
    head = b""
    while b"\n" not in head:
        piece = source.read(_POLL)
        if piece is None or (is_over() and not piece):
            return head or None
        head += piece
        if len(head) > _LONGEST:
            raise InvalidInput(f"{source.name}: its first line is longer than {_LONGEST >> 20} MiB")
    return head


def _detected(head: bytes, options: ReadOptions) -> str:
    name = detect(io.BytesIO(head[: head.rfind(b"\n") + 1] or head), options)[0].name
    if name not in FORMATS:
        raise InvalidInput(f"an input of format {name} cannot be followed (one of: {', '.join(FORMATS)})")
    return name


@frozen
class _Loaded:
    """What a branch has of an input."""

    branch: Branch
    ident: str | None
    head: int
    """A checksum of the beginning of the input."""

    def position(self, name: str) -> int:
        """How much is loaded, by the last commit that says so."""
        for commit in self.branch.log() if self.ident is not None else ():
            place = _place(commit.meta)
            if place is not None and place[0] == self.ident:
                if place[2] != self.head:
                    raise InvalidInput(f"{name}: is not the input that was followed as {self.ident} ({_ANOTHER})")
                return place[1]
        return 0

    def load(self, batch: Batch, header: bytes, format_name: str, options: ReadOptions, note: NoteArgs) -> str:
        """Load a batch; the id of its commit."""
        data = header + batch.data
        if self.ident is None:
            return self.branch.load(data, format=format_name, options=options, **note)
        op = to_text(derived("follow", self.ident, str(self.head), str(batch.start)))
        meta = Value(_META, ((self.ident, batch.end, self.head),))
        note = NoteArgs(author=note.get("author"), message=note.get("message", ""), meta=meta)
        commit = self.branch.load(data, format=format_name, options=options, op=op, **note)
        (landed,) = self.branch.log(commit, limit=1)
        if _place(landed.meta) != (self.ident, batch.end, self.head):
            raise Conflict(f"another process follows {self.ident} (end it, or use another -id)")
        return commit


def _place(meta: Value) -> tuple[str, int, int] | None:
    """The id, position and checksum in the metadata of a commit; None if it has none."""
    if not isinstance(meta.type.under, t.Record) or meta.data is None:
        return None
    place = get_or(meta, "follow", None)
    return place if isinstance(place, tuple) and len(place) == 3 else None
