"""Columns that Arrow made of JSON texts with the same keys, as parts of exact types.

Arrow shows plain values, and arrays of them, as they are, but that integers among floats are floats. What it does not
show is asked of DuckDB: which of the whole numbers in an array were integers, and which keys, in which order, the
objects in an array have. If their keys differ, or if there is more inside of them, the column is blurred.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.columns.batches import Part, Rows
from shoal.formats.columns.parts import all_rows, lists, moved, ranges, records, selected, without_nulls
from shoal.formats.json.text_columns import EXACT_FLOATS, INTEGER_TYPES, TextReader
from shoal.model import types as t

Path = tuple[str, ...]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Keys = dict[Path, list[str]]
Integers = dict[Path, Mask]
"""For columns of floats, the rows in which they are integers."""
_SCALARS: dict[pa.DataType, t.Type] = {
    pa.int64(): t.INT64,
    pa.float64(): t.FLOAT64,
    pa.string(): t.STRING,
    pa.bool_(): t.BOOL,
}
_PLAIN_ELEMENTS = (pa.int64(), pa.string(), pa.bool_())
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)
"""What can be a step of a path with a wildcard, in which there are no escapes."""


class Blurred(Exception):
    """Arrow's view of some rows does not tell their shapes apart."""


def float_columns(column: pa.Array, path: Path) -> Iterator[tuple[Path, pa.Array]]:
    """Columns of floats, which may hold integers. Arrays are not looked into: those of floats are blurred."""
    if pa.types.is_float64(column.type):
        yield path, column
    if pa.types.is_struct(column.type) and not is_blurred(column.type):
        for field, child in zip(column.type, column.flatten(), strict=True):
            yield from float_columns(child, (*path, field.name))


def is_whole(floats: pa.Array) -> Mask:
    """Which of these are whole numbers; nulls are not."""
    numbers = floats.to_numpy(zero_copy_only=False)  # nulls become NaN
    if np.isinf(numbers).any() or np.isnan(numbers).sum() != floats.null_count:
        raise Blurred
    return np.asarray(np.floor(numbers) == numbers)


def is_blurred(typ: pa.DataType) -> bool:
    """Whether the column holds arrays of other than plain scalars."""
    if pa.types.is_list(typ):
        return typ.value_type not in _PLAIN_ELEMENTS
    return pa.types.is_struct(typ) and any(is_blurred(field.type) for field in typ)


def has_short_list(column: pa.Array) -> bool:
    """Whether elements are lost: Arrow 26 drops nulls that come before the first other element of a column."""
    if pa.types.is_list(column.type):
        return bool(column.offsets[-1].as_py() != len(column.values))
    if pa.types.is_struct(column.type):
        return any(has_short_list(column.field(i)) for i in range(column.type.num_fields))
    return False


class Exact:
    """Parts of the columns that Arrow shows exactly, given the keys of objects and which floats are integers."""

    def __init__(self, keys: Keys, integers: Integers) -> None:
        self._keys = keys
        self._integers = integers

    def parts(self, column: pa.Array, path: Path, where: Rows) -> Iterator[Part]:
        """The parts of a column whose items stand in these rows of the group."""
        rows, nulls = without_nulls(column)
        yield from nulls
        if not len(rows) or pa.types.is_null(column.type):
            return
        present = selected(column, rows)
        if pa.types.is_struct(column.type):
            yield from moved(self.structs(present, path, where[rows]), rows)
        elif pa.types.is_list(column.type):
            yield from moved(_plain_lists(present), rows)
        elif path in self._integers:
            yield from moved(_numbers(present, self._integers[path][where[rows]]), rows)
        else:
            yield Part(_SCALARS[column.type], present, rows)

    def structs(self, column: pa.Array, path: Path, where: Rows) -> list[Part]:
        """The parts of a column of objects that are not null."""
        names = self._keys.get(path)
        children = {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}
        if names is None or len(names) != len(children) or set(names) != set(children):
            raise Blurred
        fields = [list(self.parts(children[name], (*path, name), where)) for name in names]
        return records(names, fields, len(column))


def _numbers(column: pa.Array, is_integer: Mask) -> list[Part]:
    """Floats, and integers that Arrow made floats."""
    whole, others = np.flatnonzero(is_integer), np.flatnonzero(~is_integer)
    if not len(whole):
        return [Part(t.FLOAT64, column, others)]
    floats = selected(column, whole)
    if pc.max(pc.abs(floats)).as_py() >= EXACT_FLOATS:
        raise Blurred
    parts = [Part(t.INT64, floats.cast(pa.int64()), whole)]
    return [*parts, Part(t.FLOAT64, selected(column, others), others)] if len(others) else parts


def _plain_lists(column: pa.Array) -> list[Part]:
    inside = _Elements(column)
    present, rows = inside.present, inside.rows
    return lists([Part(_SCALARS[present.type], present, rows)] if len(rows) else [], inside.sizes)


# ---- arrays of which Arrow shows less


class _Elements:
    """The elements of arrays."""

    def __init__(self, column: pa.Array) -> None:
        self.sizes = np.diff(column.offsets.to_numpy())
        """How many each array has."""
        inside = column.flatten()
        self.rows = np.flatnonzero(inside.is_valid().to_numpy(zero_copy_only=False))
        """Where those are that are not null, counted through all arrays."""
        self.present = selected(inside, self.rows)
        """Those that are not null."""


class ArrayReader:
    """Arrays of floats, and of objects that have the same keys and plain values."""

    def __init__(self, texts: TextReader) -> None:
        self._texts = texts

    def parts(self, column: pa.Array, name: str, texts: pa.Array) -> list[Part]:
        """The field of this name in some texts, given what Arrow shows of it. Blurred if that is too little."""
        if not _PLAIN_NAME.fullmatch(name) or has_short_list(column):
            raise Blurred
        rows, nulls = without_nulls(column)
        if not len(rows):
            return nulls
        inside, texts = _Elements(selected(column, rows)), selected(texts, rows)
        if not len(inside.rows):
            return [*nulls, *moved(lists([], inside.sizes), rows)]
        path = f"$.{name}[*]"
        elements = self._structs if pa.types.is_struct(column.type.value_type) else self._floats
        return [*nulls, *moved(lists(moved(elements(inside, path, texts), inside.rows), inside.sizes), rows)]

    def _floats(self, inside: _Elements, path: str, texts: pa.Array) -> list[Part]:
        if not pa.types.is_float64(inside.present.type):
            raise Blurred
        return _numbers(inside.present, self._integers(inside, path, texts))

    def _integers(self, inside: _Elements, path: str, texts: pa.Array) -> Mask:
        """Which of the elements were written as integers. Only arrays with a whole number are asked about."""
        is_whole_number = np.zeros(int(inside.sizes.sum()), bool)
        is_whole_number[inside.rows] = is_whole(inside.present)
        owners = np.repeat(np.arange(len(texts)), inside.sizes)
        asked = np.unique(owners[is_whole_number])
        if len(asked):
            types = self._texts.query("SELECT json_type(x, ?) FROM texts", selected(texts, asked), path)
            sizes = inside.sizes[asked]
            if not np.array_equal(np.diff(types.offsets.to_numpy()), sizes):
                raise Blurred
            places = ranges((np.cumsum(inside.sizes) - inside.sizes)[asked], sizes)
            is_whole_number[places] = pc.is_in(types.flatten(), INTEGER_TYPES).to_numpy(zero_copy_only=False)
        return is_whole_number[inside.rows]

    def _structs(self, inside: _Elements, path: str, texts: pa.Array) -> list[Part]:
        fields = list(inside.present.type)
        if not all(pa.types.is_null(field.type) or field.type in _SCALARS for field in fields):
            raise Blurred
        names = self._names(inside, path, texts)
        if len(names) != len(fields) or set(names) != {field.name for field in fields}:
            raise Blurred
        integers: Integers = {}
        for field, column in zip(fields, inside.present.flatten(), strict=True):
            if pa.types.is_float64(field.type) and is_whole(column).any():
                integers[field.name,] = self._integer_fields(len(column), path, field.name, texts)
        return Exact({(): names}, integers).structs(inside.present, (), all_rows(inside.present))

    def _names(self, inside: _Elements, path: str, texts: pa.Array) -> list[str]:
        """The keys of all objects, which have the same ones in the same order."""
        keys_of_elements = self._texts.query("SELECT json_keys(x, ?) FROM texts", texts, path)
        if not np.array_equal(np.diff(keys_of_elements.offsets.to_numpy()), inside.sizes):
            raise Blurred
        keys = selected(keys_of_elements.flatten(), inside.rows)
        sizes = np.diff(keys.offsets.to_numpy())
        count = int(sizes[0]) if len(sizes) else 0
        if not count or (sizes != count).any():
            raise Blurred
        encoded = keys.flatten().dictionary_encode()
        codes = encoded.indices.to_numpy().reshape(len(sizes), count)
        if (codes != codes[0]).any():
            raise Blurred
        return [encoded.dictionary[code].as_py() for code in codes[0].tolist()]

    def _integer_fields(self, count: int, path: str, name: str, texts: pa.Array) -> Mask:
        """Which values of a field, that all of this many objects have, were written as integers."""
        if not _PLAIN_NAME.fullmatch(name):
            raise Blurred
        types = self._texts.query("SELECT json_type(x, ?) FROM texts", texts, f"{path}.{name}").flatten()
        if len(types) != count:
            raise Blurred
        mask: Mask = pc.is_in(types, INTEGER_TYPES).to_numpy(zero_copy_only=False)
        return mask
