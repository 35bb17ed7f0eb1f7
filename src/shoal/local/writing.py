"""From what callers give to what the lake takes: values as data objects, texts as ids, notes of commits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from shoal.access.authors import default_author
from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput, NotFound
from shoal.frames.inputs import checked_path, is_frame, read_input_pieces
from shoal.frames.python_values import from_python
from shoal.ids import Id, parse
from shoal.lake.commits import Note
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.local.file_loads import are_files, file_size, load_files
from shoal.local.frame_loads import load_frame
from shoal.model.values import NULL
from shoal.planner.jobs import on_spark, wants_spark
from shoal.sources.inputs import is_url


def write_data(
    pool: Pool, data: Any, format_name: str, engine: str | None, options: ReadOptions | None = None
) -> list[DataObject]:
    """What a caller gave, as data objects that nobody sees yet; by tasks of Spark if it is there, or asked for."""
    if is_frame(data):
        return load_frame(pool, data)
    if not is_for_tasks(data, engine):
        if engine == "spark":
            raise InvalidInput("Spark loads files and DataFrames (leave the engine out for anything else)")
        return pool.writer().write_all(read_input_pieces(data, format_name, options))
    # A task may stand elsewhere.
    paths = [path if is_url(path) else os.path.abspath(checked_path(path)) for path in _paths(data)]
    return load_files(pool, paths, format_name, options or ReadOptions(), on_spark())


def is_for_tasks(data: Any, engine: str | None) -> bool:
    """Whether data is in files that tasks of Spark are to read."""
    return are_files(data) and wants_spark(engine, sum(map(file_size, _paths(data))))


def _paths(data: Any) -> list[str]:
    return [os.fspath(path) for path in ([data] if isinstance(data, (str, os.PathLike)) else data)]


def object_ids(pool: Pool, texts: Sequence[str]) -> list[Id]:
    """The ids of objects; the id of a commit stands for those that it added."""
    out: list[Id] = []
    for text in texts:
        ident = parse(text)
        try:
            out.extend(o.id for o in pool.commits.read(ident).adds)
        except NotFound:
            out.append(ident)
    return out


def make_note(author: str | None, message: str, meta: Any) -> Note:
    """What is said of a commit; objects of Python become values."""
    value = NULL if meta is None else from_python(meta)
    return Note(default_author() if author is None else author, message, value)
