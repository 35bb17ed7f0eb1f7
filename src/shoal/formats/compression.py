"""Compressed input. Streams are unwrapped as they are read; data that grows beyond a sane ratio is refused.

One layer of compression is taken off. Archives, which hold files, are in `archives`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import lz4.block
import zstandard

from shoal.api.options import MAX_RATIO
from shoal.errors import InvalidInput
from shoal.formats.streams import CHUNK, Peeks, Pieces, Source, peekable
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    import bz2
    import lzma

    from lz4 import frame as lz4_frame
else:
    bz2 = lazy("bz2")
    lz4_frame = lazy("lz4.frame")
    lzma = lazy("lzma")

FREE = 64 * 1024 * 1024
"""Output up to this size is never a bomb."""
_STEP = 4 * CHUNK
"""Output that is made at a time."""
_WINDOW = 1 << 27
"""How far back compressed data may refer: what has to be in memory to unpack it."""
_SHORT_MAGIC, _LONG_MAGIC = 4, 10
"""Bytes that decide about compression, in most cases and in all."""
LAYERS = "holds compressed data, and only one layer of compression is read (unpack it first)"
"""What is wrong with data that are compressed twice."""


@frozen
class Compression:
    """A way to compress a stream of bytes."""

    name: str
    magic: tuple[bytes, ...]
    """How it begins."""
    unpack: Callable[[Source, int], Iterator[bytes]]
    """Makes plain bytes of a source. The number says how many times its size they may become."""


def unwrap(source: Source, ratio: int = MAX_RATIO) -> Source:
    """`source` itself, or the plain bytes inside it. A source that cannot seek is peeked, not consumed."""
    packed = peekable(source)
    used = by_magic(beginning(packed))
    if used is None:
        return source if source.seekable() else packed
    plain = Pieces(packed, used.unpack(packed, ratio))
    if is_compressed(beginning(plain)):
        raise InvalidInput(f"{used.name}: {LAYERS}")
    return plain


def beginning(source: Peeks) -> bytes:
    """The first bytes, enough to tell a compression. What a pipe has not sent yet is waited for only if it matters."""
    head = source.peek(_SHORT_MAGIC)
    is_magic = any(magic.startswith(head) for each in COMPRESSIONS for magic in each.magic)
    return source.peek(_LONG_MAGIC) if is_magic else head


def by_magic(head: bytes) -> Compression | None:
    """The compression of bytes that begin like this."""
    return next((each for each in COMPRESSIONS if head.startswith(each.magic)), None)


def by_name(name: str) -> Compression:
    """The compression of this name."""
    return next(each for each in COMPRESSIONS if each.name == name)


def is_compressed(head: bytes) -> bool:
    """Whether bytes begin like compressed ones, or like an archive."""
    return is_zip(head) or by_magic(head) is not None


def is_zip(head: bytes) -> bool:
    """Whether bytes begin like a zip archive."""
    return head.startswith(_ZIP_MAGIC)


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
                piece = engine.decompress(data, _STEP)
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
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
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


class _Engine(Protocol):
    """Unpacks one stream."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _in_steps(name: str, start: Callable[[], _Engine]) -> Callable[[Source, int], Iterator[bytes]]:
    """Unpacks with an engine that makes a limited number of bytes at a time."""

    def unpack(source: Source, ratio: int) -> Iterator[bytes]:
        input_size = output_size = 0
        engine = start()
        while data := source.read(CHUNK):
            input_size += len(data)
            while data or not (engine.eof or engine.needs_input):
                if engine.eof:  # streams may follow each other, with zeros between them
                    if not data.strip(b"\0"):
                        break
                    engine = start()
                try:
                    piece = engine.decompress(data, _STEP)
                except (OSError, ValueError, RuntimeError, lzma.LZMAError) as e:
                    raise InvalidInput(f"{name}: {e}") from None
                data = engine.unused_data or b"" if engine.eof else b""
                output_size += len(piece)
                check_ratio(name, input_size, output_size, ratio)
                if piece:
                    yield piece
        if not engine.eof:
            raise InvalidInput(f"{name}: expected more data, found the end of the input")

    return unpack


_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""An archive with members, and one without."""
_BZIP2_BLOCK, _BZIP2_END = b"1AY&SY", b"\x17rE8P\x90"
COMPRESSIONS = (
    Compression("gzip", (b"\x1f\x8b",), _gunzip),
    Compression("zstd", (b"\x28\xb5\x2f\xfd",), _unzstd),
    Compression(
        "bzip2",
        tuple(b"BZh%d" % level + next_bytes for level in range(1, 10) for next_bytes in (_BZIP2_BLOCK, _BZIP2_END)),
        _in_steps("bzip2", lambda: bz2.BZ2Decompressor()),
    ),
    Compression(
        "xz",
        (b"\xfd7zXZ\0",),
        _in_steps("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_WINDOW + (1 << 20))),
    ),
    Compression("lz4", (b"\x04\x22\x4d\x18",), _in_steps("lz4", lambda: lz4_frame.LZ4FrameDecompressor())),
)
"""Every compression of input."""


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
