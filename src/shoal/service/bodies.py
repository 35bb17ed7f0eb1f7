"""Bodies of requests: read by a thread while they arrive, counted, and hashed to recognise a repeated request.

One layer of compression is taken off, whether `Content-Encoding` names it or not; what it holds is counted as well.
"""

from __future__ import annotations

import hashlib

from anyio import current_time, fail_after, from_thread
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from shoal.api.options import DEFAULT_READ
from shoal.errors import InvalidInput, TooLarge
from shoal.formats import registry
from shoal.formats.archives import Archive
from shoal.formats.compression import is_zip, unwrap
from shoal.formats.streams import CHUNK, OnDisk, Peekable, Source

_LEAST_RATE = 1024
"""Bytes a second that a body has to arrive with while it is waited for, on average."""


class Body:
    """The bytes of a body in their order, for a thread of the loop."""

    def __init__(self, receive: Receive, limit: int, stall: float, length: str | None, *, is_empty: bool) -> None:
        self._receive = receive
        self._limit = limit
        self._stall = stall
        self._ready = b""
        self._is_whole = is_empty
        self._digest = hashlib.sha256()
        self._waited = 0.0
        self._arrived = 0
        """Bytes, in the seconds that were waited for them."""
        self.size = 0
        if length is not None and length.isdecimal() and int(length) > limit:
            raise self._too_large()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body of the request is larger than {self._limit} bytes (load it in parts)")

    async def fetch(self, most: int) -> None:
        """Take in a small body before a thread is needed for it."""
        while not self._is_whole and len(self._ready) < most:
            self._ready += await self._next()

    async def fetch_first(self) -> None:
        """Take in the first bytes, which are all there is of most bodies."""
        if not self._is_whole:
            self._ready += await self._next()

    async def _next(self) -> bytes:
        began = current_time()
        try:
            with fail_after(self._stall):
                message = await self._receive()
        except TimeoutError:
            raise self._too_slow() from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        self._is_whole = not message.get("more_body", False)
        self.size += len(chunk)
        if self.size > self._limit:
            raise self._too_large()
        self._check_progress(current_time() - began, len(chunk))
        self._digest.update(chunk)
        return chunk

    def _check_progress(self, waited: float, arrived: int) -> None:
        """Refuse a body that comes in drops: it takes a slot, and perhaps a thread."""
        self._waited += waited
        self._arrived += arrived
        if self._waited >= self._stall and not self._is_whole:
            if self._arrived < self._waited * _LEAST_RATE:
                raise self._too_slow()
            self._waited, self._arrived = 0.0, 0

    def _too_slow(self) -> InvalidInput:
        return InvalidInput(f"the body of the request did not go on for {self._stall:g} s")

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
            raise _holds_too_much(self._limit)
        return out


def plain(body: Body, encoding: str, limit: int, ratio: int) -> Source:
    """What a body holds, without its compression; on disk if its format has to be read from the end.

    Refuses more than `limit` bytes, and a body that expands more than `ratio` times.
    """
    if encoding not in ("", "identity", "gzip", "zstd"):
        raise InvalidInput(f"unknown Content-Encoding {encoding!r} (gzip or zstd)")
    inner = _Counted(unwrap(body, ratio), limit)
    head = inner.peek(registry.MAGIC_SIZE)
    if is_zip(head):
        return _archive(OnDisk(inner), limit)
    entry = registry.by_magic(head)
    return OnDisk(inner) if entry is not None and entry.needs_seek else inner


def _archive(file: OnDisk, limit: int) -> Source:
    """An archive whose members do not hold more than `limit` bytes."""
    if Archive(file, DEFAULT_READ).size > limit:
        raise _holds_too_much(limit)
    file.seek(0)
    return file


def _holds_too_much(limit: int) -> TooLarge:
    return TooLarge(f"the body of the request holds more than {limit} bytes (load it in parts)")
