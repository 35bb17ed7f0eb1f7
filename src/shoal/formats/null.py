"""The format that writes nothing: for timing a query without its output."""

from __future__ import annotations

from shoal.formats.streams import Sink, WriteOptions
from shoal.model.values import Value


class Writer:
    """Takes values and drops them."""

    def __init__(self, out: Sink, options: WriteOptions = WriteOptions()) -> None:
        pass

    def write(self, value: Value) -> None:
        """Drop a value."""

    def close(self) -> None:
        """Nothing to end."""
