"""CSV and TSV into columns, with exactly the result of `csv.reader`.

Where each cell decides its own type, whole columns are sorted into nulls, numbers, bools and strings. A table of
thousands of columns goes through the row reader, and so does the rest of one whose rows have too many types, as sparse
tables do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from shoal.api.options import ReadOptions
from shoal.formats.bad_records import BadRecords
from shoal.formats.columns.batches import Batch, Piece
from shoal.formats.columns.parts import TooManyShapes
from shoal.formats.csv import typed_columns
from shoal.formats.csv.cells import classify, parts
from shoal.formats.csv.delimiters import CANDIDATES
from shoal.formats.csv.dialect import is_by_cell
from shoal.formats.csv.reader import CellRows, cell_values, check_delimiter
from shoal.formats.csv.tables import TableText, keep_before
from shoal.formats.csv.typed_columns import with_flaws
from shoal.formats.csv.windows import Run, Windows, suits_arrow
from shoal.formats.streams import Source
from shoal.model.values import Value


def read(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """The batches of comma-separated text, or of text with another delimiter that is detected."""
    return _read(source, options, CANDIDATES)


def read_tsv(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """Like `read`, separated by tabs."""
    return _read(source, options, "\t")


def _read(source: Source, options: ReadOptions, candidates: str) -> Iterator[Piece]:
    check_delimiter(options)
    if not is_by_cell(options):
        return typed_columns.read(source, options, candidates)
    return _read_cells(source, options, candidates)


def _read_cells(source: Source, options: ReadOptions, candidates: str) -> Iterator[Piece]:
    text = TableText(source, options, candidates, BadRecords(source, options))
    if not text.names:
        return
    if not suits_arrow(text) or text.dialect.types or text.dialect.is_filled:
        yield from cell_values(text)
        return
    for run in Windows(text).runs():
        try:
            batch = _batch(run, text)
        except TooManyShapes:
            yield from _one_by_one(run, text)
            yield from cell_values(text)
            return
        if batch.length:
            yield batch


def _batch(run: Run, text: TableText) -> Batch:
    """The records of a run, and what stands for bad ones."""
    columns = [classify(column) for column in run.columns if column is not None]
    records = parts(text.names, columns) if run.length else ()
    if run.flaws:
        return with_flaws(list(records), run.flaws, set(), text.bad)
    return Batch(records, run.length)


def _one_by_one(run: Run, text: TableText) -> Iterator[Value]:
    """The records of a run that are of too many types."""
    rows = CellRows(text)
    flaws = deque(run.flaws)
    columns = [column.to_pylist() for column in run.columns if column is not None]
    for index, cells in enumerate(zip(*columns, strict=True)):
        yield from keep_before(flaws, index, text.bad)
        yield rows.value(list(cells))
    yield from keep_before(flaws, run.length, text.bad)
