"""Columns grouped by shape: how the parts of fields and elements combine into parts of records and arrays.

Rows are offsets in the run that a column covers. A row is in exactly one part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from shoal.formats.columns import kernels
from shoal.formats.columns.batches import MANY_SHAPES, Part, Rows
from shoal.formats.columns.physical import arrow_type, list_array
from shoal.model import types as t

Sizes = np.ndarray[Any, Any]


class TooManyShapes(Exception):
    """The values of one column, or the elements of its arrays, have more shapes than the columnar path is made for."""


def check_shapes(shapes: int, rows: int) -> None:
    """Raise TooManyShapes if decoding rows of this number of shapes one by one is faster."""
    if shapes > max(MANY_SHAPES, rows // ROWS_PER_SHAPE):
        raise TooManyShapes


ROWS_PER_SHAPE = 48
"""A shape with fewer rows is not worth columns of its own: decoding them one by one is faster."""


def all_rows(column: pa.Array) -> Rows:
    """Every place in a column."""
    return np.arange(len(column), dtype=np.int64)


def selected(column: pa.Array, rows: Rows) -> pa.Array:
    """The items at these places; the column itself if that is all of them."""
    return column if len(rows) == len(column) else kernels.take(column, rows)


def groups(column: pa.Array, spelling: tuple[str, str] = ("", "")) -> list[tuple[str, Rows]]:
    """Distinct texts and the rows that have them; texts that differ in spelling only are one."""
    encoded = column.dictionary_encode()
    old, new = spelling
    spelled = [name.replace(old, new) if old else name for name in encoded.dictionary.to_pylist()]
    names = list(dict.fromkeys(spelled))
    if len(names) == 1:
        return [(names[0], all_rows(column))]
    codes = encoded.indices.to_numpy()
    if len(names) < len(spelled):
        place = {name: i for i, name in enumerate(names)}
        codes = np.array([place[name] for name in spelled])[codes]
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes, minlength=len(names))
    ends = np.cumsum(sizes)
    return [(name, order[end - size : end]) for name, end, size in zip(names, ends, sizes, strict=True)]


def rows_by_code(codes: np.ndarray[Any, Any]) -> list[tuple[int, Rows]]:
    """Each number that occurs, ascending, and the rows that have it, ascending."""
    numbers = kernels.distinct(codes)
    if len(numbers) <= _FEW_CODES:
        return [(number, np.flatnonzero(codes == number)) for number in numbers]
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], numbers[1:])
    return list(zip(numbers, np.split(order, starts), strict=True))


_FEW_CODES = 16
"""Up to here it is faster to look for each number than to sort."""


def moved(parts: list[Part], rows: Rows) -> list[Part]:
    """Parts of a selection, as parts of what it was selected from."""
    return [Part(p.shape, p.column, rows[p.rows]) for p in parts]


def merged(parts: list[Part]) -> list[Part]:
    """One part for each shape."""
    by_shape: dict[t.Type, list[Part]] = {}
    for part in parts:
        by_shape.setdefault(part.shape, []).append(part)
    return [same[0] if len(same) == 1 else _concatenated(same) for same in by_shape.values()]


def _concatenated(parts: list[Part]) -> Part:
    rows = np.concatenate([p.rows for p in parts])
    column = pa.concat_arrays([p.column for p in parts])
    order = np.argsort(rows, kind="stable")
    return Part(parts[0].shape, column.take(pa.array(order)), rows[order])


def without_nulls(column: pa.Array) -> tuple[Rows, list[Part]]:
    """The rows that are not null, and a part for those that are: nulls of no type."""
    if not column.null_count:
        return all_rows(column), []
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    nulls = np.flatnonzero(~valid)
    return np.flatnonzero(valid), [Part(t.NULL, pa.nulls(len(nulls), arrow_type(t.NULL)), nulls)]


# ---- records


def records(keys: list[str], fields: list[list[Part]], length: int) -> list[Part]:
    """Records of fields that are each parted by shape: a shape for each combination that occurs."""
    fields = [merged(parts) for parts in fields]
    if all(len(parts) == 1 for parts in fields):
        rows = np.arange(length, dtype=np.int64)
        return [_record(keys, [p[0].shape for p in fields], [p[0].column for p in fields], rows)]
    places = [_places(parts, length) for parts in fields]
    combined = np.zeros(length, np.int64)
    for (codes, _), parts in zip(places, fields, strict=True):
        if len(parts) > 1:
            combined = np.unique(combined * len(parts) + codes, return_inverse=True)[1]
    check_shapes(int(combined.max()) + 1, length)
    out = []
    for _, rows in rows_by_code(combined):
        chosen = [parts[codes[rows[0]]] for (codes, _), parts in zip(places, fields, strict=True)]
        columns = [p.column.take(pa.array(within[rows])) for p, (_, within) in zip(chosen, places, strict=True)]
        out.append(_record(keys, [p.shape for p in chosen], columns, rows))
    return out


def _record(keys: list[str], shapes: list[t.Type], columns: list[pa.Array], rows: Rows) -> Part:
    shape = t.record(zip(keys, shapes, strict=True))
    if not keys:
        return Part(shape, pa.array(np.ones(len(rows), bool)), rows)
    return Part(shape, pa.StructArray.from_arrays(columns, fields=list(arrow_type(shape))), rows)


def _places(parts: list[Part], length: int) -> tuple[Rows, Rows]:
    """For each row, which part it is in and at which place there; -1 where it is in none."""
    codes = np.full(length, -1, np.int64)
    within = np.full(length, -1, np.int64)
    for i, part in enumerate(parts):
        codes[part.rows] = i
        within[part.rows] = np.arange(len(part.rows))
    return codes, within


# ---- arrays


def lists(elements: list[Part], sizes: Sizes) -> list[Part]:
    """Arrays of elements that are parted by shape: a shape for each combination that an array has."""
    count = int(sizes.sum())
    codes, within = _places(elements, count)
    masks = _shape_sets(codes, sizes, len(elements))
    starts = np.cumsum(sizes) - sizes
    out = []
    for mask, rows in rows_by_code(masks):
        inside = np.arange(count) if len(rows) == len(sizes) else ranges(starts[rows], sizes[rows])
        members = [i for i in range(len(elements)) if mask >> i & 1]
        shape, values = _elements(elements, members, codes[inside], within[inside])
        out.append(Part(shape, list_array(arrow_type(shape), sizes[rows], values, None), rows))
    return out


def _shape_sets(codes: Rows, sizes: Sizes, kinds: int) -> Rows:
    """For each array, the shapes of its elements as a set of bits; nulls do not count."""
    if kinds > 62:
        raise TooManyShapes
    bits = np.where(codes >= 0, np.left_shift(1, np.maximum(codes, 0)), 0)
    out = np.zeros(len(sizes), np.int64)
    filled = np.flatnonzero(sizes)
    if len(filled):
        starts = (np.cumsum(sizes) - sizes)[filled]
        out[filled] = np.bitwise_or.reduceat(bits, starts)
    return out


def ranges(starts: Rows, sizes: Sizes) -> Rows:
    """The numbers start, start + 1, ... of each range, end to end."""
    total = int(sizes.sum())
    shift = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    out: Rows = np.arange(total, dtype=np.int64) + shift
    return out


def _elements(elements: list[Part], members: list[int], codes: Rows, within: Rows) -> tuple[t.Type, pa.Array]:
    """The array type and the elements, laid end to end, of arrays with elements of these shapes."""
    if not members:
        return t.array(t.NULL), pa.nulls(len(codes), arrow_type(t.NULL))
    if len(members) == 1:
        part = elements[members[0]]
        return t.array(part.shape), _taken(part.column, within, codes == members[0])
    union = t.union(elements[i].shape for i in members)
    tag_of = np.full(len(elements) + 1, -1, np.int16)
    for i in members:
        tag_of[i] = union.tags[elements[i].shape]
    null = codes < 0
    tags = pa.array(tag_of[codes], pa.int16(), mask=null)
    by_tag = {union.tags[elements[i].shape]: i for i in members}
    columns = [_taken(elements[by_tag[tag]].column, within, codes == by_tag[tag]) for tag in range(len(union.types))]
    return t.array(union), kernels.structs(arrow_type(union), [tags, *columns], null, len(codes))


def _taken(column: pa.Array, places: Rows, wanted: np.ndarray[Any, Any]) -> pa.Array:
    """Items of a column at these places; null where they are not wanted."""
    if not wanted.all():
        return column.take(pa.array(places, mask=~wanted))
    whole = len(places) == len(column) and bool((places == np.arange(len(column))).all())
    return column if whole else column.take(pa.array(places))
