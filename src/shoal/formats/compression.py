"""Gzip, zstd and LZ4 input. Streams are unwrapped as they are read; data that grows beyond a sane ratio is refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import lz4.block
import zstandard

from shoal.api.options import MAX_RATIO
from shoal.errors import InvalidInput
from shoal.formats.streams import CHUNK, Source

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
FREE = 64 * 1024 * 1024
"""Output up to this size is never a bomb."""


def unwrap(source: Source, ratio: int = MAX_RATIO) -> Source:
    """`source` itself, or the plain bytes inside it. A source that cannot seek is peeked, not consumed."""
    if source.seekable():
        start = source.tell()
        head = source.read(4)
        source.seek(start)
    else:
        source = Peekable(source)
        head = source.peek(4)
    if head.startswith(_GZIP):
        return _Stream(source, _gunzip(source, ratio))
    if head == _ZSTD:
        return _Stream(source, _unzstd(source, ratio))
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
        self._ready, self._at = b"", 0

    def peek(self, size: int) -> bytes:
        while len(self._ready) - self._at < size and (piece := next(self._pieces, b"")):
            self._ready, self._at = self._ready[self._at :] + piece, 0
        return self._ready[self._at : self._at + size]

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        if self._at == len(self._ready):
            self._ready, self._at = next(self._pieces, b""), 0
        out = self._ready[self._at : self._at + size]
        self._at += len(out)
        return out


def _gunzip(source: Source, ratio: int) -> Iterator[bytes]:
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
            check_ratio("gzip", input_size, output_size, ratio)
            if piece:
                yield piece
            data = engine.unused_data if engine.eof else engine.unconsumed_tail
    if not engine.eof:
        raise InvalidInput("gzip: expected more data, found the end of the input")


_ZSTD_STEP = 2048
"""Input given to zstd at once: small, since the output of one step is not limited."""


def _unzstd(source: Source, ratio: int) -> Iterator[bytes]:
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
            check_ratio("zstd", input_size, output_size, ratio)
            if piece:
                yield piece
    if not engine.eof and not fresh:
        raise InvalidInput("zstd: expected more data, found the end of the input")


def check_ratio(name: str, input_size: int, output_size: int, ratio: int) -> None:
    """Refuse data that has become too much more than it was."""
    if output_size > FREE and output_size > input_size * ratio:
        raise InvalidInput(
            f"{name}: expands more than {ratio} times, like a decompression bomb "
            f"(raise -read.ratio, or -limit.ratio of a service)"
        )


_LZ4_RATIO = 255
"""LZ4 cannot do better than this, so a block that claims more is lying."""


def unpack_lz4(block: bytes, size: int, what: str) -> bytes:
    """The bytes in an LZ4 block, which claims to hold this many; `what` it is goes into the error."""
    if size > _LZ4_RATIO * len(block) + 64:
        raise InvalidInput(f"{what} claims {size} bytes, more than its {len(block)} can hold")
    try:
        out: bytes = lz4.block.decompress(block, uncompressed_size=size)
    except lz4.block.LZ4BlockError as e:
        raise InvalidInput(f"bad LZ4 data ({e})") from None
    if len(out) != size:
        raise InvalidInput(f"{what} holds {len(out)} bytes, not the declared {size}")
    return out
