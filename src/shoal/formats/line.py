"""Lines of text. Reading makes a string of each line; a value written here need not read back as itself."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.api.options import ReadOptions
from shoal.formats.streams import Sink, Source, WriteOptions, decode_utf8, read_lines
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """Each line as a string, without its end."""
    for number, line in enumerate(read_lines(source, options), 1):
        yield Value(t.STRING, decode_utf8(line, f"line {number}"))


class Writer:
    """Writes a value a line: strings bare, all else as ZSON."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out

    def write(self, value: Value) -> None:
        """Add a line."""
        is_text = value.type.under is t.STRING and value.data is not None
        text: str = value.data if is_text else format_value(value)
        self._out.write(text.encode() + b"\n")

    def close(self) -> None:
        """Nothing is buffered."""
