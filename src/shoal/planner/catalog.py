"""What a program learns of a lake while it is compiled: each pool at one commit, whatever comes in meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.access.reserved import shown_pools
from shoal.ids import Id, to_text
from shoal.lake.branches import MAIN
from shoal.lake.lake import Lake
from shoal.lake.pool_config import PoolConfig
from shoal.lang import plan
from shoal.lang.catalog import PoolInfo
from shoal.model.fields import NO_ID
from shoal.planner.metas import COMMIT_METAS, LAKE_METAS, POOL_METAS

Views = Mapping[tuple[Id, str], Id | None]
"""Commits to read instead of the tips of branches, by pool and branch: how a transaction sees what it did."""


class LakeCatalog:
    """The catalog of a lake for one query."""

    def __init__(self, lake: Lake, head: tuple[str, str] | None = None, views: Views | None = None) -> None:
        self._lake = lake
        self._views = views or {}
        self._resolved: dict[tuple[str, str], str] = {}
        self.head = head
        self.positions = {"": lake.position()}
        """Where the journals stood before they were asked: of the lake, and of pools by their ids."""

    def pools(self) -> Sequence[PoolInfo]:
        return [_info(config) for config in shown_pools(self._lake)]

    def pool(self, name: str) -> PoolInfo:
        return _info(self._lake.pool(name).config)

    def commit(self, pool: PoolInfo, commitish: str) -> str:
        name = commitish or MAIN
        known = self._resolved.get((pool.id, name))
        if known is None:
            handle = self._lake.pool(pool.id)
            self.positions.setdefault(pool.id, handle.journal.read().position)
            view = (handle.config.id, name)
            ident = self._views[view] if view in self._views else handle.resolve(name)
            known = self._resolved[pool.id, name] = to_text(ident or NO_ID)
        return known

    def lake_metas(self) -> frozenset[str]:
        return frozenset(LAKE_METAS)

    def pool_metas(self) -> frozenset[str]:
        return frozenset(POOL_METAS)

    def commit_metas(self) -> frozenset[str]:
        return frozenset(COMMIT_METAS)


def _info(config: PoolConfig) -> PoolInfo:
    order = tuple(plan.SortKey(plan.This(path), config.key.order) for path in config.key.paths)
    return PoolInfo(config.name, to_text(config.id), order)
