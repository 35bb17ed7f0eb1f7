"""Loads what takes long the first time in the background, before the first request needs it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.lazy import lazy, load
from shoal.service.state import Service

if TYPE_CHECKING:
    from shoal.engines.duckdb import queries, runner, sandbox
    from shoal.engines.spark import session
    from shoal.engines.tables import answers
    from shoal.formats.json import column_reader as json_column_reader
    from shoal.planner import scan_units, spark_dataframes
else:
    queries = lazy("shoal.engines.duckdb.queries")
    runner = lazy("shoal.engines.duckdb.runner")
    sandbox = lazy("shoal.engines.duckdb.sandbox")
    answers = lazy("shoal.engines.tables.answers")
    session = lazy("shoal.engines.spark.session")
    json_column_reader = lazy("shoal.formats.json.column_reader")
    scan_units = lazy("shoal.planner.scan_units")
    spark_dataframes = lazy("shoal.planner.spark_dataframes")


def warm_up(service: Service, with_spark: bool) -> None:
    """Load DuckDB and the columnar readers and, if asked to, start Spark, in a background thread."""
    threading.Thread(target=_warm_up, args=(service, with_spark), daemon=True).start()


def _warm_up(service: Service, with_spark: bool) -> None:
    load(scan_units, runner, json_column_reader, sandbox, answers)
    queries.connection()
    if not with_spark:
        return
    try:
        load(spark_dataframes)  # registers the data source `shoal` with the session
        spark = session.spark_session()
        service.log("info", "Spark has started", master=spark.sparkContext.master)
    except ShoalError as e:
        service.log("error", "Spark does not start", error=str(e))
