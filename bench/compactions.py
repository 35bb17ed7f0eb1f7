"""Compaction of many overlapping objects. `python -m bench.compactions` runs one compaction of a branch."""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import shoal
from bench import logs, processes
from bench.loads import WARM_UP
from shoal.engines.spark.session import spark_session

OBJECTS = 200
_WARM_UP_OBJECTS = 4
ENGINES = {"shoal": "duckdb", "shoal-spark": "spark"}
"""The compacting engine by name."""


def fill(lake: str, source: Path, records: int, objects: int) -> None:
    """Create a pool of `objects` objects. The source is not sorted by time, so every object spans all of it."""
    pool = shoal.create(lake).create("logs", key="ts")
    with tempfile.TemporaryDirectory() as directory, source.open("rb") as file:
        piece = Path(directory) / "piece.ndjson"
        for index in range(objects):
            lines = records * (index + 1) // objects - records * index // objects
            piece.write_bytes(b"".join(islice(file, lines)))
            pool.load(piece, engine="duckdb")


def branch(lake: str, name: str) -> None:
    """Create a branch to compact, so that other runs find the original objects."""
    shoal.open(lake).pool("logs").create_branch(name)


def compact(lake: str, branch: str, engine: str) -> None:
    """Compact every run of objects that is worth it."""
    for done in shoal.open(lake).pool("logs").branch(branch).compact_all(engine=engine):
        if done.commit is None:
            raise RuntimeError(f"objects could not be compacted: {done}")


def _warm_up() -> None:
    """Start Spark and run a small compaction."""
    spark_session()
    with tempfile.TemporaryDirectory() as directory:
        lake = f"{directory}/lake"
        fill(lake, logs.path(WARM_UP), WARM_UP, _WARM_UP_OBJECTS)
        compact(lake, "main", "spark")


def main() -> None:
    """Run one compaction; reports its seconds, and the objects and records after it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("candidate", choices=ENGINES)
    parser.add_argument("lake")
    parser.add_argument("branch")
    args = parser.parse_args()
    if args.candidate == "shoal-spark":
        _warm_up()
    began = time.perf_counter()
    compact(args.lake, args.branch, ENGINES[args.candidate])
    seconds = time.perf_counter() - began
    opened = shoal.open(args.lake)
    rows = opened.query(f"from logs@{args.branch} | count()", engine="duckdb").one()
    objects = len(list(opened.pool("logs").objects(args.branch)))
    processes.report(seconds=seconds, rows=int(shoal.to_python(rows)), objects=objects)


if __name__ == "__main__":
    main()
