"""Which data objects a scan has to read: those that neither the pool key nor a zone map excludes."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.ids import Id
from shoal.lake.keys import EVERYTHING
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.zones import may_match
from shoal.lang import plan
from shoal.planner.pruning import field_ranges, key_range


@dataclass(frozen=True, slots=True)
class Pruned:
    """The objects that a scan has to read, and how many it need not."""

    objects: tuple[DataObject, ...]
    total: int
    by_key: int
    by_zone: int

    @property
    def size(self) -> int:
        """Bytes to read at most."""
        return sum(o.size for o in self.objects)


def prune(pool: Pool, commit: Id | None, condition: plan.Expr | None) -> Pruned:
    """Which objects may hold something that meets a condition."""
    wanted = key_range(condition, pool.config.key.paths[0])
    snapshot = pool.snapshot(commit)
    by_key = list(snapshot.objects(wanted))
    conditions = field_ranges(condition)
    kept = tuple(o for o in by_key if all(may_match(o, each) for each in conditions))
    total = snapshot.count() if wanted != EVERYTHING else len(by_key)
    return Pruned(kept, total, total - len(by_key), len(by_key) - len(kept))
