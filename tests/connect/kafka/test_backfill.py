"""Backfills give what a worker in one process gives: each record once, with dense numbers, whatever happens meanwhile.

Most tests run tasks in this process, where they can be looked at; those with Spark are in processes of their own.
"""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

import shoal
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.connect.kafka import range_tasks, targets
from shoal.connect.kafka.backfill import Backfill
from shoal.connect.kafka.config import RegistrySettings, parse_from_kafka
from shoal.connect.kafka.connection import Connection
from shoal.connect.kafka.decoders import open_decoder
from shoal.connect.kafka.events import Event
from shoal.connect.kafka.from_kafka import Worker
from shoal.connect.kafka.positions import read_positions
from shoal.connect.kafka.range_tasks import RangeWrite
from shoal.connect.kafka.registry import Registry
from shoal.connect.settings import Section
from shoal.errors import InvalidInput, StorageFailure, Unsupported
from shoal.lake.workers import HERE, Workers
from shoal.local.loads import commit_written
from shoal.model.text import format_value
from shoal.planner import engine_choice
from shoal.planner.engine_choice import Thresholds
from shoal.testing.kafka.broker import Broker
from shoal.testing.kafka.clients import Record, produce, produce_transaction, read_all
from shoal.testing.schema_registry import SchemaRegistry, serving_registry

pytestmark = pytest.mark.timeout(240)
SPARK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
AVRO = {"type": "record", "name": "order", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = shoal.create(tmp_path / "lake")
    lake.create("raw", key="seqno")
    return lake


@pytest.fixture
def raw(lake: Lake) -> Pool:
    return lake.pool("raw")


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with serving_registry() as registry:
        yield registry


class Sync:
    """A worker that begins with a backfill, and what it has told."""

    def __init__(
        self,
        lake: Lake,
        broker: Broker,
        topics: str | list[str],
        by: Workers | None = HERE,
        length: int = 7,
        engine: str = "spark",
        registry: RegistrySettings | None = None,
        source: dict[str, str] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.events: list[Event] = []
        inputs = [{"topics": topics, "pool": "raw", **(source or {})}]
        plan = parse_from_kafka(Section("test", {"from-kafka": {"inputs": inputs, **(settings or {})}}))
        kafka = Connection({"bootstrap.servers": broker.bootstrap})
        work = Backfill(kafka, plan, registry, self.events.append, engine=engine, by=by, length=length)
        schemas = None if registry is None else Registry(registry.url)
        self._worker = Worker(
            lake,
            kafka,
            plan,
            lambda name: open_decoder(name, schemas),
            self.events.append,
            share=(0, 1),
            backfill=work.run if engine != "none" else None,
        )

    def run(self) -> Sync:
        """Read to the ends."""
        until = time.monotonic() + 60
        self._worker.run(lambda: time.monotonic() > until, once=True)
        return self

    def facts(self, kind: str) -> list[Any]:
        return [event.facts for event in self.events if event.kind == kind]


def doing(act: Callable[[Any], None], when: Callable[[Any], bool] = lambda payload: True) -> Workers:
    """Tasks in this process; something is done once before one of them."""
    left = [act]

    def run(work: Callable[[Any], Iterable[Any]], payloads: Sequence[Any]) -> Generator[Any, None, None]:
        for payload in payloads:
            if left and when(payload):
                left.pop()(payload)
            yield from work(payload)

    return Workers(run, HERE.shuffle, 4)


def is_write(payload: Any) -> bool:
    return isinstance(payload, RangeWrite)


def numbered(count: int, start: int = 0, partition: int = 0) -> list[Record]:
    return [
        Record(json.dumps({"n": n, "s": "x" * (n % 7)}).encode(), b"k%d" % n, (("h", b"1"),), partition=partition)
        for n in range(start, start + count)
    ]


def rows(pool: Pool) -> list[str]:
    """All records but for their numbers."""
    return sorted(format_value(each) for each in pool.query("drop seqno"))


def require_once(raw: Pool, broker: Broker, *topics: str) -> None:
    """Each committed record is in the pool once, with dense numbers and rising offsets."""
    there = [
        tuple(row.values())
        for row in raw.query("sort seqno | cut kafka.topic,kafka.partition,kafka.offset | yield kafka").to_list()
    ]
    expected = [(topic, r.partition, r.offset) for topic in topics for r in read_all(broker.bootstrap, topic)]
    assert sorted(there) == sorted(expected)
    assert [value.data for value in raw.query("sort seqno | yield seqno")] == list(range(1, len(there) + 1))
    for place in {each[:2] for each in there}:
        offsets = [each[2] for each in there if each[:2] == place]
        assert offsets == sorted(offsets)
    assert read_positions(raw).positions.seqno == len(there) + 1


def fill_topic(broker: Broker, topic: str, partitions: int, count: int) -> None:
    """Plain records, committed transactions and aborted ones, the last of them at the end of a partition."""
    broker.create_topic(topic, partitions)
    for start in range(0, 3 * count, count):
        produce(broker.bootstrap, topic, [r for p in range(partitions) for r in numbered(count, start, p)])
        for commit in (True, False):
            some = {topic: [r for p in range(partitions) for r in numbered(count // 2, start, p)]}
            produce_transaction(broker.bootstrap, some, commit=commit)
    produce(broker.bootstrap, topic, [Record(b"not JSON", b"\xff", partition=0), Record(None, b"k", partition=0)])
    produce_transaction(broker.bootstrap, {topic: numbered(count, 0, partitions - 1)}, commit=False)


def test_a_backfill_gives_what_a_worker_gives(lake: Lake, raw: Pool, broker: Broker, topic_name: str) -> None:
    fill_topic(broker, topic_name, 3, 8)
    told = Sync(lake, broker, topic_name, replace(HERE, count=4), length=18).run()
    require_once(raw, broker, topic_name)
    assert len(told.facts("commit")) == len(list(raw.log())) > 2
    other = shoal.create("memory://")
    other.create("raw", key="seqno")
    Sync(other, broker, topic_name, engine="none").run()
    assert rows(raw) == rows(other.pool("raw"))
    assert read_positions(raw).positions.bad == read_positions(other.pool("raw")).positions.bad == 1


def test_avro_is_decoded_by_tasks(lake: Lake, raw: Pool, broker: Broker, topic: str, registry: SchemaRegistry) -> None:
    ident = registry.add(AVRO)
    values = []
    for n in range(20):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, AVRO, {"n": n, "s": f"text {n}"})
        values.append(struct.pack(">bI", 0, ident) + body.getvalue())
    produce(broker.bootstrap, topic, values)
    told = Sync(lake, broker, topic, registry=RegistrySettings(registry.url), source={"value": "avro"}).run()
    assert raw.query("sort seqno | yield value").to_list() == [{"n": n, "s": f"text {n}"} for n in range(20)]
    assert [facts["bad"] for facts in told.facts("commit")] == [0] * 3


def test_a_writer_that_is_first_makes_a_wave_be_read_again(
    lake: Lake, raw: Pool, broker: Broker, topic_name: str
) -> None:
    other = f"{topic_name}-other"
    for name in (topic_name, other):
        broker.create_topic(name, 2)
        produce(broker.bootstrap, name, [r for p in range(2) for r in numbered(20, 0, p)])

    def read_other(payload: Any) -> None:
        Sync(lake, broker, other, engine="none").run()

    told = Sync(lake, broker, topic_name, doing(read_other, is_write), length=5).run()
    require_once(raw, broker, other, topic_name)
    assert raw.query("sort seqno | head 1 | yield kafka.topic").to_list() == [other]
    assert not told.facts("warning")


def test_a_live_worker_beside_a_backfill_does_no_harm(lake: Lake, raw: Pool, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 2)
    produce(broker.bootstrap, topic_name, [r for p in range(2) for r in numbered(20, 0, p)])

    def others(payload: Any) -> None:
        produce(broker.bootstrap, topic_name, numbered(1))
        Sync(lake, broker, topic_name, engine="none").run()

    every = Workers(always(others), HERE.shuffle, 2)
    told = Sync(lake, broker, topic_name, every, length=5).run()
    require_once(raw, broker, topic_name)
    assert len(told.facts("backfill")) == 1


def always(act: Callable[[Any], None]) -> Any:
    """Tasks in this process; something is done before each of them that writes."""

    def run(work: Callable[[Any], Iterable[Any]], payloads: Sequence[Any]) -> Generator[Any, None, None]:
        for payload in payloads:
            if is_write(payload):
                act(payload)
            yield from work(payload)

    return run


def test_a_backfill_that_is_never_first_gives_up(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    produce(broker.bootstrap, topic, numbered(20))

    def load(payload: Any) -> None:
        raw.load([{"seqno": 0}])

    told = Sync(lake, broker, topic, Workers(always(load), HERE.shuffle, 2)).run()
    (warning,) = told.facts("warning")
    assert warning["error"].startswith("the backfill gave up after 3 attempts: ")
    assert "\n" not in warning["error"]
    assert raw.query("seqno > 0 | count()").to_list() == [20]


def test_records_that_are_deleted_after_they_were_counted(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    produce(broker.bootstrap, topic, numbered(20))
    by = doing(lambda payload: broker.delete_records(topic, {0: 9}), is_write)
    Sync(lake, broker, topic, by, settings={"on-loss": "skip"}).run()
    require_once(raw, broker, topic)
    assert raw.query("count()").to_list() == [11]


def test_a_topic_of_aborted_transactions_alone(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    for start in range(0, 40, 10):
        produce_transaction(broker.bootstrap, {topic: numbered(10, start)}, commit=False)
    Sync(lake, broker, topic).run()
    assert raw.resolve() is None
    produce(broker.bootstrap, topic, numbered(3))
    Sync(lake, broker, topic, length=5).run()
    require_once(raw, broker, topic)
    assert read_positions(raw).positions.topic(topic).next == (47,)


def test_partitions_of_later_waves_begin_where_they_were_to(
    lake: Lake, raw: Pool, broker: Broker, topic_name: str
) -> None:
    broker.create_topic(topic_name, 3)
    produce(broker.bootstrap, topic_name, [r for p in range(3) for r in numbered(10, 0, p)])
    source = {"from": ",".join(f"{topic_name}:{p}={begin}" for p, begin in enumerate((4, 6, 10)))}
    for _ in range(2):
        Sync(lake, broker, topic_name, HERE, length=3, source=source).run()
    assert raw.query("count() by p:=kafka.partition | sort p").to_list() == [{"p": 0, "count": 6}, {"p": 1, "count": 4}]
    assert read_positions(raw).positions.topic(topic_name).next == (10, 10, 10)


def test_too_many_bad_records_leave_nothing(lake: Lake, raw: Pool, broker: Broker, topic: str, tmp_path: Path) -> None:
    produce(broker.bootstrap, topic, [b"1", b"x", b"2", b"y", b"z", *(b"%d" % n for n in range(9))])
    with pytest.raises(InvalidInput, match=r"3 records could not be decoded, and -max-bad is 2.*at offset 1 "):
        Sync(lake, broker, topic, settings={"max-bad": 2}).run()
    assert raw.resolve() is None
    assert not list(tmp_path.rglob("data/*"))


def test_a_task_that_fails_is_repeated(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    produce(broker.bootstrap, topic, numbered(20))

    def fail(payload: Any) -> None:
        list(range_tasks.write_range(payload))  # an attempt whose answer is lost
        raise StorageFailure("the executor is gone")

    told = Sync(lake, broker, topic, doing(fail, lambda payload: is_write(payload) and payload.first > 1)).run()
    require_once(raw, broker, topic)
    assert [facts["for"] for facts in told.facts("waiting")] == ["the cluster"]


@pytest.mark.parametrize("patience", [-1.0, 30.0])
def test_a_commit_whose_answer_is_lost_is_made_once(
    lake: Lake, raw: Pool, broker: Broker, topic: str, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(broker.bootstrap, topic, numbered(20))
    lost = [True]

    def commit_and_lose(*args: Any) -> str:
        ident = commit_written(*args)
        if lost:
            lost.pop()
            raise StorageFailure("no answer")
        return ident

    monkeypatch.setattr("shoal.connect.kafka.backfill.commit_written", commit_and_lose)
    monkeypatch.setattr(targets, "_PATIENCE", patience)
    Sync(lake, broker, topic).run()
    require_once(raw, broker, topic)
    assert len(list(raw.log())) == 3


def test_few_missing_records_are_read_by_the_worker(
    lake: Lake, raw: Pool, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(broker.bootstrap, topic, numbered(20))
    assert not Sync(lake, broker, topic, engine="interp").run().facts("backfill")
    produce(broker.bootstrap, topic, numbered(20))
    monkeypatch.setattr(engine_choice, "THRESHOLDS", Thresholds(many_records=20))
    (told,) = Sync(lake, broker, topic, engine="auto").run().facts("backfill")
    assert (told["missing"], told["ranges"]) == (20, 3)
    produce(broker.bootstrap, topic, numbered(19))
    assert not Sync(lake, broker, topic, engine="auto").run().facts("backfill")
    require_once(raw, broker, topic)


def test_a_lake_that_tasks_do_not_reach_is_refused(broker: Broker, topic: str) -> None:
    memory = shoal.create("memory://")
    memory.create("raw", key="seqno")
    produce(broker.bootstrap, topic, numbered(3))
    with pytest.raises(Unsupported, match="a lake in memory cannot be reached by other processes"):
        Sync(memory, broker, topic, by=None).run()
    Sync(memory, broker, topic, by=None, engine="auto").run()
    assert memory.pool("raw").query("count()").to_list() == [3]


def test_an_executor_without_the_client_is_named(
    lake: Lake, raw: Pool, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(broker.bootstrap, topic, numbered(3))
    monkeypatch.setattr(range_tasks, "LIBRARY", "confluent_kafka_that_is_not_there")
    with pytest.raises(Unsupported, match=r"executor .* lacks confluent_kafka.*shoal spark pack") as caught:
        Sync(lake, broker, topic).run()
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(engine_choice, "THRESHOLDS", Thresholds(many_records=1))
    assert len(Sync(lake, broker, topic, engine="auto").run().facts("warning")) == 1
    require_once(raw, broker, topic)


# ---- with Spark


def sync(lake: Lake, broker: Broker, topic: str, *flags: str) -> str:
    """What the command says, in a process of its own."""
    words = ["sync", "-lake", lake.uri, "-brokers", broker.bootstrap, "-topic", topic, "-pool", "raw", "-once"]
    command = [sys.executable, "-m", "shoal", *words, *flags, "from-kafka"]
    variables = {**os.environ, "SHOAL_SPARK_CONF": SPARK}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_tasks_of_spark_read_a_topic(lake: Lake, raw: Pool, broker: Broker, topic_name: str) -> None:
    fill_topic(broker, topic_name, 2, 8)
    assert "missing records by Spark" in sync(lake, broker, topic_name, "-engine", "spark")
    require_once(raw, broker, topic_name)


@pytest.mark.long
def test_workers_and_backfills_of_several_processes(lake: Lake, raw: Pool, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 4)
    produce(broker.bootstrap, topic_name, [r for p in range(4) for r in numbered(5000, 0, p)])
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.05):
            produce(broker.bootstrap, topic_name, numbered(5, 0, 1))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with ThreadPoolExecutor(3) as threads:
            engines = ("spark", "spark", "interp")
            list(threads.map(lambda engine: sync(lake, broker, topic_name, "-engine", engine), engines))
    finally:
        over.set()
        thread.join()
    sync(lake, broker, topic_name)
    require_once(raw, broker, topic_name)


@pytest.mark.long
def test_a_backfill_that_is_killed_goes_on_where_it_was(lake: Lake, raw: Pool, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 2)
    produce(broker.bootstrap, topic_name, [r for p in range(2) for r in numbered(20_000, 0, p)])
    words = ["sync", "-lake", lake.uri, "-brokers", broker.bootstrap, "-topic", topic_name, "-pool", "raw", "-once"]
    code = "from shoal.connect.kafka import backfill; backfill.LENGTH = 500; from shoal.__main__ import run; run()"
    for seconds in (12, 16, 20):
        command = [sys.executable, "-c", code, *words, "-engine", "spark", "from-kafka"]
        process = subprocess.Popen(
            command, env={**os.environ, "SHOAL_SPARK_CONF": SPARK}, start_new_session=True, stderr=subprocess.DEVNULL
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    sync(lake, broker, topic_name)
    require_once(raw, broker, topic_name)
