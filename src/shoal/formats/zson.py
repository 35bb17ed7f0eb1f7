"""ZSON: the text form of any value, one line a value or indented. JSON text is ZSON, too.

Reading works on a window of text: a value that the window cuts off is read again once more text
is there, and type names that it had bound meanwhile are unbound first.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

import re2

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.colors import paint_zson
from shoal.formats.limits import check_text, check_types
from shoal.formats.streams import CHUNK, NAME_ENCODING, Sink, Source, WriteOptions, read_at_least
from shoal.model.parse import NeedMore, ParseError, Parser
from shoal.model.text import Formatter
from shoal.model.types import Type
from shoal.model.values import Value


def read(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values of a ZSON text, and what stands for bad ones."""
    bad = BadRecords(source, options)
    window = _Window(source, options)
    names: dict[str, Type] = {}
    while True:
        check_types(len(names), options)
        parser = Parser(window.text, window.final, names)
        start, is_resumed = 0, False
        try:
            while (value := parser.value()) is not None:
                if window.has_bad_bytes:
                    window.check_bytes(start, parser.pos)
                start = parser.pos
                yield value
        except NeedMore:
            parser.undo_names()
        except ParseError as e:
            if bad.are_fatal:
                raise InvalidInput(f"{window.position_text(e.position)}: {e}") from None
            parser.undo_names()
            begin, end = window.bad_text(start)
            if end is not None:
                line, column = window.place(e.position)
                first, _ = window.place(begin)
                position = f"column {column}" if line == first else f"line {line}, column {column}"
                yield from bad.take(first, window.text[begin:end].encode(errors="surrogateescape"), e, position)
                start, is_resumed = end, True
        if window.final and not is_resumed:
            return
        window.advance(start)


_BAD_BYTE = re.compile("[\udc80-\udcff]")
_INDENTED = re.compile(r"([ \t]*)([^\r\n]?)")
_CLOSING = "}])|>,:"
"""What a line begins with that belongs to the value before it."""


class _Window:
    """The part of a text that is in memory."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self._options = options
        self._is_strict = options.bad == "fail"
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict" if self._is_strict else "surrogateescape")
        self._line = 1
        self._column = 1
        self._bytes = 0
        self.text = ""
        self.final = False
        self.has_bad_bytes = False
        """Whether some bytes are not UTF-8, which is an error if bad values are fatal."""
        self._read(1)

    def advance(self, done: int) -> None:
        """Drop what was read and get more text; as much again of a long value of which nothing could be dropped."""
        passed = self.text[:done]
        if lines := passed.count("\n"):
            self._line += lines
            self._column = len(passed) - passed.rfind("\n")
        else:
            self._column += len(passed)
        self.text = self.text[done:]
        self._read(len(self.text) if len(self.text) > CHUNK and not done else 1)
        check_text(self.text, self._options, self.position_text(0))

    def position_text(self, position: int) -> str:
        """Line and column of a position in the window."""
        line, column = self.place(position)
        return f"line {line}, column {column}"

    def place(self, position: int) -> tuple[int, int]:
        """Line and column of a position in the window."""
        before = self.text[:position]
        if lines := before.count("\n"):
            return self._line + lines, position - before.rfind("\n")
        return self._line, self._column + position

    def check_bytes(self, start: int, end: int) -> None:
        """ParseError if a value has bytes that are not UTF-8."""
        if m := _BAD_BYTE.search(self.text, start, end):
            raise ParseError(m.start(), "invalid UTF-8")

    def bad_text(self, start: int) -> tuple[int, int | None]:
        """Where the bad value after a position begins, and where to go on; None if more text is needed to tell.

        The next value begins on a line that is not indented more than this one, and does not begin with what ends one.
        """
        begin = len(self.text) - len(self.text[start:].lstrip())
        line = self.text.rfind("\n", 0, begin) + 1
        column = self._column if line == 0 else 1
        indent = len(self.text[line:begin]) - len(self.text[line:begin].lstrip()) if column == 1 else 0
        end = self.text.find("\n", begin) + 1
        while end:
            m = _INDENTED.match(self.text, end)
            assert m is not None
            if m[2] and m[2] not in _CLOSING and len(m[1]) <= indent:
                return begin, end
            end = self.text.find("\n", end) + 1
        return begin, len(self.text) if self.final else None

    def _read(self, size: int) -> None:
        """Get at least this many bytes, whatever a pipe gives at a time."""
        data = read_at_least(self._source, size)
        self.final = not data
        try:
            self.text += self._decoder.decode(data, final=self.final)
        except UnicodeDecodeError as e:
            raise InvalidInput(f"invalid UTF-8 near byte {self._bytes + e.start + 1} {NAME_ENCODING}") from None
        self.has_bad_bytes = not self._is_strict and _BAD_BYTE.search(self.text) is not None
        self._bytes += len(data)
        if self._bytes == len(data):
            self.text = self.text.removeprefix("\ufeff")


class Writer:
    """Writes values as ZSON."""

    def __init__(self, out: Sink, options: WriteOptions = WriteOptions()) -> None:
        self._out = out
        persist = _matcher(options.persist) if options.persist is not None else None
        self._formatter = Formatter(options.pretty or 0, persist)
        self._paint = paint_zson if options.color else None

    def write(self, value: Value) -> None:
        """Write a value and a line end."""
        text = self._formatter.format(value)
        if self._paint is not None:
            text = self._paint(text)
        self._out.write(text.encode() + b"\n")

    def close(self) -> None:
        """Nothing is buffered."""


def _matcher(pattern: str) -> Callable[[str], bool]:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as e:
        raise InvalidInput(f"bad regular expression {pattern!r}") from e
    return lambda name: compiled.search(name) is not None
