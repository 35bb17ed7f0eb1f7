"""What goes wrong around a sync is one clear line; nothing is lost, and it goes on when the part is back."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.connect.kafka.conftest import USERS

import shoal
from shoal.api.pool import Pool
from shoal.connect.kafka import connection
from shoal.connect.kafka.config import parse_from_kafka
from shoal.connect.kafka.connection import Connection, shown_settings
from shoal.connect.kafka.decoders import open_decoder
from shoal.connect.kafka.encoders import open_encoder
from shoal.connect.kafka.events import Event
from shoal.connect.kafka.from_kafka import Worker
from shoal.connect.kafka.registry import Registry as Client
from shoal.connect.kafka.wire_format import with_header
from shoal.connect.settings import Section
from shoal.model.parse import parse_value
from shoal.testing.kafka.broker import Broker
from shoal.testing.kafka.clients import produce
from shoal.testing.kafka.registry import Registry
from shoal.testing.ports import HOST, free_port
from shoal.testing.scripts import call_shoal

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pool:
    monkeypatch.setenv("SHOAL_LAKE", str(tmp_path / "lake"))
    return shoal.create(tmp_path / "lake").create("raw", key="seqno")


def sync(*words: str) -> tuple[int, str]:
    """The exit status of a sync and what it says."""
    status, out, err = call_shoal(["sync", "from-kafka", "-q", *words])
    return status, (out.decode() + err).strip()


def with_file(folder: Path, text: str) -> list[str]:
    path = folder / "sync.yaml"
    path.write_text(text)
    return ["-config", str(path), "-once"]


@pytest.mark.usefixtures("raw")
def test_a_broker_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT", 2.0)
    place = f"{HOST}:{free_port()}"
    status, said = sync("-brokers", place, "-topic", "t", "-pool", "raw", "-exit-after", "1s")
    assert status == 1
    assert said.startswith(f"kafka at {place}: ")
    assert said.endswith("(is the broker running, and is this its address?)")
    assert "\n" not in said


@pytest.mark.usefixtures("raw")
def test_refused_credentials_end_a_sync_at_once(broker: Broker, tmp_path: Path) -> None:
    ((user, _),) = USERS.items()
    began = time.monotonic()
    status, said = sync(
        *with_file(
            tmp_path,
            f"""
            kafka: {{bootstrap.servers: "{broker.sasl_bootstrap}", security.protocol: SASL_PLAINTEXT,
                    sasl.mechanism: PLAIN, sasl.username: {user}, sasl.password: "wrong password"}}
            from-kafka: {{inputs: [{{topics: [t], pool: raw}}]}}
            """,
        )
    )
    assert status == 1
    assert "access refused" in said
    assert "wrong password" not in said
    assert "\n" not in said
    assert time.monotonic() - began < 10


def test_a_password_comes_from_the_environment(
    raw: Pool, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((user, password),) = USERS.items()
    produce(broker.bootstrap, topic, [b'{"n":1}'])
    text = f"""
        kafka: {{bootstrap.servers: "{broker.sasl_bootstrap}", security.protocol: SASL_PLAINTEXT,
                sasl.mechanism: PLAIN, sasl.username: {user}, sasl.password: "${{SECRET}}"}}
        from-kafka: {{inputs: [{{topics: ["{topic}"], pool: raw}}]}}
        """
    assert sync(*with_file(tmp_path, text)) == (
        1,
        f"{tmp_path}/sync.yaml.kafka.sasl.password: the environment has no variable 'SECRET'",
    )
    monkeypatch.setenv("SECRET", password)
    assert sync(*with_file(tmp_path, text)) == (0, "")
    assert raw.query("count()").to_list() == [1]
    assert password not in "".join(f"{commit.message}{commit.meta}" for commit in raw.log())
    assert shown_settings({"sasl.password": password, "sasl.username": user}) == {
        "sasl.password": "***",
        "sasl.username": user,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "kafka: {bootstrap.server: x}\nfrom-kafka: {inputs: [{topics: [t], pool: raw}]}",
            "bootstrap.servers is missing",
        ),
        (
            "kafka: {bootstrap.servers: x, sasl.usrname: y}\nfrom-kafka: {inputs: [{topics: [t], pool: raw}]}",
            "kafka: no setting named 'sasl.usrname' (did you mean sasl.username?)",
        ),
        ("kafka: {bootstrap.servers: x}\nfrom-kafak: {}", "nothing to read"),
        (
            "kafka: {bootstrap.servers: x}\nfrom-kafka: {inputs: [{topics: [t], pool: raw}], on-los: skip}",
            "no setting named 'on-los' (did you mean on-loss?)",
        ),
        (
            "kafka: {bootstrap.servers: x}\nfrom-kafka: {inputs: [{topics: [t], pool: raw, value: jsno}]}",
            "no decoder named 'jsno' (did you mean json?)",
        ),
        (
            "kafka: {bootstrap.servers: x}\nfrom-kafka: {inputs: [{topics: [t], pool: raw, from: yesterday}]}",
            "'yesterday' (earliest, latest, a time",
        ),
        (
            "kafka: {bootstrap.servers: x}\nfrom-kafka: {inputs: [{topics: ['^(t'], pool: raw}]}",
            "not a regular expression",
        ),
        ("kafka: {bootstrap.servers: x\nfrom-kafka", "line 2, column"),
        (
            "kafka: {bootstrap.servers: x}\nfrom-kafka: {batch: {every: soon}, inputs: [{topics: [t], pool: raw}]}",
            "'soon' (such as 30s)",
        ),
        ("kafka: {bootstrap.servers: x}\nfrom-kafka: {inputs: [{topics: [t], pool: nope}]}", "nope: pool not found"),
    ],
)
@pytest.mark.usefixtures("raw")
def test_a_mistake_in_a_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    status, line = sync(*with_file(tmp_path, text))
    assert status == 1
    assert said in line
    assert "\n" not in line


def test_a_schema_that_the_registry_does_not_know_makes_a_bad_record(
    raw: Pool, broker: Broker, registry: Registry, topic: str, tmp_path: Path
) -> None:
    produce(broker.bootstrap, topic, [with_header(7777, b"\x02")])
    text = f"""
        kafka: {{bootstrap.servers: "{broker.bootstrap}"}}
        registry: {{url: "{registry.url}"}}
        from-kafka: {{inputs: [{{topics: ["{topic}"], pool: raw, value: avro}}]}}
        """
    assert sync(*with_file(tmp_path, text)) == (0, "")
    (message,) = raw.query("yield under(value).message").to_list()
    assert "7777" in message


def test_a_registry_that_is_down_is_waited_for(raw: Pool, broker: Broker, registry: Registry, topic: str) -> None:
    client, events = Client(registry.url), list[Event]()
    value = parse_value('{n:1,name:"x"}')
    encoder = open_encoder("avro", client, f"{topic}-value")
    encoder.prepare([value.type])
    produce(broker.bootstrap, topic, [encoder.encode(value)])
    section = Section("test", {"from-kafka": {"inputs": [{"topics": topic, "pool": "raw", "value": "avro"}]}})
    kafka = Connection({"bootstrap.servers": broker.bootstrap})
    fresh, over = Client(registry.url), threading.Event()
    worker = Worker(
        shoal.open(raw.lake.uri),  # type: ignore[attr-defined]
        kafka, parse_from_kafka(section), lambda name: open_decoder(name, fresh), events.append, share=(0, 1),
    )  # fmt: skip
    registry.kill()
    thread = threading.Thread(target=lambda: worker.run(over.is_set))
    thread.start()
    try:
        until = time.monotonic() + 60
        while not any(event.kind == "waiting" for event in events) and time.monotonic() < until:
            time.sleep(0.1)
        assert raw.resolve() is None
        registry.restart()
        while raw.resolve() is None and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        over.set()
        thread.join(60)
    assert raw.query("yield value").to_list() == [{"n": 1, "name": "x"}]
    assert [event.kind for event in events] == ["assigned", "waiting", "resumed", "commit"]
