"""What was found out about a type, kept for the next value of it; data with endless types does not fill memory."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

LIMIT = 10_000


class Cache(dict[K, V]):
    """A dictionary that starts anew when it has grown too large."""

    def keep(self, key: K, value: V) -> V:
        """Keep a value and give it back."""
        if len(self) >= LIMIT:
            self.clear()
        self[key] = value
        return value
