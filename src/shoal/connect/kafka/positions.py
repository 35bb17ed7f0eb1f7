"""Positions: how far a branch has come with its topics. Each commit of a sync says so in its metadata:

    {kafka: {seqno: 1200, bad: 0, topics: [{topic: "orders", id: "uC3…", next: [40, 17, 3]}]}}

`next` has the offset that comes next for each partition, -1 where nothing was read yet. A commit tells it of all topics
that the branch ever had, so the newest commit that says anything is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from shoal.api.branch import NO_COMMIT, Branch
from shoal.errors import CorruptData, NotFound
from shoal.model import types as t
from shoal.model.fields import get_or
from shoal.model.node import frozen
from shoal.model.values import Value

UNREAD = -1
"""Stands for the next offset of a partition of which nothing was read."""
FIRST = 1
"""The `seqno` of the first record."""
_TOPIC = t.record((("topic", t.STRING), ("id", t.STRING), ("next", t.array(t.INT64))))
_TYPE = t.record((("kafka", t.record((("seqno", t.INT64), ("bad", t.INT64), ("topics", t.array(_TOPIC))))),))
_FROM_DATA = (
    "has(kafka.topic, kafka.partition, kafka.offset) "
    "| seqno:=max(seqno), last:=max(kafka.offset) by topic:=kafka.topic, partition:=kafka.partition"
)


@frozen
class TopicPosition:
    """How far a topic was read."""

    id: str = ""
    """Its id at the broker, which a topic of the same name that is created later does not have; empty if unknown."""
    next: tuple[int, ...] = ()

    def of(self, partition: int) -> int:
        """The next offset of a partition."""
        return self.next[partition] if partition < len(self.next) else UNREAD

    def moved(self, offsets: Mapping[int, int]) -> TopicPosition:
        """The position once some partitions were read up to these offsets."""
        length = max([len(self.next), *(partition + 1 for partition in offsets)])
        return replace(self, next=tuple(offsets.get(n, self.of(n)) for n in range(length)))


@frozen
class Positions:
    """How far a branch has come."""

    seqno: int = FIRST
    """The number that comes next."""
    bad: int = 0
    """How many records could not be decoded."""
    topics: Mapping[str, TopicPosition] = field(default_factory=dict)

    def topic(self, name: str) -> TopicPosition:
        """The position in a topic."""
        return self.topics.get(name, TopicPosition())

    def after(self, count: int, bad: int, moved: Mapping[str, TopicPosition]) -> Positions:
        """The positions once some records are there."""
        return Positions(self.seqno + count, self.bad + bad, {**self.topics, **moved})


@frozen
class Read:
    """What a branch says."""

    positions: Positions
    commit: str
    """The commit that it was read at, in the form that a load expects."""


def read_positions(branch: Branch) -> Read:
    """How far a branch has come: by its newest commit that says so, or else by its records."""
    newest = NO_COMMIT
    try:
        for commit in branch.log():
            newest = commit.id if newest == NO_COMMIT else newest
            positions = parse_positions(commit.meta)
            if positions is not None:
                return Read(positions, newest)
    except NotFound:  # history was cut off behind a commit that says nothing
        if newest == NO_COMMIT:
            raise
    return Read(Positions() if newest == NO_COMMIT else _of_records(branch), newest)


def parse_positions(meta: Value) -> Positions | None:
    """The positions in the metadata of a commit; None if it has none."""
    if not isinstance(meta.type.under, t.Record) or meta.data is None or meta.field("kafka") is None:
        return None
    if meta.type.under is not _TYPE:
        data = get_or(meta, "kafka", None)
        raise CorruptData(f"metadata of a sync that cannot be read: {data!r} (written by a newer version?)")
    ((seqno, bad, topics),) = meta.data
    return Positions(seqno, bad, {name: TopicPosition(ident, tuple(following)) for name, ident, following in topics})


def format_positions(positions: Positions) -> Value:
    """Metadata of a commit that say these positions."""
    topics = tuple((name, each.id, each.next) for name, each in sorted(positions.topics.items()))
    return Value(_TYPE, ((positions.seqno, positions.bad, topics),))


def _of_records(branch: Branch) -> Positions:
    """What the records of a branch say, which has none of our commits, or has them no more."""
    seqno, topics = FIRST, dict[str, TopicPosition]()
    for row in branch.query(_FROM_DATA):
        values: dict[str, Any] = dict(zip((f.name for f in row.type.under.fields), row.data, strict=True))  # type: ignore[attr-defined]
        seqno = max(seqno, values["seqno"] + 1)
        position = topics.get(values["topic"], TopicPosition())
        topics[values["topic"]] = position.moved({values["partition"]: values["last"] + 1})
    return Positions(seqno, 0, topics)
