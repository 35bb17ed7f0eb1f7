"""Footers of Parquet files: how many rows a file has, and between which values those of each column are.

A footer is a struct of Thrift in its compact form. pyarrow reads it too, but it ends the process where what a damaged
one says of columns is looked at, and does not tell which fields the least and the greatest value come from. The older
fields have no defined order for texts and unsigned numbers, so they count for signed integers alone.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import InvalidInput
from shoal.formats.arrow.reader import refusing
from shoal.formats.arrow.thrift import read_struct
from shoal.model import types as t
from shoal.model.zcode import Data

MAGIC = b"PAR1"
TAIL = 8
"""Bytes at the end of a file: the length of what is before them, and `PAR1`."""
_MICROSECONDS, _MILLISECONDS = 1000, 1_000_000
_UNITS = {1: _MILLISECONDS, 2: _MICROSECONDS, 3: 1}
"""Nanoseconds of the units of a logical type."""
_OLD_UNITS = {9: _MILLISECONDS, 10: _MICROSECONDS}
"""Those of the older types of columns that are times."""
_REPEATED = 2
_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTE_ARRAY = 0, 1, 2, 4, 5, 6
_WIDTHS = {_INT32: 4, _INT64: 8}
_DAYS = (-719_162, 2_932_896)
"""Year 1 to year 9999."""

Path = tuple[str, ...]


class Extent(NamedTuple):
    """What the statistics of a column tell about its values: no value is beyond either end."""

    least: Data
    """None: it is unknown, or there are no values."""
    greatest: Data
    nulls: int | None
    """How many are null; None if that is unknown."""
    rows: int
    """How many rows there are, with nulls."""

    @property
    def is_known(self) -> bool:
        """Whether both ends are known."""
        return self.least is not None and self.greatest is not None

    @property
    def is_empty(self) -> bool:
        """Whether all are null."""
        return self.nulls is not None and self.nulls == self.rows


class _Chunk(NamedTuple):
    """A column of a row group."""

    physical: int
    least: bytes | None
    greatest: bytes | None
    old_least: bytes | None
    old_greatest: bytes | None
    nulls: int | None
    rows: int


class Footer(NamedTuple):
    """What a footer says of its file."""

    schema: pa.Schema
    rows: int
    uncompressed_size: int
    """Bytes of all columns before compression."""
    groups: tuple[Mapping[Path, _Chunk], ...]
    """The columns of each row group by their paths, but for those that are inside of lists and maps."""
    units: Mapping[Path, int]
    """Nanoseconds of the unit that a column of times is stored in."""

    def extent(self, path: Path, typ: t.Type) -> Extent:
        """What is known of a column of single values, whose values are of this type."""
        chunks = [group.get(path) for group in self.groups]
        known = [_extent(chunk, typ, self.units.get(path, 0)) for chunk in chunks if chunk is not None]
        if not known or len(known) < len(chunks):
            return Extent(None, None, None, self.rows)
        nulls = None if any(each.nulls is None for each in known) else sum(each.nulls or 0 for each in known)
        rows = sum(each.rows for each in known)
        held = [each for each in known if not each.is_empty]
        if not all(each.is_known for each in held) or not held:
            return Extent(None, None, nulls, rows)
        return Extent(min(each.least for each in held), max(each.greatest for each in held), nulls, rows)


def footer_size(tail: bytes) -> int:
    """The size of the footer, by the end of a file, which is part of it; InvalidInput if that is not Parquet."""
    if len(tail) < TAIL or not tail.endswith(MAGIC):
        encrypted = " (it is encrypted)" if tail.endswith(b"PARE") else ""
        raise InvalidInput(f"not a Parquet file{encrypted}")
    return int.from_bytes(tail[-TAIL:-4], "little") + TAIL


def parse_footer(data: bytes) -> Footer:
    """The footer in the last bytes of a file."""
    with refusing("parquet"):
        # A file that has nothing but its footer: pyarrow reads the schema alone.
        file = pq.ParquetFile(
            pa.BufferReader(MAGIC + data),
            pre_buffer=False,
            coerce_int96_timestamp_unit="ns",
            thrift_container_size_limit=t.MAX_SIZE,
            arrow_extensions_enabled=False,
        )
        schema = file.schema_arrow
    try:
        whole, _ = read_struct(data, 0)
        paths, units = _columns(whole[2])
        groups = tuple(_group(group, paths) for group in whole.get(4, ()))
        size = sum(group.get(2, 0) for group in whole.get(4, ()))
        rows = whole[3]
        if rows < 0 or rows != sum(group[3] for group in whole.get(4, ())):
            raise InvalidInput("parquet: row groups do not add up to the rows of the file")
    except (IndexError, KeyError, TypeError, AttributeError, ValueError) as e:
        raise InvalidInput("parquet: the footer is damaged") from e
    return Footer(schema, rows, size, groups, units)


# ---- what a footer says


def _columns(elements: list[dict[int, Any]]) -> tuple[list[Path | None], dict[Path, int]]:
    """The path of each column, in the order of the file, and the units of times; None for one inside of a list."""
    paths: list[Path | None] = []
    units: dict[Path, int] = {}
    open_groups: list[tuple[int, Path | None]] = [(elements[0].get(5, 0), ())]
    for element in elements[1:]:
        while open_groups and not open_groups[-1][0]:
            open_groups.pop()
        left, parent = open_groups.pop()
        open_groups.append((left - 1, parent))
        path = None if parent is None or element.get(3) == _REPEATED else (*parent, element[4].decode())
        if children := element.get(5, 0):
            open_groups.append((children, path))
            continue
        paths.append(path)
        if path is not None:
            logical = element.get(10, {}).get(8, {}).get(2, {})
            unit = next((_UNITS[kind] for kind in logical if kind in _UNITS), 0) or _OLD_UNITS.get(element.get(6, -1))
            units |= {path: unit} if unit else {}
    return paths, units


def _group(group: dict[int, Any], paths: list[Path | None]) -> dict[Path, _Chunk]:
    if len(group[1]) != len(paths):
        raise ValueError("a row group lacks columns")
    chunks: dict[Path, _Chunk] = {}
    for path, column in zip(paths, group[1], strict=True):
        if column.get(1):
            raise InvalidInput("parquet: a column of it is in another file")
        data = column.get(3)
        if path is None or data is None:
            continue
        said = data.get(12, {})
        chunks[path] = _Chunk(
            data[1], said.get(6), said.get(5), said.get(2), said.get(1), _counted(said.get(3), data[5]), data[5]
        )
    return chunks


def _counted(nulls: int | None, count: int) -> int | None:
    return nulls if nulls is not None and 0 <= nulls <= count else None


# ---- the ends of a column


def _extent(chunk: _Chunk, typ: t.Type, unit: int) -> Extent:
    ends = chunk.least, chunk.greatest
    if None in ends and typ in (*t.SIGNED, t.DATE, t.TIME):
        ends = chunk.old_least, chunk.old_greatest
    least, greatest = (None if end is None else _decoded(end, chunk.physical, typ, unit) for end in ends)
    if least is None or greatest is None or least > greatest:
        least = greatest = None
    return Extent(least, greatest, chunk.nulls, chunk.rows)


def _decoded(data: bytes, physical: int, typ: t.Type, unit: int) -> Data:
    """A value as a footer has it; None if it says nothing about values of the type."""
    if physical in _WIDTHS:
        if len(data) != _WIDTHS[physical]:
            return None
        return _decoded_integer(data, typ, unit)
    match physical:
        case _ if physical == _BOOLEAN and typ is t.BOOL and len(data) == 1:
            return data != b"\0"
        case _ if physical == _FLOAT and typ is t.FLOAT32 and len(data) == 4:
            return _number(struct.unpack("<f", data)[0])
        case _ if physical == _DOUBLE and typ is t.FLOAT64 and len(data) == 8:
            return _number(struct.unpack("<d", data)[0])
        case _ if physical == _BYTE_ARRAY and typ is t.BYTES:
            return data
        case _ if physical == _BYTE_ARRAY and typ is t.STRING:
            try:
                return data.decode()
            except UnicodeDecodeError:  # it was cut within a character
                return None
    return None


def _number(data: float) -> Data:
    return None if math.isnan(data) else data


def _decoded_integer(data: bytes, typ: t.Type, unit: int) -> Data:
    if typ in t.UNSIGNED:
        return int.from_bytes(data, "little")
    number = int.from_bytes(data, "little", signed=True)
    if typ in t.SIGNED:
        return number
    if typ is t.DATE and len(data) == _WIDTHS[_INT32]:
        if not _DAYS[0] <= number <= _DAYS[1]:
            raise InvalidInput("parquet: dates are out of range: they reach from year 1 to year 9999")
        return number
    if typ is t.TIME and unit and len(data) == _WIDTHS[_INT64]:
        time = number * unit
        if not -(1 << 63) <= time < 1 << 63:
            raise InvalidInput("parquet: times are out of range: 64 bits of nanoseconds reach from 1677 to 2262")
        return time
    return None
