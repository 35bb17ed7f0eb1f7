"""Opens lakes in stores by URI. The modules that implement verbs are loaded on first use."""

from __future__ import annotations

from collections.abc import Generator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from shoal.api.branch import Load
from shoal.api.queries import Query
from shoal.api.requests import R, Request
from shoal.engines.stopping import results_stopped_by, running_on
from shoal.lake.lake import create_at, open_at
from shoal.lazy import lazy, load
from shoal.local.executor import StoreExecutor, is_implemented, stored, whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.local import (
        attachments,
        change_feeds,
        commits,
        history,
        lake_transactions,
        loads,
        maintenance,
        partitions,
        pools,
        queries,
        transactions,
        updates,
    )
    from shoal.planner import spark_dataframes
else:
    attachments = lazy("shoal.local.attachments")
    change_feeds = lazy("shoal.local.change_feeds")
    commits = lazy("shoal.local.commits")
    history = lazy("shoal.local.history")
    lake_transactions = lazy("shoal.local.lake_transactions")
    loads = lazy("shoal.local.loads")
    maintenance = lazy("shoal.local.maintenance")
    partitions = lazy("shoal.local.partitions")
    pools = lazy("shoal.local.pools")
    queries = lazy("shoal.local.queries")
    transactions = lazy("shoal.local.transactions")
    updates = lazy("shoal.local.updates")
    spark_dataframes = lazy("shoal.planner.spark_dataframes")

__all__ = ["IMPLEMENTATIONS", "LocalLake", "create_local", "open_local", "stored", "whole"]

IMPLEMENTATIONS: tuple[ModuleType, ...] = (
    pools,
    history,
    queries,
    loads,
    commits,
    transactions,
    lake_transactions,
    maintenance,
    updates,
    attachments,
    partitions,
    change_feeds,
)
"""The modules that implement verbs, those that most commands need first."""
_AT_ONCE: dict[type[Request[Any]], ModuleType] = {Load: loads, Query: queries}
"""The modules of verbs that must start fast; those of others are looked for in the order above."""


class LocalLake(StoreExecutor):
    """A lake in a store that this process can reach."""

    spark: object | None = None
    """The session of Spark that its work runs on, where Spark is the engine; None is the active one, or a new one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open_local, (self.uri,)

    def register(self, spark: SparkSession, *, times: str = "microseconds") -> list[str]:
        names = [pool.name for pool in self.pools()]
        spark_dataframes.make_views(spark, self.uri, names, times)
        return names

    def do(self, request: Request[R]) -> R:
        kind = type(request)
        for module in (_AT_ONCE[kind],) if kind in _AT_ONCE else IMPLEMENTATIONS:
            if is_implemented(kind):
                break
            load(module)
        if self.spark is None:
            return super().do(request)
        with running_on(self.spark) as stop:
            result: Any = super().do(request)
        return results_stopped_by(stop, result) if isinstance(result, Generator) else result  # type: ignore[return-value]


def open_local(uri: str, spark: object | None = None) -> LocalLake:
    """The lake at a path or URI."""
    lake = LocalLake(open_at(uri))
    lake.spark = spark
    return lake


def create_local(uri: str) -> LocalLake:
    """A new lake at a path or URI."""
    return LocalLake(create_at(uri))
