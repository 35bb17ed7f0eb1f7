"""Opens the sources that a query over a lake names: pools, metadata, and files and URLs as any query does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from shoal.access.records import shown_pools
from shoal.access.view import Pools
from shoal.api.options import ReadOptions, Watch
from shoal.ids import Id, parse, to_text
from shoal.lake.cuts import Cut
from shoal.lake.keys import KeyRange
from shoal.lake.names import Warn
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.scans import scan, scan_objects
from shoal.lang import plan
from shoal.lazy import lazy
from shoal.model.fields import NO_ID
from shoal.model.values import Value
from shoal.planner.catalog import (
    COMMIT_METAS,
    LAKE_METAS,
    OF_BRANCHES,
    POOL_METAS,
    changes_since,
    log_in,
    position_in,
)
from shoal.planner.files import scan_opener
from shoal.planner.prune import key_range
from shoal.planner.read_log import ReadLog
from shoal.sources.policy import SourcePolicy

if TYPE_CHECKING:
    from shoal.lake import merging
    from shoal.planner import merge_policies
else:
    merging = lazy("shoal.lake.merging")
    merge_policies = lazy("shoal.planner.merge_policies")


def lake_opener(
    lake: Pools,
    options: ReadOptions,
    warn: Warn | None,
    reads: ReadLog | None = None,
    watch: Watch | None = None,
    policy: SourcePolicy | None = None,
    cut: Cut | None = None,
) -> Callable[[plan.Scan], Iterator[Value]]:
    """Opens the sources of a query over a lake, with metadata of branches as they are in its cut."""
    open_other = scan_opener(options, watch, policy)
    metas = Cut(is_fixed=True) if cut is None else cut

    def open_scan(source: plan.Scan) -> Iterator[Value]:
        match source:
            case plan.PoolScan(name, commit, _, condition):
                pool = lake.pool(name)
                keys = key_range(condition, pool.config.key.paths[0])
                if reads is not None:
                    reads.on_values(pool.config.id, commit_of(commit), keys)
                return _scan(pool, commit_of(commit), keys, warn, watch)
            case plan.MetaScan():
                return _open_meta(lake, source, reads, warn, metas)
        return open_other(source)

    return open_scan


def _scan(pool: Pool, commit: Id | None, keys: KeyRange, warn: Warn | None, watch: Watch | None) -> Iterator[Value]:
    if watch is None and not pool.config.settings.policy:
        return scan(pool, commit, keys, warn)
    objects = _OpenedObjects(pool.snapshot(commit).objects(keys))
    policy = merge_policies.policy_of(pool.config) if pool.config.settings.policy else None
    if policy is None:
        values = scan_objects(pool, objects, keys, warn)
    else:
        values = merging.merged_scan(pool, objects, policy, keys, warn)
    return values if watch is None else watch(objects, values)


class _OpenedObjects:
    """Data objects on their way into a scan; `tell` is the size of those that it has opened."""

    def __init__(self, objects: Iterable[DataObject]) -> None:
        self._objects = objects
        self._size = 0

    def __iter__(self) -> Iterator[DataObject]:
        for o in self._objects:
            self._size += o.size
            yield o

    def tell(self) -> int:
        return self._size


def commit_of(text: str) -> Id | None:
    """The commit id that a plan names; None for the empty root commit."""
    ident = parse(text)
    return None if ident == NO_ID else ident


def _open_meta(
    lake: Pools, source: plan.MetaScan, reads: ReadLog | None, warn: Warn | None, cut: Cut
) -> Iterator[Value]:
    is_in_cut = source.meta in OF_BRANCHES
    if not source.pool:
        if reads is not None:
            reads.on_journal(None, lake.position())
            for config in shown_pools(lake.configs()):
                _note_journal(lake.pool(to_text(config.id)), reads, cut if is_in_cut else None)
        return LAKE_METAS[source.meta](lake, cut)
    pool = lake.pool(source.pool)
    if reads is not None:
        _note_journal(pool, reads, cut if is_in_cut else None)
    if source.meta == "changes":
        return changes_since(pool, commit_of(source.since) if source.since else None, commit_of(source.commit), warn)
    if source.meta == "log":
        return log_in(pool, commit_of(source.commit), cut)
    if source.meta in COMMIT_METAS:
        keys = key_range(source.filter, pool.config.key.paths[0])
        return COMMIT_METAS[source.meta](pool, commit_of(source.commit), keys)
    return POOL_METAS[source.meta](pool, cut)


def _note_journal(pool: Pool, reads: ReadLog, cut: Cut | None) -> None:
    """Metadata are those of a journal: as it is now, or in a cut."""
    if cut is not None:
        pool.names.refs(cut)
    position = pool.journal.read().position if cut is None else position_in(cut, pool)
    reads.on_journal(pool.config.id, position)
