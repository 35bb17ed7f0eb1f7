"""The text of a table before it is cut into records: without its mark, skipped lines and comments.

What is left out becomes blank lines, which are no records. So line numbers stay those of the input.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Iterator

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.csv.dialect import is_by_cell
from shoal.formats.metering import pass_over
from shoal.formats.streams import CHUNK, Joined, Pieces, Source, is_remote, read_exactly

BOM = b"\xef\xbb\xbf"
_IN_MEMORY = 16 << 20
"""Bytes of an input that cannot be read again and are kept in memory; beyond that they go to disk."""


def open_text(source: Source, options: ReadOptions, quote: str | None) -> Source:
    """The lines of a table that count."""
    if options.csv_skip < 0:
        raise InvalidInput(f"csv.skip: {options.csv_skip} is not a number of lines")
    mark = read_exactly(source, len(BOM))
    source = Joined(b"" if mark == BOM else mark, source)
    if options.csv_skip:
        source = Pieces(source, filter(None, _without_first_lines(source, options.csv_skip)))
    if options.csv_comment is not None:
        opens = _opening(quote, anywhere=is_by_cell(options))
        source = Pieces(source, filter(None, _without_comments(source, _comment(options.csv_comment), opens)))
    return source


def _comment(text: str) -> bytes:
    if not text or set(text) & set("\r\n"):
        raise InvalidInput(f"csv.comment: {text!r} cannot begin a line")
    return text.encode()


def _without_first_lines(source: Source, count: int) -> Iterator[bytes]:
    while data := source.read(CHUNK):
        lines = data.count(b"\n") if count else 0
        if lines < count:
            count -= lines
            yield b"\n" * lines
            continue
        if count:
            rest = data.split(b"\n", count)[-1]
            data, count = b"\n" * count + rest, 0
        yield data


Opens = Callable[[bytes, bool], bool]
"""Whether a quote is open after a line, given whether one was before it."""


def _opening(quote: str | None, anywhere: bool) -> Opens:
    """How quotes open: anywhere in a field, or only where it begins."""
    if quote is None:
        return lambda line, is_open: False
    mark = quote.encode()
    begins = re.compile(rb"(?:^|[^\w])" + re.escape(mark))

    def is_open_after(line: bytes, is_open: bool) -> bool:
        if line.count(mark) % 2 == 0:
            return is_open
        return not is_open and (anywhere or begins.search(line) is not None)

    return is_open_after


def _without_comments(source: Source, mark: bytes, opens: Opens) -> Iterator[bytes]:
    """The text with its comments blanked. What looks like one in a quoted field, which goes over lines, stays."""
    parts: list[bytes] = []
    is_open = False
    while data := source.read(CHUNK):
        end = data.rfind(b"\n") + 1
        if not end:
            parts.append(data)
            continue
        lines = b"".join((*parts, data[:end])).split(b"\n")
        parts = [data[end:]]
        is_open = _blank_comments(lines, mark, opens, is_open)
        yield b"\n".join(lines)
    lines = [b"".join(parts)]
    _blank_comments(lines, mark, opens, is_open)
    yield lines[0]


def _blank_comments(lines: list[bytes], mark: bytes, opens: Opens, is_open: bool) -> bool:
    """Empty the lines that are comments; whether a quote is open after them."""
    for i, line in enumerate(lines):
        if not is_open and line.startswith(mark):
            lines[i] = b""
        else:
            is_open = opens(line, is_open)
    return is_open


class Ahead(io.RawIOBase):
    """A source whose next bytes can be looked at, as far as they have come."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.head = b""
        """What has come and was not read."""

    def look(self, size: int) -> bytes:
        """At least this many of the next bytes, unless it ends."""
        while len(self.head) < size and (part := self._source.read(CHUNK)):
            self.head += part
        return self.head

    def read(self, size: int = -1, /) -> bytes:
        if not self.head:
            return self._source.read(size)
        size = len(self.head) if size < 0 else size
        out, self.head = self.head[:size], self.head[size:]
        return out

    def seekable(self) -> bool:
        return False


# ---- reading twice


class Twice:
    """An input that is read two times: from its file, or from a copy if it comes only once or from far."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = source.tell() if source.seekable() and not is_remote(source) else None
        self._copy: tempfile.SpooledTemporaryFile[bytes] | None = None
        self._size = 0

    def first(self) -> Source:
        """The input."""
        if self._start is None:
            self._copy = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed when the table is read
        return _Passing(self._next)

    def _next(self, size: int) -> bytes:
        data = self._source.read(size)
        self._size += len(data)
        if self._copy is not None:
            self._copy.write(data)
        return data

    def passed(self) -> None:
        """What has been read so far is not held in memory."""
        pass_over(self._source)

    def second(self) -> Source:
        """The bytes that the first reading found, even if the file has grown since."""
        left = self._size
        if self._copy is not None:
            self._copy.seek(0)
            read = self._copy.read
        else:
            self._source.seek(self._start or 0)
            read = self._source.read

        def read_some(size: int) -> bytes:
            nonlocal left
            data = read(min(size, left))
            left -= len(data)
            return data

        return _Passing(read_some)

    def close(self) -> None:
        """Let go of the copy."""
        if self._copy is not None:
            self._copy.close()


class _Passing(io.RawIOBase):
    """A source that is read from its front."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def read(self, size: int = -1, /) -> bytes:
        return b"".join(iter(lambda: self._read(CHUNK), b"")) if size < 0 else self._read(size)

    def seekable(self) -> bool:
        return False
