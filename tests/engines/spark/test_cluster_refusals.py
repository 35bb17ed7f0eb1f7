"""What is wrong with a real cluster is one line, soon, and the same process goes on once it is mended."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.engines.spark.conftest import SharedSession
from tests.engines.spark.test_cluster import ROWS, driver, store_of

import shoal
from shoal.engines.spark import packing
from shoal.errors import Unsupported
from shoal.testing.spark_cluster import SparkCluster, bare_python, running_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
IN_TIME = 60.0
"""Seconds to the line, with the start of the session; it takes less than 20 on a machine that does nothing else."""
OLD_JAVA = """#!/bin/sh
echo 'java.lang.UnsupportedClassVersionError: org/apache/spark/executor/CoarseGrainedExecutorBackend' >&2
exit 1
"""
"""Does what a Java before 17 does with the classes of Spark."""
NO_EXECUTOR = r"executors end when they start: .*{} \(see whether the workers have Java 17 or newer; what an executor"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("libraries") / "libraries.zip"
    packing.pack(target)
    return target


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.mark.parametrize(("text", "why"), [(None, "Cannot run program .*"), (OLD_JAVA, "Command exited with code 1")])
def test_workers_without_a_java_that_runs_spark(
    libraries: Path, endpoint: str, tmp_path: Path, text: str | None, why: str
) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    if text is not None:
        java.write_text(text)
        java.chmod(0o755)
    uri, store = f"s3://bucket/java-{time.time_ns()}", store_of(endpoint)
    with (
        running_cluster(tmp_path / "cluster", workers=0) as running,
        driver(running.master, store, tmp_path, SHOAL_SPARK_LIBRARIES=str(libraries)) as process,
    ):
        session = SharedSession(process)
        session.run(new_lake, uri)
        for _ in range(2):
            running.start_worker(JAVA_HOME=str(java.parent.parent))
        session.run(check_refusal, uri, NO_EXECUTOR.format(why), 3)
        running.stop()
        running.start_worker()
        session.run(check_answer, uri)


def new_lake(uri: str) -> None:
    """A lake with some rows."""
    shoal.create(uri).create("rows", key="ts").load(ROWS)


def check_refusal(uri: str, message: str, times: int = 1) -> None:
    """Every time, and soon."""
    lake = shoal.open(uri)
    for _ in range(times):
        began = time.monotonic()
        with pytest.raises(Unsupported) as raised:
            lake.query("from rows | sum(ts)", engine="spark").to_list()
        assert re.search(message, str(raised.value)), raised.value
        assert "\n" not in str(raised.value)
        assert time.monotonic() - began < IN_TIME


def check_answer(uri: str) -> None:
    """Tasks give it."""
    total = sum(row["ts"] for row in ROWS)
    assert shoal.open(uri).query("from rows | sum(ts)", engine="spark").to_list() == [total]


def other_python() -> str:
    """A Python of another version."""
    places = [*Path.home().glob(".pyenv/versions/*/bin"), *map(Path, os.environ["PATH"].split(os.pathsep))]
    own = _version(bare_python())
    for python in sorted({python for place in places for python in place.glob("python3.1[0-9]")}):
        if _version(str(python)) not in ("", own):
            return str(python)
    pytest.skip("there is no Python of another version here")


def _version(python: str) -> str:
    script = "import sys; print(*sys.version_info[:2], sep='.')"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False, env={"PATH": "/bin"})
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (other_python, r"^executors have Python 3\.\d+, and the driver 3\.\d+ \(let spark.pyspark.python name"),
        (lambda: "python-of-nobody", "^executors have no Python called python-of-nobody "),
        (lambda: shutil.which("false"), r"^the Python of executors runs no tasks of Spark \(let spark.pyspark.python"),
    ],
)
def test_a_wrong_python(cluster: SparkCluster, tmp_path: Path, python: Callable[[], str], message: str) -> None:
    with driver(cluster.master, {}, tmp_path) as process:
        SharedSession(process).run(with_python, python(), str(tmp_path / "lake"), message)


def with_python(python: str, uri: str, message: str) -> None:
    """The configuration names another Python."""
    conf = os.environ["SHOAL_SPARK_CONF"]
    os.environ["SHOAL_SPARK_CONF"] = f"{conf},spark.pyspark.python={python}"
    new_lake(uri)
    check_refusal(uri, message)


def test_a_cluster_that_others_keep_busy(cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path) -> None:
    (first, second), store = (tmp_path / "first", tmp_path / "second"), store_of(endpoint)
    uri = f"s3://bucket/busy-{time.time_ns()}"
    settings = {"SHOAL_SPARK_LIBRARIES": str(libraries)}
    message = "^no task has run within 8 s: no executor has registered "
    with driver(cluster.master, store, second, SHOAL_SPARK_PATIENCE="8", **settings) as waiting:
        with driver(cluster.master, store, first, **settings) as busy:
            SharedSession(busy).run(load_and_ask, uri)
            SharedSession(waiting).run(check_refusal, uri, message)
        SharedSession(waiting).run(answer_at_last, uri)


def answer_at_last(uri: str) -> None:
    """Ask until executors have started: on a busy machine that takes longer than the session is told to wait."""
    for _ in range(10):
        with suppress(Unsupported):
            check_answer(uri)
            return
    check_answer(uri)


def load_and_ask(uri: str) -> None:
    """Take all cores, and keep them."""
    new_lake(uri)
    check_answer(uri)


def test_a_store_that_executors_do_not_reach(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path
) -> None:
    """The driver has credentials, and executors have none."""
    store = store_of(endpoint)
    with driver(cluster.master, {}, tmp_path, SHOAL_SPARK_LIBRARIES=str(libraries), **store) as process:
        uri = f"s3://bucket/unseen-{time.time_ns()}"
        SharedSession(process).run(new_lake, uri)
        SharedSession(process).run(check_refusal, uri, r"^executor \S+ does not reach the lake: ")
