"""The verbs on the lake as a whole: its status and its pools."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.access.records import require_unreserved, shown_pools
from shoal.api.infos import LakeStatus, PoolInfo
from shoal.api.lake import CreatePool, DropPool, GetPool, GetStatus, ListPools, RenamePool
from shoal.api.pool import AlterPool
from shoal.api.pool_settings import parse_paths
from shoal.errors import InvalidInput, NotFound
from shoal.ids import Id, new, to_text
from shoal.lake.keys import SortKey, parse_sort_key
from shoal.lake.pool_config import DEFAULT_OBJECT_SIZE, DEFAULT_SEEK_STRIDE, PoolConfig, check_config
from shoal.lake.pools import Pool
from shoal.lazy import lazy
from shoal.local.executor import StoreExecutor, implements, operation

if TYPE_CHECKING:
    from shoal.lake import keyed_changes
    from shoal.planner import merge_policies, pool_partitions
else:
    keyed_changes = lazy("shoal.lake.keyed_changes")
    merge_policies = lazy("shoal.planner.merge_policies")
    pool_partitions = lazy("shoal.planner.pool_partitions")


@implements(GetStatus)
def status(lake: StoreExecutor, request: GetStatus) -> LakeStatus:
    """Location and format of the lake."""
    info = lake.root.info
    pools = len(shown_pools(lake.root.configs()))
    return LakeStatus(lake.uri, to_text(info.id), info.version, tuple(sorted(info.features)), pools)


@implements(ListPools)
def list_pools(lake: StoreExecutor, request: ListPools) -> list[PoolInfo]:
    """All pools, by name."""
    return [pool_info(config) for config in shown_pools(lake.root.configs())]


@implements(GetPool)
def get_pool(lake: StoreExecutor, request: GetPool) -> PoolInfo:
    """A pool by its name or id."""
    return pool_info(lake.find(request.pool).config)


@implements(CreatePool)
def create_pool(lake: StoreExecutor, request: CreatePool) -> PoolInfo:
    """Create a pool."""
    require_unreserved(request.name)
    pool = lake.keep(lake.root.create_pool(new_config(request), operation(request.op)))
    return pool_info(pool.config)


@implements(RenamePool)
def rename_pool(lake: StoreExecutor, request: RenamePool) -> PoolInfo:
    """Rename a pool."""
    require_unreserved(request.name)
    with suppress(NotFound):  # a retry: the pool has its new name already
        require_unreserved(lake.find(request.pool).config.name)
    return pool_info(lake.root.rename_pool(request.pool, request.name, operation(request.op)))


@implements(AlterPool)
def alter_pool(lake: StoreExecutor, request: AlterPool) -> None:
    """Give a pool another primary key; every branch is checked."""
    paths = parse_paths(request.primary)
    lake.root.alter_pool(request.pool, paths, _check_unique, operation(request.op))
    lake.forget(request.pool)


def _check_unique(pool: Pool, commit: Id | None) -> None:
    if pool.config.settings.primary:
        keyed_changes.require_unique(pool, commit)


@implements(DropPool)
def drop_pool(lake: StoreExecutor, request: DropPool) -> PoolInfo:
    """Delete a pool and everything in it."""
    return pool_info(lake.root.drop_pool(request.pool, operation(request.op)))


def new_config(request: CreatePool) -> PoolConfig:
    """The configuration of a new pool; InvalidInput if it is not valid."""
    size, stride = request.object_size, request.seek_stride
    config = PoolConfig(
        new(),
        request.name,
        _sort_key(request.key, request.order),
        DEFAULT_OBJECT_SIZE if size is None else size,
        DEFAULT_SEEK_STRIDE if stride is None else stride,
        settings=request.settings,
    )
    check_config(config)
    if config.settings.partition:
        pool_partitions.compile_partition(config.settings.partition)
    return merge_policies.check_policy(config) if config.settings.policy else config


def pool_info(config: PoolConfig) -> PoolInfo:
    """A pool configuration as a result type."""
    key = config.key
    return PoolInfo(
        config.name,
        to_text(config.id),
        key.paths,
        key.order,
        config.object_size,
        config.seek_stride,
        config.ts,
        config.settings,
    )


def _sort_key(key: str | tuple[str, ...], order: str | None) -> SortKey:
    text = key if isinstance(key, str) else ",".join(key)
    if order is not None:
        if ":" in text:
            raise InvalidInput(f"the order is given twice: in {text!r} and as {order!r}")
        text = f"{text}:{order}"
    return parse_sort_key(text)
