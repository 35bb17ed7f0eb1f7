"""Topics of orders, one shape of JSON, and what a worker is given to read them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

import shoal
from shoal.api.lake import Lake
from shoal.connect.kafka.config import FromKafka, parse_from_kafka
from shoal.connect.kafka.connection import Connection
from shoal.connect.settings import Section

PARTITIONS = 4
_STATES = ("new", "paid", "sent", "returned")
_AHEAD = 50_000
"""Records that a producer may hold."""


def orders(count: int, seed: int = 7) -> Iterator[bytes]:
    """Orders as JSON, some 200 bytes each."""
    dice = random.Random(seed)
    for n in range(count):
        yield json.dumps(
            {
                "id": n,
                "customer": f"customer-{dice.randrange(10_000)}",
                "state": dice.choice(_STATES),
                "total": round(dice.random() * 1000, 2),
                "at": f"2024-03-{dice.randrange(1, 29):02d}T{dice.randrange(24):02d}:15:00Z",
                "address": {"city": f"city {dice.randrange(500)}", "zip": f"{dice.randrange(10**5):05d}"},
                "items": [{"sku": f"sku-{dice.randrange(5000)}", "quantity": dice.randrange(1, 9)} for _ in range(2)],
            },
            separators=(",", ":"),
        ).encode()


def fill(bootstrap: str, topic: str, count: int, rate: float | None = None) -> int:
    """Send orders to all partitions in turn; their bytes. With a rate, this many a second."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 2 * _AHEAD})
    began, size = time.time(), 0
    for n, order in enumerate(orders(count)):
        if rate is not None:
            time.sleep(max(0.0, began + n / rate - time.time()) if n % 50 == 0 else 0)
        elif len(producer) >= _AHEAD:
            producer.poll(0.2)
        producer.produce(topic, order, b"%d" % n, partition=n % PARTITIONS)
        producer.poll(0)
        size += len(order)
    producer.flush()
    return size


def raw_lake(folder: Path) -> Lake:
    """A new lake with a pool for records."""
    lake = shoal.create(folder / "lake")
    lake.create("raw", key="seqno")
    return lake


def plan(topic: str, **settings: Any) -> FromKafka:
    """What reads a topic into that pool."""
    return parse_from_kafka(
        Section("bench", {"from-kafka": {"inputs": [{"topics": topic, "pool": "raw"}], "group": topic, **settings}})
    )


def connection(bootstrap: str) -> Connection:
    """The connection to the broker."""
    return Connection({"bootstrap.servers": bootstrap})
