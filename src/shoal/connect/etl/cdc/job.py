"""A job that applies change events: what is new in the raw pool is put together, and committed step by step.

It is not a transform of an `Etl`: that makes one commit of each round, in a pool of results that says how far it is.
Here a round makes one commit for each transaction of the source, and each pool says by itself how far it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.api.requests import NoteArgs
from shoal.connect.etl.cdc.assembling import Assembler, Step
from shoal.connect.etl.cdc.config import CdcConfig
from shoal.connect.etl.cdc.effects import Effect, effects_of
from shoal.connect.etl.cdc.events import Bad, End, Reader
from shoal.connect.etl.cdc.positions import Position
from shoal.connect.etl.cdc.tables import Commit, Tables
from shoal.connect.etl.programs import is_topic
from shoal.connect.etl.raw import News, Snapshot, open_raw
from shoal.connect.etl.seqnos import Leg
from shoal.connect.kafka.events import Event
from shoal.errors import Conflict, InvalidInput, OutcomeUnknown, StorageFailure, TooMany
from shoal.ids import derived, to_text
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, array, int64, record, string
from shoal.storage.backoff import backoff

_TRANSIENT = (StorageFailure, TooMany, OutcomeUnknown)
_WAIT = 0.1
_LOOK_BACK = 100_000
"""Raw records before the cursor in which ends of transactions are looked for."""


@frozen
class Done:
    """What a round has done."""

    read: int
    """How many raw records were new."""
    upto: int
    """The number of the last of them."""
    commits: int
    transactions: int
    lsn: int | None
    """Where the source was with the last commit."""
    cursor: int
    pending: int
    """How many events wait for others of their transaction."""
    bad: int


@dataclass(slots=True)
class _Memory:
    """What a process knows between rounds."""

    assembler: Assembler
    read: int
    """The number of the last raw record that it has read."""
    seen: str | None = None
    """The commit of the raw pool of which everything was read."""


class Cdc:
    """A job on a lake."""

    def __init__(
        self,
        lake: Lake,
        config: CdcConfig,
        report: Callable[[Event], None] = lambda event: None,
        *,
        engine: str | None = None,
        note: NoteArgs | None = None,
    ) -> None:
        self._lake = lake
        self._config = config
        self._report = report
        self._engine = engine
        self._raw: Branch = open_raw(lake, config.input)
        self._tables = Tables(lake, config, note or NoteArgs())
        self._reader = Reader(config.source, [table for table, _ in config.tables])
        self._expired = None
        if config.expired is not None:
            self._expired = lake.pool(config.expired.pool).branch(config.expired.branch)
        self._memory: _Memory | None = None
        self._has_warned = False

    # ---- the loop

    def run(self, is_over: Callable[[], bool], *, once: bool = False) -> None:
        """Go round after round until it is over; with `once`, until there is nothing new."""
        is_waiting, waits = False, backoff(0.2, 5.0)
        while not is_over():
            try:
                done = self.round(is_over)
            except _TRANSIENT as e:
                if not is_waiting:
                    self._report(Event("waiting", {"for": "the lake", "error": str(e)}))
                is_waiting = True
                _sleep(next(waits), is_over)
                continue
            if is_waiting:
                self._report(Event("resumed", {"after": "the lake"}))
                is_waiting, waits = False, backoff(0.2, 5.0)
            if done is not None:
                continue
            if once:
                return
            _sleep(self._config.every, is_over)

    def round(self, is_over: Callable[[], bool] = lambda: False) -> Done | None:
        """Read what is new and apply what is ready; None if nothing is new. It ends early when it is over."""
        for wait in backoff(0.01, 1.0):
            try:
                return self._round(is_over)
            except Conflict:
                self._memory = None  # another process was first, or another writer of a pool
                time.sleep(wait)
            except BaseException:
                self._memory = None  # it may have landed
                raise
        raise AssertionError

    # ---- a round

    def _round(self, is_over: Callable[[], bool]) -> Done | None:
        tip = self._raw.resolve()
        if tip is None or (self._memory is not None and self._memory.seen == tip):
            return None
        raw = Snapshot(self._lake, self._raw.pool_id, tip, self._engine)
        memory = self._memory = self._memory or self._open(raw)
        news = raw.news(memory.read, self._config.records)
        if news is None:
            memory.seen = tip
            return None
        bad = self._gather(raw, news, memory.assembler)
        memory.read = news.upto
        commits, transactions, lsn = 0, 0, None
        for steps, following in _batches(memory.assembler.take(), self._config.transactions):
            firsts = (memory.assembler.first, None if following is None else following.first)
            cursor = min((first for first in firsts if first is not None), default=news.upto + 1)
            self._tables.commit(self._commit_of(steps, cursor))
            commits, lsn = commits + 1, steps[-1].stamp.lsn if steps[-1].stamp.lsn is not None else lsn
            transactions += sum(step.is_transaction for step in steps)
            if is_over():
                self._memory = None  # what was not applied is read again
                break
        return self._finish(memory, Done(
            news.count, news.upto, commits, transactions, lsn,
            memory.assembler.first or news.upto + 1, memory.assembler.pending, bad,
        ))  # fmt: skip

    def _open(self, raw: Snapshot) -> _Memory:
        """What the pools say, and which transactions were applied lately: events of these may come once more."""
        positions, cursor = self._tables.read()
        assembler = Assembler([table for table, _ in self._config.tables], positions)
        if cursor > 1:
            program = f'where {is_topic(self._reader.topics[-1:])} and value.status=="END"'
            for row in raw.run([Leg(max(cursor - _LOOK_BACK, 0), cursor - 1)], program):
                event = self._reader.read(row)
                if isinstance(event, End):
                    assembler.remember(event)
        return _Memory(assembler, max(cursor - 1, 0))

    def _gather(self, raw: Snapshot, news: News, assembler: Assembler) -> int:
        """Take what is new; how much of it cannot be read."""
        bad = 0
        program = f"where {is_topic(self._reader.topics)}"
        for row in sorted(raw.run([news.leg], program), key=_number):
            event = self._reader.read(row)
            if isinstance(event, Bad):
                self._set_aside(event, row)
                bad += 1
            if event is not None:
                assembler.add(event)
        return bad

    def _set_aside(self, bad: Bad, row: Value) -> None:
        """Put an event that cannot be read into the pool of these, once; InvalidInput if there is none."""
        if not bad.table:
            raise InvalidInput(bad.message)
        if self._expired is None:
            raise InvalidInput(f"{bad.message} (with `expire: {{pool: NAME}}` such events go there)")
        fields = [("seqno", int64(bad.seqno)), ("kafka", row.field("kafka") or NULL), ("reason", string(bad.message))]
        op = to_text(derived("cdc", self._config.name, self._config.source, str(bad.seqno)))
        self._expired.load([record([*fields, ("txn", NULL), ("records", array([row]))])], op=op)

    def _commit_of(self, steps: list[Step], cursor: int) -> Commit:
        effects = effects_of(change for step in steps for change in step.changes)
        positions: dict[str, Position] = {}
        for step in steps:
            positions |= step.positions
            if step.only is not None:
                self._delete_others(effects, *step.only)
        return Commit(steps[-1].stamp, effects, positions, cursor, _message(steps))

    def _delete_others(self, effects: Mapping[str, Effect], table: str, keys: frozenset[object]) -> None:
        """Let the rows go that a repeated snapshot does not have."""
        assert isinstance(effects, dict)
        effect = effects.setdefault(table, Effect())
        for key in self._tables.keys(table):
            if key.data not in keys:
                effect.deletes[key.data] = effect.keys[key.data] = key

    def _finish(self, memory: _Memory, done: Done) -> Done:
        if done.commits:
            self._report(Event("commit", {
                "commits": done.commits, "records": done.read, "transactions": done.transactions, "lsn": done.lsn,
                "cursor": done.cursor, "seqno": done.upto, "pending": done.pending, "bad": done.bad,
            }))  # fmt: skip
        if done.pending and not memory.assembler.has_markers and not self._has_warned:
            self._has_warned = True
            topic = self._reader.topics[-1]
            self._report(Event("warning", {
                "error": f"events wait for the ends of their transactions, and there is no end (sync {topic}, too)"
            }))  # fmt: skip
        return done


def _batches(steps: Iterator[Step], most: int) -> Iterator[tuple[list[Step], Step | None]]:
    """Transactions together, rows of a snapshot by themselves; and the step behind them, if it was taken already."""
    batch: list[Step] = []
    for step in steps:
        is_alone = step.only is not None or step.stamp.txid is None
        if batch and is_alone:
            yield batch, step
            batch = []
        batch.append(step)
        if is_alone or len(batch) == most:
            yield batch, None
            batch = []
    if batch:
        yield batch, None


def _message(steps: list[Step]) -> str:
    last = steps[-1].stamp
    if last.txid is None:
        tables = ", ".join(sorted({table for step in steps for table in step.positions}))
        return f"applied {sum(len(step.changes) for step in steps)} rows of a snapshot of {tables}"
    what = f"transaction {last.txid}" if len(steps) == 1 else f"{len(steps)} transactions up to {last.txid}"
    return f"applied {what} at {last.lsn}"


def _number(row: Value) -> int:
    number = row.field("seqno")
    assert number is not None
    return int(number.data)


def _sleep(seconds: float, is_over: Callable[[], bool]) -> None:
    """Wait, unless it is over meanwhile."""
    until = time.monotonic() + seconds
    while not is_over() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _WAIT))
