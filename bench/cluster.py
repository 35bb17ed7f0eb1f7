"""A standalone cluster: `python -m bench.cluster plan N`, `small N`, `scale N`, `stream N` or `read N`.

- `plan`: the driver plans a query over N synthetic data objects, and pickles its tasks.
- `small`: queries over N small objects, on two workers.
- `scale`: the same load and query on one worker, and on two, of one core each.
- `stream`: N rows go through the driver, one by one.
- `read`: a DataFrame of N rows with a filter and three columns, beside Spark on plain Parquet.
"""

from __future__ import annotations

import argparse
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import shoal
from bench import logs, peak, processes, small_objects
from shoal.engines.spark import packing
from shoal.engines.spark.runner import OnSpark, packed
from shoal.engines.spark.session import spark_session
from shoal.ids import new
from shoal.local.lake import LocalLake, stored
from shoal.model.values import int64
from shoal.planner.execute import Question, compile_question
from shoal.planner.scan_units import make_scan
from shoal.testing.ports import HOST
from shoal.testing.spark_cluster import bare_python, running_cluster

_TASKS = 400
"""Of a cluster with 200 cores."""
_ROUNDS = 3
_COLUMNS = ("ts", "id", "level")
_BUSY = "from logs | has(msg) | put w:=split(upper(msg), ' ') | over w | count() by word:=this | sort -r count | head 5"
"""A query that keeps tasks busy: most of it is done by the interpreter."""


def main() -> None:
    """Run one measurement and report it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("plan", "small", "scale", "stream", "read"))
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    args = parser.parse_args()
    measure: dict[str, Callable[[int, Path], dict[str, Any]]] = {
        "plan": _plan,
        "small": small_objects.measure,
        "scale": _scale,
        "stream": _stream,
        "read": _read,
    }
    with tempfile.TemporaryDirectory() as folder:
        processes.report(**measure[args.what](args.count, Path(folder)))


def _plan(count: int, folder: Path) -> dict[str, Any]:
    lake = shoal.create(folder / "lake")
    assert isinstance(lake, LocalLake)
    handle = lake.create("logs", key="ts")
    handle.load([{"ts": i, "a": i % 3, "s": "x"} for i in range(10)])
    pool = stored(handle)
    (one,) = pool.snapshot(pool.resolve()).objects()
    objects = [replace(one, id=new(), min=int64(i * 10), max=int64(i * 10 + 9)) for i in range(count)]
    program = compile_question(lake.root, Question("from logs | count() by a"))
    began = time.perf_counter()
    scan = make_scan(pool, objects, None)
    assert scan is not None
    plan = OnSpark(scan, program.body[0], program.body[1:], funcs=program.funcs)  # type: ignore[arg-type]
    work = plan._work(packed([(source,) for source in scan.sources], _TASKS))
    size = sum(len(pickle.dumps(each)) for each in work)
    return {"seconds": time.perf_counter() - began, "tasks": len(work), "pickled": size}


def _scale(count: int, folder: Path) -> dict[str, Any]:
    libraries = folder / "libraries.zip"
    packing.pack(libraries)
    os.environ.update(SHOAL_SPARK_LIBRARIES=str(libraries), SHOAL_SPARK_PATIENCE="120")
    with running_cluster(folder / "cluster", workers=1) as cluster:
        os.environ["SHOAL_SPARK_MASTER"] = cluster.master
        os.environ["SHOAL_SPARK_CONF"] = (
            f"spark.driver.host={HOST},spark.executor.memory=512m,spark.pyspark.python={bare_python()}"
        )
        results = {"one": _times(count, folder / "one")}
        cluster.start_worker()
        while spark_session().sparkContext._jsc.sc().statusTracker().getExecutorInfos().__len__() < 3:
            time.sleep(0.1)
        results["two"] = _times(count, folder / "two")
    ratios = {name: results["one"][name] / results["two"][name] for name in ("load", "query")}
    return {**results, "ratios": ratios}


def _times(count: int, folder: Path) -> dict[str, float]:
    """The best seconds of a load and of a query, when executors are warm."""
    lake = shoal.create(folder)
    loads, source = [], str(logs.path(count))
    for number in range(_ROUNDS):
        pool = lake.create(f"logs{number}" if number else "logs", key="ts")
        began = time.perf_counter()
        pool.load(source, engine="spark")
        loads.append(time.perf_counter() - began)
    queries = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        lake.query(_BUSY, engine="spark").to_list()
        queries.append(time.perf_counter() - began)
    return {"load": min(loads), "query": min(queries)}


def _stream(count: int, folder: Path) -> dict[str, Any]:
    lake = shoal.create(folder / "lake")
    pool, rows = lake.create("rows", key="ts"), 100_000
    for start in range(0, count, rows):
        pool.load([{"ts": i, "n": i % 7} for i in range(start, min(start + rows, count))])
    before = peak.mebibytes()
    began = time.perf_counter()
    seen = sum(1 for _ in lake.query("from rows", engine="spark"))
    return {"seconds": time.perf_counter() - began, "rows": seen, "driver_before": before}


def _read(count: int, folder: Path) -> dict[str, Any]:
    lake = shoal.create(folder / "lake")
    lake.create("logs", key="ts").load(str(logs.path(count)))
    spark = shoal.spark.session()
    source = spark.read.format("shoal").option("lake", lake.uri).load("logs")
    source.write.parquet(str(folder / "plain"))
    plain = spark.read.parquet(str(folder / "plain"))
    out: dict[str, Any] = {}
    for name, frame in (("shoal", source), ("parquet", plain)) * 2:
        query = frame.select(*_COLUMNS).where("level = 'error'")
        out[name] = _best(lambda query=query: query.write.format("noop").mode("overwrite").save())  # type: ignore[misc]
        out[f"{name} count"] = _best(frame.count)
    return out


def _best(act: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


if __name__ == "__main__":
    main()
