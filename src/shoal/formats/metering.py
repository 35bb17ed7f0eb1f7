"""Every source that values are read from is metered: a reader of any format takes a limited number of bytes at once.

A reader that takes more and more without giving a value is stopped, and so is one that gives far more than it took.
The limit is low, unless the format declares that its reader weighs what it decodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, compress, count, islice
from typing import TYPE_CHECKING

from shoal.api.options import MIB, ReadOptions
from shoal.formats.compression import check_ratio
from shoal.formats.limits import RAISE_MEMORY, LimitExceeded, value_memory
from shoal.formats.streams import CHUNK, WHOLE, Place, Source, is_remote
from shoal.lazy import lazy
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats.columns import batches
    from shoal.formats.columns.batches import Piece
else:
    batches = lazy("shoal.formats.columns.batches")

_STRIDE = 4 * MIB
"""Bytes after which values that came one by one are better made into columns: decoded they are far larger."""
_BLOCK = 4096
LEAST_VALUE = 64
"""Bytes that a value counts for, at least: those of its object."""


class Meter:
    """A source that knows how much was taken from it, and what became of it."""

    def __init__(self, source: Source, options: ReadOptions, growth: int = 1, place: Place = WHOLE) -> None:
        """`growth` is how many bytes of memory a byte may become before it is a value."""
        self._source = source
        self.place = place
        self.is_remote = is_remote(source)
        self._skipped = 0
        """Bad records that nobody has been told about."""
        self._most = value_memory(options) // growth
        self._ratio = options.max_ratio
        self._ticks = count(1)
        """Advances with each value, at no cost, and by one with each read: if it is further on, there were values."""
        self._tick = 0
        self._pending = self._taken = self._given = self._stride = 0
        self.seek, self.tell, self.seekable = source.seek, source.tell, source.seekable

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; all that is left without a size, as far as it is not too much."""
        if size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        data = self._source.read(size)
        self._taken += len(data)
        self.grow(len(data))
        return data

    def grow(self, size: int) -> None:
        """Count bytes that a reader took, or made of what it took."""
        tick = next(self._ticks)
        if tick != self._tick + 1:
            self._pending = 0
        self._tick = tick
        self._stride += size
        self._pending += size
        if self._pending > self._most:
            raise LimitExceeded(f"more than {self._most} bytes without a value {RAISE_MEMORY}")

    # ---- what the reader gives

    def values(self, values: Iterator[Value]) -> Iterator[Value]:
        """The values of the reader."""
        return compress(values, chain.from_iterable(self._blocks()))

    def _blocks(self) -> Iterator[Iterable[int]]:
        while True:
            yield islice(self._ticks, _BLOCK)
            self.give(_BLOCK * LEAST_VALUE)

    def give(self, size: int) -> None:
        """Count bytes that came out."""
        self._given += size
        check_ratio("encoded data", self._taken, self._given, self._ratio)

    def pass_over(self) -> None:
        """Forget what was taken: the reader holds none of it, although no value came of it."""
        next(self._ticks)

    def skip(self, count: int) -> None:
        """Count bad records that the reader leaves out."""
        self._skipped += count

    def single_pieces(self, values: Iterator[Value]) -> Iterator[Piece]:
        """The values of the reader; every so often a batch of none, so that not too many are held."""
        for value in self.values(values):
            yield value
            if self._stride > _STRIDE:
                self._stride = 0
                yield batches.EMPTY
        yield from self._left_out()

    def pieces(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The batches of a reader of columns, and what it gives one by one."""
        for piece in pieces:
            next(self._ticks)
            if isinstance(piece, Value):
                self.give(LEAST_VALUE)
            else:
                self.give(piece.nbytes)
            yield piece
            if self._stride > _STRIDE:
                self._stride = 0
                if isinstance(piece, Value):
                    yield batches.EMPTY
        yield from self._left_out()

    def _left_out(self) -> Iterator[Piece]:
        """What tells how many bad records there were, if they were skipped."""
        if self._skipped:
            yield batches.skipping(self._skipped)


def grow(source: Source, size: int) -> None:
    """Count bytes that a reader has made itself of those that it took, as by decompressing them."""
    if isinstance(source, Meter):
        source.grow(size)


def give(source: Source, size: int) -> None:
    """Count bytes that a reader gives, as far as they are more than a few for each value."""
    if isinstance(source, Meter):
        source.give(size)


def pass_over(source: Source) -> None:
    """Forget what was taken from a source: it was looked at, and nothing of it is held."""
    if isinstance(source, Meter):
        source.pass_over()


def skip(source: Source, count: int = 1) -> None:
    """Count bad records that a reader leaves out."""
    if isinstance(source, Meter):
        source.skip(count)


def place_of(source: Source) -> Place:
    """The place of a source in its input."""
    return source.place if isinstance(source, Meter) else WHOLE
