"""Deletion of one day out of a hundred: `python -m bench.partitions` counts what it reads and writes of data.

Its pool key is not the time, so that without partitions every object has records of that day.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from shoal.lake.lake import Lake, create
from shoal.local.lake import LocalLake
from shoal.storage.faults import FaultyStore
from shoal.storage.memory import MemoryStore

DAYS, RECORDS = 100, 200_000
_FIRST, _DAY = 1_704_067_200, 86_400
_WHERE = "ts >= 2024-02-10T00:00:00Z and ts < 2024-02-11T00:00:00Z"
_WAYS = (
    ("no partitions, delete -where", "", _WHERE, None),
    ("partitions, delete -where", "bucket(ts,1d)", _WHERE, None),
    ("partitions, delete -partition", "bucket(ts,1d)", None, "2024-02-10T00:00:00Z"),
)


def measure(partition: str, where: str | None, value: str | None) -> tuple[float, float, int, int]:
    """Seconds of the load and of the deletion, and how often the deletion reads and writes data or masks."""
    store = FaultyStore(MemoryStore(), lambda number, name, key: None)
    made = LocalLake(create(store))
    pool = made.create("logs", key="id", partition=partition, object_size=1 << 20)
    numbers = np.arange(RECORDS)
    times = ((_FIRST + numbers % DAYS * _DAY + numbers // DAYS) * 1_000_000).astype("datetime64[us]")
    table = pa.table({"id": numbers, "ts": times, "host": [f"h{i % 17}" for i in range(RECORDS)]})
    began = time.perf_counter()
    pool.load(table)
    loaded = time.perf_counter()
    fresh = LocalLake(Lake(store, made.root.info)).pool("logs")
    store.calls.clear()
    fresh.delete(where=where, partition=value)
    deleted = time.perf_counter()
    calls = [name for name, key in store.calls if "/data/" in key or "/masks/" in key]
    written = sum(name in ("put", "create") for name in calls)
    return loaded - began, deleted - loaded, len(calls) - written, written


def main() -> None:
    """Print a line for each way."""
    print(f"{RECORDS:,} records of {DAYS} days, one day deleted, in memory")
    print(f"{'':>30} {'load s':>7} {'delete s':>9} {'data reads':>11} {'data writes':>12}")
    for name, partition, where, value in _WAYS:
        load, delete, reads, writes = measure(partition, where, value)
        print(f"{name:>30} {load:>7.2f} {delete:>9.3f} {reads:>11} {writes:>12}")


if __name__ == "__main__":
    main()
