"""The filter of a `delete -where`: any filter expression of the language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shoal.api.pruning import key_range
from shoal.engines.interp.engine import compile_program, run_program
from shoal.errors import InvalidInput
from shoal.lake.keys import KeyRange, Path
from shoal.lang import plan
from shoal.model.values import Value


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled filter."""

    program: plan.Program

    def key_range(self, path: Path) -> KeyRange:
        """Where the filter can be true."""
        scan = self.program.body[0]
        return key_range(scan.filter if isinstance(scan, plan.DefaultScan) else None, path)

    def keep(self, values: Iterator[Value]) -> Iterator[Value]:
        """The values that the filter is not true for, in their order: false, null and errors stay."""
        every = list(values)
        # A filter hands on the very objects that it is given, so what it dropped can be told by identity.
        gone = {id(value) for value in run_program(self.program, every)}
        return (value for value in every if id(value) not in gone)


def parse_predicate(text: str) -> Predicate:
    """The filter in a text."""
    program = compile_program(text)
    match program.body:
        case (plan.DefaultScan(filter=condition),) if condition is not None:
            return Predicate(program)
        case (plan.DefaultScan(), plan.Filter()):
            # A filter that is not pushed down has a running aggregate, which would begin anew with each data object.
            raise InvalidInput("invalid delete where query: a filter with an aggregate depends on the order of records")
    raise InvalidInput("invalid delete where query: must be a single filter operation")
