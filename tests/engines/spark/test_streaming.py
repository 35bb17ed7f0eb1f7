"""Streams of Spark from and to a lake: each record once, over restarts, compactions, merges and crashes."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.conftest import Bench, SharedSession

import shoal
from shoal.api.pool import Pool
from shoal.local.lake import LocalLake


def session() -> Any:
    import shoal.spark  # noqa: PLC0415 - in a process of its own

    return shoal.spark.session()


def drain(lake: LocalLake, source: str, target: str, schema: str | None = None, **options: str) -> None:
    """Copy what is new in a pool to another one, and end."""
    reader = session().readStream.format("shoal").option("lake", lake.uri).options(**options)
    frame = (reader if schema is None else reader.schema(schema)).load(source)
    writer = frame.writeStream.format("shoal").option("lake", lake.uri)
    place = Path(lake.uri.removeprefix("file://")).parent / f"checkpoint-{target}"
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start(target)
    assert query.awaitTermination(120)


def numbers(pool: Pool) -> list[int]:
    return sorted(int(row["n"]) for row in pool.query().to_list())


def load(pool: Any, *values: int) -> str:
    return str(pool.load([{"n": value} for value in values]))


def make(root: Path, *names: str) -> tuple[LocalLake, list[Pool]]:
    lake = shoal.create(root / "lake")
    assert isinstance(lake, LocalLake)
    return lake, [lake.create(name, key="n") for name in names]


@pytest.mark.long
def test_each_record_is_read_once(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_each_record_is_read_once, tmp_path)


def check_each_record_is_read_once(root: Path) -> None:
    lake, (source, target) = make(root, "source", "target")
    choose, values, rounds = random.Random(7), iter(range(10_000)), 2
    load(source, *(next(values) for _ in range(5)), 3)
    for number in range(rounds):
        for _ in range(4):
            match choose.choice(["load", "compact", "merge"]):
                case "load":
                    load(source, *(next(values) for _ in range(choose.randrange(1, 6))))
                case "compact":
                    load(source, next(values))
                    assert list(source.compact_all())
                case _:
                    name = f"child{next(values)}"
                    child = source.create_branch(name)
                    load(child, next(values))
                    load(child, next(values))
                    list(child.compact_all())
                    source.merge(name)
        options = {"limit": "12"} if number % 2 else {}
        drain(lake, "source", "target", **options)
        assert numbers(target) == numbers(source)
    before = len(list(target.log()))
    drain(lake, "source", "target")
    assert len(list(target.log())) == before  # an empty batch makes no commit


def test_limits_and_beginnings(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_limits_and_beginnings, tmp_path)


def check_limits_and_beginnings(root: Path) -> None:
    lake, (source, all_, later, after) = make(root, "source", "all", "later", "after")
    first = load(source, 1, 2)
    load(source, 3, 4)
    load(source, 5, 6)
    drain(lake, "source", "all", limit="2")
    assert (numbers(all_), len(list(all_.log()))) == ([1, 2, 3, 4, 5, 6], 3)
    for number in (7, 8, 9):
        load(source, number)
    drain(lake, "source", "all", limit="2")
    assert (numbers(all_), len(list(all_.log()))) == ([*range(1, 10)], 5)
    drain(lake, "source", "later", **{"from": "latest"})
    assert numbers(later) == []
    drain(lake, "source", "after", **{"from": first})
    assert numbers(after) == [*range(3, 10)]


def test_deletes_stop_a_stream_or_are_passed_over(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_deletes, tmp_path)


def check_deletes(root: Path) -> None:
    lake, (source, target) = make(root, "source", "target")
    load(source, 1, 2, 3)
    drain(lake, "source", "target")
    gone = source.delete(where="n == 2")
    load(source, 4)
    with pytest.raises(Exception, match=f"commit {gone} deletes or replaces records.*deletes=ignore"):
        drain(lake, "source", "target")
    drain(lake, "source", "target", deletes="ignore")
    assert numbers(target) == [1, 2, 3, 4]
    source.revert(gone)  # the records were read before
    load(source, 5)
    drain(lake, "source", "target", deletes="ignore")
    assert (numbers(source), numbers(target)) == ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    frame = session().createDataFrame([(6,), (7,), (1,), (2,), (3,)], "n bigint")  # as many as there were
    frame.write.format("shoal").option("lake", lake.uri).mode("overwrite").save("source")
    with pytest.raises(Exception, match="deletes or replaces records"):
        drain(lake, "source", "target")
    drain(lake, "source", "target", deletes="ignore")
    assert numbers(target) == [1, 2, 3, 4, 5, 6, 7]


def test_records_that_do_not_fit_stop_a_stream(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_schemas, tmp_path)


def check_schemas(root: Path) -> None:
    lake, (source, target, chosen) = make(root, "source", "target", "chosen")
    load(source, 1)
    frame = session().readStream.format("shoal").option("lake", lake.uri).load("source")
    commit = source.load([{"n": 2, "extra": "x"}])
    place = str(root / "checkpoint-target")
    writer = frame.writeStream.format("shoal").option("lake", lake.uri).option("checkpointLocation", place)
    with pytest.raises(Exception, match=f"commit {commit} has field extra as string.*start the query again"):
        writer.trigger(availableNow=True).start("target").awaitTermination(60)
    assert numbers(target) == []
    drain(lake, "source", "target")
    assert sorted(row.get("extra") or "" for row in target.query().to_list()) == ["", "x"]
    drain(lake, "source", "chosen", schema="n bigint, later string")
    assert numbers(chosen) == [1, 2]
    assert {*chosen.query().to_list()[0]} == {"n", "later"}
    wrong = {"deletes": ("no", "not one of error"), "limit": ("0", "above 0"), "query": ("n", "no option query")}
    for name, (value, words) in wrong.items():
        with pytest.raises(Exception, match=words):
            drain(lake, "source", "chosen", **{name: value})


@pytest.mark.long
def test_other_output_modes_are_refused(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_modes, tmp_path)


def check_modes(root: Path) -> None:
    lake, (source, target) = make(root, "source", "target")
    load(source, 1)
    session().conf.set("spark.sql.shuffle.partitions", "1")
    for mode, words in (("complete", "append"), ("update", "update|Update")):
        frame = session().readStream.format("shoal").option("lake", lake.uri).load("source").groupBy("n").count()
        writer = frame.writeStream.format("shoal").option("lake", lake.uri).outputMode(mode)
        with pytest.raises(Exception, match=words):
            writer.option("checkpointLocation", str(root / mode)).trigger(availableNow=True).start(
                "target"
            ).awaitTermination(60)
    assert numbers(target) == []


def test_two_streams_into_one_pool(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_two_streams, tmp_path)


def check_two_streams(root: Path) -> None:
    lake, (one, two, target) = make(root, "one", "two", "target")
    load(one, 1, 2)
    load(two, 3, 4)
    queries = []
    for name in ("one", "two"):
        frame = session().readStream.format("shoal").option("lake", lake.uri).load(name)
        writer = frame.writeStream.format("shoal").option("lake", lake.uri)
        place = str(root / f"checkpoint-{name}")
        queries.append(writer.option("checkpointLocation", place).trigger(availableNow=True).start("target"))
    assert all(query.awaitTermination(60) for query in queries)
    assert numbers(target) == [1, 2, 3, 4]
    assert len(list(target.log())) == 2


COPY = """
import os
import signal
import time
import shoal.spark
from shoal.planner.spark_datasource import ShoalSource
from shoal.planner.spark_stream_writer import ShoalStreamWriter

class Crashing(ShoalStreamWriter):
    def __init__(self, options, overwrite):
        super().__init__(options, overwrite)
        self.options = options
    def commit(self, messages, batchId):
        if batchId == 1 and self.options["crash"] == "before":
            self.crash()
        super().commit(messages, batchId)
        if batchId == 1 and self.options["crash"] == "after":
            self.crash()
    def crash(self):
        for process in ("jvm", "driver"):
            os.kill(int(self.options[process]), signal.SIGKILL)
        time.sleep(20)

class Source(ShoalSource):
    def streamWriter(self, schema, overwrite):
        return Crashing(dict(self.options), overwrite)

spark = shoal.spark.session()
spark.dataSource.register(Source)
jvm = str(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
frame = spark.readStream.format("shoal").option("lake", os.environ["LAKE"]).option("limit", "2").load("source")
writer = frame.writeStream.format("shoal").option("lake", os.environ["LAKE"]).option("crash", os.environ["CRASH"])
writer = writer.option("jvm", jvm).option("driver", str(os.getpid())).option("checkpointLocation", os.environ["PLACE"])
writer.trigger(availableNow=True).start("target").awaitTermination()
"""


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_loses_and_doubles_nothing(moment: str, bench: Bench, tmp_path: Path) -> None:
    lake, (source, target) = make(tmp_path / "data", "source", "target")
    for number in range(0, 8, 2):
        load(source, number, number + 1)
    variables = {"LAKE": lake.uri, "PLACE": str(tmp_path / "place")}
    process = bench.start(COPY, CRASH=moment, **variables)
    process.communicate(timeout=200)
    assert process.returncode == -signal.SIGKILL
    assert len(list(target.log())) == (1 if moment == "before" else 2)
    bench.left_running(60)
    again = bench.start(COPY, CRASH="never", **variables)
    _, err = again.communicate(timeout=200)
    assert again.returncode == 0, err
    assert numbers(target) == [*range(8)]
    assert len(list(target.log())) == 4
    data = tmp_path / "data" / "lake" / target.id / "data"
    objects = {o.id for o in target.objects()}
    assert (len(objects), len({path.stem for path in data.iterdir()} - objects)) == (4, 1 if moment == "before" else 0)


def test_changes_are_told_once_over_restarts(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_changes, tmp_path)


def check_changes(root: Path) -> None:
    lake, (target,) = make(root, "target")
    source = lake.create("source", key="n", primary="n")
    load(source, 1, 2, 3)
    source.upsert([{"n": 2, "s": "b"}, {"n": 4}], message="upserted", author="ada")
    drain(lake, "source", "target", changes="true")
    assert told(target) == ["+1", "+2", "+3", "+4", "2>2b"]
    list(source.compact_all())
    source.delete(where="n == 1")
    child = source.create_branch("child")
    child.update("n >= 3", "put s := 'c'")
    list(child.compact_all())
    load(source, 9)
    source.merge("child")
    drain(lake, "source", "target", changes="true", limit="1")
    assert told(target) == ["+1", "+2", "+3", "+4", "+9", "-1", "2>2b", "3>3c", "4>4c"]
    rows = [row for row in target.query().to_list() if row["author"] == "ada"]
    assert {row["commit"] for row in rows} == {info.id for info in source.log() if info.message == "upserted"}
    before = len(list(target.log()))
    drain(lake, "source", "target", changes="true")
    assert len(list(target.log())) == before


def told(pool: Pool) -> list[str]:
    """Changes in short: `+1`, `-1`, `1>1b`."""

    def short(row: Any) -> str:
        before, after = (side and f"{side['n']}{side.get('s') or ''}" for side in (row["before"], row["after"]))
        return {"insert": f"+{after}", "delete": f"-{before}", "update": f"{before}>{after}"}[row["change"]]

    return sorted(map(short, pool.query().to_list()))
