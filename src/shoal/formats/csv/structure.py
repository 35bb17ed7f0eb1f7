"""Where the records of a text end, as `records` defines it, found with a few passes over all of it.

Mostly each quote stands at an edge of a field or in a pair, so that counting them tells what is quoted. Otherwise the
quoted fields are looked for one after the other. Arrow cuts the same fields, except around the places that are `odd`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from shoal.formats.csv.dialect import SPACES, Dialect
from shoal.formats.csv.text import BOM
from shoal.model.node import frozen

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.int64]]
_NEWLINE, _RETURN = b"\n\r"
_NONE: Places = np.zeros(0, np.int64)
_SPACE_STARTS = np.isin(np.arange(256), [c.encode()[0] for c in SPACES])
"""What begins with these bytes need not be a space."""


@frozen
class Structure:
    """The records of a text."""

    ends: Places
    """Where records, or blank lines, end."""
    is_open: bool
    """Whether the text ends within quotes."""
    odd: Places
    """Places that Arrow would read in another way."""
    newlines: Places
    """Where all lines end, also those within quotes."""
    is_indented: bool = False
    """Whether spaces may have to go from the start of fields."""


class Scanner:
    """Finds records by the rule of RFC 4180."""

    def __init__(self, dialect: Dialect) -> None:
        delimiter = dialect.delimiter
        self._delimiter = ord(delimiter)
        self._mark = (dialect.quote or "").encode()
        self._quote = ord(dialect.quote) if dialect.quote is not None else -1
        blanks = "".join(c for c in " \t" if c != delimiter).encode()
        q, d = re.escape(self._mark), re.escape(delimiter.encode())
        # The quantifiers are possessive: no text makes the search go back.
        self._quoted = re.compile(
            rb"(?:(?<=[%b\n])|\A)([%b]*+)%b(?:[^%b]++|%b%b)*+(%b)?+" % (d, blanks, q, q, q, q, q) if q else b""
        )

    def scan(self, text: bytes) -> Structure:
        """The structure of a text that begins with a record."""
        content = np.frombuffer(text, np.uint8)
        newlines = np.flatnonzero(content == _NEWLINE)
        odd = np.zeros(1, np.int64) if text.startswith(BOM) else _NONE
        if not self._mark or self._mark not in text:
            return Structure(newlines + 1, False, np.append(odd, _lone_returns(text, content)), newlines)
        quotes = np.flatnonzero(content == self._quote)
        if self._are_regular(content, quotes):
            starts, ends, is_open = _pairs(quotes, len(text))
        else:
            starts, ends, is_open, indented = self._search(text)
            odd = np.concatenate((odd, indented, self._torn(content, starts, ends, newlines)))
        returns = _outside(_lone_returns(text, content), starts, ends)
        return Structure(_outside(newlines, starts, ends) + 1, is_open, np.append(odd, returns), newlines)

    def _are_regular(self, content: Bytes, quotes: Places) -> bool:
        """Whether quotes open after a delimiter or a line end and close before one, or stand in pairs."""
        opening, closing = quotes[::2], quotes[1::2]
        outer = (_NEWLINE, self._quote, self._delimiter)
        before = content[opening[opening > 0] - 1]
        after = content[closing[closing < len(content) - 1] + 1]
        return bool(np.isin(before, outer).all() and np.isin(after, (_RETURN, *outer)).all())

    def _torn(self, content: Bytes, starts: Places, ends: Places, newlines: Places) -> Places:
        """Quoted fields over several lines that have text after their closing quote."""
        has_lines = np.searchsorted(newlines, ends) > np.searchsorted(newlines, starts)
        after = content[np.minimum(ends, len(content) - 1)]
        is_closed = np.isin(after, (_NEWLINE, _RETURN, self._delimiter)) | (ends >= len(content))
        torn: Places = starts[has_lines & ~is_closed]
        return torn

    def _search(self, text: bytes) -> tuple[Places, Places, bool, Places]:
        """The places of quoted fields, whether the last one has no end, and those of fields with blanks before them."""
        spans = [(m.start(), m.end(), m.end(1) > m.start(), m[2] is None) for m in self._quoted.finditer(text)]
        if not spans:
            return _NONE, _NONE, False, _NONE
        starts, ends, are_indented, are_open = map(np.array, zip(*spans, strict=True))
        return starts, ends, bool(are_open[-1]), starts[are_indented]


class ZedScanner(Scanner):
    """Finds records by the rule of Zed, in which a record ends after an even number of quotes."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._trims = dialect.delimiter not in SPACES

    def scan(self, text: bytes) -> Structure:
        content = np.frombuffer(text, np.uint8)
        newlines = np.flatnonzero(content == _NEWLINE)
        quotes = np.flatnonzero(content == self._quote) if self._mark and self._mark in text else _NONE
        starts, closing, is_open = _pairs(quotes, len(text))
        ends = _outside(newlines, starts, closing) + 1
        is_odd = text.startswith(BOM) or not self._are_regular(content, quotes)
        is_odd = is_odd or len(_lone_returns(text, content)) > 0 or self._has_returns_inside(text, content, quotes)
        is_indented = self._trims and self._has_leading_spaces(content, quotes)
        if is_indented and len(starts) and _SPACE_STARTS[content[starts[starts + 1 < len(content)] + 1]].any():
            is_odd = True  # spaces within quotes stay
        return Structure(ends, is_open, np.zeros(1, np.int64) if is_odd else _NONE, newlines, is_indented)

    def _has_returns_inside(self, text: bytes, content: Bytes, quotes: Places) -> bool:
        """Whether line ends within quotes have carriage returns, which do not count."""
        if not len(quotes) or b"\r" not in text:
            return False
        returns = np.flatnonzero(content == _RETURN)
        starts, ends, _ = _pairs(quotes, len(text))
        return len(_outside(returns, starts, ends)) < len(returns)

    def _has_leading_spaces(self, content: Bytes, quotes: Places) -> bool:
        """Whether a field outside of quotes may begin with a space."""
        begins = (content == self._delimiter) | (content == _NEWLINE)
        if len(quotes):
            begins &= (np.cumsum(content == self._quote, dtype=np.uint8) & 1) == 0
        firsts = np.append(content[1:][begins[:-1]], content[:1])
        return bool(_SPACE_STARTS[firsts[(firsts != _RETURN) & (firsts != _NEWLINE)]].any())


def _pairs(quotes: Places, length: int) -> tuple[Places, Places, bool]:
    """Where quotes open and close, and whether the last one is not closed."""
    is_open = len(quotes) % 2 == 1
    closing = quotes[1::2]
    return quotes[::2], np.append(closing, length) if is_open else closing, is_open


def _outside(places: Places, starts: Places, ends: Places) -> Places:
    """The places that are in none of the ranges."""
    if not len(places) or not len(starts):
        return places
    before = np.searchsorted(starts, places, side="right") - 1
    is_inside = (before >= 0) & (places < ends[np.maximum(before, 0)])
    return places[~is_inside]


def _lone_returns(text: bytes, content: Bytes) -> Places:
    """Carriage returns that end no line."""
    if b"\r" not in text or text.count(b"\r") == text.count(b"\r\n"):
        return _NONE
    returns = np.flatnonzero(content == _RETURN)
    following = content[np.minimum(returns + 1, len(content) - 1)]
    lone: Places = returns[(following != _NEWLINE) | (returns + 1 == len(content))]
    return lone
