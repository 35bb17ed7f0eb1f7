"""What was read of the store and decoded, as far as it fits into a number of bytes: the least recently used goes first.

Several threads may read the same thing at a time: then one of the results stays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Decoded parts of immutable objects, by name."""

    def __init__(self, capacity: int, size: Callable[[T], int]) -> None:
        self._capacity, self._size = capacity, size
        self._items: OrderedDict[Hashable, T] = OrderedDict()
        self.used = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, name: Hashable, read: Callable[[], T]) -> T:
        """What is there under a name, or else what `read` gives."""
        with self._lock:
            if name in self._items:
                self._items.move_to_end(name)
                return self._items[name]
        item = read()
        with self._lock:
            if name not in self._items:
                self._items[name] = item
                self.used += self._size(item)
            while self.used > self._capacity and len(self._items) > 1:
                self.used -= self._size(self._items.popitem(last=False)[1])
        return item

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self.used = 0
