"""The filter of a `delete -where`: any filter expression of the language."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.engines.interp.engine import evaluate, run_program
from shoal.errors import InvalidInput
from shoal.ids import Id
from shoal.lake.keys import KeyRange, Path
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.scans import scan_objects
from shoal.lang import plan
from shoal.lang.compile import compile_program
from shoal.planner.dispatch import SMALL
from shoal.planner.pruned import prune
from shoal.planner.pruning import key_range

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Rows


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled filter."""

    program: plan.Program
    condition: plan.Expr

    def key_range(self, path: Path) -> KeyRange:
        """Where the filter can be true."""
        return key_range(self.condition, path)

    def objects(self, pool: Pool, commit: Id | None) -> tuple[DataObject, ...]:
        """The objects at a commit that may hold something it is true for."""
        return prune(pool, commit, self.condition).objects

    def rows(self, pool: Pool, o: DataObject) -> Rows:
        """The numbers of the rows that the filter is true for: false, null and errors stay."""
        if o.size > SMALL and o.shapes is not None:
            engine: Any = import_module("shoal.engines.duckdb.matching")
            units: Any = import_module("shoal.planner.scan_units")
            try:
                found: Rows = engine.matching_rows(units.make_source(pool, o), self.condition, self.program.funcs)
            except engine.NotColumnar:
                pass
            else:
                return found
        return self._by_values(pool, o)

    def _by_values(self, pool: Pool, o: DataObject) -> Rows:
        numpy: Any = import_module("numpy")
        every = list(scan_objects(pool, [o]))
        # A filter hands on the very objects that it is given, so what it let pass can be told by identity.
        gone = {id(value) for value in run_program(self.program, every)}
        rows: Rows = numpy.array([i for i, value in enumerate(every) if id(value) in gone], numpy.int64)
        return rows


def parse_predicate(text: str) -> Predicate:
    """The filter in a text."""
    program = compile_program(text, evaluate)
    match program.body:
        case (plan.DefaultScan(filter=condition),) if condition is not None:
            return Predicate(program, condition)
        case (plan.DefaultScan(), plan.Filter()):
            # A filter that is not pushed down has a running aggregate, which would begin anew with each data object.
            raise InvalidInput("invalid delete where query: a filter with an aggregate depends on the order of records")
    raise InvalidInput("invalid delete where query: must be a single filter operation")
