"""Where the work of a change is done: in this process, or in tasks of Spark. Its one commit is always made here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shoal.errors import InvalidInput
from shoal.lake.workers import HERE, Choose, Workers
from shoal.planner.dispatch import LARGE, choose_engine


def wants_spark(engine: str | None, size: int) -> bool:
    """Whether work on so many bytes goes to Spark: if it is named, or if there is very much to do."""
    chosen = choose_engine(engine)
    return chosen == "spark" or (chosen == "auto" and size > LARGE)


def choice(engine: str | None) -> Choose:
    """The workers of an engine."""
    choose_engine(engine)
    return lambda size: on_spark() if wants_spark(engine, size) else HERE


def on_spark() -> Workers:
    """Tasks of Spark, a few for each core."""
    try:
        jobs: Any = import_module("shoal.engines.spark.jobs")
        piles: Any = import_module("shoal.engines.spark.piles")
        return Workers(jobs.run_tasks, piles.regroup, jobs.task_count(), is_elsewhere=True)
    except ModuleNotFoundError as e:
        if e.name is None or e.name.split(".")[0] not in ("pyspark", "py4j"):
            raise
        raise InvalidInput("Spark is not installed (pip install 'shoal[spark]')") from None
