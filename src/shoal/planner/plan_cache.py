"""Plan caches: the plans of recent queries, valid while no journal that they depend on has moved.

A plan in a cache is a value: it knows nothing of the caller that it was made for. Each view of a lake has plans of its
own, so callers with different rights do not share them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from shoal.access.view import Pools
from shoal.errors import NotFound

CAPACITY = 32
"""Plans of one lake."""
K = TypeVar("K", bound=Hashable)
P = TypeVar("P")


class _Entry(NamedTuple):
    """A plan, and the positions of journals that it is valid for: of the lake, by "", and of pools by their ids."""

    plan: object
    positions: tuple[tuple[str, int], ...]


class PlanCache(Generic[K, P]):
    """Plans by what they were compiled from. Threads may share it."""

    def __init__(self) -> None:
        self._entries: WeakKeyDictionary[Pools, OrderedDict[K, _Entry]] = WeakKeyDictionary()
        self._lock = Lock()

    def find(self, lake: Pools, key: K) -> P | None:
        """The plan of a query, if compiling it now would give the same."""
        with self._lock:
            entries = self._entries.get(lake)
            entry = None if entries is None else entries.get(key)
            if entries is None or entry is None:
                return None
            entries.move_to_end(key)
        plan: P = entry.plan  # type: ignore[assignment]
        return plan if _is_valid(lake, entry.positions) else None

    def keep(self, lake: Pools, key: K, plan: P, positions: Mapping[str, int]) -> None:
        """Keep a plan, unless each run has to warn of purged data."""
        if any(lake.pool(name).refs().purged() for name in positions if name):
            return
        with self._lock:
            entries = self._entries.setdefault(lake, OrderedDict())
            entries[key] = _Entry(plan, tuple(positions.items()))
            entries.move_to_end(key)
            while len(entries) > CAPACITY:
                entries.popitem(last=False)


def _is_valid(lake: Pools, positions: tuple[tuple[str, int], ...]) -> bool:
    """Whether no journal has moved, and the caller may still see each pool."""
    try:
        # The lake first: while its journal has not moved, the pools exist.
        return all(_position(lake, name) == position for name, position in positions)
    except NotFound:
        return False


def _position(lake: Pools, pool: str) -> int:
    return lake.pool(pool).journal.read().position if pool else lake.position()
