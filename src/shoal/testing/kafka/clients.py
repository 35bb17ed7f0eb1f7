"""Producers and readers of topics for tests.

A transaction ends with a marker that no reader sees but that takes an offset. So a topic is read to its end when the
consumer says so for each partition, and not when some number of records was seen. The end of committed records is where
the first transaction is that has no marker. The broker writes markers after it has answered to the commit, and after a
SIGKILL when it has loaded its transactions. So a test that kills it reads until it sees what it expects.

Logs of the library are off: tests kill brokers, and it would tell each attempt to connect.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Literal, cast
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

_SECONDS = 60.0
_QUIET = {"log_level": 0}
_BATCH, _WAIT = 5000, 0.01
"""A batch is waited for until it is full or this many seconds have passed, even at the end of a topic."""
_ENDED = (KafkaError._STATE, KafkaError._FENCED)
"""What a producer says when it is asked to abort a transaction that has ended, or that another one has taken over."""

Isolation = Literal["read_committed", "read_uncommitted"]
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """What is sent to a topic, or was read from it. What is None when it is sent, client or broker choose."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    """Milliseconds since 1970."""


def produce(bootstrap: str, topic: str, records: Iterable[Record | bytes], **settings: str) -> list[Record]:
    """Send records and wait until the broker has them all; returns them in order, as they are in the topic.

    Underscores in names of settings become dots: `compression_type="zstd"`.
    """
    given = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **_QUIET, **given})
    return send(producer, topic, records)


def produce_transaction(
    bootstrap: str, records: Mapping[str, Iterable[Record | bytes]], *, commit: bool = True
) -> dict[str, list[Record]]:
    """Send records to topics in one transaction. Without `commit` it is aborted when the broker has them all."""
    transactional_id = _new_id()
    with open_transaction(bootstrap, transactional_id) as producer:
        sent = {topic: send(producer, topic, each) for topic, each in records.items()}
        if commit:
            producer.commit_transaction(_SECONDS)
    _transactional_producer(bootstrap, transactional_id)  # waits for the transaction to be over
    return sent


@contextmanager
def open_transaction(bootstrap: str, transactional_id: str | None = None) -> Iterator[Producer]:
    """A producer with an open transaction, which is aborted if the block does not end it.

    A commit has decided the transaction when it returns, but readers may see it a little later.
    """
    producer = _transactional_producer(bootstrap, transactional_id or _new_id())
    producer.begin_transaction()
    try:
        yield producer
    finally:
        try:
            producer.abort_transaction(_SECONDS)
        except KafkaException as e:
            if e.args[0].code() not in _ENDED:
                raise


def _new_id() -> str:
    return f"test-{uuid4().hex}"


def _transactional_producer(bootstrap: str, transactional_id: str) -> Producer:
    """A producer; the broker gives it the id when an earlier transaction of the id is written to all its topics."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **_QUIET})
    producer.init_transactions(_SECONDS)
    return producer


def send(producer: Producer, topic: str, records: Iterable[Record | bytes]) -> list[Record]:
    """Send records with a producer of the test and wait for the broker; returns them in order, as they are there."""
    sent: list[Record | KafkaError | None] = []
    for given in records:
        record = Record(given) if isinstance(given, bytes) else given
        place = len(sent)
        sent.append(None)

        def note(error: KafkaError | None, message: Message, place: int = place, record: Record = record) -> None:
            # A report of delivery has no headers.
            sent[place] = replace(_record(message), headers=record.headers) if error is None else error

        _enqueue(producer, topic, record, note)
    producer.flush(_SECONDS)
    delivered = [each for each in sent if isinstance(each, Record)]
    if len(delivered) < len(sent):
        raise KafkaException(next((each for each in sent if isinstance(each, KafkaError)), "some were not delivered"))
    return delivered


def _enqueue(producer: Producer, topic: str, record: Record, note: object) -> None:
    options: dict[str, object] = {"on_delivery": note, "headers": list(record.headers)}
    if record.partition is not None:
        options["partition"] = record.partition
    if record.timestamp is not None:
        options["timestamp"] = record.timestamp
    while True:
        try:
            producer.produce(topic, record.value, record.key, **options)  # type: ignore[arg-type]
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def read_all(bootstrap: str, topic: str, isolation: Isolation = "read_committed") -> list[Record]:
    """All records of a topic up to its end, by partition and offset."""
    records: list[Record] = []
    with closing(_consumer(bootstrap, isolation)) as consumer:
        open_partitions = set(_partitions(consumer, topic))
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in open_partitions])
        until = time.monotonic() + _SECONDS
        while open_partitions:
            assert time.monotonic() < until, f"{topic} is not read to its end within {_SECONDS:.0f} seconds"
            for message in consumer.consume(_BATCH, _WAIT):
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition() or 0)
                else:
                    raise KafkaException(error)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def read_values(bootstrap: str, topic: str, isolation: Isolation = "read_committed") -> list[bytes | None]:
    """The values of all records of a topic, by partition and offset."""
    return [record.value for record in read_all(bootstrap, topic, isolation)]


def read_until(bootstrap: str, topic: str, number: int, seconds: float = 30) -> list[bytes | None]:
    """The values of all committed records, as soon as there are at least `number` of them or the seconds are over."""
    until = time.monotonic() + seconds
    while len(values := read_values(bootstrap, topic)) < number and time.monotonic() < until:
        time.sleep(0.05)
    return values


def watermarks(bootstrap: str, topic: str, isolation: Isolation = "read_committed") -> dict[int, tuple[int, int]]:
    """The first offset of each partition and the one after the last, committed ones ending at an open transaction."""
    with closing(_consumer(bootstrap, isolation)) as consumer:
        offsets = {}
        for partition in _partitions(consumer, topic):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), _SECONDS)
            offsets[partition] = (low, high)
    return offsets


def _consumer(bootstrap: str, isolation: Isolation) -> Consumer:
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "readers-of-tests",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
    }
    return Consumer({**config, **_QUIET})


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    known = consumer.list_topics(topic, _SECONDS).topics[topic]
    if known.error is not None:
        raise KafkaException(known.error)
    return sorted(known.partitions)


def _record(message: Message) -> Record:
    headers = cast("Headers", tuple(message.headers() or ()))
    place = (message.partition(), message.offset(), message.timestamp()[1])
    return Record(message.value(), message.key(), headers, *place)
