"""Open inputs: the protocol, and its two forms for what is not a local file.

`Ranged` fetches a file of known size piece by piece. Pieces double in size while a file is read from start to end and
are small again after a seek: few requests for the one way of reading, few bytes for the other. `Forward` is a stream.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Protocol

from shoal.errors import InvalidInput

STDIN = "-"
CHUNK = 1 << 18
_LARGEST = 8 << 20
_URL = re.compile(r"(?:https?|s3)://")


class Input(Protocol):
    """An open file. `tell` works on inputs that cannot seek as well: it returns the bytes read."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        ...

    def seekable(self) -> bool:
        """Whether `seek` works."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """As for files."""
        ...

    def tell(self) -> int:
        """As for files."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


def is_url(path: str) -> bool:
    """Whether a path is a URL to fetch."""
    return _URL.match(path) is not None


class Ranged:
    """A seekable file of known size. `fetch(start, size)` returns exactly that many bytes or raises."""

    is_remote = True

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, close: Callable[[], None]) -> None:
        self._fetch = fetch
        self._size = size
        self._position = 0
        self._piece, self._piece_start, self._step = b"", 0, CHUNK // 2
        self.close = close

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes: the rest of the current piece, else a new one; all the rest without a size."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_LARGEST), b""))
        size = min(size, self._size - self._position)
        if size <= 0:
            return b""
        offset = self._position - self._piece_start
        if not 0 <= offset < len(self._piece):
            self._fetch_piece(size)
            offset = 0
        data = self._piece[offset : offset + size]
        self._position += len(data)
        return data

    def _fetch_piece(self, size: int) -> None:
        is_sequential = self._position == self._piece_start + len(self._piece)
        self._step = min(2 * self._step, _LARGEST) if is_sequential else CHUNK
        self._piece = self._fetch(self._position, min(max(size, self._step), self._size - self._position))
        self._piece_start = self._position

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """As for files."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise InvalidInput(f"cannot seek to {base + offset}, before the beginning")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """As for files."""
        return self._position


class Forward:
    """A stream, read once from start to end. `read(size)` returns up to `size` bytes as soon as there are any."""

    def __init__(self, read: Callable[[int], bytes], close: Callable[[], None]) -> None:
        self._read = read
        self._count = 0
        self.close = close

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; all the rest without a size."""
        if size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        data = self._read(size)
        self._count += len(data)
        return data

    def seekable(self) -> bool:
        """Never."""
        return False

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Raises InvalidInput."""
        raise InvalidInput("input is not seekable")

    def tell(self) -> int:
        """The bytes read so far."""
        return self._count


def read_fully(read: Callable[[int], bytes], size: int) -> bytes:
    """Read `size` bytes, fewer only at the end; never allocates for bytes that do not come."""
    parts: list[bytes] = []
    while size > 0 and (part := read(min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
