"""The object store protocol, what only some stores can do, and the check that a store can be used.

A create has three outcomes, and the third, unknown, is not an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from enum import Enum
from os import urandom
from typing import NamedTuple, Protocol, runtime_checkable

from shoal.errors import CorruptData, InvalidInput, NotFound, StorageFailure, Unsupported

_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_LONGEST_KEY = 900
_ATTEMPTS = 5
_FIRST, _SECOND = b"first", b"second"


class Created(Enum):
    """The outcome of a create."""

    LANDED = "landed"
    """The object exists, and it is ours."""
    LOST = "lost"
    """An object of this name existed before."""
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
        """A whole object; NotFound if it does not exist."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """A part of an object, shorter at the end of the object; NotFound if it does not exist."""

    @property
    def has_own_clock(self) -> bool:
        """Whether objects are dated by a clock that is not that of this machine."""

    def size(self, key: str) -> int:
        """The length of an object; NotFound if it does not exist."""

    def modified(self, key: str) -> float:
        """When an object was written, as in `Listed`; NotFound if it does not exist."""

    def put(self, key: str, data: bytes) -> None:
        """Write or replace an object. Readers see the whole old object or the whole new one."""

    def create(self, key: str, data: bytes) -> Created:
        """Write an object if its name is free. StorageFailure only if it is certain that nothing became visible."""

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """The objects whose keys begin with a prefix, in any order."""

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is not an error."""


def check_key(key: str) -> str:
    """Return the key; InvalidInput if some store could interpret it differently."""
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        raise InvalidInput(f"invalid object key: {key[:100]!r}")
    return key


# ---- what only some stores can do


@runtime_checkable
class HasFiles(Protocol):
    """A store whose objects may be local files, for libraries that read files themselves."""

    def local_file(self, key: str) -> str | None:
        """The path of an object; None if it is not a file."""


@runtime_checkable
class TakesTurns(Protocol):
    """A store whose writers can take turns, to avoid conflicts. Correctness does not depend on it."""

    def turn(self, prefix: str) -> AbstractContextManager[None]:
        """A lock for writing below a prefix, given up after a short wait."""


@runtime_checkable
class Sweeps(Protocol):
    """A store in which crashed writers can leave temporary files."""

    def sweep(self, older_than: float) -> int:
        """Delete temporary files at least this many seconds old; returns their number."""


@runtime_checkable
class Forgets(Protocol):
    """A store that keeps copies of objects."""

    def forget(self, key: str) -> None:
        """Drop the copies of an object, so that the next read is of the object itself."""


def local_file(store: object, key: str) -> str | None:
    """The path of an object; None if the store has no files."""
    return store.local_file(key) if isinstance(store, HasFiles) else None


def turn(store: object, prefix: str) -> AbstractContextManager[None]:
    """The turn for writing below a prefix, if the store has turns."""
    return store.turn(prefix) if isinstance(store, TakesTurns) else nullcontext()


def sweep(store: object, older_than: float) -> int:
    """Delete the temporary files of crashed writers, if the store can have them; returns their number."""
    return store.sweep(older_than) if isinstance(store, Sweeps) else 0


@contextmanager
def dropping_damage(store: object, key: str) -> Iterator[None]:
    """Read and verify an object: after CorruptData no copy stays, so that the object is right once it is restored."""
    try:
        yield
    except CorruptData:
        if isinstance(store, Forgets):
            store.forget(key)
        raise


# ---- whether a store can be used


def check_creates(store: ObjectStore) -> float | None:
    """Check that a second create of a name fails: some stores treat put-if-missing as a plain put.

    Returns the time by the store's clock, if the store says when it wrote the object.

    Unsupported if the second create succeeds, StorageFailure if the outcome stays unknown. A create without an answer
    may land later and leave a few bytes under `probe/`. There must be no cache between this check and the store.
    """
    for _ in range(_ATTEMPTS):
        key = f"probe/{urandom(16).hex()}"
        try:
            if _first_lands(store, key) and _second_loses(store, key):
                return _modified(store, key)
        finally:
            with suppress(StorageFailure):  # a store that forbids deletes can still be used
                store.delete(key)
    raise StorageFailure(f"{store.uri}: the outcome of a create is unknown after {_ATTEMPTS} attempts (retry later)")


def read_clock(store: ObjectStore) -> float | None:
    """The time by the store's clock; None if the store does not take an object, or does not say when it wrote it."""
    key = f"probe/{urandom(16).hex()}"
    try:
        with suppress(StorageFailure):
            store.put(key, _FIRST)
            return _modified(store, key)
        return None
    finally:
        with suppress(StorageFailure):
            store.delete(key)


def _modified(store: ObjectStore, key: str) -> float | None:
    with suppress(StorageFailure, NotFound):
        return store.modified(key)
    return None


def _first_lands(store: ObjectStore, key: str) -> bool:
    """Whether a first create landed, by its outcome or by a read."""
    if store.create(key, _FIRST) is Created.LANDED:
        return True
    return _read(store, key) == _FIRST


def _second_loses(store: ObjectStore, key: str) -> bool:
    """Whether a second create fails as it should; False if its outcome is unknown."""
    outcome = store.create(key, _SECOND)
    data = _read(store, key)
    if outcome is Created.LANDED or data == _SECOND:
        raise Unsupported(
            f"{store.uri}: the store ignores put-if-missing, so Shoal would lose commits"
            " (use a store that honours If-None-Match)"
        )
    if data != _FIRST:
        raise Unsupported(f"{store.uri}: a created object cannot be read back (use a consistent store)")
    return outcome is Created.LOST


def _read(store: ObjectStore, key: str) -> bytes | None:
    with suppress(NotFound):
        return store.get(key)
    return None
