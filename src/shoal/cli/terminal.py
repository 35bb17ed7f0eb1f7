"""What commands print: lines for people, and values on a terminal. Neither can move its cursor or change its title."""

from __future__ import annotations

import re
import sys
from codecs import getincrementaldecoder
from typing import Protocol, TextIO

from shoal.printable import printable

_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")


def print_text(text: str, to: TextIO | None = None) -> None:
    """Print lines to standard output or another stream, with control characters escaped."""
    print(printable(text, lines=True), file=to or sys.stdout, flush=to is not None)


class Screen(Protocol):
    """A terminal, or a pager in front of it."""

    def write(self, data: bytes, /) -> object:
        """Show text in UTF-8."""

    def flush(self) -> None:
        """Show what was written so far."""


class TerminalSink:
    """A terminal that values are written to. Control characters in them are escaped.

    `has_color` is for formats that escape the strings in them: what is left of escape sequences are their own colors.
    """

    def __init__(self, file: Screen, has_color: bool) -> None:
        self._file = file
        self._has_color = has_color
        self._decode = getincrementaldecoder("utf-8")("replace").decode

    def write(self, data: bytes, /) -> None:
        """Write text in UTF-8; a character may be split between two calls."""
        text = self._decode(data)
        parts = _COLOR.split(text) if self._has_color else [text]
        shown = (part if number % 2 else printable(part, lines=True) for number, part in enumerate(parts))
        self._file.write("".join(shown).encode())

    def flush(self) -> None:
        """Flush the terminal."""
        self._file.flush()
