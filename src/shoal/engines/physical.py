"""The seam between planner and engines: a physical plan is a value that pickles, says what it does, and runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from shoal.engines.interp.environment import Run
from shoal.lang import plan
from shoal.model.values import Value


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
