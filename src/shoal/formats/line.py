"""Lines of text. Reading makes a string of each line; a value written here need not read back as itself."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.streams import NAME_ENCODING, Sink, Source, WriteOptions, read_lines
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """Each line as a string, without its end."""
    bad = BadRecords(source, options)
    for number, line in enumerate(read_lines(source, options), bad.first_line):
        try:
            yield Value(t.STRING, line.decode())
        except UnicodeDecodeError as e:
            yield from bad.take(number, line, InvalidInput(f"invalid UTF-8 at byte {e.start + 1} {NAME_ENCODING}"))


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
