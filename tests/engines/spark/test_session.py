"""Sessions: silent, configured, gone with their process, and one line if they do not start."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from tests.engines.spark.conftest import CONF, Bench

from shoal.engines.spark.installation import find_java, spark_jars
from shoal.engines.spark.session import spark_session
from shoal.errors import InvalidInput, ShoalError, Unsupported
from shoal.testing.tiers import IS_LONG


def test_a_session_is_silent_and_leaves_nothing_behind(bench: Bench) -> None:
    told = bench.run(
        """
        import os, sys
        import time
        from threading import Thread
        from shoal.engines.spark.session import spark_session

        session = spark_session()
        print(session.sql("select 1").collect()[0][0])
        for key in ("session.timeZone", "caseSensitive", "shuffle.partitions"):
            print(session.conf.get(f"spark.sql.{key}"))

        import pyarrow as pa
        rows = session.createDataFrame(pa.table({"id": [1, 2, 3]})).mapInArrow(lambda batches: batches, "id bigint")
        print(rows.toArrow().num_rows, session.sparkContext.pythonExec == sys.executable)
        try:
            session.sql("select raise_error('a job failed')").collect()
        except Exception as e:
            print("a job failed" in str(e))

        from signal import SIGINT
        def interrupt():
            while not session.sparkContext.statusTracker().getActiveJobsIds():
                time.sleep(0.1)  # what has not begun cannot be cancelled
            os.kill(os.getpid(), SIGINT)

        interrupted = []
        for _ in range(6):
            Thread(target=interrupt).start()
            try:
                session.range(10**14).selectExpr("sum(id % 7)").collect()
            except KeyboardInterrupt:
                interrupted.append(session.range(5).count())
        print(*interrupted)

        found = []
        thread = Thread(target=lambda: found.append(spark_session()))
        thread.start()
        thread.join()
        print(spark_session() is session, found == [session], "PYSPARK_GATEWAY_PORT" in os.environ)

        session.stop()
        again = spark_session()
        print(again is session, again.range(5).count())
        """,
        SHOAL_SPARK_MASTER="local[2]",
        SHOAL_SPARK_CONF=f"{CONF},spark.sql.shuffle.partitions=5,spark.jars.excludes=a:b,c:d",
    )
    assert told == ["1", "UTC", "true", "5", "3 True", "True", "5 5 5 5 5 5", "True True False", "False 5"]
    assert bench.left_running() == []
    assert list(bench.temporary.iterdir()) == list(bench.standing.iterdir()) == list(bench.cache.iterdir()) == []


@pytest.mark.long
def test_the_jvm_ends_when_python_is_killed(bench: Bench) -> None:
    process = bench.start(
        """
        import time
        from shoal.engines.spark.session import spark_session
        print(spark_session().sparkContext.master, flush=True)
        time.sleep(240)
        """
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "local[*]\n"
        assert any("SparkSubmit" in command for command in bench.running())
        process.kill()
    assert bench.left_running() == []
    assert list(bench.temporary.iterdir()) == []


def test_a_jvm_that_was_killed_is_replaced(bench: Bench) -> None:
    lines = bench.run(
        """
        from shoal.engines.spark.session import spark_session
        jvm = spark_session().sparkContext._gateway.proc
        jvm.kill()
        jvm.wait()
        print(spark_session().range(3).count())
        """
    )
    assert lines == ["3"]
    assert list(bench.temporary.iterdir()) == []


@pytest.mark.long
def test_the_end_of_a_jvm_that_others_started_is_one_line(bench: Bench) -> None:
    process = bench.start(
        """
        from pyspark.sql import SparkSession
        from shoal.engines.spark.session import spark_session
        from shoal.errors import Unsupported
        jvm = SparkSession.builder.master("local[1]").getOrCreate().sparkContext._gateway.proc
        jvm.kill()
        jvm.wait()
        try:
            spark_session()
        except Unsupported as e:
            print(e)
        """,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    line, _ = process.communicate(timeout=240)
    assert line == "the JVM of Spark has ended, and with it the session (start this process again)\n"


@pytest.mark.long
def test_a_session_that_is_there_is_used_as_it_is(bench: Bench) -> None:
    told = bench.start(
        """
        from pyspark.sql import SparkSession
        session = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "CET").getOrCreate()
        from shoal.engines.spark.session import spark_session
        print(spark_session() is session, session.conf.get("spark.sql.session.timeZone"))
        """
    ).communicate(timeout=240)[0]
    assert told == "True CET\n"
    assert bench.left_running() == []


def test_a_wrong_master_is_one_line(bench: Bench) -> None:
    (line,) = bench.run(
        """
        from shoal.engines.spark.session import spark_session
        from shoal.errors import Unsupported
        try:
            spark_session()
        except Unsupported as e:
            print(e)
        """,
        SHOAL_SPARK_MASTER="nowhere",
    )
    what = "Spark does not start at nowhere: Master must either be yarn or start with spark, k8s, or local"
    assert line == f"{what} (check SHOAL_SPARK_MASTER and SHOAL_SPARK_CONF; SHOAL_SPARK_LOG=INFO shows Spark's log)"
    assert list(bench.temporary.iterdir()) == []


@pytest.mark.parametrize(
    "variables, error, message",
    [
        ({"SHOAL_SPARK_CONF": "b"}, InvalidInput, "SHOAL_SPARK_CONF: 'b' is not a setting (write spark.key=value"),
        ({"SHOAL_SPARK_LOG": "loud"}, InvalidInput, "SHOAL_SPARK_LOG: LOUD is not a log level (one of OFF, "),
        ({"PATH": "", "JAVA_HOME": ""}, Unsupported, "Spark needs Java, and there is none (install Java 17 "),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    variables: dict[str, str],
    error: type[ShoalError],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(error) as raised:
        spark_session()
    assert str(raised.value).startswith(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="starts a JVM for each executor")
def test_executors_of_a_local_cluster_write_into_no_place_of_ours(bench: Bench) -> None:
    before = [len(spark_jars()), sorted(spark_jars()[0].parent.parent.iterdir())]
    told = bench.run(
        """
        import os
        from shoal.engines.spark.session import spark_session
        numbers = spark_session().sparkContext.parallelize(range(4), 4)
        print(*sorted(set(numbers.map(lambda _: os.getcwd()).collect())), sep="\\n")
        """,
        SHOAL_SPARK_MASTER="local-cluster[2,1,1024]",
    )
    assert all(place.startswith(str(bench.temporary)) for place in told)
    assert bench.left_running() == []
    assert list(bench.temporary.iterdir()) == list(bench.standing.iterdir()) == []
    assert [len(spark_jars()), sorted(spark_jars()[0].parent.parent.iterdir())] == before


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="starts three JVMs")
def test_scripts_of_spark_start_it_if_it_does_not_start_directly(bench: Bench) -> None:
    java = bench.cache / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f'  *launcher.Main* | *jdk.incubator.vector* | -version) exec {find_java()} "$@" ;;\n'
        f"  *) touch {bench.cache}/refused; exit 1 ;;\n"
        "esac\n"
    )
    java.chmod(0o755)
    told = bench.run(
        """
        from shoal.engines.spark.session import spark_session
        print(spark_session().range(3).count())
        """,
        JAVA_HOME=str(java.parent.parent),
    )
    assert told == ["3"]
    assert (bench.cache / "refused").exists()
    assert bench.left_running() == []
    assert list(bench.temporary.iterdir()) == list(bench.standing.iterdir()) == []
