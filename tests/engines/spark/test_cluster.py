"""A real standalone cluster: workers with an empty environment and a Python without Shoal, the lake in an S3 server."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.conftest import SharedSession
from tests.engines.spark.test_agreement_on_spark import check_programs

import shoal
from shoal.api.lake import Lake
from shoal.engines.progress import watching
from shoal.engines.spark import jobs, packing
from shoal.errors import InvalidInput, Unsupported
from shoal.testing.ports import HOST, free_port
from shoal.testing.scripts import call_shoal
from shoal.testing.spark_cluster import SHORT_LIVED, SparkCluster, bare_python, running_cluster, running_connect
from shoal.testing.tiers import IS_LONG

POOLS, QUESTIONS = (4, 20) if IS_LONG else (1, 2)
ROWS: list[dict[str, Any]] = [{"ts": i * 37 % 1000, "k": i % 7, "s": "x" * (i % 5)} for i in range(1000)]
pytestmark = pytest.mark.timeout(1_800 if IS_LONG else 600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("libraries") / "libraries.zip"
    packing.pack(target)
    return target


def store_of(endpoint: str) -> dict[str, str]:
    """The environment that reaches an S3 server."""
    return {
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


def conf_of(store: dict[str, str]) -> dict[str, str]:
    """Settings of a session: small executors, which reach the store by their own environment."""
    return {
        "spark.driver.host": HOST,
        "spark.executor.memory": "512m",
        "spark.pyspark.python": bare_python(),
        "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
        **{f"spark.executorEnv.{name}": value for name, value in store.items()},
    }


def event_log(folder: Path) -> str:
    """Settings of a session that writes what happens, as plain text, into a folder."""
    return f",spark.eventLog.enabled=true,spark.eventLog.compress=false,spark.eventLog.dir=file://{folder}"


def _set(variables: dict[str, str]) -> None:
    os.environ.update(variables)


def driver(master: str, store: dict[str, str], temporary: Path, **variables: str) -> ProcessPoolExecutor:
    """A process whose session is at a master."""
    conf = ",".join(f"{key}={value}" for key, value in conf_of(store).items())
    settings = {
        "SHOAL_SPARK_MASTER": master,
        "SHOAL_SPARK_CONF": "" if master.startswith("sc:") else conf,
        "SHOAL_CACHE": str(temporary / "cache"),
        "SHOAL_SPARK_PATIENCE": "120",
        "TMPDIR": str(temporary),
        **store,
        **variables,
    }
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _set, (settings,))


def test_everything_runs_on_a_cluster_without_shoal(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path
) -> None:
    store = store_of(endpoint)
    with driver(cluster.master, store, tmp_path, SHOAL_SPARK_LIBRARIES=str(libraries)) as process:
        SharedSession(process).run(check_everything, "s3://bucket/standalone", tmp_path)


def test_everything_runs_over_spark_connect(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path
) -> None:
    store = store_of(endpoint)
    with (
        running_connect(tmp_path / "connect", cluster.master, libraries, conf_of(store)) as url,
        driver(url, store, tmp_path) as process,
    ):
        SharedSession(process).run(check_everything, "s3://bucket/connect", tmp_path)


_TRIES = 20


def check_everything(uri: str, root: Path) -> None:
    """Queries, writes, frames and statements."""
    lake = shoal.create(uri)
    writes_are_those_of_this_process(lake, root)
    frames_go_in_and_out(lake)
    statements_are_answered(lake)
    joins_send_what_is_small(lake)
    progress_is_shown(lake)
    views_are_tables(lake)
    check_programs(lake, POOLS, QUESTIONS)


def writes_are_those_of_this_process(lake: Lake, root: Path) -> None:
    file = root / "rows.ndjson"
    file.write_text("".join(f'{{"ts":{row["ts"]},"k":{row["k"]},"s":"{row["s"]}"}}\n' for row in ROWS))
    pool = lake.create("rows", key="ts")
    pool.load(file, engine="spark")
    pool.load([{"ts": 5, "k": "text"}])
    assert lake.query("from rows | count()").to_list() == [1001]
    pool.compact([o.id for o in pool.objects()], engine="spark")
    pool.delete(where="k == 6", engine="spark")
    expected = sum(row["k"] != 6 for row in ROWS) + 1
    assert lake.query("from rows | count()", engine="spark").to_list() == [expected]
    assert [commit.message.split()[0] for commit in pool.log()][:2] == ["deleted", "compacted"]


def frames_go_in_and_out(lake: Lake) -> None:
    frame: Any = lake.query("from rows | k == 3 | cut ts, k").to_spark()
    assert sorted(map(tuple, frame.collect())) == sorted((row["ts"], 3) for row in ROWS if row["k"] == 3)
    lake.create("copy", key="ts").load(frame)
    assert lake.query("from copy | sum(ts)").to_list() == [sum(row["ts"] for row in ROWS if row["k"] == 3)]


def statements_are_answered(lake: Lake) -> None:
    statement = "select s, count(*) as n from copy join rows using (ts) where copy.k = 3 group by s order by s"
    right = lake.sql(statement, engine="duckdb").to_list()
    assert lake.sql(statement, engine="spark").to_list() == right != []


def joins_send_what_is_small(lake: Lake) -> None:
    """A limit of Spark says what is small, and the size of the files what there is; Spark itself sees few tasks."""
    spark, limit = shoal.spark.session(), "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(limit)
    for size, is_sent in (("1GB", True), ("1500b", False)):
        spark.conf.set(limit, size)
        left, right = (lake.query(f"from {pool}").to_spark() for pool in ("rows", "copy"))
        joined = left.join(right, "ts")
        with redirect_stdout(StringIO()) as explained:
            joined.explain()
        assert ("BroadcastHashJoin" in explained.getvalue()) == is_sent
        assert joined.count() == lake.sql("select count(*) as n from rows join copy using (ts)").to_list()[0]["n"]
    spark.conf.set(limit, before)


def progress_is_shown(lake: Lake) -> None:
    """Of each wave of tasks, while the next one runs."""
    seen: list[tuple[int, int]] = []
    jobs._EVERY = 0.01
    for _ in range(_TRIES):  # a wave that ends before anybody looks is never seen
        with watching(lambda done, count: seen.append((done, count))):
            assert len(lake.query("from rows | sort s, ts", engine="spark").to_list()) > len(ROWS) / 2
        assert seen[-1] == (0, 0)
        if any(0 < done <= count for done, count in seen):
            return
    raise AssertionError(seen)


def views_are_tables(lake: Lake) -> None:
    spark = shoal.spark.session()
    before = dict(spark.conf.getAll)
    assert shoal.spark.views(spark, shoal.open(lake.uri, spark=spark)) == ["copy", "rows"]
    assert spark.sql("select count(*) from copy where k = 3").collect()[0][0] == sum(row["k"] == 3 for row in ROWS)
    assert dict(spark.conf.getAll) == before


def test_what_is_missing_is_one_line(cluster: SparkCluster, endpoint: str, tmp_path: Path) -> None:
    with driver(cluster.master, store_of(endpoint), tmp_path) as process:
        SharedSession(process).run(check_refusals, tmp_path)


def check_refusals(root: Path) -> None:
    """Executors have no library."""
    lake = shoal.create(root / "lake")
    lake.create("rows", key="ts").load(ROWS)
    with pytest.raises(Unsupported, match=r"^executor \S+ \(Python 3\.\S+\) lacks .*pyarrow.* \(install it there, or"):
        lake.query("from rows | sum(ts)", engine="spark").to_list()


def test_a_wrong_master_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = shoal.create(tmp_path / "lake")
    lake.create("rows", key="ts").load(ROWS)
    for scheme in ("spark", "sc"):
        monkeypatch.setenv("SHOAL_SPARK_MASTER", f"{scheme}://{HOST}:{free_port()}")
        with pytest.raises(
            Unsupported, match=rf"^there is no Spark at {scheme}://\S+: \S+: connection refused \(check"
        ):
            lake.query("from rows | sum(ts)", engine="spark").to_list()
    monkeypatch.setenv("SHOAL_SPARK_MASTER", "spark://host:port")
    with pytest.raises(InvalidInput, match=r"^SHOAL_SPARK_MASTER: spark://host:port is not an address"):
        lake.query("from rows | sum(ts)", engine="spark").to_list()


@pytest.mark.long
def test_a_cluster_without_executors_is_one_line(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "cluster", workers=0) as empty,
        driver(empty.master, {}, tmp_path, SHOAL_SPARK_PATIENCE="8") as process,
    ):
        SharedSession(process).run(check_nobody, tmp_path)


def check_nobody(root: Path) -> None:
    """A job ends in time."""
    lake = shoal.create(root / "lake")
    lake.create("rows", key="ts").load(ROWS)
    began = time.monotonic()
    with pytest.raises(Unsupported, match=r"^no task has run within 8 s: no executor has registered \(see whether"):
        lake.query("from rows | sum(ts)", engine="spark").to_list()
    assert time.monotonic() - began < 60


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="hides a directory from a worker by a mount of its own")
def test_a_lake_that_an_executor_does_not_see_is_refused(libraries: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    with running_cluster(tmp_path / "cluster", workers=1) as mixed:
        mixed.start_worker(hidden=hidden)
        with driver(mixed.master, {}, tmp_path, SHOAL_SPARK_LIBRARIES=str(libraries)) as process:
            SharedSession(process).run(check_unseen, hidden)


def check_unseen(hidden: Path) -> None:
    """Nothing is written, and nothing is reported as lost."""
    lake = shoal.create(hidden / "lake")
    pool = lake.create("rows", key="ts")
    pool.load(ROWS)
    (hidden / "more.ndjson").write_text('{"ts":1}\n')
    message = r"^executor \S+ does not reach the lake: \S+ does not see \S+ as other processes of this job do \(let the"
    with pytest.raises(Unsupported, match=message):
        lake.query("from rows | sum(ts)", engine="spark").to_list()
    with pytest.raises(Unsupported, match=message):
        pool.load(hidden / "more.ndjson", engine="spark")
    assert lake.query("from rows | count()").to_list() == [len(ROWS)]


@pytest.mark.long
def test_the_driver_sends_credentials_that_no_log_shows(
    cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path
) -> None:
    secret = "correct-horse-battery-staple"
    store = {**store_of(endpoint), "AWS_SECRET_ACCESS_KEY": secret}
    events = tmp_path / "events"
    events.mkdir()
    kept = {"SHOAL_SPARK_CREDENTIALS": "driver", "SHOAL_SPARK_LIBRARIES": str(libraries), "SHOAL_SPARK_LOG": "INFO"}
    with driver(cluster.master, {}, tmp_path, **store, **kept) as process:
        SharedSession(process).run(check_credentials, events)
    seen = [
        path for path in (*events.rglob("*"), *cluster.folder.rglob("*")) if path.is_file() and path.suffix != ".so"
    ]
    assert any(path.is_relative_to(events) for path in seen)
    assert not [path for path in seen if secret.encode() in path.read_bytes()]


def check_credentials(events: Path) -> None:
    """Executors have no credentials of their own."""
    os.environ["SHOAL_SPARK_CONF"] += event_log(events)
    lake = shoal.create("s3://bucket/credentials")
    lake.create("rows", key="ts").load(ROWS)
    total = sum(row["ts"] for row in ROWS)
    assert lake.query("from rows | sum(ts)", engine="spark").to_list() == [total]
    assert lake.sql("select sum(ts) as n from rows", engine="spark").to_list() == [{"n": total}]


@pytest.mark.long
def test_doctor_looks_at_each_executor(cluster: SparkCluster, libraries: Path, endpoint: str, tmp_path: Path) -> None:
    with driver(cluster.master, store_of(endpoint), tmp_path, SHOAL_SPARK_LIBRARIES=str(libraries)) as process:
        status, out = SharedSession(process).run(ask_the_doctor)
    assert status == 0, out
    rows = [json.loads(line) for line in out.splitlines()]
    executors = [row["result"] for row in rows if row["check"].startswith("executor")]
    assert len(executors) == 2
    assert all("reaches the lake; " in text and "pyarrow 2" in text for text in executors)


def ask_the_doctor() -> tuple[int, str]:
    """What the command prints."""
    shoal.create("s3://bucket/doctor")
    status, out, err = call_shoal(["doctor", "-spark", "-j", "-lake", "s3://bucket/doctor"])
    return status, out.decode() + err
