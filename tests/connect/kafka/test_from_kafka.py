"""Topics of a real broker into raw pools: each record once, whoever reads it, and whatever happens meanwhile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.connect.kafka.config import parse_from_kafka
from shoal.connect.kafka.connection import Connection
from shoal.connect.kafka.decoders import open_decoder
from shoal.connect.kafka.events import Event
from shoal.connect.kafka.from_kafka import Worker
from shoal.connect.kafka.positions import read_positions
from shoal.connect.kafka.status import status
from shoal.connect.settings import Section
from shoal.errors import InvalidInput, NotFound
from shoal.testing.kafka.broker import Broker
from shoal.testing.kafka.clients import Record, produce, produce_transaction, read_all

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def lake() -> Lake:
    lake = shoal.create("memory://")
    lake.create("raw", key="seqno")
    return lake


@pytest.fixture
def raw(lake: Lake) -> Pool:
    return lake.pool("raw")


def worker(
    lake: Lake,
    broker: Broker,
    topics: str | list[str],
    report: Callable[[Event], None] = lambda event: None,
    share: tuple[int, int] | None = (0, 1),
    value: str = "json",
    **settings: Any,
) -> Worker:
    """A worker that reads all partitions by itself, unless it has a share of None: then it is one of a group."""
    source = {"topics": topics, "pool": "raw", "value": value} | settings.pop("source", {})
    section = Section("test", {"from-kafka": {"inputs": [source], **settings}})
    kafka = Connection({"bootstrap.servers": broker.bootstrap})
    return Worker(lake, kafka, parse_from_kafka(section), open_decoder, report, share=share)


def read_to_the_end(lake: Lake, broker: Broker, topics: str | list[str], **settings: Any) -> None:
    worker(lake, broker, topics, **settings).run(deadline(60), once=True)


def deadline(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


def numbered(count: int, start: int = 0, partition: int = 0) -> list[Record]:
    return [Record(json.dumps({"n": n}).encode(), b"k%d" % n, partition=partition) for n in range(start, start + count)]


def places(raw: Pool) -> list[tuple[str, int, int]]:
    return [
        (row["topic"], row["partition"], row["offset"])
        for row in raw.query(
            "sort seqno | yield {topic:kafka.topic,partition:kafka.partition,offset:kafka.offset}"
        ).to_list()
    ]


def require_once(raw: Pool, broker: Broker, *topics: str) -> None:
    """Each committed record of the topics is in the pool once, with dense numbers and rising offsets."""
    there = places(raw)
    expected = [(topic, r.partition, r.offset) for topic in topics for r in read_all(broker.bootstrap, topic)]
    assert sorted(there) == sorted(expected)
    assert [value.data for value in raw.query("sort seqno | yield seqno")] == list(range(1, len(there) + 1))
    for topic, partition in {place[:2] for place in there}:
        offsets = [offset for t, p, offset in there if (t, p) == (topic, partition)]
        assert offsets == sorted(offsets)


def test_records_come_with_all_that_kafka_knows_of_them(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    at = 1_700_000_000_123
    headers = (("trace", b"\x01"), ("trace", None))
    produce(
        broker.bootstrap, topic, [Record(b'{"a":1,"b":[1,"x"]}', b"key", headers, timestamp=at), Record(None, b"key")]
    )
    read_to_the_end(lake, broker, topic)
    first, second = raw.query("sort seqno")
    assert shoal.to_python(first) == {
        "seqno": 1,
        "kafka": {
            "topic": topic, "partition": 0, "offset": 0, "timestamp": shoal.to_python(first)["kafka"]["timestamp"],
            "key": "key", "headers": [{"key": "trace", "value": b"\x01"}, {"key": "trace", "value": None}],
        },
        "value": {"a": 1, "b": [1, "x"]},
    }  # fmt: skip
    assert str(shoal.to_python(first)["kafka"]["timestamp"]) == "2023-11-14T22:13:20.123000000"
    assert second.field("value").data is None  # type: ignore[union-attr]


def test_a_sync_goes_on_where_the_branch_is(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    for start in (0, 10, 20):
        produce(broker.bootstrap, topic, numbered(10, start))
        read_to_the_end(lake, broker, topic)
        read_to_the_end(lake, broker, topic)
    require_once(raw, broker, topic)
    assert len(list(raw.log())) == 3
    assert read_positions(raw).positions.topic(topic).next == (30,)


def test_aborted_transactions_are_gaps(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    for number in range(4):
        produce_transaction(broker.bootstrap, {topic: numbered(5, 10 * number)}, commit=number != 2)
        read_to_the_end(lake, broker, topic)
    require_once(raw, broker, topic)
    assert len(places(raw)) == 15


def test_compactions_and_deletions_do_not_disturb_a_sync(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    for start in (0, 10):
        produce(broker.bootstrap, topic, numbered(10, start))
        read_to_the_end(lake, broker, topic)
    raw.compact([o.id for o in raw.objects()])
    raw.delete(where="value.n == 3")
    produce(broker.bootstrap, topic, numbered(10, 20))
    read_to_the_end(lake, broker, topic)
    assert [value.data for value in raw.query("sort seqno | yield seqno")] == [n for n in range(1, 31) if n != 4]


def test_positions_are_found_in_the_records_if_history_is_cut(
    lake: Lake, raw: Pool, broker: Broker, topic: str
) -> None:
    produce(broker.bootstrap, topic, numbered(10))
    read_to_the_end(lake, broker, topic)
    raw.delete(where="value.n == 3")
    raw.vacate(str(raw.resolve()))
    produce(broker.bootstrap, topic, numbered(5, 10))
    read_to_the_end(lake, broker, topic)
    assert [value.data for value in raw.query("sort seqno | yield value.n")] == [n for n in range(15) if n != 3]
    assert [value.data for value in raw.query("sort seqno | yield seqno")][-1] == 15


def test_bad_records_are_errors_beside_the_others(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    produce(
        broker.bootstrap, topic, [Record(b'{"n":1}'), Record(b'{"n":'), Record(b"\xff", b"\xff"), Record(b'{"n":4}')]
    )
    read_to_the_end(lake, broker, topic)
    errors = raw.query("is_error(value) | sort seqno | yield {seqno, bytes:under(value).bytes}").to_list()
    assert errors == [{"seqno": 2, "bytes": b'{"n":'}, {"seqno": 3, "bytes": b"\xff"}]
    assert raw.query("is_error(kafka.key) | count()").to_list() == [1]
    assert read_positions(raw).positions.bad == 2


def test_too_many_bad_records_stop_a_sync_before_they_are_committed(
    lake: Lake, raw: Pool, broker: Broker, topic: str
) -> None:
    produce(broker.bootstrap, topic, [b'{"n":1}', b"x", b"y"])
    with pytest.raises(InvalidInput, match=r"2 records could not be decoded, and -max-bad is 1.*at offset 1"):
        read_to_the_end(lake, broker, topic, **{"max-bad": 1})
    assert raw.resolve() is None


def test_the_beginning_of_a_topic_can_be_chosen(lake: Lake, broker: Broker, topic: str) -> None:
    records = [Record(b'{"n":%d}' % n, timestamp=1_700_000_000_000 + 1000 * n) for n in range(10)]
    produce(broker.bootstrap, topic, records)
    for begin, expected in (
        ("earliest", 10),
        ("latest", 0),
        ("2023-11-14T22:13:27Z", 3),
        (f"{topic}:0=4", 6),
    ):
        fresh = shoal.create("memory://")
        fresh.create("raw", key="seqno")
        read_to_the_end(fresh, broker, topic, source={"from": begin})
        assert len(places(fresh.pool("raw"))) == expected, begin


def test_an_added_partition_is_read_from_its_beginning(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    produce(broker.bootstrap, topic, numbered(3))
    read_to_the_end(lake, broker, topic)
    broker.add_partitions(topic, 2)
    produce(broker.bootstrap, topic, numbered(3, 10, partition=1))
    read_to_the_end(lake, broker, topic, source={"from": "latest"})
    require_once(raw, broker, topic)


def test_a_topic_that_was_created_again_is_refused_until_somebody_decides(
    lake: Lake, raw: Pool, broker: Broker, topic: str
) -> None:
    produce(broker.bootstrap, topic, numbered(3))
    read_to_the_end(lake, broker, topic)
    broker.delete_topic(topic)
    broker.create_topic(topic)
    produce(broker.bootstrap, topic, numbered(5, 10))
    with pytest.raises(InvalidInput, match=r"was deleted and created again.*-on-recreate restart"):
        read_to_the_end(lake, broker, topic)
    for _ in range(2):
        read_to_the_end(lake, broker, topic, **{"on-recreate": "restart"})
    assert [value.data for value in raw.query("sort seqno | yield value.n")] == [0, 1, 2, 10, 11, 12, 13, 14]


def test_records_that_retention_has_deleted_are_an_error(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    produce(broker.bootstrap, topic, numbered(3))
    read_to_the_end(lake, broker, topic)
    produce(broker.bootstrap, topic, numbered(5, 3))
    broker.delete_records(topic, {0: 6})
    with pytest.raises(InvalidInput, match=r"records from offset 3 to 5 are gone.*-on-loss skip"):
        read_to_the_end(lake, broker, topic)
    read_to_the_end(lake, broker, topic, **{"on-loss": "skip"})
    assert [value.data for value in raw.query("sort seqno | yield value.n")] == [0, 1, 2, 6, 7]


def test_a_topic_that_is_not_there_is_named_with_one_that_is_like_it(lake: Lake, broker: Broker) -> None:
    broker.create_topic("invoices-of-today")
    with pytest.raises(NotFound, match=r"no topic named 'invoice-of-today' \(did you mean invoices-of-today\?\)"):
        read_to_the_end(lake, broker, "invoice-of-today")


def test_a_pool_with_another_key_is_refused(lake: Lake, broker: Broker, topic: str) -> None:
    lake.create("other", key="ts")
    with pytest.raises(InvalidInput, match=r"other: a pool of records from Kafka is sorted by seqno"):
        read_to_the_end(lake, broker, topic, source={"pool": "other"})


@contextmanager
def running(*workers: Worker) -> Iterator[list[BaseException]]:
    """Workers in threads, until the block ends; what they have raised."""
    over, raised = threading.Event(), list[BaseException]()

    def run(each: Worker) -> None:
        try:
            each.run(over.is_set)
        except BaseException as e:
            raised.append(e)

    threads = [threading.Thread(target=run, args=(each,)) for each in workers]
    for thread in threads:
        thread.start()
    try:
        yield raised
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


def wait_for(raw: Pool, count: int, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if raw.resolve() is not None and raw.query("count()").to_list() == [count]:
            return
        time.sleep(0.1)
    raise AssertionError(f"{raw.query('count()').to_list()} of {count} records")


def test_workers_of_a_group_share_the_partitions(lake: Lake, raw: Pool, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 4)
    commits: list[Event] = []
    batch = {"every": "50ms"}
    group = [
        worker(lake, broker, topic_name, commits.append, share=None, batch=batch, group=topic_name) for _ in range(3)
    ]
    with running(*group[:2]) as raised:
        for start in range(0, 200, 20):
            produce(broker.bootstrap, topic_name, [r for p in range(4) for r in numbered(5, start + 5 * p, p)])
            if start == 100:
                with running(group[2]) as later:
                    time.sleep(1)
        wait_for(raw, 200)
    assert not raised
    assert not later
    require_once(raw, broker, topic_name)


def test_zombies_that_read_the_same_partitions_add_nothing(
    lake: Lake, raw: Pool, broker: Broker, topic_name: str
) -> None:
    """Three workers believe that all partitions are theirs."""
    broker.create_topic(topic_name, 2)
    events: list[Event] = []
    zombies = [worker(lake, broker, topic_name, events.append, batch={"every": "20ms"}) for _ in range(3)]
    with running(*zombies) as raised:
        for start in range(0, 100, 10):
            produce(broker.bootstrap, topic_name, [r for p in range(2) for r in numbered(5, start + 5 * p, p)])
            time.sleep(0.05)
        wait_for(raw, 100)
    assert not raised
    require_once(raw, broker, topic_name)


def test_a_broker_that_comes_back_is_read_on(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    produce(broker.bootstrap, topic, numbered(10))
    with running(worker(lake, broker, topic, batch={"every": "50ms"})) as raised:
        wait_for(raw, 10)
        broker.kill()
        time.sleep(1)
        broker.restart()
        produce(broker.bootstrap, topic, numbered(10, 10))
        wait_for(raw, 20)
    assert not raised
    require_once(raw, broker, topic)


def test_several_topics_with_their_own_decoders_go_into_one_pool(
    lake: Lake, raw: Pool, broker: Broker, topic_name: str
) -> None:
    names = [f"{topic_name}.{kind}" for kind in ("json", "text")]
    for name in names:
        broker.create_topic(name)
    produce(broker.bootstrap, names[0], numbered(5))
    produce(broker.bootstrap, names[1], [b"one", b"two"])
    inputs = [
        {"topics": f"^{topic_name}[.]json", "pool": "raw"},
        {"topics": names[1], "pool": "raw", "value": "text", "key": "bytes"},
    ]
    section = Section("test", {"from-kafka": {"inputs": inputs}})
    kafka = Connection({"bootstrap.servers": broker.bootstrap})
    Worker(lake, kafka, parse_from_kafka(section), open_decoder, share=(0, 1)).run(deadline(60), once=True)
    require_once(raw, broker, *names)
    assert sorted(raw.query("is(value, <string>) | yield value").to_list()) == ["one", "two"]


def test_records_of_one_batch_are_numbered_in_the_order_of_their_times(
    lake: Lake, raw: Pool, broker: Broker, topic_name: str
) -> None:
    """Over topics and partitions; but records of one partition keep their order, whatever their times."""
    names = [f"{topic_name}.{letter}" for letter in "ab"]
    at = 1_700_000_000_000
    for name, times in zip(names, [(1, 4, 5), (2, 3, 9, 6)], strict=True):
        broker.create_topic(name)
        produce(broker.bootstrap, name, [Record(b"%d" % n, timestamp=at + n) for n in times])
    read_to_the_end(lake, broker, names)
    assert raw.query("sort seqno | yield value").to_list() == [1, 2, 3, 4, 5, 9, 6]
    require_once(raw, broker, *names)


def test_markers_of_transactions_are_no_lag(lake: Lake, raw: Pool, broker: Broker, topic: str) -> None:
    produce_transaction(broker.bootstrap, {topic: numbered(3)})
    read_to_the_end(lake, broker, topic)
    assert read_positions(raw).positions.topic(topic).next == (4,)
    section = Section("test", {"from-kafka": {"inputs": [{"topics": topic, "pool": "raw"}]}})
    (row,) = status(lake, Connection({"bootstrap.servers": broker.bootstrap}), parse_from_kafka(section))
    assert {name: shoal.to_python(row)[name] for name in ("next", "end", "lag")} == {"next": 4, "end": 4, "lag": 0}
