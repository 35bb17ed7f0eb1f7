"""A real Debezium: a worker of Kafka Connect that writes the changes of tables in PostgreSQL to topics.

One worker serves all tests of a process; each test has a *capture* with a slot, topics and converters of its own. The
worker knows the captures only while it runs: after a restart they are given to it again, and go on from the offsets in
its file, so that what it had not noted there before a SIGKILL comes twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import urllib3

from shoal.testing.kafka.broker import Broker
from shoal.testing.kafka.clients import Record, read_all
from shoal.testing.kafka.jars import jars
from shoal.testing.kafka.java import java_command, properties
from shoal.testing.kafka.postgres import USER, Postgres
from shoal.testing.kafka.program import DidNotStart, Program, started_on_free_ports
from shoal.testing.ports import HOST, lasting_port

_SECONDS, _TRACE = 120.0, 2000
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_USUAL = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "database.hostname": HOST,
    "database.user": USER,
    "database.password": "none",
    "plugin.name": "pgoutput",
    "slot.retry.delay.ms": "500",
    "publication.autocreate.mode": "filtered",
    "provide.transaction.metadata": "true",
    "snapshot.mode": "initial",
    "poll.interval.ms": "20",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "1",
}
_STREAMING = """
    select count(*) from pg_replication_slots s join pg_stat_replication r on r.pid = s.active_pid
    where s.slot_name = '{slot}' and r.state = 'streaming'
"""
"""A slot alone is also active for a moment while it is made, and changes of that time are part of the snapshot."""
_DROP = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '{slot}' and not active"
_SLOTS = "select count(*) from pg_replication_slots where slot_name = '{slot}'"


@dataclass(frozen=True)
class Capture:
    """The changes of some tables of a database as topics, which begin with the name of the capture."""

    name: str
    database: str
    config: dict[str, str]
    postgres: Postgres
    broker: Broker

    @property
    def transactions(self) -> str:
        """The topic that says where transactions begin and end."""
        return f"{self.name}.transaction"

    def topic(self, table: str) -> str:
        """The topic of a table."""
        return f"{self.name}.public.{table}"

    def events(self, topic: str) -> list[tuple[Any, Any]]:
        """Keys and values of a topic so far; the value after a deletion is None. A topic without events is empty."""
        return [(_parse(record.key), _parse(record.value)) for record in self.records(topic)]

    def records(self, topic: str) -> list[Record]:
        """The records of a topic so far."""
        return read_all(self.broker.bootstrap, topic) if self.broker.partitions(topic) else []

    def settle(self) -> None:
        """Wait until everything that was committed before this call is in the topics.

        A message in the log of PostgreSQL comes after it, and becomes an event of a topic of its own.
        """
        topic, mark, until = f"{self.name}.message", uuid4().hex, time.monotonic() + _SECONDS
        self.postgres.execute(f"select pg_logical_emit_message(false, '{mark}', '')", self.database)
        while not any(mark in str(record.value) for record in self.records(topic)):
            assert time.monotonic() < until, f"{self.name} does not capture what is in PostgreSQL"
            time.sleep(0.02)

    def is_streaming(self) -> bool:
        """Whether the snapshot is over, and changes come as they are made."""
        return self.postgres.execute(_STREAMING.format(slot=self.name), self.database) == [("1",)]


@dataclass
class Debezium:
    """A worker with its files and port, which stay the same when it is started again, and its captures."""

    url: str
    """Where the worker takes requests."""
    broker: Broker
    postgres: Postgres
    program: Program
    captures: dict[str, Capture] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._http = urllib3.PoolManager(retries=False, timeout=90)

    @contextmanager
    def capturing(
        self, database: str, tables: Sequence[str], *, with_schemas: bool = False, **settings: str
    ) -> Iterator[Capture]:
        """Capture tables of the schema `public` until the block ends. It begins when the snapshot is in the topics.

        With schemas, each key and value says its type. Underscores in names of settings become dots:
        `decimal_handling_mode="string"`.
        """
        name, schemas = f"c{uuid4().hex[:12]}", str(with_schemas).lower()
        config = {
            **_USUAL,
            "database.port": str(self.postgres.port),
            "database.dbname": database,
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "table.include.list": ",".join(f"public.{table}" for table in tables),
            "key.converter.schemas.enable": schemas,
            "value.converter.schemas.enable": schemas,
            **{setting.replace("_", "."): value for setting, value in settings.items()},
        }
        self.captures[name] = capture = Capture(name, database, config, self.postgres, self.broker)
        try:
            self._begin(capture)
            capture.settle()
            yield capture
        finally:
            del self.captures[name]
            self._end(capture)

    def kill(self) -> None:
        """End the worker at once, as a crash does (SIGKILL)."""
        self.program.kill()

    def stop(self) -> None:
        """Let the worker end in order. It notes where it was."""
        self.program.stop()

    def restart(self) -> None:
        """Start it again, and all captures; it is stopped first if it runs."""
        if self.program.is_running():
            self.stop()
        self.program.start(self._is_ready, _SECONDS)
        for capture in self.captures.values():
            self._begin(capture)

    def _begin(self, capture: Capture) -> None:
        self._request("POST", "/connectors", {"name": capture.name, "config": capture.config})
        self.program.wait_until(lambda: self._is_alive(capture) and capture.is_streaming(), _SECONDS)

    def _end(self, capture: Capture) -> None:
        """End a capture and remove its slot, which would keep the log of PostgreSQL for ever."""
        if self.program.is_running():
            self._request("DELETE", f"/connectors/{capture.name}", missing="it never began")
        until = time.monotonic() + _SECONDS
        while self.postgres.execute(_SLOTS.format(slot=capture.name)) != [("0",)]:
            assert time.monotonic() < until, f"the slot of {capture.name} stays active"
            self.postgres.execute(_DROP.format(slot=capture.name), capture.database)
            time.sleep(0.02)

    def _is_alive(self, capture: Capture) -> bool:
        """Whether the worker runs the capture; DidNotStart if that has failed."""
        status = self._request("GET", f"/connectors/{capture.name}/status", missing={"tasks": []})
        for task in status["tasks"]:
            if task["state"] == "FAILED":
                raise DidNotStart(f"Debezium does not capture {capture.name}: {task['trace'][:_TRACE]}")
        return bool(status["tasks"])

    def _is_ready(self) -> bool:
        with suppress(urllib3.exceptions.HTTPError):
            return isinstance(self._request("GET", "/connectors", missing="not yet"), list)
        return False

    def _request(self, method: str, path: str, body: Any = None, missing: Any = None) -> Any:
        """The answer to a request; a given one if the worker does not know yet what is asked for."""
        sent = None if body is None else json.dumps(body)
        response = self._http.request(method, self.url + path, body=sent, headers={"Content-Type": "application/json"})
        if response.status == 404 and missing is not None:
            return missing
        if response.status >= 300:
            raise DidNotStart(f"the worker of Debezium answers {response.status}: {response.data.decode()}")
        return json.loads(response.data or b"null")


def _parse(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


@contextmanager
def running_debezium(folder: Path, broker: Broker, postgres: Postgres) -> Iterator[Debezium]:
    """Run a worker without captures in a new folder."""
    debezium = started_on_free_ports(lambda attempt: _start(folder / f"debezium{attempt}", broker, postgres))
    try:
        yield debezium
    finally:
        debezium.kill()


def _start(folder: Path, broker: Broker, postgres: Postgres) -> Debezium:
    folder.mkdir(parents=True)
    url = f"http://{HOST}:{lasting_port()}"
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "key.converter": _JSON,
        "value.converter": _JSON,
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "listeners": url,
        "plugin.discovery": "service_load",
        "topic.creation.enable": "true",
    }
    file = folder / "worker.properties"
    file.write_text(properties(settings))
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    command = java_command(folder, jars("debezium"), "-Xmx384m", main, str(file))
    debezium = Debezium(url, broker, postgres, Program("Debezium", command, folder / "log", folder))
    debezium.restart()
    return debezium
