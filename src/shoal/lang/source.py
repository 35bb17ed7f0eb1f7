"""The text of a program, put together from files and the command line, and errors that point into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.errors import InvalidInput, shortened
from shoal.lang.ast import Span

_LONGEST_LINE, _AROUND = 1000, 200
"""Characters of a line that an error shows whole, and of a longer one to each side of the column."""


class Part(NamedTuple):
    """A piece of a program: the file it came from ("" for the command line) and its text."""

    name: str
    text: str


class Source:
    """A program's whole text; each part starts on a line of its own."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self.text = "\n".join(part.text for part in parts)

    def error(self, message: str, span: Span | int) -> ProgramError:
        """An error with the line it is in. A span is underlined, a lone offset gets a caret."""
        begin, end = (span, -1) if isinstance(span, int) else span
        name, text, offset = self._locate(begin)
        at = min(begin - offset, len(text))
        line_start = text.rfind("\n", 0, at) + 1
        line_end = text.find("\n", at)
        line = text[line_start : line_end if line_end >= 0 else len(text)]
        column = at - line_start
        where = f"{f' in {name}' if name else ''} at line {text.count(chr(10), 0, at) + 1}, column {column + 1}:"
        line, column = _excerpt(line, column)
        length = min(at + len(line) - column, end - offset) - at
        mark = _caret(column) if end < 0 else " " * column + "~" * max(length, 1)
        message = shortened(message)
        return ProgramError(message, f"{message}{where}\n{line}\n{mark}", begin, end)

    def _locate(self, position: int) -> tuple[str, str, int]:
        offset = 0
        for part in self.parts[:-1]:
            if position < offset + len(part.text) + 1:
                return part.name, part.text, offset
            offset += len(part.text) + 1
        return self.parts[-1].name, self.parts[-1].text, offset


class ProgramError(InvalidInput):
    """A program that cannot be understood: the message, and the position with its line."""

    def __init__(self, message: str, text: str, begin: int, end: int) -> None:
        super().__init__(text)
        self.message = message
        self.begin = begin
        self.end = end


def joined(errors: Sequence[ProgramError]) -> ProgramError:
    """Several errors as one; it points at the first."""
    first = errors[0]
    return ProgramError(first.message, "\n".join(map(str, errors)), first.begin, first.end)


def _excerpt(line: str, column: int) -> tuple[str, int]:
    """A line, or the part of a long one that is around a column, and the column in that."""
    if len(line) <= _LONGEST_LINE:
        return line, column
    start = max(0, column - _AROUND)
    return line[start : column + _AROUND], column - start


def _caret(column: int) -> str:
    """`=== ^ ===` with the caret below the column, as much of it as fits."""
    lead = "".join("=" if i >= column - 4 and i != column - 1 else " " for i in range(column))
    return f"{lead}^ ==="
