"""Functions in tasks of Spark: what goes there and comes back are pickles of ours.

Spark has pickles of its own; ours hold types, which have to be interned where they arrive. Errors of ours come back as
what they are, and at once; any other fails its task, which Spark tries again elsewhere.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import Any, TypeVar

from shoal.engines.progress import watcher
from shoal.engines.spark.session import spark_session
from shoal.engines.spark.stuck_tasks import JobGroup
from shoal.engines.stopping import NEVER, Stop, current, results_stopped_by, stopped_by
from shoal.errors import ShoalError, StorageFailure, Unsupported
from shoal.formats.zng import stream as zng
from shoal.ids import new, to_text
from shoal.model.values import Value

_CHUNK = 1 << 20
"""Bytes of values that are handed over at a time."""


def decoded(data: bytes) -> Iterator[Value]:
    """The values of one or several streams."""
    return zng.read(io.BytesIO(data))


def encoded(values: Iterable[Value]) -> Iterator[bytes]:
    """Values as ZNG streams of some size."""
    out = io.BytesIO()
    writer = zng.Writer(out)
    has_any = False
    for value in values:
        writer.write(value)
        has_any = True
        if out.tell() >= _CHUNK:
            writer.close()
            yield out.getvalue()
            out = io.BytesIO()
            writer, has_any = zng.Writer(out), False
    if has_any:
        writer.close()
        yield out.getvalue()


P = TypeVar("P")
R = TypeVar("R")
TASKS_PER_CORE = 2
"""Enough to even out, few enough not to wait for their starts."""
_DONE, _FAILED = b"d", b"e"
_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
"""Of a thread, that are set by a group of jobs."""
_EVERY = 0.2
"""Seconds between two looks at a job."""


def cores() -> int:
    """How many tasks run at a time."""
    return int(_context().defaultParallelism)


def task_count() -> int:
    """In how many tasks work is best cut."""
    return TASKS_PER_CORE * cores()


def run_tasks(
    work: Callable[[P], Iterable[R]], payloads: Sequence[P], at_once: bool = False
) -> Generator[R, None, None]:
    """What a function of a module makes of each payload, in their order, a task each.

    `at_once` is for few results that are all needed: one job, since each costs more than a short task.
    """
    if payloads:
        yield from stream(stage(work, payloads), len(payloads) if at_once else None)


def stage(work: Callable[[P], Iterable[R]], payloads: Sequence[P]) -> Any:
    """The results as an RDD, of which nothing has been computed yet."""
    return stage_calls([(work, payload) for payload in payloads])


def stage_calls(calls: Sequence[tuple[Callable[[P], Iterable[R]], P]]) -> Any:
    """Functions of modules with a payload each, a task for each of them, as an RDD."""
    memory = _task_memory()
    pickled = [pickle.dumps((*call, memory)) for call in calls]
    return _context().parallelize(pickled, len(pickled)).mapPartitions(_run)


def stream(rows: Any, wave: int | None = None) -> Generator[Any, None, None]:
    """What is in an RDD of a stage, in the order of its partitions.

    As many tasks run at a time as there are cores, or as a wave has, and while their results are used the next do: so
    memory is bounded, and nothing waits for results that nobody asks for.
    """
    context = _context()
    wave, count = wave or cores(), rows.getNumPartitions()
    waves = [range(start, min(start + wave, count)) for start in range(0, count, wave)]
    group, stop = f"shoal-{to_text(new())}", current()

    def collect(partitions: range) -> list[bytes]:
        context.setJobGroup(group, "shoal", interruptOnCancel=True)
        return list(context.runJob(rows, _as_is, partitions))

    with ThreadPoolExecutor(1) as ahead, shown(group, count), stop.cancelling(lambda: context.cancelJobGroup(group)):
        waiting = ahead.submit(collect, waves[0])
        try:
            for following in (*waves[1:], None):
                rows_ = _named(waiting.result)
                if following is not None:
                    waiting = ahead.submit(collect, following)
                yield from map(opened, rows_)
        finally:
            if not waiting.done():
                context.cancelJobGroup(group)


@contextmanager
def stoppable() -> Iterator[None]:
    """Jobs that this thread starts within are cancelled if what they are for is stopped."""
    stop = current()
    if stop is NEVER:
        yield
        return
    context, name = _context(), f"shoal-{to_text(new())}"
    group = JobGroup(context, name)
    context.setJobGroup(name, "shoal", interruptOnCancel=True)
    try:
        with stop.cancelling(group.cancel):
            yield
    finally:
        if stop.why is not None:
            group.end()
        if group.has_jvm:
            for key in _PROPERTIES:
                context.setLocalProperty(key, None)


@contextmanager
def shown(group: str, count: int) -> Iterator[None]:
    """A job of `count` tasks, of which the progress is shown."""
    show = watcher()
    if show is None:
        yield
        return
    over = Event()
    tracker = _context().statusTracker()

    def look() -> None:
        while not over.wait(_EVERY):
            show(_done(tracker, group), count)

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        show(0, 0)


def _done(tracker: Any, group: str) -> int:
    """How many tasks of a group are done; of stages that are over, Spark may have forgotten the number."""
    done = 0
    for job in tracker.getJobIdsForGroup(group):
        for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
            done += getattr(tracker.getStageInfo(stage), "numCompletedTasks", 0)
    return done


def _task_memory() -> int | None:
    """The memory that each task of a query with a limit may use."""
    memory = current().memory
    return None if memory is None else memory // cores()


def run_over(frame: Any, work: Callable[[P, Iterator[Any]], Iterable[R]], payload: P) -> Iterator[R]:
    """What a function of a module makes of the rows that each task has, as Arrow batches."""
    task = partial(_run_over, pickle.dumps((work, payload, _task_memory())))
    rows = _named(lambda: [bytes(row[0]) for row in frame.mapInArrow(task, "made binary").collect()])
    yield from map(opened, rows)


def _context() -> Any:
    context = getattr(spark_session(), "_sc", None)
    if context is None:
        raise Unsupported("Spark Connect cannot run this (use a master other than sc://)")
    return context


def _as_is(rows: Iterable[bytes]) -> Iterable[bytes]:
    return rows


def opened(row: bytes) -> Any:
    """What a task made; or the error that it made instead, raised."""
    result = pickle.loads(row[1:])  # noqa: S301 - from a task of ours
    if row[:1] == _FAILED:
        raise result
    return result


def _named(job: Callable[[], list[bytes]]) -> list[bytes]:
    """A job that fails for other reasons than those of our own code is a failure of the cluster."""
    try:
        return job()
    except ShoalError:
        raise
    except Exception as e:
        current().check()
        raise StorageFailure(f"Spark: {reason_of(e)} (SHOAL_SPARK_LOG=WARN shows more)") from e


def reason_of(error: Exception) -> str:
    """The most useful line: the last error that a traceback, in Python or in Java, ends with."""
    errors_ = re.findall(r"^(?:Caused by: )?[\w.$]*(?:Error|Exception|Failure): .+$", str(error), re.MULTILINE)
    return (errors_[-1] if errors_ else str(error).strip().partition("\n")[0] or type(error).__name__)[:300]


# ---- in tasks


def _run_over(pickled: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415 - not for jobs without columns

    for row in framed(lambda: _called(pickled, batches)):
        yield pa.RecordBatch.from_arrays([pa.array([row], pa.binary())], ["made"])


def _run(pickled: Iterable[bytes]) -> Iterator[bytes]:
    for each in pickled:
        yield from framed(lambda: _called(each))  # noqa: B023 - called at once


def _called(pickled: bytes, *args: Any) -> Iterable[Any]:
    work, payload, memory = pickle.loads(pickled)  # noqa: S301 - from our driver
    if memory is None:
        results: Iterable[Any] = work(payload, *args)
        return results
    stop = Stop()
    stop.memory = memory
    with stopped_by(stop):
        return results_stopped_by(stop, iter(work(payload, *args)))


def framed(work: Callable[[], Iterable[Any]]) -> Iterator[bytes]:
    """What a task makes, as it goes back to the driver; an error of ours is the end of it."""
    try:
        for result in work():
            yield _DONE + pickle.dumps(result)
    except ShoalError as e:
        yield _FAILED + pickle.dumps(e)
