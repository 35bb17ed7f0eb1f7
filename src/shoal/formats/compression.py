"""Gzip and zstd input, unwrapped as it streams. Output that grows beyond a sane ratio is refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import zstandard

from shoal.errors import InvalidInput
from shoal.formats.streams import CHUNK, Source

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MAX_RATIO = 1200
"""Above what deflate can reach, so that only zstd is ever refused for what it holds."""
_FREE = 64 * 1024 * 1024
"""Output up to this size is never a bomb."""


def unwrap(source: Source) -> Source:
    """`source` itself, or the plain bytes inside it. A source that cannot seek is peeked, not consumed."""
    if source.seekable():
        start = source.tell()
        head = source.read(4)
        source.seek(start)
    else:
        source = Peekable(source)
        head = source.peek(4)
    if head.startswith(_GZIP):
        return _Stream(source, _gunzip(source))
    if head == _ZSTD:
        return _Stream(source, _unzstd(source))
    return source


def is_compressed(head: bytes) -> bool:
    """Whether bytes begin like gzip or zstd."""
    return head.startswith((_GZIP, _ZSTD))


class Peekable:
    """A source that cannot seek, of which the first bytes can be looked at."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._head = b""
        self._ended = False

    def peek(self, size: int) -> bytes:
        """Up to `size` of the next bytes, short only at the end; they stay to be read."""
        while len(self._head) < size and not self._ended:
            part = self._source.read(max(CHUNK, size - len(self._head)))
            self._ended = not part
            self._head += part
        return self._head[:size]

    def read(self, size: int = -1, /) -> bytes:
        """What was peeked first, then the rest."""
        if not self._head:
            return self._source.read(size)
        if size < 0:
            out, self._head = self._head + self._source.read(), b""
            return out
        out, self._head = self._head[:size], self._head[size:]
        return out

    def seekable(self) -> bool:
        """Never."""
        return False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Not possible."""
        raise InvalidInput("input is not seekable")

    def tell(self) -> int:
        """Not possible."""
        raise InvalidInput("input is not seekable")


class _Stream(Peekable):
    """Plain bytes that are made as they are asked for."""

    def __init__(self, source: Source, pieces: Iterator[bytes]) -> None:
        super().__init__(source)
        self._pieces = pieces
        self._ready = b""

    def peek(self, size: int) -> bytes:
        while len(self._ready) < size and (piece := next(self._pieces, b"")):
            self._ready += piece
        return self._ready[:size]

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            out = self._ready + b"".join(self._pieces)
            self._ready = b""
            return out
        if not self._ready:
            self._ready = next(self._pieces, b"")
        out, self._ready = self._ready[:size], self._ready[size:]
        return out


def _gunzip(source: Source) -> Iterator[bytes]:
    input_size = output_size = 0
    engine = zlib.decompressobj(wbits=31)
    while data := source.read(CHUNK):
        input_size += len(data)
        while data:
            if engine.eof:  # members may follow each other
                if not data.strip(b"\0"):
                    break
                engine = zlib.decompressobj(wbits=31)
            try:
                piece = engine.decompress(data, 4 * CHUNK)
            except zlib.error as e:
                raise InvalidInput(f"gzip: {e}") from None
            output_size += len(piece)
            _check_ratio("gzip", input_size, output_size)
            if piece:
                yield piece
            data = engine.unused_data if engine.eof else engine.unconsumed_tail
    if not engine.eof:
        raise InvalidInput("gzip: expected more data, found the end of the input")


_ZSTD_STEP = 2048
"""Input given to zstd at once: small, since the output of one step is not limited."""


def _unzstd(source: Source) -> Iterator[bytes]:
    input_size = output_size = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    engine = decompressor.decompressobj()
    fresh = True
    while chunk := source.read(CHUNK):
        while chunk:
            step, chunk = chunk[:_ZSTD_STEP], chunk[_ZSTD_STEP:]
            if engine.eof:  # frames may follow each other
                engine, fresh = decompressor.decompressobj(), True
            try:
                piece = engine.decompress(step)
            except zstandard.ZstdError as e:
                raise InvalidInput(f"zstd: {e}") from None
            fresh = False
            chunk = engine.unused_data + chunk if engine.eof else chunk
            input_size, output_size = input_size + len(step), output_size + len(piece)
            _check_ratio("zstd", input_size, output_size)
            if piece:
                yield piece
    if not engine.eof and not fresh:
        raise InvalidInput("zstd: expected more data, found the end of the input")


def _check_ratio(name: str, input_size: int, output_size: int) -> None:
    if output_size > _FREE and output_size > input_size * _MAX_RATIO:
        raise InvalidInput(f"{name}: data expands more than {_MAX_RATIO} times (a decompression bomb?)")
