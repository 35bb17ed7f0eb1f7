"""Data objects in column form: Parquet in the layout of their shapes.

The shapes stand in the metadata of the file under `shoal.shapes`, a JSON list of types in ZSON, as `$shape` counts
them. Row groups, whose statistics tell which keys they have, are the seek index. Pages have checksums, the footer one
in the commit, so that each part can be read alone and still be checked.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import CorruptData, NotFound, StorageFailure
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Batch
from shoal.formats.columns.fusion import TableColumns, numbered_schema, to_batch
from shoal.formats.columns.layouts import Layout, Leaf, layout_of
from shoal.formats.columns.physical import from_arrow
from shoal.lake.key_columns import KeyInterval, NumberedBatch
from shoal.lake.keys import EVERYTHING, KeyRange, SortKey
from shoal.lake.masks import Rows, hidden_rows, visible
from shoal.lake.objects import DataObject, Purged, key_of, missing
from shoal.lake.parquet_choices import with_dictionaries, with_statistics
from shoal.lake.pool_config import DEFAULT_SEEK_STRIDE
from shoal.lake.zones import LONGEST_BOUND, ORDERED, Extent, pack
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.model.values import Value
from shoal.storage.store import ObjectStore, dropping_damage, local_file
from shoal.storage.verified_files import VerifiedFile, VerifiedFiles

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

_FEWEST_STRIDES, _MOST_STRIDES = 10, 128
"""Seek strides in a row group: the most at the default stride and above."""
_MOST_GROUP_ROWS = 122_880
_MANY_GROUPS = 16
"""With this many row groups, their statistics show the distribution of keys well enough."""
_LONG_VALUE = 1024
"""Bytes of a value, on average, that are worth cutting before the least and the greatest are looked for."""
_COMPRESSION = "zstd"
_LEVEL = 1
_SHAPES = b"shoal.shapes"
_KEY = b"shoal.key"
_TAIL = 8
"""Bytes at the end of a file: the length of the footer, and `PAR1`."""


class Packed(NamedTuple):
    """A file, and what a commit says of it."""

    data: bytes
    size: int
    checksum: int
    index_size: int
    index_checksum: int
    zones: bytes


# ---- writing


def write(layout: Layout, ids: tuple[int, ...], table: pa.Table, key: SortKey, seek_stride: int) -> Packed:
    """A sorted table as a file, whose columns have these field ids."""
    value_size = table.get_total_buffer_size()
    rows = min(max(1, group_bytes(seek_stride) * table.num_rows // max(1, value_size)), _MOST_GROUP_ROWS)
    said = {_SHAPES: json.dumps([format_type(shape) for shape in layout.shapes]).encode(), _KEY: str(key).encode()}
    out = pa.BufferOutputStream()
    sorting = _sorting(layout, key, table.schema)
    pq.write_table(
        pa.Table.from_arrays(table.columns, schema=numbered_schema(layout, ids).with_metadata(said)),
        out,
        compression=_COMPRESSION,
        compression_level=_LEVEL,
        row_group_size=rows,
        write_page_checksum=True,
        write_statistics=with_statistics(table),
        use_dictionary=with_dictionaries(table, rows),
        store_schema=False,
        store_decimal_as_integer=True,
        sorting_columns=sorting,
    )
    data = out.getvalue().to_pybytes()
    index_size = int.from_bytes(data[-_TAIL:-4], "little") + _TAIL
    view = memoryview(data)
    size = len(data) - index_size
    zones = pack(layout, [_extent(leaf, _leaf_column(table, leaf)) for leaf in layout.leaves])
    return Packed(data, size, zlib.crc32(view[:size]), index_size, zlib.crc32(view[size:]), zones)


def group_bytes(seek_stride: int) -> int:
    """The bytes of a row group, the least that a seek reads.

    Large groups make scans fast and files small. A pool with a smaller stride than the default asks for finer seeks,
    so its groups have fewer strides.
    """
    fineness = min(1.0, seek_stride / DEFAULT_SEEK_STRIDE)
    return int(seek_stride * max(_FEWEST_STRIDES, _MOST_STRIDES * fineness**2))


def _sorting(layout: Layout, key: SortKey, columns: pa.Schema) -> list[Any] | None:
    """The order of the rows as Parquet tells it, as far as the key is in one column of a kind that it orders alike."""
    leaf = key_leaf(layout, key)
    if leaf is None or len(leaf.column) > 1 or leaf.type not in ORDERED or leaf.type is t.IP:
        return None
    place = columns.get_field_index(leaf.column[0])
    # Columns are counted by their leaves; those before this one may be structs.
    before = sum(_width(columns.field(i).type) for i in range(place))
    is_desc = key.order == "desc"
    return [pq.SortingColumn(before, descending=is_desc, nulls_first=is_desc)]


def _width(typ: pa.DataType) -> int:
    """How many columns of Parquet a type takes."""
    if pa.types.is_struct(typ):
        return sum(_width(typ.field(i).type) for i in range(typ.num_fields))
    return _width(typ.value_type) if pa.types.is_list(typ) else 1


def key_leaf(layout: Layout, key: SortKey) -> Leaf | None:
    """The one column that has the first key of all rows; None if it is in several, or in none."""
    slot = layout.root
    for name in key.paths[0]:
        if slot.leaves or slot.struct is None or name not in slot.struct.fields:
            return None
        slot = slot.struct.fields[name]
    if slot.struct is not None or len(slot.leaves) != 1:
        return None
    return next(iter(slot.leaves.values()))


def _leaf_column(table: pa.Table, leaf: Leaf) -> pa.ChunkedArray:
    column = table.column(leaf.column[0])
    return kernels.field(column, leaf.column[1:])


def _extent(leaf: Leaf, column: pa.ChunkedArray) -> Extent | None:
    """The least and greatest value; None for types without order."""
    if leaf.type not in ORDERED:
        return None
    ends = pa.array(kernels.extremes(_beginnings(leaf.type, column)), column.type)
    return Extent(*from_arrow(leaf.type, ends))


def _beginnings(typ: t.Type, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose ends make the same zones: that of long values is their beginning, which needs less memory."""
    if typ not in (t.STRING, t.BYTES) or column.nbytes <= _LONG_VALUE * len(column):
        return column
    cut = pc.utf8_slice_codeunits if typ is t.STRING else pc.binary_slice
    return cut(column, 0, LONGEST_BOUND + 1)


# ---- reading


def object_layout(o: DataObject) -> Layout:
    """The layout of an object, which follows from its shapes and the names that it lists."""
    return layout_of(tuple(shape for shape, _ in o.shapes or ()), o.names)


def read(store: ObjectStore, pool: str, key: SortKey, o: DataObject, wanted: KeyRange = EVERYTHING) -> Iterator[Value]:
    """The values of an object, in its order: those of the row groups that may hold something in the range."""
    for batch in read_batches(store, pool, key, o, wanted):
        yield from batch.values()


def read_batches(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, wanted: KeyRange = EVERYTHING
) -> Iterator[Batch]:
    """The rows of an object by row groups: of those that may hold something in the range."""
    name = key_of(pool, o)
    layout = object_layout(o)
    with dropping_damage(store, name), _Checked(name):
        file = _open(store, name, o)
        for table in _visible_tables(store, pool, o, file, _groups(file, layout, key, o, wanted)):
            yield to_batch(layout, TableColumns(table))


def read_interval(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, interval: KeyInterval
) -> Iterator[NumberedBatch]:
    """The rows of the row groups that may have a key in an interval, nulls included."""
    name = key_of(pool, o)
    layout = object_layout(o)
    with dropping_damage(store, name), _Checked(name):
        file = _open(store, name, o)
        ends = enumerate(_group_ends(file, layout, key))
        groups = [group for group, each in ends if each is None or interval.may_hold(key.order, *each)]
        for table, rows in _numbered_tables(store, pool, o, file, groups):
            yield NumberedBatch(to_batch(layout, TableColumns(table)), rows)


def read_tables(store: ObjectStore, pool: str, o: DataObject) -> Iterator[pa.Table]:
    """The rows of an object by row groups, each as a table in its layout."""
    name = key_of(pool, o)
    with dropping_damage(store, name), _Checked(name):
        file = _open(store, name, o)
        yield from _visible_tables(store, pool, o, file, range(file.num_row_groups))


def read_columns(store: ObjectStore, pool: str, o: DataObject, columns: Sequence[str]) -> pa.Table:
    """Some columns of all rows of an object, hidden ones included, in its order."""
    name = key_of(pool, o)
    with dropping_damage(store, name), _Checked(name):
        return _open(store, name, o).read(columns=list(columns), use_threads=False)


def _visible_tables(
    store: ObjectStore, pool: str, o: DataObject, file: Any, groups: Iterable[int]
) -> Iterator[pa.Table]:
    """The rows of some row groups, without those that are hidden."""
    return (table for table, _ in _numbered_tables(store, pool, o, file, groups))


def _numbered_tables(
    store: ObjectStore, pool: str, o: DataObject, file: Any, groups: Iterable[int]
) -> Iterator[tuple[pa.Table, Rows]]:
    """The rows of some row groups and their numbers, without hidden ones; a group without any other is not read."""
    hidden, metadata = hidden_rows(store, pool, o), file.metadata
    starts = [0, *accumulate(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))]
    for group in groups:
        rows = np.arange(starts[group], starts[group + 1], dtype=np.int64)
        kept = visible(hidden, starts[group], len(rows))
        if kept is None:
            yield file.read_row_group(group, use_threads=False), rows
        elif kept.any():
            yield file.read_row_group(group, use_threads=False).filter(pa.array(kept)), rows[kept]


def sample_keys(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, phase: float, most: int
) -> tuple[list[tuple[Value, int]], int]:
    """Keys of an object with the rows that each stands for, and in how many row groups they are: 0 if that is unknown.

    Where groups are few, each is divided into parts of at most `most` rows, and the key at a phase (0 to 1) of each
    part is taken. First keys alone would show little where many objects span the same range.
    """
    name = key_of(pool, o)
    layout = object_layout(o)
    leaf = key_leaf(layout, key)
    if leaf is None or leaf.type not in ORDERED:
        return [(o.first(key), o.count)], 0
    with dropping_damage(store, name), _Checked(name):
        file = _open(store, name, o)
        if file.num_row_groups >= _MANY_GROUPS:
            counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            firsts = [o.first(key) if ends is None else ends[0] for ends in _group_ends(file, layout, key)]
            return list(zip(firsts, counts, strict=True)), file.num_row_groups
        found: list[tuple[Value, int]] = []
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=[leaf.column[0]], use_threads=False)
            key_at, parts = key_reader(layout, table, key), -(-table.num_rows // most)
            edges = [table.num_rows * i // parts for i in range(parts + 1)]
            found += [(key_at(int(start + phase * (end - start))), end - start) for start, end in pairwise(edges)]
        return found, file.num_row_groups


def key_reader(layout: Layout, table: pa.Table, key: SortKey) -> Callable[[int], Value]:
    """What gives the first key of a row of a table, in a layout with one column for it."""
    leaf = key_leaf(layout, key)
    assert leaf is not None
    column = _leaf_column(table, leaf)
    return lambda row: Value(leaf.type, from_arrow(leaf.type, column.slice(row, 1))[0])


def _group_ends(file: Any, layout: Layout, key: SortKey) -> list[tuple[Value, Value] | None]:
    """The first and last key of each row group, in the order of the pool; None where statistics do not tell."""
    leaf = key_leaf(layout, key)
    if leaf is None or leaf.type not in ORDERED - t.FLOATS:  # of NaN, statistics say nothing
        return [None] * file.num_row_groups
    column = _column_index(file, leaf)
    ends: list[tuple[Value, Value] | None] = []
    for group in range(file.num_row_groups):
        statistics = file.metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
            ends.append(None)
            continue
        low, high = _bounds(statistics, leaf)
        ends.append((low, high) if key.order == "asc" else (high, low))
    return ends


def _open(store: ObjectStore, name: str, o: DataObject) -> Any:
    """The file, of which parts are fetched as they are read."""
    source = _Ranges(store, name, o)
    return pq.ParquetFile(pa.PythonFile(source, mode="r"), page_checksum_verification=True, pre_buffer=False)


class _Checked:
    """Whatever a reader of Parquet stumbles over is damage to the file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowException | OSError) and not isinstance(error, CorruptData | Purged):
            raise damaged(self._name) from error


def damaged(name: str) -> CorruptData:
    """What is said of an object whose bytes are not what they were."""
    return CorruptData(f"{name}: checksum mismatch (restore this object from a backup)")


class _Ranges(io.RawIOBase):
    """An object as a file whose footer is checked; small ones are fetched whole."""

    def __init__(self, store: ObjectStore, name: str, o: DataObject) -> None:
        self._store, self._name, self._object = store, name, o
        self._position = 0
        self._start = o.size if o.size > _SMALL else 0
        self._held = self._fetch(self._start, o.size + o.index_size - self._start)
        footer = memoryview(self._held)[o.size - self._start :]
        if zlib.crc32(footer) != o.index_checksum:
            raise damaged(name)
        if not self._start and zlib.crc32(memoryview(self._held)[: o.size]) != o.checksum:
            raise damaged(name)

    def _fetch(self, start: int, size: int) -> bytes:
        try:
            data = self._store.get_range(self._name, start, size)
        except NotFound:
            raise Purged(f"{self._name}: this data object is gone") from None
        if len(data) != size:
            raise damaged(self._name)
        return data

    def read(self, size: int = -1, /) -> bytes:
        whole = self._object.size + self._object.index_size
        size = whole - self._position if size < 0 else min(size, whole - self._position)
        start, self._position = self._position, self._position + size
        if start >= self._start:
            return self._held[start - self._start : start - self._start + size]
        return self._fetch(start, size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        whole = self._object.size + self._object.index_size
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: whole}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


_SMALL = 4 << 20
"""Bytes of an object that is fetched in one piece."""


def _groups(file: Any, layout: Layout, key: SortKey, o: DataObject, wanted: KeyRange) -> list[int]:
    """Which row groups may hold something in a range, by the statistics of the key."""
    every = list(range(file.num_row_groups))
    leaf = key_leaf(layout, key)
    if leaf is None or not o.is_ranged or wanted == EVERYTHING or leaf.type not in ORDERED:
        return every
    place = _column_index(file, leaf)
    return [i for i in every if _may_hold(file.metadata.row_group(i).column(place).statistics, leaf, wanted)]


def _column_index(file: Any, leaf: Leaf) -> int:
    path = ".".join(leaf.column)
    names = [file.schema.column(i).path for i in range(len(file.schema))]
    return names.index(path)


def _may_hold(statistics: Any, leaf: Leaf, wanted: KeyRange) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    return wanted.may_hold_between(*_bounds(statistics, leaf))


def _bounds(statistics: Any, leaf: Leaf) -> tuple[Value, Value]:
    """The least and the greatest value of a column chunk."""
    # Arrow would infer int64, which overflows for large unsigned numbers.
    of_type = pa.uint64() if leaf.type.under is t.UINT64 else None
    low, high = from_arrow(leaf.type, pa.array([statistics.min, statistics.max], of_type))
    return Value(leaf.type, low), Value(leaf.type, high)


# ---- for engines that read by themselves

VERIFIED = VerifiedFiles()
"""The files of this process whose checksums match."""
_BUFFER = 1 << 20


def has_files(store: ObjectStore) -> bool:
    """Whether objects of a store are files of this machine."""
    return local_file(store, "x") is not None


def checked_file(store: ObjectStore, pool: str, o: DataObject) -> VerifiedFile:
    """The file of an object whose bytes are what was written; for stores with files only."""
    name = key_of(pool, o)
    path = local_file(store, name)
    assert path is not None
    verify = partial(_verify_file, name, path, o)
    with _file_errors(name):
        return VerifiedFile(path, name, VERIFIED.ensure(path, verify), verify)


def file_with_footer(store: ObjectStore, pool: str, o: DataObject) -> str:
    """The file of an object whose footer is what was written, for an engine that verifies the checksums of pages."""
    name = key_of(pool, o)
    path = local_file(store, name)
    assert path is not None
    with _file_errors(name), open(path, "rb", buffering=0) as file:
        is_whole = os.fstat(file.fileno()).st_size == o.size + o.index_size
        file.seek(o.size)
        if not is_whole or _checksum(file, o.index_size) != o.index_checksum:
            raise damaged(name)
    return path


def _verify_file(name: str, path: str, o: DataObject) -> None:
    """Compare the checksums of a whole file.

    It is not mapped into memory: a file that is truncated meanwhile would end the process.
    """
    with _file_errors(name), open(path, "rb", buffering=0) as file:
        if (
            os.fstat(file.fileno()).st_size != o.size + o.index_size
            or _checksum(file, o.size) != o.checksum
            or _checksum(file, o.index_size) != o.index_checksum
        ):
            raise damaged(name)


@contextmanager
def _file_errors(name: str) -> Iterator[None]:
    """Errors of the file system, which name the object instead of a path."""
    try:
        yield
    except FileNotFoundError:
        raise missing(name) from None
    except OSError as e:
        raise StorageFailure(f"{name}: {(e.strerror or str(e)).lower()}") from None


def _checksum(file: io.FileIO, size: int) -> int | None:
    """The checksum of the next bytes of a file; None if it ends before."""
    checksum, buffer = 0, memoryview(bytearray(min(size, _BUFFER)))
    while size:
        count = file.readinto(buffer[: min(size, _BUFFER)])
        if not count:
            return None
        checksum = zlib.crc32(buffer[:count], checksum)
        size -= count
    return checksum


def read_table(store: ObjectStore, pool: str, o: DataObject) -> pa.Table:
    """All of an object, as a table in its layout."""
    name = key_of(pool, o)
    try:
        data = store.get(name)
    except NotFound:
        raise Purged(f"{name}: this data object is gone") from None
    with dropping_damage(store, name), _Checked(name):
        _check(name, o, memoryview(data))
        table = pq.read_table(pa.BufferReader(data), use_threads=False)
    kept = visible(hidden_rows(store, pool, o), 0, o.rows)
    return table if kept is None else table.filter(pa.array(kept))


def _check(name: str, o: DataObject, data: memoryview) -> None:
    with data:
        if (
            len(data) != o.size + o.index_size
            or zlib.crc32(data[: o.size]) != o.checksum
            or zlib.crc32(data[o.size :]) != o.index_checksum
        ):
            raise damaged(name)
