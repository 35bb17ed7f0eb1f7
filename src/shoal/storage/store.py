"""What the lake needs of an object store, and what only some stores can do.

A create has three outcomes, and the third is not an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from shoal.errors import InvalidInput

_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_LONGEST_KEY = 900


class Created(Enum):
    """What became of a create."""

    LANDED = "landed"
    """The object is there, and it is ours."""
    LOST = "lost"
    """An object of this name was there before."""
    UNKNOWN = "unknown"
    """It may have landed, now or later: read the object to find out."""


class Listed(NamedTuple):
    """An object in a listing."""

    key: str
    size: int
    modified: float
    """When it was written, in seconds since 1970, by the store's clock."""


class ObjectStore(Protocol):
    """Named, immutable byte strings. Only hints are ever overwritten.

    Each method raises InvalidInput for an invalid key and StorageFailure if the store fails.
    """

    @property
    def uri(self) -> str:
        """The location of the store."""

    def get(self, key: str) -> bytes:
        """A whole object; NotFound if it is not there."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """A part of an object, shorter where the object ends; NotFound if it is not there."""

    def size(self, key: str) -> int:
        """The length of an object; NotFound if it is not there."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object, in place of any other of its name. Readers see the old one or the new one, whole."""

    def create(self, key: str, data: bytes) -> Created:
        """Write an object if its name is free. StorageFailure only if nothing became visible for certain."""

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """The objects whose keys begin with a prefix, in no order."""

    def delete(self, key: str) -> None:
        """Remove an object; that it is already gone is not an error."""


def check_key(key: str) -> str:
    """Return the key; raises InvalidInput for a name that some store could read differently."""
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        raise InvalidInput(f"not a key of an object: {key[:100]!r}")
    return key


# ---- what only some stores can do


@runtime_checkable
class HasFiles(Protocol):
    """A store whose objects may be files of this machine, for libraries that read files by themselves."""

    def local_file(self, key: str) -> str | None:
        """The path of an object; None if it is not a file."""


@runtime_checkable
class TakesTurns(Protocol):
    """A store whose writers can take turns."""

    def turn(self, prefix: str) -> AbstractContextManager[None]:
        """Hold the turn for writing below a prefix, if it comes in time."""


@runtime_checkable
class Sweeps(Protocol):
    """A store in which crashed writers can leave files beside the objects."""

    def sweep(self, older_than: float) -> int:
        """Remove leftovers at least this many seconds old; returns how many files it removed."""


def local_file(store: object, key: str) -> str | None:
    """The path of an object; None if the store has no files."""
    return store.local_file(key) if isinstance(store, HasFiles) else None


def turn(store: object, prefix: str) -> AbstractContextManager[None]:
    """Hold the turn for writing below a prefix, where the store has turns."""
    return store.turn(prefix) if isinstance(store, TakesTurns) else nullcontext()


def sweep(store: object, older_than: float) -> int:
    """Remove what crashed writers left in a store, where that can happen; returns how many files it removed."""
    return store.sweep(older_than) if isinstance(store, Sweeps) else 0
