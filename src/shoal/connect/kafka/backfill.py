"""A backfill: tasks of Spark read what a branch lacks of its topics, and the process that asked commits it in waves.

Missing offsets are divided into ranges. Tasks count the records of a wave of ranges; so each range knows its numbers,
and tasks write its records with them. One commit adds what a wave has written, if the branch is still where it was when
the wave was planned. Live workers may read the same topics: who commits first wins, and what the other one has written
stays behind for a vacuum. See `docs/adr/0050-backfills-on-spark.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise, zip_longest
from typing import TYPE_CHECKING, TypeVar

from shoal.api.requests import Note, NoteArgs
from shoal.connect.kafka.config import FromKafka, Input, RegistrySettings
from shoal.connect.kafka.connection import Connection
from shoal.connect.kafka.events import Event
from shoal.connect.kafka.patience import patiently
from shoal.connect.kafka.positions import Read
from shoal.connect.kafka.range_tasks import Cluster, Range, RangeRead, RangeWrite, Written, count_range, write_range
from shoal.connect.kafka.starts import Start, find_starts
from shoal.connect.kafka.targets import Place, Target
from shoal.errors import Conflict, InvalidInput, ShoalError, Unsupported
from shoal.extras import require
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.rewriting import remove
from shoal.lake.workers import Workers
from shoal.lazy import lazy
from shoal.local.executor import StoreExecutor, stored
from shoal.local.loads import commit_written
from shoal.model.node import frozen
from shoal.planner.engine_choice import least_backfill, named_engine, spark_workers

if TYPE_CHECKING:
    from shoal.engines.spark import jobs
else:
    jobs = lazy("shoal.engines.spark.jobs")

LENGTH = 250_000
"""How many offsets a task reads."""
_ATTEMPTS = 3
"""How many waves in a row may be lost to other writers of a branch."""
P = TypeVar("P")
R = TypeVar("R")


@frozen
class Plan:
    """What a branch lacks."""

    read: Read
    """Where the branch is."""
    ranges: tuple[Range, ...]
    """In the order in which they get numbers."""
    starts: Mapping[Place, Start]

    @property
    def missing(self) -> int:
        """How many records that is, at most."""
        return sum(map(len, self.ranges))


@frozen
class Wave:
    """Ranges that are committed together, and how far they bring the topics."""

    read: Read
    ranges: tuple[Range, ...]
    ends: Mapping[Place, int]
    ids: Mapping[str, str]
    replaces: Mapping[str, str]


class Backfill:
    """Reads by tasks what branches lack, before a worker reads what comes."""

    def __init__(
        self,
        connection: Connection,
        config: FromKafka,
        registry: RegistrySettings | None,
        report: Callable[[Event], None] = lambda event: None,
        *,
        engine: str | None = None,
        by: Workers | None = None,
        length: int | None = None,
    ) -> None:
        """`by` are other workers than those of Spark. What it takes to reach the registry travels to tasks."""
        self._connection = connection
        self._config = config
        self._cluster = Cluster(connection.settings, config.group, registry)
        self._report = report
        self._engine = engine
        self._by = by
        self._length = length or LENGTH

    def run(self, target: Target, places: Collection[Place], is_over: Callable[[], bool], bad: int = 0) -> int:
        """Read what a branch lacks of some partitions up to their present ends, if that is worth it.

        Takes and returns how many records could not be decoded.
        """
        sources = {place: source for place in places if (source := self._config.input_of(place[0])) is not None}
        least = self._least(target)
        while least is not None and sources and not is_over():
            goal = self._patiently("kafka", lambda: self._connection.ends(sources), is_over)
            plan = self._planned(target, sources, goal, {}, is_over)
            if plan.missing < least or not plan.missing:
                return bad
            workers = self._workers(target)
            if workers is None:
                return bad
            self._report(Event("backfill", {"pool": target.name, "missing": plan.missing, "ranges": len(plan.ranges)}))
            try:
                filled = self._fill(target, sources, goal, workers, is_over, bad)
            except Unsupported as e:
                self._require_optional(e)
                return bad
            if filled is None:
                return bad
            bad, least = filled, least_backfill("auto", "")
        return bad

    def _least(self, target: Target) -> int | None:
        if not isinstance(target.branch.lake, StoreExecutor):
            if named_engine(self._engine) == "spark":
                raise Unsupported(
                    "tasks write to the store of a lake (open it by its path or bucket, not by a service)"
                )
            return None
        return least_backfill(self._engine, "" if self._by else target.branch.lake.uri)

    def _workers(self, target: Target) -> Workers | None:
        """The workers; None if it may be done without Spark, and Spark cannot do it."""
        if self._by is not None:
            return self._by
        try:
            require("pyspark")
            assert isinstance(target.branch.lake, StoreExecutor)
            return replace(spark_workers(target.branch.lake.uri), run=_all_at_once)
        except ShoalError as e:
            self._require_optional(e)
            return None

    def _require_optional(self, error: ShoalError) -> None:
        """Raise what keeps Spark from a backfill that was asked for. Otherwise it is told, and done without."""
        if named_engine(self._engine) == "spark":
            raise error
        self._report(Event("warning", {"error": f"no backfill on Spark: {error}"}))

    def _patiently(self, what: str, act: Callable[[], R], is_over: Callable[[], bool]) -> R:
        return patiently(what, act, is_over, self._report)

    # ---- waves

    def _fill(
        self,
        target: Target,
        sources: Mapping[Place, Input],
        goal: Mapping[Place, int],
        by: Workers,
        is_over: Callable[[], bool],
        bad: int,
    ) -> int | None:
        """Read up to a goal, wave by wave; None if other writers are always first."""
        lost, reached = 0, dict[Place, int]()
        while not is_over():
            plan = self._planned(target, sources, goal, reached, is_over)
            if not plan.ranges:
                break
            wave = _wave(plan, by.count, reached)
            try:
                done = self._patiently("the cluster", lambda: self._commit(target, wave, by, bad), is_over)  # noqa: B023
            except Conflict as e:
                lost += 1
                target.forget()
                reached = {}
                if lost == _ATTEMPTS:
                    self._report(Event("warning", {"error": f"the backfill gave up after {lost} attempts: {e}"}))
                    return None
                continue
            lost = 0
            reached = dict(wave.ends) if done is None else {}
            bad += done or 0
        return bad

    def _planned(
        self,
        target: Target,
        sources: Mapping[Place, Input],
        goal: Mapping[Place, int],
        reached: Mapping[Place, int],
        is_over: Callable[[], bool],
    ) -> Plan:
        """What is missing before a goal, without what was reached and has no records."""
        read = self._patiently("the lake", target.read, is_over)
        starts = self._patiently(
            "kafka", lambda: find_starts(self._connection, read.positions, sources, self._config), is_over
        )
        by_place = [
            _ranges(place, max(starts[place].offset, reached.get(place, 0)), goal[place], source, self._length)
            for place, source in sources.items()
        ]
        # Partitions take turns, so that they advance together.
        ranges = tuple(each for turn in zip_longest(*by_place) for each in turn if each is not None)
        return Plan(read, ranges, starts)

    def _commit(self, target: Target, wave: Wave, by: Workers, bad: int) -> int | None:
        """Read, write and commit a wave. How many of its records are bad; None if it has none at all."""
        pool = stored(target.branch)
        begun = pool.journal.read().position
        counts = list(by.run(count_range, [RangeRead(self._cluster, each) for each in wave.ranges]))
        self._require_ids(wave)
        total = sum(counts)
        if not total:
            return None
        firsts = accumulate(counts, initial=wave.read.positions.seqno)
        work = [
            RangeWrite(self._cluster, each, pool, number, count)
            for each, number, count in zip(wave.ranges, firsts, counts, strict=False)
            if count
        ]
        written = _gathered(pool, by.run(write_range, work))
        objects = [o for each in written for o in each.objects]
        wave_bad = sum(each.bad for each in written)
        try:
            self._require_few_bad(written, bad + wave_bad)
            self._require_ids(wave)
        except InvalidInput:
            remove(pool, objects)
            raise
        commit = self._commit_objects(target, pool, wave, objects, total, wave_bad, begun)
        facts = {"pool": target.name, "commit": commit, "records": total, "bad": wave_bad, "retries": 0}
        self._report(Event("commit", {**facts, "bytes": sum(o.size for o in objects)}))
        return wave_bad

    def _commit_objects(
        self, target: Target, pool: Pool, wave: Wave, objects: Sequence[DataObject], total: int, bad: int, begun: int
    ) -> str:
        lake, branch = target.branch.lake, target.branch.branch_name
        assert isinstance(lake, StoreExecutor)

        def load(expected: str, op: str, note: NoteArgs) -> str:
            return commit_written(lake, pool, branch, objects, Note(**note), op, expected, begun)

        return target.advance(wave.read, wave, total, bad, load)

    def _require_ids(self, wave: Wave) -> None:
        """InvalidInput if a topic is another one than when the wave was planned."""
        ids = self._connection.topic_ids(wave.ids)
        for topic, ident in wave.ids.items():
            if ids.get(topic, "") != ident:
                raise InvalidInput(f"topic {topic!r} was deleted while it was read (start the sync again)")

    def _require_few_bad(self, written: Iterable[Written], bad: int) -> None:
        most = self._config.max_bad
        where = next((each.first_bad for each in written if each.bad), "")
        if most is not None and where and bad > most:
            raise InvalidInput(
                f"{bad} records could not be decoded, and -max-bad is {most}: the first of this batch is in "
                f"{where} (nothing of this batch was committed)"
            )


def _ranges(place: Place, begin: int, end: int, source: Input, length: int) -> list[Range]:
    """Ranges of a partition, all of about the same length."""
    missing = max(0, end - begin)
    count = -(-missing // length)
    cuts = [begin + missing * n // count for n in range(count + 1)] if count else []
    return [Range(*place, low, high, source.key, source.value) for low, high in pairwise(cuts)]


def _wave(plan: Plan, count: int, reached: Mapping[Place, int]) -> Wave:
    """The first ranges of a plan. What was reached before, without any record, is noted along with them.

    So is where the reading of all other partitions begins: a partition of a topic that is known has a place of its own.
    """
    ranges = plan.ranges[:count]
    ends = {place: start.offset for place, start in plan.starts.items()} | dict(reached)
    starts = [(place[0], start) for place, start in plan.starts.items()]
    return Wave(
        plan.read,
        ranges,
        ends | {each.place: each.end for each in ranges},
        {topic: start.topic_id for topic, start in starts},
        {topic: start.replaces for topic, start in starts if start.replaces},
    )


def _gathered(pool: Pool, results: Iterable[Written]) -> list[Written]:
    """What tasks have written. If one of them fails, nothing of it stays."""
    written: list[Written] = []
    try:
        written.extend(results)
    except BaseException:
        remove(pool, [o for each in written for o in each.objects])
        raise
    return written


def _all_at_once(work: Callable[[P], Iterable[R]], payloads: Sequence[P], /) -> Generator[R, None, None]:
    """One job for all: what comes back is small."""
    return jobs.run_tasks(work, payloads, at_once=True)
