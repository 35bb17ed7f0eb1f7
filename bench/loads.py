"""Loaders of an NDJSON file, sorted by `ts`. `python -m bench.loads` runs one load with one of them.

The time includes reading the file and writing the result. It excludes imports of the peers (ours are included if they
happen on the first load), the start of Spark, and one small load that warms it up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow

import shoal
from bench import logs, processes
from shoal.engines.spark.session import spark_session

WARM_UP = 20_000
"""Records of the load that warms up Spark."""


class Loader(NamedTuple):
    """A way to load the file."""

    name: str
    load: Callable[[str, str], None]
    """Load a file into a new directory."""
    rows: Callable[[str], int]
    """Count the records in the directory."""
    package: str
    is_warm: bool = False


def _shoal(engine: str | None) -> Callable[[str, str], None]:
    def load(source: str, target: str) -> None:
        shoal.create(target).create("logs", key="ts").load(source, engine=engine)

    return load


def _shoal_rows(target: str) -> int:
    return int(shoal.to_python(shoal.open(target).query("from logs | count()", engine="duckdb").one()))


def _sorted_rows(source: str) -> duckdb.DuckDBPyRelation:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    return db.sql(f"SELECT * FROM read_json('{source}', format = 'newline_delimited') ORDER BY ts")


def _duckdb(source: str, target: str) -> None:
    Path(target).mkdir()
    _sorted_rows(source).write_parquet(f"{target}/rows.parquet")


def _spark(source: str, target: str) -> None:
    spark_session().read.json(source).sort("ts").write.parquet(target)


def _parquet_rows(target: str) -> int:
    [(rows,)] = duckdb.sql(f"SELECT count(*) FROM '{target}/*.parquet'").fetchall()
    return int(rows)


def _arrow_table(source: str) -> pyarrow.Table:
    """The rows as DuckDB reads them; columns of nulls become strings, because Iceberg has no null type."""
    table = _sorted_rows(source).to_arrow_table()
    for index, field in enumerate(table.schema):
        if pyarrow.types.is_null(field.type):
            table = table.set_column(index, field.name, table[field.name].cast(pyarrow.string()))
    return table


def _delta(source: str, target: str) -> None:
    deltalake: Any = import_module("deltalake")
    deltalake.write_deltalake(target, _arrow_table(source))


def _delta_rows(target: str) -> int:
    deltalake: Any = import_module("deltalake")
    return int(deltalake.DeltaTable(target).count())


def _iceberg_catalog(target: str) -> Any:
    sql: Any = import_module("pyiceberg.catalog.sql")
    return sql.SqlCatalog("bench", uri=f"sqlite:///{target}/catalog.db", warehouse=f"file://{target}")


def _iceberg(source: str, target: str) -> None:
    Path(target).mkdir()
    catalog, rows = _iceberg_catalog(target), _arrow_table(source)
    catalog.create_namespace("bench")
    catalog.create_table("bench.logs", schema=rows.schema).append(rows)


def _iceberg_rows(target: str) -> int:
    return int(_iceberg_catalog(target).load_table("bench.logs").scan().count())


LOADERS = {
    "shoal": Loader("Shoal, here", _shoal("duckdb"), _shoal_rows, "shoal"),
    "duckdb": Loader("DuckDB to Parquet", _duckdb, _parquet_rows, "duckdb"),
    "shoal-spark": Loader("Shoal, on Spark", _shoal("spark"), _shoal_rows, "pyspark", is_warm=True),
    "spark": Loader("Spark to Parquet", _spark, _parquet_rows, "pyspark", is_warm=True),
    "delta": Loader("delta-rs", _delta, _delta_rows, "deltalake"),
    "iceberg": Loader("PyIceberg", _iceberg, _iceberg_rows, "pyiceberg.catalog.sql"),
}


def warm_up(load: Callable[[str, str], None], directory: str) -> None:
    """Start Spark and run a small load."""
    spark_session()
    load(str(logs.path(WARM_UP)), f"{directory}/warm")


def main() -> None:
    """Run one load; reports its seconds, the number of records and their bytes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("candidate", choices=LOADERS)
    parser.add_argument("source")
    parser.add_argument("directory")
    args = parser.parse_args()
    loader, target = LOADERS[args.candidate], f"{args.directory}/data"
    import_module(loader.package)
    if loader.is_warm:
        warm_up(loader.load, args.directory)
    began = time.perf_counter()
    loader.load(args.source, target)
    seconds = time.perf_counter() - began
    size = sum(file.stat().st_size for file in Path(target).rglob("*") if file.is_file())
    processes.report(seconds=seconds, rows=loader.rows(target), size=size)


if __name__ == "__main__":
    main()
