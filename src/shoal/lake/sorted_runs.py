"""What becomes one object or two: values in columns by shape, others encoded as rows, and the order of their keys.

Rows are counted through the columns of all shapes, one shape after the other, and then through the encoded rows.
Values are encoded where a column would not be worth it: there are too many shapes, or one that is too wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Rows
from shoal.formats.columns.fusion import Fuser, MapAll
from shoal.formats.columns.layouts import Layout, choose_shapes, layout_of, named_layout
from shoal.formats.columns.parts import rows_by_code
from shoal.formats.columns.physical import arrow_type, from_arrow, to_arrow
from shoal.lake.column_registry import ColumnRegistry
from shoal.lake.identities import Origins
from shoal.lake.key_columns import SOMEWHERE, find_place
from shoal.lake.key_order import stable_order
from shoal.lake.keys import Key, SortKey, is_ranged, key_getter, sorted_indices
from shoal.lake.lineage import Lineage
from shoal.lake.zones import ORDERED
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.model.values import Value
from shoal.model.zcode import Data, encode


class EncodedRow(NamedTuple):
    """A value in its binary form."""

    key: Key
    type: t.Type
    body: bytes | None


@dataclass(slots=True)
class ShapeColumns:
    """The values of one shape, with the order of their arrival."""

    columns: list[pa.Array] = field(default_factory=list)
    arrivals: list[Rows] = field(default_factory=list)

    def column(self) -> pa.ChunkedArray:
        """All of the values."""
        return pa.chunked_array(self.columns)


@dataclass(slots=True)
class EncodedRows:
    """Values in their binary form, with the order of their arrival."""

    rows: list[EncodedRow] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)


class SortedRun:
    """The values of a run, and the order of their keys. Threads may sort it and prepare it at the same time."""

    def __init__(
        self,
        key: SortKey,
        registry: ColumnRegistry,
        shapes: dict[t.Type, ShapeColumns],
        encoded: EncodedRows,
        most_shapes: int,
        most_columns: int,
        origins: Origins | None = None,
        begun: int = 0,
    ) -> None:
        """Shapes beyond the most that a layout has, by their number or that of columns, go to the row form.

        `origins` says what the values were before, in the order of their arrival, which `begun` with this number.
        """
        # The most frequent shapes are sure to be held by the layout. It has them in the order of their texts, so that
        # objects with the same shapes have the same layout, and can be read by one query.
        counts = {shape: sum(map(len, held.columns)) for shape, held in shapes.items()}
        frequent = sorted(shapes, key=lambda shape: -counts[shape])
        self.limit = choose_shapes(frequent, most_shapes, most_columns)
        self.shapes = [*sorted(frequent[: self.limit], key=format_type), *frequent[self.limit :]]
        self.columns = [shapes[shape].column() for shape in self.shapes]
        self._encoded: Sequence[EncodedRow] = encoded.rows
        arrivals = [a for shape in self.shapes for a in shapes[shape].arrivals]
        self._key = key
        self.ends = np.cumsum([len(c) for c in self.columns], dtype=np.int64)
        self._in_columns = int(self.ends[-1]) if len(self.ends) else 0
        self._arrivals = np.concatenate([*arrivals, np.array(encoded.arrivals, np.int64)])
        self._origins = None if origins is None else origins.taken(self._arrivals - begun)
        self._fuser: Fuser | None = None
        self._layout: Layout | None = None
        self._registry = registry
        self.ids: tuple[int, ...] = ()
        """The field ids of the columns of the layout."""

    def prepare(self, map_all: MapAll = map) -> None:
        """Put the columns of the layout together, under the names that the pool has for them."""
        if self.limit and self._fuser is None:
            shapes = tuple(self.shapes[: self.limit])
            columns = self._registry.register(layout_of(shapes))
            self._layout = named_layout(shapes, tuple(column.name for column in columns))
            self.ids = tuple(column.id for column in columns)
            self._fuser = Fuser(self._layout, self.columns[: self.limit], map_all)

    # ---- the order of the keys

    def __len__(self) -> int:
        return len(self._arrivals)

    def sort(self) -> Rows:
        """The rows in the order of their keys; those with equal keys as they arrived."""
        return self._sorted(np.argsort(self._arrivals, kind="stable"))

    def _sorted(self, arrived: Rows) -> Rows:
        is_few = kernels.goes_without(len(arrived))
        columns = [] if is_few else [self._key_column(index) for index in range(len(self._key.paths))]
        if is_few or any(column is None for column in columns):
            keys = self.keys(arrived)
            return arrived[np.array(sorted_indices(keys, self._key.order), np.int64)]
        order = stable_order(
            [kernels.take(column, arrived) for column in columns if column is not None], self._key.order
        )
        return arrived if order is None else arrived[order]

    def _key_column(self, index: int) -> pa.Array | None:
        """One of the keys of all rows as a column; None if Arrow would not order it as Zed does."""
        fields: list[pa.ChunkedArray | None] = []
        types: set[t.Type] = set()
        for shape, column in zip(self.shapes, self.columns, strict=True):
            place = find_place(shape, self._key.paths[index])
            if place is SOMEWHERE:
                return None
            if place is None or place[1].under is t.NULL:
                fields.append(None)
                continue
            fields.append(kernels.field(column, place[0]))
            types.add(place[1].under)
        types.update({row.key[index].type.under for row in self._encoded} - {t.NULL})
        if len(types) != 1 or not types <= ORDERED:
            return None if types else pa.nulls(self._in_columns + len(self._encoded), pa.int8())
        return self._joined(types.pop(), fields, [row.key[index].data for row in self._encoded])

    def _joined(self, typ: t.Type, fields: list[pa.ChunkedArray | None], encoded: list[object]) -> pa.Array | None:
        """The keys of columns and of encoded rows, all of one type; None if some are not a number."""
        pairs = zip(fields, self.columns, strict=True)
        chunks = [[pa.nulls(len(whole), arrow_type(typ))] if c is None else c.chunks for c, whole in pairs]
        joined = pa.concat_arrays([*(chunk for each in chunks for chunk in each), to_arrow(typ, encoded)])
        return None if kernels.has_nan(joined) else joined

    # ---- some of the rows

    def _items(self, rows: Rows) -> list[Value | EncodedRow]:
        out: list[Value | EncodedRow] = [_ABSENT] * len(rows)
        for shape, places in rows_by_code(np.searchsorted(self.ends, rows, side="right")):
            start = int(self.ends[shape - 1]) if shape else 0
            offsets = rows[places] - start
            if shape == len(self.shapes):
                for place, offset in zip(places.tolist(), offsets.tolist(), strict=True):
                    out[place] = self._encoded[offset]
                continue
            for place, item in zip(places.tolist(), self._data(shape, offsets), strict=True):
                out[place] = Value(self.shapes[shape], item)
        return out

    def _data(self, shape: int, offsets: Rows) -> list[Data]:
        """Some of the values of a shape. If they are most of them, it is faster to look at all."""
        column = self.columns[shape]
        if 2 * len(offsets) <= len(column):
            return from_arrow(self.shapes[shape], _taken(column, offsets))
        every = from_arrow(self.shapes[shape], kernels.whole(column))
        return [every[offset] for offset in offsets.tolist()]

    def keys(self, rows: Rows) -> list[Key]:
        """The keys of some rows."""
        get = key_getter(self._key)
        return [get(item) if isinstance(item, Value) else item.key for item in self._items(rows)]

    def encoded(self, rows: Rows) -> list[EncodedRow]:
        """Some rows in their binary form."""
        get = key_getter(self._key)
        return [
            EncodedRow(get(item), item.type, encode(item.type, item.data)) if isinstance(item, Value) else item
            for item in self._items(rows)
        ]

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """Those of some rows that go into columns, and the others: also records that are null themselves."""
        nulls = [i for i, c in enumerate(self.columns) if c.null_count and isinstance(self.shapes[i].under, t.Record)]
        if self.limit == len(self.shapes) and not nulls and not self._encoded:
            return rows, rows[:0]
        edge = int(self.ends[self.limit - 1]) if self.limit else 0
        in_columns = rows < edge
        for i in nulls:
            start = int(self.ends[i]) - len(self.columns[i])
            places = np.flatnonzero(~kernels.valid_rows(kernels.whole(self.columns[i]))) + start
            in_columns &= ~np.isin(rows, places)
        return rows[in_columns], rows[~in_columns]

    def lineage(self, rows: Rows | None = None) -> Lineage | None:
        """Where some rows come from; None if they are new."""
        if self._origins is None:
            return None
        return self._origins.taken(self.sort() if rows is None else rows).lineage()

    def table(self, rows: Rows) -> tuple[Layout, pa.Table, list[int]]:
        """Rows in the layout of the shapes that they have, and how many there are of each."""
        self.prepare()
        assert self._layout is not None
        assert self._fuser is not None
        shapes = np.searchsorted(self.ends, rows, side="right")
        counts = np.bincount(shapes, minlength=self.limit)
        return self._layout, self._fuser.table(rows), counts.tolist()

    def is_ranged(self, rows: Rows) -> bool:
        """Whether filters compare all of the keys as sorts do."""
        plain = all(
            (place := find_place(shape, self._key.paths[0])) is None
            or (place is not SOMEWHERE and isinstance(place[1].under, t.Primitive))
            for shape in self.shapes
        )
        return plain or all(is_ranged(key[0]) for key in self.keys(rows))


_ABSENT = EncodedRow((), t.NULL, None)
"""Stands where a row will be."""


_FEW = 16


def _taken(column: pa.ChunkedArray, rows: Rows) -> pa.Array:
    """Some items of a column, which is not put together for the sake of a few."""
    if len(rows) > _FEW:
        return kernels.take(column, rows)
    return pa.concat_arrays([chunk for row in rows.tolist() for chunk in column.slice(row, 1).chunks])
