"""Loads: writes files, frames or values to data objects and commits them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shoal.api.branch import Load
from shoal.api.options import ReadOptions, Watch, for_load
from shoal.errors import InvalidInput
from shoal.frames.inputs import checked_path, is_frame, read_input_pieces
from shoal.ids import parse, to_text
from shoal.lake import changes
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.rewriting import gathered
from shoal.lazy import lazy
from shoal.local.executor import StoreExecutor, implements, operation, stored_note
from shoal.local.file_loads import are_files, file_size, load_files
from shoal.planner.engine_choice import spark_workers, wants_spark
from shoal.sources.inputs import is_url

if TYPE_CHECKING:
    from shoal.engines.spark import jobs
    from shoal.formats.arrow import reader as arrow_reader
    from shoal.planner import reach
else:
    jobs = lazy("shoal.engines.spark.jobs")
    arrow_reader = lazy("shoal.formats.arrow.reader")
    reach = lazy("shoal.planner.reach")


@implements(Load)
def load(lake: StoreExecutor, request: Load) -> str:
    """Commit data; the id of the commit."""
    pool, branch = lake.writable(request.pool), request.branch
    pool.refs().branch(branch)
    if isinstance(request.op, str) and (done := pool.committer.done(parse(request.op), branch)) is not None:
        return to_text(done)
    begun = pool.journal.known.position
    objects = write_data(pool, request.data, request.format, request.engine, request.options, request.watch)
    change = changes.load(branch, objects, stored_note(request.note), operation(request.op), begun)
    return to_text(pool.committer.join(change))


def write_data(
    pool: Pool, data: Any, format_name: str, engine: str | None, options: ReadOptions, watch: Watch | None = None
) -> list[DataObject]:
    """Write data to objects without committing them. Spark tasks do it if the engine or the size asks for that."""
    options = for_load(options)
    if is_frame(data):
        return _load_frame(pool, data)
    if not (are_files(data) and wants_spark(engine, sum(map(file_size, _paths(data))))):
        if engine == "spark":
            raise InvalidInput("Spark loads only files and DataFrames (omit the engine for anything else)")
        writer = pool.writer(memory=options.max_memory)
        objects = writer.write_all(read_input_pieces(data, format_name, options, watch))
        if writer.skipped and not objects:
            raise InvalidInput(f"nothing to load: all records are bad, and {writer.skipped} were skipped")
        return objects
    # A task may have another working directory.
    paths = [path if is_url(path) else os.path.abspath(checked_path(path)) for path in _paths(data)]
    return load_files(pool, paths, format_name, options, spark_workers(pool.store.uri))


def _paths(data: Any) -> list[str]:
    return [os.fspath(path) for path in ([data] if isinstance(data, (str, os.PathLike)) else data)]


# ---- Spark DataFrames


def _load_frame(pool: Pool, frame: Any) -> list[DataObject]:
    """Write the rows of a Spark DataFrame to objects without committing them. On failure, removes the objects."""
    reach.require_lake(pool.store.uri)
    return gathered(pool, jobs.run_over(frame, write_rows, pool))


def write_rows(pool: Pool, batches: Iterator[Any]) -> list[list[DataObject]]:
    """Write the rows of one Spark task; runs in the task."""
    return [pool.writer().write_all(piece for batch in batches for piece in arrow_reader.batches(batch))]
