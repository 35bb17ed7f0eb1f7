"""Tables in parts: the records between two lines are read as a table of their own, whose columns are known.

What is known of the table becomes options: its delimiter, the names of its columns, and in the end their types.
"""

from __future__ import annotations

import io
from dataclasses import replace

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.csv.dialect import header_text, is_by_cell, types_text
from shoal.formats.csv.tables import TableGuess, TableText, columns_of, is_surveyed
from shoal.formats.streams import Source, read_exactly
from shoal.model.node import frozen

_LONGEST_HEADER = 1 << 20


@frozen
class Header:
    """What is before the records of a table."""

    lines: int
    size: int
    """The bytes of these lines."""
    options: ReadOptions
    """How the records are read without them."""


def header_of(source: Source, options: ReadOptions, candidates: str) -> Header | None:
    """The header at the start of a table; None if the table cannot be read in parts."""
    head = read_exactly(source, _LONGEST_HEADER)
    start = io.BytesIO(head)
    try:
        text = TableText(start, options, candidates, BadRecords(start, options))
    except InvalidInput:
        return None  # it may be longer than that
    lines = max(text.line - 1, options.csv_skip)
    size = _size_of(head, lines)
    if size is None or not text.names:
        return None
    known = replace(options, csv_delimiter=text.dialect.delimiter, csv_header=header_text(text.names), csv_skip=0)
    return Header(lines, size, known)


def _size_of(head: bytes, lines: int) -> int | None:
    """The bytes of this many lines; None if there are fewer."""
    end = 0
    for _ in range(lines):
        end = head.find(b"\n", end) + 1
        if not end:
            return None
    return end


def needs_survey(options: ReadOptions) -> bool:
    """Whether the types of the columns have to be found out before a part can be read, given its header."""
    return not is_by_cell(options) and is_surveyed(_text(options), options)


def with_types(options: ReadOptions, table: TableGuess) -> ReadOptions:
    """The options of all parts, once it is known what their cells say."""
    text = _text(options)
    columns = columns_of(text.names, text.given_types(), table, options.csv_infer == "text")
    types = dict(zip(columns.names, columns.types, strict=True))
    return replace(options, csv_header=header_text(columns.names), csv_types=types_text(types))


def _text(options: ReadOptions) -> TableText:
    """A table without records, for what options say about its columns."""
    return TableText(io.BytesIO(), options, ",", BadRecords(io.BytesIO(), options))
