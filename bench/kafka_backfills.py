"""Ways to fill a pool from a topic with tasks that were not taken, for `docs/adr/0050-backfills-on-spark.md`."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from shoal.api.branch import NO_COMMIT
from shoal.api.lake import Lake
from shoal.api.requests import NO_NOTE
from shoal.connect.kafka.backfill import LENGTH
from shoal.connect.kafka.config import FromKafka
from shoal.connect.kafka.connection import Connection
from shoal.connect.kafka.decoders import open_decoder
from shoal.connect.kafka.messages import Message, message_of
from shoal.connect.kafka.range_tasks import Cluster, Range, RangeRead, count_range, read_range
from shoal.connect.kafka.raw_records import decode
from shoal.engines.spark.jobs import run_over, run_tasks
from shoal.engines.spark.session import spark_session
from shoal.ids import new, to_text
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.local.executor import stored
from shoal.local.loads import commit_written

_MICROSECOND = 1000


def run_nothing() -> None:
    """Start the Python workers of Spark."""
    assert list(run_tasks(_nothing, [0, 1, 2, 3], at_once=True)) == [0, 1, 2, 3]


def _nothing(payload: int) -> list[int]:
    return [payload]


def _ranges(connection: Connection, config: FromKafka) -> list[Range]:
    (source,) = config.inputs
    places = [(topic, n) for topic in source.topics for n in range(connection.partitions()[topic])]
    ranges = []
    for place, end in connection.ends(places).items():
        cuts = [*range(0, end, LENGTH), end]
        ranges += [Range(*place, low, high, source.key, source.value) for low, high in pairwise(cuts)]
    return ranges


def _commit(lake: Any, pool: Pool, objects: list[DataObject]) -> None:
    position = pool.journal.read().position
    commit_written(lake, pool, "main", objects, NO_NOTE, to_text(new()), NO_COMMIT, position)


def count_all(connection: Connection, config: FromKafka) -> int:
    """Only the first pass."""
    cluster = Cluster(connection.settings, config.group)
    return sum(run_tasks(count_range, [RangeRead(cluster, r) for r in _ranges(connection, config)], at_once=True))


# ---- numbers come later


@dataclass
class Aside:
    """A range whose decoded records are kept in a file."""

    read: RangeRead
    file: Path
    pool: Pool
    first: int = 0


def number_later(lake: Lake, connection: Connection, config: FromKafka, folder: Path) -> None:
    """Tasks decode what they read once, and keep it; when the counts are known others write it."""
    folder.mkdir()
    pool, cluster = stored(lake.pool("raw")), Cluster(connection.settings, config.group)
    work = [
        Aside(RangeRead(cluster, each), folder / str(n), pool) for n, each in enumerate(_ranges(connection, config))
    ]
    counts = list(run_tasks(keep, work, at_once=True))
    for each, first in zip(work, accumulate(counts, initial=1), strict=False):
        each.first = first
    _commit(lake, pool, [o for objects in run_tasks(number, work, at_once=True) for o in objects])


def keep(work: Aside) -> Iterator[int]:
    """Decode a range and keep it; how many records it has."""
    key, value = open_decoder(work.read.range.key), open_decoder(work.read.range.value)
    count = 0
    with work.file.open("wb") as out:
        for records in read_range(work.read.cluster, work.read.range):
            pickle.dump(decode([message_of(each) for each in records], key, value), out)
            count += len(records)
    yield count


def number(work: Aside) -> Iterator[list[DataObject]]:
    """Write what was kept, with numbers."""
    writer, first = work.pool.writer(), work.first
    with work.file.open("rb") as kept:
        while kept.peek(1):
            decoded = pickle.load(kept)
            writer.write_batch(decoded.numbered(first, np.arange(len(decoded))))
            first += len(decoded)
    yield writer.close()


# ---- Spark's own source


def read_source(lake: Lake, bootstrap: str, topic: str) -> None:
    """Its rows are counted, and then decoded, with the same ranges both times."""
    frame = (
        spark_session()
        .read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    pool = stored(lake.pool("raw"))
    counts = dict(run_over(frame.select("partition", "offset"), count_rows, None))
    firsts = dict(zip(sorted(counts), accumulate((counts[key] for key in sorted(counts)), initial=1), strict=False))
    _commit(lake, pool, [o for objects in run_over(frame, write_rows, (pool, firsts)) for o in objects])


def count_rows(payload: None, batches: Iterator[Any]) -> Iterable[tuple[tuple[int, int], int]]:
    """Where the rows of a task begin, and how many there are."""
    place, count = None, 0
    for batch in batches:
        if batch.num_rows:
            place = place or (batch.column(0)[0].as_py(), batch.column(1)[0].as_py())
            count += batch.num_rows
    return [] if place is None else [(place, count)]


def write_rows(payload: tuple[Pool, dict[tuple[int, int], int]], batches: Iterator[Any]) -> Iterable[list[DataObject]]:
    """Decode and write the rows of a task."""
    pool, firsts = payload
    key, value, writer, first = open_decoder("text"), open_decoder("json"), pool.writer(), 0
    for batch in batches:
        if batch.num_rows:
            messages = _messages(batch)
            first = first or firsts[messages[0].partition, messages[0].offset]
            decoded = decode(messages, key, value)
            writer.write_batch(decoded.numbered(first, np.arange(len(decoded))))
            first += len(decoded)
    return [writer.close()]


def _messages(batch: Any) -> list[Message]:
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    times = batch.column("timestamp").cast("int64").to_pylist()
    columns = [times if name == "timestamp" else batch.column(name).to_pylist() for name in names]
    return [
        Message(
            topic, partition, offset, at * _MICROSECOND, key, value, tuple((h["key"], h["value"]) for h in hs or ())
        )
        for topic, partition, offset, at, key, value, hs in zip(*columns, strict=True)
    ]
