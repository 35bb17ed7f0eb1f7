"""Objects that are files of this machine, for libraries that read files by themselves."""

from __future__ import annotations

from shoal.storage.store import ObjectStore


def local_file(store: ObjectStore, key: str) -> str | None:
    """The path of an object; None if the store has no files."""
    find = getattr(store, "local_file", None)
    found: str | None = None if find is None else find(key)
    return found
