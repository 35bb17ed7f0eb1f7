"""Loads: writes files, frames or values to data objects and commits them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

from shoal.api.branch import Load, WriteMode
from shoal.api.options import ReadOptions, Watch, for_load
from shoal.api.requests import Note
from shoal.errors import InvalidInput
from shoal.frames.inputs import checked_path, is_frame, read_input_pieces
from shoal.ids import Id, parse, to_text
from shoal.lake import changes
from shoal.lake.actions import Patch
from shoal.lake.committer import Change
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.rewriting import gathered
from shoal.lake.roll_up import roll_up
from shoal.lake.workers import HERE
from shoal.lazy import lazy
from shoal.local.executor import StoreExecutor, implements, operation, stored_note
from shoal.local.file_loads import are_files, file_size, load_files
from shoal.model import types as t
from shoal.model.fields import NO_ID
from shoal.planner.engine_choice import spark_workers, wants_spark
from shoal.sources.inputs import is_url

if TYPE_CHECKING:
    from shoal.engines.spark import jobs
    from shoal.formats.arrow import reader as arrow_reader
    from shoal.formats.columns import batches
    from shoal.lake import key_index, keyed_changes, primary_keys
    from shoal.lake.primary_keys import KeyGroup
    from shoal.planner import reach
else:
    key_index = lazy("shoal.lake.key_index")
    keyed_changes = lazy("shoal.lake.keyed_changes")
    primary_keys = lazy("shoal.lake.primary_keys")
    jobs = lazy("shoal.engines.spark.jobs")
    batches = lazy("shoal.formats.columns.batches")
    arrow_reader = lazy("shoal.formats.arrow.reader")
    reach = lazy("shoal.planner.reach")


@implements(Load)
def load(lake: StoreExecutor, request: Load) -> str:
    """Commit data; the id of the commit."""
    pool, branch = lake.writable(request.pool), request.branch
    pool.refs().branch(branch)
    if isinstance(request.op, str) and (done := pool.committer.done(parse(request.op), branch)) is not None:
        return to_text(done)
    change = _change(pool, request)
    if request.expect is not None:
        expected = parse(request.expect)
        change = changes.expecting(pool, change, None if expected == NO_ID else expected)
    commit = pool.committer.join(change)
    roll_up(pool, branch, commit, change.note.author)
    return to_text(commit)


def commit_written(
    lake: StoreExecutor,
    pool: Pool,
    branch: str,
    objects: Sequence[DataObject],
    note: Note,
    op: str,
    expect: str,
    begun: int,
) -> str:
    """Commit objects that tasks have written, once under the id of an operation; Conflict if the branch has changed.

    `expect` is the commit since which it must not have, as in a load, and `begun` a position of the journal before the
    objects were written.
    """
    lake.root.require_writable()
    if (done := pool.committer.done(parse(op), branch)) is not None:
        return to_text(done)
    change = changes.load_into(pool, branch, objects, stored_note(note), operation(op), begun)
    expected = parse(expect)
    return to_text(pool.committer.join(changes.expecting(pool, change, None if expected == NO_ID else expected)))


def _change(pool: Pool, request: Load) -> Change:
    """What a request changes, once its data is written."""
    branch, note, begun = request.branch, stored_note(request.note), pool.journal.known.position
    mode = request.mode
    if mode not in get_args(WriteMode):
        raise InvalidInput(f"mode: {mode!r} is not one of {', '.join(get_args(WriteMode))}")
    if mode != "load":
        require_keyed(pool)
    if request.on_conflict is not None and mode == "load":
        raise InvalidInput("on conflict: a load never replaces records (use upsert)")
    base = pool.refs().branch(branch).commit if mode != "load" else None
    if mode == "delete":
        keys = read_keys(pool, request.data, request.format, request.options)
        resolution = keyed_changes.parse_resolution(request.on_conflict)
        return changes.delete_keys(pool, branch, base, keys, note, resolution, operation(request.op))
    replaces = keyed_changes.parse_resolution(request.on_conflict) if mode == "upsert" else None
    objects = write_data(pool, request.data, request.format, request.engine, request.options, request.watch)
    op = operation(request.op)
    # What tasks have written is compared by tasks: there may be more keys than this process holds.
    by = spark_workers(pool.store.uri) if pool.config.settings.primary and is_frame(request.data) else HERE
    if replaces is not None:
        return changes.upsert(pool, branch, base, objects, note, replaces, op, begun, by)
    return changes.load_into(pool, branch, objects, note, op, begun, by)


def staged_write(
    pool: Pool, view: Id | None, branch: str, mode: WriteMode, data: Any, format_name: str, options: ReadOptions
) -> Patch:
    """What data changes at a commit, for a transaction."""
    if mode != "load":
        require_keyed(pool)
    if mode == "delete":
        index = key_index.KeyIndex((0, group) for group in read_keys(pool, data, format_name, options))
        return keyed_changes.without_keys(pool, view, index)
    objects = write_data(pool, data, format_name, None, options)
    if mode == "load":
        return changes.adding(pool, branch, objects, view)
    index = keyed_changes.index_of(pool, objects)
    keyed_changes.require_distinct(index)
    return keyed_changes.replacing(pool, view, objects, index)


def require_keyed(pool: Pool) -> None:
    """InvalidInput if a pool has no primary key."""
    if not pool.config.settings.primary:
        raise InvalidInput(
            f"{pool.config.name}: this pool has no primary key, so records cannot be named by it "
            "(shoal create -primary)"
        )


def read_keys(pool: Pool, data: Any, format_name: str, options: ReadOptions) -> list[KeyGroup]:
    """Primary keys in data: records that have the fields of the key, or values, if it is one field."""
    paths = pool.config.settings.primary
    key_at = primary_keys.key_reader(paths)
    keys: list[tuple[primary_keys.Component, ...]] = []
    for row, value in enumerate(batches.values_of(read_input_pieces(data, format_name, for_load(options), None))):
        is_bare = len(paths) == 1 and not isinstance(value.type.under, t.Record)
        key = (primary_keys.canonical(value),) if is_bare else key_at(value)
        if None in key:
            raise primary_keys.no_key(row, paths[key.index(None)], value)
        keys.append(key)  # type: ignore[arg-type]
    distinct = list(dict.fromkeys(keys))
    return primary_keys.grouped(range(len(distinct)), distinct)


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
