"""A pool: its history, the names in it, and its committer. A pool is a value; handles of one lake share the parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shoal.api.options import MAX_MEMORY
from shoal.ids import Id, to_text
from shoal.lake.branches import Altered, Refs, horizon_of, primary_of
from shoal.lake.checkpoints import Checkpoints
from shoal.lake.claims import Patience
from shoal.lake.clocks import Clock
from shoal.lake.column_registry import ColumnRegistry
from shoal.lake.commits import Commit, Commits, MissingCommit
from shoal.lake.committer import Committer
from shoal.lake.cuts import Cut
from shoal.lake.decisions import Decisions
from shoal.lake.history import History, in_order
from shoal.lake.journal import Journal, State
from shoal.lake.names import Names, Warn, unreached
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pool_partitions import Divider
from shoal.lake.reach import Vacuumed
from shoal.lake.settling import Pendings
from shoal.lake.snapshots import Snapshot, Snapshots
from shoal.lazy import lazy
from shoal.model.values import Value
from shoal.storage.store import ObjectStore
from shoal.storage.uris import reopen_store

if TYPE_CHECKING:
    from shoal.lake import object_writer, partition_writer
else:
    object_writer = lazy("shoal.lake.object_writer")
    partition_writer = lazy("shoal.lake.partition_writer")


@dataclass(frozen=True, eq=False, slots=True)
class Pool:
    """A pool of a lake."""

    store: ObjectStore
    config: PoolConfig
    journal: Journal
    history: History
    names: Names
    committer: Committer
    columns: ColumnRegistry
    has_lineage: bool = True
    """Whether objects say where their rows come from: not where an older version may write them down again."""
    divider: Divider | None = None
    """What knows the partition of each value, where the pool has partitions and is written to."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.store.uri, self.config, self.has_lineage, self.divider)

    @property
    def prefix(self) -> str:
        """The folder of the pool in its store."""
        return to_text(self.config.id)

    @property
    def commits(self) -> Commits:
        """All commits, whether a branch reaches them or not."""
        return self.history.commits

    @property
    def snapshots(self) -> Snapshots:
        """The states at the commits."""
        return self.history.snapshots

    @property
    def clock(self) -> Clock:
        """The time for what is written."""
        return self.history.clock

    def with_config(self, config: PoolConfig) -> Pool:
        """The pool under another name. It shares what it is made of."""
        self.journal.rename(config.name)
        return replace(self, config=config, names=replace(self.names, pool=config.name))

    def refs(self) -> Refs:
        """Branches and tags as they are now."""
        return self.names.refs()

    def resolve(self, commitish: str = "", warn: Warn | None = None, cut: Cut | None = None) -> Id | None:
        """The commit that a branch, a tag, an id or a time stands for; None is the empty beginning."""
        return self.names.resolve(commitish, warn, cut)

    def snapshot(self, commit: Id | None) -> Snapshot:
        """The objects at a commit."""
        with self._kept_by_vacuum(commit):
            return self.history.snapshot(commit)

    def log(self, tip: Id | None) -> Iterator[Commit]:
        """Commits from a tip back to the beginning of history."""
        with self._kept_by_vacuum(tip):
            yield from self.history.log(tip, self.refs().horizon)

    def graph(self, tip: Id | None, with_refs: bool) -> Iterator[Commit]:
        """All that a tip knows of, and with `with_refs` all that branches and tags know of, the newest first."""
        refs = self.refs()
        tips = [tip, *(ref.commit for ref in (*refs.branches(), *refs.tags()))] if with_refs else [tip]
        with self._kept_by_vacuum(tip):
            yield from in_order(self.commits, (each for each in tips if each is not None), refs.horizon)

    @contextmanager
    def _kept_by_vacuum(self, commit: Id | None) -> Iterator[None]:
        """Ancestors that are gone are damage, unless nothing reaches the commit: then a vacuum could take them."""
        try:
            yield
        except MissingCommit as e:
            if commit is not None and not self.names.is_reached(commit, self.refs()):
                raise unreached(commit) from e
            raise

    def writer(
        self, as_one_run: bool = False, memory: int = MAX_MEMORY, partition: Value | None = None
    ) -> object_writer.ObjectWriter | partition_writer.PartitionWriter:
        """Writes data objects, which nobody sees before a commit adds them, within about this many bytes of memory.

        What comes is of one `partition`, if it is given; else a pool with partitions has objects for each of them.
        """
        store, prefix, config, columns = self.store, self.prefix, self.config, self.columns
        if partition is None and config.settings.partition:
            return partition_writer.PartitionWriter(
                store, prefix, config, columns, self.divider, as_one_run, memory, self.has_lineage
            )
        return object_writer.ObjectWriter(
            store, prefix, config, columns, as_one_run, memory, partition, self.has_lineage
        )


def open_pool(
    store: ObjectStore,
    config: PoolConfig,
    patience: Patience | None = None,
    is_grouping: bool = True,
    clock: Clock | None = None,
    decisions: Decisions | None = None,
    has_lineage: bool = True,
) -> Pool:
    """The pool of a configuration, by a handle that has read nothing yet."""
    prefix = to_text(config.id)
    clock = Clock(store) if clock is None else clock
    patience = Patience() if patience is None else patience
    decisions = Decisions(store, patience) if decisions is None else decisions

    def guard(state: State) -> None:
        if primary_of(state) not in (None, config.settings.primary):
            raise Altered(config.id, config.name)

    pendings = Pendings(config.id, decisions, clock)
    journal = Journal(store, f"{prefix}/branches", patience, clock, guard, pendings, config.name)

    def is_purged(ident: Id) -> bool:
        return Refs(journal.known).is_purged(ident)

    commits = Commits(store, prefix, lambda: horizon_of(journal.known), is_purged)
    checkpoints = Checkpoints(store, prefix, config.key, is_purged)
    history = History(commits, checkpoints, Snapshots(commits, checkpoints, config.key), clock)
    names = Names(config.name, journal, history, config.id, decisions, Vacuumed(store, prefix, history, journal))
    committer = Committer(journal, history, names, is_grouping, bool(config.settings.primary))
    columns = ColumnRegistry(store, prefix, patience)
    return Pool(store, config, journal, history, names, committer, columns, has_lineage)


def _reopen(uri: str, config: PoolConfig, has_lineage: bool, divider: Divider | None) -> Pool:
    """A pool in another process."""
    pool = open_pool(reopen_store(uri, to_text(config.id)), config, has_lineage=has_lineage)
    return replace(pool, divider=divider)
