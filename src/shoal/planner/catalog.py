"""The catalog of a lake: what a program learns of it while it is compiled, and the metadata that queries read.

Each pool is at one commit for the whole query, whatever is committed meanwhile. Metadata are sources like any other:
`from :pools`, `from logs:branches`, `from logs@main:objects`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from shoal.access.records import shown_pools
from shoal.access.view import Pools
from shoal.ids import Id, to_text
from shoal.lake import branches
from shoal.lake.branches import MAIN
from shoal.lake.commits import show_actions, show_commit
from shoal.lake.cuts import Cut
from shoal.lake.decisions import show_decision
from shoal.lake.keys import KeyRange
from shoal.lake.lake import Lake
from shoal.lake.names import Warn
from shoal.lake.objects import show_object
from shoal.lake.pool_config import PoolConfig, show_config
from shoal.lake.pools import Pool
from shoal.lake.scans import object_shapes, partitions
from shoal.lang import plan
from shoal.lang.catalog import PoolInfo
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.fields import NO_ID, id_value, named, time_value, uint64
from shoal.model.values import Value, array, record, string
from shoal.planner.read_log import ReadLog

if TYPE_CHECKING:
    from shoal.lake import change_feed
    from shoal.planner import merge_policies
else:
    merge_policies = lazy("shoal.planner.merge_policies")
    change_feed = lazy("shoal.lake.change_feed")

Views = Mapping[tuple[Id, str], Id | None]
"""Commits to read instead of the tips of branches, by pool and branch: how a transaction sees what it did."""


class LakeCatalog:
    """The catalog of a lake for one query."""

    def __init__(
        self,
        lake: Pools,
        head: tuple[str, str] | None = None,
        views: Views | None = None,
        reads: ReadLog | None = None,
        cut: Cut | None = None,
    ) -> None:
        self.cut = Cut() if cut is None else cut
        """The states of the journals in which branches are read."""
        self._lake = lake
        self._reads = reads
        self._views = views or {}
        self._resolved: dict[tuple[str, str], str] = {}
        self.head = head
        self.positions = {"": lake.position()}
        """Where the journals stood before they were asked: of the lake, and of pools by their ids."""
        self.warnings: list[str] = []
        """Why what is read may not be what was meant."""

    def pools(self) -> Sequence[PoolInfo]:
        if self._reads is not None:
            self._reads.on_journal(None, self.positions[""])  # a pattern of names: a new pool may match it
        return [_info(config) for config in shown_pools(self._lake.configs())]

    def pool(self, name: str) -> PoolInfo:
        return _info(self._lake.pool(name).config)

    def commit(self, pool: PoolInfo, commitish: str) -> str:
        name = commitish or MAIN
        resolved = self._resolved.get((pool.id, name))
        if resolved is None:
            handle = self._lake.pool(pool.id)
            view = (handle.config.id, name)
            ident = self._views[view] if view in self._views else self._resolve(handle, name)
            self.positions[pool.id] = position_in(self.cut, handle)
            resolved = self._resolved[pool.id, name] = to_text(ident or NO_ID)
        return resolved

    def _resolve(self, pool: Pool, name: str) -> Id | None:
        refs = pool.names.refs(self.cut)
        if self._reads is None or not refs.has_branch(name):
            # A tag or a commit stays what it is, and so does a time, unless a clock was wrong.
            return pool.resolve(name, self.warnings.append, self.cut)
        commit = refs.branch(name).commit
        self._reads.on_branch(pool.config.id, name, commit)
        return commit

    def lake_metas(self) -> frozenset[str]:
        return frozenset(LAKE_METAS)

    def pool_metas(self) -> frozenset[str]:
        return frozenset(POOL_METAS)

    def commit_metas(self) -> frozenset[str]:
        return frozenset(COMMIT_METAS)


def position_in(cut: Cut, pool: Pool) -> int:
    """The position at which a pool is read in a cut."""
    position = cut.position(pool.config.id)
    return pool.journal.read().position if position is None else position


def _info(config: PoolConfig) -> PoolInfo:
    order = tuple(plan.SortKey(plan.This(path), config.key.order) for path in config.key.paths)
    return PoolInfo(config.name, to_text(config.id), order)


# ---- metadata as sources

LakeMeta = Callable[[Pools, Cut], Iterator[Value]]
PoolMeta = Callable[[Pool, Cut], Iterator[Value]]
CommitMeta = Callable[[Pool, Id | None, KeyRange], Iterator[Value]]


def _pools(lake: Pools, cut: Cut) -> Iterator[Value]:
    return map(show_config, shown_pools(lake.configs()))


def _transactions(lake: Pools, cut: Cut) -> Iterator[Value]:
    """Transactions over several pools, oldest first, as far as their pools may be seen."""
    names = {config.id: config.name for config in shown_pools(lake.configs())}
    for decision in lake.decisions.all():
        # Of those that writers of earlier versions aborted, nobody knows whose they were.
        if any(part.pool in names for part in decision.parts) or (not decision.parts and isinstance(lake, Lake)):
            yield show_decision(decision, names)


def _all_branches(lake: Pools, cut: Cut) -> Iterator[Value]:
    for config in shown_pools(lake.configs()):
        yield from _branches(lake.pool(to_text(config.id)), cut)


def _branches(pool: Pool, cut: Cut) -> Iterator[Value]:
    config = show_config(pool.config)
    for ref in pool.names.refs(cut).branches():
        yield named("lake.BranchMeta", ("pool", config), ("branch", branches.show_ref(ref)))


def _tags(pool: Pool, cut: Cut) -> Iterator[Value]:
    config = show_config(pool.config)
    for ref in pool.names.refs(cut).tags():
        yield named("lake.TagMeta", ("pool", config), ("tag", branches.show_ref(ref)))


def _branch_log(pool: Pool, cut: Cut) -> Iterator[Value]:
    """The journal: every entry, oldest first, with all that it changed."""
    for entry in pool.journal.entries():
        changes = [_change(key, value) for key, value in entry.changes.items()]
        yield named(
            "journal.Entry",
            ("position", uint64(entry.position)),
            ("ts", time_value(entry.at)),
            ("op", id_value(entry.op)),
            ("changes", array(changes)),
        )


def _change(key: str, value: Value | None) -> Value:
    kind, _, name = key.partition("/")
    action = "delete" if value is None else "set"
    commit = None if value is None else value.field("commit") or value
    return record([
        ("action", string(action)),
        ("kind", string(kind)),
        ("name", string(name)),
        ("commit", id_value(NO_ID if commit is None or commit.type.under is not t.BYTES else Id(commit.data))),
    ])  # fmt: skip


def _objects(pool: Pool, commit: Id | None, keys: KeyRange) -> Iterator[Value]:
    return map(show_object, pool.snapshot(commit).objects(keys))


def _attached(pool: Pool, commit: Id | None, keys: KeyRange) -> Iterator[Value]:
    """The attached files at a commit."""
    for o in pool.snapshot(commit).objects(keys):
        if o.external is not None:
            described = show_object(o)
            yield named("lake.AttachedFile", ("uri", string(o.external.uri)), ("object", described))


def _partitions(pool: Pool, commit: Id | None, keys: KeyRange) -> Iterator[Value]:
    for partition in partitions(pool.config.key, pool.snapshot(commit).objects(keys)):
        low, high = partition.bounds()
        objects = array(map(show_object, partition.objects))
        yield named("meta.Partition", ("min", low), ("max", high), ("objects", objects))


def _log(pool: Pool, commit: Id | None, keys: KeyRange) -> Iterator[Value]:
    return log_in(pool, commit, Cut())


def log_in(pool: Pool, commit: Id | None, cut: Cut) -> Iterator[Value]:
    """The tips of branches in a cut, and the commits up to one."""
    for ref in pool.names.refs(cut).branches():
        yield named("lake.BranchTip", ("Name", string(ref.name)), ("Commit", id_value(ref.commit or NO_ID)))
    yield from map(show_commit, pool.log(commit))


def _raw_log(pool: Pool, commit: Id | None, keys: KeyRange) -> Iterator[Value]:
    for each in reversed(list(pool.log(commit))):
        yield from show_actions(each)


def _shapes(pool: Pool, commit: Id | None, keys: KeyRange) -> Iterator[Value]:
    """The distinct types at a commit, the most frequent first, from metadata alone as far as it says."""
    counts: Counter[t.Type] = Counter()
    for o in pool.snapshot(commit).objects(keys):
        counts.update(dict(object_shapes(pool.store, pool.prefix, pool.config.key, o)))
    for typ, count in counts.most_common():
        yield named("lake.Shape", ("shape", Value(t.TYPE, typ)), ("count", uint64(count)))


def _changes(pool: Pool, commit: Id | None, keys: KeyRange) -> Iterator[Value]:
    """All changes up to a commit; `changes_since` gives those after another one."""
    return changes_since(pool, None, commit)


def changes_since(pool: Pool, since: Id | None, until: Id | None, warn: Warn | None = None) -> Iterator[Value]:
    """What the commits after one changed, up to another."""
    group = merge_policies.group_of(pool.config) if pool.config.settings.policy else None
    return change_feed.shown(change_feed.changes_between(pool, change_feed.Position(since), until, warn, group))


def _nothing(pool: Pool, commit: Id | None, keys: KeyRange) -> Iterator[Value]:
    return iter(())


LAKE_METAS: dict[str, LakeMeta] = {"pools": _pools, "branches": _all_branches, "transactions": _transactions}
POOL_METAS: dict[str, PoolMeta] = {"branches": _branches, "tags": _tags, "branchlog": _branch_log}
COMMIT_METAS: dict[str, CommitMeta] = {
    "objects": _objects,
    "attached": _attached,
    "partitions": _partitions,
    "log": _log,
    "rawlog": _raw_log,
    "shapes": _shapes,
    "changes": _changes,
    "vectors": _nothing,
    "indexes": _nothing,
}
OF_BRANCHES = frozenset({"branches", "tags", "log"})
"""Metadata of branches and tags as they are in a cut. Others are those of a commit, or are read as they are now."""
