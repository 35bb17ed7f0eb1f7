"""The real parts do what tests rely on: they start, keep what they acknowledged, and come back after a SIGKILL."""

from __future__ import annotations

import io
import json
from typing import Any

import confluent_kafka
import fastavro
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
from shoal.testing.kafka.debezium import Debezium
from shoal.testing.kafka.postgres import Postgres
from shoal.testing.kafka.program import DidNotStart
from shoal.testing.kafka.registry import Registry, RegistryError

# ---- the broker


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


# ---- the schema registry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def test_a_record_is_read_by_the_schema_that_its_id_names(broker: Broker, registry: Registry, topic: str) -> None:
    number = registry.register(f"{topic}-value", ORDER)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, ORDER, {"id": 7})
    produce(broker.bootstrap, topic, [b"\0" + number.to_bytes(4, "big") + body.getvalue()])
    (value,) = read_values(broker.bootstrap, topic)
    assert value is not None
    schema = json.loads(registry.schema(int.from_bytes(value[1:5], "big")))
    assert fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None) == {"id": 7}


def test_only_a_version_that_reads_what_older_ones_wrote_is_registered(registry: Registry, topic_name: str) -> None:
    first = registry.register(topic_name, ORDER)
    second = registry.register(topic_name, {**ORDER, "fields": [*ORDER["fields"], NOTE]})
    assert first != second
    assert registry.register(topic_name, ORDER) == first
    with pytest.raises(RegistryError, match=r"^409: .*Incompatible"):
        registry.register(topic_name, {**ORDER, "fields": [{"name": "id", "type": "string"}]})
    with pytest.raises(RegistryError, match=r"^404: .*40403"):
        registry.schema(1_000_000)


def test_a_registry_that_is_killed_comes_back_with_its_schemas(registry: Registry, topic_name: str) -> None:
    number = registry.register(topic_name, ORDER)
    registry.kill()
    assert not registry.is_ready()
    registry.restart()
    assert json.loads(registry.schema(number)) == ORDER
    assert registry.request("GET", "/config") == {"compatibilityLevel": "BACKWARD"}


# ---- PostgreSQL and Debezium

TABLE = """
    create table orders (id int primary key, item text, price numeric(12, 2));
    insert into orders values (1, 'pen', 1.50), (2, null, null);
"""
CHANGES = """
    begin; insert into orders values (3, 'ink', 3); update orders set item = 'pencil' where id = 1; commit;
    begin; delete from orders; rollback;
    update orders set id = 20 where id = 2;
    delete from orders where id = 1;
    alter table orders add column vip boolean default false;
    insert into orders values (4, 'cap', 4, true);
"""


def test_postgres_that_ends_at_once_keeps_what_was_committed(postgres: Postgres, database: str) -> None:
    postgres.execute(TABLE, database)
    postgres.kill()
    postgres.restart()
    assert postgres.execute("select * from orders order by id", database) == [("1", "pen", "1.50"), ("2", "", "")]


@pytest.mark.long
def test_changes_of_a_table_become_events(debezium: Debezium, database: str) -> None:
    debezium.postgres.execute(TABLE, database)
    with debezium.capturing(database, ["orders"], decimal_handling_mode="string") as capture:
        debezium.postgres.execute(CHANGES, database)
        capture.settle()
        events = capture.events(capture.topic("orders"))
        transactions = [value for _, value in capture.events(capture.transactions)]
    assert [(key["id"], value and (value["op"], value["after"])) for key, value in events] == [
        (1, ("r", {"id": 1, "item": "pen", "price": "1.50"})),
        (2, ("r", {"id": 2, "item": None, "price": None})),
        (3, ("c", {"id": 3, "item": "ink", "price": "3.00"})),
        (1, ("u", {"id": 1, "item": "pencil", "price": "1.50"})),
        (2, ("d", None)),
        (2, None),
        (20, ("c", {"id": 20, "item": None, "price": None})),
        (1, ("d", None)),
        (1, None),
        (4, ("c", {"id": 4, "item": "cap", "price": "4.00", "vip": True})),
    ]
    # The changes of one transaction share the part of its id before the colon, and only that.
    assert _transaction(events[2]) == _transaction(events[3])
    assert len({_transaction(event) for event in events[2:] if event[1]}) == 4
    assert [each["event_count"] for each in transactions if each["status"] == "END"] == [2, 2, 1, 1]


def _transaction(event: tuple[Any, Any]) -> str:
    return str(event[1]["transaction"]["id"]).partition(":")[0]


@pytest.mark.long
def test_events_with_schemas_say_their_types(debezium: Debezium, database: str) -> None:
    debezium.postgres.execute(TABLE, database)
    with debezium.capturing(database, ["orders"], with_schemas=True) as capture:
        (key, value), _ = capture.events(capture.topic("orders"))
    assert key["payload"] == {"id": 1}
    assert value["payload"]["after"]["price"] == "AJY="  # 150, in bytes, and the schema has the two decimals
    (after,) = (field for field in value["schema"]["fields"] if field["field"] == "after")
    assert after["fields"][2]["name"] == "org.apache.kafka.connect.data.Decimal"
    assert after["fields"][2]["parameters"] == {"scale": "2", "connect.decimal.precision": "12"}


@pytest.mark.long
def test_debezium_that_is_killed_loses_nothing_and_may_repeat_itself(debezium: Debezium, database: str) -> None:
    debezium.postgres.execute(TABLE, database)
    with debezium.capturing(database, ["orders"]) as capture:
        debezium.postgres.execute("insert into orders values (3, 'ink', 3)", database)
        capture.settle()
        debezium.kill()
        debezium.postgres.execute("insert into orders values (4, 'cap', 4)", database)
        debezium.restart()
        capture.settle()
        keys = [key["id"] for key, _ in capture.events(capture.topic("orders"))]
    assert keys[:3] == [1, 2, 3]
    assert keys[-1] == 4
    assert set(keys) == {1, 2, 3, 4}


# ---- what goes wrong


def test_a_program_that_ends_is_reported_with_the_end_of_its_log(broker: Broker) -> None:
    broker.stop()
    data = broker.program.folder / "data"
    aside = data.rename(broker.program.folder / "aside")
    try:
        with pytest.raises(DidNotStart, match=r"(?s)the broker ended; the end of .*meta.properties"):
            broker.restart()
    finally:
        aside.rename(data)
