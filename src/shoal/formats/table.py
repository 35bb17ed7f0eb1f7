"""Aligned columns for people to read. Rows are buffered, a thousand at most, since the widest one sets the width.

A header stands above each run of rows with the same columns. Nulls do not end a run: a null has any type, and may
stand for a record. On a terminal, a table is as wide as that: cells are cut, and columns that do not fit are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.errors import InvalidInput
from shoal.formats.flatten import VALUE, cells_in, columns, columns_in, joined
from shoal.formats.streams import Sink, WriteOptions
from shoal.formats.zeek.cells import Style, cell_text, escape
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.text import brief
from shoal.model.values import Value

if TYPE_CHECKING:
    from rich import cells as rich_cells
else:
    rich_cells = lazy("rich.cells")

BLOCK_ROWS = 1000
_NARROWEST = 8
"""A column that is wider than this is not cut to less."""
_ELLIPSIS = "…"


class Writer:
    """Writes values as tables: a block with a header for each run of rows with the same columns."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out
        self._width = options.width
        self._has_records = False
        self._refuses_mixtures = options.refuses_mixtures
        self._layout: t.Type = t.NULL
        self._types: set[t.Type] = set()
        self._values: list[Value] = []
        self.rows = 0
        """The number of rows so far."""
        self.columns_left_out = 0
        """The most columns that a block had no space for."""

    def write(self, value: Value) -> None:
        """Add a row."""
        if value.type not in self._types:
            self._enter(value)
        if len(self._values) >= BLOCK_ROWS:
            self._flush()
        self._values.append(value)
        self.rows += 1

    def close(self) -> None:
        """Write the last block."""
        self._flush()

    def _enter(self, value: Value) -> None:
        """Let the block take values of this type, or begin another one."""
        if not isinstance(value.type.under, t.Record):
            if self._has_records and self._refuses_mixtures:
                raise InvalidInput(f"table output encountered non-record value: {brief(value)}")
        else:
            self._has_records = True
        layout = joined(self._layout, value.type)
        if layout is None:
            self._flush()
            self._types.clear()
            layout = value.type
        self._layout = layout
        self._types.add(value.type)

    def _flush(self) -> None:
        """Write the buffered rows."""
        if not self._values:
            return
        under = self._layout.under
        names = columns(under).names if isinstance(under, t.Record) else (VALUE,)
        block = [[escape(name) for name in names], *self._cells()]
        self._values = []
        if self._width:
            block, left_out = _fitted(block, self._width)
            self.columns_left_out = max(self.columns_left_out, left_out)
        self._out.write("".join(_lines(block)).encode())

    def _cells(self) -> list[list[str]]:
        """The buffered rows as text."""
        ways = {}
        rows = []
        for value in self._values:
            if value.type not in ways:
                cols = columns_in(self._layout, value.type)
                ways[value.type] = cols, [cell_text(kind, Style.TABLE) for kind in cols.types]
            cols, texts = ways[value.type]
            cells = cells_in(self._layout, cols, value.data)
            rows.append([text(cell) for text, cell in zip(texts, cells, strict=True)])
        return rows


def _lines(block: list[list[str]]) -> list[str]:
    """The rows in lines; the last column needs no padding."""
    widths = [max(map(width, cells)) + 1 for cells in zip(*block, strict=True)][:-1]
    return ["".join([*map(_padded, cells, widths), *cells[len(widths) :]]) + "\n" for cells in block]


def _padded(text: str, size: int) -> str:
    return text + " " * (size - width(text))


# ---- width


def width(text: str) -> int:
    """The columns of a terminal that a text takes: two for a character of Chinese, none for an accent."""
    return len(text) if text.isascii() else rich_cells.cell_len(text)


def cut(text: str, size: int) -> str:
    """A text of at most this width. What is cut off is marked by an ellipsis."""
    if width(text) <= size:
        return text
    head = text[: size - 1] if text.isascii() else rich_cells.set_cell_size(text, size - 1).rstrip()
    return head + _ELLIPSIS


def _fitted(block: list[list[str]], size: int) -> tuple[list[list[str]], int]:
    """The rows of a block, at most this wide, and the number of columns that are left out."""
    widths = [max(map(width, cells)) for cells in zip(*block, strict=True)]
    if sum(widths) + len(widths) - 1 <= size:
        return block, 0
    count = len(widths)
    while count > 1 and _least(widths[:count]) + (2 if count < len(widths) else 0) > size:
        count -= 1
    left_out = len(widths) - count
    limit = _limit(widths[:count], size - (count - 1) - (2 if left_out else 0))
    mark = [_ELLIPSIS] if left_out else []
    return [[*(cut(cell, limit) for cell in cells[:count]), *mark] for cells in block], left_out


def _least(widths: Sequence[int]) -> int:
    """The width of columns that are cut as far as they may be, with a space between any two."""
    return sum(min(each, _NARROWEST) + 1 for each in widths) - 1


def _limit(widths: Sequence[int], size: int) -> int:
    """The largest width at which columns can be cut for all of them to fit."""
    rest = size
    for number, each in enumerate(sorted(widths)):
        share = rest // (len(widths) - number)
        if each > share:
            return max(share, 1)
        rest -= each
    return size
