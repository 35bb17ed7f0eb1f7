"""From values in any order to sorted data objects: columns as far as a layout can hold them, rows for the rest.

Values arrive as columns parted by shape, or one by one. What makes an object full is sorted by the key, equal keys
staying in the order of arrival, and laid out. Shapes that would make the layout explode go to an object in row form.
Values without the pool key have objects of their own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.api.options import MAX_MEMORY
from shoal.errors import ShoalError
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Batch, Part, Piece, Rows, sift, suits_columns
from shoal.formats.columns.physical import from_arrow
from shoal.ids import new
from shoal.lake import column_form
from shoal.lake.actions import stored
from shoal.lake.column_registry import ColumnRegistry
from shoal.lake.identities import Origins, joined_origins
from shoal.lake.key_columns import SOMEWHERE, find_place
from shoal.lake.keys import SortKey, getter, key_getter
from shoal.lake.lineage import with_lineage
from shoal.lake.objects import LARGE, LARGEST_RUN, DataObject, Form, data_key
from shoal.lake.pool_config import PoolConfig
from shoal.lake.row_form import Packer, value_size
from shoal.lake.sorted_runs import EncodedRow, EncodedRows, ShapeColumns, SortedRun
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import encode
from shoal.storage.store import ObjectStore

if TYPE_CHECKING:
    from concurrent import futures

    from shoal.lake import primary_keys
else:
    primary_keys = lazy("shoal.lake.primary_keys")
    futures = lazy("concurrent.futures")

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
_SMALL = 16 << 20
"""Bytes of a run that are written sooner than threads would help."""
_WRITING, _HOLDING = 8, 4
"""The shares of memory that the values of a run may have, and that they may take with all that is held beside them.
Sorting and writing them takes the rest: the values are there once more, in order, and once encoded."""
_ARROW_PER_ZNG = 16
"""How many times as many bytes as ZNG Arrow may take for few values of many shapes."""
_NODE_OVERHEAD, _ROW_OVERHEAD, _PLACE_OVERHEAD = 512, 400, 40
"""About how many bytes a part of a type takes where values of that type are held, an encoded row, and the place of a
row in the order."""


class ObjectWriter:
    """Takes values and writes objects, which nobody sees before a commit adds them."""

    def __init__(
        self,
        store: ObjectStore,
        pool: str,
        config: PoolConfig,
        columns: ColumnRegistry,
        as_one_run: bool = False,
        memory: int = MAX_MEMORY,
        partition: Value | None = None,
        has_lineage: bool = True,
    ) -> None:
        """With `as_one_run` all that comes is sorted together, and so has to fit into memory.

        Otherwise only so much is sorted at a time that it can be written within about this many bytes of memory.
        All values are of one `partition`, if it is given. With `has_lineage` objects say what they were before.
        """
        self._partition = partition
        self._has_lineage = has_lineage
        self._find = getter(config.key.paths[0])
        self._path = config.key.paths[0]
        self._object_size = config.object_size
        self._inline = 0 if as_one_run else min(config.settings.inline, config.object_size, config.seek_stride)
        self._runs = {
            has_key: _Run(store, pool, config, columns, has_key, as_one_run, memory) for has_key in (True, False)
        }
        self._primary = config.settings.primary
        self._taken = 0
        """How many values have come, where records need a primary key."""
        self._values: list[Value] = []
        self._size = 0
        self._skipped = 0
        """Records of the input that were left out."""

    def write_all(self, pieces: Iterable[Piece]) -> list[DataObject]:
        """Write everything and close; if that fails, no object stays."""
        try:
            for piece in pieces:
                if isinstance(piece, Value):
                    self.write(piece)
                else:
                    self.write_batch(piece)
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
            self._size += _size_of(value)
        if len(self._values) >= _HELD_VALUES or self._size >= self._object_size:
            self._flush()

    def write_values(self, values: Sequence[Value], origins: Origins) -> None:
        """Take some values, and what each of them was before."""
        self._flush()
        size = sum(map(_size_of, values)) if self._object_size < LARGEST_RUN else 0
        self._take_values(values, size, origins)

    def write_batch(self, batch: Batch, origins: Origins | None = None) -> None:
        """Take a run of values, and what each of them was before."""
        self._flush()
        self._skipped += batch.skipped
        self._take(batch, None, origins)

    def _flush(self) -> None:
        if self._values:
            values, size = self._values, self._size
            self._values, self._size = [], 0
            self._take_values(values, size, None)

    def _take_values(self, values: Sequence[Value], size: int, origins: Origins | None) -> None:
        batch, others = sift(values)
        self._take_rows(others, (values[row] for row in others))
        self._take(batch, size or None, origins)

    def _take(self, batch: Batch, size: int | None, origins: Origins | None) -> None:
        origins = origins if self._has_lineage else None
        if self._primary:
            primary_keys.require_keys(batch, self._primary, self._taken)
            self._taken += batch.length
        for part in batch.parts:
            place = find_place(part.shape, self._path)
            if not suits_columns(part.shape, len(part.rows), len(batch.parts)):
                data = from_arrow(part.shape, part.column)
                self._take_rows(part.rows.tolist(), (Value(part.shape, item) for item in data))
            elif place is SOMEWHERE:
                self._take_apart(part)
            else:
                self._runs[place is not None].add(part)
        for run in self._runs.values():
            run.end_batch(batch.length, size, origins)

    def _take_rows(self, rows: Iterable[int], values: Iterable[Value]) -> None:
        """Take values that columns do not suit."""
        key_at = primary_keys.key_reader(self._primary) if self._primary else None
        for row, value in zip(rows, values, strict=True):
            if key_at is not None and None in (key := key_at(value)):
                raise primary_keys.no_key(self._taken + row, self._primary[key.index(None)], value)
            self._runs[self._find(value) is not None].add_row(row, value)

    def _take_apart(self, part: Part) -> None:
        """Split a part whose shape does not say whether its values have the key."""
        values = from_arrow(part.shape, part.column)
        has_key = np.array([self._find(Value(part.shape, data)) is not None for data in values], bool)
        for which, run in self._runs.items():
            rows = np.flatnonzero(has_key == which)
            if len(rows):
                run.add(Part(part.shape, kernels.take(part.column, rows), part.rows[rows]))

    @property
    def held(self) -> int:
        """Bytes of memory that values take which are not written yet, but for those that come one by one."""
        return sum(run.held for run in self._runs.values())

    def settle(self) -> None:
        """Put values that came one by one into columns, and wait for what is being written."""
        self._flush()
        for run in self._runs.values():
            run.wait()

    def close(self, inline: int | None = None) -> list[DataObject]:
        """Write what is left; all objects written. If that is little, it becomes part of the descriptions instead.

        `inline` is a smaller limit than that of the pool.
        """
        self._flush()
        self._inline = self._inline if inline is None else min(self._inline, inline)
        inline_size = self._inline_size()
        for run in self._runs.values():
            run.flush(inline_size)
        objects = [made for run in self._runs.values() for made in run.close()]
        if self._partition is not None:
            objects = [replace(made, partition=self._partition) for made in objects]
        if self._skipped and objects:
            objects[0] = replace(objects[0], skipped=self._skipped)
        return objects

    def _inline_size(self) -> int:
        """Up to how many bytes of ZNG each object may be part of its description; 0 for none."""
        runs = [run for run in self._runs.values() if not run.is_empty]
        if not runs or sum(run.size for run in runs) > _ARROW_PER_ZNG * self._inline:
            return 0
        return self._inline // len(runs)

    @property
    def skipped(self) -> int:
        """How many records of the input were left out; the first object tells as well."""
        return self._skipped

    def discard(self) -> None:
        """Remove what was written, as far as that can be done: no commit has named it."""
        for run in self._runs.values():
            run.discard()


def _size_of(value: Value) -> int:
    return 2 + len(encode(value.type, value.data) or b"")


# ---- runs


class _Run:
    """Values on the way into one object after the other."""

    def __init__(
        self,
        store: ObjectStore,
        pool: str,
        config: PoolConfig,
        columns: ColumnRegistry,
        has_key: bool,
        is_one: bool,
        memory: int,
    ) -> None:
        self._store = store
        self._columns = columns
        self._pool = pool
        self._config = config
        self._has_key = has_key
        self._is_one = is_one
        self._largest, self._held = min(LARGEST_RUN, memory // _WRITING), memory // _HOLDING
        self._get_key = key_getter(config.key)
        self._shapes: dict[t.Type, ShapeColumns] = {}
        self._encoded = EncodedRows()
        self._encoded_types: set[t.Type] = set()
        self._origins: list[Origins] = []
        """What all that has arrived was before, since `_begun` arrivals."""
        self._begun = 0
        self._arrived = self._size = self._before = self._added = self._count = self._overhead = 0
        """`_overhead` is the memory that values take beside their own bytes."""
        self._measured = 0
        """What the values count for: bytes in memory, or as ZNG where they come one by one and objects are small."""
        self._made: list[DataObject] = []
        self._threads: futures.ThreadPoolExecutor | None = None
        self._waiting: list[futures.Future[DataObject]] = []

    def add(self, part: Part) -> None:
        """Take the rows of one shape."""
        shape = self._shapes.setdefault(part.shape, ShapeColumns())
        self._overhead += _NODE_OVERHEAD * part.shape.size + _PLACE_OVERHEAD * len(part.rows)
        shape.columns.append(part.column)
        shape.arrivals.append(part.rows + self._arrived)
        self._size += part.column.nbytes
        self._count += len(part.rows)
        self._added += len(part.rows)

    def add_row(self, row: int, value: Value) -> None:
        """Take a value that no column is for."""
        body = encode(value.type, value.data)
        self._encoded.rows.append(EncodedRow(self._get_key(value), value.type, body))
        self._encoded.arrivals.append(row + self._arrived)
        if value.type not in self._encoded_types:
            self._encoded_types.add(value.type)
            self._overhead += _NODE_OVERHEAD * value.type.size
        self._overhead += _ROW_OVERHEAD
        self._size += value_size(body)
        self._count += 1
        self._added += 1

    def end_batch(self, length: int, size: int | None, origins: Origins | None = None) -> None:
        """All parts of a batch of this length are here; `size` is what its values count for, if that was measured."""
        self._arrived += length
        if origins is not None:
            self._origins.append(origins)
        self._measured += self._size - self._before if size is None else -(-size * self._added // max(1, length))
        self._before, self._added = self._size, 0
        is_full = self._measured >= self._config.object_size or self._size >= self._largest
        if not self._is_one and (is_full or self._size + self._overhead >= self._held):
            self.flush()

    def close(self) -> list[DataObject]:
        """All objects, once what is left is written."""
        self.flush()
        self.wait()
        return self._made

    def discard(self) -> None:
        with suppress(BaseException):
            self.wait()
        for made in self._made:
            with suppress(ShoalError):
                for each in stored(made):
                    self._store.delete(each.key(self._pool))

    def wait(self) -> None:
        """Wait for what is being written."""
        waiting, self._waiting = self._waiting, []
        try:
            for each in waiting:
                self._made.append(each.result())
        finally:
            if self._threads is not None:
                self._threads.shutdown()
                self._threads = None

    def _taken_out(self) -> SortedRun:
        """What has come so far; what comes now starts another run."""
        shapes, encoded = self._shapes, self._encoded
        self._shapes, self._encoded, self._encoded_types = {}, EncodedRows(), set()
        self._size = self._before = self._measured = self._count = self._overhead = 0
        origins, begun = joined_origins(self._origins) if self._origins else None, self._begun
        self._origins, self._begun = [], self._arrived
        most_shapes = MOST_SHAPES if self._config.seek_stride >= LEAST_STRIDE else 0
        return SortedRun(self._config.key, self._columns, shapes, encoded, most_shapes, MOST_COLUMNS, origins, begun)

    @property
    def size(self) -> int:
        """Bytes of what has come since it last wrote something."""
        return self._size

    @property
    def held(self) -> int:
        """Bytes that its values take in memory."""
        return self._size + self._overhead

    @property
    def is_empty(self) -> bool:
        """Whether nothing came."""
        return not (self._count or self._made or self._waiting)

    def flush(self, inline: int = 0) -> None:
        """Write what has come so far, or begin to; up to `inline` bytes of it become part of the description."""
        if not self._count:
            return
        size, measured = self._size, self._measured
        run = self._taken_out()
        if inline and not self._made and not self._waiting:
            o = _inline_object(run, self._config.key, self._has_key, inline)
            if o is not None:
                self._made.append(_traced(self._store, self._pool, o, run))
                return
        shares = max(1, min(_WRITERS, size // LARGE)) if self._config.object_size >= LARGEST_RUN else 1
        if self._is_one:
            shares = max(shares, min(len(run), -(-measured // self._config.object_size)))
        writer = _Writer(self._store, self._pool, self._config, self._has_key, measured / len(run))
        if size < _SMALL:
            self._made.extend(task() for task in writer.tasks(run, run.sort(), shares))
            return
        self.wait()
        self._threads = futures.ThreadPoolExecutor(_WRITERS)
        # The columns are put together before the threads part.
        order = self._threads.submit(run.sort)
        run.prepare(self._threads.map)
        self._waiting = [self._threads.submit(task) for task in writer.tasks(run, order.result(), shares)]


def _inline_object(run: SortedRun, pool_key: SortKey, has_key: bool, most: int) -> DataObject | None:
    """Sorted rows as an object that is part of its description; None if they have more bytes than `most`."""
    packer = Packer(1 << 62)
    for key, typ, body in run.encoded(run.sort()):
        packer.add(key[0], typ, body)
    data, packed = packer.close("", new(), pool_key, has_key)
    return replace(packed, inline=data) if len(data) <= most else None


def _traced(store: ObjectStore, pool: str, o: DataObject, run: SortedRun, rows: Rows | None = None) -> DataObject:
    """The description of a new object with these rows, or all, which says where they come from if they are not new."""
    known = run.lineage(rows)
    return o if known is None else with_lineage(store, pool, o, known)


class _Writer:
    """Writes the objects of sorted rows."""

    def __init__(self, store: ObjectStore, pool: str, config: PoolConfig, has_key: bool, row_size: float) -> None:
        self._store, self._pool, self._config, self._has_key = store, pool, config, has_key
        self._row_size = row_size

    def _value_size(self, rows: Rows) -> int:
        """The size of rows by the average of their run, so that every object is full by the same measure."""
        return math.ceil(len(rows) * self._row_size)

    def tasks(self, run: SortedRun, order: Rows, shares: int) -> Iterator[Callable[[], DataObject]]:
        """Each writes an object: for each share of the rows, one of those that go into columns, and one of the rest."""
        for rows in np.array_split(order, shares):
            in_columns, in_rows = run.split(rows)
            if len(in_columns):
                yield partial(self._write_columns, run, in_columns)
            if len(in_rows):
                yield partial(self._write_rows, run, in_rows)

    def _write_columns(self, run: SortedRun, rows: Rows) -> DataObject:
        layout, table, counts = run.table(rows)
        packed = column_form.write(layout, run.ids, table, self._config.key, self._config.seek_stride)
        low, high = self._bounds(run, rows)
        shapes = tuple(zip(layout.shapes, counts, strict=True))
        ident = new()
        self._store.put(data_key(self._pool, ident, Form.COLUMNS), packed.data)
        o = DataObject(
            ident, low, high, len(rows), packed.size, packed.checksum, self._value_size(rows), packed.index_size,
            self._has_key, run.is_ranged(rows), shapes, Form.COLUMNS, packed.index_checksum, packed.zones, layout.given,
        )  # fmt: skip
        return _traced(self._store, self._pool, o, run, rows)

    def _bounds(self, run: SortedRun, rows: Rows) -> tuple[Value, Value]:
        first, last = (key[0] for key in run.keys(rows[[0, -1]]))
        return (first, last) if self._config.key.order == "asc" else (last, first)

    def _write_rows(self, run: SortedRun, rows: Rows) -> DataObject:
        packer = Packer(self._config.seek_stride)
        for key, typ, body in run.encoded(rows):
            packer.add(key[0], typ, body)
        ident = new()
        data, packed = packer.close(self._pool, ident, self._config.key, self._has_key)
        self._store.put(data_key(self._pool, ident, Form.ROWS), data)
        return _traced(self._store, self._pool, replace(packed, value_size=self._value_size(rows)), run, rows)
