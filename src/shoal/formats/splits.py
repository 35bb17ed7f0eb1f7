"""Parts of large files that can be read apart: lines between two places, and row groups.

A part has the lines that begin in it. Where a line end is inside of a value the part before it cannot be read to its
end, which is an error: then the file has to be read whole.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

from shoal.api.options import ReadOptions
from shoal.formats import registry
from shoal.formats.compression import unwrap
from shoal.formats.detect import detect
from shoal.formats.files import Piece, read_pieces
from shoal.formats.streams import Source

_BY_LINES = frozenset(("json", "ndjson", "csv", "tsv", "line"))
_WITH_HEADER = frozenset(("csv", "tsv"))
_LONGEST_HEADER = 1 << 20
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file; without an end it is the whole file."""

    format_name: str
    start: int = 0
    end: int | None = None
    """Bytes of lines, or numbers of row groups."""
    header: bytes = b""
    """What has to be read before the lines of any part but the first."""

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the file."""
        return self.end is None


def split(source: Source, format_name: str, options: ReadOptions, size: int) -> list[Split]:
    """Parts of about so many bytes of an open file; one, if it cannot be parted."""
    whole = [Split(format_name)]
    if not source.seekable():
        return whole
    length = source.seek(0, io.SEEK_END)
    source.seek(0)
    if length <= size:
        return whole
    plain = unwrap(source)
    if not plain.seekable():
        return whole  # compressed
    found = registry.by_name(format_name) if format_name != "auto" else detect(plain, options)[0]
    source.seek(0)
    if found.name == "parquet":
        return _row_groups(source, size)
    if found.name not in _BY_LINES:
        return [Split(found.name)]
    header = _header(source) if found.name in _WITH_HEADER else b""
    if header is None:
        return [Split(found.name)]
    rest = length - len(header)
    count = -(-rest // size)
    edges = [0, *(len(header) + rest * i // count for i in range(1, count + 1))]
    return [Split(found.name, start, end, header if start else b"") for start, end in pairwise(edges)]


def _header(source: Source) -> bytes | None:
    """The first line of a table; None if it is not for sure all of the header."""
    head = source.read(_LONGEST_HEADER)
    line, end, _ = head.partition(b"\n")
    return line + end if end and b'"' not in line and line.strip() else None


def _row_groups(source: Source, size: int) -> list[Split]:
    made: list[Split] = []
    start = held = 0
    sizes = _parquet().group_sizes(source)
    for place, group in enumerate(sizes):
        held += group
        if held >= size or place == len(sizes) - 1:
            made.append(Split("parquet", start, place + 1))
            start, held = place + 1, 0
    return made if len(made) > 1 else [Split("parquet")]


def _parquet() -> Any:
    return import_module("shoal.formats.parquet")


# ---- reading


def read_split(source: Source, part: Split, options: ReadOptions) -> Iterator[Piece]:
    """What is in a part of an open file."""
    if part.end is None:
        return read_pieces(source, part.format_name, options)
    if part.format_name == "parquet":
        groups: Iterator[Piece] = _parquet().read_columns(source, options, range(part.start, part.end))
        return groups
    begin, end = _line_start(source, part.start), _line_start(source, part.end)
    if begin >= end:
        return iter(())  # a line that is longer than the part, and belongs to the one before
    return read_pieces(_Window(source, begin, end, part.header), part.format_name, options)


def _line_start(source: Source, place: int) -> int:
    """Where the first line begins that does not begin before a place."""
    if not place:
        return 0
    at = place - 1
    source.seek(at)
    while block := source.read(_BLOCK):
        found = block.find(b"\n") + 1
        if found:
            return at + found
        at += len(block)
    return at


class _Window(io.RawIOBase):
    """Bytes of an open file between two places, after some others."""

    def __init__(self, source: Source, begin: int, end: int, header: bytes) -> None:
        source.seek(begin)
        self._source, self._left, self._header = source, end - begin, header

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
