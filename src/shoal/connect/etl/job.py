"""A job: rounds, each of which reads what is new in the raw pool, and commits what comes of it, once.

A round that only gathers commits nothing: who starts again reads the same records again, and gathers the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.api.requests import NoteArgs
from shoal.connect.etl.config import EtlConfig
from shoal.connect.etl.expiry import Clock
from shoal.connect.etl.places import Place
from shoal.connect.etl.programs import each_of
from shoal.connect.etl.raw import News, Snapshot, may_meet, open_raw
from shoal.connect.etl.records import Progress, Writer, expired_record, format_meta
from shoal.connect.etl.seqnos import Run, joined, runs_of, without
from shoal.connect.etl.staging import Staging, State
from shoal.connect.etl.steps import Expired, Past, Round, Step, Worker, Write
from shoal.connect.kafka.events import Event
from shoal.errors import Conflict, OutcomeUnknown, StorageFailure, TooMany
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.storage.backoff import backoff

_TRANSIENT = (StorageFailure, TooMany, OutcomeUnknown)
_WAIT = 0.1


@frozen
class Done:
    """What a round has done."""

    commit: str | None
    """The commit of the output pool; None if nothing was finished."""
    read: int
    """How many raw records were new."""
    upto: int
    """The number of the last of them."""
    cursor: int
    outputs: int
    expired: int
    pending: int
    """How many raw records are unfinished."""


@dataclass(slots=True)
class _Memory:
    """What a process knows between rounds."""

    state: State
    progress: Progress
    """How far it has read; what is committed may be less."""
    workers: list[Worker]
    pending: list[Run] = field(default_factory=list)
    seen: str | None = None
    """The commit of the raw pool of which everything was read."""


class Etl:
    """A job on a lake."""

    def __init__(
        self,
        lake: Lake,
        config: EtlConfig,
        report: Callable[[Event], None] = lambda event: None,
        *,
        engine: str | None = None,
        note: NoteArgs | None = None,
    ) -> None:
        self._lake = lake
        self._config = config
        self._report = report
        self._engine = engine
        self._writer = Writer(config.name)
        self._limits = None if config.expire is None else config.expire.limits
        self._tick = None if self._limits is None else self._limits.tick
        self._raw: Branch = open_raw(lake, config.input)
        self._staging = Staging(lake, config, self._writer, note or NoteArgs())
        self._takes = [
            each_of(each.condition, _rivals(config, number)) for number, each in enumerate(config.transforms)
        ]
        self._memory: _Memory | None = None

    # ---- the loop

    def run(self, is_over: Callable[[], bool], *, once: bool = False) -> None:
        """Go round after round until it is over; with `once`, until there is nothing new."""
        is_waiting, waits = False, backoff(0.2, 5.0)
        while not is_over():
            try:
                done = self.round()
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

    def round(self) -> Done | None:
        """Read what is new and commit what comes of it; None if nothing is new."""
        for wait in backoff(0.01, 1.0):
            try:
                return self._round()
            except Conflict:
                self._memory = None  # another process was first, or another writer of a pool
                time.sleep(wait)
            except BaseException:
                self._memory = None  # it may have landed
                raise
        raise AssertionError

    # ---- a round

    def _round(self) -> Done | None:
        tip = self._raw.resolve()
        if tip is None or (self._memory is not None and self._memory.seen == tip):
            return None
        raw = Snapshot(self._lake, self._raw.pool_id, tip, self._engine)
        memory = self._memory = self._memory or self._open(raw)
        news = raw.news(memory.progress.read, self._config.records)
        if news is None:
            memory.seen = tip
            return None
        clock = Clock() if self._tick is None else raw.clock(memory.progress.time, news, self._tick)
        steps = [
            worker.step(Round(raw, news, clock))
            for worker, each in zip(memory.workers, self._config.transforms, strict=True)
        ]
        return self._finish(raw, memory, news, clock, steps)

    def _open(self, raw: Snapshot) -> _Memory:
        """What the pools say."""
        state = self._staging.read()
        progress = state.progress
        if self._tick is not None and not state.has_time and progress.read:
            progress = Progress(progress.read, progress.cursor, raw.newest_time(progress.read, self._tick))
        unfinished = without([(progress.cursor, progress.read)], state.done) if progress.read else []
        past = Past(raw, unfinished, state.completed)
        workers = [
            each.open(takes, self._limits, past)
            for each, takes in zip(self._config.transforms, self._takes, strict=True)
        ]
        return _Memory(state, progress, workers, unfinished)

    def _finish(self, raw: Snapshot, memory: _Memory, news: News, clock: Clock, steps: list[Step]) -> Done:
        """Commit what was finished, if anything was."""
        pending = runs_of(number for worker in memory.workers for number in worker.unfinished())
        done = without(joined(memory.pending, [(news.after + 1, news.upto)]), pending)
        progress = Progress(news.upto, pending[0][0] if pending else news.upto, clock.now)
        expired = [each for step in steps for each in step.expired]
        outputs = [output for step in steps for output in step.outputs]
        commit = None
        if done:
            offsets = dict(memory.state.offsets)
            writes = [write for step in steps for write in step.writes]
            writes += [Write(place, "load", values) for place, values in self._writer.outputs(outputs, offsets).items()]
            writes += self._bookkeeping(progress, [run for run in done if run[1] >= progress.cursor], steps, writes)
            if expired and self._config.expire is not None:
                writes.append(Write(self._config.expire.place, "load", _expired_records(raw, expired)))
            message = f"transformed {news.count} records up to {news.upto}"
            meta = format_meta(self._config.name, progress, offsets)
            commit = self._staging.commit(_merged(writes), memory.state.progress, message, meta)
            memory.state.offsets, memory.state.progress = offsets, progress
        memory.progress, memory.pending = progress, pending
        memory.seen = raw.commit if news.is_all else None
        counts = sum(last - first + 1 for first, last in pending)
        summary = Done(commit, news.count, news.upto, progress.cursor, len(outputs), len(expired), counts)
        if commit is not None:
            self._report(Event("commit", _facts(summary)))
        return summary

    def _bookkeeping(self, progress: Progress, done: list[Run], steps: list[Step], writes: list[Write]) -> list[Write]:
        """What says how far the job is: the cursor in each pool, the rest in one."""
        home = self._config.output
        marks = self._writer.done([(max(first, progress.cursor), last) for first, last in done], progress.read)
        if self._limits is not None:
            marks += [self._writer.completed(*each) for step in steps for each in step.completed]
        cursor = self._writer.cursor(progress.cursor)
        others = {write.place for write in writes if write.mode == "load" and write.place != home}
        return [Write(home, "load", [cursor, *marks]), *(Write(place, "load", [cursor]) for place in others)]


def _rivals(config: EtlConfig, number: int) -> list[str]:
    """The conditions of the transforms that are asked before one, and may take the same records."""
    mine = config.transforms[number]
    earlier = config.transforms[:number]
    return [each.condition for each in earlier if may_meet(each.topics, mine.topics)]


def _expired_records(raw: Snapshot, expired: list[Expired]) -> list[Value]:
    values = dict(raw.records(runs_of(number for each in expired for number in each.numbers)))
    in_order = sorted(expired, key=lambda each: each.numbers[-1])
    return [expired_record(each, [values[number] for number in each.numbers]) for each in in_order]


def _merged(writes: Iterable[Write]) -> list[Write]:
    """Changes with one load for each place."""
    loads: dict[Place, list[Value]] = {}
    others = []
    for write in writes:
        if write.mode == "load":
            loads.setdefault(write.place, []).extend(write.data)
        else:
            others.append(write)
    return [*(Write(place, "load", values) for place, values in loads.items()), *others]


def _facts(done: Done) -> dict[str, object]:
    return {
        "commit": done.commit, "records": done.read, "outputs": done.outputs, "expired": done.expired,
        "cursor": done.cursor, "seqno": done.upto, "pending": done.pending,
    }  # fmt: skip


def _sleep(seconds: float, is_over: Callable[[], bool]) -> None:
    """Wait, unless it is over meanwhile."""
    until = time.monotonic() + seconds
    while not is_over() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _WAIT))
