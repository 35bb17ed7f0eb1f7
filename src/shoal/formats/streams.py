"""The seam between bytes and values: what a reader reads from and what a writer is.

A reader is a generator function `read(source, options) -> Iterator[Value]`. It raises
`InvalidInput` with a position and what was expected; the caller that opened the file puts its name in
front. A writer is a class `Writer(out, options)`; `close` finishes the stream, not `out`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.limits import LIGHT, NO_PARTS, Costs, check_text
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = lazy("tempfile")

CHUNK = 1 << 18
"""How much is read at a time where the format does not say."""


class Columnar:
    """Values in columns. `Batch` derives from it, so that a batch can be recognised without loading Arrow."""

    __slots__ = ()


@frozen
class Place:
    """The place of some bytes in an input, by which bad records are found again."""

    file: str = ""
    """The name of the input; "" if it has none."""
    line: int = 1
    """The number of the first line."""
    is_part: bool = False
    """Whether the bytes may begin or end within a value, because others are read elsewhere."""


WHOLE = Place()


class Source(Protocol):
    """Bytes to read. Formats that need random access ask `seekable` first."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        ...

    def seekable(self) -> bool:
        """Whether `seek` and `tell` work."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """As for files."""
        ...

    def tell(self) -> int:
        """As for files."""
        ...


class Sink(Protocol):
    """Where a writer's bytes go."""

    def write(self, data: bytes, /) -> object:
        """Take all of `data`."""
        ...


@frozen
class WriteOptions:
    """What a caller chooses; each format looks at what concerns it."""

    pretty: int | None = None
    """Columns of indentation for zson and json; 0 is one value a line, None is the format's default (0)."""
    persist: str | None = None
    """A regular expression: named types that match are defined once a stream, not once a value."""
    color: bool = False
    csv_delimiter: str | None = None
    zng_compress: bool = True
    zng_frame_size: int = 512 * 1024
    width: int = 0
    """The columns of the terminal that a table has to fit; 0 means any width."""
    shape: t.Type | None = None
    """The type of values of which there may be none: formats with a header have it then, too."""
    refuses_mixtures: bool = False
    """Whether a table of records refuses any other value, as `zq` does."""


class Writer(Protocol):
    """Writes values of one stream."""

    def write(self, value: Value) -> None:
        """Add a value; raises InvalidInput if the format cannot hold it."""
        ...

    def close(self) -> None:
        """Write what is buffered and end the stream. The sink stays open."""
        ...


def is_remote(source: Source) -> bool:
    """Whether bytes come over a network, so that it is better not to read them twice."""
    return getattr(source, "is_remote", False)


def read_exactly(source: Source, size: int) -> bytes:
    """Up to `size` bytes, short only at the end; never allocates for bytes that do not come."""
    parts = []
    while size > 0:
        part = source.read(min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_at_least(source: Source, size: int) -> bytes:
    """The next bytes of a source, this many unless it ends: not one more is waited for."""
    parts: list[bytes] = []
    while size > 0 and (part := source.read(max(CHUNK, size))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_lines(source: Source, options: ReadOptions = DEFAULT_READ, costs: Costs = NO_PARTS) -> Iterator[bytes]:
    """Lines without their ends; the last one may lack an end. `\\r\\n` counts as an end.

    A line that is too long, or has too many parts for the memory it would take, is refused before it is whole.
    """
    rest = b""
    number = 0
    least = min(LIGHT, options.max_value_size)
    # A long line that is not whole yet is copied with what comes: more of it each time, up to the limit.
    while chunk := read_at_least(
        source, min(len(rest), options.max_value_size + 1 - len(rest)) if len(rest) > CHUNK else 1
    ):
        pieces = (rest + chunk).split(b"\n")
        may_be_long = len(rest) + len(chunk) > least
        rest = pieces.pop()
        for piece in pieces:
            number += 1
            if may_be_long:
                check_text(piece, options, f"line {number}", costs)
            yield piece[:-1] if piece.endswith(b"\r") else piece
        if may_be_long:
            check_text(rest, options, f"line {number + 1}", costs)
    if rest:
        yield rest


class Joined(io.RawIOBase):
    """Some bytes, and then a source."""

    def __init__(self, head: bytes, source: Source) -> None:
        self._head, self._at = head, 0
        self._source = source

    def read(self, size: int = -1, /) -> bytes:
        if self._at >= len(self._head):
            self._head, self._at = b"", 0
            return self._source.read(size)
        out = self._head[self._at :] if size < 0 else self._head[self._at : self._at + size]
        self._at += len(out)
        return out

    def seekable(self) -> bool:
        return False


class Peeks(Source, Protocol):
    """A source whose next bytes can be looked at."""

    def peek(self, size: int) -> bytes:
        """Up to `size` of the next bytes, short only at the end; they stay to be read."""
        ...


def peekable(source: Source) -> Peeks:
    """A source to read from instead, whose next bytes can be looked at."""
    if isinstance(source, (Peekable, PeekableFile)):
        return source
    return PeekableFile(source) if source.seekable() else Peekable(source)


class PeekableFile:
    """A source that can seek, so that its next bytes can be looked at."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.read, self.seek, self.tell, self.seekable = source.read, source.seek, source.tell, source.seekable
        self.is_remote = is_remote(source)

    def peek(self, size: int) -> bytes:
        """The next bytes, without moving."""
        start = self._source.tell()
        head = read_exactly(self._source, size)
        self._source.seek(start)
        return head


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


class Pieces(Peekable):
    """Bytes that are made, piece by piece, as they are asked for."""

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


class OnDisk:
    """All of a source in a temporary file, for formats that are read from the end. It goes when nobody needs it."""

    def __init__(self, source: Source) -> None:
        self._file = tempfile.TemporaryFile(prefix="shoal-input-")
        while chunk := source.read(CHUNK):
            self._file.write(chunk)
        self._file.seek(0)

    def __del__(self) -> None:
        self._file.close()

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        return self._file.read(size)

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """As for files."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """As for files."""
        return self._file.tell()


NAME_ENCODING = "(if the text is in another encoding, name it: -encoding latin-1)"
"""The way out of text that is not UTF-8."""


def decode_utf8(data: bytes, where: str) -> str:
    """Text of UTF-8 bytes; `where` goes into the error."""
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise InvalidInput(f"{where}: invalid UTF-8 at byte {e.start + 1} {NAME_ENCODING}") from None


class NullWriter:
    """The format `null`, for timing a query without its output: it drops values."""

    def __init__(self, out: Sink, options: WriteOptions = WriteOptions()) -> None:
        pass

    def write(self, value: Value) -> None:
        """Drop a value."""

    def close(self) -> None:
        """Nothing to end."""
