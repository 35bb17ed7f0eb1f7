"""Shoal for Spark code: the source `shoal`, and the pools of a lake as views.

import shoal.spark

spark = shoal.spark.session()          # or your own: shoal.spark.register(spark)
spark.read.format("shoal").option("lake", "my-lake").load("logs")
shoal.spark.views(spark, "my-lake")    # or of a lake that is open: lake.register(spark)
spark.sql("select count(*) from logs")
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from shoal.api.lake import Lake
from shoal.client.opening import open as open_lake
from shoal.planner.spark_dataframes import open_session, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session", "views"]


def __dir__() -> list[str]:
    return __all__


def session() -> SparkSession:
    """The active session, or a new one at SHOAL_SPARK_MASTER, with the source `shoal` registered."""
    return open_session()


def views(spark: SparkSession, lake: Lake | str | PathLike[str], *, times: str = "microseconds") -> list[str]:
    """Create a temporary view for each pool of a lake, at the tip that its main branch has now; returns the names.

    All views of a call are of one time.

    A Spark timestamp has microseconds; `times="integers"` gives nanoseconds as integers instead.
    """
    opened = open_lake(lake) if isinstance(lake, str | PathLike) else lake
    return opened.register(spark, times=times)
