"""What is in open files: unwrapping, detecting, reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from shoal.api.options import ReadOptions
from shoal.formats.detect import open_source
from shoal.formats.streams import Source
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats.columns import Batch

Piece: TypeAlias = "Value | Batch"
"""A value, or a run of values as columns."""


def read_source(source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values in a source of known or unknown format, compressed or not."""
    found, plain = open_source(source, format_name, options)
    return found.load_reader()(plain, options)


def read_pieces(source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """The same values in columns, where the format has a reader for that."""
    found, plain = open_source(source, format_name, options)
    reader = found.load_columns() or found.load_reader()
    return reader(plain, options)
