"""The seam between planner and engines: scans of data objects, and physical plans, values that pickle and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from shoal.engines.interp.environment import Run
from shoal.formats.columns.layouts import Layout, Path, layout_of
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.formats.columns.batches import Piece, Rows
    from shoal.storage.verified_files import VerifiedFile


class Unsuited(Exception):
    """Something that an engine does not do, or that another one does faster."""


@frozen
class Source:
    """A data object."""

    number: int
    """Its number in the order of the pool."""
    shapes: tuple[t.Type, ...]
    """Those of its layout, in their order."""
    counts: tuple[int, ...]
    """How many values it has of each."""
    file: Callable[[], VerifiedFile] | None = None
    """Its file in column form, verified; called when it is about to be read."""
    table: Callable[[], pa.Table] | None = None
    """What is in it, as a table in the layout, if there is no such file."""
    size: int = 0
    """Bytes of its values as they are stored."""
    names: tuple[str, ...] = ()
    """Those of its columns in the order of the layout; none if they follow from the shapes."""
    hidden: Callable[[], Rows] | None = None
    """The numbers of the rows of its file that do not count; `table` is without them."""
    narrow: Callable[[Sequence[Path]], Source] | None = None
    """Makes a source of the same values, of which records have just the fields at some paths. None where `file` holds
    columns, of which any can be read."""

    def narrowed(self, paths: Sequence[Path] | None) -> Source:
        """What is needed of it, if that is these fields; None stands for all."""
        return self if paths is None or self.narrow is None else self.narrow(paths)

    @property
    def kind(self) -> tuple[tuple[t.Type, ...], tuple[str, ...], bool, bool]:
        """What sources have in common that one query reads as one table."""
        return self.shapes, self.names, self.file is not None, self.hidden is not None

    @property
    def layout(self) -> Layout:
        """How its values lie in columns."""
        return layout_of(self.shapes, self.names)

    @property
    def count(self) -> int:
        """How many values it has."""
        return sum(self.counts)

    @property
    def present(self) -> tuple[int, ...]:
        """The indexes of the shapes that it has values of."""
        return tuple(index for index, count in enumerate(self.counts) if count)


@frozen
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


class PhysicalPlan(Protocol):
    """A scan and the first operators after it, as one engine runs them."""

    @property
    def engine(self) -> str:
        """The name of the engine that runs it."""

    @property
    def rest(self) -> plan.Seq:
        """The operators that are left to the interpreter."""

    @property
    def is_reduced(self) -> bool:
        """Whether it returns less than it reads: groups, or the first rows."""

    @property
    def joined(self) -> tuple[int, ...]:
        """Which of the other scans that were offered it reads as well, by their indexes."""

    @property
    def joining(self) -> str:
        """How it joins these, in words that end before the name of the pool of the first scan."""

    def explain(self) -> tuple[str, ...]:
        """The queries that the engine runs, one for each layout."""

    def run(self, context: Run) -> Iterator[Value]:
        """The values that it returns."""


@runtime_checkable
class ColumnarPlan(Protocol):
    """A physical plan that can return columns."""

    def pieces(self, context: Run) -> Iterator[Piece]:
        """The values that it returns, in columns where that is possible."""
