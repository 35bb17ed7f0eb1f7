"""Files that are fetched piece by piece, and streams that only go forward.

Each piece is twice as large as the one before while a file is read from start to end, and small
again where it was moved in: few requests for the one way of reading, few bytes for the other.
"""

from __future__ import annotations

import io
from collections.abc import Callable

from shoal.errors import InvalidInput

CHUNK = 1 << 18
_LARGEST = 8 << 20


class Ranged:
    """A file of known size that can be moved in. `fetch(start, size)` brings exactly that much or raises."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, close: Callable[[], None]) -> None:
        self._fetch = fetch
        self._size = size
        self._position = 0
        self._start, self._held, self._step = 0, b"", CHUNK // 2
        self.close = close

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes: what is at hand, else a new piece; all the rest without a size."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_LARGEST), b""))
        size = min(size, self._size - self._position)
        if size <= 0:
            return b""
        at = self._position - self._start
        if not 0 <= at < len(self._held):
            self._fetch_piece(size)
            at = 0
        data = self._held[at : at + size]
        self._position += len(data)
        return data

    def _fetch_piece(self, size: int) -> None:
        goes_on = self._position == self._start + len(self._held)
        self._step = min(2 * self._step, _LARGEST) if goes_on else CHUNK
        wanted = min(max(size, self._step), self._size - self._position)
        self._held = self._fetch(self._position, wanted)
        self._start = self._position

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """As for files."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise InvalidInput(f"cannot move to {base + offset}, before the beginning")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """As for files."""
        return self._position


class Forward:
    """Bytes that come once, from start to end. `read(size)` brings up to so many, as soon as there are any."""

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
        """Not possible."""
        raise InvalidInput("input is not seekable")

    def tell(self) -> int:
        """How much was read."""
        return self._count


def read_fully(read: Callable[[int], bytes], size: int) -> bytes:
    """So many bytes, short only at the end; never allocates for bytes that do not come."""
    parts: list[bytes] = []
    while size > 0 and (part := read(min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
