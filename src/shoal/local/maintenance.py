"""The verbs that delete data for good: vacuum, vacate, purge."""

from __future__ import annotations

from shoal.api.infos import Vacuumed
from shoal.api.lake import VacuumLake
from shoal.api.pool import Purge, Vacate, VacuumPool
from shoal.ids import parse, to_text
from shoal.lake import vacuum
from shoal.local.executor import StoreExecutor, implements
from shoal.local.history import require_commit
from shoal.storage.store import sweep


@implements(VacuumPool)
def vacuum_pool(lake: StoreExecutor, request: VacuumPool) -> Vacuumed:
    """Delete the unreachable objects of a pool."""
    pool = lake.writable(request.pool, to_free=True)
    seconds = _grace(request.grace)
    garbage = vacuum.find_garbage(pool, seconds) if request.dry_run else vacuum.collect(pool, seconds)
    names = (listed.key.rpartition("/")[2] for listed in garbage.data)
    return Vacuumed(len(garbage.data), garbage.size, tuple(dict.fromkeys(name.partition(".")[0] for name in names)))


@implements(VacuumLake)
def vacuum_lake(lake: StoreExecutor, request: VacuumLake) -> Vacuumed:
    """Vacuum all pools, and delete leftovers of crashes outside of them."""
    seconds = _grace(request.grace)
    pools = [
        vacuum_pool(lake, VacuumPool(to_text(config.id), seconds, request.dry_run)) for config in lake.root.configs()
    ]
    leftovers = lake.root.leftovers(seconds)
    if not request.dry_run:
        lake.root.remove(leftovers)
        sweep(lake.root.store, seconds)
    size = sum(vacuumed.size for vacuumed in pools) + sum(listed.size for listed in leftovers)
    return Vacuumed(sum(vacuumed.objects for vacuumed in pools), size)


def _grace(seconds: float | None) -> float:
    return vacuum.DEFAULT_GRACE if seconds is None else seconds


@implements(Vacate)
def vacate(lake: StoreExecutor, request: Vacate) -> None:
    """Cut off the history before a commit."""
    pool = lake.writable(request.pool)
    vacuum.vacate(pool, require_commit(pool, request.commit))


@implements(Purge)
def purge(lake: StoreExecutor, request: Purge) -> list[str]:
    """Remove data objects from all history."""
    pool = lake.writable(request.pool, to_free=True)
    return [to_text(ident) for ident in vacuum.purge(pool, [parse(text) for text in request.ids])]
