"""Exactly once under fire: workers, the ETL, the sender and the broker are killed at random while transactions come in.

Two topics have the halves of sales, a third has records by themselves. What the topics have in the end, for readers of
what is committed, is the truth: the raw pool has each of these records once, the staging pool each finished sale once,
and the output topic what the staging pool has. The long tier runs for minutes, on disk and on S3 with a proxy that
fails.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

import shoal
from shoal.api.lake import Lake
from shoal.testing.kafka.broker import Broker
from shoal.testing.kafka.clients import read_all
from shoal.testing.moto_s3 import running_moto
from shoal.testing.tiers import IS_LONG

WORKERS = 4 if IS_LONG else 2
RECORDS = 200_000 if IS_LONG else 3_000
SECONDS = 300.0 if IS_LONG else 12.0
KILL_EVERY = 2.5
SEED = int(os.environ.get("SHOAL_SEED", "1"))
PARTITIONS = 4
_BLOCK = 60
"""Sales whose second halves come in the opposite order."""
CONFIG = """
kafka: {{bootstrap.servers: "{bootstrap}"}}
from-kafka:
  group: fire-{name}
  batch: {{every: 200ms, records: 5000}}
  inputs:
    - {{topics: [{name}-orders, {name}-menu, {name}-notes], pool: raw}}
etl:
  name: fire
  input: raw
  output: staging
  every: 100ms
  batch: {{records: 5000}}
  expire: {{records: 10000000, pool: expired}}
  transforms:
    - type: transaction
      where: has(value.sale)
      id: value.sale
      done: count() == 2
      zed: yield {{sale:txn, total:records[0].value.n + records[1].value.n}}
      out: {name}-sales
    - type: stateless
      in: {name}-notes
      zed: yield {{note:value.note}}
      out: {name}-sales
to-kafka:
  transactional-id: fire-{name}
  batch: {{records: 2000}}
  outputs:
    - {{pool: staging, topics: [{name}-sales]}}
"""


@dataclass
class Process:
    """A command that is started again whenever it was killed."""

    words: list[str]
    environment: dict[str, str]
    log: Path
    running: subprocess.Popen[bytes] | None = None
    kills: int = 0

    def start(self) -> None:
        command = [sys.executable, "-m", "shoal", *self.words]
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.running is not None
        assert self.running.poll() is None, f"{self.words} ended by itself: {self.log.read_text()[-2000:]}"
        self.running.kill()
        self.running.wait()
        self.kills += 1
        self.start()

    def end(self) -> None:
        """Let it end by itself."""
        assert self.running is not None
        self.running.send_signal(signal.SIGTERM)
        assert self.running.wait(60) == 0, self.log.read_text()[-2000:]


class Source(threading.Thread):
    """Sends halves of sales and notes in transactions, of which some are aborted."""

    def __init__(self, bootstrap: str, name: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self._settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
        self._topic = name
        self._seconds = seconds
        self._chance = random.Random(SEED)
        self.sent = 0

    def run(self) -> None:
        began = time.monotonic()
        while self.sent < RECORDS:
            with suppress(KafkaException):  # the broker was killed: what was in doubt is as the topics say
                self._transactions(began)

    def _transactions(self, began: float) -> None:
        producer = Producer(self._settings)
        producer.init_transactions(60)
        while self.sent < RECORDS:
            time.sleep(max(0.0, began + self._seconds * self.sent / RECORDS - time.monotonic()))
            producer.begin_transaction()
            for _ in range(25):
                self._sale(producer)
            if self._chance.random() < 0.1:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)

    def _sale(self, producer: Producer) -> None:
        number = self.sent // 3
        self.sent += 3
        # The two halves of a sale come in different transactions, in any order.
        other = number - number % _BLOCK + _BLOCK - 1 - number % _BLOCK
        for topic, value in (
            ("orders", {"sale": number, "n": 1}),
            ("menu", {"sale": other, "n": 10}),
            ("notes", {"note": number}),
        ):
            partition = self._chance.randrange(PARTITIONS)
            producer.produce(f"{self._topic}-{topic}", json.dumps(value), str(number), partition=partition)


def under_fire(broker: Broker, name: str, uri: str, root: Path, environment: dict[str, str]) -> Counter[str]:
    """Run all parts while they are killed, then until nothing is left to do; how often each was killed."""
    for topic in ("orders", "menu", "notes", "sales"):
        broker.create_topic(f"{name}-{topic}", PARTITIONS)
    config = root / "fire.yaml"
    config.write_text(CONFIG.format(bootstrap=broker.bootstrap, name=name))
    names = ["sync from-kafka"] * WORKERS + ["etl", "sync to-kafka"]
    environment = {**environment, "SHOAL_LAKE": uri}
    parts = [
        Process([*each.split(), "-config", str(config)], environment, root / f"{number}.log")
        for number, each in enumerate(names)
    ]
    chance, source = random.Random(SEED), Source(broker.bootstrap, name, SECONDS)
    kills: Counter[str] = Counter()
    for part in parts:
        part.start()
    source.start()
    try:
        began = time.monotonic()
        while time.monotonic() - began < SECONDS:
            time.sleep(KILL_EVERY * chance.random())
            if chance.random() < 0.1:
                broker.kill()
                broker.restart()
                kills["broker"] += 1
            else:
                chance.choice(parts).kill()
        source.join(300)
        assert not source.is_alive()
        wait_until_done(broker, name, uri)
        for part in parts:
            part.end()
            kills[part.words[-3]] += part.kills
    finally:
        for part in parts:
            if part.running is not None and part.running.poll() is None:
                part.running.kill()
                part.running.wait()
    return kills


def wait_until_done(broker: Broker, name: str, uri: str) -> None:
    """Until the output topic has all that it is to have."""
    lake = shoal.open(uri)
    expected, until = len(sales_of(broker, name)), time.monotonic() + 300
    while len(read_all(broker.bootstrap, f"{name}-sales")) < expected:
        assert time.monotonic() < until, describe(lake, broker, name, expected)
        time.sleep(1)


def describe(lake: Lake, broker: Broker, name: str, expected: int) -> str:
    counts = {pool: lake.query(f"from {pool} | count()").to_list() for pool in ("raw", "staging", "expired")}
    return f"{counts}, {len(read_all(broker.bootstrap, f'{name}-sales'))} sent of {expected}"


def sales_of(broker: Broker, name: str) -> list[str]:
    """What has to come out: finished sales and notes, by what the topics have."""
    halves: Counter[int] = Counter()
    for topic in ("orders", "menu"):
        for record in read_all(broker.bootstrap, f"{name}-{topic}"):
            halves[json.loads(record.value or b"")["sale"]] += 1
    notes = [json.loads(record.value or b"")["note"] for record in read_all(broker.bootstrap, f"{name}-notes")]
    return [f"note {note}" for note in notes] + [f"sale {sale}" for sale, count in halves.items() if count == 2]


def check(broker: Broker, name: str, lake: Lake) -> None:
    """Everything is there once: in the raw pool, in the staging pool and in the output topic."""
    committed = Counter(
        (f"{name}-{topic}", r.partition, r.offset)
        for topic in ("orders", "menu", "notes")
        for r in read_all(broker.bootstrap, f"{name}-{topic}")
    )
    raw = lake.query("from raw | sort seqno | yield [seqno, kafka.topic, kafka.partition, kafka.offset]").to_list()
    assert [row[0] for row in raw] == list(range(1, len(raw) + 1))
    assert Counter(tuple(row[1:]) for row in raw) == committed
    staged = [
        row
        for row in lake.query("from staging | has(kafka.topic) | sort kafka.offset").to_list()
        if row["kafka"]["topic"] == f"{name}-sales"
    ]
    assert [row["kafka"]["offset"] for row in staged] == list(range(1, len(staged) + 1))
    assert Counter(_named(row["value"]) for row in staged) == Counter(sales_of(broker, name))
    sent = [json.loads(record.value or b"") for record in read_all(broker.bootstrap, f"{name}-sales")]
    assert Counter(map(_named, sent)) == Counter(_named(row["value"]) for row in staged)


def _named(value: dict[str, int]) -> str:
    return f"note {value['note']}" if "note" in value else f"sale {value['sale']}"


def create_pools(uri: str) -> Lake:
    lake = shoal.create(uri)
    lake.create("raw", key="seqno")
    lake.create("staging", key="seqno", order="desc")
    lake.create("expired", key="seqno", order="desc")
    return lake


@pytest.mark.timeout(1800 if IS_LONG else 240)
def test_each_record_goes_through_once_whoever_is_killed(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    uri, name = str(tmp_path / "lake"), topic_name[-60:].strip("-_.")
    lake = create_pools(uri)
    kills = under_fire(broker, name, uri, tmp_path, dict(os.environ))
    print(f"{dict(kills)} kills in {SECONDS:.0f} s (SHOAL_SEED={SEED})")
    check(broker, name, lake)


@contextmanager
def failing_proxy(endpoint: str, root: Path) -> Iterator[str]:
    """A proxy before an S3 server, which fails at random; its endpoint."""
    command = [sys.executable, "-m", "tools.storm.proxy", endpoint, str(root), str(SEED), "1.0"]
    with subprocess.Popen(command) as proxy:
        try:
            until = time.monotonic() + 60
            while not (root / "proxy.json").exists():
                assert time.monotonic() < until, "the proxy does not start"
                time.sleep(0.05)
            yield f"http://127.0.0.1:{json.loads((root / 'proxy.json').read_text())['port']}"
        finally:
            proxy.terminate()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_each_record_goes_through_once_on_a_bucket_that_fails(
    broker: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in [n for n in os.environ if n.startswith("AWS_") or n.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)
    for variable, text in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{variable}", text)
    uri, name = "s3://bucket/lake", topic_name[-60:].strip("-_.")
    with running_moto() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        lake = create_pools(uri)
        with failing_proxy(endpoint, tmp_path) as failing:
            environment = {**os.environ, "AWS_ENDPOINT_URL_S3": failing}
            kills = under_fire(broker, name, uri, tmp_path, environment)
        print(f"{dict(kills)} kills in {SECONDS:.0f} s (SHOAL_SEED={SEED})")
        check(broker, name, lake)
