"""Runs of records as columns of text. Arrow cuts windows of text into cells.

A window that it cannot cut, or that holds bad records, is tried again in small windows, and those that have the trouble
are cut record by record. So one bad line makes nothing else slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from shoal.errors import InvalidInput
from shoal.formats.columns.batches import MANY_FIELDS
from shoal.formats.csv.dialect import SPACES
from shoal.formats.csv.records import LONGEST_OPEN, Cut, Flaw
from shoal.formats.csv.structure import Places, Scanner, ZedScanner
from shoal.formats.csv.tables import TableText, keep_flaw, padded
from shoal.formats.limits import LIGHT, chunk_size

MARKS = frozenset(map(chr, range(0x20, 0x7F))) | {"\t"}
"""What Arrow takes for a delimiter or a quote."""
CHUNK = 16 << 20
SMALL = 1 << 16
"""Bytes of text that are cut record by record where they cannot be cut as columns."""


class Irregular(Exception):
    """Text that Arrow would not cut as it should, or not at all."""


def suits_arrow(text: TableText) -> bool:
    """Whether Arrow can cut a table. Thousands of columns are better cut record by record."""
    quote = text.dialect.quote
    is_known = text.dialect.delimiter in MARKS and (quote is None or quote in MARKS)
    return is_known and len(text.names) <= MANY_FIELDS


@dataclass(slots=True)
class Run:
    """Some records as columns of text."""

    columns: list[pa.Array | None]
    """Cells, which are null where they are null as they stand. A column that is not wanted is None."""
    length: int
    first_line: int
    flaws: list[Flaw] = field(default_factory=list)
    origin: Cut | _Origin | None = None
    """What tells the line and the text of a record."""

    def before(self, row: int) -> Run:
        """The records before the one of this number, as far as they are good."""
        columns = [None if column is None else column[:row] for column in self.columns]
        return Run(columns, row, self.first_line, [], self.origin)

    def flaw(self, row: int, error: InvalidInput) -> Flaw:
        """The flaw of a record that was cut, and turns out to be bad."""
        assert self.origin is not None
        return self.origin.flaw(row, error)


class _Origin:
    """The text of records that Arrow has cut."""

    def __init__(self, text: bytes, ends: Places, first_line: int) -> None:
        self._text, self._ends, self._first_line = text, ends, first_line
        self._starts: Places | None = None
        self._filled: Places | None = None
        self._newlines: Places | None = None

    def flaw(self, row: int, error: InvalidInput) -> Flaw:
        """The flaw of a record."""
        if self._starts is None or self._filled is None or self._newlines is None:
            content = np.frombuffer(self._text, np.uint8)
            starts = np.concatenate((np.zeros(1, np.int64), self._ends[:-1]))
            sizes = self._ends - starts
            firsts = content[starts]
            is_blank = (firsts == ord("\n")) | ((firsts == ord("\r")) & (sizes <= 2))
            self._starts, self._filled = starts, np.flatnonzero(~is_blank)
            self._newlines = np.flatnonzero(content == ord("\n"))
        place = self._filled[row]
        start, end = int(self._starts[place]), int(self._ends[place])
        line = self._first_line + int(np.searchsorted(self._newlines, start))
        return Flaw(row, line, self._text[start:end].rstrip(b"\r\n"), error)


class Windows:
    """Cuts the text of a table into runs of records."""

    def __init__(self, text: TableText) -> None:
        self._text = text
        self._dialect = text.dialect
        self._use_threads = text.options.threads > 1
        self._scanner = (ZedScanner if self._dialect.is_by_cell else Scanner)(self._dialect)
        self._names = [str(i) for i in range(len(text.names))]
        self._largest = chunk_size(text.options, CHUNK)

    def runs(self, wanted: list[bool] | None = None) -> Iterator[Run]:
        """All records. The list of wanted columns may change on the way."""
        size = self._largest
        is_retried = False
        while True:
            window, is_final = self._text.window(size)
            if not window:
                return
            try:
                run = self._by_arrow(window, is_final, wanted)
            except Irregular:
                if len(window) > SMALL and not is_retried:
                    size, is_retried = SMALL, True
                    continue
                run = self._by_rows(window, is_final)
            if run is None:
                size = 2 * len(window) + SMALL
                continue
            if run.flaws and self._text.bad.are_fatal:
                yield run.before(run.flaws[0].row)
                keep_flaw(run.flaws[0], self._text.bad)
            yield run
            is_retried = False
            size = min(max(2 * size, SMALL), self._largest)

    def _by_arrow(self, window: bytes, is_final: bool, wanted: list[bool] | None) -> Run | None:
        """The records of a window; None if none is whole."""
        structure = self._scanner.scan(window)
        ends = structure.ends
        if is_final and not structure.is_open and (not len(ends) or ends[-1] < len(window)):
            ends = np.append(ends, len(window))
        if not len(ends):
            return self._without_end(window, is_final)
        end = int(ends[-1])
        if len(structure.odd) and structure.odd.min() < end:
            raise Irregular
        records = window[:end]
        columns = self._cells(records, wanted)
        if structure.is_indented:
            columns = [None if column is None else self._trimmed(column) for column in columns]
        length = next(len(column) for column in columns if column is not None)
        line = self._text.line
        self._text.move(end, int(np.searchsorted(structure.newlines, end)))
        return Run(columns, length, line, origin=_Origin(records, ends, line))

    def _without_end(self, window: bytes, is_final: bool) -> Run | None:
        """A window that ends within the record that it begins with. A quote may be to blame."""
        if is_final or (not self._text.bad.are_fatal and len(window) > LONGEST_OPEN):
            first = window[: window.find(b"\n") + 1 or len(window)]
            return self._by_rows(first if self._dialect.quote is not None else window, True)
        return self._by_rows(window, False) if len(window) > min(LIGHT, self._text.options.max_value_size) else None

    def _cells(self, records: bytes, wanted: list[bool] | None) -> list[pa.Array | None]:
        """The cells of records."""
        dialect = self._dialect
        names = self._names if wanted is None else [self._names[i] for i, is_wanted in enumerate(wanted) if is_wanted]
        names = names or self._names[:1]
        data = records if records.endswith(b"\n") else records + b"\n"
        has_quotes = dialect.quote is not None and dialect.quote.encode() in records
        parsing = pa.csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote if has_quotes else False,
            newlines_in_values=has_quotes,
        )
        conversion = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=names,
            null_values=sorted(dialect.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=dialect.is_by_cell,
        )
        reading = pa.csv.ReadOptions(column_names=self._names, use_threads=self._use_threads, block_size=len(data) + 1)
        try:
            table = pa.csv.read_csv(pa.BufferReader(data), reading, parsing, conversion)
        except pa.ArrowInvalid:
            raise Irregular from None
        columns = {name: column.combine_chunks() for name, column in zip(names, table.columns, strict=True)}
        return [columns.get(name) for name in self._names]

    def _trimmed(self, column: pa.Array) -> pa.Array:
        """Cells without the spaces before them, which may have hidden a null."""
        trimmed = pc.utf8_ltrim(column, SPACES)
        is_null = pc.is_in(trimmed, pa.array(sorted(self._dialect.nulls), pa.string()))
        return pc.if_else(is_null, pa.scalar(None, pa.string()), trimmed)

    def _by_rows(self, window: bytes, is_final: bool) -> Run | None:
        """The records of a window, cut one by one; None if none is whole."""
        text = self._text
        cut = text.cutter.cut(window, text.line, is_final, text.width)
        if not cut.size:
            return None
        text.move(cut.size, cut.lines)
        rows = padded(cut.rows, max([len(self._names), *map(len, cut.rows)]))
        columns: list[Any] = [pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)]
        if not rows:
            columns = [pa.array([], pa.string()) for _ in self._names]
        return Run(columns, len(rows), cut.first_line, cut.flaws, cut)
