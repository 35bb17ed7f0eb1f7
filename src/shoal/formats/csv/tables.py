"""Tables: how their text is opened, and how one is read twice to find the types of its columns.

A reading of a table goes through `TableText`, which knows the dialect and the header, and gives the rest in windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.csv.column_types import Guess
from shoal.formats.csv.delimiters import detect_delimiter
from shoal.formats.csv.dialect import (
    SPACES,
    Dialect,
    delimiter_of,
    dialect_of,
    quote_of,
)
from shoal.formats.csv.names import extra_name, unique_names
from shoal.formats.csv.records import Cells, Cut, Cutter, Flaw, ZedCutter
from shoal.formats.csv.text import Ahead, Twice, open_text
from shoal.formats.limits import LIGHT, cell_costs, check_fields, check_text
from shoal.formats.metering import pass_over
from shoal.formats.streams import CHUNK, Source
from shoal.model import types as t
from shoal.model.values import Value

_T_co = TypeVar("_T_co", covariant=True)


# ---- what is known of a table


@dataclass(slots=True)
class TableGuess:
    """What records say about the columns of a table. It can be pickled, and joined with that of other records."""

    guesses: list[Guess] = field(default_factory=list)
    lines: int = 0
    """Lines of the text."""

    def column(self, index: int) -> Guess:
        """What is known of a column."""
        while len(self.guesses) <= index:
            self.guesses.append(Guess())
        return self.guesses[index]

    def join(self, other: TableGuess) -> None:
        """Take what other records say."""
        for index, guess in enumerate(other.guesses):
            self.column(index).join(guess)


@dataclass(slots=True)
class Columns:
    """The columns of a table."""

    names: list[str]
    types: list[t.Type]

    def shape(self) -> t.Record:
        """The type of its records."""
        return t.record(zip(self.names, self.types, strict=True))


def columns_of(names: list[str], given: list[t.Type | None], table: TableGuess, is_text: bool) -> Columns:
    """The columns of a table; those without a given type have the type of their cells, unless all of it is text.

    Cells beyond the names make columns of their own, if there is something in them.
    """
    kinds = [table.column(index).type() for index in range(max(len(names), len(table.guesses)))]
    while len(kinds) > len(names) and kinds[-1] is t.NULL:
        kinds.pop()  # a delimiter at the end of lines makes no column
    if is_text:
        kinds = [t.STRING] * len(kinds)
    types = [typ or kind for typ, kind in zip(given, kinds, strict=False)]
    added = [extra_name(index) for index in range(len(names), len(kinds))]
    return Columns(unique_names([*names, *added]), [*types, *kinds[len(names) :]])


# ---- the text of a table


class TableText:
    """The text of a table: its dialect, its header, and the records after it in windows."""

    def __init__(self, source: Source, options: ReadOptions, candidates: str, bad: BadRecords) -> None:
        """`candidates` are the delimiters that it may have."""
        quote = quote_of(options)
        self._source = Ahead(open_text(source, options, quote))
        chosen = options.csv_delimiter
        if chosen is None:
            chosen = detect_delimiter(self._source, quote, candidates) if len(candidates) > 1 else candidates
        self.dialect: Dialect = dialect_of(options, delimiter_of(chosen, quote))
        self.options = options
        self.bad = bad
        self._costs = cell_costs(self.dialect.delimiter)
        self._long = min(LIGHT, options.max_value_size)
        self._pending = b""
        self._is_ended = False
        self.line = bad.first_line
        """The number of the next line."""
        self.names: list[str] = []
        """The names of the columns; none if there is no record at all."""
        self.cutter = self._make_cutter(self.dialect)
        self._take_header()

    def _make_cutter(self, dialect: Dialect) -> Cutter:
        kind = ZedCutter if dialect.is_by_cell else Cutter
        return kind(dialect, self.options, self.bad.is_part)

    @property
    def width(self) -> int | None:
        """How many fields each record has to have; None for any number."""
        return None if self.dialect.is_filled else len(self.names)

    def given_types(self) -> list[t.Type | None]:
        """The types of the columns that options give."""
        return self.dialect.column_types(self.names)

    def window(self, size: int, *, is_patient: bool = True) -> tuple[bytes, bool]:
        """About this many of the next bytes, and whether nothing follows them. They stay until they are passed.

        Without patience they may be fewer, if no more have come yet, but some that are new.
        """
        missing = size - len(self._pending)
        parts = [self._pending]
        while missing > 0 and not self._is_ended:
            part = self._source.read(missing)
            self._is_ended = not part
            parts.append(part)
            missing -= len(part) if is_patient else size
        if len(parts) > 1:
            self._pending = b"".join(parts)
        if len(self._pending) > size:
            return self._pending[:size], False
        if len(self._pending) > self._long and b"\n" not in self._pending:
            check_text(self._pending, self.options, f"line {self.line}", self._costs)
        return self._pending, self._is_ended

    def move(self, size: int, lines: int) -> None:
        """Go on after this many bytes, which are some whole lines."""
        self._pending = self._pending[size:]
        self.line += lines

    def cuts(self) -> Iterator[Cut]:
        """The records after the header, some at a time, as soon as they come."""
        size = CHUNK
        while True:
            window, is_final = self.window(size, is_patient=False)
            if not window:
                if is_final:
                    return
                continue
            cut = self.cutter.cut(window, self.line, is_final, self.width)
            if cut.size:
                self.move(cut.size, cut.lines)
                yield cut
                size = CHUNK
            else:
                size = 2 * len(window) + CHUNK

    def _take_header(self) -> None:
        """Learn the names of the columns from the options, or from the first record."""
        dialect = self.dialect
        if dialect.names is not None:
            self.names = list(dialect.names)
            return
        cutter = self._make_cutter(dialect.without_nulls())
        size = CHUNK
        while not self.names:
            window, is_final = self.window(size, is_patient=False)
            cut = cutter.cut(window, self.line, is_final, None, most=1)
            if cut.flaws and (not cut.rows or cut.flaws[0].row == 0):
                raise InvalidInput(f"line {cut.flaws[0].line}: {cut.flaws[0].error}")
            if cut.rows:
                first = [(cell or "").lstrip(SPACES) for cell in cut.rows[0]]
                check_fields(len(first), f"line {self.line + cut.spans[0][0]}")
                self.names = dialect.column_names(first)
                if not dialect.has_header:
                    return
            self.move(cut.size, cut.lines)
            if is_final and not cut.size:
                return
            size = CHUNK if cut.size else 2 * len(window) + CHUNK


# ---- reading twice


class Reader(Protocol, Generic[_T_co]):
    """Reads a table in two readings."""

    def survey(self, text: TableText, table: TableGuess) -> Iterator[None]:
        """Tell a guess what the records say. It stops now and then, when it holds nothing of what it has read."""

    def read(self, text: TableText, columns: Columns) -> Iterator[_T_co]:
        """The records, with the types of the columns."""


def read_table(source: Source, options: ReadOptions, candidates: str, reader: Reader[_T_co]) -> Iterator[_T_co]:
    """What is in a table with one type for each column. If types depend on cells, they are all read before."""
    bad = BadRecords(source, options)
    is_text = options.csv_infer == "text"
    with closing(Twice(source)) as twice:
        text = TableText(twice.first(), options, candidates, bad)
        if not text.names:
            return
        given = text.given_types()
        table = TableGuess()
        if is_surveyed(text, options):
            for _ in reader.survey(text, table):
                twice.passed()
            text = TableText(twice.second(), options, candidates, bad)
        yield from reader.read(text, columns_of(text.names, given, table, is_text))


def is_surveyed(text: TableText, options: ReadOptions) -> bool:
    """Whether all cells of a table are read before its columns are known."""
    return text.dialect.is_filled or (options.csv_infer != "text" and None in text.given_types())


def survey_part(source: Source, options: ReadOptions, reader: Reader[object]) -> TableGuess:
    """What the records in a part of a table say about its columns, and how many lines it has."""
    bad = BadRecords(source, options)
    text = TableText(source, options, ",", bad)
    table = TableGuess()
    for _ in reader.survey(text, table):
        pass_over(source)
    table.lines = text.line - bad.first_line
    return table


def check_flaws(flaws: list[Flaw], bad: BadRecords) -> None:
    """Raise the error of the first bad record, if it is fatal."""
    if flaws and bad.are_fatal:
        keep_flaw(flaws[0], bad)


def keep_flaw(flaw: Flaw, bad: BadRecords) -> tuple[Value, ...]:
    """The value that stands for a bad record, if there is one; raises its error if it is fatal."""
    return bad.take(flaw.line, flaw.text, flaw.error)


def keep_before(flaws: deque[Flaw], row: int, bad: BadRecords) -> Iterator[Value]:
    """What stands for the bad records before the one of this number."""
    while flaws and flaws[0].row <= row:
        yield from keep_flaw(flaws.popleft(), bad)


def padded(rows: list[Cells], width: int) -> list[Cells]:
    """Records of at least this length."""
    return [row if len(row) >= width else row + [None] * (width - len(row)) for row in rows]
