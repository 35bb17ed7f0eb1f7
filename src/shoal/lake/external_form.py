"""Attached files: Parquet of other programs that stands for a data object where it lies.

An object is sorted by the pool key, and a file of others need not be: the object is its rows in that order, equal keys
staying in the order of the file. So who reads it gets them sorted, and row numbers, as those of masks, count in that
order. The file has to be the one that was attached: of its bytes only the footer has a checksum, so a file with another
size or another time is refused.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.api.options import DEFAULT_READ
from shoal.errors import CorruptData, InvalidInput, NotFound, ShoalError, StorageFailure
from shoal.formats.arrow import parquet
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import BATCH_ROWS, Batch, Part, Rows
from shoal.formats.columns.fusion import Fuser, TableColumns, to_batch
from shoal.formats.columns.layouts import layout_of
from shoal.formats.columns.physical import arrow_type, to_arrow
from shoal.formats.columns.projection import Paths, project_column, project_shape
from shoal.formats.limits import LimitExceeded
from shoal.formats.streams import read_exactly
from shoal.ids import Id
from shoal.lake.column_form import key_leaf, key_reader
from shoal.lake.key_columns import SOMEWHERE, NumberedBatch, find_place
from shoal.lake.key_order import stable_order
from shoal.lake.keys import SortKey, key_getter, sorted_indices
from shoal.lake.masks import hidden_rows, shown_rows, visible
from shoal.lake.objects import DataObject, External
from shoal.lake.zones import ORDERED
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import decode
from shoal.sources.in_place import FileVersion, OpenedFile, changed, gone
from shoal.storage.store import ObjectStore

_CAPACITY = 64 << 20
"""Bytes of orders in the cache."""
_LEAST_ENTRY = 256


def file_of(o: DataObject) -> External:
    """The file of an attached object."""
    assert o.external is not None
    return o.external


def version_of(o: DataObject) -> FileVersion:
    """The file as it was when it was attached."""
    file = file_of(o)
    return FileVersion(file.uri, o.size + o.index_size, file.modified, file.etag)


# ---- in the order of the pool


def read(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterator[Value]:
    """The values of an object, in its order."""
    for batch in read_batches(store, pool, key, o):
        yield from batch.values()


def read_batches(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterator[Batch]:
    """The rows of an object, in its order. A file that is sorted is read a part at a time."""
    if row_order(o, key) is None:
        yield from _visible_batches(store, pool, o)
        return
    table, layout = read_table(store, pool, o, key), layout_of((_shape(o),))
    for start in range(0, len(table), BATCH_ROWS):
        yield to_batch(layout, TableColumns(table.slice(start, BATCH_ROWS)))


def unsorted_batches(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterator[NumberedBatch]:
    """The rows of an object for who sorts them: those with equal keys are in its order."""
    order = row_order(o, key)
    if o.mask is not None or order is None:
        return numbered_batches(store, pool, key, o)
    numbers = np.empty(o.rows, np.int64)
    numbers[order] = np.arange(o.rows)
    return _numbered(_file_batches(o), numbers)


def numbered_batches(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterator[NumberedBatch]:
    """The rows of an object, in its order."""
    return _numbered(read_batches(store, pool, key, o), shown_rows(store, pool, o))


def _numbered(batches: Iterable[Batch], rows: Rows) -> Iterator[NumberedBatch]:
    start = 0
    for batch in batches:
        yield NumberedBatch(batch, rows[start : start + batch.length])
        start += batch.length


def read_table(store: ObjectStore, pool: str, o: DataObject, key: SortKey, paths: Paths | None = None) -> pa.Table:
    """All of an object as a table in its layout, in its order; with just the fields at some paths, if given."""
    order, hidden = row_order(o, key), hidden_rows(store, pool, o)
    shape = project_shape(_shape(o), paths)
    columns = [part.column for batch in _file_batches(o, paths) for part in batch.parts]
    rows = np.arange(o.rows, dtype=np.int64) if order is None else order
    with _naming(o):
        fuser = Fuser(layout_of((shape,)), [pa.chunked_array(columns, arrow_type(shape))])
        return fuser.table(np.delete(rows, hidden) if len(hidden) else rows)


def sample_keys(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, phase: float, most: int
) -> tuple[list[tuple[Value, int]], int]:
    """Keys of an object with the rows that each stands for, as of an object in column form.

    The second number is 1 if the object can be sliced at keys, which reads it once; else 0.
    """
    paths = (key.paths[0],)
    layout = layout_of((project_shape(_shape(o), paths),))
    leaf = key_leaf(layout, key)
    if leaf is None or leaf.type not in ORDERED or not o.count:
        return [(o.first(key), o.count)], 0
    table = read_table(store, pool, o, key, paths)
    key_at, parts = key_reader(layout, table, key), -(-len(table) // most)
    edges = [len(table) * i // parts for i in range(parts + 1)]
    return [(key_at(int(start + phase * (end - start))), end - start) for start, end in pairwise(edges)], 1


# ---- the order of the rows

_orders: OrderedDict[Id, Rows | None] = OrderedDict()
"""By object, least recently used first. A file that is sorted has None."""
_size = [0]
_lock = Lock()


def row_order(o: DataObject, key: SortKey) -> Rows | None:
    """Where each row of an object is in its file; None if they are in the same order."""
    with _lock:
        if o.id in _orders:
            _orders.move_to_end(o.id)
            return _orders[o.id]
    order = _sorted(o, key)
    with _lock:
        if o.id not in _orders:
            _orders[o.id] = order
            _size[0] += _entry_size(order)
        while _size[0] > _CAPACITY and len(_orders) > 1:
            _size[0] -= _entry_size(_orders.popitem(last=False)[1])
    return order


def _entry_size(order: Rows | None) -> int:
    return _LEAST_ENTRY + (0 if order is None else order.nbytes)


def _sorted(o: DataObject, key: SortKey) -> Rows | None:
    shape = project_shape(_shape(o), key.paths)
    places = [find_place(shape, path) for path in key.paths]
    if all(place is None or (place is not SOMEWHERE and place[1].under is t.NULL) for place in places):
        return None
    parts = [part for batch in _file_batches(o, key.paths) for part in batch.parts]
    with _naming(o):
        columns = _key_columns(parts, places)
        if columns is None:
            get = key_getter(key)
            keys = [get(value) for part in parts for value in Batch((part,), len(part.rows)).values()]
            order: Rows | None = np.array(sorted_indices(keys, key.order), np.int64)
        else:
            order = stable_order(columns, key.order)
    if order is None or np.array_equal(order, np.arange(len(order))):
        return None
    return order


def _key_columns(parts: Sequence[Part], places: Sequence[Any]) -> list[pa.Array] | None:
    """The keys of all rows as columns; None if Arrow would not order them as Zed does."""
    columns = []
    for place in places:
        if place is None or (place is not SOMEWHERE and place[1].under is t.NULL):
            continue  # all of them are null, and so decide nothing
        if place is SOMEWHERE or place[1] not in ORDERED:
            return None
        column = pa.concat_arrays([kernels.whole(kernels.field(part.column, place[0])) for part in parts])
        if kernels.has_nan(column):
            return None
        columns.append(column)
    return columns


# ---- in the order of the file


def _shape(o: DataObject) -> t.Type:
    assert o.shapes is not None
    return o.shapes[0][0]


def _visible_batches(store: ObjectStore, pool: str, o: DataObject) -> Iterator[Batch]:
    """The rows of a sorted file, without those that are hidden."""
    hidden, start = hidden_rows(store, pool, o), 0
    for batch in _file_batches(o):
        kept = visible(hidden, start, batch.length)
        start += batch.length
        if kept is None:
            yield batch
        elif kept.any():
            (part,) = batch.parts
            count = int(kept.sum())
            yield Batch((Part(part.shape, part.column.filter(pa.array(kept)), np.arange(count)),), count)


def _file_batches(o: DataObject, paths: Paths | None = None) -> Iterator[Batch]:
    """All rows of the file, each with the fields that folders give; with just the fields at some paths, if given."""
    whole, file = _shape(o), file_of(o)
    shape = project_shape(whole, paths)
    assert isinstance(whole, t.Record)
    names = {field.name for field in shape.fields} if paths is not None and isinstance(shape, t.Record) else None
    with _naming(o), OpenedFile(version_of(o)) as opened:
        opened.seek(o.size)
        if zlib.crc32(read_exactly(opened, o.index_size)) != o.index_checksum:
            raise changed(file.uri)
        for batch in parquet.read_columns(opened, DEFAULT_READ, names=names):
            opened.require_unchanged()
            (part,) = batch.parts
            column = _completed(whole, part, file.constants, paths)
            if column is None:
                raise CorruptData(f"{file.uri}: its columns have other types than when it was attached")
            yield Batch((Part(shape, column, part.rows),), batch.length)


def _completed(whole: t.Record, part: Part, constants: Sequence[bytes | None], paths: Paths | None) -> pa.Array | None:
    """The column of records with the fields at some paths, those that folders give included."""
    own = whole.fields[: len(whole.fields) - len(constants)]
    kept = t.record((f.name, f.type) for f in own if paths is None or () in paths or any(f.name == p[0] for p in paths))
    given = part.shape
    assert isinstance(given, t.Record)
    if any(field.name not in given.index for field in kept.fields):
        return None
    columns = [part.column.field(given.index[f.name]) for f in kept.fields]
    types = [given.fields[given.index[f.name]].type for f in kept.fields]
    if types != [f.type for f in kept.fields]:
        return None
    fields = list(kept.fields)
    for field, body in zip(whole.fields[len(own) :], constants, strict=True):
        if paths is None or () in paths or any(field.name == path[0] for path in paths):
            fields.append(field)
            columns.append(_repeated(field.type, body, len(part.rows)))
    typ = t.record((f.name, f.type) for f in fields)
    if not fields:
        return pa.array(np.ones(len(part.rows), bool))
    column = pa.StructArray.from_arrays(columns, fields=list(arrow_type(typ)))
    return project_column(typ, column, paths)


def _repeated(typ: t.Type, body: bytes | None, count: int) -> pa.Array:
    if body is None:
        return pa.nulls(count, arrow_type(typ))
    return pa.repeat(to_arrow(typ, [decode(typ, body)])[0], count)


@contextmanager
def _naming(o: DataObject) -> Iterator[None]:
    """Errors name the file and say what to do."""
    uri = file_of(o).uri
    try:
        yield
    except LimitExceeded as e:
        raise InvalidInput(f"{uri}: {e}") from None
    except InvalidInput as e:
        raise CorruptData(f"{uri}: {e} (restore it as it was, or: shoal detach {uri})") from None
    except NotFound:
        raise gone(uri) from None
    except ShoalError:
        raise
    except OSError as e:
        raise StorageFailure(f"{uri}: {(e.strerror or str(e)).lower()}") from None
    except pa.ArrowException as e:
        raise StorageFailure(f"{uri}: {str(e).splitlines()[0]}") from None
