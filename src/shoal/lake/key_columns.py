"""The pool key in columns: where the rows of a shape have it, and which of them lie between two keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Batch, Part, Rows, batches
from shoal.formats.columns.physical import from_arrow, to_arrow
from shoal.lake import row_form
from shoal.lake.keys import Order, Path, SortKey, compare_in, getter
from shoal.lake.masks import shown_rows
from shoal.lake.objects import DataObject
from shoal.lake.zones import ORDERED
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.values import NULL, Value
from shoal.storage.store import ObjectStore

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

SOMEWHERE: Final = object()


def find_place(shape: t.Type, path: Path) -> Any:
    """The places of the fields that a path leads through and the type at its end; None if there is no such field.

    Inside of unions and maps it depends on the value: SOMEWHERE.
    """
    places = []
    for name in path:
        under = shape.under
        if isinstance(under, t.Union | t.Map):
            return SOMEWHERE
        if not isinstance(under, t.Record) or name not in under.index:
            return None
        places.append(under.index[name])
        shape = under.fields[places[-1]].type
    return SOMEWHERE if isinstance(shape.under, t.Union) else (places, shape)


class KeyInterval(NamedTuple):
    """Keys in the order of the pool: `begin` is in the interval, `end` is not; None means no bound."""

    begin: Value | None = None
    end: Value | None = None

    def holds(self, order: Order, key: Value) -> bool:
        """Whether a key is in it."""
        return (self.begin is None or compare_in(order, key, self.begin) >= 0) and (
            self.end is None or compare_in(order, key, self.end) < 0
        )

    def may_hold(self, order: Order, first: Value, last: Value) -> bool:
        """Whether something between two keys is in it."""
        return (self.begin is None or compare_in(order, last, self.begin) >= 0) and (
            self.end is None or compare_in(order, first, self.end) < 0
        )


EVERYWHERE = KeyInterval()


class NumberedBatch(NamedTuple):
    """Rows of an object, and which of it they are: the number of each, hidden ones being counted."""

    batch: Batch
    rows: Rows


def numbered_rows(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterator[NumberedBatch]:
    """The rows of an object in row form, in its order."""
    rows, start = shown_rows(store, pool, o), 0
    for batch in batches(row_form.read(store, pool, key, o)):
        yield NumberedBatch(batch, rows[start : start + batch.length])
        start += batch.length


def rows_between(numbered: NumberedBatch, key: SortKey, interval: KeyInterval) -> NumberedBatch:
    """The rows of a batch whose first keys are in an interval."""
    batch = numbered.batch
    if interval == EVERYWHERE:
        return numbered
    masks = [_is_between(part, key, interval) for part in batch.parts]
    if all(mask.all() for mask in masks):
        return numbered
    parts = [(p, np.flatnonzero(mask)) for p, mask in zip(batch.parts, masks, strict=True) if mask.any()]
    kept = np.sort(np.concatenate([p.rows[rows] for p, rows in parts])) if parts else np.zeros(0, np.int64)
    return NumberedBatch(Batch(tuple(_taken(part, rows, kept) for part, rows in parts), len(kept)), numbered.rows[kept])


def _taken(part: Part, rows: Rows, kept: Rows) -> Part:
    return Part(part.shape, kernels.take(part.column, rows), np.searchsorted(kept, part.rows[rows]))


def _is_between(part: Part, key: SortKey, interval: KeyInterval) -> Any:
    place = find_place(part.shape, key.paths[0])
    if place is None:
        return np.full(len(part.rows), interval.holds(key.order, NULL))
    ends = [end for end in interval if end is not None]
    if place is not SOMEWHERE and _is_plain(place[1], ends):
        column = kernels.field(part.column, place[0])
        if not kernels.has_nan(column):
            return _compared(column, place[1], key.order, interval)
    get = getter(key.paths[0])
    values = (Value(part.shape, data) for data in from_arrow(part.shape, part.column))
    return np.array([interval.holds(key.order, get(value) or NULL) for value in values], bool)


def _is_plain(typ: t.Type, ends: list[Value]) -> bool:
    under = typ.under
    is_alike = all(end.type.under is under and end.data is not None and end.data == end.data for end in ends)
    return is_alike and under in ORDERED


def _compared(column: pa.Array, typ: t.Type, order: Order, interval: KeyInterval) -> Any:
    """A mask of the rows in an interval. Nulls are the greatest keys."""
    mask = np.ones(len(column), bool)
    for end, is_begin in ((interval.begin, True), (interval.end, False)):
        if end is None:
            continue
        limit = to_arrow(typ, [end.data])[0]
        if is_begin:
            inside = (pc.greater_equal if order == "asc" else pc.less_equal)(column, limit)
        else:
            inside = (pc.less if order == "asc" else pc.greater)(column, limit)
        is_null_in = is_begin if order == "asc" else not is_begin
        mask &= inside.fill_null(is_null_in).to_numpy(zero_copy_only=False)
    return mask
