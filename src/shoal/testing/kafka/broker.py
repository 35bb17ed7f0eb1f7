"""A real broker of Kafka: one process in KRaft mode, with settings that make it quick.

Records stay for ever unless a topic says otherwise, for tests produce records of old times, and the usual retention
removes them within minutes. After a SIGKILL a broker may register again when its session has ended, so that is short.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from shoal.testing.kafka.jars import jars
from shoal.testing.kafka.java import java_command, properties
from shoal.testing.kafka.program import DidNotStart, Program, started_on_free_ports
from shoal.testing.ports import HOST, lasting_port

_CLUSTER = "Sh0al00000000000000AAAw"
"""A random one may begin with a dash, which the formatter takes for an option."""
_SECONDS, _SECONDS_FOR_ADMIN = 90.0, 30.0
_READY = "Kafka Server started"
_USUAL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.retention.ms": "-1",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "initial.broker.registration.timeout.ms": "30000",
}


@dataclass
class Broker:
    """A broker with its files and ports, which stay the same when it is started again."""

    bootstrap: str
    """The address for clients that need no password."""
    sasl_bootstrap: str | None
    """The address for clients with a user and a password (SASL/PLAIN); None if there are no users."""
    program: Program

    def __post_init__(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def log(self) -> Path:
        """What it says."""
        return self.program.log

    def kill(self) -> None:
        """End it at once, as a crash does (SIGKILL)."""
        self.program.kill()

    def stop(self) -> None:
        """Let it end in order."""
        self.program.stop()

    def restart(self) -> None:
        """Start it again on its files and ports; it is stopped first if it runs."""
        if self.program.is_running():
            self.stop()
        self.program.start(lambda: _READY in self.program.output(), _SECONDS)

    def create_topic(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Create a topic. Underscores in names of settings become dots: `cleanup_policy="compact"`."""
        config = {name.replace("_", "."): value for name, value in settings.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        _finish(self._admin.create_topics([new]))
        self.wait_for_partitions(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until it is gone, so that one of the same name may be created."""
        _finish(self._admin.delete_topics([topic]))
        self.wait_for_partitions(topic, 0)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have more partitions."""
        _finish(self._admin.create_partitions([NewPartitions(topic, total)]))
        self.wait_for_partitions(topic, total)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Remove the records before an offset of each partition, as retention does."""
        offsets = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        _finish(self._admin.delete_records(offsets))

    def partitions(self, topic: str) -> int:
        """The number of partitions; 0 if there is no such topic."""
        known = self._admin.list_topics(topic, timeout=_SECONDS_FOR_ADMIN).topics[topic]
        return 0 if known.error is not None else len(known.partitions)

    def wait_for_partitions(self, topic: str, number: int) -> None:
        """Wait until clients see this many: a broker answers before it has applied a change."""
        until = time.monotonic() + _SECONDS_FOR_ADMIN
        while self.partitions(topic) != number:
            assert time.monotonic() < until, f"{topic} does not get {number} partitions"
            time.sleep(0.01)


@contextmanager
def running_broker(
    folder: Path, users: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """Run a broker in a new folder. Users (with passwords) get a listener that asks for both."""
    known, given = dict(users or {}), dict(settings or {})
    broker = started_on_free_ports(lambda attempt: _start(folder / f"broker{attempt}", known, given))
    try:
        yield broker
    finally:
        broker.stop()


def _start(folder: Path, users: dict[str, str], settings: dict[str, str]) -> Broker:
    folder.mkdir(parents=True)
    plain, sasl, controller = (f"{HOST}:{lasting_port()}" for _ in range(3))
    config = {**_USUAL, **_listeners(plain, sasl, controller, users), "log.dirs": str(folder / "data"), **settings}
    file = folder / "server.properties"
    file.write_text(properties(config))
    formatting = ["-Xmx128m", "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(file)]
    _run(java_command(folder, jars("kafka"), *formatting), folder)
    memory = ["-Xms128m", "-Xmx384m", "-XX:MaxDirectMemorySize=128m"]
    command = java_command(folder, jars("kafka"), *memory, "kafka.Kafka", str(file))
    broker = Broker(plain, sasl if users else None, Program("the broker", command, folder / "log", folder))
    broker.restart()
    return broker


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS)  # noqa: S603
    if done.returncode != 0:
        raise DidNotStart(f"the broker does not format its folder: {done.stdout}{done.stderr}")


def _listeners(plain: str, sasl: str, controller: str, users: dict[str, str]) -> dict[str, str]:
    listeners, protocols = {"PLAINTEXT": plain}, "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    config = {"controller.quorum.voters": f"1@{controller}"}
    if users:
        listeners["SASL"], protocols = sasl, f"{protocols},SASL:SASL_PLAINTEXT"
        known = " ".join(f'user_{user}="{password}"' for user, password in users.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        config |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f"{module} required {known};",
        }
    advertised = ",".join(f"{name}://{address}" for name, address in listeners.items())
    return {
        **config,
        "listeners": f"{advertised},CONTROLLER://{controller}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": protocols,
    }


def _finish(futures: Mapping[Any, Any]) -> None:
    """Wait for what an admin asked for."""
    for future in futures.values():
        future.result(_SECONDS_FOR_ADMIN)
