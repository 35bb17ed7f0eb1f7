"""Staging records into topics of a real broker: each once, in order, whatever happens to the sender."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.connect.kafka import to_kafka
from shoal.connect.kafka.config import parse_to_kafka
from shoal.connect.kafka.connection import Connection
from shoal.connect.kafka.decoders import open_decoder
from shoal.connect.kafka.encoders import open_encoder
from shoal.connect.kafka.events import Event
from shoal.connect.kafka.registry import Registry as Client
from shoal.connect.kafka.sent import POSITION
from shoal.connect.kafka.to_kafka import Sender
from shoal.connect.settings import Section
from shoal.errors import InvalidInput
from shoal.model.parse import parse_value
from shoal.testing.kafka.broker import Broker
from shoal.testing.kafka.clients import produce, read_all
from shoal.testing.kafka.registry import Registry

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def lake() -> Lake:
    lake = shoal.create("memory://")
    lake.create("staging", key="seqno", order="desc")
    return lake


def stage(lake: Lake, topic: str, start: int, count: int, value: Callable[[int], str] = "{{n:{0}}}".format) -> None:
    texts = (
        f'{{seqno:{n},kafka:{{topic:"{topic}",offset:{n},key:"k{n % 3}"}},value:{value(n)}}}'
        for n in range(start, start + count)
    )
    lake.pool("staging").load([parse_value(text) for text in texts])


def sender(
    lake: Lake, broker: Broker, topic: str, registry: Client | None = None, resend: bool = False, **settings: Any
) -> Sender:
    output = {"pool": "staging", "topics": [topic], "key": "text"} | settings
    section = Section("test", {"to-kafka": {"outputs": [output], "batch": {"records": 7}}})
    kafka = Connection({"bootstrap.servers": broker.bootstrap})
    encoder = lambda name, subject: open_encoder(name, registry, subject)  # noqa: E731 - short
    return Sender(lake, kafka, parse_to_kafka(section), encoder, resend=resend)


def send(lake: Lake, broker: Broker, topic: str, **settings: Any) -> None:
    until = time.monotonic() + 60
    sender(lake, broker, topic, **settings).run(lambda: time.monotonic() > until, once=True)


def numbers(broker: Broker, topic: str) -> list[int]:
    """The numbers that were sent, in the order of their positions."""
    records = read_all(broker.bootstrap, topic)
    positions = [int(dict(record.headers)[POSITION] or b"") for record in records]
    values = [json.loads(record.value or b"null") for record in records]
    return [value["n"] for _, value in sorted(zip(positions, values, strict=True), key=lambda each: each[0])]


def test_records_are_sent_once_over_restarts(lake: Lake, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 3)
    for start in (1, 21, 41):
        stage(lake, topic_name, start, 20)
        send(lake, broker, topic_name)
        send(lake, broker, topic_name)
    assert numbers(broker, topic_name) == list(range(1, 61))
    by_partition: dict[int | None, list[int]] = {}
    for record in read_all(broker.bootstrap, topic_name):
        by_partition.setdefault(record.partition, []).append(json.loads(record.value or b"")["n"])
    assert all(each == sorted(each) for each in by_partition.values())


def test_keys_headers_and_tombstones_are_sent(lake: Lake, broker: Broker, topic: str) -> None:
    texts = (
        f'{{seqno:1,kafka:{{topic:"{topic}",offset:1,key:"a",headers:[{{key:"h",value:0x01}}]}},value:{{n:1}}}}',
        f'{{seqno:2,kafka:{{topic:"{topic}",offset:2,key:"a",headers:null}},value:null}}',
    )
    lake.pool("staging").load([parse_value(text) for text in texts])
    send(lake, broker, topic)
    first, second = read_all(broker.bootstrap, topic)
    assert (first.key, first.value) == (b"a", b'{"n":1}')
    assert ("h", b"\x01") in first.headers
    assert (second.key, second.value) == (b"a", None)


def test_a_sender_that_dies_before_its_commit_has_sent_nothing(
    lake: Lake, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that dies right after it has sent everything: in both cases the next one goes on."""
    stage(lake, topic, 1, 20)

    class Died(Exception):
        pass

    class Dying:
        """A producer that dies at its second commit."""

        def __init__(self, producer: Any, dies_before: bool) -> None:
            self._producer, self._dies_before, self._commits = producer, dies_before, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._producer, name)

        def commit_transaction(self, *args: Any) -> None:
            self._commits += 1
            if self._commits == 2 and self._dies_before:
                self._producer.flush()
                raise Died
            self._producer.commit_transaction(*args)
            if self._commits == 2:
                raise Died

    usual = Connection.producer
    for dies_before in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "producer", lambda self, more, d=dies_before: Dying(usual(self, more), d))
            with pytest.raises(Died):
                send(lake, broker, topic)
    send(lake, broker, topic)
    assert numbers(broker, topic) == list(range(1, 21))


def test_other_producers_of_the_topic_are_passed_over(
    lake: Lake, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.connect.kafka.sent._STEP", 3)
    stage(lake, topic, 1, 10)
    send(lake, broker, topic)
    produce(broker.bootstrap, topic, [b'{"n":0}'] * 30)
    stage(lake, topic, 11, 5)
    send(lake, broker, topic)
    ours = [r for r in read_all(broker.bootstrap, topic) if POSITION in dict(r.headers)]
    assert [json.loads(record.value or b"")["n"] for record in ours] == list(range(1, 16))


def test_a_topic_that_has_lost_its_records_is_not_sent_everything_again(lake: Lake, broker: Broker, topic: str) -> None:
    stage(lake, topic, 1, 10)
    send(lake, broker, topic)
    end = max(record.offset or 0 for record in read_all(broker.bootstrap, topic)) + 1
    broker.delete_records(topic, {0: end})
    stage(lake, topic, 11, 2)
    with pytest.raises(InvalidInput, match="records of it were deleted"):
        send(lake, broker, topic)
    assert read_all(broker.bootstrap, topic) == []


def test_a_topic_that_lost_records_which_nobody_knows_of_is_refused(lake: Lake, broker: Broker, topic: str) -> None:
    produce(broker.bootstrap, topic, [b"1", b"2"])
    broker.delete_records(topic, {0: 2})
    stage(lake, topic, 1, 3)
    with pytest.raises(InvalidInput, match=r"none of those that are left says what was sent.*-resend"):
        send(lake, broker, topic)
    send(lake, broker, topic, resend=True)
    assert numbers(broker, topic) == [1, 2, 3]


def test_the_second_sender_of_a_topic_ends_the_first(lake: Lake, broker: Broker, topic: str) -> None:
    stage(lake, topic, 1, 3)
    over, raised = threading.Event(), list[BaseException]()

    def run(each: Sender) -> None:
        try:
            each.run(over.is_set)
        except InvalidInput as e:
            raised.append(e)

    first = threading.Thread(target=run, args=(sender(lake, broker, topic),))
    first.start()
    until = time.monotonic() + 30
    while len(read_all(broker.bootstrap, topic)) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    send(lake, broker, topic)
    stage(lake, topic, 4, 3)
    second = threading.Thread(target=run, args=(sender(lake, broker, topic),))
    second.start()
    while len(read_all(broker.bootstrap, topic)) < 6 and time.monotonic() < until:
        time.sleep(0.1)
    stage(lake, topic, 7, 3)
    first.join(30)
    while len(read_all(broker.bootstrap, topic)) < 9 and time.monotonic() < until:
        time.sleep(0.1)
    over.set()
    first.join(30)
    second.join(30)
    assert numbers(broker, topic) == list(range(1, 10))
    assert all("another process sends to it" in str(e) for e in raised)


def test_avro_goes_through_the_registry_and_back(lake: Lake, broker: Broker, registry: Registry, topic: str) -> None:
    client = Client(registry.url)
    stage(lake, topic, 1, 5, lambda n: f'{{n:{n},name:"x{n}"}}')
    send(lake, broker, topic, registry=client, value="avro")
    stage(lake, topic, 6, 5, lambda n: f"{{n:{n},name:null(string),at:2024-01-01T00:00:0{n % 10}Z}}")
    send(lake, broker, topic, registry=client, value="avro")
    decoder = open_decoder("avro", client)
    values = [decoder.value(record.value or b"") for record in read_all(broker.bootstrap, topic)]
    assert [shoal.to_python(value)["n"] for value in values] == list(range(1, 11))
    assert [str(value.field("name")) for value in values[:2]] == ['"x1"', '"x2"']
    stage(lake, topic, 11, 1, lambda n: '"no record"')
    with pytest.raises(InvalidInput, match="string is of another kind than the records of the topic"):
        send(lake, broker, topic, registry=client, value="avro")


def test_topics_that_turn_up_later_are_sent_as_well(lake: Lake, broker: Broker, topic_name: str) -> None:
    events: list[Event] = []
    names = [f"{topic_name}-{n}" for n in range(2)]
    for name in names:
        broker.create_topic(name)
    stage(lake, names[0], 1, 3)
    section = Section("test", {"to-kafka": {"outputs": [{"pool": "staging", "key": "text"}]}})
    kafka = Connection({"bootstrap.servers": broker.bootstrap})
    encoder = lambda name, subject: open_encoder(name, None, subject)  # noqa: E731 - short
    job = to_kafka.Sender(lake, kafka, parse_to_kafka(section), encoder, events.append)
    until = time.monotonic() + 60
    job.run(lambda: time.monotonic() > until, once=True)
    stage(lake, names[1], 4, 3)
    job.run(lambda: time.monotonic() > until, once=True)
    assert [numbers(broker, name) for name in names] == [[1, 2, 3], [4, 5, 6]]
    assert [event.facts["records"] for event in events if event.kind == "commit"] == [3, 3]
