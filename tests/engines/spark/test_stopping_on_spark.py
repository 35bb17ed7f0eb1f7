"""Jobs that would run for hours are cancelled when their query is stopped."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from tests.engines.spark.conftest import SharedSession

from shoal.api.results import Results
from shoal.engines.stopping import Stop
from shoal.engines.temporary_folders import remove_abandoned
from shoal.errors import Stopped
from shoal.local.lake import LocalLake, create_local
from shoal.planner.spark_dataframes import open_session
from shoal.testing.queries import asked_under
from shoal.testing.tiers import IS_LONG

PATIENCE = 60.0
"""Seconds from a stop to the end of a query, on a busy machine; the query would take hours."""
MUCH = "from p | over a with b=a => (over b with x=this => (over b | yield {x,y:this}))"
PROGRAMS = [f"{MUCH} | {ops}" for ops in ("count()", "where x < 0", "sort -r y, x", "count() by x, y", "tail 1")]
CROSS = "from p a, p b, p c, p d, p e, p f"
SORT = f"select a.n {CROSS} order by b.n"
JOIN = f"select count(*) c {CROSS} where a.n * b.n + c.n * d.n = e.n + f.n"
CONSTANT = "select length(repeat('x', 2000000000)) c from p"


def test_jobs_end_with_the_query_that_they_are_for(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_all, tmp_path)


def check_all(root: Path) -> None:
    """Everything in one lake."""
    lake = create_local(str(root / "lake"))
    lake.create("p", key="n")
    for part in range(4):
        lake.pool("p").load([{"n": 100 * part + n, "a": list(range(1000))} for n in range(100)])
    open_session()
    for program in PROGRAMS if IS_LONG else PROGRAMS[::2]:
        check_stop(lake, partial(lake.query, program, engine="spark"), has_running_tasks)
    check_memory(lake)
    check_that_no_task_is_left(lake, partial(lake.sql, JOIN, engine="spark"), has_tasks_that_join)
    if IS_LONG:
        check_stop(lake, partial(lake.sql, SORT, engine="spark"), has_running_tasks)
        check_stop(lake, partial(lake.sql, CONSTANT, engine="spark"), seems_to_plan)
    remove_abandoned()
    assert list(Path(tempfile.gettempdir()).glob("shoal-spill-*")) == []


def has_running_tasks(context: Any) -> bool:
    tracker = context.statusTracker()
    jobs = [info for job in tracker.getActiveJobsIds() if (info := tracker.getJobInfo(job)) is not None]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return any(stage is not None and stage.numActiveTasks for stage in stages)


def check_memory(lake: LocalLake) -> None:
    """Values that grow in tasks end the query by its memory limit."""
    stop = Stop()
    stop.memory = 64 << 20
    program = "from p | yield string(n)" + " | yield hex(bytes(this))" * 40 + " | count()"
    try:
        asked_under(stop, lake.query, program, engine="spark").one()
    except Stopped as e:
        assert "the query makes a value of more than" in str(e)
    else:
        raise AssertionError("it came to its end")


def is_at(context: Any, method: str) -> bool:
    """Whether any thread of the JVM is in a method."""
    traces = context._jvm.java.lang.Thread.getAllStackTraces().values()
    return any(method in frame.toString() for trace in traces for frame in trace)


def has_tasks_that_join(context: Any) -> bool:
    return is_at(context, "SpecificPredicate.eval")


def seems_to_plan(_: Any) -> bool:
    time.sleep(2)  # constants are computed before there is a job; then the JVM answers nothing
    return True


def check_that_no_task_is_left(lake: LocalLake, ask: Callable[..., Results], is_busy: Callable[[Any], bool]) -> None:
    """What does not look whether it is cancelled ends with its JVM."""
    process = open_session().sparkContext._gateway.proc
    check_stop(lake, ask, is_busy)
    assert process.poll() is not None


def check_stop(lake: LocalLake, ask: Callable[..., Results], is_busy: Callable[[Any], bool]) -> None:
    stop = Stop()
    stopped: list[float] = []
    context = open_session().sparkContext

    def act() -> None:
        while not is_busy(context):
            time.sleep(0.02)
        stopped.append(time.monotonic())
        stop.stop(Stopped("by a test"))

    Thread(target=act, daemon=True).start()
    try:
        with asked_under(stop, ask) as results:
            for _ in results:
                pass
    except Stopped as e:
        assert str(e) == "by a test"
    else:
        raise AssertionError("it came to its end")
    seconds = time.monotonic() - stopped[0]
    assert seconds < PATIENCE
    assert not open_session().sparkContext.statusTracker().getActiveJobsIds()
    assert lake.query("from p | count()", engine="spark").one().data == 400
    assert lake.sql("select count(*) c from p", engine="spark").one().data == (400,)
