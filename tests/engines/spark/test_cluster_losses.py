"""A real cluster that changes while it works: shuffle files are lost, executors are decommissioned, come and go, and
tasks differ in size by orders of magnitude. Results are equal, and commits are made once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.engines.spark.conftest import SharedSession
from tests.engines.spark.test_cluster import driver, event_log, store_of
from tests.engines.spark.test_cluster_under_fire import check, executors, prepare, rows_file, texts, work

import shoal
from shoal.engines.spark import exchange, packing
from shoal.lake import partitioning
from shoal.local import file_loads
from shoal.model.text import format_value
from shoal.testing.spark_cluster import SparkCluster, running_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]
STORES = ("disk", "s3")
DECOMMISSION = "-Dspark.decommission.enabled=true"
"""A worker looks at its own configuration, too."""
DECOMMISSIONS = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.deploy.maxExecutorRetries": "-1",
}
COME_AND_GO = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "3s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "3s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
}
LOST = {"spark.stage.maxConsecutiveAttempts": "20", "spark.deploy.maxExecutorRetries": "-1"}
ORDERS = (
    "from rows | sort n, ts",
    "from rows | n < 20000 | join (from rows | n < 20000) on n=n other:=ts | cut n, other",
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("libraries") / "libraries.zip"
    packing.pack(target)
    return target


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with running_cluster(tmp_path / "cluster", workers=0) as running:
        for _ in range(2):
            running.start_worker(JAVA_TOOL_OPTIONS=DECOMMISSION)
        yield running


class Trouble(Thread):
    """Does something to a cluster every few seconds, a few times."""

    def __init__(self, act: Callable[[int], object], every: float, times: int) -> None:
        super().__init__(daemon=True)
        self._act, self._every, self._times, self.over, self.acts = act, every, times, Event(), 0

    def run(self) -> None:
        while self.acts < self._times and not self.over.wait(self._every):
            self._act(self.acts)
            self.acts += 1


def uri_of(store: str, root: Path) -> str:
    return str(root / "lake") if store == "disk" else f"s3://bucket/losses-{time.time_ns()}"


def variables(libraries: Path, events: Path, conf: dict[str, str]) -> dict[str, str]:
    """The environment of a driver with some settings, which writes what happens."""
    events.mkdir()
    fire = ",".join(f"{key}={value}" for key, value in conf.items()) + event_log(events)
    return {"SHOAL_SPARK_LIBRARIES": str(libraries), "FIRE": fire}


def happened(events: Path, what: str) -> int:
    """How often the driver wrote that something happened."""
    return sum(path.read_text(errors="replace").count(what) for path in events.rglob("*") if path.is_file())


def lose_shuffle_files(folder: Path) -> int:
    """Delete all that executors keep for the next stage; how many files that were."""
    count = 0
    for path in folder.rglob("shuffle_*"):
        path.unlink(missing_ok=True)
        count += 1
    return count


@pytest.mark.parametrize("store", STORES)
def test_shuffle_files_are_lost(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path, store: str
) -> None:
    uri, file, events = uri_of(store, tmp_path), rows_file(tmp_path), tmp_path / "events"
    with driver(cluster.master, store_of(endpoint), tmp_path, **variables(libraries, events, LOST)) as process:
        session = SharedSession(process)
        session.run(prepare, uri)
        trouble = Trouble(lambda _: lose_shuffle_files(cluster.folder), 2.0, 12)
        trouble.start()
        try:
            session.run(work, uri, file)
        finally:
            trouble.over.set()
            trouble.join()
        session.run(lose_between_waves, uri, cluster.folder)
        session.run(check, uri)
    assert happened(events, '"Reason":"FetchFailed"')


def lose_between_waves(uri: str, folder: Path) -> None:
    """The rows of the last parts are asked for when the files that they are in are gone, or their executor is."""
    exchange.PARTS_PER_CORE = 20
    lake = shoal.open(uri)
    for program in ORDERS:
        right = texts(lake, program, "duckdb")
        for is_kill in (False, True):
            results = iter(lake.query(program, engine="spark"))
            first = next(results)
            if is_kill:
                os.kill(executors(SparkCluster(folder, 0))[0], signal.SIGKILL)
            else:
                assert lose_shuffle_files(folder)
            assert list(map(format_value, (first, *results))) == right, program


@pytest.mark.parametrize("store", STORES)
def test_executors_and_workers_are_decommissioned(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path, store: str
) -> None:
    uri, file, events = uri_of(store, tmp_path), rows_file(tmp_path), tmp_path / "events"

    def decommission(number: int) -> None:
        if number == 1:
            cluster.workers[0].send_signal(signal.SIGPWR)
            cluster.start_worker(JAVA_TOOL_OPTIONS=DECOMMISSION)
            return
        for pid in executors(cluster)[:1]:
            os.kill(pid, signal.SIGPWR)

    with driver(cluster.master, store_of(endpoint), tmp_path, **variables(libraries, events, DECOMMISSIONS)) as process:
        session = SharedSession(process)
        session.run(prepare, uri)
        trouble = Trouble(decommission, 5.0, 4)
        trouble.start()
        try:
            session.run(work, uri, file)
        finally:
            trouble.over.set()
            trouble.join()
        session.run(check, uri)
    assert trouble.acts >= 3
    said = [path.read_text(errors="replace") for path in cluster.folder.rglob("stderr")]
    assert any("ecommission" in text for text in said)


@pytest.mark.parametrize("store", STORES)
def test_executors_come_and_go(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path, store: str
) -> None:
    uri, file, events = uri_of(store, tmp_path), rows_file(tmp_path), tmp_path / "events"
    with driver(cluster.master, store_of(endpoint), tmp_path, **variables(libraries, events, COME_AND_GO)) as process:
        session = SharedSession(process)
        session.run(prepare, uri)
        time.sleep(8)
        assert executors(cluster) == []
        session.run(work, uri, file)
        session.run(check, uri)
    assert happened(events, '"Event":"SparkListenerExecutorAdded"') >= 3
    assert happened(events, '"Event":"SparkListenerExecutorRemoved"') >= 2


@pytest.mark.parametrize("store", STORES)
def test_a_huge_task_beside_tiny_ones(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path, store: str
) -> None:
    uri, huge = uri_of(store, tmp_path), rows_file(tmp_path)
    files = [str(huge)]
    for number in range(60):
        tiny = tmp_path / f"tiny{number}.ndjson"
        tiny.write_text(f'{{"ts":{number},"level":"tiny","n":{number}}}\n')
        files.insert(number // 2, str(tiny))
    settings = variables(libraries, tmp_path / "events", {"spark.speculation": "true"})
    with driver(cluster.master, store_of(endpoint), tmp_path, **settings) as process:
        SharedSession(process).run(check_sizes, uri, files)


def check_sizes(uri: str, files: list[str]) -> None:
    """One load of files, and objects, of very different sizes."""
    prepare(uri)
    file_loads.SMALLEST = partitioning.TASK_PARTITION_SIZE = 1 << 30
    lake = shoal.open(uri)
    pool = lake.pool("rows")
    pool.load(files, engine="spark")
    for file in files[-20:]:
        pool.load(file, engine="spark")
    assert sum(1 for _ in pool.log()) == 22
    for program in (
        "from rows | count(), sum(n) by level | sort level",
        "from rows | sort n, ts, level | tail 3",
        "from rows | level == 'tiny' | join (from rows | level != 'tiny') on n=n o:=level | count() by o | sort o",
        "from rows | join (from rows | level == 'tiny' | n < 3) on level=level | count() by n | sort n",
    ):
        assert texts(lake, program, "spark") == texts(lake, program, "duckdb"), program
    before = texts(lake, "from rows | count(), sum(n)", "interp")
    pool.compact([o.id for o in pool.objects()], engine="spark")
    pool.vacuum(grace=0)
    assert texts(lake, "from rows | count(), sum(n)", "interp") == before
