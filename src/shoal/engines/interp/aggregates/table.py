"""The aggregates of the interpreter by name; the names are those of `shoal.lang.aggregates`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from shoal.engines.interp.aggregates.contract import Aggregate, Limits
from shoal.engines.interp.aggregates.counting import Count
from shoal.engines.interp.aggregates.gathering import Any, Collect, CollectMap, Fuse, Union
from shoal.engines.interp.aggregates.logical import And, Or
from shoal.engines.interp.aggregates.numeric import Average, Max, Min, Sum

Factory = Callable[[Limits], Aggregate]
"""Makes an aggregate that has seen nothing."""


def _distinct_count(limits: Limits) -> Aggregate:
    made: Aggregate = import_module("shoal.engines.interp.aggregates.sketching").DistinctCount()
    return made


AGGREGATES: dict[str, Factory] = {
    "and": lambda limits: And(),
    "any": lambda limits: Any(),
    "avg": lambda limits: Average(),
    "collect": Collect,
    "collect_map": CollectMap,
    "count": lambda limits: Count(),
    "dcount": _distinct_count,
    "fuse": lambda limits: Fuse(),
    "max": lambda limits: Max(),
    "min": lambda limits: Min(),
    "or": lambda limits: Or(),
    "sum": lambda limits: Sum(),
    "union": Union,
}

GROWING = frozenset({"collect", "collect_map", "union"})
"""Aggregates that take more memory the more they are fed."""
