"""CSV and TSV, record by record. Each cell decides its own type, unless options ask for one type for each column.

So every row may be of another record type.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.csv import typed_rows
from shoal.formats.csv.column_types import BadCell, Parse, bad_cell, parser
from shoal.formats.csv.delimiters import CANDIDATES
from shoal.formats.csv.dialect import delimiter_of, is_by_cell, quote_of
from shoal.formats.csv.names import extra_name, unique_names
from shoal.formats.csv.records import Cells
from shoal.formats.csv.tables import TableText, keep_before, keep_flaw
from shoal.formats.csv.text import Ahead, open_text
from shoal.formats.go_floats import FIRST_CHARACTERS, parse_cell
from shoal.formats.streams import Source
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data

BOOLS = {
    **dict.fromkeys(("t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("f", "F", "false", "FALSE", "False"), False),
}
_KNOWN_ROW_TYPES, _KNOWN_FIELDS = 4096, 1_000_000
"""How many types of rows are remembered, and how many fields they may have in all."""


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of comma-separated text, or of text with another delimiter that is detected."""
    return _read(source, options, CANDIDATES)


def read_tsv(source: Source, options: ReadOptions) -> Iterator[Value]:
    """Like `read`, separated by tabs."""
    return _read(source, options, "\t")


def _read(source: Source, options: ReadOptions, candidates: str) -> Iterator[Value]:
    check_delimiter(options)
    if not is_by_cell(options):
        return typed_rows.read(source, options, candidates)
    return _read_cells(source, options, candidates)


def check_delimiter(options: ReadOptions) -> None:
    """Refuse a delimiter that cannot be one before anything is read."""
    if options.csv_delimiter is not None:
        delimiter_of(options.csv_delimiter, quote_of(options))


def _read_cells(source: Source, options: ReadOptions, candidates: str) -> Iterator[Value]:
    yield from cell_values(TableText(source, options, candidates, BadRecords(source, options)))


def cell_values(text: TableText) -> Iterator[Value]:
    """The records of a text, and what stands for bad ones."""
    if not text.names:
        return
    rows = CellRows(text)
    for cut in text.cuts():
        flaws = deque(cut.flaws)
        for index, cells in enumerate(cut.rows):
            yield from keep_before(flaws, index, text.bad)
            try:
                value = rows.value(cells)
            except InvalidInput as e:
                yield from keep_flaw(cut.flaw(index, e), text.bad)
            else:
                yield value
        yield from keep_before(flaws, len(cut.rows), text.bad)


_JSON_STARTS = (b"{", b"[")


def check_header(head: bytes, options: ReadOptions, candidates: str) -> None:
    """Refuse what is not a header: any text would pass as a table of one column, and broken JSON as names."""
    plain = Ahead(open_text(io.BytesIO(head), options, quote_of(options))).look(4 * len(head))
    if options.csv_skip or options.csv_comment is not None:
        plain = plain.lstrip(b"\r\n")
    line, _, rest = plain.partition(b"\n")
    delimiters = candidates if options.csv_delimiter is None else options.csv_delimiter
    marks = [mark for mark in delimiters if mark.encode() in line]
    if not marks:
        raise InvalidInput(f"line 1: delimiter {delimiters[0]!r} not found")
    if line.lstrip(b" \t")[:1] in _JSON_STARTS:
        raise InvalidInput("line 1: begins like JSON, not like a header")
    # Any text may have semicolons or bars: there have to be names before and after them, and another line.
    has_names = all(map(bytes.strip, line.split(marks[0].encode()))) and bool(rest.strip())
    if marks[0] not in ",\t" and options.csv_delimiter is None and not has_names:
        raise InvalidInput(f"line 1: delimiter {delimiters[0]!r} not found")


class CellRows:
    """Makes records of cells, each of which decides its own type."""

    def __init__(self, text: TableText) -> None:
        self._names = text.names
        self._parsers: list[tuple[t.Type, Parse] | None] = [
            None if typ is None else (typ, parser(typ, text.dialect.nulls)) for typ in text.given_types()
        ]
        self._has_types = any(self._parsers)
        self._is_filled = text.dialect.is_filled
        self._types: dict[tuple[t.Type, ...], t.Record] = {}
        self._most_types = min(_KNOWN_ROW_TYPES, 1 + _KNOWN_FIELDS // len(self._names))

    def value(self, cells: Cells) -> Value:
        """The record of these cells."""
        if self._is_filled and len(cells) != len(self._names):
            cells = cells + [None] * (len(self._names) - len(cells))
            while len(cells) > len(self._names) and cells[-1] is None:
                cells.pop()  # a delimiter at the end of a line makes no column
        if self._has_types:
            return self._typed_value(cells)
        kinds: list[t.Type] = []
        data: list[Data] = []
        for cell in cells:
            # Spelt out here rather than called: this loop is where reading spends its time.
            if cell is None:
                kinds.append(t.NULL)
                data.append(None)
            elif cell[0] in FIRST_CHARACTERS and (parsed := parse_cell(cell)) is not None:
                kinds.append(t.FLOAT64)
                data.append(parsed)
            elif cell in BOOLS:
                kinds.append(t.BOOL)
                data.append(BOOLS[cell])
            else:
                kinds.append(t.STRING)
                data.append(cell)
        return Value(self._type(tuple(kinds)), tuple(data))

    def _typed_value(self, cells: Cells) -> Value:
        typed = [self._typed(index, cell) for index, cell in enumerate(cells)]
        return Value(self._type(tuple([kind for kind, _ in typed])), tuple([data for _, data in typed]))

    def _typed(self, index: int, cell: str | None) -> tuple[t.Type, Data]:
        given = self._parsers[index] if index < len(self._parsers) else None
        if given is None:
            return cell_value(cell)
        try:
            return given[0], given[1](cell)
        except BadCell:
            raise bad_cell(self._names[index], cell or "", given[0]) from None

    def _type(self, kinds: tuple[t.Type, ...]) -> t.Record:
        typ = self._types.get(kinds)
        if typ is None:
            if len(self._types) >= self._most_types:
                self._types.clear()
            names = self._names
            if len(kinds) > len(names):
                names = unique_names([*names, *(extra_name(index) for index in range(len(names), len(kinds)))])
            typ = self._types[kinds] = t.record(zip(names, kinds, strict=True))
        return typ


def cell_value(cell: str | None) -> tuple[t.Type, Data]:
    """The type and the data of a cell that decides for itself."""
    if cell is None:
        return t.NULL, None
    if cell[0] in FIRST_CHARACTERS and (parsed := parse_cell(cell)) is not None:
        return t.FLOAT64, parsed
    return (t.BOOL, BOOLS[cell]) if cell in BOOLS else (t.STRING, cell)
