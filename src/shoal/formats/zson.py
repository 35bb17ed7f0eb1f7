"""ZSON: the text form of any value, one line a value or indented. JSON text is ZSON, too.

Reading works on a window of text: a value that the window cuts off is read again once more text
is there, and type names that it had bound meanwhile are unbound first.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator

import re2

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.colors import paint_zson
from shoal.formats.limits import check_text, check_types
from shoal.formats.streams import CHUNK, NAME_ENCODING, Sink, Source, WriteOptions, read_at_least
from shoal.model.parse import NeedMore, ParseError, Parser
from shoal.model.text import Formatter
from shoal.model.types import Type
from shoal.model.values import Value


def read(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values of a ZSON text."""
    window = _Window(source, options)
    names: dict[str, Type] = {}
    while True:
        check_types(len(names), options)
        parser = Parser(window.text, window.final, names)
        start = 0
        try:
            while (value := parser.value()) is not None:
                start = parser.pos
                yield value
        except NeedMore:
            parser.undo_names()
        except ParseError as e:
            raise InvalidInput(f"{window.position_text(e.position)}: {e}") from None
        if window.final:
            return
        window.advance(start)


class _Window:
    """The part of a text that is in memory."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self._options = options
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._line = 1
        self._column = 1
        self._bytes = 0
        self.text = ""
        self.final = False
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
        before = self.text[:position]
        if lines := before.count("\n"):
            return f"line {self._line + lines}, column {position - before.rfind(chr(10))}"
        return f"line {self._line}, column {self._column + position}"

    def _read(self, size: int) -> None:
        """Get at least this many bytes, whatever a pipe gives at a time."""
        data = read_at_least(self._source, size)
        self.final = not data
        try:
            self.text += self._decoder.decode(data, final=self.final)
        except UnicodeDecodeError as e:
            raise InvalidInput(f"invalid UTF-8 near byte {self._bytes + e.start + 1} {NAME_ENCODING}") from None
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
