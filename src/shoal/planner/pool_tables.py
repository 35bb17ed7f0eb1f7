"""A pool at a commit as a table of SQL: its columns, and the data objects that have to be read.

The columns are those of all shapes that it has there, whatever objects a filter leaves. An object that does not list
its shapes, since they are too many, is read once to know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.plain import Style
from shoal.engines.tables.statements import Condition
from shoal.engines.units import Source
from shoal.ids import Id
from shoal.lake.pools import Pool
from shoal.lake.scans import Warn
from shoal.planner.pruned import Pruned, prune
from shoal.planner.scan_units import sources_of, with_shapes
from shoal.planner.table_conditions import condition_of


@dataclass(frozen=True)
class PoolTable:
    """A pool at a commit."""

    pool: Pool
    commit: Id | None
    style: Style

    @cached_property
    def form(self) -> TableForm:
        """All columns."""
        objects = with_shapes(self.pool, self.pool.snapshot(self.commit).objects())
        shapes = dict.fromkeys(shape for o in objects for shape, _ in o.shapes or ())
        return TableForm(tuple(shapes), self.style)

    def prune(self, conditions: Sequence[Condition]) -> Pruned:
        """The objects that may have rows that meet conditions."""
        return prune(self.pool, self.commit, condition_of(self.form, conditions))

    def sources(self, pruned: Pruned, warn: Warn | None = None) -> list[Source]:
        """What an engine reads of those objects; what was purged is left out with a warning."""
        return sources_of(self.pool, pruned.objects, warn)
