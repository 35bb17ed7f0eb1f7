"""Some fields of JSON lines, without columns of the others. Arrow's parser reads the lines once, and refuses bad ones.

It is told the names and types of the fields; the types are guessed from the first lines. If a guess is wrong, or a line
is not one object, or a field is not a plain value, the lines have to be decoded as a whole. What Arrow does not tell is
asked of DuckDB: whether a field without a value is null or missing, and whether a whole number was written as one.

Arrow 26 crashes on a null at the top that comes first, so nothing but objects is given to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from shoal.formats.columns.batches import Part, Rows
from shoal.formats.columns.parts import moved, records, rows_by_code, selected, without_nulls
from shoal.formats.columns.physical import arrow_type
from shoal.formats.json.text_columns import EXACT_FLOATS, INTEGER_TYPES, OBJECT, PROBED, TextReader, kinds_of, pointer
from shoal.lazy import lazy
from shoal.model import types as t

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = lazy("duckdb")

_TYPES: dict[pa.DataType, t.Type] = {
    pa.null(): t.NULL, pa.int64(): t.INT64, pa.float64(): t.FLOAT64, pa.string(): t.STRING, pa.bool_(): t.BOOL,
}  # fmt: skip
"""What fields may be, from the narrowest type on."""
_NO_FIELD = "\0"
"""Stands for the fields where none is used: without a field Arrow would count no rows."""
_NEAR = 64
"""Bytes between the places where long numbers are looked for; and before a word, where it is looked for what it is."""
_MOST_NAMES = 50
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class FieldReader:
    """Reads the fields of some names. One for each thread: it may hold a database connection."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._schema: pa.Schema | None = None
        self._has_given_up = "" in self._names or len(self._names) > _MOST_NAMES
        self._texts: TextReader | None = None
        self._kinds: dict[str, pa.Array] = {}

    def close(self) -> None:
        """Let go of the connection."""
        if self._texts is not None:
            self._texts.close()

    def parts(self, texts: pa.Array) -> list[Part] | None:
        """Records of just the fields, grouped by shape; None if the texts have to be decoded as a whole."""
        if self._has_given_up or not (kinds_of(texts) == OBJECT).all():
            return None
        lines = _lines(texts)
        try:
            self._schema = self._schema or self._guess(texts)
            if self._schema is None or _has_odd_numbers(lines.to_pybytes()):
                return None
            table = _parse(lines, self._schema)
            if table.num_rows != len(texts):
                return None
            self._kinds = {}
            return self._records(texts, {name: _whole(table.column(name)) for name in self._names})
        except pa.ArrowInvalid:
            self._schema = None  # the next lines may have other types
            return None

    def _guess(self, texts: pa.Array) -> pa.Schema | None:
        """The types of the fields, by the first lines; None if some have values of several types, or with parts."""
        first = _lines(texts.slice(0, PROBED))
        fields = [(name, _plain_type(first, name)) for name in self._names] or [(_NO_FIELD, pa.null())]
        self._has_given_up = any(typ is None for _, typ in fields)
        return None if self._has_given_up else pa.schema(fields)

    def _records(self, texts: pa.Array, columns: dict[str, pa.Array]) -> list[Part]:
        """Records by the fields that they have."""
        missing = {name: self._missing(texts, name, column) for name, column in columns.items()}
        patterns = np.zeros(len(texts), np.int64)
        for mask in missing.values():
            patterns = patterns * 2 if mask is None else patterns * 2 + mask
        parts: list[Part] = []
        for _, rows in rows_by_code(patterns):
            present = [name for name, mask in missing.items() if mask is None or not mask[rows[0]]]
            fields = [list(self._field(texts, name, selected(columns[name], rows), rows)) for name in present]
            parts += moved(records(present, fields, len(rows)), rows)
        return parts

    def _missing(self, texts: pa.Array, name: str, column: pa.Array) -> Mask | None:
        """Which rows lack a field; None if none do."""
        if not column.null_count:
            return None
        mask: Mask = self._kinds_of(texts, name).is_null().to_numpy(zero_copy_only=False)
        return mask

    def _field(self, texts: pa.Array, name: str, column: pa.Array, where: Rows) -> Iterator[Part]:
        """A field that all of some rows have."""
        rows, nulls = without_nulls(column)
        yield from nulls
        if not len(rows):
            return
        present = selected(column, rows)
        if column.type != pa.float64():
            yield Part(_TYPES[column.type], present, rows)
            return
        items = present.to_numpy()
        is_integer = np.floor(items) == items
        if is_integer.any():
            kinds = selected(self._kinds_of(texts, name), where[rows])
            is_integer &= pc.is_in(kinds, INTEGER_TYPES).to_numpy(zero_copy_only=False)
        for typ, own in ((t.INT64, np.flatnonzero(is_integer)), (t.FLOAT64, np.flatnonzero(~is_integer))):
            if typ is t.INT64 and len(own) and np.abs(items[own]).max() >= EXACT_FLOATS:
                raise pa.ArrowInvalid("an integer that a float does not hold")
            if len(own):
                yield Part(typ, selected(present, own).cast(arrow_type(typ)), rows[own])

    def _kinds_of(self, texts: pa.Array, name: str) -> pa.Array:
        """What JSON has at a name, for each text; null if nothing. All texts are asked, so each is one value."""
        if self._texts is None:
            self._texts = TextReader()
        if name not in self._kinds:
            try:
                self._kinds[name] = self._texts.query("SELECT json_type(x, ?) FROM texts", texts, pointer(name))
            except duckdb.Error as e:
                raise pa.ArrowInvalid(str(e)) from None
        return self._kinds[name]


def _lines(texts: pa.Array) -> pa.Buffer:
    """The texts as they are in memory, end to end."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    start, end = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    return texts.buffers()[2].slice(start, end - start)


def _parse(lines: pa.Buffer, schema: pa.Schema) -> pa.Table:
    reading = pj.ReadOptions(use_threads=False, block_size=max(lines.size, 1) + 1)
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pj.read_json(pa.BufferReader(lines), reading, parsing)


def _plain_type(lines: pa.Buffer, name: str) -> pa.DataType | None:
    """The first type that all values of a field have; None if there is none."""
    for typ in _TYPES:
        try:
            _parse(lines, pa.schema([(name, typ)]))
        except pa.ArrowInvalid:
            continue
        return typ
    return None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# ---- what Arrow accepts in a field that it ignores, though it is not JSON


def _has_odd_numbers(data: bytes) -> bool:
    """Whether there may be a number that is not JSON, or that is beyond float64."""
    return _has_word(data, b"NaN") or _has_word(data, b"Inf") or _has_long_number(data)


def _has_word(data: bytes, word: bytes) -> bool:
    """Whether a word stands where a value may begin."""
    place = data.find(word)
    while place >= 0:
        before = data[max(0, place - _NEAR) : place].rstrip(b" \t\r\n-")
        if not before or before[-1:] in b":,[":
            return True
        place = data.find(word, place + 1)
    return False


def _has_long_number(data: bytes) -> bool:
    """Whether a number has more digits before its point than a float64 can hold, which is more than 300.

    Only every 64th byte is read. Such a number covers at least four of these in a row.
    """
    sampled = np.frombuffer(data, np.uint8)[::_NEAR]
    is_digit = (sampled >= ord("0")) & (sampled <= ord("9"))
    starts = np.flatnonzero(is_digit[:-3] & is_digit[1:-2] & is_digit[2:-1] & is_digit[3:]) * _NEAR
    return any(data[start : start + 3 * _NEAR].isdigit() for start in starts.tolist())
