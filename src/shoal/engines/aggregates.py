"""The aggregates of the engines, one entry each. `shoal.lang.aggregates` has their names and arity, for the parser.

An entry has all that engines need to know: the state of the interpreter, whether it grows, the type in which the state
leaves as a partial result, and the form in SQL. The table is data: `engines.sql` builds the SQL that an entry names.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from shoal.engines.interp.aggregates.contract import Aggregate, Limits
from shoal.engines.interp.aggregates.counting import And, Count, Or
from shoal.engines.interp.aggregates.gathering import PACKED, TYPES, Any, Collect, CollectMap, Fuse, Union
from shoal.engines.interp.aggregates.numeric import MEAN, NUMBERS, Average, Max, Min, Sum
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.node import frozen

if TYPE_CHECKING:
    from shoal.engines.interp.aggregates import sketching
else:
    sketching = lazy("shoal.engines.interp.aggregates.sketching")

Factory: TypeAlias = Callable[[Limits], Aggregate]
"""Makes the state of an aggregate that has consumed nothing."""
PartialType: TypeAlias = t.Type | tuple[str, ...]
"""The type of a partial result; the names of its fields, if the types of these follow from the values."""


class Outcome(Enum):
    """What the columns of an aggregate in SQL mean. Without columns, the aggregate was fed nothing."""

    NUMBER = "one number of a known type; null if nothing was fed"
    MEAN = "a sum and a count"
    BOOL = "a bool; null if nothing was fed"
    COUNT = "a count; 0 if nothing was fed"


@frozen
class SqlFunction:
    """SQL computes the aggregate."""

    name: str
    outcome: Outcome


class Kept(Enum):
    """The interpreter computes the aggregate, from the rows that SQL keeps for it."""

    DISTINCT = "each value once"
    FIRST = "the first value of each type, one that is not null before all others"
    ALL = "all values, in order"


SqlForm: TypeAlias = SqlFunction | Kept


@frozen
class AggregateSpec:
    """All that engines know of one aggregate."""

    state: Factory
    partial: PartialType
    sql: SqlForm
    grows: bool = False
    """Whether its state takes more memory the more it consumes."""


AGGREGATES: dict[str, AggregateSpec] = {
    "and": AggregateSpec(lambda limits: And(), t.BOOL, SqlFunction("bool_and", Outcome.BOOL)),
    "any": AggregateSpec(lambda limits: Any(), PACKED, Kept.FIRST),
    "avg": AggregateSpec(lambda limits: Average(), MEAN, SqlFunction("avg", Outcome.MEAN)),
    "collect": AggregateSpec(Collect, PACKED, Kept.ALL, grows=True),
    "collect_map": AggregateSpec(CollectMap, PACKED, Kept.ALL, grows=True),
    "count": AggregateSpec(lambda limits: Count(), t.UINT64, SqlFunction("count", Outcome.COUNT)),
    "dcount": AggregateSpec(lambda limits: sketching.DistinctCount(), t.BYTES, Kept.DISTINCT),
    "fuse": AggregateSpec(lambda limits: Fuse(), TYPES, Kept.FIRST),
    "max": AggregateSpec(lambda limits: Max(), NUMBERS, SqlFunction("max", Outcome.NUMBER)),
    "min": AggregateSpec(lambda limits: Min(), NUMBERS, SqlFunction("min", Outcome.NUMBER)),
    "or": AggregateSpec(lambda limits: Or(), t.BOOL, SqlFunction("bool_or", Outcome.BOOL)),
    "sum": AggregateSpec(lambda limits: Sum(), NUMBERS, SqlFunction("sum", Outcome.NUMBER)),
    "union": AggregateSpec(Union, PACKED, Kept.DISTINCT, grows=True),
}


def sql_function(name: str) -> SqlFunction | None:
    """How SQL computes an aggregate; None if it keeps rows for the interpreter instead."""
    form = AGGREGATES[name].sql
    return form if isinstance(form, SqlFunction) else None


def rows_kept(name: str) -> Kept | None:
    """Which rows SQL keeps for an aggregate; None if it computes it."""
    form = AGGREGATES[name].sql
    return form if isinstance(form, Kept) else None
