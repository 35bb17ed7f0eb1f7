"""What the lake needs of an object store. A create has three outcomes, and the third is not an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, Protocol

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
    """Named, immutable pieces of bytes. Only hints are ever overwritten.

    Each method raises InvalidInput for a key that is none and StorageFailure if the store fails.
    """

    @property
    def uri(self) -> str:
        """Where this is."""

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
        """Remove an object; one that is not there is as good as removed."""


def check_key(key: str) -> str:
    """The key itself; InvalidInput for what could mean something else to some store."""
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        raise InvalidInput(f"not a key of an object: {key[:100]!r}")
    return key
