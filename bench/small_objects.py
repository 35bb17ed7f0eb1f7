"""Queries over a pool of very many small objects, on a cluster of two workers: seconds, memory and tasks.

Some hundred objects are written, and the files of each are linked under many names: so all of them are real files, read
as any other, and the pool is made in a minute.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import shoal
from bench import peak
from shoal.engines.spark import packing
from shoal.engines.spark.session import spark_session
from shoal.ids import new, to_text
from shoal.lake import changes
from shoal.lake.commits import Note
from shoal.local.lake import stored
from shoal.planner.prune import prune
from shoal.testing.ports import HOST
from shoal.testing.spark_cluster import bare_python, running_cluster

_ROWS = 20_000
"""That are written, in objects of some 30 rows; the other objects are links."""
_TASK_ENDED = '"Event":"SparkListenerTaskEnd"'


def measure(count: int, folder: Path) -> dict[str, Any]:
    """Query a pool of so many objects, some or all of them."""
    rows = _make(count, folder / "lake")
    pool = stored(shoal.open(folder / "lake").pool("logs"))
    before = peak.mebibytes()
    began = time.perf_counter()
    pruned = prune(pool, pool.resolve(), None)
    results: dict[str, Any] = {"objects": pruned.total, "rows": rows}
    results["snapshot and pruning"] = time.perf_counter() - began
    queries = {
        "all": ("from logs | count() by a | sum(count)", rows),
        "all again": ("from logs | count() by a | sum(count)", rows),
        "a tenth, by the key": (f"from logs | ts < {_ROWS // 10} | count()", rows // 10),
        "sorted": ("from logs | sort -r s, ts | head 3 | count()", 3),
    }
    packing.pack(folder / "libraries.zip")
    events = folder / "events"
    events.mkdir()
    with running_cluster(folder / "cluster") as cluster:
        os.environ.update(
            SHOAL_SPARK_LIBRARIES=str(folder / "libraries.zip"),
            SHOAL_SPARK_PATIENCE="120",
            SHOAL_SPARK_MASTER=cluster.master,
            SHOAL_SPARK_CONF=f"spark.driver.host={HOST},spark.executor.memory=512m"
            f",spark.pyspark.python={bare_python()},spark.eventLog.enabled=true,spark.eventLog.compress=false"
            f",spark.eventLog.dir=file://{events}",
        )
        lake = shoal.open(folder / "lake")
        lake.query("from logs | ts < 1 | count()", engine="spark").to_list()
        for name, (program, expected) in queries.items():
            tasks, began = _tasks(events), time.perf_counter()
            (value,) = lake.query(program, engine="spark").to_list()
            assert value == expected, (name, value)
            results[name] = {"seconds": time.perf_counter() - began, "tasks": _tasks(events) - tasks}
        spark_session().stop()
    return {**results, "driver_before": before, "driver_after": peak.mebibytes()}


def _make(count: int, lake: Path) -> int:
    """A lake with one pool of so many objects; returns the number of its rows."""
    handle = shoal.create(lake).create("logs", key="ts", object_size=300)
    handle.load({"ts": i, "a": i % 3, "s": f"row {i}"} for i in range(_ROWS))
    pool = stored(handle)
    written = list(pool.snapshot(pool.resolve()).objects())
    data = lake / handle.id / "data"
    copies = []
    for one in written:
        files = [file.name.removeprefix(to_text(one.id)) for file in data.glob(f"{to_text(one.id)}*")]
        for _ in range(count // len(written) - 1):
            copies.append(replace(one, id=new()))
            for end in files:
                os.link(data / f"{to_text(one.id)}{end}", data / f"{to_text(copies[-1].id)}{end}")
    pool.committer.commit(changes.load("main", copies, Note("bench")))
    return sum(o.count for o in (*written, *copies))


def _tasks(events: Path) -> int:
    """How many tasks have ended so far; Spark writes that within a moment."""
    time.sleep(2)
    return sum(path.read_text().count(_TASK_ENDED) for path in events.rglob("*") if path.is_file())
