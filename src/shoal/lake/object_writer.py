"""From values in any order to sorted data objects: columns as far as a layout can hold them, rows for the rest.

Values arrive as columns parted by shape, or one by one. What makes an object full is sorted by the key, equal keys
staying in the order of arrival, and laid out. Shapes that would make the layout explode go to an object in row form.
Values without the pool key have objects of their own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import ShoalError
from shoal.formats.columns.batches import Batch, Part, Rows, batch_of
from shoal.formats.columns.fusion import Fuser
from shoal.formats.columns.layouts import Layout, choose_shapes, layout_of, named_layout
from shoal.formats.columns.physical import from_arrow
from shoal.formats.detect import Piece
from shoal.ids import new
from shoal.lake import column_form
from shoal.lake.column_registry import ColumnRegistry
from shoal.lake.key_columns import SOMEWHERE, find_place
from shoal.lake.keys import Key, Path, getter, is_ranged, key_getter, sorted_indices
from shoal.lake.objects import LARGE, LARGEST_RUN, DataObject, Form, data_key, key_of
from shoal.lake.pool_config import PoolConfig
from shoal.lake.row_form import Packer
from shoal.lake.zones import ORDERED
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.model.values import NULL, Value
from shoal.model.zcode import encode
from shoal.storage.store import ObjectStore

# Sorted columns are gathered into fresh memory over and over. jemalloc keeps what was freed at hand, where the usual
# allocator of Arrow gives it back: a load of a million records takes a third less time to write.
if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ and "jemalloc" in pa.supported_memory_backends():
    pa.set_memory_pool(pa.jemalloc_memory_pool())

MOST_SHAPES = 256
MOST_COLUMNS = 1000
"""What a layout may have; shapes beyond it go to the row form, those with fewer values first."""
LEAST_STRIDE = 32
"""Bytes of a seek stride; who seeks in smaller steps wants single values, which only the row form gives."""
_HELD_VALUES = 20_000
"""How many values that come one by one are made into columns at a time."""
_WRITERS = 2


class ObjectWriter:
    """Takes values and writes objects, which nobody sees before a commit adds them."""

    def __init__(
        self, store: ObjectStore, pool: str, config: PoolConfig, columns: ColumnRegistry, as_one_run: bool = False
    ) -> None:
        """With `as_one_run` all that comes is sorted together, and so has to fit into memory."""
        self._find = getter(config.key.paths[0])
        self._path = config.key.paths[0]
        self._object_size = config.object_size
        self._runs = {has_key: _Run(store, pool, config, columns, has_key, as_one_run) for has_key in (True, False)}
        self._values: list[Value] = []
        self._size = 0

    def write_all(self, pieces: Iterable[Piece]) -> list[DataObject]:
        """Write everything and close; if that fails, no object stays."""
        try:
            for piece in pieces:
                self.write_piece(piece)
            return self.close()
        except BaseException:
            self.discard()
            raise

    def write_piece(self, piece: Piece) -> None:
        """Take a value, or a run of them."""
        if isinstance(piece, Value):
            self.write(piece)
        else:
            self.write_batch(piece)

    def write(self, value: Value) -> None:
        """Take a value."""
        self._values.append(value)
        if self._object_size < LARGEST_RUN:
            self._size += 2 + len(encode(value.type, value.data) or b"")
        if len(self._values) >= _HELD_VALUES or self._size >= self._object_size:
            self._flush()

    def write_batch(self, batch: Batch) -> None:
        """Take a run of values."""
        self._flush()
        self._take(batch, None)

    def _flush(self) -> None:
        if self._values:
            values, size = self._values, self._size
            self._values, self._size = [], 0
            self._take(batch_of(values), size or None)

    def _take(self, batch: Batch, size: int | None) -> None:
        for part in batch.parts:
            place = find_place(part.shape, self._path)
            if place is SOMEWHERE:
                self._take_apart(part)
            else:
                self._runs[place is not None].add(part)
        for run in self._runs.values():
            run.end_batch(batch.length, size)

    def _take_apart(self, part: Part) -> None:
        """Split a part whose shape does not say whether its values have the key."""
        values = from_arrow(part.shape, part.column)
        has_key = np.array([self._find(Value(part.shape, data)) is not None for data in values], bool)
        for which, run in self._runs.items():
            rows = np.flatnonzero(has_key == which)
            if len(rows):
                run.add(Part(part.shape, part.column.take(pa.array(rows)), part.rows[rows]))

    def close(self) -> list[DataObject]:
        """Write what is left; all objects written."""
        self._flush()
        return [made for run in self._runs.values() for made in run.close()]

    def discard(self) -> None:
        """Remove what was written, as far as that can be done: no commit has named it."""
        for run in self._runs.values():
            run.discard()


# ---- runs


@dataclass(slots=True)
class _Shape:
    """The values of one shape in a run, with the order of their arrival."""

    columns: list[pa.Array]
    arrivals: list[Rows]

    def column(self) -> pa.ChunkedArray:
        return pa.chunked_array(self.columns)


class _Run:
    """Values on the way into one object after the other."""

    def __init__(
        self,
        store: ObjectStore,
        pool: str,
        config: PoolConfig,
        columns: ColumnRegistry,
        has_key: bool,
        is_one: bool = False,
    ) -> None:
        self._store = store
        self._columns = columns
        self._pool = pool
        self._config = config
        self._has_key = has_key
        self._is_one = is_one
        self._shapes: dict[t.Type, _Shape] = {}
        self._arrived = self._size = self._before = self._added = self._count = 0
        self._measured = 0
        """What the values count for: bytes in memory, or as ZNG where they come one by one and objects are small."""
        self._made: list[DataObject] = []
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: list[Future[list[DataObject]]] = []

    def add(self, part: Part) -> None:
        shape = self._shapes.setdefault(part.shape, _Shape([], []))
        shape.columns.append(part.column)
        shape.arrivals.append(part.rows + self._arrived)
        self._size += part.column.nbytes
        self._count += len(part.rows)
        self._added += len(part.rows)

    def end_batch(self, length: int, size: int | None) -> None:
        """All parts of a batch of this length are here; `size` is what its values count for, if that was measured."""
        self._arrived += length
        self._measured += self._size - self._before if size is None else -(-size * self._added // max(1, length))
        self._before, self._added = self._size, 0
        is_full = self._measured >= self._config.object_size or self._size >= LARGEST_RUN
        if self._count and is_full and not self._is_one:
            self._flush()

    def close(self) -> list[DataObject]:
        if self._count:
            self._flush()
        self._wait()
        return self._made

    def discard(self) -> None:
        with suppress(BaseException):
            self._wait()
        for made in self._made:
            with suppress(ShoalError):
                self._store.delete(key_of(self._pool, made))

    def _wait(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            for each in waiting:
                self._made.extend(each.result())
        finally:
            if self._threads is not None:
                self._threads.shutdown()
                self._threads = None

    def _flush(self) -> None:
        shapes, size, measured = self._shapes, self._size, self._measured
        self._shapes, self._size, self._before, self._measured, self._count = {}, 0, 0, 0, 0
        run = _SortedRun(self._config, self._columns, shapes)
        shares = max(1, min(_WRITERS, size // LARGE)) if self._config.object_size >= LARGEST_RUN else 1
        if self._is_one:
            shares = max(shares, min(len(run.order), -(-measured // self._config.object_size)))
        row_size = measured / len(run.order)
        writer = _Writer(self._store, self._pool, self._config, self._has_key, row_size)
        if size < 2 * LARGE:
            for rows in np.array_split(run.order, shares):
                self._made.extend(writer.write(run, rows))
            return
        self._wait()
        self._threads = ThreadPoolExecutor(_WRITERS)
        # The columns are put together before the threads part.
        run.prepare()
        self._waiting = [self._threads.submit(writer.write, run, rows) for rows in np.array_split(run.order, shares)]


class _SortedRun:
    """The values of a run, shape after shape, and the order of their keys."""

    def __init__(self, config: PoolConfig, registry: ColumnRegistry, shapes: dict[t.Type, _Shape]) -> None:
        # The most frequent shapes are sure to be held by the layout. It has them in the order of their texts, so that
        # objects with the same shapes have the same layout, and can be read by one query.
        counts = {shape: sum(map(len, held.columns)) for shape, held in shapes.items()}
        frequent = sorted(shapes, key=lambda shape: -counts[shape])
        in_columns = config.seek_stride >= LEAST_STRIDE
        self.limit = choose_shapes(frequent, MOST_SHAPES, MOST_COLUMNS) if in_columns else 0
        self.shapes = [*sorted(frequent[: self.limit], key=format_type), *frequent[self.limit :]]
        self.columns = [shapes[shape].column() for shape in self.shapes]
        arrivals = np.concatenate([a for shape in self.shapes for a in shapes[shape].arrivals])
        self._key = config.key
        self.ends = np.cumsum([len(c) for c in self.columns])
        self.order = self._sorted(np.argsort(arrivals, kind="stable"))
        self._fuser: Fuser | None = None
        self._layout: Layout | None = None
        self._registry = registry
        self.ids: tuple[int, ...] = ()
        """The field ids of the columns of the layout."""

    def prepare(self) -> None:
        """Put the columns of the layout together, under the names that the pool has for them."""
        if self.limit and self._fuser is None:
            shapes = tuple(self.shapes[: self.limit])
            columns = self._registry.register(layout_of(shapes))
            self._layout = named_layout(shapes, tuple(column.name for column in columns))
            self.ids = tuple(column.id for column in columns)
            self._fuser = Fuser(self._layout, self.columns[: self.limit])

    def _sorted(self, arrived: Rows) -> Rows:
        columns = [self._key_column(path) for path in self._key.paths]
        if any(column is None for column in columns):
            keys = self.keys(arrived)
            return arrived[np.array(sorted_indices(keys, self._key.order), np.int64)]
        held = [column.take(pa.array(arrived)) for column in columns if column is not None]
        if len(held) == 1 and _is_sorted(held[0], self._key.order):
            return arrived
        direction = "ascending" if self._key.order == "asc" else "descending"
        nulls = "at_end" if self._key.order == "asc" else "at_start"
        names = [str(i) for i in range(len(held))]
        table = pa.Table.from_arrays(held, names)
        order = pc.sort_indices(table, sort_keys=[(name, direction, nulls) for name in names])
        made: Rows = arrived[order.to_numpy()]
        return made

    def _key_column(self, path: Path) -> pa.Array | None:
        """The key of all rows as one column; None if Arrow would not order it as Zed does."""
        found: list[pa.ChunkedArray | None] = []
        types: set[t.Type] = set()
        for shape, column in zip(self.shapes, self.columns, strict=True):
            place = find_place(shape, path)
            if place is SOMEWHERE:
                return None
            if place is None or place[1].under is t.NULL:
                found.append(None)
                continue
            found.append(pc.struct_field(column, place[0]) if place[0] else column)
            types.add(place[1].under)
        if len(types) != 1 or not types <= ORDERED:
            return None if types else pa.nulls(int(self.ends[-1]), pa.int8())
        arrays = [c for c in found if c is not None]
        if types <= t.FLOATS and any(pc.any(pc.is_nan(c)).as_py() for c in arrays):
            return None
        kind = arrays[0].type
        pairs = zip(found, self.columns, strict=True)
        chunks = [[pa.nulls(len(whole), kind)] if c is None else c.chunks for c, whole in pairs]
        return pa.concat_arrays([chunk for held in chunks for chunk in held])

    def keys(self, rows: Rows) -> list[Key]:
        """The keys of some rows."""
        get = key_getter(self._key)
        return [get(value) for value in self.values(rows)]

    def values(self, rows: Rows) -> list[Value]:
        """Some rows as values."""
        out: list[Value] = [NULL] * len(rows)
        shapes = np.searchsorted(self.ends, rows, side="right")
        for i in np.unique(shapes).tolist():
            places = np.flatnonzero(shapes == i)
            start = int(self.ends[i]) - len(self.columns[i])
            data = from_arrow(self.shapes[i], self.columns[i].take(pa.array(rows[places] - start)))
            for place, item in zip(places.tolist(), data, strict=True):
                out[place] = Value(self.shapes[i], item)
        return out

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """Those of some rows that go into columns, and the others: also records that are null themselves."""
        nulls = [i for i, c in enumerate(self.columns) if c.null_count and isinstance(self.shapes[i].under, t.Record)]
        if self.limit == len(self.shapes) and not nulls:
            return rows, rows[:0]
        edge = int(self.ends[self.limit - 1]) if self.limit else 0
        in_columns = rows < edge
        for i in nulls:
            start = int(self.ends[i]) - len(self.columns[i])
            places = np.flatnonzero(self.columns[i].is_null().to_numpy(zero_copy_only=False)) + start
            in_columns &= ~np.isin(rows, places)
        return rows[in_columns], rows[~in_columns]

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


def _is_sorted(column: pa.Array, order: str) -> bool:
    """Whether a column is in order already, as the times of logs often are."""
    if column.null_count or len(column) < 2 or not pa.types.is_integer(column.type):
        return len(column) < 2
    data = column.to_numpy()
    return bool((data[1:] >= data[:-1]).all() if order == "asc" else (data[1:] <= data[:-1]).all())


class _Writer:
    """Writes the objects of sorted rows."""

    def __init__(self, store: ObjectStore, pool: str, config: PoolConfig, has_key: bool, row_size: float) -> None:
        self._store, self._pool, self._config, self._has_key = store, pool, config, has_key
        self._row_size = row_size

    def _value_size(self, rows: Rows) -> int:
        """The size of rows by the average of their run, so that every object is full by the same measure."""
        return math.ceil(len(rows) * self._row_size)

    def write(self, run: _SortedRun, rows: Rows) -> list[DataObject]:
        objects = []
        in_columns, in_rows = run.split(rows)
        if len(in_columns):
            objects.append(self._write_columns(run, in_columns))
        if len(in_rows):
            objects.append(self._write_rows(run, in_rows))
        return objects

    def _write_columns(self, run: _SortedRun, rows: Rows) -> DataObject:
        layout, table, counts = run.table(rows)
        packed = column_form.write(layout, run.ids, table, self._config.key, self._config.seek_stride)
        low, high = self._bounds(run, rows)
        shapes = tuple(zip(layout.shapes, counts, strict=True))
        ident = new()
        self._store.put(data_key(self._pool, ident, Form.COLUMNS), packed.data)
        return DataObject(
            ident, low, high, len(rows), packed.size, packed.checksum, self._value_size(rows), packed.index_size,
            self._has_key, run.is_ranged(rows), shapes, Form.COLUMNS, packed.index_checksum, packed.zones, layout.given,
        )  # fmt: skip

    def _bounds(self, run: _SortedRun, rows: Rows) -> tuple[Value, Value]:
        first, last = (key[0] for key in run.keys(rows[[0, -1]]))
        return (first, last) if self._config.key.order == "asc" else (last, first)

    def _write_rows(self, run: _SortedRun, rows: Rows) -> DataObject:
        packer = Packer(self._config.seek_stride)
        get = key_getter(self._config.key)
        for value in run.values(rows):
            packer.add(get(value)[0], value.type, encode(value.type, value.data))
        ident = new()
        data, packed = packer.close(self._pool, ident, self._config.key, self._has_key)
        self._store.put(data_key(self._pool, ident, Form.ROWS), data)
        return replace(packed, value_size=self._value_size(rows))
