"""The store behind a URI or a path. The library for clouds is imported when a cloud is first named.

Paths are taken as they are: `~` is a name like any other, and `%20` in a `file://` URI is no space.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from shoal.errors import InvalidInput, Unsupported
from shoal.lazy import lazy
from shoal.storage.local import LocalStore
from shoal.storage.locations import CLOUDS, needing_obstore, parse_location, public_name
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore

if TYPE_CHECKING:
    from shoal.storage import cloud
else:
    cloud = lazy("shoal.storage.cloud")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SUPPORTED = "a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or memory://name"

_memories: dict[str, MemoryStore] = {}
_lock = threading.Lock()


def open_store(uri: str) -> ObjectStore:
    """The store that a path or a URI names. `memory://name` is one store in the process, `memory://` a new one."""
    scheme, rest = _split(uri)
    match scheme:
        case "file":
            return LocalStore(rest)
        case "memory":
            return _open_memory(rest)
        case _:
            return _open_cloud(uri)


@lru_cache(maxsize=8)
def reopen_store(uri: str) -> ObjectStore:
    """The store of another process, opened once in this one."""
    require_reach(uri)
    return open_store(uri)


def require_reach(uri: str) -> None:
    """Unsupported, if other processes cannot open a store."""
    if uri.startswith("memory:"):
        raise Unsupported("a lake in memory cannot be reached by other processes (use another engine or store)")


def canonical_uri(uri: str) -> str:
    """The one way to write it, the same as the `uri` of its store: links in a path are followed."""
    scheme, rest = _split(uri)
    match scheme:
        case "file":
            return LocalStore(rest).uri
        case "memory":
            return f"memory://{rest}"
        case _:
            return parse_location(uri).uri


def _split(uri: str) -> tuple[str, str]:
    """The scheme and what comes after it; a path has the scheme of files."""
    found = _SCHEME.fullmatch(uri)
    if "\0" in uri or not uri:
        raise InvalidInput(f"{uri!r}: names no place (write {_SUPPORTED})")
    if found is None:
        return "file", uri
    scheme, rest = found[1].lower(), found[2]
    if scheme == "file" and not rest.startswith("/"):
        raise InvalidInput(f"{uri}: not a path from the root (write file:///path)")
    if scheme not in ("file", "memory", *CLOUDS):
        raise InvalidInput(f"{public_name(uri)}: no store is known for {scheme}:// (write {_SUPPORTED})")
    return scheme, rest


def _open_memory(name: str) -> MemoryStore:
    if not name:
        return MemoryStore()
    with _lock:
        return _memories.setdefault(name, MemoryStore(name))


def _open_cloud(uri: str) -> ObjectStore:
    with needing_obstore(uri):
        return cloud.CloudStore(uri)
