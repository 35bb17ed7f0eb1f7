"""What a caller may choose when writing; each format looks at what concerns it."""

from __future__ import annotations

from dataclasses import dataclass


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
