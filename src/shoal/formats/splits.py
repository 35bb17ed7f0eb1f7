"""Parts of large files that are read separately: lines between two offsets, or row groups.

A part has the lines that begin in it. Where a line end is inside of a value, the part before it cannot be read to its
end, which is an error: then the file has to be read whole. If something about a part depends on the others, such as the
types of the columns of a table or the number of its first line, all of them are surveyed before one is read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from shoal.api.options import ReadOptions
from shoal.formats import registry
from shoal.formats.compression import beginning, is_compressed
from shoal.formats.detect import open_plain, read_pieces
from shoal.formats.metering import Meter
from shoal.formats.registry import Groups, Lines
from shoal.formats.streams import WHOLE, Place, Source, peekable
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece
    from shoal.formats.csv import parts as csv_parts
    from shoal.formats.csv.tables import TableGuess
else:
    csv_parts = lazy("shoal.formats.csv.parts")

_BLOCK = 1 << 16


@frozen
class Split:
    """A part of a file; without an end it is the whole file."""

    format_name: str
    start: int = 0
    end: int | None = None
    """Offsets of bytes in a file of lines, or numbers of groups."""
    options: ReadOptions | None = None
    """How a part of a table is read, without the lines before it."""
    first_line: int = 1
    """The number of its first line, if it was surveyed."""

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
    match entry.splits:
        case None:
            return [Split(entry.name)]
        case Groups() as groups:
            return _group_splits(entry.name, groups.sizes(source), size)
        case Lines() as lines:
            first = _first_split(entry.name, lines, source, options)
            return [Split(entry.name)] if first is None else _line_splits(first, length, size)


def _first_split(format_name: str, lines: Lines, source: Source, options: ReadOptions) -> Split | None:
    """What is known of the first part of a file, and of the others; None if it cannot be split."""
    if lines.header is None:
        return Split(format_name)
    header = lines.header(source, options)
    if header is None:
        return None
    return Split(format_name, header.size, options=header.options, first_line=header.lines + 1)


def _line_splits(first: Split, length: int, size: int) -> list[Split]:
    """Parts of lines, from the beginning of the first one to the end of the file."""
    rest = length - first.start
    count = max(1, -(-rest // size))
    edges = [first.start + rest * i // count for i in range(count + 1)]
    return [replace(first, start=start, end=end) for start, end in pairwise(edges)]


def _group_splits(format_name: str, sizes: list[int], size: int) -> list[Split]:
    splits: list[Split] = []
    start = pending = 0
    for number, group in enumerate(sizes):
        pending += group
        if pending >= size or number == len(sizes) - 1:
            splits.append(Split(format_name, start, number + 1))
            start, pending = number + 1, 0
    return splits if len(splits) > 1 else [Split(format_name)]


# ---- what the parts of a file have to know about each other


@frozen
class Survey:
    """What the others have to know about a part."""

    lines: int
    table: TableGuess | None = None
    """For a table: what its cells say about the columns."""


def needs_survey(part: Split, options: ReadOptions) -> bool:
    """Whether the parts of a file have to be surveyed before one of them is read."""
    splits = registry.by_name(part.format_name).splits if part.end is not None else None
    return isinstance(splits, Lines) and (options.bad == "keep" or _has_unknown_types(part))


def _has_unknown_types(part: Split) -> bool:
    return part.options is not None and csv_parts.needs_survey(part.options)


def survey_split(source: Source, part: Split, options: ReadOptions) -> Survey:
    """What the others have to know about a part. InvalidInput if it cannot be read by itself."""
    entry = registry.by_name(part.format_name)
    options = part.options or options
    window = _window(source, part)
    if isinstance(entry.splits, Lines) and entry.splits.survey is not None and _has_unknown_types(part):
        meter = Meter(window, options, entry.growth, Place(line=part.first_line, is_part=True))
        table = entry.splits.survey(meter, options)
        return Survey(table.lines, table)
    return Survey(sum(block.count(b"\n") for block in iter(lambda: window.read(_BLOCK), b"")))


def surveyed(parts: Sequence[Split], surveys: Sequence[Survey]) -> list[Split]:
    """The parts of a file with all that they have to know about each other."""
    tables = [survey.table for survey in surveys if survey.table is not None]
    options = parts[0].options
    if options is not None and tables:
        for table in tables[1:]:
            tables[0].join(table)
        options = csv_parts.with_types(options, tables[0])
    lines = accumulate((survey.lines for survey in surveys), initial=parts[0].first_line)
    return [replace(part, options=options, first_line=line) for part, line in zip(parts, lines, strict=False)]


# ---- reading


def read_split(source: Source, part: Split, options: ReadOptions, place: Place = WHOLE) -> Iterator[Piece]:
    """What is in a part of an open file."""
    if part.end is None:
        return read_pieces(source, part.format_name, options, place)
    splits = registry.by_name(part.format_name).splits
    if isinstance(splits, Groups):
        meter = Meter(source, options)
        return meter.pieces(splits.read(meter, options, range(part.start, part.end)))
    place = Place(place.file, part.first_line, is_part=True)
    return read_pieces(_window(source, part), part.format_name, part.options or options, place)


def _window(source: Source, part: Split) -> Source:
    """The lines of a part: none, if all of it is in a line that belongs to the part before."""
    start, end = _line_start(source, part.start), _line_start(source, part.end or 0)
    return _Window(source, start, max(start, end))


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
    """The bytes of an open file between two offsets."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        source.seek(start)
        self._source, self._left = source, end - start

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data

    def seekable(self) -> bool:
        return False
