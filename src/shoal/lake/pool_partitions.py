"""Partitions of a pool: each object has the records of one value of an expression, which its description says.

The lake knows values and no expressions: what knows the value of a record is given to it. The ranges of keys in
`partitioning`, and the objects that overlap in `scans`, are other divisions of a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shoal.errors import InvalidInput
from shoal.lake.objects import DataObject
from shoal.model.node import frozen
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Part, Rows


class Division(NamedTuple):
    """The partitions in some rows: their values, and the index of the value of each row."""

    values: list[Value]
    indexes: Rows


class Indivisible(InvalidInput):
    """A record without a partition: the expression fails for it, or it must not be written here."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row
        """Its offset in the part, or 0 for a value by itself."""


class Divider(Protocol):
    """Knows the partition of records. It can be pickled, for tasks elsewhere. It raises Indivisible."""

    def partition_of(self, value: Value, /) -> Value:
        """The partition of a value."""

    def divide(self, part: Part, /) -> Division:
        """The partitions of the rows of one shape."""


IsIn = Callable[[Value], bool]
"""Whether a partition, by its value, is meant."""


def by_partition(objects: Iterable[DataObject]) -> list[list[DataObject]]:
    """Objects in groups of the same partition, each in the order given; those of an unknown one are a group as well."""
    groups: dict[Value | None, list[DataObject]] = {}
    for o in objects:
        groups.setdefault(o.partition, []).append(o)
    return list(groups.values())


@frozen
class PartitionSize:
    """A partition, and what is in it."""

    value: Value | None
    """None: objects of which it is not known."""
    objects: int
    records: int
    size: int
    """Bytes in the store."""


def partition_sizes(objects: Iterable[DataObject]) -> list[PartitionSize]:
    """The partitions that objects are of, in the order in which they come."""
    return [
        PartitionSize(group[0].partition, len(group), sum(o.count for o in group), sum(o.size for o in group))
        for group in by_partition(objects)
    ]


def members(objects: Iterable[DataObject], is_in: IsIn) -> list[DataObject]:
    """The objects of the partitions that are meant. InvalidInput if there are some of unknown partitions."""
    known: dict[Value, bool] = {}
    chosen: list[DataObject] = []
    for o in objects:
        if o.partition is None:
            raise InvalidInput("some data objects have no partition value (compact them first, with: shoal compact)")
        if o.partition not in known:
            known[o.partition] = is_in(o.partition)
        if known[o.partition]:
            chosen.append(o)
    return chosen


def shared_partition(objects: Sequence[DataObject]) -> Value | None:
    """The partition that objects of one partition are of; None if it is unknown."""
    return objects[0].partition if objects else None
