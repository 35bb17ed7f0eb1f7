"""The plan cache: physical plans of recent queries, valid while no journal that they depend on has moved.

A plan in the cache is a value: it knows nothing of the caller that it was made for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from shoal.access.view import Pools
from shoal.model.node import frozen
from shoal.planner.dispatch import Dispatched
from shoal.planner.engine_choice import Engine

CAPACITY = 32
"""Plans of one lake."""


class Key(NamedTuple):
    """What a query is compiled from."""

    parts: tuple[str, ...]
    head: tuple[str, str] | None
    engine: Engine


@frozen
class _Entry:
    """A plan, and the positions of journals that it is valid for: of the lake, by "", and of pools by their ids."""

    plan: Dispatched
    positions: tuple[tuple[str, int], ...]


_entries: WeakKeyDictionary[Pools, OrderedDict[Key, _Entry]] = WeakKeyDictionary()
_lock = Lock()


def find(lake: Pools, key: Key) -> Dispatched | None:
    """The plan of a query, if compiling it now would give the same."""
    with _lock:
        entry = _entries.get(lake, OrderedDict()).get(key)
    if entry is None:
        return None
    # The lake first: while its journal has not moved, the pools exist.
    is_valid = all(_position(lake, name) == position for name, position in entry.positions)
    return entry.plan if is_valid else None


def keep(lake: Pools, key: Key, plan: Dispatched, positions: Mapping[str, int]) -> None:
    """Keep a plan, unless each run has to warn of purged data."""
    if any(lake.pool(name).refs().purged() for name in positions if name):
        return
    with _lock:
        entries = _entries.setdefault(lake, OrderedDict())
        entries[key] = _Entry(plan, tuple(positions.items()))
        while len(entries) > CAPACITY:
            entries.popitem(last=False)


def _position(lake: Pools, pool: str) -> int:
    return lake.pool(pool).journal.read().position if pool else lake.position()
