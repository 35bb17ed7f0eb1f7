"""The physical algebra: what a fragment in SQL returns. Node types say it, no flags do.

Rows     rows of relations, in one of three orders
Limit    the first rows
Last     the last rows
Fuse     rows in the one type that all of them fuse to
Groups   partial results of an aggregation
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from shoal.engines.sql.aggregation import Summary
from shoal.engines.sql.kept_rows import Reduction
from shoal.engines.sql.relations import Flat, Relation
from shoal.lang import plan
from shoal.model.node import frozen


class RowOrder(Enum):
    """The order of the rows of several relations."""

    STORED = "as they lie in each table, of which each has its relation"
    POOL = "that of the pool, by the order items of the relations"
    SORTED = "any other, by the order items of the relations"


@frozen
class Rows:
    """Rows of relations."""

    relations: tuple[tuple[Relation, Flat], ...]
    order: RowOrder
    are_groups: bool = False
    """Whether they are the groups of an aggregation, so that they are few."""


@frozen
class Limit:
    """The first rows."""

    rows: Rows
    count: int
    sort_keys: int = 0
    """By how many keys they were sorted; 0 if they are the first of the pool."""


@frozen
class Last:
    """The last rows. The relations give them from the last one on."""

    rows: Rows
    count: int


@frozen
class Fuse:
    """Rows in the type that all of them fuse to, with the queries for the types that they have."""

    rows: Rows
    types: tuple[Reduction, ...]


@frozen
class Groups:
    """Partial results of an aggregation, for each relation."""

    op: plan.Summarize
    plain: plan.Summarize
    """The aggregates of it that SQL computes."""
    summaries: tuple[Summary, ...]
    kept: tuple[plan.Summarize, ...]
    """For each aggregate that keeps values: how the interpreter aggregates the rows that SQL leaves."""
    reductions: tuple[tuple[Reduction, ...], ...]
    is_known: bool
    """Whether the groups are but counts by what follows from shapes, which the metadata has."""

    @property
    def is_ordered(self) -> bool:
        """Whether results depend on the order of rows."""
        return any(reduction.order for relations in self.reductions for reduction in relations)


Output: TypeAlias = Rows | Limit | Last | Fuse | Groups


@frozen
class Fragment:
    """The SQL of the first operators of a sequence."""

    output: Output
    rest: plan.Seq
    """The operators that are left to the interpreter."""
    joined: tuple[int, ...] = ()
    """Which of the other scans its joins read, by their indexes."""

    @property
    def is_reduced(self) -> bool:
        """Whether it returns less than it reads: groups, or the first or last rows."""
        match self.output:
            case Rows() as rows:
                return rows.are_groups
            case Fuse(rows):
                return rows.are_groups
        return True
