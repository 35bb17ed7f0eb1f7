"""Changing data: many small commits, an upsert into a large pool, and reads of a pool with hidden rows.

The peer is delta-rs, on the same disk, the two taking turns. All of it is durable on a local disk. Run
`python -m bench.changing`; `--rows` sets the size of the large pool. With `--delta PYTHON JARS` it upserts DataFrames
of Spark, beside Delta's `MERGE`: PYTHON has the pyspark that Delta's jars are for, which are given separated by commas.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import shoal
import shoal.spark
from bench.tables import Cell, Table

COMMITS, RECORDS = 1_000, 10
ROWS, UPSERTED = 5_000_000, 10_000
MASKED = 0.05
ROUNDS = 3


def small(number: int) -> list[dict[str, Any]]:
    """The records of one small commit."""
    return [{"k": number * RECORDS + i, "v": i * 0.5, "s": f"x{i}"} for i in range(RECORDS)]


def timed(act: Callable[[], object]) -> float:
    """Seconds of a call."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


# ---- small commits


def load_some(uri: str, numbers: range) -> None:
    """Commits of one process."""
    pool = shoal.open(uri).pool("small")
    for number in numbers:
        pool.load(small(number))


def run_all(workers: list[multiprocessing.Process]) -> None:
    """Start processes, and wait for all of them."""
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def small_commits(processes: int) -> tuple[float, float]:
    """Seconds for a thousand small commits, and for an aggregate over their records afterwards, warm."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        uri = f"{folder}/lake"
        lake = shoal.create(uri)
        pool = lake.create("small", key="k")
        shares = [range(i, COMMITS, processes) for i in range(processes)]
        if processes == 1:
            seconds = timed(lambda: load_some(uri, shares[0]))
        else:
            workers = [multiprocessing.Process(target=load_some, args=(uri, share)) for share in shares]
            seconds = timed(lambda: run_all(workers))
        program = "count(), total:=sum(v), last:=max(k)"
        expected = [{"count": COMMITS * RECORDS, "total": COMMITS * 22.5, "last": COMMITS * RECORDS - 1}]
        assert pool.query(program).to_list() == expected, "commits are lost"
        return seconds, min(timed(lambda: pool.query(program).to_list()) for _ in range(5))


def small_commits_of_delta() -> float:
    """The same, appended one by one by delta-rs in one process."""
    from deltalake import write_deltalake  # noqa: PLC0415 - a peer

    with tempfile.TemporaryDirectory(dir=".") as folder:
        tables = [pa.Table.from_pylist(small(number)) for number in range(COMMITS)]
        return timed(lambda: [write_deltalake(f"{folder}/table", table, mode="append") for table in tables])


# ---- upserts


def large(rows: int) -> pa.Table:
    """The records of a large pool."""
    rng = np.random.default_rng(7)
    names = pa.array([f"name {i}" for i in range(1000)])
    return pa.table({
        "id": np.arange(rows),
        "amount": rng.random(rows),
        "name": names.take(pa.array(np.arange(rows) % 1000)),
        "day": rng.integers(0, 365, rows),
    })  # fmt: skip


def changes(rows: int, seed: int) -> pa.Table:
    """Records of which half are new."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([rng.choice(rows, UPSERTED // 2, replace=False), rows * (seed + 1) + np.arange(UPSERTED // 2)])
    return pa.table({
        "id": ids,
        "amount": np.zeros(UPSERTED),
        "name": pa.array(["changed"] * UPSERTED),
        "day": np.zeros(UPSERTED, np.int64),
    })  # fmt: skip


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def upserts(rows: int, folder: Path) -> dict[str, tuple[float, int]]:
    """Seconds and bytes written of an upsert, the best of some, by Shoal and by delta-rs."""
    from deltalake import DeltaTable, write_deltalake  # noqa: PLC0415 - a peer

    pool = shoal.create(str(folder / "lake")).create("large", key="id", primary="id")
    pool.load(large(rows))
    write_deltalake(str(folder / "delta"), large(rows))

    def ours(table: pa.Table) -> None:
        pool.upsert(table)

    def theirs(table: pa.Table) -> None:
        target = DeltaTable(str(folder / "delta"))
        merge = target.merge(table, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    best: dict[str, tuple[float, int]] = {}
    for seed in range(ROUNDS):
        for name, act, where in (("Shoal", ours, folder / "lake"), ("delta-rs", theirs, folder / "delta")):
            before = size_of(where)
            seconds = timed(lambda act=act, seed=seed: act(changes(rows, seed)))  # type: ignore[misc]
            best[name] = min(best.get(name, (math.inf, 0)), (seconds, size_of(where) - before))
    assert pool.query("count()").to_list() == [rows + ROUNDS * UPSERTED // 2]
    return best


def spark_upserts(rows: int, folder: Path, python: str, jars: str) -> dict[str, list[tuple[float, int]]]:
    """Seconds and bytes written of upserts of Spark DataFrames, one after the other in a session."""
    pq.write_table(large(rows), folder / "large.parquet")
    for seed in range(ROUNDS):
        pq.write_table(changes(rows, seed), folder / f"changes-{seed}.parquet")
    command = [python, "bench/delta_merge.py", str(folder.resolve()), jars]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    theirs = [(float(seconds), int(written)) for seconds, written in map(str.split, lines)]
    pool = shoal.create(str(folder / "lake-spark")).create("large", key="id", primary="id")
    spark = shoal.spark.session()
    pool.load(spark.read.parquet(str(folder / "large.parquet")))
    ours = []
    for seed in range(ROUNDS):
        frame, before = spark.read.parquet(str(folder / f"changes-{seed}.parquet")), size_of(folder / "lake-spark")
        seconds = timed(lambda frame=frame: pool.upsert(frame))  # type: ignore[misc]
        ours.append((seconds, size_of(folder / "lake-spark") - before))
    assert pool.query("count()").to_list() == [rows + ROUNDS * UPSERTED // 2]
    return {"Shoal": ours, "Delta 4.4": theirs}


def spark_table(rows: int, python: str, jars: str) -> Table:
    """Upserts of DataFrames."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        runs = spark_upserts(rows, Path(name), python, jars)
    cells: list[tuple[Cell, ...]] = [
        (who, each[0][0], min(each)[0], min(written for _, written in each) / 1e6) for who, each in runs.items()
    ]
    return Table(
        f"Upsert of a Spark DataFrame of {UPSERTED:,} rows, half of them new, into {rows:,}",
        ("", "first, s", "best, s", "MB written"),
        cells,
        f"{ROUNDS} upserts, one after the other in a session on this machine.",
    )


# ---- hidden rows

QUERIES = {
    "sum by a field": "select day, sum(amount), count(*) from {} group by day",
    "filter": "select count(*), sum(amount) from {} where name like 'name 1%'",
    "all columns": "select count(*), sum(amount), max(name), min(day), max(id) from {}",
}


def masked_reads(rows: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Seconds of queries over a pool without and with hidden rows, warm."""
    lake = shoal.create(str(folder / "masked"))
    for name in ("whole", "masked"):
        lake.create(name, key="id").load(large(rows))
    lake.pool("masked").delete(where=f"id % {round(1 / MASKED)} == 3")
    out = {}
    for title, statement in QUERIES.items():
        seconds: dict[str, float] = {}
        for _ in range(5):
            for name in ("whole", "masked"):
                text = statement.format(name)
                took = timed(lambda text=text: lake.sql(text).to_list())  # type: ignore[misc]
                seconds[name] = min(seconds.get(name, took), took)
        out[title] = seconds["whole"], seconds["masked"]
    return out


def tables(rows: int) -> list[Table]:
    """All of it."""
    commits: list[tuple[Cell, ...]] = []
    for processes in (1, 8):
        seconds, aggregate = min(small_commits(processes) for _ in range(2))
        commits.append((f"Shoal, {processes} process{'' if processes == 1 else 'es'}", seconds, f"{aggregate:.3f}"))
    commits.append(("delta-rs, 1 process", small_commits_of_delta(), None))
    with tempfile.TemporaryDirectory(dir=".") as name:
        merged = [(who, seconds, written / 1e6) for who, (seconds, written) in upserts(rows, Path(name)).items()]
        reads: list[tuple[Cell, ...]] = [
            (title, f"{whole:.3f}", f"{masked:.3f}", masked / whole)
            for title, (whole, masked) in masked_reads(rows, Path(name)).items()
        ]
    return [
        Table(
            f"{COMMITS:,} durable commits of {RECORDS} records",
            ("", "s", "aggregate, warm, s"),
            commits,
            "No commit is lost: the aggregate is compared with what it has to be.",
        ),
        Table(
            f"Upsert of {UPSERTED:,} records, half of them new, into {rows:,}",
            ("", "s", "MB written"),
            merged,
            f"The best of {ROUNDS}, taking turns.",
        ),
        Table(
            f"{rows:,} records, {MASKED:.0%} of them hidden, SQL on DuckDB",
            ("", "whole, s", "masked, s", "ratio"),
            reads,
            "The best of five, taking turns, warm.",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--delta", nargs=2, metavar=("PYTHON", "JARS"))
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    for table in [spark_table(args.rows, *args.delta)] if args.delta else tables(args.rows):
        print(f"\n{table}")


if __name__ == "__main__":
    main()
