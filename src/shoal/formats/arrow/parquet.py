"""Parquet. Types go by way of Arrow, whose schema in the file brings back what Parquet itself has no type for.

Units that Parquet lacks become finer: `arrow_timestamp_s` comes back as `arrow_timestamp_ms`. Files
are read and written a row group at a time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence, Set
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.arrow.intervals import DAY_TIME, MONTHS
from shoal.formats.arrow.pages import PageWatch, SmallerBatches
from shoal.formats.arrow.reader import batches, refusing
from shoal.formats.arrow.writer import RecordWriter, exchange_type
from shoal.formats.columns.batches import Batch
from shoal.formats.limits import too_much, value_memory
from shoal.formats.metering import give
from shoal.formats.streams import Source, read_exactly
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.model.values import Value

_NAME = "parquet"
_BATCH_ROWS = 16_384
_BATCH_BYTES = 64 * 1024 * 1024
_BARE_ROWS = 1 << 22
"""How many records without any field a file may hold."""
_TAIL = 8
"""Bytes at the end of a file: the size of the metadata, and the magic bytes."""
_METADATA_GROWTH = 16
"""How much larger metadata may be in memory."""
_GROUP_ROWS = 122_880
_GROUP_BYTES = 64 * 1024 * 1024


# ---- reading


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of a file."""
    for batch in read_columns(source, options):
        give(source, batch.nbytes)
        yield from batch.values()


def read_fields(source: Source, options: ReadOptions, fields: Sequence[tuple[str, ...]] | None) -> Iterator[Batch]:
    """The records of a file in columns, without those columns that hold none of the fields; None stands for all."""
    names = None if fields is None or () in fields else {path[0] for path in fields}
    return read_columns(source, options, names=names)


def read_columns(
    source: Source, options: ReadOptions, selection: range | None = None, names: Set[str] | None = None
) -> Iterator[Batch]:
    """The records of a file in columns; of these row groups, and columns, if any are named."""
    if not source.seekable():
        raise InvalidInput("parquet requires a seekable input")
    with refusing(_NAME):
        handle = _Handle(source, options)
        file = _open(handle, "ns")
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        _check_rows(file, groups)
        columns = _chosen(file.schema_arrow.names, names)
        for i, group in enumerate(groups):
            if selection is not None and i not in selection:
                continue
            _check_old_times(file, handle, i, options)
            rows = 0
            for batch in _group_batches(file, handle, i, options, columns):
                rows += batch.num_rows
                yield from batches(batch, options.arrow_types)
            if rows != group.num_rows:
                raise pa.ArrowInvalid(f"row group {i} has {rows} rows instead of {group.num_rows}")


def _chosen(columns: list[str], names: Set[str] | None) -> list[str] | None:
    """The columns with some names; None for all, where a name would not tell: a dot leads into a column."""
    are_plain = len(set(columns)) == len(columns) and not any("." in column for column in columns)
    return None if names is None or not are_plain else [column for column in columns if column in names]


def _group_batches(
    file: Any, handle: _Handle, number: int, options: ReadOptions, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a row group in batches of a sane size: what the metadata says is corrected by the pages."""
    group, limit = file.metadata.row_group(number), value_memory(options)
    rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)))
    use_threads = options.threads > 1
    while True:
        handle.pages = PageWatch(limit, group.num_rows, rows, _BATCH_BYTES)
        try:
            for batch in file.iter_batches(rows, row_groups=[number], columns=columns, use_threads=use_threads):
                if (size := batch.get_total_buffer_size()) > limit:
                    raise too_much(f"{_NAME}: row group {number}: {batch.num_rows} rows of {size} bytes", options)
                handle.pages.settle()
                yield batch
            return
        except SmallerBatches as e:
            rows = e.rows
        finally:
            handle.pages = None


def group_sizes(source: Source) -> list[int]:
    """Bytes of each row group, before compression."""
    with refusing(_NAME):
        file = _open(_Handle(source, DEFAULT_READ), "ns")
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        _check_rows(file, groups)
        return [group.total_byte_size for group in groups]


def _open(handle: _Handle, unit: str) -> Any:
    # Without a `buffer_size`: with one, pyarrow takes memory for the size that a page claims to have.
    return pq.ParquetFile(
        pa.PythonFile(handle, mode="r"),
        pre_buffer=False,
        coerce_int96_timestamp_unit=unit,
        thrift_container_size_limit=t.MAX_SIZE,
        arrow_extensions_enabled=False,
    )


def _check_rows(file: Any, groups: list[Any]) -> None:
    """Refuse a file whose numbers of rows make no sense.

    What the metadata say of columns stays unseen: pyarrow ends the process where those are damaged, unless it
    comes upon them in reading.
    """
    rows = [group.num_rows for group in groups]
    if min(rows, default=0) < 0 or sum(rows) != file.metadata.num_rows:
        raise pa.ArrowInvalid("row groups do not add up to the rows of the file")
    if not file.metadata.num_columns and sum(rows) > _BARE_ROWS:
        raise pa.ArrowInvalid(f"{sum(rows)} rows without a column")


def _check_old_times(file: Any, handle: _Handle, group: int, options: ReadOptions) -> None:
    """Times of the old 96-bit kind reach further than nanoseconds do, where pyarrow would wrap around.

    Microseconds reach as far; that they fit is checked as for any column of microseconds.
    """
    schema = file.schema
    old = [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type == "INT96"]
    if old:
        for batch in _group_batches(_open(handle, "us"), handle, group, options, old):
            for _ in batches(batch, options.arrow_types):
                pass


class _Handle:
    """A source as a file for pyarrow, which takes a short read for the end."""

    closed = False

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self.pages: PageWatch | None = None
        """Looks at all that is read while a row group is."""
        self.seek, self.tell = source.seek, source.tell
        self._check_footer(options)

    def _check_footer(self, options: ReadOptions) -> None:
        """Refuse a file whose metadata would take too much memory."""
        whole = self.seek(0, io.SEEK_END)
        self.seek(max(0, whole - _TAIL))
        size = int.from_bytes(read_exactly(self._source, _TAIL)[:4], "little")
        if size < whole and size * _METADATA_GROWTH > value_memory(options):
            raise too_much(f"{_NAME}: metadata of {size} bytes", options)

    def read(self, size: int) -> bytes:
        data = read_exactly(self._source, size)
        if self.pages is not None:
            self.pages.look(data)
        return data

    def close(self) -> None:
        pass


# ---- writing


class Writer(RecordWriter):
    """Writes records of one type as a Parquet file."""

    prefix = "parquetio"

    def check(self, typ: t.Type) -> None:
        whole = exchange_type(typ)
        is_empty_list = pa.types.is_fixed_size_list(whole) and whole.list_size == 0
        if whole in _UNSUPPORTED or pa.types.is_union(whole) or is_empty_list:
            raise pa.ArrowInvalid(f"unsupported type: {format_type(typ)}")

    def close(self) -> None:
        """Write what is buffered and the footer. Without records of a known type the file has no columns."""
        if self.is_empty() and self._shape is None:
            self.start(pa.schema([]))
        super().close()

    def open_stream(self, sink: pa.NativeFile, schema: pa.Schema) -> Any:
        return _RowGroups(pq.ParquetWriter(sink, schema, compression="zstd"))


_UNSUPPORTED = frozenset((MONTHS, DAY_TIME, pa.month_day_nano_interval(), pa.binary(0)))


class _RowGroups:
    """Gathers batches into row groups."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.get_total_buffer_size()
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches))
        self._batches, self._rows, self._bytes = [], 0, 0
