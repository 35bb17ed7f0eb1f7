"""What was read of immutable objects, kept in memory. That an object is not there is never remembered.

Another process may delete an object that is still served from here: what is deleted is no longer referred to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from shoal.storage.store import Created, Listed, ObjectStore, local_file, sweep, turn

_OVERHEAD = 200
"""Bytes that an entry costs beside its data, so that many small ones are bounded, too."""
_LARGEST_SHARE = 8
"""One object may take this part of the capacity at most."""

_Part = tuple[int, int] | None
"""Start and length of a range; None for a whole object."""


class CachedStore:
    """Another store, with a memory for objects that never change. What was not read for longest is dropped first."""

    def __init__(self, store: ObjectStore, is_immutable: Callable[[str], bool], capacity: int = 64 << 20) -> None:
        self._store = store
        self._is_immutable = is_immutable
        self._capacity = capacity
        self._kept: OrderedDict[tuple[str, _Part], bytes] = OrderedDict()
        self._parts: dict[str, set[_Part]] = {}
        self._used = 0
        self._under_way: dict[object, str] = {}
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def used(self) -> int:
        """Bytes that are kept."""
        return self._used

    def local_file(self, key: str) -> str | None:
        """The path of an object; None if there are no files."""
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
            whole = self._kept.get((key, None))
        return self._store.size(key) if whole is None else len(whole)

    def put(self, key: str, data: bytes) -> None:
        try:
            self._store.put(key, data)
        finally:
            self._drop(key)

    def create(self, key: str, data: bytes) -> Created:
        if not self._is_immutable(key):
            return self._store.create(key, data)
        with self._keeping(key, None) as keep:
            outcome = self._store.create(key, data)
            if outcome is Created.LANDED:
                keep(bytes(data))
        return outcome

    def list(self, prefix: str = "") -> Iterator[Listed]:
        return self._store.list(prefix)

    def turn(self, prefix: str) -> AbstractContextManager[None]:
        """The turn at the store below."""
        return turn(self._store, prefix)

    def sweep(self, older_than: float) -> int:
        """Sweep the store below."""
        return sweep(self._store, older_than)

    def delete(self, key: str) -> None:
        try:
            self._store.delete(key)
        finally:
            self._drop(key)

    # ---- what is kept

    def _read(self, key: str, part: _Part, fetch: Callable[[], bytes]) -> bytes:
        found = self._find(key, part)
        if found is not None:
            return found
        with self._keeping(key, part) as keep:
            data = fetch()
            keep(data)
        return data

    def _find(self, key: str, part: _Part) -> bytes | None:
        with self._lock:
            for name in ((key, None), (key, part)):
                if (data := self._kept.get(name)) is not None:
                    self._kept.move_to_end(name)
                    self.hits += 1
                    return data if part == name[1] or part is None else data[part[0] : part[0] + part[1]]
            self.misses += 1
            return None

    @contextmanager
    def _keeping(self, key: str, part: _Part) -> Iterator[Callable[[bytes], None]]:
        """Something to keep data with; it does nothing if the object was dropped since, for the data may be older."""
        token = object()
        with self._lock:
            self._under_way[token] = key

        def keep(data: bytes) -> None:
            with self._lock:
                if token in self._under_way:
                    self._add(key, part, data)

        try:
            yield keep
        finally:
            with self._lock:
                self._under_way.pop(token, None)

    def _add(self, key: str, part: _Part, data: bytes) -> None:
        if len(data) > self._capacity // _LARGEST_SHARE:
            return
        self._remove((key, part))
        self._kept[key, part] = data
        self._parts.setdefault(key, set()).add(part)
        self._used += len(data) + _OVERHEAD
        while self._used > self._capacity:
            self._remove(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        with self._lock:
            for part in tuple(self._parts.get(key, ())):
                self._remove((key, part))
            for token in [token for token, of in self._under_way.items() if of == key]:
                del self._under_way[token]

    def _remove(self, name: tuple[str, _Part]) -> None:
        data = self._kept.pop(name, None)
        if data is None:
            return
        self._used -= len(data) + _OVERHEAD
        self._parts[name[0]].discard(name[1])
        if not self._parts[name[0]]:
            del self._parts[name[0]]
