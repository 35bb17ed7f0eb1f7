"""DataFrames of Spark into data objects: each task writes the rows that it has."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.rewriting import gathered


def load_frame(pool: Pool, frame: Any) -> list[DataObject]:
    """The rows of a DataFrame as data objects that nobody sees yet. If that fails, none of them stay."""
    jobs: Any = import_module("shoal.engines.spark.jobs")
    return gathered(pool, jobs.run_over(frame, write_rows, pool))


def write_rows(pool: Pool, batches: Iterator[Any]) -> list[list[DataObject]]:
    """What a task does."""
    arrow: Any = import_module("shoal.formats.arrow_read")
    writer = pool.writer()
    try:
        for batch in batches:
            for piece in arrow.batches(batch):
                writer.write_batch(piece)
        return [writer.close()]
    except BaseException:
        writer.discard()
        raise
