"""Opens the store of a URI or path. The cloud library is imported when a cloud is first used.

Paths are taken literally: `~` is a name like any other, and `%20` in a `file://` URI is not a space.
"""

from __future__ import annotations

import os
import platform
import re
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from shoal.errors import InvalidInput, Unsupported
from shoal.lazy import lazy
from shoal.storage.local import LocalStore
from shoal.storage.locations import CLOUDS, parse_location, public_name, require_obstore
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
    """Open a store. `memory://name` is the same store in the whole process, `memory://` a new one each time."""
    scheme, rest = _split(uri)
    match scheme:
        case "file":
            return LocalStore(rest)
        case "memory":
            return _open_memory(rest)
        case _:
            return _open_cloud(uri)


@lru_cache(maxsize=64)
def reopen_store(uri: str, prefix: str = "") -> ObjectStore:
    """Open the store of another process, once in this one. In a directory, the folder `prefix` has to be there."""
    require_reach(uri)
    scheme, path = _split(uri)
    if scheme == "file" and not os.path.isdir(os.path.join(path, prefix)):
        # On another machine this would create a second store under the same name, or report its objects as lost.
        raise Unsupported(
            f"{platform.node()} does not see {path} as other processes of this job do (let the lake be in a directory"
            " that all machines share, or in s3://, gs:// or az://)"
        )
    return open_store(uri)


def require_reach(uri: str) -> None:
    """Unsupported if other processes cannot open the store."""
    if uri.startswith("memory:"):
        raise Unsupported("a lake in memory cannot be reached by other processes (use another engine or store)")


def canonical_uri(uri: str) -> str:
    """The canonical form of a URI, equal to the `uri` of its store: links in a path are resolved."""
    scheme, rest = _split(uri)
    match scheme:
        case "file":
            return LocalStore(rest).uri
        case "memory":
            return f"memory://{rest}"
        case _:
            return parse_location(uri).uri


def _split(uri: str) -> tuple[str, str]:
    """The scheme and the rest; a path has the scheme `file`."""
    match = _SCHEME.fullmatch(uri)
    if "\0" in uri or not uri:
        raise InvalidInput(f"{uri!r}: not a location (write {_SUPPORTED})")
    if match is None:
        return "file", uri
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file" and not rest.startswith("/"):
        raise InvalidInput(f"{uri}: not an absolute path (write file:///path)")
    if scheme not in ("file", "memory", *CLOUDS):
        raise InvalidInput(f"{public_name(uri)}: unsupported scheme {scheme}:// (write {_SUPPORTED})")
    return scheme, rest


def _open_memory(name: str) -> MemoryStore:
    if not name:
        return MemoryStore()
    with _lock:
        return _memories.setdefault(name, MemoryStore(name))


def _open_cloud(uri: str) -> ObjectStore:
    require_obstore(uri)
    return cloud.CloudStore(uri)
