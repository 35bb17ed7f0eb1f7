"""NDJSON to a Parquet file sorted by `ts`: ours, with exact types, beside DuckDB's `read_json`.

Each run is a process of its own, and the two take turns; the best of several runs counts.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.formats import json_columns
from shoal.formats.columns import Batch
from shoal.formats.options import ReadOptions
from shoal.model.types import Record

ROW_GROUP = 122_880


def by_duckdb(source: Path, out: Path, threads: int) -> None:
    """The peer: one statement."""
    db = duckdb.connect(config={"threads": threads})
    query = "SELECT * FROM read_json(?, format = 'newline_delimited') ORDER BY ts"
    db.execute(f"COPY ({query}) TO '{out}' (FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP})", [str(source)])


def by_shoal(source: Path, out: Path, threads: int) -> None:
    """Ours: exact columns for each shape, fused into one table with the shape of each row."""
    pa.set_cpu_count(threads)
    shapes: dict[object, int] = {}
    tables: list[pa.Table] = []
    with source.open("rb") as file:
        for batch in json_columns.read(file, ReadOptions(threads=threads)):
            tables += _tables(batch, shapes)
    fused = pa.concat_tables(tables, promote_options="default")
    del tables
    order = pc.sort_indices(fused.column("ts").combine_chunks())
    with pq.ParquetWriter(out, fused.schema, compression="snappy") as writer:
        columns = {name: fused.column(name).combine_chunks() for name in fused.column_names}
        writer.write_table(pa.table({n: c.take(order) for n, c in columns.items()}), row_group_size=ROW_GROUP)


def _tables(batch: Batch, shapes: dict[object, int]) -> list[pa.Table]:
    """A table for each shape; a field that has several types has a column for each."""
    out = []
    for part in batch.parts:
        assert isinstance(part.shape, Record)
        number = shapes.setdefault(part.shape, len(shapes))
        columns = {"$shape": pa.array([number] * len(part.rows), pa.int16())}
        for field, column in zip(part.shape.fields, part.column.flatten(), strict=True):
            if not pa.types.is_null(column.type):
                columns[_column_name(field.name, column.type)] = column
        out.append(pa.table(columns))
    return out


_plain: dict[str, pa.DataType] = {}


def _column_name(name: str, typ: pa.DataType) -> str:
    return name if _plain.setdefault(name, typ) == typ else f"{name}${typ}"


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
