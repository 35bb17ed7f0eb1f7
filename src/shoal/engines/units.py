"""What engines read: data objects of one layout, as files or as tables in memory. Engines know no lake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.model import types as t

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Source:
    """A data object."""

    place: int
    """Its number in the order of the pool."""
    shapes: tuple[t.Type, ...]
    """Those of its layout, in their order."""
    counts: tuple[int, ...]
    """How many values it has of each."""
    file: Callable[[], str] | None = None
    """Where it is, as a file in column form; called when it is about to be read."""
    table: Callable[[], pa.Table] | None = None
    """What is in it, as a table in the layout, if there is no such file."""
    size: int = 0
    """Bytes of its values as they are stored."""

    @property
    def count(self) -> int:
        """How many values it has."""
        return sum(self.counts)

    @property
    def present(self) -> tuple[int, ...]:
        """The places of the shapes that it has values of."""
        return tuple(index for index, count in enumerate(self.counts) if count)


@dataclass(frozen=True, slots=True)
class Scan:
    """The data objects that a query has to read, in the order of the pool."""

    runs: tuple[tuple[Source, ...], ...]
    """Those of one run overlap and have to be merged by the key; the next run comes after it."""
    key: tuple[str, ...]
    """The path of the pool key."""
    is_descending: bool = False

    @property
    def sources(self) -> tuple[Source, ...]:
        """All of them."""
        return tuple(source for run in self.runs for source in run)
