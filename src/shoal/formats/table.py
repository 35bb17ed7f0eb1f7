"""Aligned columns for people to read. Rows are buffered, a thousand at most, since the widest one sets the width."""

from __future__ import annotations

from shoal.errors import InvalidInput
from shoal.formats.flatten import Columns, columns, row
from shoal.formats.streams import Sink, WriteOptions
from shoal.formats.zeek.cells import Style, Text, cell_text, escape
from shoal.model import types as t
from shoal.model.text import brief
from shoal.model.values import Value

BLOCK_ROWS = 1000


class Writer:
    """Writes records as tables: a block with a header for each run of one type."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out
        self._type: t.Type | None = None
        self._columns: Columns | None = None
        self._texts: list[Text] = []
        self._rows: list[list[str]] = []

    def write(self, value: Value) -> None:
        """Add a row."""
        if value.type is not self._type:
            self._enter(value)
        if len(self._rows) > BLOCK_ROWS:  # one of them is the header
            self._flush()
        assert self._columns is not None
        if not self._rows:
            self._rows.append([escape(name) for name in self._columns.names])
        cells = row(self._columns, value.data)
        self._rows.append([text(cell) for text, cell in zip(self._texts, cells, strict=True)])

    def close(self) -> None:
        """Write the last block."""
        self._flush()

    def _enter(self, value: Value) -> None:
        under = value.type.under
        if not isinstance(under, t.Record):
            raise InvalidInput(f"table output encountered non-record value: {brief(value)}")
        cols = columns(under)
        if self._columns is None or cols[:2] != self._columns[:2]:
            self._flush()
            self._texts = [cell_text(kind, Style.TABLE) for kind in cols.types]
        self._type, self._columns = value.type, cols

    def _flush(self) -> None:
        """Write the buffered rows; the last column needs no padding."""
        widths = [max(map(len, cells)) + 1 for cells in zip(*self._rows, strict=True)][:-1]
        lines = []
        for cells in self._rows:
            padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
            lines.append("".join(padded + cells[len(widths) :]) + "\n")
        self._rows = []
        if lines:
            self._out.write("".join(lines).encode())
