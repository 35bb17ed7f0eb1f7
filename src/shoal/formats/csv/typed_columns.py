"""Tables whose columns have one type each, in columns. `typed_rows` defines the result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from shoal.api.options import ReadOptions
from shoal.formats.bad_records import BadRecords
from shoal.formats.columns.batches import Batch, Part, Piece, Rows, batch_of
from shoal.formats.columns.physical import arrow_type
from shoal.formats.csv import typed_rows
from shoal.formats.csv.column_types import bad_cell
from shoal.formats.csv.guesses import convert, see
from shoal.formats.csv.records import Flaw
from shoal.formats.csv.tables import (
    Columns,
    TableGuess,
    TableText,
    keep_flaw,
    read_table,
    survey_part,
)
from shoal.formats.csv.windows import Run, Windows, suits_arrow
from shoal.formats.streams import Source


def read(source: Source, options: ReadOptions, candidates: str) -> Iterator[Piece]:
    """The records of a table."""
    return read_table(source, options, candidates, _Columns())


def survey(source: Source, options: ReadOptions) -> TableGuess:
    """What the records in a part of a table, whose delimiter and header are known, say about its columns."""
    return survey_part(source, options, _Columns())


class _Columns:
    """Reads a table in two readings."""

    def survey(self, text: TableText, table: TableGuess) -> Iterator[None]:
        """Tell a guess what the records say. A column that is text for sure is not looked at any more."""
        if not suits_arrow(text):
            yield from typed_rows.Rows().survey(text, table)
            return
        given = text.given_types()
        wanted = [typ is None for typ in given]
        for run in Windows(text).runs(wanted):
            for index, cells in enumerate(run.columns):
                guess = table.column(index)
                if cells is not None:
                    see(guess, cells, text.dialect.nulls)
                if index < len(given):
                    wanted[index] = given[index] is None and not guess.is_settled
            yield

    def read(self, text: TableText, columns: Columns) -> Iterator[Piece]:
        """The records, and what stands for bad ones."""
        if not suits_arrow(text):
            yield from typed_rows.Rows().read(text, columns)
            return
        for run in Windows(text).runs():
            if run.length or run.flaws:
                yield from _batches(run, columns, text)


def _batches(run: Run, columns: Columns, text: TableText) -> Iterator[Batch]:
    """The records of a run, and what stands for bad ones."""
    shape = columns.shape()
    given = text.given_types()
    arrays = []
    bad: dict[int, Flaw] = {}
    for index, (name, typ) in enumerate(zip(columns.names, columns.types, strict=True)):
        cells = run.columns[index] if index < len(run.columns) else None
        if cells is None:
            cells = pa.nulls(run.length, pa.string())
        is_inferred = index >= len(given) or given[index] is None
        array, rows = convert(cells, typ, text.dialect.nulls, is_inferred)
        arrays.append(array)
        for row in rows:
            if row not in bad:
                bad[row] = run.flaw(row, bad_cell(name, cells[row].as_py(), typ))
    column = pa.StructArray.from_arrays(arrays, fields=list(arrow_type(shape)))
    if not bad and not run.flaws:
        yield Batch((Part(shape, column, np.arange(run.length)),), run.length)
        return
    if bad and text.bad.are_fatal:
        first = min(bad)
        if first:
            yield from _batches(run.before(first), columns, text)
        keep_flaw(bad[first], text.bad)
    good = np.setdiff1d(np.arange(run.length), np.array(sorted(bad), np.int64))
    parts = [Part(shape, column.take(pa.array(good)), good)] if len(good) else []
    yield with_flaws(parts, [*run.flaws, *bad.values()], set(bad), text.bad)


def with_flaws(parts: list[Part], flaws: list[Flaw], replaced: set[int], bad: BadRecords) -> Batch:
    """Records, with the bad ones among them if they are kept. Each flaw is before the record of its row, or is it."""
    # Between two records there is room for those that were bad: numbers with gaps give the order.
    numbered = sorted(((2 * flaw.row + (flaw.row in replaced), flaw) for flaw in flaws), key=lambda item: item[0])
    kept = [(number, value) for number, flaw in numbered for value in keep_flaw(flaw, bad)]
    numbers = [part.rows * 2 + 1 for part in parts] + [np.array([number for number, _ in kept], np.int64)]
    order = np.argsort(np.concatenate(numbers), kind="stable")
    rows: Rows = np.empty(len(order), np.int64)
    rows[order] = np.arange(len(order))
    moved = np.split(rows, np.cumsum([len(each) for each in numbers])[:-1])
    out = [Part(part.shape, part.column, place) for part, place in zip(parts, moved, strict=False)]
    if kept:
        (errors,) = batch_of([value for _, value in kept]).parts
        out.append(Part(errors.shape, errors.column, moved[-1]))
    return Batch(tuple(out), len(order))
