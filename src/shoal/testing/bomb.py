"""A bomb: a small input that would take very much memory or time, if its reader did not look at it first."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from shoal.formats.streams import Source
from shoal.model.node import frozen

KINDS = ("deep", "wide", "long", "repeated", "shapes")
"""Nests deeply; has very many fields; one token; one value over and over; another shape in each value."""
MANY = 30_000_000
WIDE = 300_000
SHAPES = 3000


@frozen
class Bomb:
    """An input: bytes, or text that is made while it is read."""

    parts: Callable[[], Iterator[bytes]]
    is_seekable: bool = False

    def open(self) -> Source:
        """The input as a source. What can seek is small."""
        return io.BytesIO(b"".join(self.parts())) if self.is_seekable else _Flow(self.parts())


class _Flow(io.RawIOBase):
    """Parts, one after the other."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._part, self._at = b"", 0

    def read(self, size: int = -1, /) -> bytes:
        if self._at >= len(self._part):
            self._part, self._at = next(self._parts, b""), 0
        out = self._part[self._at :] if size < 0 else self._part[self._at : self._at + size]
        self._at += len(out)
        return out

    def seekable(self) -> bool:
        return False
