"""Lakes by their URI: in a store, with a cache of what never changes."""

from __future__ import annotations

from shoal.lake import lake
from shoal.storage.cache import CachedStore
from shoal.storage.store import ObjectStore
from shoal.storage.uris import open_store


def open_lake(uri: str) -> lake.Lake:
    """The lake at a path or URI."""
    return lake.open_lake(_store(uri))


def create_lake(uri: str) -> lake.Lake:
    """A new lake at a path or URI."""
    return lake.create(_store(uri))


def _store(uri: str) -> ObjectStore:
    return CachedStore(open_store(uri), _is_immutable)


def _is_immutable(key: str) -> bool:
    """All but hints, which may be written anew: HEAD and snapshots of journals, and checkpoints."""
    return not key.endswith(("/HEAD", ".snap.zng")) and "/checkpoints/" not in key and not key.startswith("probe/")
