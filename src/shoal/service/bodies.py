"""Bodies of requests: read by a thread while they arrive, counted, and hashed to recognise a repeated request.

One layer of compression is taken off, whether `Content-Encoding` names it or not; what it holds is counted as well.
"""

from __future__ import annotations

import hashlib
import tempfile
from typing import BinaryIO

from anyio import fail_after, from_thread
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from shoal.errors import InvalidInput, TooLarge
from shoal.formats import registry
from shoal.formats.compression import Peekable, is_compressed, unwrap
from shoal.formats.streams import CHUNK, Source

_IDLE_SECONDS = 60.0
"""How long to wait for the next bytes."""


class Body:
    """The bytes of a body in their order, for a thread of the loop."""

    def __init__(self, receive: Receive, limit: int, is_empty: bool = False) -> None:
        self._receive = receive
        self._limit = limit
        self._ready = b""
        self._is_whole = is_empty
        self._digest = hashlib.sha256()
        self.size = 0

    async def fetch(self, most: int) -> None:
        """Take in a small body before a thread is needed for it."""
        while not self._is_whole and len(self._ready) < most:
            self._ready += await self._next()

    async def _next(self) -> bytes:
        try:
            with fail_after(_IDLE_SECONDS):
                message = await self._receive()
        except TimeoutError:
            raise InvalidInput(f"the body of the request did not go on for {_IDLE_SECONDS:.0f} s") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        self._is_whole = not message.get("more_body", False)
        self.size += len(chunk)
        if self.size > self._limit:
            raise TooLarge(f"the body of the request is larger than {self._limit} bytes (load it in parts)")
        self._digest.update(chunk)
        return chunk

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        while not self._is_whole and (size < 0 or not self._ready):
            self._ready += from_thread.run(self._next)
        end = len(self._ready) if size < 0 else size
        out, self._ready = self._ready[:end], self._ready[end:]
        return out

    @property
    def is_whole(self) -> bool:
        """Whether all of it has arrived."""
        return self._is_whole

    def digest(self) -> bytes:
        """The hash of what has arrived."""
        return self._digest.digest()

    def seekable(self) -> bool:
        """Never."""
        return False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Not possible."""
        raise InvalidInput("a body cannot be read twice")

    def tell(self) -> int:
        """Not possible."""
        raise InvalidInput("a body cannot be read twice")


class _Counted(Peekable):
    """Plain bytes, up to a limit."""

    def __init__(self, source: Source, limit: int) -> None:
        super().__init__(source)
        self._limit = limit
        self._given = 0

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        out = super().read(size)
        self._given += len(out)
        if self._given > self._limit:
            raise TooLarge(f"the body of the request holds more than {self._limit} bytes (load it in parts)")
        return out


def plain(body: Body, encoding: str, limit: int) -> Source:
    """What a body holds, without its compression; on disk if its format has to be read from the end."""
    if encoding not in ("", "identity", "gzip", "zstd"):
        raise InvalidInput(f"unknown Content-Encoding {encoding!r} (gzip or zstd)")
    inner = _Counted(unwrap(body), limit)
    head = inner.peek(registry.MAGIC_SIZE)
    if is_compressed(head):
        raise InvalidInput("the body is compressed twice")
    entry = registry.by_magic(head)
    return _on_disk(inner) if entry is not None and entry.needs_seek else inner


def _on_disk(source: Source) -> BinaryIO:
    file = tempfile.TemporaryFile(prefix="shoal-body-")  # noqa: SIM115 - closed when nobody needs it any more
    while chunk := source.read(CHUNK):
        file.write(chunk)
    file.seek(0)
    return file
