"""Engine choice: which engine reads a pool, answers a statement or does the work of a change.

A caller may name an engine. Otherwise the amount of data decides, by one table: `THRESHOLDS`. Whatever does the work,
the one commit of a change is made in this process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from shoal.errors import InvalidInput
from shoal.extras import is_installed
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    from shoal.engines.spark import jobs, shuffle
    from shoal.lake import workers
    from shoal.planner import reach
else:  # queries of files need no code of a lake
    jobs = lazy("shoal.engines.spark.jobs")
    shuffle = lazy("shoal.engines.spark.shuffle")
    workers = lazy("shoal.lake.workers")
    reach = lazy("shoal.planner.reach")

Engine = Literal["auto", "interp", "duckdb", "spark"]
ENGINES: tuple[Engine, ...] = ("auto", "interp", "duckdb", "spark")


@frozen
class Thresholds:
    """Amounts of data at which another engine is worth its start."""

    few: int = 1000
    """The interpreter reads up to this many first values of a pool before another engine would have started."""
    small: int = 1 << 20
    """The interpreter reads up to this many bytes of data objects before another engine would have started."""
    short: int = 50_000
    """And up to this many values: those of a few bytes each can be very many."""
    large: int = 8 << 30
    """Above this many bytes Spark is worth its start, if it is installed."""
    small_file: int = 1 << 20
    """The interpreter reads up to this many bytes of files before columns of them would be there."""
    large_file: int = 8 << 20
    """Above this many bytes of files DuckDB is worth its start, where columns alone do not suffice."""
    many_records: int = 5_000_000
    """From this many records of topics on Spark is worth its start, if it is installed and reaches the lake."""


THRESHOLDS = Thresholds()


class Choice(NamedTuple):
    """An engine, and the reason for it in words."""

    engine: Literal["interp", "duckdb", "spark"]
    why: str


def named_engine(name: str | None) -> Engine:
    """The engine that a caller names, else that of the environment, else `auto`."""
    name = name or os.environ.get("SHOAL_ENGINE") or "auto"
    for engine in ENGINES:
        if engine == name:
            return engine
    raise InvalidInput(f"unknown engine {name!r} (one of {', '.join(ENGINES)})")


def for_scan(engine: Engine, size: int, count: int, first: int | None) -> Choice:
    """The engine of a scan of `count` values in `size` bytes; only the `first` values are needed if that is given."""
    if engine != "auto":
        return Choice(engine, "as asked")
    if takes_few(first):
        return Choice("interp", f"no more than the first {THRESHOLDS.few} values")
    if is_small(size, count):
        return Choice("interp", f"no more than {THRESHOLDS.short} values in {THRESHOLDS.small >> 20} MiB to read")
    if is_large(size):
        return Choice("spark", f"more than {THRESHOLDS.large >> 30} GiB to read")
    if size > THRESHOLDS.large:
        return Choice("duckdb", "Spark is not installed")
    return Choice("duckdb", f"no more than {THRESHOLDS.large >> 30} GiB to read")


def for_statement(name: str | None, size: int, is_description: bool) -> Literal["duckdb", "spark"]:
    """The engine of an SQL statement over tables of `size` bytes. DuckDB always answers DESCRIBE."""
    if name == "interp":
        raise InvalidInput("the interpreter does not speak SQL (-engine duckdb, spark or auto)")
    engine = named_engine(name)
    if is_description:
        return "duckdb"
    return "spark" if engine == "spark" or (engine != "duckdb" and is_large(size)) else "duckdb"


def takes_few(first: int | None) -> bool:
    """Whether so few values are needed that it does not matter how many there are."""
    return first is not None and first <= THRESHOLDS.few


def is_small(size: int, count: int) -> bool:
    """Whether the interpreter reads `count` values in `size` bytes before another engine would have started."""
    return size <= THRESHOLDS.small and count <= THRESHOLDS.short


def is_large(size: int) -> bool:
    """Whether Spark is worth its start for `size` bytes. Without Spark nothing is."""
    return size > THRESHOLDS.large and is_installed("pyspark")


# ---- changes


def wants_spark(name: str | None, size: int) -> bool:
    """Whether Spark does the work of a change that reads `size` bytes."""
    engine = named_engine(name)
    return engine == "spark" or (engine == "auto" and is_large(size))


def choose_workers(name: str | None, lake: str) -> workers.Choose:
    """What chooses the workers of a change of a lake by its size, for the engine that a caller names."""
    named_engine(name)
    return lambda size: spark_workers(lake) if wants_spark(name, size) else workers.HERE


def spark_workers(lake: str) -> workers.Workers:
    """Spark tasks, a few for each core, which reach a lake."""
    reach.require_lake(lake)
    return workers.Workers(jobs.run_tasks, shuffle.regroup, jobs.task_count(), is_remote=True)


def least_backfill(name: str | None, lake: str) -> int | None:
    """How many records of topics a branch has to lack for Spark to read them; None if it never does."""
    match named_engine(name):
        case "spark":
            return 1
        case "auto" if is_installed("pyspark") and not lake.startswith("memory:"):
            return THRESHOLDS.many_records
    return None
