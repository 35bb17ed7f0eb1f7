"""NDJSON to a Parquet file sorted by `ts`: Shoal, with exact types, and DuckDB's `read_json`.

Each run is its own process, and the two take turns; the best of several runs counts.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import peak
from shoal.api.options import ReadOptions
from shoal.formats.columns.batches import Batch
from shoal.formats.json import column_reader as json_column_reader
from shoal.model.types import Record, Type
from shoal.model.values import Value

ROW_GROUP = 122_880


def by_duckdb(source: Path, out: Path, threads: int) -> None:
    """The peer: one statement."""
    db = duckdb.connect(config={"threads": threads})
    query = "SELECT * FROM read_json(?, format = 'newline_delimited') ORDER BY ts"
    db.execute(f"COPY ({query}) TO '{out}' (FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP})", [str(source)])


def by_shoal(source: Path, out: Path, threads: int) -> None:
    """Ours: exact columns for each shape, fused into one table with the shape of each row."""
    pa.set_cpu_count(threads)
    if "jemalloc" in pa.supported_memory_backends():
        # It keeps freed memory at hand, which spares page faults when sorted columns are gathered.
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    fused = Fused()
    with source.open("rb") as file:
        for batch in json_column_reader.read(file, ReadOptions(threads=threads)):
            assert not isinstance(batch, Value)  # the logs have few shapes
            fused.add(batch)
    table = fused.sorted_by("ts", threads)
    pq.write_table(table, out, compression="snappy", row_group_size=ROW_GROUP)


class Fused:
    """Rows of any shapes as one table; a field of several types has a column for each.

    Rows are in the order of their parts until they are sorted.
    """

    def __init__(self) -> None:
        self._length = 0
        self._shapes: dict[Type, int] = {}
        self._plain: dict[str, pa.DataType] = {}
        self._columns: dict[str, list[tuple[int, pa.Array]]] = {}
        self._indexes: dict[tuple[int, ...], pa.Array] = {}

    def add(self, batch: Batch) -> None:
        """Append a batch."""
        for part in batch.parts:
            assert isinstance(part.shape, Record)
            number = self._shapes.setdefault(part.shape, len(self._shapes))
            self._put("$shape", pa.array(np.full(len(part.rows), number, np.int16)))
            for field, column in zip(part.shape.fields, part.column.flatten(), strict=True):
                if not pa.types.is_null(column.type):
                    same = self._plain.setdefault(field.name, column.type) == column.type
                    self._put(field.name if same else f"{field.name}${column.type}", column)
            self._length += len(part.rows)

    def _put(self, name: str, column: pa.Array) -> None:
        self._columns.setdefault(name, []).append((self._length, column))

    def sorted_by(self, key: str, threads: int) -> pa.Table:
        """All rows, sorted by a field that all of them have."""
        order = pc.sort_indices(pa.concat_arrays([c for _, c in self._columns[key]])).to_numpy().astype(np.int32)
        with ThreadPoolExecutor(threads) as pool:
            names = list(self._columns)
            return pa.table(dict(zip(names, pool.map(lambda name: self._gathered(name, order), names), strict=True)))

    def _gathered(self, name: str, order: np.ndarray[Any, Any]) -> pa.Array:
        """A column in a given order of rows, null where a row lacks the field."""
        pieces = self._columns[name]
        column = pa.concat_arrays([c for _, c in pieces])
        return column.take(self._row_indexes([(start, len(c)) for start, c in pieces], order))

    def _row_indexes(self, ranges: list[tuple[int, int]], order: np.ndarray[Any, Any]) -> pa.Array:
        """The index of each row in a column that has only some rows; many columns share it."""
        key = tuple(start for start, _ in ranges)
        if key not in self._indexes:
            index = np.full(self._length, -1, np.int32)
            done = 0
            for start, size in ranges:
                index[start : start + size] = np.arange(done, done + size, dtype=np.int32)
                done += size
            index = index[order]
            absent = index < 0
            self._indexes[key] = pa.array(index, mask=absent if absent.any() else None)
        return self._indexes[key]


def main() -> None:
    """One run; prints seconds and peak memory in MiB."""
    parser = argparse.ArgumentParser()
    parser.add_argument("candidate", choices=["duckdb", "shoal"])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("threads", type=int)
    args = parser.parse_args()
    start = time.perf_counter()
    (by_duckdb if args.candidate == "duckdb" else by_shoal)(args.source, args.out, args.threads)
    seconds = time.perf_counter() - start
    print(f"{seconds:.3f} {peak.mebibytes()}")


if __name__ == "__main__":
    main()
