"""Parts of large files that are read separately: lines between two offsets, or row groups.

A part has the lines that begin in it. Where a line end is inside of a value, the part before it cannot be read to its
end, which is an error: then the file has to be read whole.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from shoal.api.options import ReadOptions
from shoal.formats import registry
from shoal.formats.compression import beginning, is_compressed
from shoal.formats.detect import open_plain, read_pieces
from shoal.formats.metering import Meter
from shoal.formats.registry import Groups
from shoal.formats.streams import Source, peekable
from shoal.model.node import frozen

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece

_LONGEST_HEADER = 1 << 20
_BLOCK = 1 << 16


@frozen
class Split:
    """A part of a file; without an end it is the whole file."""

    format_name: str
    start: int = 0
    end: int | None = None
    """Offsets of bytes in a file of lines, or numbers of groups."""
    header: bytes = b""
    """What has to be read before the lines of any part but the first."""

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the file."""
        return self.end is None


def split(source: Source, format_name: str, options: ReadOptions, size: int) -> list[Split]:
    """Parts of about `size` bytes of an open file; a single one if it cannot be split."""
    if not source.seekable():
        return [Split(format_name)]
    length = source.seek(0, io.SEEK_END)
    source.seek(0)
    if length <= size:
        return [Split(format_name)]
    if is_compressed(beginning(peekable(source))):
        return [Split(format_name)]
    entry, text = open_plain(source, format_name, options)
    if not text.seekable():
        return [Split(format_name)]  # text in another encoding
    source.seek(0)
    if isinstance(entry.splits, Groups):
        return _group_splits(entry.name, entry.splits.sizes(source), size)
    header = _header(source) if entry.splits is not None and entry.splits.has_header else b""
    if entry.splits is None or header is None:
        return [Split(entry.name)]
    rest = length - len(header)
    count = -(-rest // size)
    edges = [0, *(len(header) + rest * i // count for i in range(1, count + 1))]
    return [Split(entry.name, start, end, header if start else b"") for start, end in pairwise(edges)]


def _header(source: Source) -> bytes | None:
    """The first line of a table; None if the header may be longer."""
    head = source.read(_LONGEST_HEADER)
    line, end, _ = head.partition(b"\n")
    return line + end if end and b'"' not in line and line.strip() else None


def _group_splits(format_name: str, sizes: list[int], size: int) -> list[Split]:
    splits: list[Split] = []
    start = pending = 0
    for number, group in enumerate(sizes):
        pending += group
        if pending >= size or number == len(sizes) - 1:
            splits.append(Split(format_name, start, number + 1))
            start, pending = number + 1, 0
    return splits if len(splits) > 1 else [Split(format_name)]


# ---- reading


def read_split(source: Source, part: Split, options: ReadOptions) -> Iterator[Piece]:
    """What is in a part of an open file."""
    if part.end is None:
        return read_pieces(source, part.format_name, options)
    splits = registry.by_name(part.format_name).splits
    if isinstance(splits, Groups):
        meter = Meter(source, options)
        return meter.pieces(splits.read(meter, options, range(part.start, part.end)))
    start, end = _line_start(source, part.start), _line_start(source, part.end)
    if start >= end:
        return iter(())  # a line that is longer than the part, and belongs to the one before
    return read_pieces(_Window(source, start, end, part.header), part.format_name, options)


def _line_start(source: Source, offset: int) -> int:
    """The start of the first line that does not begin before an offset."""
    if not offset:
        return 0
    at = offset - 1
    source.seek(at)
    while block := source.read(_BLOCK):
        start = block.find(b"\n") + 1
        if start:
            return at + start
        at += len(block)
    return at


class _Window(io.RawIOBase):
    """A header, and then the bytes of an open file between two offsets."""

    def __init__(self, source: Source, start: int, end: int, header: bytes) -> None:
        source.seek(start)
        self._source, self._left, self._header = source, end - start, header

    def read(self, size: int = -1, /) -> bytes:
        if self._header:
            size = len(self._header) if size < 0 else size
            out, self._header = self._header[:size], self._header[size:]
            return out
        data = self._source.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data

    def seekable(self) -> bool:
        return False
