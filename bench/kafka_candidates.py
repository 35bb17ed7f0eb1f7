"""What reads a topic, each in a process of its own: `python -m bench.kafka_candidates NAME BOOTSTRAP TOPIC COUNT`.

Spark has started, and has run a first job, before the clock does. All give columns of what is in the JSON.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq

import shoal
from bench import kafka_backfills, processes
from bench.kafka_inputs import PARTITIONS, connection, plan, raw_lake
from shoal.api.lake import Lake
from shoal.connect.kafka.backfill import Backfill
from shoal.connect.kafka.decoders import open_decoder
from shoal.connect.kafka.events import Event
from shoal.connect.kafka.from_kafka import Fill, Worker
from shoal.engines.spark.session import spark_session

_SCHEMA = (
    "id long, customer string, state string, total double, at string, address struct<city: string, zip: string>, "
    "items array<struct<sku: string, quantity: long>>"
)
_GROUP_ROWS = 100_000
Result = dict[str, Any]


def main() -> None:
    """Run a candidate."""
    name, bootstrap, topic, count = sys.argv[1:5]
    with tempfile.TemporaryDirectory() as folder:
        processes.report(**CANDIDATES[name](bootstrap, topic, int(count), Path(folder)))


def worker(bootstrap: str, topic: str, count: int, folder: Path) -> Result:
    """`shoal sync from-kafka -once`, one worker."""
    lake = raw_lake(folder)
    began = time.perf_counter()
    _sync(lake, bootstrap, topic)
    return _checked(lake, count, time.perf_counter() - began)


def backfill(bootstrap: str, topic: str, count: int, folder: Path) -> Result:
    """`shoal sync from-kafka -engine spark -once`, but for the start of Spark."""
    lake = raw_lake(folder)
    _warm()
    began = time.perf_counter()
    work = Backfill(connection(bootstrap), plan(topic), None, engine="spark")
    _sync(lake, bootstrap, topic, work.run)
    return _checked(lake, count, time.perf_counter() - began)


def later(bootstrap: str, topic: str, count: int, folder: Path) -> Result:
    """Tasks write what they have decoded, and others give it numbers."""
    lake = raw_lake(folder)
    _warm()
    began = time.perf_counter()
    kafka_backfills.number_later(lake, connection(bootstrap), plan(topic), folder / "aside")
    return _checked(lake, count, time.perf_counter() - began)


def counting(bootstrap: str, topic: str, count: int, folder: Path) -> Result:
    """Tasks that only count."""
    _warm()
    began = time.perf_counter()
    assert kafka_backfills.count_all(connection(bootstrap), plan(topic)) == count
    return {"seconds": time.perf_counter() - began}


def source(bootstrap: str, topic: str, count: int, folder: Path) -> Result:
    """Spark's own source of Kafka, which feeds the same decoders."""
    lake = raw_lake(folder)
    _warm()
    began = time.perf_counter()
    kafka_backfills.read_source(lake, bootstrap, topic)
    return _checked(lake, count, time.perf_counter() - began)


def consumer(bootstrap: str, topic: str, count: int, folder: Path) -> Result:
    """The client of Kafka, JSON by pyarrow, and Parquet."""
    import confluent_kafka as ck  # noqa: PLC0415 - not for Spark

    began = time.perf_counter()
    client = ck.Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"{topic}-plain", "enable.partition.eof": True,
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 100,
    })  # fmt: skip
    client.subscribe([topic])
    ended, rows, number, total = set[int](), list[Any](), 0, 0
    while len(ended) < 4:
        for record in client.consume(10_000, 0.1):
            if record.error() is None:
                rows.append(record)
            else:
                ended.add(record.partition() or 0)
        if len(rows) >= _GROUP_ROWS or (rows and len(ended) == 4):
            pq.write_table(_table(rows), folder / f"{number}.parquet", compression="zstd")
            number, total, rows = number + 1, total + len(rows), []
    client.close()
    seconds = time.perf_counter() - began
    assert total == count == pq.read_table(folder, columns=["id"]).num_rows
    return {"seconds": seconds}


def _table(rows: list[Any]) -> pa.Table:
    table = pa_json.read_json(pa.BufferReader(b"\n".join(row.value() for row in rows)))
    columns: dict[str, Any] = {
        "partition": [row.partition() for row in rows],
        "offset": [row.offset() for row in rows],
        "timestamp": [row.timestamp()[1] for row in rows],
        "key": [row.key() for row in rows],
    }
    for name, values in columns.items():
        table = table.append_column(f"kafka_{name}", pa.array(values))
    return table


def stream(bootstrap: str, topic: str, count: int, folder: Path) -> Result:
    """Structured streaming of Spark to Parquet, by a trigger that reads what there is."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - not without Spark

    spark = _warm()
    began = time.perf_counter()
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    value = f.from_json(f.col("value").cast("string"), _SCHEMA).alias("value")
    columns = rows.select("topic", "partition", "offset", "timestamp", f.col("key").cast("string"), value)
    query = (
        columns.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("compression", "zstd")
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    seconds = time.perf_counter() - began
    assert spark.read.parquet(str(folder / "out")).where("value.id is not null").count() == count
    return {"seconds": seconds}


def lag(bootstrap: str, topic: str, count: int, folder: Path) -> Result:
    """A worker beside a producer: seconds from the timestamp of each record to the report of its commit."""
    lake = raw_lake(folder)
    commits: list[tuple[float, int]] = []

    def note(event: Event) -> None:
        if event.kind == "commit":
            commits.append((time.time(), event.facts["records"]))

    def is_over() -> bool:
        return sum(records for _, records in commits) >= count

    Worker(lake, connection(bootstrap), plan(topic), open_decoder, note).run(is_over)
    stamps = [value.data / 1e9 for value in lake.query("from raw | sort seqno | yield kafka.timestamp")]
    told = [at for at, records in commits for _ in range(records)]
    all_waits = [at - stamp for at, stamp in zip(told, stamps, strict=True)]
    waits = sorted(all_waits[PARTITIONS:])  # the first ones were there before it began
    return {"max": waits[-1], "p95": waits[int(0.95 * len(waits))], "median": waits[len(waits) // 2]}


def _warm() -> Any:
    spark = spark_session()
    kafka_backfills.run_nothing()
    return spark


def _sync(lake: Lake, bootstrap: str, topic: str, backfill: Fill | None = None) -> None:
    Worker(lake, connection(bootstrap), plan(topic), open_decoder, backfill=backfill).run(lambda: False, once=True)


def _checked(lake: Lake, count: int, seconds: float) -> Result:
    (row,) = shoal.open(lake.uri).query("from raw | n:=count(), last:=max(seqno), ids:=sum(value.id)").to_list()
    assert row == {"n": count, "last": count, "ids": count * (count - 1) // 2}, row
    return {"seconds": seconds, "commits": len(list(lake.pool("raw").log()))}


CANDIDATES: dict[str, Callable[[str, str, int, Path], Result]] = {
    "worker": worker,
    "consumer": consumer,
    "stream": stream,
    "backfill": backfill,
    "later": later,
    "counting": counting,
    "source": source,
    "lag": lag,
}


if __name__ == "__main__":
    main()
