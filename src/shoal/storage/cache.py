"""An in-memory LRU cache of immutable objects. That an object is missing is never cached.

The cache may still serve an object that another process has deleted: nothing refers to a deleted object any more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from shoal.storage.store import Created, Listed, ObjectStore, local_file, sweep, turn

_OVERHEAD = 200
"""Bytes that an entry costs in addition to its data, so that many small entries are bounded as well."""
_LARGEST_SHARE = 8
"""One object may take at most 1/8 of the capacity."""

_Part = tuple[int, int] | None
"""Start and length of a range; None for a whole object."""


class CachedStore:
    """Wraps a store and caches objects that never change. The least recently used entry is evicted first."""

    def __init__(self, store: ObjectStore, is_immutable: Callable[[str], bool], capacity: int = 64 << 20) -> None:
        self._store = store
        self._is_immutable = is_immutable
        self._capacity = capacity
        self._entries: OrderedDict[tuple[str, _Part], bytes] = OrderedDict()
        self._parts: dict[str, set[_Part]] = {}
        self._used = 0
        self._in_flight: dict[object, str] = {}
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def used(self) -> int:
        """Bytes in the cache."""
        return self._used

    def local_file(self, key: str) -> str | None:
        """The path of an object; None if the store has no files."""
        return local_file(self._store, key)

    def get(self, key: str) -> bytes:
        if not self._is_immutable(key):
            return self._store.get(key)
        return self._read(key, None, lambda: self._store.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if not self._is_immutable(key):
            return self._store.get_range(key, start, length)
        return self._read(key, (start, length), lambda: self._store.get_range(key, start, length))

    def size(self, key: str) -> int:
        with self._lock:
            whole = self._entries.get((key, None))
        return self._store.size(key) if whole is None else len(whole)

    @property
    def has_own_clock(self) -> bool:
        return self._store.has_own_clock

    def modified(self, key: str) -> float:
        return self._store.modified(key)

    def put(self, key: str, data: bytes) -> None:
        try:
            self._store.put(key, data)
        finally:
            self._drop(key)

    def create(self, key: str, data: bytes) -> Created:
        if not self._is_immutable(key):
            return self._store.create(key, data)
        with self._adding(key, None) as add:
            outcome = self._store.create(key, data)
            if outcome is Created.LANDED:
                add(bytes(data))
        return outcome

    def list(self, prefix: str = "") -> Iterator[Listed]:
        return self._store.list(prefix)

    def turn(self, prefix: str) -> AbstractContextManager[None]:
        """The turn of the wrapped store."""
        return turn(self._store, prefix)

    def sweep(self, older_than: float) -> int:
        """Sweep the wrapped store."""
        return sweep(self._store, older_than)

    def delete(self, key: str) -> None:
        try:
            self._store.delete(key)
        finally:
            self._drop(key)

    def forget(self, key: str) -> None:
        """Drop an object from the cache."""
        self._drop(key)

    # ---- entries

    def _read(self, key: str, part: _Part, fetch: Callable[[], bytes]) -> bytes:
        cached = self._find(key, part)
        if cached is not None:
            return cached
        with self._adding(key, part) as add:
            data = fetch()
            add(data)
        return data

    def _find(self, key: str, part: _Part) -> bytes | None:
        with self._lock:
            for name in ((key, None), (key, part)):
                if (data := self._entries.get(name)) is not None:
                    self._entries.move_to_end(name)
                    self.hits += 1
                    return data if part == name[1] or part is None else data[part[0] : part[0] + part[1]]
            self.misses += 1
            return None

    @contextmanager
    def _adding(self, key: str, part: _Part) -> Iterator[Callable[[bytes], None]]:
        """A function that adds data to the cache, unless the object was dropped since: the data may be old."""
        token = object()
        with self._lock:
            self._in_flight[token] = key

        def add(data: bytes) -> None:
            with self._lock:
                if token in self._in_flight:
                    self._add(key, part, data)

        try:
            yield add
        finally:
            with self._lock:
                self._in_flight.pop(token, None)

    def _add(self, key: str, part: _Part, data: bytes) -> None:
        if len(data) > self._capacity // _LARGEST_SHARE:
            return
        self._remove((key, part))
        self._entries[key, part] = data
        self._parts.setdefault(key, set()).add(part)
        self._used += len(data) + _OVERHEAD
        while self._used > self._capacity:
            self._remove(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        with self._lock:
            for part in tuple(self._parts.get(key, ())):
                self._remove((key, part))
            for token in [token for token, of in self._in_flight.items() if of == key]:
                del self._in_flight[token]

    def _remove(self, name: tuple[str, _Part]) -> None:
        data = self._entries.pop(name, None)
        if data is None:
            return
        self._used -= len(data) + _OVERHEAD
        self._parts[name[0]].discard(name[1])
        if not self._parts[name[0]]:
            del self._parts[name[0]]
