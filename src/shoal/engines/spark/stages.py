"""Stages of tasks: rows of bytes in partitions, which steps turn into others.

A driver of our own process has RDDs, which start fastest. A session of Spark Connect has none: there the same steps run
over DataFrames of two columns, the number of a partition and bytes.

A step is a function of a module and its arguments. It is called with the number of the task and its rows.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from shoal.engines.spark import shipping, worker_entry
from shoal.engines.spark.failures import translating
from shoal.engines.spark.session import spark_session
from shoal.engines.spark.worker_entry import Shipment
from shoal.lazy import lazy

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
"""Of a thread, that are set by a group of jobs."""
_HERE = re.compile(r"local(\[.*\])?|local-cluster\[.*\]")
_GROUPS = 1000
"""Of which a server of Spark Connect has progress."""
_COLUMNS = "bucket int, row binary"


class Step(NamedTuple):
    """A function of a module, and arguments that follow the number of the task and its rows."""

    work: Callable[..., Iterable[Any]]
    args: tuple[Any, ...] = ()

    def pickled(self) -> bytes:
        """As it travels: Spark has pickles of its own; ours hold types, which have to be interned where they arrive."""
        return pickle.dumps((self.work, self.args))


class Stage(Protocol):
    """Partitions of rows, of which nothing has been computed yet."""

    count: int

    def then(self, step: Step) -> Stage:
        """What a step makes of the rows of each partition."""


class Cluster(Protocol):
    """Executors that run steps."""

    shipment: Shipment | None
    """What workers have to find before they run steps; None if they are on this machine."""

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""

    def stage(self, rows: Sequence[bytes], step: Step) -> Stage:
        """A step over rows, in a partition each."""

    def exchange(self, sent: Sequence[tuple[Any, Step]], count: int) -> Any:
        """What steps send to `count` partitions: each gives pairs of the number of a partition and a row."""

    @contextmanager
    def keeping(self, stages: Sequence[Any]) -> Iterator[None]:
        """Within, what tasks have computed stays on their disks, since it is read more than once."""

    def collect(self, stage: Any, partitions: range, group: str, title: str) -> list[bytes]:
        """The rows of some partitions, in order; one job of a group."""

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group."""

    def tasks_done(self, group: str) -> int:
        """How many tasks of a group have ended."""

    def named_jobs(self, group: str, title: str) -> Any:
        """Jobs that this thread starts within belong to a group."""

    def executors(self) -> int | None:
        """How many executors there are; None if that is not known."""


_clusters: WeakKeyDictionary[Any, Cluster] = WeakKeyDictionary()


def cluster(session: Any = None) -> Cluster:
    """The executors of a session; of the one that is in use unless given."""
    spark = session or spark_session()
    known = _clusters.get(spark)
    if known is None:
        is_classic = getattr(spark, "_sc", None) is not None
        with translating():
            known = _clusters[spark] = ClassicCluster(spark) if is_classic else ConnectCluster(spark)
    return known


def is_on_this_machine(spark: Any) -> bool:
    """Whether the executors of a session run here, with the Python of this process."""
    context = getattr(spark, "_sc", None)
    return context is not None and _HERE.fullmatch(context.master) is not None


# ---- RDDs


class ClassicStage:
    """An RDD."""

    def __init__(self, rdd: Any, shipment: Shipment | None) -> None:
        self.rdd = rdd
        self.count = int(rdd.getNumPartitions())
        self._shipment = shipment

    def then(self, step: Step) -> ClassicStage:
        """What a step makes of the rows of each partition; Spark runs steps that follow each other in one go."""
        function = worker_entry.on_rows(self._shipment, (step.pickled(),))
        return ClassicStage(self.rdd.mapPartitionsWithIndex(function), self._shipment)


class ClassicCluster:
    """A driver in a JVM of this process."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext
        self.shipment: Shipment | None = None
        if not is_on_this_machine(spark):
            shipping.send_package(spark)
            self.shipment = shipping.SHIPMENT

    @property
    def cores(self) -> int:
        with translating():
            return int(self._context.defaultParallelism)

    def stage(self, rows: Sequence[bytes], step: Step) -> ClassicStage:
        return ClassicStage(self._context.parallelize(rows, len(rows)), self.shipment).then(step)

    def exchange(self, sent: Sequence[tuple[ClassicStage, Step]], count: int) -> ClassicStage:
        first, *others = [stage.then(step).rdd for stage, step in sent]
        for rdd in others:
            first = first.union(rdd)
        received = first.partitionBy(count, int).mapPartitions(worker_entry.second_of_pairs)
        return ClassicStage(received, self.shipment)

    @contextmanager
    def keeping(self, stages: Sequence[ClassicStage]) -> Iterator[None]:
        from pyspark import StorageLevel  # noqa: PLC0415 - loaded by now

        for stage in stages:
            stage.rdd.persist(StorageLevel.DISK_ONLY)
        try:
            yield
        finally:
            for stage in stages:
                stage.rdd.unpersist()

    def collect(self, stage: ClassicStage, partitions: range, group: str, title: str) -> list[bytes]:
        with self.named_jobs(group, title):
            return list(self._context.runJob(stage.rdd, worker_entry.as_they_are, partitions))

    def cancel(self, group: str) -> None:
        self._context.cancelJobGroup(group)

    def tasks_done(self, group: str) -> int:
        """Of stages that are over, Spark may have forgotten the number."""
        tracker = self._context.statusTracker()
        done = 0
        for job in tracker.getJobIdsForGroup(group):
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                done += getattr(tracker.getStageInfo(stage), "numCompletedTasks", 0)
        return done

    def executors(self) -> int | None:
        # The driver counts itself.
        return len(self._context._jsc.sc().statusTracker().getExecutorInfos()) - 1

    @contextmanager
    def named_jobs(self, group: str, title: str) -> Iterator[None]:
        before = {key: self._context.getLocalProperty(key) for key in _PROPERTIES}
        self._context.setJobGroup(group, title, interruptOnCancel=True)
        try:
            yield
        finally:
            if self._context._jsc is not None:
                for key, value in before.items():
                    self._context.setLocalProperty(key, value)


# ---- Spark Connect


class ConnectStage:
    """A DataFrame of rows, each with the number of its partition, and the steps that follow."""

    def __init__(
        self, cluster_: ConnectCluster, frame: Any, count: int, steps: tuple[bytes, ...] = (), is_placed: bool = False
    ) -> None:
        self._cluster = cluster_
        self._frame = frame
        self.count = count
        self._steps = steps
        self._is_placed = is_placed
        """Whether the rows are in their partitions already."""

    def then(self, step: Step) -> ConnectStage:
        """What a step makes of the rows of each partition; all steps of a stage run in one go."""
        return ConnectStage(self._cluster, self._frame, self.count, (*self._steps, step.pickled()), self._is_placed)

    def rows(self, partitions: range | None = None, last: Step | None = None) -> Any:
        """A DataFrame of what the steps give; with a last one, which sends rows to other partitions."""
        frame = self._frame
        if partitions is not None and len(partitions) < self.count:
            frame = frame.where(frame.bucket.between(partitions[0], partitions[-1]))
        if not self._is_placed:
            frame = frame.repartitionById(self.count, frame.bucket)
        steps = self._steps if last is None else (*self._steps, last.pickled())
        if not steps:
            return frame
        return frame.mapInArrow(worker_entry.on_batches(self._cluster.shipment, steps, last is not None), _COLUMNS)

    def keep(self, level: Any) -> Any:
        """Compute it once, when it is first read, and keep it; returns the DataFrame that is kept."""
        self._frame, self._steps, self._is_placed = self.rows().persist(level), (), True
        return self._frame


class ConnectCluster:
    """A server of Spark Connect."""

    def __init__(self, spark: Any) -> None:
        shipping.send_package(spark)
        self._spark = spark
        self.shipment: Shipment | None = shipping.SHIPMENT
        self._done: dict[str, int] = {}
        """How many tasks have ended, of the last groups."""

    @cached_property
    def cores(self) -> int:
        from pyspark.sql.functions import spark_partition_id  # noqa: PLC0415 - loaded by now

        # A client cannot ask for the default parallelism, but a range is cut by it.
        with translating():
            return int(self._spark.range(1 << 20).select(spark_partition_id().alias("p")).distinct().count())

    def stage(self, rows: Sequence[bytes], step: Step) -> ConnectStage:
        table = pa.table({"bucket": pa.array(range(len(rows)), pa.int32()), "row": pa.array(rows, pa.binary())})
        return ConnectStage(self, self._spark.createDataFrame(table), len(rows)).then(step)

    def exchange(self, sent: Sequence[tuple[ConnectStage, Step]], count: int) -> ConnectStage:
        first, *others = [stage.rows(last=step) for stage, step in sent]
        for frame in others:
            first = first.union(frame)
        return ConnectStage(self, first, count)

    @contextmanager
    def keeping(self, stages: Sequence[ConnectStage]) -> Iterator[None]:
        from pyspark import StorageLevel  # noqa: PLC0415 - loaded by now

        kept = [stage.keep(StorageLevel.DISK_ONLY) for stage in stages]
        try:
            yield
        finally:
            for frame in kept:
                frame.unpersist()

    def collect(self, stage: ConnectStage, partitions: range, group: str, title: str) -> list[bytes]:
        with self.named_jobs(group, title), self._counting(group, len(partitions)):
            rows: list[bytes] = stage.rows(partitions).toArrow().column("row").to_pylist()
        return rows

    @contextmanager
    def _counting(self, group: str, count: int) -> Iterator[None]:
        """Within, what the server says of the operation of this thread counts for a group."""
        waiting, before = get_ident(), self._done.get(group, 0)

        def note(stages: Any, **_: Any) -> None:
            if stages and get_ident() == waiting:  # handlers get what is said to any thread of the session
                last = max(stages, key=lambda stage: stage.stage_id)
                self._done[group] = before + min(last.num_completed_tasks, count)

        self._spark.registerProgressHandler(note)
        try:
            yield
        finally:
            self._spark.removeProgressHandler(note)
        self._done[group] = before + count
        for old in list(self._done)[:-_GROUPS]:
            self._done.pop(old, None)

    def cancel(self, group: str) -> None:
        self._spark.interruptTag(group)

    def tasks_done(self, group: str) -> int:
        return self._done.get(group, 0)

    def executors(self) -> int | None:
        return None

    @contextmanager
    def named_jobs(self, group: str, title: str) -> Iterator[None]:
        self._spark.addTag(group)
        try:
            yield
        finally:
            self._spark.removeTag(group)
