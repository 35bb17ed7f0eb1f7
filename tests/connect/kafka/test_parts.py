"""The real parts do what tests rely on: they start, keep what they acknowledged, and come back after a SIGKILL."""

from __future__ import annotations

import confluent_kafka
import pytest
from confluent_kafka import KafkaException

from shoal.testing.kafka.broker import Broker
from shoal.testing.kafka.clients import (
    Record,
    open_transaction,
    produce,
    produce_transaction,
    read_all,
    read_until,
    read_values,
    send,
    watermarks,
)


def test_records_are_read_as_they_were_sent(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, partitions=3)
    headers = (("a", b"1"), ("a", None), ("b", b""))
    given = [Record(b"%d" % n, b"key", headers, n % 3, timestamp=1_000_000_000_000 + n) for n in range(10)]
    sent = produce(broker.bootstrap, topic_name, [*given, Record(None, b"key", partition=0)], compression_type="zstd")
    assert [(record.value, record.headers, record.partition) for record in sent[:10]] == [
        (record.value, headers, record.partition) for record in given
    ]
    assert read_all(broker.bootstrap, topic_name) == sorted(sent, key=lambda record: (record.partition, record.offset))
    assert watermarks(broker.bootstrap, topic_name) == {0: (0, 5), 1: (0, 3), 2: (0, 3)}


def test_readers_of_committed_records_see_neither_aborted_nor_open_transactions(broker: Broker, topic: str) -> None:
    produce_transaction(broker.bootstrap, {topic: [b"c1", b"c2"]})
    produce_transaction(broker.bootstrap, {topic: [b"a1"]}, commit=False)
    produce(broker.bootstrap, topic, [b"plain"])
    with open_transaction(broker.bootstrap) as producer:
        send(producer, topic, [b"open"])
        assert read_values(broker.bootstrap, topic) == [b"c1", b"c2", b"plain"]
        assert read_values(broker.bootstrap, topic, "read_uncommitted") == [b"c1", b"c2", b"a1", b"plain", b"open"]
        assert watermarks(broker.bootstrap, topic) == {0: (0, 6)}
        assert watermarks(broker.bootstrap, topic, "read_uncommitted") == {0: (0, 7)}
    assert watermarks(broker.bootstrap, topic) == {0: (0, 8)}


def test_a_second_producer_of_a_transactional_id_fences_the_first(broker: Broker, topic: str) -> None:
    with open_transaction(broker.bootstrap, topic) as first:
        send(first, topic, [b"first"])
        with open_transaction(broker.bootstrap, topic) as second:
            send(second, topic, [b"second"])
            second.commit_transaction(10)
        with pytest.raises(KafkaException, match="fenced"):
            first.commit_transaction(10)
    assert read_until(broker.bootstrap, topic, 1) == [b"second"]


def test_a_broker_that_is_killed_comes_back_with_all_that_it_acknowledged(broker: Broker, topic: str) -> None:
    sent = produce(broker.bootstrap, topic, [b"%d" % n for n in range(1000)])
    produce_transaction(broker.bootstrap, {topic: [b"in a transaction"]})
    broker.kill()
    assert not broker.program.is_running()
    broker.restart()
    assert read_all(broker.bootstrap, topic)[:1000] == sent
    produce_transaction(broker.bootstrap, {topic: [b"after"]})
    assert read_until(broker.bootstrap, topic, 1002)[1000:] == [b"in a transaction", b"after"]


def test_records_that_retention_removes_leave_a_gap_at_the_start(broker: Broker, topic: str) -> None:
    produce(broker.bootstrap, topic, [b"%d" % n for n in range(10)])
    broker.delete_records(topic, {0: 7})
    assert watermarks(broker.bootstrap, topic) == {0: (7, 10)}
    broker.delete_topic(topic)
    broker.create_topic(topic, partitions=2)
    assert watermarks(broker.bootstrap, topic) == {0: (0, 0), 1: (0, 0)}
    broker.add_partitions(topic, 3)
    assert len(watermarks(broker.bootstrap, topic)) == 3


def test_only_a_user_with_the_right_password_gets_in(broker: Broker, topic: str) -> None:
    def partitions(password: str) -> int:
        config = {
            "bootstrap.servers": broker.sasl_bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": password,
            "log_level": 0,
        }
        return len(confluent_kafka.Producer(config).list_topics(topic, 2).topics[topic].partitions)

    assert partitions("alices-password") == 1
    with pytest.raises(KafkaException):
        partitions("a guess")
