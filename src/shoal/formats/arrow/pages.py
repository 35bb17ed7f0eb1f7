"""The pages of a Parquet file, as far as their headers say how large they are, before Arrow takes memory for them.

Arrow reads the chunk of a column as a whole and then unpacks a page of each column at a time, trusting its header. So
the bytes of each chunk are looked at on their way. Headers are Thrift structs in the compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from shoal.formats.limits import RAISE_MEMORY, LimitExceeded

_DEEPEST = 8
_INTEGERS = (3, 4, 5, 6)
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_UNPACKED, _PACKED, _DATA, _DICTIONARY, _DATA_V2 = 2, 3, 5, 7, 8
"""The fields of a page header that matter: two sizes, and what is known of the values."""
_CODECS = ("zstd", "gzip", "snappy", "lz4_raw", "brotli")
_LENGTH = struct.Struct("<I")
_COUNT = 1
"""In each of those, the number of values."""


class Page(NamedTuple):
    """A page, with what its header says."""

    size: int
    """Without compression."""
    values: int
    is_dictionary: bool
    packed: bytes = b""
    """What is in a dictionary, as it is stored."""

    @property
    def value_size(self) -> float:
        """How many bytes a value takes on average."""
        return self.size / max(1, self.values)


_NO_PAGE = Page(0, 0, True)


class SmallerBatches(Exception):
    """Rows are larger than was assumed: that many, at most, are to be read at a time."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"{rows} rows at a time")
        self.rows = rows


class PageWatch:
    """Looks at the column chunks of one row group."""

    def __init__(self, limit: int, rows: int, batch_rows: int, batch_bytes: int) -> None:
        """Pages that are unpacked at the same time may have `limit` bytes.

        The group has `rows` rows. It is read `batch_rows` at a time, which should take about `batch_bytes`.
        """
        self._limit = limit
        self._rows, self._batch_rows, self._batch_bytes = rows, batch_rows, batch_bytes
        self._unpacked = 0
        self._row_size = 0.0

    def settle(self) -> None:
        """The size of the batches stays as it is: there is one already."""
        self._batch_rows = 0

    def look(self, chunk: bytes) -> None:
        """Refuse a column chunk with pages that are too large. SmallerBatches if its values are larger than assumed."""
        largest, values, size = 0, 0, 0.0
        dictionary = _NO_PAGE
        for page in _pages(chunk):  # there may be millions, so they are not kept
            if page.is_dictionary:
                dictionary = max(dictionary, page)
                continue
            largest, values = max(largest, page.size), values + page.values
            # The densest page counts: the average of all would hide a stretch of large values.
            size = max(size, page.value_size)
        self._unpacked += largest + dictionary.size
        if self._unpacked > self._limit:
            raise LimitExceeded(f"parquet: pages unpack to more than {self._limit} bytes {RAISE_MEMORY}")
        self._row_size += (size + self._entry_size(dictionary)) * values / max(1, self._rows)
        if self._batch_rows > 1 and self._batch_rows * self._row_size > 2 * self._batch_bytes:
            raise SmallerBatches(max(1, int(self._batch_bytes / self._row_size)))

    def _entry_size(self, dictionary: Page) -> float:
        """How large an entry of a dictionary may be. It is only looked for if it could matter."""
        if self._batch_rows * dictionary.size <= self._batch_bytes:
            return dictionary.value_size
        return max(dictionary.value_size, _longest_entry(dictionary))


def _pages(chunk: bytes) -> Iterator[Page]:
    """The pages of a column chunk, up to anything that is not a page header: Arrow will complain about it."""
    pos = 0
    while pos < len(chunk):
        header = _Header(chunk, pos)
        try:
            fields = header.struct()
            size, packed = int(fields[_UNPACKED]), int(fields[_PACKED])
        except (IndexError, KeyError, TypeError, ValueError, struct.error):
            return
        if size < 0 or packed < 0:
            return
        counts = (about.get(_COUNT) for i in (_DATA, _DICTIONARY, _DATA_V2) if isinstance(about := fields.get(i), dict))
        values = next((count for count in counts if isinstance(count, int)), 0)
        is_dictionary = _DICTIONARY in fields
        yield Page(size, values, is_dictionary, chunk[header.pos : header.pos + packed] if is_dictionary else b"")
        pos = header.pos + packed


def _longest_entry(dictionary: Page) -> int:
    """The length of the longest string in a dictionary; 0 if it holds something else."""
    return max(_longest_string(body, dictionary.values) for body in _bodies(dictionary))


def _longest_string(body: bytes, count: int) -> int:
    """The length of the longest of `count` strings; 0 if they do not fill the body."""
    pos = longest = 0
    try:
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(body, pos)
            longest = max(longest, length)
            pos += 4 + length
    except struct.error:
        return 0
    return longest if pos == len(body) else 0


def _bodies(page: Page) -> Iterator[bytes]:
    """What a page may hold. Its header does not say how it was compressed, and some codecs accept any bytes."""
    yield page.packed
    for codec in _CODECS:
        try:
            yield pa.decompress(page.packed, page.size, codec, asbytes=True)
        except (pa.ArrowException, OSError, ValueError):
            continue


class _Header:
    """Reads a Thrift struct. What is not a number or a struct is skipped."""

    def __init__(self, buf: bytes, pos: int) -> None:
        self._buf = buf
        self.pos = pos
        self._depth = 0

    def struct(self) -> dict[int, Any]:
        """The fields of the struct here, by number."""
        if self._depth >= _DEEPEST:
            raise ValueError("nests too deeply")
        self._depth += 1
        fields: dict[int, Any] = {}
        number = 0
        while code := self._byte():
            number = number + (code >> 4) if code >> 4 else self._integer()
            fields[number] = self._value(code & 15)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in _INTEGERS:
            return self._integer()
        if kind == _STRUCT:
            return self.struct()
        if kind == _DOUBLE:
            self.pos += 8
        elif kind == _BINARY:
            length = self._varint()
            self.pos += length
        elif kind in (_LIST, _SET):
            self._skip_list()
        else:
            raise ValueError(f"no such type: {kind}")  # a map is in no page header
        return None

    def _skip_list(self) -> None:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        if count > len(self._buf):
            raise ValueError("a list longer than the chunk")
        for _ in range(count):
            self._value(_BYTE if head & 15 in (_TRUE, _FALSE) else head & 15)

    def _byte(self) -> int:
        self.pos += 1
        return self._buf[self.pos - 1]

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) > 127:
            number |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number beyond 64 bits")
        return number | byte << shift

    def _integer(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)
