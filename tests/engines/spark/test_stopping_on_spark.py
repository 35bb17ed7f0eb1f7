"""Jobs that would run for hours are cancelled when their query is stopped."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from threading import Thread

from shoal.api.results import Results
from shoal.engines.spark.session import spark_session
from shoal.engines.stopping import Stop
from shoal.errors import Stopped
from shoal.local.lake import LocalLake, create_local
from shoal.testing.queries import asked_under
from shoal.testing.tiers import IS_LONG

PATIENCE = 3.0
"""Seconds from a stop to the end of a query."""
MUCH = "from p | over a with b=a => (over b with x=this => (over b | yield {x,y:this}))"
PROGRAMS = [f"{MUCH} | {ops}" for ops in ("count()", "where x < 0", "sort -r y, x", "count() by x, y", "tail 1")]
CROSS = "from p a, p b, p c, p d, p e, p f"
STATEMENTS = [f"select count(*) c {CROSS} where a.n * b.n + c.n * d.n = e.n + f.n", f"select a.n {CROSS} order by b.n"]


def test_jobs_end_with_the_query_that_they_are_for(tmp_path: Path) -> None:
    """In a process of its own, since a process has one JVM for life."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        process.submit(check_all, tmp_path).result()


def check_all(root: Path) -> None:
    """Everything in one session."""
    temporary = root / "tmp"
    temporary.mkdir()
    os.environ["TMPDIR"] = str(temporary)
    lake = create_local(str(root / "lake"))
    lake.create("p", key="n")
    for part in range(4):
        lake.pool("p").load([{"n": 100 * part + n, "a": list(range(1000))} for n in range(100)])
    spark_session()
    for program in PROGRAMS if IS_LONG else PROGRAMS[::2]:
        check_stop(lake, partial(lake.query, program, engine="spark"))
    for statement in STATEMENTS if IS_LONG else STATEMENTS[:1]:
        check_stop(lake, partial(lake.sql, statement, engine="spark"))
    assert list(temporary.glob("shoal-spill-*")) == []


def check_stop(lake: LocalLake, ask: Callable[..., Results]) -> None:
    stop = Stop()
    stopped: list[float] = []
    tracker = spark_session().sparkContext.statusTracker()

    def act() -> None:
        while not tracker.getActiveJobsIds():
            time.sleep(0.05)
        time.sleep(0.5)
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
    assert not tracker.getActiveJobsIds()
    assert lake.query("from p | count()", engine="spark").one().data == 400
    assert lake.sql("select count(*) c from p", engine="spark").one().data == (400,)
