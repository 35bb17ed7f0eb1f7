"""DataFrames of Spark into data objects: each task writes the rows that it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.rewriting import gathered
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.engines.spark import jobs
    from shoal.formats.arrow import reader as arrow_reader
else:
    jobs = lazy("shoal.engines.spark.jobs")
    arrow_reader = lazy("shoal.formats.arrow.reader")


def load_frame(pool: Pool, frame: Any) -> list[DataObject]:
    """The rows of a DataFrame as data objects that nobody sees yet. If that fails, none of them stay."""
    return gathered(pool, jobs.run_over(frame, write_rows, pool))


def write_rows(pool: Pool, batches: Iterator[Any]) -> list[list[DataObject]]:
    """What a task does."""
    writer = pool.writer()
    try:
        for batch in batches:
            for piece in arrow_reader.batches(batch):
                writer.write_batch(piece)
        return [writer.close()]
    except BaseException:
        writer.discard()
        raise
