"""Row masks: which rows of a data object are hidden, because they were deleted or replaced after it was written.

A mask is a Roaring bitmap of row numbers, in the order of the object. A small one is part of the description of its
object; a larger one is an object of its own, which is read only by those that read rows. A description counts the rows
that are left: `count` and `shapes` need no mask.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.errors import CorruptData, NotFound
from shoal.ids import Id, new, to_text
from shoal.lake.objects import MASKS, DataObject, RowMask, without_rows
from shoal.lake.recent import Recent
from shoal.lazy import lazy
from shoal.storage.store import ObjectStore

if TYPE_CHECKING:
    import pyroaring
else:
    pyroaring = lazy("pyroaring")

Rows = npt.NDArray[np.int64]
MOST_INSIDE = 4096
"""Bytes of a mask that is part of the description of its object."""
_CAPACITY = 64 << 20
"""Bytes of masks in the cache."""

_recent: Recent[Rows] = Recent(_CAPACITY, lambda rows: rows.nbytes)


def mask_key(pool: str, ident: Id) -> str:
    """The key of a mask in the store."""
    return f"{pool}/{MASKS}/{to_text(ident)}.roaring"


def hidden_rows(store: ObjectStore, pool: str, o: DataObject) -> Rows:
    """The numbers of the rows of an object that are hidden, ascending."""
    mask = o.mask
    if mask is None:
        return np.zeros(0, np.int64)
    name = (mask.checksum, mask.id or mask.data)
    return _recent.get(name, lambda: _parse(_bytes_of(store, pool, mask), pool, o, mask))


def shown_rows(store: ObjectStore, pool: str, o: DataObject) -> Rows:
    """The numbers of the rows of an object that are not hidden, ascending."""
    rows = np.arange(o.rows, dtype=np.int64)
    return rows if o.mask is None else np.setdiff1d(rows, hidden_rows(store, pool, o), assume_unique=True)


def forget() -> None:
    """Forget all masks that were read."""
    _recent.clear()


def _bytes_of(store: ObjectStore, pool: str, mask: RowMask) -> bytes:
    if mask.id is None:
        return mask.data
    key = mask_key(pool, mask.id)
    try:
        return store.get(key)
    except NotFound:
        raise CorruptData(f"{key}: this row mask is gone (restore it from a backup)") from None


def _parse(data: bytes, pool: str, o: DataObject, mask: RowMask) -> Rows:
    where = f"row mask of {to_text(o.id)}" if mask.id is None else mask_key(pool, mask.id)
    if len(data) != mask.size or zlib.crc32(data) != mask.checksum:
        raise CorruptData(f"{where}: checksum mismatch (restore this object from a backup)")
    try:
        bitmap = pyroaring.BitMap.deserialize(data)
    except ValueError:
        raise CorruptData(f"{where}: these bytes are no row mask") from None
    if len(bitmap) != mask.count or (mask.count and bitmap.max() >= o.count + mask.count):
        raise CorruptData(f"{where}: it hides other rows than its object has")
    return np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64)


def visible(hidden: Rows, start: int, count: int) -> npt.NDArray[np.bool_] | None:
    """Which of `count` rows from `start` on are not hidden; None if all of them are visible."""
    low, high = np.searchsorted(hidden, (start, start + count))
    if low == high:
        return None
    kept = np.ones(count, bool)
    kept[hidden[low:high] - start] = False
    return kept


# ---- writing


def with_hidden(store: ObjectStore | None, pool: str, o: DataObject, rows: Rows, fewer: Rows | None) -> DataObject:
    """The description of an object of which just these rows are hidden; `fewer` is how many of each shape less it has.

    A mask that is too large for the description is written; nobody sees it before a commit refers to it. Without a
    store the description has it whatever its size.
    """
    shapes = o.shapes
    if shapes is not None and fewer is not None:
        shapes = tuple((shape, count - less) for (shape, count), less in zip(shapes, fewer.tolist(), strict=True))
    return without_rows(o, _mask_of(store, pool, rows), len(rows), shapes)


def _mask_of(store: ObjectStore | None, pool: str, rows: Rows) -> RowMask | None:
    if not len(rows):
        return None
    bitmap = pyroaring.BitMap(rows.astype(np.uint32))
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    size, checksum = len(data), zlib.crc32(data)
    if store is None or size <= MOST_INSIDE:
        return RowMask(len(rows), data, None, size, checksum)
    ident = new()
    store.put(mask_key(pool, ident), data)
    return RowMask(len(rows), b"", ident, size, checksum)
