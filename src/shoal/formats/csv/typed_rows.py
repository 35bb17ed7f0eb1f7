"""Tables whose columns have one type each, record by record. This defines what `typed_columns` reads faster."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from shoal.api.options import ReadOptions
from shoal.formats.csv.column_types import BadCell, bad_cell, parser
from shoal.formats.csv.records import Cut
from shoal.formats.csv.tables import (
    Columns,
    TableGuess,
    TableText,
    check_flaws,
    keep_before,
    keep_flaw,
    padded,
    read_table,
)
from shoal.formats.streams import Source
from shoal.model.values import Value
from shoal.model.zcode import Data


def read(source: Source, options: ReadOptions, candidates: str) -> Iterator[Value]:
    """The records of a table."""
    return read_table(source, options, candidates, Rows())


class Rows:
    """Reads a table in two readings."""

    def survey(self, text: TableText, table: TableGuess) -> Iterator[None]:
        """Tell a guess what the records say."""
        nulls = text.dialect.nulls
        for cut in text.cuts():
            check_flaws(cut.flaws, text.bad)
            for row in cut.rows:
                for index, cell in enumerate(row):
                    guess = table.column(index)
                    if cell is not None:
                        guess.see(cell, nulls)
            yield

    def read(self, text: TableText, columns: Columns) -> Iterator[Value]:
        """The records, and what stands for bad ones."""
        shape = columns.shape()
        parsers = [parser(typ, text.dialect.nulls) for typ in columns.types]
        for cut in text.cuts():
            flaws = deque(cut.flaws)
            for index, row in enumerate(padded(cut.rows, len(parsers))):
                yield from keep_before(flaws, index, text.bad)
                data: list[Data] = []
                try:
                    for parse, cell in zip(parsers, row, strict=False):
                        data.append(parse(cell))
                except BadCell:
                    yield from _kept(cut, index, len(data), text, columns)
                    continue
                yield Value(shape, tuple(data))
            yield from keep_before(flaws, len(cut.rows), text.bad)


def _kept(cut: Cut, row: int, column: int, text: TableText, columns: Columns) -> tuple[Value, ...]:
    """What stands for a record with a bad cell."""
    error = bad_cell(columns.names[column], cut.rows[row][column] or "", columns.types[column])
    return keep_flaw(cut.flaw(row, error), text.bad)
