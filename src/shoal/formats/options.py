"""What a caller may choose when reading or writing; each format looks at what concerns it."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Choices of a writer."""

    pretty: int | None = None
    """Columns of indentation for zson and json; 0 is one value a line, None is the format's default (0)."""
    persist: str | None = None
    """A regular expression: named types that match are defined once a stream, not once a value."""
    color: bool = False
    csv_delimiter: str | None = None
    zng_compress: bool = True
    zng_frame_size: int = 512 * 1024
    head: str = ""
    """For metadata of a lake: the branch, or the commit, that is in use."""
