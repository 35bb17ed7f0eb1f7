"""What tasks of a backfill do: read a range of offsets of a partition, to count its records or to write them.

A range has fewer records than offsets: control records, aborted transactions and compaction leave gaps. So a range is
over when a record behind it has come, or the end of the partition, and never when some number of records has.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shoal.connect.kafka.config import RegistrySettings
from shoal.connect.kafka.connection import Connection, error_of
from shoal.connect.kafka.decoders import Decoder, open_decoder
from shoal.connect.kafka.messages import message_of
from shoal.connect.kafka.raw_records import Decoded, decode
from shoal.connect.kafka.registry import Registry
from shoal.errors import Conflict, StorageFailure, Unsupported
from shoal.extras import is_installed
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    import confluent_kafka as ck
    import numpy as np
else:
    ck = lazy("confluent_kafka")
    np = lazy("numpy")

LIBRARY = "confluent_kafka"
_AT_ONCE = 10_000
"""How many records are decoded at a time."""
_WAIT = 0.05
_PATIENCE = 30.0
"""Seconds without any news of a partition after which its broker counts as away."""
_READ_AHEAD = {
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 10,
}
"""What is read ahead of the end of a range is read in vain. When that much is there, the client stops fetching, by
default for a whole second."""


@frozen
class Range:
    """Neighbouring offsets of a partition."""

    topic: str
    partition: int
    begin: int
    end: int
    """The offset after the last one."""
    key: str
    """The decoder of keys."""
    value: str

    @property
    def place(self) -> tuple[str, int]:
        """The partition."""
        return self.topic, self.partition

    def __len__(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] from offset {self.begin} to {self.end - 1}"


@frozen
class Cluster:
    """How tasks reach the brokers and the registry. It may have secrets."""

    settings: Mapping[str, str] = field(repr=False)
    group: str
    registry: RegistrySettings | None = None


@frozen
class RangeRead:
    """The input of a task that counts."""

    cluster: Cluster
    range: Range


@frozen
class RangeWrite:
    """The input of a task that writes."""

    cluster: Cluster
    range: Range
    pool: Pool
    first: int
    """The number of its first record."""
    count: int
    """How many records were counted."""


@frozen
class Written:
    """The output of a task that writes."""

    objects: list[DataObject]
    bad: int
    first_bad: str = ""
    """Where the first record is that could not be decoded."""


def count_range(work: RangeRead) -> Iterator[int]:
    """How many records a range has. Runs in a task."""
    yield sum(map(len, read_range(work.cluster, work.range)))


def write_range(work: RangeWrite) -> Iterator[Written]:
    """Write the records of a range, with their numbers; Conflict if they are not those that were counted.

    Runs in a task.
    """
    key, value = _decoder(work.range.key, work.cluster), _decoder(work.range.value, work.cluster)
    writer = work.pool.writer()
    count = bad = 0
    first_bad = ""
    try:
        for records in read_range(work.cluster, work.range):
            decoded = decode([message_of(record) for record in records], key, value)
            writer.write_batch(decoded.numbered(work.first + count, np.arange(len(decoded), dtype=np.int64)))
            count += len(decoded)
            first_bad = first_bad or _first_bad(decoded)
            bad += int(decoded.is_bad.sum())
        if count != work.count:
            raise Conflict(f"{work.range}: {count} records, and {work.count} when they were counted")
        yield Written(writer.close(), bad, first_bad)
    except BaseException:
        writer.discard()
        raise


def _first_bad(decoded: Decoded) -> str:
    if not decoded.is_bad.any():
        return ""
    row = int(decoded.is_bad.argmax())
    return f"{decoded.topics[row]}[{decoded.partitions[row]}] at offset {decoded.offsets[row]}"


def read_range(cluster: Cluster, part: Range) -> Iterator[list[Any]]:
    """The records of a range, as the client gives them. Conflict if the broker has deleted some meanwhile."""
    _require_library()
    connection = Connection(cluster.settings)
    consumer = connection.consumer(cluster.group, _READ_AHEAD)
    try:
        consumer.assign([ck.TopicPartition(*part.place, part.begin)])
        heard, is_over = time.monotonic(), False
        while not is_over:
            records = consumer.consume(_AT_ONCE, _WAIT)
            connection.require_access()
            if records:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE:
                raise connection.trouble(heard) or StorageFailure(f"kafka at {connection.where}: no news of {part}")
            within, is_over = _within(records, part, connection)
            if within:
                yield within
    finally:
        with suppress(ck.KafkaException):
            consumer.close()


def _within(records: list[Any], part: Range, connection: Connection) -> tuple[list[Any], bool]:
    """The records that are in a range, and whether it is over."""
    within = list[Any]()
    for record in records:
        error = record.error()
        if error is None:
            if record.offset() >= part.end:
                return within, True
            within.append(record)
        elif error.code() == ck.KafkaError._PARTITION_EOF:
            if record.offset() >= part.end:
                return within, True
        elif error.code() in (ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE):
            raise Conflict(f"{part}: records were deleted before they were read")
        elif error.fatal():
            raise error_of(error, connection.where)
    return within, bool(within) and within[-1].offset() == part.end - 1


def _require_library() -> None:
    """Unsupported if this machine lacks the client of Kafka."""
    if not is_installed(LIBRARY):
        raise Unsupported(
            f"executor {platform.node()} (Python {platform.python_version()}) lacks {LIBRARY} (install it there, or "
            "send it along: shoal spark pack writes an archive for SHOAL_SPARK_LIBRARIES)"
        )


def _decoder(name: str, cluster: Cluster) -> Decoder:
    return open_decoder(name, None if cluster.registry is None else _registry(cluster.registry))


@lru_cache(maxsize=8)
def _registry(settings: RegistrySettings) -> Registry:
    """The registry, once in a process: it keeps the schemas that it was asked for."""
    return Registry(settings.url, settings.login, ca_file=settings.ca)
