"""The types of columns, and their cells in these types, for whole columns at a time. `column_types` has the rule.

The bytes of a column tell at once whether it can be of a type, and Arrow converts it. What these cannot decide, such as
whether a number with many digits is kept, is looked at cell by cell. A few cells show in advance what a column cannot
be, so that most columns of text cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.columns.physical import arrow_type, to_arrow
from shoal.formats.csv import column_types as rule
from shoal.formats.csv.column_types import BLANKS, BadCell, Guess
from shoal.model import types as t
from shoal.model.literals import DAYS
from shoal.model.zcode import Data

Array = np.ndarray[Any, Any]

_FEW = 64
"""Cells that are looked at first."""
_INT64_DIGITS = 18
"""An int64 holds any number of this many digits."""
_LEAST_TIME = len("2024-01-05T10:00:00Z")


class _Texts:
    """The bytes of a column of texts without nulls."""

    __slots__ = ("content", "sizes", "starts")

    def __init__(self, texts: pa.Array) -> None:
        _, offsets, data = texts.buffers()
        edges = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        self.starts, self.sizes = edges[:-1] - edges[0], np.diff(edges)
        """Where a text begins in the content, and how long it is."""
        self.content = _bytes_of(data)[edges[0] : edges[-1]]

    def at(self, index: int) -> Array:
        """The bytes at this place of all texts, which are long enough; from the end if it is negative."""
        places: Array = self.content[self.starts + (index if index >= 0 else self.sizes + index)]
        return places


def _bytes_of(data: pa.Buffer | None) -> Array:
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def see(guess: Guess, cells: pa.Array, nulls: frozenset[str]) -> None:
    """Take the cells of a column, of which those that are null as they stand are null."""
    if guess.is_settled:
        return
    texts = cells.drop_null() if cells.null_count else cells
    for text in texts[:_FEW].to_pylist():
        guess.see(text, nulls)
    texts = texts[_FEW:]
    if not len(texts) or guess.is_settled:
        return
    texts, has_nulls = _without_nulls(texts, nulls)
    guess.has_texts |= has_nulls
    if not len(texts):
        return
    guess.has_values = True
    # At most one check succeeds: no cell is of two kinds, but for whole numbers.
    results = (check(texts) for kinds, check in _CHECKS if guess.kinds & kinds)
    guess.kinds &= next(filter(None, results), 0)


def _without_nulls(texts: pa.Array, nulls: frozenset[str]) -> tuple[pa.Array, bool]:
    """The texts without blanks around them, and without those that are null unless the column is text."""
    texts = _trimmed(texts)
    is_null = _find_nulls(texts, nulls)
    return (texts, False) if is_null is None else (texts.filter(pc.invert(is_null)), True)


def _find_nulls(texts: pa.Array, nulls: frozenset[str]) -> pa.Array | None:
    """Which texts stand for null, if there are any."""
    if len(nulls) == 1 and not texts.null_count and _Texts(texts).sizes.all():
        return None  # it is the empty text, and there is none
    is_null = pc.is_in(texts, pa.array(sorted(nulls), pa.string()))
    return is_null if pc.any(is_null).as_py() else None


def _trimmed(texts: pa.Array) -> pa.Array:
    content = _bytes_of(texts.buffers()[2])
    return pc.utf8_trim(texts, BLANKS) if any((content == ord(blank)).any() for blank in BLANKS) else texts


# ---- what texts may be


def _numbers(texts: pa.Array) -> int:
    shape = _Texts(texts)
    kinds = _whole_numbers(texts, shape)
    if kinds is not None:
        return kinds
    if not _are_spelt_as_numbers(shape):
        return 0
    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return 0
    if shape.sizes.max() > _INT64_DIGITS:
        whole = texts.filter(pc.match_substring_regex(texts, f"^{rule.WHOLE_PATTERN}$"))
        if not _fit_int64(whole):
            return 0
    return rule.FLOAT if _are_held(texts, numbers, shape) else 0


def _whole_numbers(texts: pa.Array, shape: _Texts) -> int | None:
    """The kinds of numbers that are all whole; None if they are not."""
    is_negative = shape.at(0) == ord("-")
    if np.count_nonzero(shape.content - ord("0") > 9) != np.count_nonzero(is_negative):
        return None
    digits = shape.sizes - is_negative
    if not digits.all():
        return None
    starts_with_zero = shape.content[shape.starts + is_negative] == ord("0")
    if (starts_with_zero & ((digits > 1) | is_negative)).any():
        return None
    if digits.max() > _INT64_DIGITS and not _fit_int64(texts):
        return 0
    is_held = digits.max() <= rule.SAFE_DIGITS or _are_held(texts, texts.cast(pa.float64()), shape)
    return rule.INT | rule.FLOAT if is_held else rule.INT


def _are_spelt_as_numbers(shape: _Texts) -> bool:
    """Whether texts that Arrow reads as numbers are spelt like them: without a plus sign, leading zeros, or words."""
    if not _NUMBER_BYTES[shape.content].all() or (shape.at(0) == ord("+")).any():
        return False
    is_negative = shape.at(0) == ord("-")
    leads = shape.starts + is_negative
    digits = shape.sizes - is_negative
    longer = leads[digits > 1]
    is_zero = shape.content[longer] == ord("0")
    return not (is_zero & (shape.content[longer + 1] - ord("0") <= 9)).any()


_NUMBER_BYTES = np.isin(np.arange(256), list(b"0123456789.eE+-"))


def _fit_int64(texts: pa.Array) -> bool:
    try:
        texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _are_held(texts: pa.Array, numbers: pa.Array, shape: _Texts) -> bool:
    """Whether a float64 holds each of these numbers."""
    sizes = np.abs(numbers.to_numpy())
    if not np.isfinite(sizes).all():
        return False
    doubtful = (shape.sizes > rule.SAFE_DIGITS) | ((sizes < rule.SMALLEST) & (shape.sizes > 1))
    if not doubtful.any():
        return True
    places = pa.array(np.flatnonzero(doubtful))
    texts, numbers = texts.take(places), numbers.take(places)
    # Most numbers are printed as they are written, once zeros at the end do not count.
    is_decimal = pc.match_substring_regex(texts, r"^[^eE]*\.[^eE]*$")
    plain = pc.if_else(is_decimal, pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), "."), texts)
    is_same = pc.equal(plain, numbers.cast(pa.string()))
    return all(map(rule.is_held, texts.filter(pc.invert(is_same)).to_pylist()))


def _bools(texts: pa.Array) -> int:
    distinct = pc.unique(texts) if _Texts(texts).sizes.max() <= len("false") else texts[:0]
    kinds = rule.ANY if 0 < len(distinct) <= 2 else 0
    for text in distinct[:2].to_pylist():
        kinds &= rule.BOOLS[text][0] if text in rule.BOOLS else 0
    return kinds


def _dates(texts: pa.Array) -> int:
    shape = _Texts(texts)
    if not (shape.sizes == len("2024-01-05")).all() or not _have(shape, {4: b"-", 7: b"-"}):
        return 0
    try:
        _to_dates(texts)
    except pa.ArrowInvalid:
        return 0
    return rule.DATE


def _times(texts: pa.Array) -> int:
    if not _are_spelt_as_times(_Texts(texts)):
        return 0
    try:
        _to_times(texts)
    except pa.ArrowInvalid:
        # Arrow does not take the very first instants.
        return rule.TIME if all(rule.kinds_of(text) == rule.TIME for text in texts.to_pylist()) else 0
    return rule.TIME


def _are_spelt_as_times(shape: _Texts) -> bool:
    """Whether texts that Arrow reads as times are spelt like RFC 3339: with a T, seconds and a zone."""
    if (shape.sizes < _LEAST_TIME).any() or not _have(shape, {4: b"-", 7: b"-", 10: b"Tt", 13: b":", 16: b":"}):
        return False
    is_utc = np.isin(shape.at(-1), list(b"Zz"))
    has_offset = np.isin(shape.at(-6), list(b"+-")) & (shape.at(-3) == ord(":"))
    return bool((is_utc | has_offset).all())


def _have(shape: _Texts, marks: dict[int, bytes]) -> bool:
    return all(np.isin(shape.at(index), list(mark)).all() for index, mark in marks.items())


_CHECKS: tuple[tuple[int, Callable[[pa.Array], int]], ...] = (
    (rule.INT | rule.FLOAT, _numbers),
    (rule.LOWER | rule.UPPER | rule.TITLE, _bools),
    (rule.DATE, _dates),
    (rule.TIME, _times),
)


# ---- columns of a type


def convert(
    cells: pa.Array, typ: t.Type, nulls: frozenset[str], is_inferred: bool = False
) -> tuple[pa.Array, list[int]]:
    """The cells as a column in the physical form of a type, and the rows that are not of it, which are null.

    If the type was inferred from the cells, they are known to be spelt like it.
    """
    if typ.under is t.STRING:
        return cells, []
    if cells.null_count == len(cells):
        return pa.nulls(len(cells), arrow_type(typ)), []
    texts = _trimmed(cells)
    if (is_null := _find_nulls(texts, nulls)) is not None:
        texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
    fast = _to_decimals(typ) if isinstance(typ, t.Decimal) else _FAST.get(typ)
    if fast is not None and (is_inferred or _is_plain(texts, typ)):
        try:
            return fast(texts), []
        except pa.ArrowInvalid:
            pass
    return _one_by_one(texts, typ)


def _is_plain(texts: pa.Array, typ: t.Type) -> bool:
    """Whether the texts of a column with a given type are spelt as if it had been inferred."""
    guess = Guess()
    see(guess, texts, frozenset())
    return guess.type() in (t.INT64, t.FLOAT64) if isinstance(typ, t.Decimal) else guess.type() is typ


def _one_by_one(texts: pa.Array, typ: t.Type) -> tuple[pa.Array, list[int]]:
    """The column and the bad rows, for texts of any form: each distinct one is parsed once."""
    encoded = texts.dictionary_encode()
    data: list[Data] = []
    bad: set[int] = set()
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            data.append(rule.parse_cell(text, typ))
        except BadCell:
            data.append(None)
            bad.add(code)
    codes = encoded.indices
    rows = [row for row, code in enumerate(codes.to_pylist()) if code in bad] if bad else []
    return to_arrow(typ, data).take(codes), rows


def _to_bools(texts: pa.Array) -> pa.Array:
    places = pc.index_in(texts, pa.array(rule.BOOLS, pa.string()))
    if places.null_count != texts.null_count:
        raise pa.ArrowInvalid("not a bool")
    return pa.array([value for _, value in rule.BOOLS.values()]).take(places)


def _to_dates(texts: pa.Array) -> pa.Array:
    """Arrow would read the year 0 as well."""
    days = texts.cast(pa.date32())
    low = pc.min(days.cast(pa.int32())).as_py()
    if low is not None and low < DAYS.start:
        raise pa.ArrowInvalid("before the first date")
    return days


def _to_decimals(typ: t.Decimal) -> Callable[[pa.Array], pa.Array]:
    """Digits that the type has no room for are ArrowInvalid."""
    return lambda texts: texts.cast(pa.decimal128(typ.precision, typ.scale))


def _to_times(texts: pa.Array) -> pa.Array:
    return pc.ascii_upper(texts).cast(pa.timestamp("ns", "UTC")).cast(pa.int64())


_FAST: dict[t.Type, Callable[[pa.Array], pa.Array]] = {
    t.INT64: lambda texts: texts.cast(pa.int64()),
    t.FLOAT64: lambda texts: texts.cast(pa.float64()),
    t.BOOL: _to_bools,
    t.DATE: _to_dates,
    t.TIME: _to_times,
}
"""Conversions of whole columns that are spelt as the types are inferred; ArrowInvalid where some cell is not."""
