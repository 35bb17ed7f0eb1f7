"""NDJSON to a Parquet file sorted by `ts`: ours, with exact types, beside DuckDB's `read_json`.

Each run is a process of its own, and the two take turns; the best of several runs counts.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.formats import json_columns
from shoal.formats.columns import Batch
from shoal.formats.options import ReadOptions
from shoal.model.types import Record, Type

ROW_GROUP = 122_880


def by_duckdb(source: Path, out: Path, threads: int) -> None:
    """The peer: one statement."""
    db = duckdb.connect(config={"threads": threads})
    query = "SELECT * FROM read_json(?, format = 'newline_delimited') ORDER BY ts"
    db.execute(f"COPY ({query}) TO '{out}' (FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP})", [str(source)])


def by_shoal(source: Path, out: Path, threads: int) -> None:
    """Ours: exact columns for each shape, fused into one table with the shape of each row."""
    pa.set_cpu_count(threads)
    fused = Fused()
    with source.open("rb") as file:
        for batch in json_columns.read(file, ReadOptions(threads=threads)):
            fused.add(batch)
    table = fused.sorted_by("ts", threads)
    pq.write_table(table, out, compression="snappy", row_group_size=ROW_GROUP)


class Fused:
    """Rows of any shapes as one table; a field that has several types has a column for each."""

    def __init__(self) -> None:
        self._length = 0
        self._shapes: dict[Type, int] = {}
        self._plain: dict[str, pa.DataType] = {}
        self._columns: dict[str, list[tuple[pa.Array, np.ndarray[Any, Any]]]] = {}

    def add(self, batch: Batch) -> None:
        """Take in a batch, after the rows so far."""
        for part in batch.parts:
            assert isinstance(part.shape, Record)
            rows = part.rows + self._length
            number = self._shapes.setdefault(part.shape, len(self._shapes))
            self._put("$shape", pa.array(np.full(len(rows), number, np.int16)), rows)
            for field, column in zip(part.shape.fields, part.column.flatten(), strict=True):
                if not pa.types.is_null(column.type):
                    same = self._plain.setdefault(field.name, column.type) == column.type
                    self._put(field.name if same else f"{field.name}${column.type}", column, rows)
        self._length += batch.length

    def _put(self, name: str, column: pa.Array, rows: np.ndarray[Any, Any]) -> None:
        self._columns.setdefault(name, []).append((column, rows))

    def sorted_by(self, key: str, threads: int) -> pa.Table:
        """All rows in the order of a field."""
        order = pc.sort_indices(self._gathered(key, np.arange(self._length))).to_numpy()
        with ThreadPoolExecutor(threads) as pool:
            names = list(self._columns)
            return pa.table(dict(zip(names, pool.map(lambda name: self._gathered(name, order), names), strict=True)))

    def _gathered(self, name: str, order: np.ndarray[Any, Any]) -> pa.Array:
        """A column in a given order of rows, null where a row does not have it."""
        pieces = self._columns[name]
        column = pa.concat_arrays([c for c, _ in pieces])
        place = np.full(self._length, -1, np.int32)
        place[np.concatenate([rows for _, rows in pieces])] = np.arange(len(column), dtype=np.int32)
        place = place[order]
        absent = place < 0
        return column.take(pa.array(place, mask=absent if absent.any() else None))


def main() -> None:
    """One run; prints seconds and peak memory in MiB."""
    parser = argparse.ArgumentParser()
    parser.add_argument("who", choices=["duckdb", "shoal"])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("threads", type=int)
    args = parser.parse_args()
    start = time.perf_counter()
    (by_duckdb if args.who == "duckdb" else by_shoal)(args.source, args.out, args.threads)
    seconds = time.perf_counter() - start
    print(f"{seconds:.3f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")


if __name__ == "__main__":
    main()
