"""What takes long the first time is done while nobody waits for it."""

from __future__ import annotations

import threading
from importlib import import_module

from shoal.errors import ShoalError
from shoal.service.state import Service

_LOADED = ("shoal.api.scan_units", "shoal.engines.duckdb.runner", "shoal.formats.json_columns", "shoal.api.sql")


def warm_up(service: Service, with_spark: bool) -> None:
    """Load DuckDB and what reads columns and, if asked to, start Spark; in a thread, whatever comes of it."""
    threading.Thread(target=_warm_up, args=(service, with_spark), daemon=True).start()


def _warm_up(service: Service, with_spark: bool) -> None:
    for name in _LOADED:
        import_module(name)
    import_module("shoal.engines.duckdb.queries").connection()
    if not with_spark:
        return
    try:
        import_module("shoal.api.spark_frames")  # so that the session knows the source of tables
        session = import_module("shoal.engines.spark.session").spark_session()
        service.log("info", "Spark has started", master=session.sparkContext.master)
    except ShoalError as e:
        service.log("error", "Spark does not start", error=str(e))
