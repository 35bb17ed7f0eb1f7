"""The cells of CSV text, each of which decides its own type, a column at a time. What a cell is, `csv.reader` says."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.columns.batches import Part
from shoal.formats.columns.parts import check_shapes
from shoal.formats.columns.physical import arrow_type
from shoal.formats.csv.reader import BOOLS
from shoal.formats.go_floats import FIRST_CHARACTERS, parse_cell, parse_go_float
from shoal.model import types as t

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, Any]


def _table_of(characters: Any) -> Mask:
    """For each byte, whether one of the characters begins with it."""
    return np.isin(np.arange(256), [c.encode()[0] for c in characters])


_NUMBER_STARTS = _table_of(FIRST_CHARACTERS)
_BOOL_STARTS = _table_of(BOOLS)


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
    texts = texts.fill_null("") if texts.null_count else texts
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
