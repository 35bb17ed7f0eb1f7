"""A branch that topics go into: batches of records become commits, each record once.

A batch begins where the branch was when its first record was read. It is committed only if the branch is still there,
by a load that expects the commit at which the positions were read. A worker that lost a race reads them again: records
that are there already are dropped, the others get new numbers. See `docs/adr/0047-topics-into-pools.md`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shoal.api.branch import Branch
from shoal.api.lake import GetPool
from shoal.api.requests import NoteArgs
from shoal.connect.kafka.positions import UNREAD, Positions, Read, TopicPosition, format_positions, read_positions
from shoal.connect.kafka.raw_records import NUMBER, Decoded
from shoal.errors import Conflict, InvalidInput, OutcomeUnknown, StorageFailure, TooMany
from shoal.formats.columns.batches import Batch, Rows
from shoal.ids import new, to_text
from shoal.model.node import frozen
from shoal.storage.backoff import backoff

Place = tuple[str, int]
"""A topic and a partition."""
Load = Callable[[str, str, NoteArgs], str]
"""Commits data, given the commit that is expected, the id of the operation and the note; returns the commit."""
_PATIENCE = 30.0
"""Seconds in which a load whose outcome is unknown is repeated under its id."""


class Rewind(Exception):
    """Records are missing between what a branch has and a batch: read them again from here."""

    def __init__(self, place: Place, offset: int) -> None:
        super().__init__(f"{place[0]}[{place[1]}] from {offset}")
        self.place, self.offset = place, offset


@frozen
class Committed:
    """What became of a batch."""

    commit: str | None
    """None if all of it was there already."""
    records: int
    bad: int
    retries: int


class Reach(Protocol):
    """How far something brings the topics of a branch."""

    @property
    def ends(self) -> Mapping[Place, int]:
        """The next offset of each partition."""

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids of the topics at the broker."""

    @property
    def replaces(self) -> Mapping[str, str]:
        """Of topics that were recreated, the ids of those that they stand in for."""


@frozen
class Consumed:
    """Decoded records, and from where to where they were read."""

    decoded: Decoded
    begins: Mapping[Place, int]
    """The offset at which the reading of each partition went on: there is nothing between it and the first record."""
    ends: Mapping[Place, int]
    ids: Mapping[str, str]
    """The ids of the topics at the broker."""
    replaces: Mapping[str, str] = field(default_factory=dict)
    """Of topics that were recreated, the ids of those that they stand in for, where that was asked for."""


def require_pool(branch: Branch) -> None:
    """InvalidInput if a pool cannot take raw records: it has to be sorted by their numbers."""
    info = branch.lake.do(GetPool(branch.pool_id))
    if info.paths[:1] != ((NUMBER,),) or info.order != "asc":
        raise InvalidInput(
            f"{info.name}: a pool of records from Kafka is sorted by {NUMBER}, ascending, and this one is not "
            f"(create one with: shoal create -orderby {NUMBER} NAME)"
        )


@dataclass(eq=False)
class Target:
    """A branch, and how far it has come, as far as is known."""

    branch: Branch
    note: NoteArgs = field(default_factory=lambda: NoteArgs())
    name: str = ""
    _read: Read | None = None

    def positions(self) -> Positions:
        """How far the branch has come."""
        return self.read().positions

    def refresh(self) -> Positions:
        """How far the branch has come, read again."""
        self.forget()
        return self.positions()

    def forget(self) -> None:
        """Read the positions again before the next commit."""
        self._read = None

    def read(self) -> Read:
        """How far the branch has come, and the commit that says so."""
        if self._read is None:
            self._read = read_positions(self.branch)
        return self._read

    def commit(self, batch: Consumed) -> Committed:
        """Commit what the branch does not have of a batch. Rewind, if the branch lacks what was before it."""
        for retries, wait in enumerate(backoff(0.01, 2.0)):
            current = self.read()
            rows = _missing(batch, current.positions)
            if not len(rows):
                return Committed(None, 0, 0, retries)
            bad = int(batch.decoded.is_bad[rows].sum())
            after = current.positions.after(len(rows), bad, _moved(batch, current.positions))
            try:
                commit = self._load(batch.decoded.numbered(current.positions.seqno, rows), current.commit, after)
            except Conflict:
                self._read = None
                time.sleep(wait)
                continue
            self._read = Read(after, commit)
            return Committed(commit, len(rows), bad, retries)
        raise AssertionError

    def advance(self, since: Read, reach: Reach, count: int, bad: int, load: Load) -> str:
        """Commit records that have the numbers already that come next after what was read; returns the commit.

        Conflict if the branch has changed since.
        """
        after = since.positions.after(count, bad, _moved(reach, since.positions))
        self._read = None  # it may land without an answer
        commit = self._once(lambda op, note: load(since.commit, op, note), count, after)
        self._read = Read(after, commit)
        return commit

    def _load(self, batch: Batch, expected: str, after: Positions) -> str:
        def load(op: str, note: NoteArgs) -> str:
            return self.branch.load([batch], expect=expected, op=op, **note)

        return self._once(load, batch.length, after)

    def _once(self, load: Callable[[str, NoteArgs], str], count: int, after: Positions) -> str:
        """Load records, once, whatever the store answers; Conflict if somebody else was first."""
        op, until = to_text(new()), time.monotonic() + _PATIENCE
        note = NoteArgs(
            author=self.note.get("author"),
            message=self.note.get("message") or f"synced {count} records from Kafka",
            meta=format_positions(after),
        )
        for wait in backoff(0.1, 5.0):
            try:
                return load(op, note)
            except (OutcomeUnknown, StorageFailure, TooMany):
                if time.monotonic() > until:
                    raise
                time.sleep(wait)
        raise AssertionError


def _missing(batch: Consumed, positions: Positions) -> Rows:
    """The rows of a batch that a branch does not have."""
    decoded = batch.decoded
    is_missing = np.ones(len(decoded), bool)
    rows_of: dict[Place, list[int]] = defaultdict(list)
    for row, place in enumerate(zip(decoded.topics, decoded.partitions.tolist(), strict=True)):
        rows_of[place].append(row)
    for (topic, partition), rows in rows_of.items():
        has = _position(batch, positions, topic).of(partition)
        if has == UNREAD:
            continue
        if batch.begins[topic, partition] > has:
            raise Rewind((topic, partition), has)
        is_missing[rows] = decoded.offsets[rows] >= has
    missing: Rows = np.flatnonzero(is_missing)
    return missing


def _position(reach: Reach, positions: Positions, topic: str) -> TopicPosition:
    """How far a branch has come with a topic that a batch has records of."""
    position, ident = positions.topic(topic), reach.ids.get(topic, "")
    if position.id in ("", ident):
        return TopicPosition(ident, position.next)
    if position.id == reach.replaces.get(topic):
        return TopicPosition(ident)
    raise recreated(topic, position.id, ident)


def recreated(topic: str, known: str, found: str) -> InvalidInput:
    """The error of a topic that is another one than that which a branch has read."""
    return InvalidInput(
        f"topic {topic!r} was deleted and created again: its id is {found}, and the branch has read {known} "
        "(read the new one from its beginning with -on-recreate restart, or read it into another pool)"
    )


def _moved(reach: Reach, positions: Positions) -> dict[str, TopicPosition]:
    """The positions in the topics of a batch once it is there."""
    ends: dict[str, dict[int, int]] = defaultdict(dict)
    for (topic, partition), end in reach.ends.items():
        ends[topic][partition] = end
    moved = {}
    for topic, offsets in ends.items():
        position = _position(reach, positions, topic)
        moved[topic] = position.moved({n: max(end, position.of(n)) for n, end in offsets.items()})
    return moved
