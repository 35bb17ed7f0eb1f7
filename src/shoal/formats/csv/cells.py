"""The cells of CSV text, a column at a time. What a cell is, `csv.reader` says; here only regular text is dealt with.

Regular means: a quote opens only at the start of a field and closes only at its end, lines end in
`\n` or `\r\n`, and no carriage return is anywhere else. Arrow and `csv.reader` agree on such text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from shoal.formats.columns.batches import Part
from shoal.formats.columns.parts import check_shapes
from shoal.formats.columns.physical import arrow_type
from shoal.formats.csv.reader import BOM, BOOLS, SPACES
from shoal.formats.go_floats import FIRST_CHARACTERS, parse_cell, parse_go_float
from shoal.model import types as t

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, Any]

DELIMITERS = frozenset(map(chr, range(0x20, 0x7F))) - {'"'} | {"\t"}
"""The delimiters that Arrow takes as well."""
_MOST_BYTES = 1 << 30
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'


class Irregular(Exception):
    """Text that only the row reader understands."""


def _table_of(characters: Any) -> Mask:
    """For each byte, whether one of the characters begins with it."""
    return np.isin(np.arange(256), [c.encode()[0] for c in characters])


_SPACE_STARTS = _table_of(SPACES)
"""What begins with these bytes need not be a space."""
_NUMBER_STARTS = _table_of(FIRST_CHARACTERS)
_BOOL_STARTS = _table_of(BOOLS)


def inside_quotes(content: Bytes) -> Mask:
    """Where a quote has been opened; a closing quote is outside."""
    return (np.cumsum(content == _QUOTE, dtype=np.uint8) & 1).astype(bool)


class Layout:
    """Where the quotes and spaces of some whole records are. Raises Irregular where Arrow would read something else."""

    def __init__(self, text: bytes, delimiter: str) -> None:
        self._text = text if text.endswith(b"\n") else text + b"\n"  # Arrow takes no line without an end for the first
        self._delimiter = delimiter
        self._content = np.frombuffer(self._text, np.uint8)
        self._quotes = np.flatnonzero(self._content == _QUOTE) if b'"' in text else np.zeros(0, np.int64)
        self._inside = inside_quotes(self._content) if len(self._quotes) else None
        # Arrow drops a byte order mark wherever its input starts.
        if text.startswith(BOM) or len(text) > _MOST_BYTES:
            raise Irregular
        self._check_line_ends()
        if len(self._quotes):
            self._check_quotes()
        self._is_indented = delimiter not in SPACES and self._has_leading_spaces()

    def _check_line_ends(self) -> None:
        returns = self._text.count(b"\r")
        if returns != self._text.count(b"\r\n"):
            raise Irregular
        if returns and self._inside is not None and self._inside[self._content == _RETURN].any():
            raise Irregular

    def _check_quotes(self) -> None:
        """Quotes open after a delimiter or a line end and close before one, or stand in pairs."""
        if len(self._quotes) % 2:
            raise Irregular
        # Before the first byte is the last one, which ends a line.
        before, after = self._content[self._quotes[::2] - 1], self._content[self._quotes[1::2] + 1]
        outer = (_NEWLINE, _QUOTE, ord(self._delimiter))
        if not np.isin(before, outer).all() or not np.isin(after, (_RETURN, *outer)).all():
            raise Irregular

    def _has_leading_spaces(self) -> bool:
        """Whether spaces may have to go from the start of fields; those inside of quotes have to stay."""
        starts = (self._content == ord(self._delimiter)) | (self._content == _NEWLINE)
        if self._inside is not None:
            starts &= ~self._inside
        firsts = np.append(self._content[1:][starts[:-1]], self._content[:1])
        if not _SPACE_STARTS[firsts[firsts != _RETURN]].any():
            return False
        quoted = self._content[self._quotes[::2] + 1]
        if _SPACE_STARTS[quoted].any():
            raise Irregular
        return True

    def width(self) -> int:
        """How many fields the first record has."""
        choices = pa.csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=self._block_size())
        return int(pa.csv.read_csv(pa.BufferReader(self._text), choices, self._quoting()).num_columns)

    def columns(self, width: int, use_threads: bool) -> list[pa.Array]:
        """The cells as strings. Raises ArrowInvalid if a record has another number of fields, or bad UTF-8."""
        names = [str(i) for i in range(width)]
        choices = pa.csv.ReadOptions(column_names=names, use_threads=use_threads, block_size=self._block_size())
        convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        table = pa.csv.read_csv(pa.BufferReader(self._text), choices, self._quoting(), convert)
        columns = [column.combine_chunks() for column in table.columns]
        return [pc.utf8_ltrim(column, SPACES) for column in columns] if self._is_indented else columns

    def _block_size(self) -> int:
        return len(self._text) + 1

    def _quoting(self) -> Any:
        quoted = self._inside is not None
        return pa.csv.ParseOptions(
            delimiter=self._delimiter, quote_char='"' if quoted else False, newlines_in_values=quoted
        )


# ---- what cells are

_NULL, _NUMBER, _BOOL, _STRING = range(4)
_TYPES = (t.NULL, t.FLOAT64, t.BOOL, t.STRING)
_WORDS = pa.array(BOOLS)
_TRUE = np.array(list(BOOLS.values()))
_LONGEST_WORD = max(map(len, BOOLS))

# The patterns take a cell as a whole. What is odd is only likely to be a number.
_PLAIN = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_DIGITS = r"^[+-]?(?:0[0-9]+|[0-9]{16,})$"
_SIGN_OR_ZERO = np.frombuffer(b"+-0", np.uint8)
_ODD = r"(?si)^[+-]?(?:inf|infinity|nan|0x.*|[0-9.].*_.*)$"


class Cells(NamedTuple):
    """The cells of a column: the kind of each, and what they are if of a kind."""

    kinds: Numbers
    texts: pa.Array
    numbers: Numbers
    bools: Mask


def classify(texts: pa.Array) -> Cells:
    """What each cell is."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    sizes = np.diff(offsets)
    filled = np.flatnonzero(sizes)
    content = np.frombuffer(texts.buffers()[2], np.uint8) if len(filled) else np.zeros(0, np.uint8)
    firsts = content[offsets[filled]]
    cells = Cells(
        np.where(sizes > 0, _STRING, _NULL).astype(np.int8), texts, np.zeros(len(texts)), np.zeros(len(texts), bool)
    )
    numeric = _NUMBER_STARTS[firsts]
    _find_numbers(cells, filled[numeric])
    _keep_digits(cells, filled[numeric], firsts[numeric])
    _find_bools(cells, filled[_BOOL_STARTS[firsts] & (sizes[filled] <= _LONGEST_WORD)])
    return cells


def _some(array: pa.Array, rows: Numbers) -> pa.Array:
    return array if len(rows) == len(array) else array.take(pa.array(rows))


def _find_bools(cells: Cells, rows: Numbers) -> None:
    if not len(rows):
        return
    words = pc.index_in(_some(cells.texts, rows), _WORDS)
    matches = rows[words.is_valid().to_numpy(False)]
    cells.kinds[matches] = _BOOL
    cells.bools[matches] = _TRUE[words.drop_null().to_numpy()]


def _find_numbers(cells: Cells, rows: Numbers) -> None:
    """Which of these rows are numbers. Mostly it is all or none, since a column tends to be of one kind."""
    if not len(rows):
        return
    texts = _some(cells.texts, rows)
    try:
        numbers = texts.cast(pa.float64()).to_numpy()
        if np.isfinite(numbers).all():
            cells.kinds[rows], cells.numbers[rows] = _NUMBER, numbers
            return
    except pa.ArrowInvalid:
        pass
    plain = pc.match_substring_regex(texts, _PLAIN).to_numpy(False)
    numbers = texts.filter(pa.array(plain)).cast(pa.float64()).to_numpy()
    # A number too large for a float is a string.
    fits = np.isfinite(numbers)
    matches = rows[plain][fits]
    cells.kinds[matches], cells.numbers[matches] = _NUMBER, numbers[fits]
    odd = np.flatnonzero(pc.match_substring_regex(texts, _ODD).to_numpy(False))
    for row, text in zip(rows[odd].tolist(), texts.take(pa.array(odd)).to_pylist(), strict=True):
        if (number := parse_go_float(text)) is not None:
            cells.kinds[row], cells.numbers[row] = _NUMBER, number


def _keep_digits(cells: Cells, rows: Numbers, firsts: Numbers) -> None:
    """Digits that a float would change stay text: those with leading zeros, and those beyond its precision."""
    doubtful = np.isin(firsts, _SIGN_OR_ZERO) | (np.abs(cells.numbers[rows]) >= 2.0**53)
    rows = rows[doubtful & (cells.kinds[rows] == _NUMBER)]
    if not len(rows):
        return
    digits = pc.match_substring_regex(_some(cells.texts, rows), _DIGITS).to_numpy(False)
    for row in rows[digits].tolist():
        if parse_cell(cells.texts[row].as_py()) is None:
            cells.kinds[row] = _STRING


# ---- rows of the same kinds


def parts(names: list[str], columns: list[Cells]) -> tuple[Part, ...]:
    """The rows as records, those of the same type together. Raises TooManyShapes."""
    out = []
    groups = _groups([column.kinds for column in columns])
    check_shapes(len(groups), len(columns[0].kinds))
    for rows in groups:
        kinds = [int(column.kinds[rows[0]]) for column in columns]
        shape = t.record(zip(names, (_TYPES[kind] for kind in kinds), strict=True))
        arrays = [_array(kind, column, rows) for kind, column in zip(kinds, columns, strict=True)]
        out.append(Part(shape, pa.StructArray.from_arrays(arrays, fields=list(arrow_type(shape))), rows))
    return tuple(out)


def _array(kind: int, cells: Cells, rows: Numbers) -> pa.Array:
    if kind == _NULL:
        return pa.nulls(len(rows), arrow_type(t.NULL))
    if kind == _STRING:
        return _some(cells.texts, rows)
    return pa.array(cells.numbers[rows] if kind == _NUMBER else cells.bools[rows])


def _groups(kinds: list[Numbers]) -> list[Numbers]:
    """The rows of each combination of kinds."""
    mixed = [column for column in kinds if (column != column[0]).any()]
    keys = np.zeros(len(kinds[0]), np.int64)
    for i, column in enumerate(mixed):
        if i % 16 == 15:  # two bits a column: before there are too many, renumber the keys
            keys = np.unique(keys, return_inverse=True)[1]
        keys = keys * len(_TYPES) + column
    if not mixed:
        return [np.arange(len(keys))]
    _, keys, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return np.split(np.argsort(keys, kind="stable"), np.cumsum(counts)[:-1])
