"""Files into data objects by tasks: large files in parts, small ones together."""

from __future__ import annotations

import os
from collections.abc import Sequence

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.splits import Split, split
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.rewriting import remove
from shoal.lake.workers import Workers
from shoal.model.node import frozen
from shoal.sources.inputs import STDIN, is_url
from shoal.sources.reading import open_input, read_file_split

SMALLEST, LARGEST = 16 << 20, 256 << 20
"""Bytes of a part."""


@frozen
class Portion:
    """What a task loads: one part of a file, or some whole files."""

    pool: Pool
    parts: tuple[tuple[str, Split], ...]
    options: ReadOptions
    place: int = -1
    """Of the file among those that are loaded, if it is one part of it: a file may be loaded twice."""


@frozen
class Loaded:
    """What a task has loaded."""

    objects: list[DataObject]
    unreadable: str | None = None
    """Why a part of a file could not be read by itself."""


def load_files(
    pool: Pool, paths: Sequence[str], format_name: str, options: ReadOptions, by: Workers
) -> list[DataObject]:
    """The values of files as data objects that nobody sees yet. If that fails, none of them stay."""
    portions = _portions(pool, paths, format_name, options, by.count)
    made: list[DataObject] = []
    try:
        again: set[int] = set()
        by_file: dict[int, list[DataObject]] = {}
        for portion, loaded in zip(portions, by.run(load_portion, portions), strict=True):
            by_file.setdefault(portion.place, []).extend(loaded.objects)
            made.extend(loaded.objects)
            if loaded.unreadable is not None:
                again.add(portion.place)
        if again:
            # A value lies across the edge of a part, or there is an error, of which the whole file tells the line.
            whole = [Portion(pool, ((paths[place], Split(format_name)),), options) for place in sorted(again)]
            remove(pool, [o for place in again for o in by_file[place]])
            made = [o for place, objects in by_file.items() if place not in again for o in objects]
            for loaded in by.run(load_portion, whole):
                made.extend(loaded.objects)
    except BaseException:
        remove(pool, made)
        raise
    return made


def load_portion(portion: Portion) -> list[Loaded]:
    """What a task does."""
    writer = portion.pool.writer()
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
    made: list[Portion] = []
    small: list[tuple[str, Split]] = []
    held = 0
    for place, path in enumerate(paths):
        parts = _parts(path, format_name, options, target)
        if len(parts) > 1:
            made.extend(Portion(pool, ((path, part),), options, place) for part in parts)
            continue
        if small and held + sizes[path] > target:
            made.append(Portion(pool, tuple(small), options))
            small, held = [], 0
        small.append((path, parts[0]))
        held += sizes[path]
    if small:
        made.append(Portion(pool, tuple(small), options))
    return made


def _parts(path: str, format_name: str, options: ReadOptions, size: int) -> list[Split]:
    name, file = open_input(path)
    try:
        return split(file, format_name, options, size)
    except InvalidInput as e:
        raise InvalidInput(f"{name}: {e}") from e
    finally:
        file.close()


def file_size(path: str) -> int:
    """Bytes of a file; what is not a file of this machine counts as none."""
    if path == STDIN or is_url(path):
        return 0
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def are_files(paths: object) -> bool:
    """Whether something is a path, or a list of nothing but paths, that other processes can open as well."""
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(listed, (list, tuple)) or not listed:
        return False
    return all(isinstance(each, (str, os.PathLike)) and os.fspath(each) != STDIN for each in listed)
