"""The queries of TPC-H through `shoal sql`, beside DuckDB on the plain Parquet files: `python -m bench.tpch [--spark]`.

The data is that of `tpchgen-cli` (on PyPI), which has to be on the path. Each answer is compared with DuckDB's: numbers
to the cent, since engines divide decimals into doubles or into decimals.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

import shoal
from bench.tpch_queries import QUERIES, TABLES
from shoal.api.lake import Lake

_ROUNDS = 3


def main() -> None:
    """Generate, load, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="0.1", help="scale factor")
    parser.add_argument("--spark", action="store_true", help="run the statements on Spark")
    args = parser.parse_args()
    generate = shutil.which("tpchgen-cli")
    if generate is None:
        sys.exit("tpchgen-cli is not installed (pip install tpchgen-cli)")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        subprocess.run([generate, "parquet", "-s", args.scale, f"--output-dir={data}"], check=True, capture_output=True)
        lake, peer = _load(Path(folder, "lake"), data), _views(data)
        wrong = _run(lake, peer, "spark" if args.spark else "duckdb", 1 if args.spark else _ROUNDS)
    sys.exit(f"other answers than DuckDB's: {', '.join(map(str, wrong))}" if wrong else 0)


def _load(path: Path, data: Path) -> Lake:
    lake = shoal.create(path)
    began = time.perf_counter()
    for table in TABLES:
        file = data / f"{table}.parquet"
        lake.create(table, key=pq.read_schema(file).names[0]).load(file)
    print(f"load: {time.perf_counter() - began:.1f} s")
    return lake


def _views(data: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(f"create view {table} as from '{data / table}.parquet'")
    return connection


def _run(lake: Lake, peer: duckdb.DuckDBPyConnection, engine: str, rounds: int) -> list[int]:
    """Prints a line for each query; the numbers of those with another answer."""
    wrong, totals = [], [0.0, 0.0]
    for number, text in QUERIES.items():
        expected, theirs = _best(lambda text=text: peer.execute(text).fetchall(), rounds)  # type: ignore[misc]
        table, ours = _best(lambda text=text: lake.sql(text, engine=engine).to_arrow(), rounds)  # type: ignore[misc]
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        is_right = [tuple(map(_rounded, row)) for row in rows] == [tuple(map(_rounded, row)) for row in expected]
        if not is_right:
            wrong.append(number)
        totals = [totals[0] + ours, totals[1] + theirs]
        verdict = "" if is_right else "  wrong"
        print(f"{number:2}  {ours * 1000:6.0f} ms  DuckDB {theirs * 1000:6.0f} ms  {ours / theirs:5.2f}{verdict}")
    print(f"all {totals[0] * 1000:5.0f} ms  DuckDB {totals[1] * 1000:6.0f} ms  {totals[0] / totals[1]:5.2f}")
    return wrong


def _best(act: Callable[[], Any], rounds: int) -> tuple[Any, float]:
    best, result = float("inf"), None
    for _ in range(rounds):
        began = time.perf_counter()
        result = act()
        best = min(best, time.perf_counter() - began)
    return result, best


def _rounded(cell: Any) -> Any:
    return round(float(cell), 2) if isinstance(cell, float | Decimal) else str(cell)


if __name__ == "__main__":
    main()
