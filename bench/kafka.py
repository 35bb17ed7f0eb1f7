"""Topics into pools: `python -m bench.kafka`, and with `--write` the page `bench/KAFKA.md`.

A broker of its own, each candidate in a process of its own, one after the other; the best of some rounds counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import processes
from bench.kafka_inputs import PARTITIONS, fill
from bench.tables import Table
from shoal.testing.kafka.broker import Broker, running_broker
from shoal.testing.kafka.jars import jars

FILE = Path(__file__).parent / "KAFKA.md"
RECORDS, RATE, SECONDS = 1_000_000, 5_000, 30
ONE_PROCESS = {
    "consumer": "a plain consumer, pyarrow, Parquet",
    "worker": "shoal sync from-kafka, one worker",
    "stream": "Spark structured streaming, Parquet",
}
ON_SPARK = {
    "worker": "one worker, without Spark",
    "backfill": "shoal sync from-kafka -engine spark: count, then write",
    "counting": "of that, the tasks that count",
    "later": "write without numbers, then number",
    "source": "Spark's own source: count, then write",
}
_CORES = "local[2]"
Best = dict[str, tuple[float, int]]
"""Seconds and MiB of each candidate."""


def measure(broker: Broker, records: int, rounds: int) -> list[Table]:
    """How fast a topic is read."""
    topic = "orders"
    broker.create_topic(topic, PARTITIONS)
    size = fill(broker.bootstrap, topic, records)
    best = _best(dict.fromkeys([*ONE_PROCESS, *ON_SPARK]), broker, topic, records, rounds)
    note = f"{records:,} orders in JSON, {size / 1e6:.0f} MB, in {PARTITIONS} partitions."
    return [
        Table(f"{title} of a topic", (head, "s", "records/s", "MiB", f"beside {peer}"), rows, note)
        for title, head, rows, peer in (
            ("One reader", "reader", _rows(ONE_PROCESS, best, "consumer", records), "the consumer"),
            ("A backfill", "way", _rows(ON_SPARK, best, "worker", records), "one worker"),
        )
    ]


def _best(names: Iterable[str], broker: Broker, topic: str, records: int, rounds: int) -> Best:
    best: Best = {}
    for _ in range(rounds):
        for name in names:
            run = processes.run("bench.kafka_candidates", name, broker.bootstrap, topic, str(records))
            print(f"{name}: {run.results}, {run.peak} MiB", flush=True)
            best[name] = min(best.get(name, (float("inf"), 0)), (run.results["seconds"], run.peak))
    return best


def _rows(names: dict[str, str], best: Best, peer: str, records: int) -> list[tuple[str | int | float, ...]]:
    return [
        (text, best[name][0], round(records / best[name][0]), best[name][1], best[name][0] / best[peer][0])
        for name, text in names.items()
    ]


def lag(broker: Broker, rate: int, seconds: int) -> Table:
    """How long a record takes from its producer to a commit."""
    topic = "flow"
    broker.create_topic(topic, PARTITIONS)
    fill(broker.bootstrap, topic, PARTITIONS)
    count, results = rate * seconds + PARTITIONS, dict[str, Any]()

    def read() -> None:
        results.update(processes.run("bench.kafka_candidates", "lag", broker.bootstrap, topic, str(count)).results)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(8)  # the worker has begun by then
    fill(broker.bootstrap, topic, rate * seconds, rate)
    reader.join()
    rows = [(f"{rate:,} records/s for {seconds} s", results["median"], results["p95"], results["max"])]
    note = "Seconds from the timestamp of a record to the report of its commit; one worker that commits every second."
    return Table("Lag", ("produced", "median", "p95", "max"), rows, note)


def write(tables: list[Table], rounds: int) -> None:
    """Write the page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("confluent-kafka", "pyarrow", "pyspark"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    head = (
        f"Measured on {datetime.now(UTC).date().isoformat()}: {os.cpu_count()} cores, {memory:.0f} GiB of memory; "
        f"Python {platform.python_version()}, {versions}.\n`python -m bench.kafka --write` writes this page.\n\n"
        "The broker, the producer and all readers share the cores. Each reader ran in a process of its own, one after\n"
        f"the other, and the best of {rounds} rounds counts. Spark had started before the clock did. What Shoal has\n"
        "committed was compared with what was sent: each record is there once."
    )
    FILE.write_text("\n\n".join(["# Topics into pools", head, *(f"## {table}" for table in tables)]) + "\n")


def main() -> None:
    """Measure, print tables, and write the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    classes = f"{jars('spark')}/*"
    os.environ.update(
        SHOAL_SPARK_MASTER=_CORES, SHOAL_SPARK_CONF=f"spark.driver.memory=4g,spark.driver.extraClassPath={classes}"
    )
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder)) as broker:
        tables = [lag(broker, RATE, SECONDS), *measure(broker, args.records, args.rounds)]
    for table in tables:
        print(f"\n{table}")
    if args.write:
        write(tables, args.rounds)


if __name__ == "__main__":
    main()
