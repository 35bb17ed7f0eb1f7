"""Zip archives. Each member is a file of its own: a table has a header of its own, a log its own beginning.

Members are unpacked as they are read. What all of them hold together is bounded by the ratio, since members of a
hostile archive may share their bytes.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput, ShoalError
from shoal.formats.compression import LAYERS, beginning, check_ratio, is_compressed
from shoal.formats.limits import LIGHT, at, too_much, value_memory
from shoal.formats.streams import CHUNK, OnDisk, Peeks, Pieces, Source, read_exactly

_DIRECTORY_GROWTH = 32
"""How much larger a directory of members is in memory."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What is read. `zipfile` does not limit what other methods, which are rare, unpack at a time."""
_FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    EOFError,
    LookupError,
    RuntimeError,
    ValueError,
)
"""What `zipfile` raises on damaged archives."""
_IS_ENCRYPTED = 1
_OFFICE = "[Content_Types].xml"


class Archive:
    """The members of a zip archive, without directories and what macOS adds."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        """Read the directory at the end. A source that cannot seek is put on disk."""
        self._file = _File(source if source.seekable() else OnDisk(source), options)
        self._ratio = options.max_ratio
        self._unpacked = 0
        try:
            with _refusing():
                self._zip = zipfile.ZipFile(self._file)
        except InvalidInput as e:
            raise at("zip", e) from None
        if _OFFICE in self._zip.namelist():
            raise InvalidInput("zip: an Office document, not an archive of data (save its data as CSV)")
        self._infos = [info for info in self._zip.infolist() if _is_data(info)]

    @property
    def size(self) -> int:
        """How many bytes the members hold, as far as the directory says so. They do not give more."""
        return sum(info.file_size for info in self._infos)

    def members(self) -> Iterator[tuple[str, Peeks]]:
        """The name of each member, and its bytes."""
        for info in self._infos:
            try:
                _check(info)
                member = Pieces(self._file, self._unpack(info))
                if is_compressed(beginning(member)):
                    raise InvalidInput(LAYERS)
            except InvalidInput as e:
                raise at(f"zip: {info.filename}", e) from None
            yield info.filename, member

    def _unpack(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        with _refusing(), self._zip.open(info) as file:
            while piece := file.read(CHUNK):
                self._unpacked += len(piece)
                check_ratio("deflate", self._file.taken, self._unpacked, self._ratio)
                yield piece


def _is_data(info: zipfile.ZipInfo) -> bool:
    name = info.filename
    return not (name.endswith("/") or name.startswith("__MACOSX/") or name.rpartition("/")[2] == ".DS_Store")


def _check(info: zipfile.ZipInfo) -> None:
    """Refuse a member that cannot be read."""
    if info.flag_bits & _IS_ENCRYPTED:
        raise InvalidInput("encrypted (decrypt it first)")
    if info.compress_type not in _METHODS:
        raise InvalidInput(f"compression method {info.compress_type} (only stored and deflated members are read)")


@contextmanager
def _refusing() -> Iterator[None]:
    """Whatever `zipfile` raises becomes InvalidInput; a failure of the file itself stays what it is."""
    try:
        yield
    except ShoalError:
        raise
    except _FAILURES as e:
        raise InvalidInput(str(e)) from None


class _File:
    """A source as a file for `zipfile`."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self._options = options
        self._most = max(LIGHT, value_memory(options) // _DIRECTORY_GROWTH)
        self._taken = 0
        self._start = source.tell()
        self._size = source.seek(0, io.SEEK_END) - self._start
        source.seek(self._start)
        self.seek, self.tell, self.seekable = source.seek, source.tell, source.seekable

    @property
    def taken(self) -> int:
        """How many bytes were read, those that were read several times once."""
        return min(self._taken, self._size)

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, short only at the end. Only a directory is ever read in one large piece."""
        size = self._start + self._size - self.tell() if size is None or size < 0 else size
        if size > self._most:
            raise too_much(f"a directory of {size} bytes", self._options)
        data = read_exactly(self._source, size)
        self._taken += len(data)
        return data
