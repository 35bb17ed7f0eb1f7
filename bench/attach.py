"""Attaching many Parquet files where they are, beside the same in pyiceberg: `add_files` on a catalog in SQLite.

Both read the footers of the files alone, keep the bounds of each column, and make one durable commit. Each run has a
new lake, or warehouse; the files are the same, and in the cache of the system.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import shoal
from bench.tables import Cell, Table

FILES = 1_000
ROWS = 5_000
_HOSTS = 20
_SEED = 7


def write_files(folder: Path, count: int) -> list[str]:
    """Files of log records, each of another hour, not sorted by time."""
    rng = np.random.default_rng(_SEED)
    paths = []
    for number in range(count):
        hour = number * 3_600_000_000
        table = pa.table({
            "ts": pa.array(hour + rng.integers(0, 3_600_000_000, ROWS), pa.timestamp("us")),
            "host": [f"web-{i}" for i in rng.integers(0, _HOSTS, ROWS)],
            "status": rng.choice([200, 404, 500], ROWS),
            "took": rng.random(ROWS),
            "path": [f"/item/{i}" for i in rng.integers(0, ROWS, ROWS)],
        })  # fmt: skip
        paths.append(str(folder / f"{number:05}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=ROWS // 2)
    return paths


def attach(paths: list[str], folder: Path) -> float:
    """Seconds that Shoal takes."""
    pool = shoal.create(str(folder / "lake")).create("logs", key="ts")
    begin = time.perf_counter()
    pool.attach(paths)
    return time.perf_counter() - begin


def add_files(paths: list[str], folder: Path) -> float:
    """Seconds that pyiceberg takes."""
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - a peer

    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.logs", schema=pq.read_schema(paths[0]))
    begin = time.perf_counter()
    table.add_files(paths)
    return time.perf_counter() - begin


def measure(rounds: int, count: int = FILES) -> Table:
    """The best of some runs, the two taking turns."""
    candidates: dict[str, Callable[[list[str], Path], float]] = {"Shoal": attach, "pyiceberg": add_files}
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    with tempfile.TemporaryDirectory() as source:
        paths = write_files(Path(source), count)
        size = sum(Path(path).stat().st_size for path in paths)
        for _ in range(rounds):
            for name, run in candidates.items():
                with tempfile.TemporaryDirectory() as folder:
                    seconds[name].append(run(paths, Path(folder)))
    rows: list[tuple[Cell, ...]] = [(name, min(runs), count / min(runs)) for name, runs in seconds.items()]
    ratio = min(seconds["Shoal"]) / min(seconds["pyiceberg"])
    return Table(
        f"Attaching {count:,} Parquet files ({size / 1e6:.0f} MB) in place",
        ("", "s", "files/s"),
        rows,
        f"Footers alone are read. Shoal takes {ratio:.2f} times as long as pyiceberg.",
    )
