"""Metadata of a lake as people read it: a kind of record that has a form of its own is written in it.

What a value is, its named type tells. Values of other types are written as ZSON.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.formats.options import WriteOptions
from shoal.formats.streams import Sink
from shoal.model.text import Formatter
from shoal.model.types import Named
from shoal.model.values import Value

KINDS: dict[str, Callable[[Value], str]] = {}
"""By the name of a type, the text of its values without the line end."""


class Writer:
    """Writes values for people."""

    def __init__(self, out: Sink, options: WriteOptions = WriteOptions()) -> None:
        self._out = out
        self._formatter = Formatter(options.pretty or 0)

    def write(self, value: Value) -> None:
        """Write a value and a line end."""
        show = KINDS.get(value.type.name) if isinstance(value.type, Named) else None
        text = self._formatter.format(value) if show is None else show(value)
        self._out.write(text.encode() + b"\n")

    def close(self) -> None:
        """Nothing is held back."""
