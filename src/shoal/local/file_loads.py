"""Loads files by tasks: one task reads a split of a large file, or several small files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput, StorageFailure
from shoal.formats.splits import Split, Survey, needs_survey, split, survey_split, surveyed
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.rewriting import remove
from shoal.lake.workers import Workers
from shoal.model.node import frozen
from shoal.sources.inputs import STDIN, is_url
from shoal.sources.reading import open_input, read_file_split

SMALLEST, LARGEST = 16 << 20, 256 << 20
"""The bytes that one task reads."""


@frozen
class Portion:
    """The input of a task: one split of a file, or some whole files."""

    pool: Pool
    parts: tuple[tuple[str, Split], ...]
    options: ReadOptions
    file_index: int = -1
    """For one split of a file: the index of the file in the load, since a load may name a file twice."""


@frozen
class Loaded:
    """The output of a task."""

    objects: list[DataObject]
    unreadable: str | None = None
    """The error if a split could not be read by itself."""


def load_files(
    pool: Pool, paths: Sequence[str], format_name: str, options: ReadOptions, by: Workers
) -> list[DataObject]:
    """Write the values of files to objects without committing them. On failure, removes the objects."""
    portions = _surveyed(_portions(pool, paths, format_name, options, by.count), by)
    written: list[DataObject] = []
    try:
        retried: set[int] = set()
        by_file: dict[int, list[DataObject]] = {}
        for portion, loaded in zip(portions, by.run(load_portion, portions), strict=True):
            by_file.setdefault(portion.file_index, []).extend(loaded.objects)
            written.extend(loaded.objects)
            if loaded.unreadable is not None:
                retried.add(portion.file_index)
        if retried:
            # A value crosses the boundary of a split, or the data is bad: reading the whole file gives the line number.
            whole = [Portion(pool, ((paths[index], Split(format_name)),), options) for index in sorted(retried)]
            remove(pool, [o for index in retried for o in by_file[index]])
            written = [o for index, objects in by_file.items() if index not in retried for o in objects]
            for loaded in by.run(load_portion, whole):
                written.extend(loaded.objects)
    except BaseException:
        remove(pool, written)
        raise
    return written


def _surveyed(portions: list[Portion], by: Workers) -> list[Portion]:
    """The portions, whose splits of a file know what they have to about each other."""
    unknown = [p for p in portions if p.file_index >= 0 and needs_survey(p.parts[0][1], p.options)]
    if not unknown:
        return portions
    surveys: dict[int, list[Survey | None]] = {}
    for portion, survey in zip(unknown, by.run(survey_portion, unknown), strict=True):
        surveys.setdefault(portion.file_index, []).append(survey)
    out: list[Portion] = []
    for index, group in groupby(portions, lambda portion: portion.file_index):
        known = list(group)
        out.extend(_settled(known, surveys[index]) if index in surveys else known)
    return out


def _settled(portions: list[Portion], surveys: list[Survey | None]) -> list[Portion]:
    """The splits of a file, of which all is known; the whole file if one of them cannot be read by itself."""
    ((path, part),) = portions[0].parts
    readable = [survey for survey in surveys if survey is not None]
    if len(readable) < len(surveys):
        return [replace(portions[0], parts=((path, Split(part.format_name)),), file_index=-1)]
    parts = surveyed([portion.parts[0][1] for portion in portions], readable)
    return [replace(portion, parts=((path, each),)) for portion, each in zip(portions, parts, strict=True)]


def survey_portion(portion: Portion) -> list[Survey | None]:
    """Survey a split of a file; None if it cannot be read by itself. Runs in a task."""
    ((path, part),) = portion.parts
    name, file = open_input(path)
    try:
        return [survey_split(file, part, portion.options)]
    except InvalidInput:
        return [None]
    except OSError as e:
        raise StorageFailure(f"{name}: {(e.strerror or str(e)).lower()}") from None
    finally:
        file.close()


def load_portion(portion: Portion) -> list[Loaded]:
    """Load one portion; runs in a task."""
    writer = portion.pool.writer(memory=portion.options.max_memory)
    try:
        for path, part in portion.parts:
            for piece in read_file_split(path, part, portion.options):
                writer.write_piece(piece)
        return [Loaded(writer.close())]
    except InvalidInput as e:
        writer.discard()
        if portion.parts[0][1].is_whole:
            raise
        return [Loaded([], str(e))]
    except BaseException:
        writer.discard()
        raise


def _portions(pool: Pool, paths: Sequence[str], format_name: str, options: ReadOptions, count: int) -> list[Portion]:
    sizes = {path: file_size(path) for path in paths}
    target = min(max(SMALLEST, sum(sizes.values()) // max(1, count)), LARGEST)
    portions: list[Portion] = []
    small: list[tuple[str, Split]] = []
    small_size = 0
    for index, path in enumerate(paths):
        parts = _parts(path, format_name, options, target)
        if len(parts) > 1:
            portions.extend(Portion(pool, ((path, part),), options, index) for part in parts)
            continue
        if small and small_size + sizes[path] > target:
            portions.append(Portion(pool, tuple(small), options))
            small, small_size = [], 0
        small.append((path, parts[0]))
        small_size += sizes[path]
    if small:
        portions.append(Portion(pool, tuple(small), options))
    return portions


def _parts(path: str, format_name: str, options: ReadOptions, size: int) -> list[Split]:
    name, file = open_input(path)
    try:
        return split(file, format_name, options, size)
    except InvalidInput as e:
        raise InvalidInput(f"{name}: {e}") from e
    finally:
        file.close()


def file_size(path: str) -> int:
    """The size of a file in bytes; 0 for anything but a local file."""
    if path == STDIN or is_url(path):
        return 0
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def are_files(paths: object) -> bool:
    """Whether data is a path or a list of paths, all of which other processes can open."""
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(listed, (list, tuple)) or not listed:
        return False
    return all(isinstance(path, (str, os.PathLike)) and os.fspath(path) != STDIN for path in listed)
