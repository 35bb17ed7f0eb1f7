"""Puts events together again: from records of many topics, in whatever order they come, to steps in that of commits.

A transaction is whole when its end is there and each table has as many events as that says. Transactions are applied in
the order of their ends, so one that is not whole holds up those behind it. A snapshot is applied as it comes; what was
committed after it waits until the tables that are known to have more rows have them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from shoal.connect.etl.cdc.events import Bad, Change, End, Event, Key
from shoal.connect.etl.cdc.positions import NEVER, Position, Stamp
from shoal.model.node import frozen

_MOST_ENDED = 100_000
"""Transactions that are remembered, since events of them may come once more."""


@frozen
class Step:
    """What is applied together: a transaction, some rows of a snapshot, or an event."""

    first: int
    """Its first raw record."""
    stamp: Stamp
    changes: tuple[Change, ...]
    positions: Mapping[str, Position]
    """Where its tables are then."""
    only: tuple[str, frozenset[Key]] | None = None
    """A table whose other rows are to be deleted: the snapshot does not have them."""
    is_transaction: bool = False


@dataclass(slots=True)
class _Group:
    """The events of a transaction, as far as they are there."""

    first: int
    changes: dict[object, Change] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    end: End | None = None

    def add(self, change: Change) -> None:
        """Add an event, unless it is there."""
        if change.ident not in self.changes:
            self.changes[change.ident] = change
            self.counts[change.table] = self.counts.get(change.table, 0) + 1


@dataclass(slots=True)
class _Snapshot:
    """The rows of a table in a snapshot that are not applied yet."""

    lsn: int
    repeats: bool
    first: int | None = None
    """The first record of it."""
    is_first: bool = False
    """Whether only its first row came, which does not say that more follow."""
    newest: Change | None = None
    """The last row that came."""
    is_over: bool = False
    """Whether its last row came, or what comes after that. With several partitions, other rows may still come."""
    is_given_up: bool = False
    """Whether another one began before it was over."""
    rows: list[Change] = field(default_factory=list)
    keys: set[Key] = field(default_factory=set)
    """Those of all its rows, if others are to be deleted."""


class Assembler:
    """What was read and is not applied yet."""

    def __init__(self, tables: Collection[str], positions: Mapping[str, Position | None]) -> None:
        self._tables = frozenset(tables)
        self.positions = {table: positions.get(table) or Position() for table in tables}
        self._groups: dict[str, _Group] = {}
        """By the id of the transaction; those that began first are first."""
        self._queue: dict[str, _Group] = {}
        """Those whose end is there, in the order of commits."""
        self._newest = max((at.lsn for at in self.positions.values()), default=NEVER)
        """The last end; what comes with a lesser one comes once more."""
        self._ended: dict[str, None] = {}
        self._snapshots = {table: self._begin(at.snapshot, at) for table, at in self.positions.items() if at.is_open}
        self._singles: deque[Change] = deque()
        self._bad: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        """The newest place in the log that a table has had an event of."""
        self._dropped: set[tuple[str, int, int]] = set()
        self.has_markers = False
        """Whether there was an end of any transaction."""

    # ---- what comes

    def add(self, event: Event) -> None:
        """Take an event. They come in the order of the raw pool."""
        match event:
            case End():
                self._add_end(event)
            case Bad():
                self._bad[event.table] = self._bad.get(event.table, 0) + 1
            case Change() if event.snapshot is not None:
                self._add_row(event)
            case Change():
                self._add_change(event)

    def remember(self, end: End) -> None:
        """Take no events of a transaction that was applied by a process before this one."""
        self.has_markers = True
        self._forget(end.txid)

    def _add_end(self, end: End) -> None:
        self.has_markers = True
        group = self._groups.get(end.txid)
        if end.lsn <= self._newest:
            if group is not None and group.end is None:
                del self._groups[end.txid]  # all of it came once more
                self._forget(end.txid)
            elif group is None:
                self._forget(end.txid)
            return
        self._ended.pop(end.txid, None)  # the number is used again after some billions
        group = group or self._groups.setdefault(end.txid, _Group(end.seqno))
        group.end, self._newest = end, end.lsn
        self._queue[end.txid] = group

    def _add_change(self, change: Change) -> None:
        self._seen[change.table] = max(change.lsn, self._seen.get(change.table, NEVER))
        snapshot = self._snapshots.get(change.table)
        if snapshot is not None and change.lsn > snapshot.lsn:
            snapshot.is_over = True
        if change.order is None:
            self._add_single(change)
        elif change.txid not in self._ended:
            self._groups.setdefault(change.txid, _Group(change.seqno)).add(change)

    def _add_single(self, change: Change) -> None:
        at = self.positions[change.table]
        if change.seqno > at.seqno and (change.last, change.lsn) >= (at.last, at.lsn):
            self._singles.append(change)

    def _add_row(self, row: Change) -> None:
        at = self.positions[row.table]
        for other in self._snapshots.values():
            if other.lsn < row.lsn:
                other.is_over = other.is_given_up = True
        known = self._snapshots.get(row.table)
        if row.lsn < max(at.snapshot, NEVER if known is None else known.lsn):
            return
        if known is None or known.lsn < row.lsn:
            first = None if known is None else known.first  # what came since then is in this snapshot
            known = self._snapshots[row.table] = self._begin(row.lsn, at)
            known.first = first
        self._drop_before(row)
        known.first = row.seqno if known.first is None else known.first
        known.newest, known.is_first, known.is_over = row, row.is_first, known.is_over or row.is_last
        if known.repeats and row.key is not None:
            known.keys.add(row.key.data)
        if row.seqno > at.seqno or row.lsn > at.snapshot:
            known.rows.append(row)

    def _begin(self, lsn: int, at: Position) -> _Snapshot:
        """A snapshot whose first row came, or one of which a process before this one has seen rows."""
        if lsn == at.snapshot:
            return _Snapshot(lsn, at.repeats, is_first=at.is_first, is_over=not at.is_open)
        return _Snapshot(lsn, repeats=at.floor > NEVER and lsn > at.lsn)

    def _drop_before(self, row: Change) -> None:
        """Drop what the topic had before a snapshot of transactions that have no end: they are in the snapshot.

        If one has ended later than that, all of it comes once more.
        """
        place = row.table, row.partition, row.lsn
        if place in self._dropped:
            return
        self._dropped.add(place)
        for txid, group in [(txid, group) for txid, group in self._groups.items() if group.end is None]:
            for ident, change in list(group.changes.items()):
                if (change.table, change.partition) == (row.table, row.partition) and change.seqno < row.seqno:
                    del group.changes[ident]
                    group.counts[change.table] -= 1
            if not group.changes:
                del self._groups[txid]

    def _forget(self, txid: str) -> None:
        """Take no more events of a transaction."""
        self._ended[txid] = None
        while len(self._ended) > _MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    # ---- what is ready

    def take(self) -> Iterator[Step]:
        """What can be applied now, in order. A step is gone from here when it is given."""
        if self._snapshots:
            yield from self._transactions(min(each.lsn for each in self._snapshots.values()))
            for table in sorted(self._snapshots):
                step = self._rows(table)
                if step is not None:
                    yield step
        if not self._snapshots:
            yield from self._transactions(None)
        while self._singles:
            yield self._single(self._singles.popleft())

    def _transactions(self, upto: int | None) -> Iterator[Step]:
        while self._queue:
            txid, group = next(iter(self._queue.items()))
            assert group.end is not None
            if upto is not None and (group.end.lsn > upto or self._is_behind(group)):
                return
            is_stale = all(group.end.lsn <= self.positions[table].floor for table in self._tables)
            if not is_stale and not self._is_whole(group, group.end):
                return
            del self._queue[txid], self._groups[txid]
            self._forget(txid)
            step = self._transaction(group, group.end)
            if step.changes:
                yield step

    def _is_behind(self, group: _Group) -> bool:
        """Whether events of a transaction came only after a snapshot that has them."""
        for each in group.changes.values():
            snapshot = self._snapshots.get(each.table)
            if snapshot is not None and snapshot.first is not None and each.seqno > snapshot.first:
                return True
        return False

    def _is_whole(self, group: _Group, end: End) -> bool:
        """Whether all events are there. One that cannot be read is missed as soon as its topic is past it."""
        for table, count in end.counts.items():
            missing = count - group.counts.get(table, 0)
            if missing <= 0 or table not in self._tables or end.lsn <= self.positions[table].floor:
                continue
            if missing > self._bad.get(table, 0) or self._seen.get(table, NEVER) <= end.lsn:
                return False
            self._bad[table] -= missing
            group.counts[table] = count
        return True

    def _transaction(self, group: _Group, end: End) -> Step:
        changes = sorted(
            (each for each in group.changes.values() if end.lsn > self.positions[each.table].floor),
            key=lambda each: (each.lsn, each.order or 0, each.seqno),
        )
        tables = {each.table for each in changes}
        for table in tables:
            self.positions[table] = replace(self.positions[table], lsn=end.lsn)
        positions = {table: self.positions[table] for table in sorted(tables)}
        return Step(group.first, Stamp(end.lsn, end.txid, end.ts_ms), tuple(changes), positions, is_transaction=True)

    def _rows(self, table: str) -> Step | None:
        """The rows of a table that came; with the last one, the snapshot is over."""
        snapshot, at = self._snapshots[table], self.positions[table]
        is_over = snapshot.is_over or (snapshot.is_first and self._is_past(table, snapshot.lsn))
        rows, snapshot.rows = snapshot.rows, []
        if is_over and not rows and snapshot.newest is not None and at.is_open:
            rows = [snapshot.newest]  # once more, for a commit that says that this is all
        self.positions[table] = new = replace(
            at,
            snapshot=snapshot.lsn,
            is_open=not is_over,
            is_first=snapshot.is_first and not is_over,
            repeats=snapshot.repeats and not is_over,
            seqno=rows[-1].seqno if rows else at.seqno,
        )
        only = (table, frozenset(snapshot.keys)) if snapshot.repeats and is_over and not snapshot.is_given_up else None
        if is_over:
            del self._snapshots[table]
        if not rows and only is None:
            return None
        is_state = is_over and not snapshot.is_given_up
        stamp = Stamp(max(at.lsn, snapshot.lsn) if is_state else None, None, rows[-1].ts_ms if rows else 0)
        first = snapshot.first if snapshot.repeats or not rows else rows[0].seqno
        return Step(first or 0, stamp, tuple(rows), {table: new}, only)

    def _is_past(self, table: str, lsn: int) -> bool:
        """Whether the source has gone on behind the rows of a table in a snapshot."""
        others = (at.snapshot for name, at in self.positions.items() if name != table)
        waiting = (each.lsn for name, each in self._snapshots.items() if name != table)
        return self._newest > lsn or lsn in others or lsn in waiting

    def _single(self, change: Change) -> Step:
        at = self.positions[change.table]
        self.positions[change.table] = new = replace(at, lsn=change.lsn, last=change.last, seqno=change.seqno)
        return Step(change.seqno, Stamp(change.lsn, change.txid, change.ts_ms), (change,), {change.table: new})

    # ---- what is left

    @property
    def first(self) -> int | None:
        """The number of the first record that is not applied; None if all are."""
        firsts = [next(iter(self._groups.values())).first] if self._groups else []
        firsts += [self._singles[0].seqno] if self._singles else []
        for each in self._snapshots.values():
            if each.repeats and each.first is not None:
                firsts.append(each.first)
            if each.is_first and each.newest is not None:
                firsts.append(each.newest.seqno)
            firsts += [row.seqno for row in each.rows[:1]]
        return min(firsts, default=None)

    @property
    def pending(self) -> int:
        """How many events wait for others."""
        rows = sum(len(each.rows) for each in self._snapshots.values())
        return sum(len(group.changes) for group in self._groups.values()) + rows + len(self._singles)
