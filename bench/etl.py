"""Rounds of an ETL that is old beside rounds of one that is new: `python -m bench.etl [--rounds N]`.

A round has four records: a transaction begins, one ends, a record is transformed alone, one is not taken. The first
transaction never ends, so it holds the cursor. The old job has done all its rounds but the last 100 when the new one
begins. Then they go in turns, so that a change of the machine's speed affects both. Times of the processor are without
the times of other processes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import shoal
from shoal.connect.etl import Etl, parse_etl
from shoal.connect.settings import Section

MEASURED = 100
SETTINGS: dict[str, Any] = {
    "input": "raw",
    "output": "staging",
    "transforms": [
        {
            "type": "transaction",
            "in": ["a", "b"],
            "id": "value.txn",
            "done": "or(value.done)",
            "zed": "{txn}",
            "out": "t",
        },
        {"in": "c", "zed": "yield {x:value.x}", "out": "alone"},
    ],
}


def rounds(folder: Path) -> Iterator[tuple[float, float]]:
    """Rounds of a job: the seconds of each, and those of the processor."""
    lake = shoal.create(folder)
    raw = lake.create("raw", key="seqno:asc")
    lake.create("staging", key="seqno:desc")
    etl, number = Etl(lake, parse_etl(Section("bench", {"etl": SETTINGS}))), 0
    for n in count():
        values = [
            ("a", {"txn": n, "done": False}),
            ("b", {"txn": n - 1, "done": n > 1}),
            ("c", {"x": n}),
            ("d", {"x": n}),
        ]
        rows = []
        for topic, value in values:
            number += 1
            rows.append({"seqno": number, "kafka": {"topic": topic, "partition": 0, "offset": number}, "value": value})
        raw.load(rows)
        began, worked = time.perf_counter(), time.process_time()
        etl.round()
        yield time.perf_counter() - began, time.process_time() - worked


def measure(count: int, folder: Path) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """The times of the first rounds of a new job, and of the last ones of an old job."""
    old, new = rounds(folder / "old"), rounds(folder / "new")
    for _ in range(count - MEASURED):
        next(old)
    pairs = [(next(new), next(old)) for _ in range(MEASURED)]
    return [first for first, _ in pairs], [last for _, last in pairs]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    count = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        first, last = measure(count, Path(folder))
    print("| rounds | ms | ms of the processor |\n|---|---|---|")
    for name, times in ((f"1 to {MEASURED}", first), (f"{count - MEASURED + 1:,} to {count:,}", last)):
        wall, work = (1000 * statistics.median(time) for time in zip(*times, strict=True))
        print(f"| {name} | {wall:.1f} | {work:.1f} |")


if __name__ == "__main__":
    main()
