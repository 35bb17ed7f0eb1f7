"""Damage to files that an engine reads by itself: Shoal verified them before, and looks again when results arrive.

Neither DuckDB 2.0 nor its settings verify the checksums of Parquet pages, so a file that was verified may change
before the engine reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from shoal.engines.stopping import current
from shoal.errors import ShoalError
from shoal.storage.verified_files import VerifiedFile

B = TypeVar("B")


def unless_changed(files: Sequence[VerifiedFile], batches: Iterable[B]) -> Iterator[B]:
    """What an engine read from files, as long as the files are those that were verified.

    They are compared before batches 1, 2, 4, 8 and so on, and after the last one: results of one batch are compared
    before anybody has them, and results of many batches cost few comparisons.
    """
    next_look, is_compared = 1, False
    for count, batch in enumerate(batches, 1):
        is_compared = count == next_look
        if is_compared:
            require_unchanged(files)
            next_look *= 2
        yield batch
    if not is_compared:
        require_unchanged(files)


def require_unchanged(files: Iterable[VerifiedFile]) -> None:
    """Raise if a file is not in the state in which it was verified."""
    for file in files:
        file.require_unchanged()


def damage_to(files: Iterable[VerifiedFile]) -> ShoalError | None:
    """The error of a file that is damaged or gone, by reading all of them; None if they are as they were written."""
    for file in files:
        current().check()
        try:
            file.verify()
        except ShoalError as e:
            return e
    return None


def without_paths(text: str, files: Iterable[VerifiedFile]) -> str:
    """A message of an engine in one line, in which objects stand for files: callers are not shown where files are."""
    for file in files:
        text = text.replace(file.path, file.name)
    return " ".join(text.split())
