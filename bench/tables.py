"""Tables in Markdown that are readable as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Cell = str | int | float | None


class Table(NamedTuple):
    """A table with a title above and a note below."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    note: str

    def __str__(self) -> str:
        texts = [self.head, *(tuple(map(_text, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        lines = [_line(texts[0], widths), _rule(widths), *(_line(row, widths) for row in texts[1:])]
        return "\n".join([self.title, "", *lines, "", self.note])


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return ""
        case float():
            return f"{cell:,.2f}"
        case int():
            return f"{cell:,}"
    return cell


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        f"{text:>{width}}" if i else f"{text:<{width}}"
        for i, (text, width) in enumerate(zip(texts, widths, strict=True))
    )
    return f"| {' | '.join([first, *rest])} |"


def _rule(widths: Sequence[int]) -> str:
    return f"|{'-' * (widths[0] + 2)}|{'|'.join('-' * (width + 1) + ':' for width in widths[1:])}|"
