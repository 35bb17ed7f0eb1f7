"""Queries that were compiled before. As long as no journal that they depend on has moved, they are still right."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from shoal.lake.lake import Lake
from shoal.lang import plan
from shoal.planner.dispatch import Engine, Handover

MOST_KEPT = 32
"""Of one lake."""


class Text(NamedTuple):
    """What a query is compiled from."""

    parts: tuple[str, ...]
    head: tuple[str, str] | None
    engine: Engine


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled query."""

    program: plan.Program
    handover: Handover
    positions: tuple[tuple[str, int], ...]
    """Where journals stood before they were asked: that of the lake, which has no name, and those of pools by ids."""


_kept: WeakKeyDictionary[Lake, OrderedDict[Text, Prepared]] = WeakKeyDictionary()
_lock = Lock()


def find(lake: Lake, text: Text) -> Prepared | None:
    """The query as it was compiled before, if it would be compiled to the same now."""
    with _lock:
        found = _kept.get(lake, OrderedDict()).get(text)
    if found is None:
        return None
    # The lake first: as long as its journal stands still, the pools are there.
    is_same = all(_position(lake, name) == position for name, position in found.positions)
    return found if is_same else None


def keep(lake: Lake, text: Text, prepared: Prepared) -> None:
    """Keep a compiled query, unless it has to warn of purged data each time."""
    if any(lake.pool(name).refs().purged() for name, _ in prepared.positions if name):
        return
    with _lock:
        kept = _kept.setdefault(lake, OrderedDict())
        kept[text] = prepared
        while len(kept) > MOST_KEPT:
            kept.popitem(last=False)


def _position(lake: Lake, pool: str) -> int:
    return lake.pool(pool).journal.read().position if pool else lake.position()
