"""Plain text: one line per value, without types. Control characters in strings are escaped, so lines stay lines."""

from __future__ import annotations

from shoal.formats.flatten import columns, row
from shoal.formats.streams import Sink, WriteOptions
from shoal.formats.zeek.cells import Style, cell_text
from shoal.model import types as t
from shoal.model.values import Value


class Writer:
    """Writes a value a line; a record's flattened fields are separated by tabs."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out

    def write(self, value: Value) -> None:
        """Add a line."""
        under = value.type.under
        if isinstance(under, t.Record):
            cols = columns(under)
            cells = row(cols, value.data)
            line = "\t".join([cell_text(k, Style.LINE)(d) for k, d in zip(cols.types, cells, strict=True)])
        else:
            line = cell_text(value.type, Style.LINE)(value.data)
        self._out.write(line.encode() + b"\n")

    def close(self) -> None:
        """Nothing is buffered."""
