"""CSV and TSV into columns, with exactly the result of `csv.reader`: each cell decides its own type.

Arrow cuts the text into cells, and whole columns are sorted into nulls, numbers, bools and strings.
Text that is not regular (a quote inside a field, a lone carriage return, a line with too many
fields, bad UTF-8) goes through the row reader from its chunk on: it knows what such text means,
and which line to blame. So does a table of thousands of columns, and one whose rows have too many
types, as sparse tables do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from shoal.api.options import ReadOptions
from shoal.formats.columns.batches import MANY_FIELDS, Batch, Piece
from shoal.formats.columns.parts import TooManyShapes
from shoal.formats.csv import reader as csv_reader
from shoal.formats.csv.cells import DELIMITERS, Irregular, Layout, classify, inside_quotes, parts
from shoal.formats.csv.reader import BOM, unique_names
from shoal.formats.limits import chunk_size, value_memory
from shoal.formats.streams import Joined, Source
from shoal.model.values import Value

RowReader = Callable[[Source, ReadOptions], Iterator[Value]]

_CHUNK = 16 * 1024 * 1024
_TEXT_SHARE = 8
"""A record that takes more than this share of the memory of a value is left to the row reader."""


def read(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """The batches of comma-separated text whose first line names the fields."""
    return _read(source, options, ",", csv_reader.read)


def read_tsv(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """Like `read`, separated by tabs."""
    return _read(source, options, "\t", csv_reader.read_tsv)


def _read(source: Source, options: ReadOptions, default: str, by_rows: RowReader) -> Iterator[Piece]:
    delimiter = default if options.csv_delimiter is None else options.csv_delimiter
    if delimiter not in DELIMITERS:
        return by_rows(source, options)
    return _chunk_by_chunk(_Text(source, options), options, delimiter, by_rows)


def _chunk_by_chunk(text: _Text, options: ReadOptions, delimiter: str, by_rows: RowReader) -> Iterator[Piece]:
    table = _Table(delimiter, options.threads > 1)
    header = b""
    try:
        while chunk := text.chunk():
            batch = table.batch(chunk)
            text.accept(chunk)
            header = table.header
            if batch is not None:
                yield batch
    except (Irregular, TooManyShapes):
        yield from by_rows(text.rest(header), options)


# ---- text


class _Text:
    """The input in runs of whole records, and what is left of it for another reader."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self._limit = min(options.max_value_size, value_memory(options) // _TEXT_SHARE)
        self._size = chunk_size(options, _CHUNK)
        self._pending = b""
        self._lines = 0
        self._ended = False

    def chunk(self) -> bytes:
        """The next records; nothing at the end. They stay until they are accepted."""
        size = self._size
        while True:
            self._fill(size)
            if self._ended:
                return self._pending
            if end := _end_of_records(self._pending):
                return self._pending[:end]
            if len(self._pending) > self._limit:
                raise Irregular
            size = min(2 * len(self._pending), self._limit + 1)

    def accept(self, chunk: bytes) -> None:
        """Go on after a chunk."""
        self._lines += chunk.count(b"\n")
        self._pending = self._pending[len(chunk) :]

    def rest(self, header: bytes) -> Source:
        """The header, if it was accepted, and what was not. Blank lines between keep the count of lines right."""
        pending, self._pending = self._pending, b""
        return Joined(header + b"\n" * (self._lines - header.count(b"\n")) + pending, self._source)

    def _fill(self, size: int) -> None:
        parts = [self._pending]
        missing = size - len(self._pending)
        while missing > 0 and not self._ended:
            part = self._source.read(missing)
            self._ended = not part
            parts.append(part)
            missing -= len(part)
        self._pending = b"".join(parts)


def _end_of_records(data: bytes) -> int:
    """The end of the last line that leaves no quote open."""
    end = data.rfind(b"\n") + 1
    if data.count(b'"', 0, end) % 2 == 0:
        return end
    content = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero((content == ord("\n")) & ~inside_quotes(content))
    return int(ends[-1]) + 1 if len(ends) else 0


# ---- tables


class _Table:
    """Cuts text into the columns that its header names."""

    def __init__(self, delimiter: str, use_threads: bool) -> None:
        self._delimiter = delimiter
        self._use_threads = use_threads
        self._names: list[str] | None = None
        self.header = b""
        """The text of the header, with all before it."""

    def batch(self, chunk: bytes) -> Batch | None:
        """The records of a chunk, if there are any."""
        text = chunk if self._names is not None else self._take_header(chunk)
        if self._names is None or not text:
            return None
        columns = self._columns(text, len(self._names))
        if not len(columns[0]):
            return None
        return Batch(parts(self._names, [classify(column) for column in columns]), len(columns[0]))

    def _take_header(self, chunk: bytes) -> bytes:
        """Learn the names of the columns; return the text after them."""
        start = len(BOM) if not self.header and chunk.startswith(BOM) else 0
        end = _end_of_header(chunk, start)
        text = chunk[start:end]
        if text.count(self._delimiter.encode()) >= MANY_FIELDS:
            raise Irregular
        if not _is_blank(text):
            self._names = unique_names([column[0].as_py() for column in self._columns(text, None)])
        self.header += chunk[:end]
        return chunk[end:]

    def _columns(self, text: bytes, width: int | None) -> list[pa.Array]:
        layout = Layout(text, self._delimiter)
        try:
            return layout.columns(layout.width() if width is None else width, self._use_threads)
        except pa.ArrowInvalid:
            raise Irregular from None


def _is_blank(text: bytes) -> bool:
    """Whether there are only line ends; a carriage return elsewhere is another matter."""
    return not text.replace(b"\r\n", b"").strip(b"\n")


def _end_of_header(chunk: bytes, start: int) -> int:
    """The end of the first record; blank lines are none."""
    is_open = is_filled = False
    while start < len(chunk) and (is_open or not is_filled):
        end = chunk.find(b"\n", start) + 1 or len(chunk)
        is_open ^= chunk.count(b'"', start, end) % 2 == 1
        is_filled = is_filled or not _is_blank(chunk[start:end])
        start = end
    return start
