"""Caches by type. They are bounded: data may have any number of types."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

LIMIT = 10_000


class Cache(dict[K, V]):
    """A dictionary that is cleared when it has grown too large."""

    def keep(self, key: K, value: V) -> V:
        """Keep a value and give it back."""
        if len(self) >= LIMIT:
            self.clear()
        self[key] = value
        return value
