"""What a caller may choose when reading, and what a query may hold and counts; each reader looks at its own part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

MIB = 1 << 20
_P = TypeVar("_P")
MAX_VALUE_SIZE = 128 * 1024 * 1024
"""The longest line, token or frame that a reader takes in one piece, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Choices of a reader."""

    csv_delimiter: str | None = None
    """None means the format's own: a comma for csv, a tab for tsv."""
    zng_validate: bool = True
    max_value_size: int = MAX_VALUE_SIZE
    threads: int = 1
    """How many threads may decode columns at a time."""


DEFAULT_READ = ReadOptions()


@dataclass(frozen=True, slots=True)
class Memory:
    """How many bytes an operator may hold before it goes to disk; `aggregate` bounds one collected value."""

    sort: int = 128 * MIB
    aggregate: int = 1024 * MIB
    fuse: int = 128 * MIB
    groups: int = 1_000_000
    is_strict: bool = False
    """Whether what cannot go to disk, such as one collected value, fails when it grows beyond that."""


@dataclass(slots=True)
class Statistics:
    """What a run has read and kept so far."""

    bytes_read: int = 0
    bytes_matched: int = 0
    records_read: int = 0
    records_matched: int = 0


class Position(Protocol):
    """Something that is being read."""

    def tell(self) -> int:
        """How many bytes of it were read."""


class Watch(Protocol):
    """Passes what is in an open file on, and may look at how far it was read."""

    def __call__(self, file: Position, values: Iterator[_P], /) -> Iterator[_P]: ...
