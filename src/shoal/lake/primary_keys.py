"""Primary keys: which records of objects have which key.

Two keys are the same if the language says that they are equal: 1, 1.0 and 1 as uint8 are one key. So a key has a
canonical form: a kind and data that are equal exactly if the keys are. Numbers that are whole have the kind of integers
whatever their type. A null, a missing field, an error and a NaN, which equals nothing, are not keys.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import product
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.errors import InvalidInput
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Batch, Part
from shoal.formats.columns.layouts import SHAPE, Layout, Leaf, Slot
from shoal.formats.columns.physical import from_arrow
from shoal.ids import Id
from shoal.lake import column_form, row_form
from shoal.lake.key_columns import SOMEWHERE, find_place
from shoal.lake.keys import Path, getter
from shoal.lake.masks import Rows, hidden_rows
from shoal.lake.objects import DataObject, Form, Purged, RowMask, key_of, missing
from shoal.lake.pools import Pool
from shoal.model import types as t
from shoal.model.literals import DAY
from shoal.model.node import frozen
from shoal.model.text import format_value
from shoal.model.values import MISSING, Value, is_error
from shoal.model.zcode import encode

INTEGER, TEXT, OTHER = "i", "s", "o"
Component = tuple[str, int | str | bytes]
"""The kind of a key, or of one of its fields, and its data."""
_INT64 = (-(1 << 63), (1 << 63) - 1)
_AS_INTEGERS = frozenset((*t.SIGNED, t.UINT8, t.UINT16, t.UINT32, t.DURATION, t.TIME))
"""Types whose columns are integers as they are."""
_CAPACITY = 128 << 20
"""Bytes of keys in the cache."""


def canonical(value: Value | None) -> Component | None:
    """The canonical form of a field of a key; None for what is not a key."""
    if value is None or value.data is None:
        return None
    value = value.under()
    data, typ = value.data, value.type
    if data is None or is_error(value) or value is MISSING:
        return None
    if typ is t.DATE:
        return INTEGER, int(data) * DAY
    if isinstance(typ, t.Enum) or t.is_number(typ):
        return _number(data)
    if typ is t.STRING:
        return TEXT, data
    return OTHER, f"{typ}:".encode() + (encode(typ, data) or b"")


def _number(data: Any) -> Component | None:
    if data != data:
        return None
    if isinstance(data, float):
        data = int(data) if data.is_integer() and abs(data) < 1 << 64 else Decimal(repr(data))
    if isinstance(data, Decimal) and data.is_finite() and data == data.to_integral_value():
        data = int(data)
    if isinstance(data, int) and _INT64[0] <= data <= _INT64[1]:
        return INTEGER, data
    return OTHER, b"number:" + str(Decimal(data).normalize()).encode()


@frozen
class KeyGroup:
    """Rows of an object whose keys have the same kinds."""

    kinds: tuple[str, ...]
    columns: tuple[Any, ...]
    """The data of each field of the keys: int64 of numpy, strings of Arrow, or a list of bytes."""
    rows: Rows
    """The numbers of the rows, ascending."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return int(self.rows.nbytes + sum(getattr(column, "nbytes", 100 * len(self.rows)) for column in self.columns))


def grouped(rows: Sequence[int], keys: Sequence[tuple[Component, ...]]) -> list[KeyGroup]:
    """Keys that come one by one, as groups."""
    by_kinds: dict[tuple[str, ...], tuple[list[int], list[tuple[Any, ...]]]] = {}
    for row, key in zip(rows, keys, strict=True):
        numbers, data = by_kinds.setdefault(tuple(kind for kind, _ in key), ([], []))
        numbers.append(row)
        data.append(tuple(each for _, each in key))
    return [
        KeyGroup(
            kinds,
            tuple(_column(kind, list(each)) for kind, each in zip(kinds, zip(*data, strict=True), strict=True)),
            np.array(numbers, np.int64),
        )
        for kinds, (numbers, data) in by_kinds.items()
    ]


def _column(kind: str, data: list[Any]) -> Any:
    if kind == INTEGER:
        return np.array(data, np.int64)
    return pa.array(data, pa.string()) if kind == TEXT else data


# ---- of objects


_cache: OrderedDict[tuple[Id, RowMask | None, tuple[Path, ...]], list[KeyGroup]] = OrderedDict()
_cached = [0]
_lock = Lock()


def read_keys(pool: Pool, o: DataObject) -> list[KeyGroup]:
    """The primary keys of the records of an object, without hidden ones; the rows are counted with them."""
    paths = pool.config.settings.primary
    name = o.id, o.mask, paths
    with _lock:
        groups = _cache.get(name)
        if groups is not None:
            _cache.move_to_end(name)
            return groups
    try:
        groups = list(_read(pool, o, paths))
    except Purged:
        if not pool.refs().is_purged(o.id):
            raise missing(key_of(pool.prefix, o)) from None
        return []
    with _lock:
        if name not in _cache:
            _cache[name] = groups
            _cached[0] += _size(groups)
        while _cached[0] > _CAPACITY and len(_cache) > 1:
            _cached[0] -= _size(_cache.popitem(last=False)[1])
    return groups


def _size(groups: Iterable[KeyGroup]) -> int:
    return sum(group.nbytes for group in groups)


def _read(pool: Pool, o: DataObject, paths: tuple[Path, ...]) -> Iterator[KeyGroup]:
    hidden = hidden_rows(pool.store, pool.prefix, o)
    slots = _slots(o, paths) if o.form is Form.COLUMNS else None
    if slots is None:
        yield from _read_values(pool, o, paths, hidden)
        return
    leaves = [list(slot.leaves.values()) for slot in slots]
    names = list(dict.fromkeys(leaf.column[0] for each in leaves for leaf in each)) or [SHAPE]
    table = column_form.read_columns(pool.store, pool.prefix, o, names)
    visible = np.ones(o.rows, bool)
    visible[hidden] = False
    for choice in product(*leaves):
        columns = [kernels.whole(kernels.field(table.column(leaf.column[0]), leaf.column[1:])) for leaf in choice]
        present = visible.copy()
        for column in columns:
            if column.null_count:
                present &= kernels.valid_rows(column)
        rows = np.flatnonzero(present)
        if len(rows):
            taken = columns if len(rows) == o.rows else [kernels.take(column, rows) for column in columns]
            yield from _groups_of(rows, [leaf.type for leaf in choice], taken)


def _groups_of(rows: Rows, types: Sequence[t.Type], columns: Sequence[pa.Array]) -> Iterable[KeyGroup]:
    kinds = [INTEGER if typ in _AS_INTEGERS else TEXT if typ is t.STRING else OTHER for typ in types]
    if OTHER not in kinds:
        parts = [
            column.cast(pa.int64()).to_numpy(zero_copy_only=False) if kind == INTEGER else column
            for kind, column in zip(kinds, columns, strict=True)
        ]
        return [KeyGroup(tuple(kinds), tuple(parts), rows)]
    fields = [
        [canonical(Value(typ, data)) for data in from_arrow(typ, column)]
        for typ, column in zip(types, columns, strict=True)
    ]
    keys: Iterable[tuple[Component | None, ...]] = zip(*fields, strict=True)
    return _without_gaps(rows.tolist(), keys)


def _without_gaps(rows: Iterable[int], keys: Iterable[tuple[Component | None, ...]]) -> list[KeyGroup]:
    whole = [(row, key) for row, key in zip(rows, keys, strict=True) if None not in key]
    return grouped([row for row, _ in whole], [key for _, key in whole])  # type: ignore[misc]


def _slots(o: DataObject, paths: Sequence[Path]) -> list[Slot] | None:
    """Where the fields of the key are in columns; None if values have to be looked at one by one."""
    layout: Layout = column_form.object_layout(o)
    slots = []
    for path in paths:
        slot = layout.root
        for name in path:
            if any(_is_open(leaf) for leaf in slot.leaves.values()) or slot.struct is None:
                return None
            if name not in slot.struct.fields:
                return None
            slot = slot.struct.fields[name]
        if slot.struct is not None or any(_is_open(leaf) for leaf in slot.leaves.values()):
            return None
        slots.append(slot)
    return slots


def _is_open(leaf: Leaf) -> bool:
    return isinstance(leaf.type.under, t.Union | t.Map)


def _read_values(pool: Pool, o: DataObject, paths: Sequence[Path], hidden: Rows) -> Iterable[KeyGroup]:
    key_at = key_reader(paths)
    gone = frozenset(hidden.tolist())
    plain = o if o.mask is None else replace(o, mask=None, count=o.rows)
    read = row_form.read if o.form is Form.ROWS else column_form.read
    values = enumerate(read(pool.store, pool.prefix, pool.config.key, plain))
    pairs = [(row, key_at(value)) for row, value in values if row not in gone]
    return _without_gaps([row for row, _ in pairs], [key for _, key in pairs])


def key_reader(paths: Sequence[Path]) -> Callable[[Value], tuple[Component | None, ...]]:
    """What gives the canonical key of a record."""
    getters = [getter(path) for path in paths]
    return lambda value: tuple(canonical(get(value)) for get in getters)


# ---- of what is loaded


def require_keys(batch: Batch, paths: Sequence[Path], start: int) -> None:
    """InvalidInput if a record of a batch has no key; it is named by its number, and `start` come before the batch."""
    lacking = [gap for part in batch.parts for path in paths if (gap := _first_gap(part, path)) is not None]
    if lacking:
        row, path, value = min(lacking, key=lambda each: each[0])
        raise no_key(start + row, path, value)


def _first_gap(part: Part, path: Path) -> tuple[int, Path, Value] | None:
    place = find_place(part.shape, path)
    if place is not SOMEWHERE and place is not None and (place[1].under in _AS_INTEGERS or place[1].under is t.STRING):
        column = kernels.whole(kernels.field(part.column, place[0]))
        gaps = np.flatnonzero(~kernels.valid_rows(column)) if column.null_count else np.zeros(0, np.int64)
        first = int(gaps[0]) if len(gaps) else None
    else:
        get = getter(path)
        values = (Value(part.shape, data) for data in from_arrow(part.shape, part.column))
        first = next((i for i, value in enumerate(values) if canonical(get(value)) is None), None)
    if first is None:
        return None
    (data,) = from_arrow(part.shape, part.column.slice(first, 1))
    return int(part.rows[first]), path, Value(part.shape, data)


def no_key(row: int, path: Path, value: Value) -> InvalidInput:
    """The error of a record that has no primary key."""
    field, text = ".".join(path) or "this", format_value(value)
    shown = text if len(text) <= 100 else f"{text[:100]}..."
    return InvalidInput(f"record {row + 1}: primary key {field} is null or missing in {shown}")
