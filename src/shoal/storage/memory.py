"""Objects in memory, for tests and for lakes that live as long as the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from shoal.errors import NotFound
from shoal.storage.store import Created, Listed, check_key


class MemoryStore:
    """A dictionary behind a lock."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._objects: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        return f"memory://{self._name}"

    def get(self, key: str) -> bytes:
        return self._entry(key)[0]

    def _now(self) -> float:
        return time.time()

    def _entry(self, key: str) -> tuple[bytes, float]:
        with self._lock:
            entry = self._objects.get(check_key(key))
        if entry is None:
            raise NotFound(f"{self.uri}/{key}: no such object")
        return entry

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def size(self, key: str) -> int:
        return len(self.get(key))

    @property
    def has_own_clock(self) -> bool:
        return False

    def modified(self, key: str) -> float:
        return self._entry(key)[1]

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._objects[check_key(key)] = (bytes(data), self._now())

    def create(self, key: str, data: bytes) -> Created:
        with self._lock:
            if check_key(key) in self._objects:
                return Created.LOST
            self._objects[key] = (bytes(data), self._now())
            return Created.LANDED

    def list(self, prefix: str = "") -> Iterator[Listed]:
        with self._lock:
            listing = [
                Listed(key, len(data), at) for key, (data, at) in self._objects.items() if key.startswith(prefix)
            ]
        return iter(listing)

    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(check_key(key), None)
