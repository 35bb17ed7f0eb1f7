"""A real cluster under fire: executors, workers and drivers are killed while they work. Nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from threading import Event, Thread

import pytest
from tests.engines.spark.conftest import SharedSession
from tests.engines.spark.test_cluster import conf_of, driver, store_of

import shoal
from shoal.api.lake import Lake
from shoal.engines.spark import packing
from shoal.lake import partitioning
from shoal.local import file_loads
from shoal.model.text import format_value
from shoal.testing.spark_cluster import SparkCluster, running_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]
ROWS, LOADS = 60_000, 5
MOST_KILLS = 6
"""An executor takes seconds to start: with more deaths than that, nothing would ever be done."""
FIRE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.task.maxFailures": "50",
    "spark.deploy.maxExecutorRetries": "-1",
}
"""Tasks run twice, and may be lost often."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("libraries") / "libraries.zip"
    packing.pack(target)
    return target


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with running_cluster(tmp_path / "cluster") as running:
        yield running


def rows_file(root: Path) -> Path:
    file = root / "rows.ndjson"
    rows = ({"ts": i * 7919 % ROWS, "level": "warn" if i % 5 else "info", "n": i} for i in range(ROWS))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def executors(cluster: SparkCluster) -> list[int]:
    """The processes of the executors of a cluster."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_executor = b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes()
            if is_executor and Path(os.readlink(process / "cwd")).is_relative_to(cluster.folder):
                pids.append(int(process.name))
        except OSError:
            continue
    return pids


class Killer(Thread):
    """Kills an executor every few seconds, and one worker, which is replaced."""

    def __init__(self, cluster: SparkCluster, every: float) -> None:
        super().__init__(daemon=True)
        self._cluster, self._every, self.over, self.kills = cluster, every, Event(), 0

    def run(self) -> None:
        while self.kills < MOST_KILLS and not self.over.wait(self._every):
            for pid in executors(self._cluster)[:1]:
                os.kill(pid, signal.SIGKILL)
                self.kills += 1
            if self.kills == 2:
                self._cluster.workers[0].kill()
                self._cluster.start_worker()


@pytest.mark.parametrize("store", ["disk", "s3"])
def test_executors_and_workers_die_while_they_work(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path, store: str
) -> None:
    uri = str(tmp_path / "lake") if store == "disk" else "s3://bucket/fire"
    file, settings = rows_file(tmp_path), store_of(endpoint)
    lake_settings = {"SHOAL_SPARK_LIBRARIES": str(libraries), "FIRE": ",".join(f"{k}={v}" for k, v in FIRE.items())}
    killer = Killer(cluster, 6.0)
    with driver(cluster.master, settings, tmp_path, **lake_settings) as process:
        session = SharedSession(process)
        session.run(prepare, uri)
        killer.start()
        try:
            session.run(work, uri, file)
        finally:
            killer.over.set()
            killer.join()
        session.run(check, uri)
    assert killer.kills >= 3


def prepare(uri: str) -> None:
    """Start the session, with an executor on each worker, before the fire."""
    os.environ["SHOAL_SPARK_CONF"] += "," + os.environ["FIRE"]
    file_loads.SMALLEST = 50_000
    partitioning.TASK_PARTITION_SIZE = 50_000
    lake = shoal.create(uri)
    lake.create("rows", key="ts").load([{"ts": -1, "level": "first", "n": 0}])
    assert lake.query("from rows | sum(ts)", engine="spark").to_list() == [-1]


def work(uri: str, file: Path) -> None:
    """Loads, compactions, sorts and joins."""
    lake = shoal.open(uri)
    pool = lake.pool("rows")
    for _ in range(LOADS):
        pool.load(file, engine="spark")
    pool.create_branch("before")
    pool.compact([o.id for o in pool.objects()], engine="spark")
    for program in (
        "from rows | sort n, ts | head 5",
        "from rows | n < 3000 | join (from rows@before | n < 2000) on n=n other:=ts | count(), sum(other)",
        "from rows@before | count(), sum(n) by level | sort level",
    ):
        assert texts(lake, program, "spark") == texts(lake, program, "duckdb"), program


def texts(lake: Lake, program: str, engine: str) -> list[str]:
    return list(map(format_value, lake.query(program, engine=engine)))


def check(uri: str) -> None:
    """Each load is there once, in one commit."""
    lake = shoal.open(uri)
    pool = lake.pool("rows")
    for branch in ("main", "before"):
        (value,) = lake.query(f"from rows@{branch} | count(), sum(n)")
        assert format_value(value) == f"{{count:{LOADS * ROWS + 1}(uint64),sum:{LOADS * ROWS * (ROWS - 1) // 2}}}"
    assert sum(1 for _ in pool.log()) == LOADS + 2
    pool.vacuum(grace=0)
    assert lake.query("from rows | count()").to_list() == [LOADS * ROWS + 1]


MOMENTS = {
    "before its tasks": "wrap(file_loads, 'load_files', before=True)",
    "while its tasks run": "Timer(float(os.environ['DELAY']), die).start()",
    "after its tasks": "wrap(file_loads, 'load_files')",
    "after its commit object": "wrap(Commits, 'create')",
    "after its commit": "wrap(Committer, 'join')",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_driver_dies(cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path, moment: str) -> None:
    uri, file, store = f"s3://bucket/dies-{time.time_ns()}", rows_file(tmp_path), store_of(endpoint)
    os.environ.update(store)
    lake = shoal.create(uri)
    pool = lake.create("rows", key="ts")
    operation = shoal.ids.to_text(shoal.ids.new())
    program = dedent(f"""
        import os, signal, shoal
        from threading import Timer
        from shoal.lake.commits import Commits
        from shoal.lake.committer import Committer
        from shoal.local import file_loads, loads
        from shoal.engines.spark.stages import cluster

        file_loads.SMALLEST = 50_000

        def die():
            os.kill(os.getpid(), signal.SIGKILL)

        def wrap(owner, name, before=False):
            inner = getattr(owner, name)
            def dying(*args, **kwargs):
                if not before:
                    inner(*args, **kwargs)
                die()
            setattr(owner, name, dying)
            if owner is file_loads:
                loads.load_files = dying

        pool = shoal.open({uri!r}).pool("rows")
        cluster().cores
        {MOMENTS[moment]}
        pool.load({str(file)!r}, engine="spark", op={operation!r})
    """)
    conf = ",".join(f"{key}={value}" for key, value in conf_of(store).items())
    variables = {
        "SHOAL_SPARK_MASTER": cluster.master,
        "SHOAL_SPARK_CONF": conf,
        "SHOAL_SPARK_LIBRARIES": str(libraries),
        "SHOAL_SPARK_PATIENCE": "120",
        "SHOAL_CACHE": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
        "DELAY": "14",
        **store,
    }
    died = subprocess.run([sys.executable, "-c", program], env={**os.environ, **variables}, timeout=300, check=False)
    assert died.returncode == -signal.SIGKILL
    assert lake.query("from rows | count()").to_list() in ([], [ROWS])
    pool.load(file, op=operation)  # the client does not know, and does it again
    assert lake.query("from rows | count()").to_list() == [ROWS]
    assert sum(1 for _ in pool.log()) == 1
    pool.vacuum(grace=0)
    assert lake.query("from rows | sum(n)").to_list() == [ROWS * (ROWS - 1) // 2]
