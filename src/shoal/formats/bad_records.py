"""Records of an input that cannot be read, and what becomes of them: they fail it, are left out, or are kept.

A kept record is `error({file,line,text,message})`, beside the values of the others.
"""

from __future__ import annotations

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.limits import LimitExceeded, at
from shoal.formats.metering import place_of, skip
from shoal.formats.streams import Source
from shoal.model import types as t
from shoal.model.values import Value

BAD_RECORD = t.error(t.record((("file", t.STRING), ("line", t.INT64), ("text", t.STRING), ("message", t.STRING))))
LONGEST_TEXT = 1000
"""Characters of a bad record that are kept."""


class BadRecords:
    """What a reader does about the records that it cannot read."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self._policy = options.bad
        self._place = place_of(source)

    @property
    def are_fatal(self) -> bool:
        """Whether the first one fails the input."""
        return self._policy == "fail"

    @property
    def is_part(self) -> bool:
        """Whether the input goes on elsewhere, so that what is cut off need not be bad."""
        return self._place.is_part

    @property
    def first_line(self) -> int:
        """The number of the first line of the input."""
        return self._place.line

    def take(self, line: int, text: str | bytes, error: InvalidInput, position: str = "") -> tuple[Value, ...]:
        """The value that stands for the record at a line, if there is one; raises the error if it is fatal.

        The position within the line, such as `column 5`, is part of the message.
        """
        if self.are_fatal or isinstance(error, LimitExceeded):
            raise at(f"line {line}, {position}" if position else f"line {line}", error)
        if self._policy == "skip":
            skip(self._source)
            return ()
        message = f"{position}: {error}" if position else str(error)
        return (Value(BAD_RECORD, (self._place.file or None, line, _shortened(text), message)),)


def _shortened(text: str | bytes) -> str:
    if isinstance(text, bytes):
        text = text[: 4 * LONGEST_TEXT + 4].decode(errors="backslashreplace")
    text = text.rstrip("\r\n")
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "..."


def is_bad_record(typ: t.Type) -> bool:
    """Whether values of a type are bad records that were kept."""
    return typ is BAD_RECORD
