"""Values from open files: unwrapping, detecting, reading."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.formats.detect import open_source
from shoal.formats.options import ReadOptions
from shoal.formats.streams import Source
from shoal.model.values import Value


def read_source(source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values in a source of known or unknown format, compressed or not."""
    found, plain = open_source(source, format_name, options)
    return found.load_reader()(plain, options)
