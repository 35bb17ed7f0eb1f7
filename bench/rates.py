"""Rates of the row formats on mixed logs: records and megabytes per second on one core."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from shoal.api.options import ReadOptions
from shoal.formats import registry
from shoal.formats.streams import WriteOptions
from shoal.model.values import Value

RECORDS = 100_000
FORMATS = ("zson", "zng", "json", "zjson", "vng")


def measure(source: Path) -> list[tuple[str, float, float, float, float]]:
    """Format, records per second written and read, megabytes per second written and read."""
    with source.open("rb") as file:
        values = list(islice(registry.by_name("json").load_reader()(file, ReadOptions()), RECORDS))
    return [_measure(name, values) for name in FORMATS]


def _measure(name: str, values: list[Value]) -> tuple[str, float, float, float, float]:
    form = registry.by_name(name)
    data = b""

    def write() -> None:
        nonlocal data
        out = io.BytesIO()
        writer = form.load_writer()(out, WriteOptions())
        for value in values:
            writer.write(value)
        writer.close()
        data = out.getvalue()

    def read() -> None:
        count = sum(1 for _ in form.load_reader()(io.BytesIO(data), ReadOptions()))
        assert count == len(values)

    writing, reading = _best(write), _best(read)
    megabytes = len(data) / 1e6
    return name, len(values) / writing, len(values) / reading, megabytes / writing, megabytes / reading


def _best(task: Callable[[], None], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)
