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
from typing import Any, NamedTuple, TypeVar

from shoal.engines.progress import watcher
from shoal.engines.spark import worker_entry
from shoal.engines.spark.credentials import credentials_to_send, use_credentials
from shoal.engines.spark.failures import translating
from shoal.engines.spark.session import spark_session
from shoal.engines.spark.stages import Stage, Step, cluster
from shoal.engines.spark.stuck_tasks import JobGroup
from shoal.engines.stopping import NEVER, Stop, current, results_stopped_by, stopped_by
from shoal.errors import ShoalError
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
MOST_TASKS = 100_000
"""Of a job: each costs the driver some milliseconds and kilobytes."""
_MIB = 1 << 20
_SMALL_TASK = 16 * _MIB
"""Bytes of a task below which its size is not worth a look at the settings."""
_DONE, _FAILED = b"d", b"e"
_EVERY = 0.2
"""Seconds between two looks at a job."""


def cores() -> int:
    """How many tasks run at a time."""
    return cluster().cores


def task_count(size: int = 0, session: Any = None) -> int:
    """In how many tasks work on some bytes is best cut: all cores have some, and no task more than Spark would give it.

    A setting of Spark, `spark.sql.files.maxPartitionBytes`, says how much that is.
    """
    least, most = TASKS_PER_CORE * cluster(session).cores, MOST_TASKS
    return max(least, min(-(-size // _largest_task(session)), most)) if size > least * _SMALL_TASK else least


def _largest_task(session: Any) -> int:
    conf = (session or spark_session()).conf
    return parse_bytes(str(conf.get("spark.sql.files.maxPartitionBytes"))) or 128 * _MIB


def parse_bytes(text: str) -> int:
    """A number of bytes as Spark writes it: `128MB`, `134217728b`, `1g`; 0 if it is not one."""
    number = re.fullmatch(r"\s*(\d+)\s*([kmgtp]?)i?b?\s*", text.lower())
    return int(number[1]) << (10 * " kmgtp".index(number[2] or " ")) if number else 0


def run_tasks(
    work: Callable[[P], Iterable[R]], payloads: Sequence[P], at_once: bool = False
) -> Generator[R, None, None]:
    """What a function of a module makes of each payload, in their order, a task each.

    `at_once` is for few results that are all needed: one job, since each costs more than a short task.
    """
    if payloads:
        title = title_of(work, payloads[0])
        yield from stream(stage(work, payloads), len(payloads) if at_once else None, title)


def title_of(work: Callable[..., Any], payload: Any) -> str:
    """What a job is called where Spark shows it: by the kind of task, or by what is called."""
    kind = type(payload)
    name = kind.__name__ if kind.__module__.endswith(".runner") else work.__name__
    return "shoal: " + re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip().lower()


def stage(work: Callable[[P], Iterable[R]], payloads: Sequence[P]) -> Stage:
    """The results, of which nothing has been computed yet."""
    return stage_calls([(work, payload) for payload in payloads])


def stage_calls(calls: Sequence[tuple[Callable[[P], Iterable[R]], P]]) -> Stage:
    """Functions of modules with a payload each, a task for each of them."""
    means = _means()
    return cluster().stage([pickle.dumps((work, pickle.dumps(payload), means)) for work, payload in calls], Step(_run))


def stream(rows: Stage, wave: int | None = None, title: str = "shoal") -> Generator[Any, None, None]:
    """What is in a stage, in the order of its partitions.

    As many tasks run at a time as there are cores, or as a wave has, and while their results are used the next do: so
    memory is bounded, and nothing waits for results that nobody asks for.
    """
    on, stop = cluster(), current()
    wave, count = wave or on.cores, rows.count
    waves = [range(start, min(start + wave, count)) for start in range(0, count, wave)]
    group = f"shoal-{to_text(new())}"

    def collect(partitions: range) -> list[bytes]:
        return on.collect(rows, partitions, group, title)

    with ThreadPoolExecutor(1) as ahead, shown(group, count), stop.cancelling(lambda: on.cancel(group)):
        waiting = ahead.submit(collect, waves[0])
        try:
            for following in (*waves[1:], None):
                rows_ = named(waiting.result)
                if following is not None:
                    waiting = ahead.submit(collect, following)
                yield from map(opened, rows_)
        finally:
            if not waiting.done():
                on.cancel(group)


@contextmanager
def stoppable(title: str = "shoal: statement") -> Iterator[None]:
    """Jobs that this thread starts within are cancelled if what they are for is stopped."""
    stop, on, name = current(), cluster(), f"shoal-{to_text(new())}"
    with on.named_jobs(name, title):
        if stop is NEVER:
            yield
            return
        group = JobGroup(spark_session(), on, name)
        try:
            with stop.cancelling(group.cancel):
                yield
        finally:
            if stop.why is not None:
                group.end()


@contextmanager
def shown(group: str, count: int) -> Iterator[None]:
    """A job of `count` tasks, of which the progress is shown."""
    show = watcher()
    if show is None:
        yield
        return
    over, on = Event(), cluster()

    def look() -> None:
        while not over.wait(_EVERY):
            show(on.tasks_done(group), count)

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        show(0, 0)


class Means(NamedTuple):
    """What a task may use."""

    memory: int | None
    """Bytes of memory, of a query with a limit."""
    credentials: dict[str, str]
    """Settings of the store that count before those of the worker's environment."""


def _means() -> Means:
    memory = current().memory
    credentials = {} if cluster().shipment is None else credentials_to_send(spark_session())
    return Means(None if memory is None else memory // cores(), credentials)


def run_over(frame: Any, work: Callable[[P, Iterator[Any]], Iterable[R]], payload: P) -> Iterator[R]:
    """What a function of a module makes of the rows that each task has, as Arrow batches."""
    task = Step(_run_over, (work, pickle.dumps(payload), _means()))
    function = worker_entry.on_frame(cluster().shipment, task.pickled())
    rows = named(lambda: [bytes(row[0]) for row in frame.mapInArrow(function, "made binary").collect()])
    yield from map(opened, rows)


def opened(row: bytes) -> Any:
    """What a task made; or the error that it made instead, raised."""
    result = pickle.loads(row[1:])  # noqa: S301 - from a task of ours
    if row[:1] == _FAILED:
        raise result
    return result


def named(job: Callable[[], list[bytes]]) -> list[bytes]:
    """A job that fails for other reasons than those of our own code is a failure of the cluster."""
    with translating():
        return job()


# ---- in tasks


def _run_over(batches: Iterator[Any], work: Callable[..., Iterable[Any]], payload: bytes, means: Means) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - not for jobs without columns

    for row in framed(lambda: _called(work, payload, means, batches)):
        yield pa.RecordBatch.from_arrays([pa.array([row], pa.binary())], ["made"])


def _run(task: int, pickled: Iterable[bytes]) -> Iterator[bytes]:
    for each in pickled:
        work, pickled_payload, means = pickle.loads(each)  # noqa: S301 - from our driver
        yield from framed(partial(_called, work, pickled_payload, means))


def _called(work: Callable[..., Iterable[Any]], pickled: bytes, means: Means, *args: Any) -> Iterable[Any]:
    use_credentials(means.credentials)
    payload = pickle.loads(pickled)  # noqa: S301 - from our driver; it may open a store
    if means.memory is None:
        return work(payload, *args)
    stop = Stop()
    stop.memory = means.memory
    with stopped_by(stop):
        return results_stopped_by(stop, iter(work(payload, *args)))


def framed(work: Callable[[], Iterable[Any]]) -> Iterator[bytes]:
    """What a task makes, as it goes back to the driver; an error of ours is the end of it."""
    try:
        for result in work():
            yield _DONE + pickle.dumps(result)
    except ShoalError as e:
        yield _FAILED + pickle.dumps(e)
