"""Arrays of records, the usual form of a JSON file, as lines of records.

An array of which the first element is a record is turned into its elements, one to a line, while it is read. The text
of the elements stays as it is, except for line ends between tokens. So the readers of lines do the rest.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from shoal.errors import InvalidInput
from shoal.formats.streams import Joined, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Text = NDArray[np.uint8]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.int64]

_P = TypeVar("_P")


class PlacedError(InvalidInput):
    """An error that names its line of the file."""


_CHUNK = 1 << 22
_PEEK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_QUOTE, _BACKSLASH, _COMMA, _BEGIN, _END, _NEWLINE, _SPACE = b'"\\,[]\n '
_BLANKS = tuple(b" \t\r\n")
_OPENING, _CLOSING = tuple(b"[{"), tuple(b"]}")
_BEGINNING = re.compile(rb"\s*\[\s*\{")
_LINE = re.compile(r"^line (\d+)(?:, column \d+)?")


def elements_of(source: Source, first_line: int = 1) -> Source | Elements:
    """The source, or the elements of the array of records that it begins with."""
    head = b""
    while len(head) < _PEEK and (data := source.read(_PEEK - len(head))):
        head += data
    text = head.removeprefix(_BOM)
    joined = Joined(text, source)
    return Elements(joined, first_line) if _BEGINNING.match(text) else Joined(head, source)


def naming_elements(values: Iterator[_P]) -> Iterator[_P]:
    """What is read of such lines; errors name the element, since it need not be on that line of the file."""
    try:
        yield from values
    except PlacedError as e:
        raise InvalidInput(str(e)) from None
    except InvalidInput as e:
        if not _LINE.match(str(e)):
            raise
        raise type(e)(_LINE.sub(lambda line: f"element {line[1]} of the array", str(e))) from None


def at_element(line: int, number: int, error: InvalidInput) -> InvalidInput:
    """The error of an element, which begins at a line of the file."""
    return PlacedError(f"line {line}: element {number} of the array: {error}")


class Elements(io.RawIOBase):
    """The elements of arrays, one to a line."""

    def __init__(self, source: Source, first_line: int) -> None:
        self._source = source
        self._line = first_line
        """The line of the file where the next bytes are."""
        self._begun: int | None = None
        """The line where the element begins that is not whole yet."""
        self._starts: deque[Places] = deque()
        """The lines of the file where elements begin that nobody has asked for."""
        self._depth = 0
        self._in_string = False
        self._is_escaped = False
        self._count = 0
        """The lines that have ended."""
        self._has_element = False
        """Whether something stands between the last edge of an element and here."""
        self._last_mark = _BEGIN
        self._lines = b""
        self._at_end = False

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return b"".join(iter(lambda: self.read(_CHUNK), b""))
        while not self._lines and not self._at_end:
            data = self._source.read(_CHUNK)
            self._at_end = not data
            self._lines = self._converted(data) if data else self._finished()
        out, self._lines = self._lines[:size], self._lines[size:]
        return out

    def lines(self, count: int) -> Places:
        """The lines of the file where the next elements begin, that is, the next lines of what was read."""
        parts = []
        while count and self._starts:
            part = self._starts.popleft()
            if len(part) > count:
                self._starts.appendleft(part[count:])
            parts.append(part[:count])
            count -= len(parts[-1])
        last = np.full(count, self._begun or self._line)
        return np.concatenate((*parts, last))

    def _finished(self) -> bytes:
        if self._depth or self._in_string:
            raise InvalidInput("unexpected end of JSON input: the array has no end")
        return b""

    def _converted(self, data: bytes) -> bytes:
        text = np.frombuffer(data, np.uint8).copy()
        newlines = np.flatnonzero(text == _NEWLINE)
        inside = self._strings(text)
        depth = self._depths(text, inside)
        text[~inside & (text == _NEWLINE)] = _SPACE
        is_begin = (text == _BEGIN) & (depth == 1)
        is_edge = ~inside & (((text == _COMMA) & (depth == 1)) | is_begin | ((text == _END) & (depth == 0)))
        self._check_edges(text, np.flatnonzero(is_edge), inside, newlines)
        self._line += len(newlines)
        text[is_edge] = np.where(text[is_edge] == _BEGIN, _SPACE, _NEWLINE)
        return text.tobytes()

    def _strings(self, text: Text) -> Flags:
        """Which bytes are in strings, their opening quotes included."""
        quotes = text == _QUOTE
        quotes[self._escaped(text)] = False
        inside: Flags = (np.cumsum(quotes) + self._in_string) % 2 == 1
        self._in_string = bool(inside[-1])
        return inside

    def _escaped(self, text: Text) -> Places:
        """The places after an odd number of backslashes."""
        slashes = np.flatnonzero(text == _BACKSLASH)
        if self._is_escaped:
            slashes = np.concatenate(([-1], slashes))
        self._is_escaped = False
        if not len(slashes):
            return slashes
        starts = np.flatnonzero(np.diff(slashes, prepend=slashes[0] - 2) != 1)
        lengths = np.diff(starts, append=len(slashes))
        places: Places = (slashes[starts] + lengths)[lengths % 2 == 1]
        self._is_escaped = bool(len(places)) and int(places[-1]) == len(text)
        return places[places < len(text)]

    def _depths(self, text: Text, inside: Flags) -> Places:
        """How many arrays and records each byte is in, those that begin there included."""
        steps = np.isin(text, _OPENING).astype(np.int8) - np.isin(text, _CLOSING).astype(np.int8)
        steps[inside] = 0
        depth = np.cumsum(steps, dtype=np.int64) + self._depth
        self._depth = int(depth[-1])
        if self._depth < 0 or depth.min() < 0:
            raise InvalidInput("a bracket closes an array that was not opened")
        return depth

    def _check_edges(self, text: Text, edges: Places, inside: Flags, newlines: Places) -> None:
        """Note where elements begin. Refuse commas without an element before them, which would be empty lines."""
        filled = inside | ~np.isin(text, _BLANKS)
        filled[edges] = False
        counts: Places = np.cumsum(filled, dtype=np.int64)
        marks = text[edges]
        has_element = np.diff(counts[edges], prepend=0) > 0
        has_element[:1] |= self._has_element
        follows_comma = np.concatenate(([self._last_mark], marks[:-1])) == _COMMA
        is_bad = ~has_element & ((marks == _COMMA) | ((marks == _END) & follows_comma))
        if is_bad.any():
            place = np.argmax(is_bad)
            number = self._count + np.count_nonzero(marks[:place] != _BEGIN) + 1
            line = self._line + int(np.searchsorted(newlines, edges[place]))
            raise at_element(line, int(number), InvalidInput("expected a value"))
        self._note_starts(edges, marks, counts, newlines)
        if len(edges):
            self._count += int(np.count_nonzero(marks != _BEGIN))
            self._last_mark = int(marks[-1])
            self._has_element = bool(counts[-1] > counts[edges[-1]])
        else:
            self._has_element = self._has_element or bool(counts[-1] > 0)

    def _note_starts(self, edges: Places, marks: Text, counts: Places, newlines: Places) -> None:
        """Note the lines where the elements between edges begin: there is the first byte that is not blank."""
        before = np.concatenate(([0], counts[edges]))
        firsts = np.searchsorted(counts, before, side="right")
        lines = self._line + np.searchsorted(newlines, firsts)
        if self._begun is not None:
            lines[0] = self._begun
        self._starts.append(lines[:-1][marks != _BEGIN])
        is_begun = counts[-1] > before[-1] or (not len(edges) and self._begun is not None)
        self._begun = int(lines[-1]) if is_begun else None
