"""Cuts text into records. These are the definitions; `structure` finds the same records in whole windows of text.

`Cutter` has the rule of RFC 4180: a quote opens a field only where it begins, blanks before it apart. A quote elsewhere
is a character like any other. Text after a closing quote belongs to the field, unless that goes over several lines:
then a quote is missing. `ZedCutter` has the rule of Zed: a quote may open and close anywhere, so `a,"b" x` is `a` and
`b x`, and spaces before a field do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.csv.dialect import SPACES, Dialect
from shoal.formats.limits import LIGHT, cell_costs, check_fields, check_lines, check_text
from shoal.formats.streams import NAME_ENCODING

LONGEST_OPEN = 16 << 20
"""Bytes after which an open quote is taken for a mistake, if bad records are not fatal."""
Cells = list[str | None]
"""The fields of a record; None where one is null as it stands."""


class Flaw(NamedTuple):
    """A record that is bad."""

    row: int
    """The number of good records before it."""
    line: int
    text: bytes
    error: InvalidInput


@dataclass(slots=True)
class Cut:
    """The records of some text."""

    first_line: int
    text: list[bytes]
    """Its lines."""
    rows: list[Cells] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """For each record, the lines that it takes."""
    flaws: list[Flaw] = field(default_factory=list)
    lines: int = 0
    """How many lines they take, blank ones included. What follows is not whole."""
    size: int = 0
    """The bytes of these lines."""

    def flaw(self, row: int, error: InvalidInput) -> Flaw:
        """The flaw of a record that was cut, and turns out to be bad."""
        start, end = self.spans[row]
        return Flaw(row, self.first_line + start, b"\n".join(self.text[start:end]), error)


class Cutter:
    """Cuts text into records of a dialect."""

    def __init__(self, dialect: Dialect, options: ReadOptions, is_part: bool = False) -> None:
        self.delimiter = dialect.delimiter
        self.quote = dialect.quote or ""
        self._mark = self.quote.encode()
        self._separator = self.delimiter.encode()
        self.nulls = dialect.nulls
        self._options = options
        self._long = min(LIGHT, options.max_value_size)
        self._is_tolerant = options.bad != "fail"
        self._is_part = is_part
        self._costs = cell_costs(self.delimiter)
        q, d = re.escape(self.quote), re.escape(self.delimiter)
        blanks = "".join(c for c in " \t" if c != self.delimiter)
        # The quantifiers are possessive: no text makes the search go back.
        self._opening = re.compile(rf"[{blanks}]*+{q}")
        self._inside = re.compile(rf"((?:[^{q}]++|{q}{q})*+)({q})?+" if q else "")
        self._plain = re.compile(rf"[^{d}]*+")

    def cut(self, data: bytes, first_line: int, is_final: bool, width: int | None, most: int = 1 << 62) -> Cut:
        """The records that are whole in some text, whose first line has this number; all of them if it is final.

        A record without this number of fields is bad, if a width is given. No more records than `most` are cut.
        """
        lines = data.split(b"\n")
        count = len(lines) - (not is_final or not lines[-1])
        out = Cut(first_line, lines)
        at, start = 0, -1
        mark, rows, spans = self._mark, out.rows, out.spans
        is_simple = len(self.nulls) == 1
        while at < count and at != start and len(rows) < most:
            start, raw = at, lines[at]
            if not raw or raw == b"\r":
                at += 1
            elif len(raw) <= self._long and not (mark and mark in raw) and (cells := self._plain_cells(raw, width)):
                rows.append([cell or None for cell in cells] if is_simple else self._with_nulls(cells))
                at += 1
                spans.append((start, at))
            else:
                at = self._next(lines, at, count, is_final, width, out)
        out.lines = at
        out.size = len(data) if at == len(lines) else sum(map(len, lines[:at])) + at
        return out

    def _plain_cells(self, raw: bytes, width: int | None) -> list[str] | None:
        """The fields of a line without quotes; None if there is something wrong with it."""
        try:
            cells = self.split(raw.decode())
        except UnicodeDecodeError:
            return None
        return cells if width is None or len(cells) == width else None

    def _with_nulls(self, cells: list[str]) -> Cells:
        return [None if cell in self.nulls else cell for cell in cells]

    def split(self, line: str) -> list[str]:
        """The fields of a line without quotes."""
        return line.removesuffix("\r").split(self.delimiter)

    def _next(self, lines: Sequence[bytes], at: int, count: int, is_final: bool, width: int | None, out: Cut) -> int:
        """Take the record that begins at a line; returns the line after it, or the same one if it is not whole."""
        number = out.first_line + at
        record = Record(lines, at, count)
        self._check(record.raw, number)
        is_whole = True
        if self._mark and self._mark in record.raw:
            is_whole = self.cut_quoted(record, out.first_line)
        else:
            record.cells = self._with_nulls(self.split(record.line))
        if not is_whole:
            if not is_final and not (self._is_tolerant and record.size > LONGEST_OPEN):
                return at
            if self._is_part:  # the rest of it may be elsewhere
                raise InvalidInput(f"line {number}: quote is not closed")
            out.flaws.append(Flaw(len(out.rows), number, record.lines[at], InvalidInput("quote is not closed")))
            return at + 1
        error = record.error or self._quote_error(record, at) or _width_error(record.cells, width)
        if error is None:
            out.rows.append(record.cells)
            out.spans.append((at, record.at + 1))
            return record.at + 1
        # If the quotes are not as they should be, one may be too much, and the next line a record of its own.
        end = record.at + 1 if record.is_regular else at + 1
        line = number if record.error_at is None else out.first_line + record.error_at
        out.flaws.append(Flaw(len(out.rows), line, b"\n".join(lines[at:end]), error))
        return end

    def _quote_error(self, record: Record, first: int) -> InvalidInput | None:
        """What is wrong with a field over several lines that has text after its closing quote: one is missing."""
        if record.at == first or record.is_regular:
            return None
        return InvalidInput("a quoted field over several lines has text after its closing quote")

    def _check(self, raw: bytes, number: int) -> None:
        if len(raw) > self._long:
            check_text(raw, self._options, f"line {number}", self._costs)
            check_fields(raw.count(self._separator), f"line {number}")

    def check_record(self, record: Record, lines: int, number: int) -> None:
        """Refuse a record that goes over too many lines, after it went on to another."""
        self._check(record.raw, number)
        check_lines(record.size, lines, self._options, f"line {number}")

    def cut_quoted(self, record: Record, first_line: int) -> bool:
        """Cut a record with quotes into fields, with the lines that they go over; whether it is whole."""
        at = 0
        while True:
            opening = self._opening.match(record.line, at)
            if opening is None:
                plain = self._plain_text(record, at)
                record.cells.append(None if plain in self.nulls else plain)
            else:
                text = self._quoted_text(record, opening.end(), first_line)
                if text is None:
                    return False
                plain = self._plain_text(record, record.position)
                record.is_regular = record.is_regular and not plain
                record.cells.append(text + plain)
            if record.position >= record.end:
                return True
            at = record.position = record.position + 1

    def _plain_text(self, record: Record, at: int) -> str:
        """The text up to the next delimiter or the end of the line."""
        m = self._plain.match(record.line, at, max(at, record.end))
        assert m is not None
        record.position = m.end()
        return m[0]

    def _quoted_text(self, record: Record, at: int, first_line: int) -> str | None:
        """The text up to the closing quote; None if there is none."""
        parts: list[str] = []
        number = first_line + record.at
        while True:
            m = self._inside.match(record.line, at)
            assert m is not None
            parts.append(m[1])
            if m[2] is not None:
                record.position = m.end()
                return "\n".join(parts).replace(2 * self.quote, self.quote)
            if not record.advance():
                return None
            self.check_record(record, len(parts), number)
            at = 0


class ZedCutter(Cutter):
    """Cuts text into records by the rule of Zed."""

    def __init__(self, dialect: Dialect, options: ReadOptions, is_part: bool = False) -> None:
        super().__init__(dialect, options, is_part)
        self._spaces = "" if self.delimiter in SPACES else SPACES
        q, d = re.escape(self.quote), re.escape(self.delimiter)
        self._field = re.compile(rf"((?:[^{q}{d}]++|{q}(?:[^{q}]++|{q}{q})*+{q})*+)(?:{d}|\Z)" if q else "")
        self._section = re.compile(rf"{q}((?:[^{q}]++|{q}{q})*+){q}" if q else "")

    def split(self, line: str) -> list[str]:
        fields = line.removesuffix("\r").split(self.delimiter)
        if not self._spaces or (" " not in line and line.isprintable()):
            return fields
        return [field.lstrip(self._spaces) for field in fields]

    def _quote_error(self, record: Record, first: int) -> InvalidInput | None:
        return None

    def cut_quoted(self, record: Record, first_line: int) -> bool:
        number = first_line + record.at
        parts = [record.line[: record.end]]
        is_open = parts[0].count(self.quote) % 2 == 1
        while is_open:
            if not record.advance():
                return False
            parts.append(record.line[: record.end])
            self.check_record(record, len(parts), number)
            is_open = parts[-1].count(self.quote) % 2 == 0
        text = "\n".join(parts) if len(parts) > 1 else parts[0]
        if len(text) > self._long:
            check_text(text, self._options, f"line {number}", self._costs)
        # The pattern matches once more, with nothing, at the end of a text that ends in a field.
        fields: list[str] = self._field.findall(text)
        if not text.endswith(self.delimiter):
            fields.pop()
        for each in fields:
            stripped = each.lstrip(self._spaces)
            cell = self._unquoted(stripped, record) if self.quote in each else stripped
            record.cells.append(None if cell in self.nulls else cell)
        return True

    def _unquoted(self, field: str, record: Record) -> str:
        quote = self.quote
        if field[0] == quote and field.find(quote, 1) == len(field) - 1:
            return field[1:-1]
        record.is_regular = record.is_regular and self._section.fullmatch(field) is not None
        return self._section.sub(lambda m: m[1].replace(2 * quote, quote), field)


def _width_error(cells: Cells, width: int | None) -> InvalidInput | None:
    if width is None or len(cells) == width:
        return None
    return InvalidInput(f"expected {width} fields, found {len(cells)}")


class Record:
    """A record that is being cut: the line where it is, and what it has so far."""

    __slots__ = ("at", "cells", "count", "end", "error", "error_at", "is_regular", "line", "lines", "position", "size")

    def __init__(self, lines: Sequence[bytes], at: int, count: int) -> None:
        self.lines, self.count = lines, count
        self.cells: Cells = []
        self.error: InvalidInput | None = None
        self.error_at: int | None = None
        """The line of the error."""
        self.is_regular = True
        """Whether each quote stands at an edge of a field, or in a pair."""
        self.size = self.position = 0
        self._enter(at)

    @property
    def raw(self) -> bytes:
        """The bytes of the line."""
        return self.lines[self.at]

    def _enter(self, at: int) -> None:
        self.at = at
        raw = self.lines[at]
        self.size += len(raw) + 1
        try:
            self.line = raw.decode()
        except UnicodeDecodeError as e:
            self.line = raw.decode(errors="surrogateescape")
            if self.error is None:
                self.error, self.error_at = InvalidInput(f"invalid UTF-8 at byte {e.start + 1} {NAME_ENCODING}"), at
        self.end = len(self.line) - self.line.endswith("\r")

    def advance(self) -> bool:
        """Go on to the next line, if there is one."""
        if self.at + 1 >= self.count:
            return False
        self._enter(self.at + 1)
        return True
