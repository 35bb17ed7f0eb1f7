"""The view of a lake that a caller gets. Pools that they may not read are not there: not in lists, names or errors.

The view offers what `Pools` lists and nothing else: a new method of the lake is closed until it is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from shoal.access.records import default_author
from shoal.errors import Forbidden, NotFound
from shoal.ids import Id, to_text
from shoal.lake.branches import Paths
from shoal.lake.decisions import Decisions
from shoal.lake.lake import Lake, LakeInfo, unknown_pool
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.lazy import lazy
from shoal.sources.policy import NO_SOURCES, SourcePolicy
from shoal.storage.store import Listed, ObjectStore

if TYPE_CHECKING:
    from shoal.lang import plan, walk
else:  # a load has no plan
    plan = lazy("shoal.lang.plan")
    walk = lazy("shoal.lang.walk")


class Pools(Protocol):
    """What queries and verbs do with a lake in its store: all of it, or the view of a caller."""

    @property
    def store(self) -> ObjectStore:
        """Where the lake is."""

    @property
    def info(self) -> LakeInfo:
        """Its id and the features of its format."""

    @property
    def decisions(self) -> Decisions:
        """What was decided about transactions over several pools, also about pools that are hidden."""

    def require_writable(self, to_free: bool = False) -> None:
        """ReadOnly or Unsupported if the lake cannot be written to; `to_free` is for changes that only remove."""

    def position(self) -> int:
        """Where the journal of pools stands: while it does not move, names of pools mean the same."""

    def configs(self) -> list[PoolConfig]:
        """All pools, by name."""

    def pool(self, name: str) -> Pool:
        """A pool by its name or id."""

    def create_pool(self, config: PoolConfig, op: Id | None = None) -> Pool:
        """Create a pool."""

    def rename_pool(self, old: str, name: str, op: Id | None = None) -> PoolConfig:
        """Give a pool another name."""

    def alter_pool(
        self, name: str, primary: Paths, check: Callable[[Pool, Id | None], None], op: Id | None = None
    ) -> PoolConfig:
        """Give a pool another primary key."""

    def settle_pool(self, ident: Id) -> PoolConfig:
        """Let the configuration of a pool have the primary key that its journal says."""

    def drop_pool(self, name: str, op: Id | None = None) -> PoolConfig:
        """Remove a pool with all that is in it."""

    def remove(self, objects: Iterable[Listed]) -> None:
        """Delete objects that nothing needs."""

    def leftovers(self, grace: float) -> list[Listed]:
        """Objects outside of all pools that are of no use and older than the grace period in seconds."""


def check_plan(lake: Pools, program: plan.Program, policy: SourcePolicy | None = None) -> None:
    """Forbidden if a query reads files or URLs that it may not, or loads where it may not."""
    allowed = policy or policy_of(lake)
    if allowed is not None:
        for source in external_sources(program):
            allowed.require(source)
    if isinstance(lake, Lake):
        return
    for node in walk.nodes(program):
        if isinstance(node, plan.Load):
            pool_to_load(lake, node.pool)


def external_sources(program: plan.Program) -> Iterator[str]:
    """The paths and URLs that a program reads."""
    for node in walk.nodes(program):
        match node:
            case plan.FileScan(path):
                yield path
            case plan.HttpScan(url):
                yield url


def pool_to_load(lake: Pools, name: str) -> Pool:
    """The pool that a query loads into, if it may."""
    pool = lake.pool(name)
    match lake:
        case Lake():
            return pool
        case VisibleLake():
            lake.require_load(to_text(pool.config.id), name)
            return pool
    raise NotFound(f"{name}: pool not found")


def require_create(lake: Pools) -> None:
    """Forbidden unless a statement of a query may create a pool."""
    if isinstance(lake, VisibleLake):
        lake.require_create()


def policy_of(lake: Pools) -> SourcePolicy | None:
    """What queries may read beside pools; None means anything, which holds for a lake without a view only."""
    match lake:
        case Lake():
            return None
        case VisibleLake():
            return lake.sources
    return NO_SOURCES


def author_of(lake: Pools) -> str:
    """The author of a load by a query that names none."""
    return (lake.author if isinstance(lake, VisibleLake) else None) or default_author()


class VisibleLake:
    """A lake behind two questions: may the caller see the pool of this id, and may a query load into it?"""

    def __init__(
        self,
        whole: Lake,
        is_visible: Callable[[str], bool],
        require_load: Callable[[str, str], None],
        sources: SourcePolicy = NO_SOURCES,
        author: str | None = None,
        require_create: Callable[[], None] | None = None,
    ) -> None:
        self._whole = whole
        self._is_visible = is_visible
        self.require_load = require_load
        """Called with the id of a pool and the name in the request; raises if nothing may be loaded there."""
        self._require_create = require_create
        self.sources = sources
        """What queries may read beside pools."""
        self.author = author
        """The author of loads by queries that name none; None is the user of this process."""

    @property
    def store(self) -> ObjectStore:
        return self._whole.store

    @property
    def info(self) -> LakeInfo:
        return self._whole.info

    @property
    def decisions(self) -> Decisions:
        return self._whole.decisions

    def configs(self) -> list[PoolConfig]:
        return [config for config in self._whole.configs() if self._is_visible(to_text(config.id))]

    def pool(self, name: str) -> Pool:
        """A pool by its name or id. One that is hidden is not found, with the same text as one that does not exist."""
        try:
            pool = self._whole.pool(name)
        except NotFound:
            raise unknown_pool(name, self.configs()) from None
        if not self._is_visible(to_text(pool.config.id)):
            raise unknown_pool(name, self.configs())
        return pool

    def require_create(self) -> None:
        """Forbidden if nobody has said that a query may create pools."""
        if self._require_create is None:
            raise Forbidden("pools cannot be created by a statement here")
        self._require_create()

    def require_writable(self, to_free: bool = False) -> None:
        self._whole.require_writable(to_free)

    def position(self) -> int:
        return self._whole.position()

    def create_pool(self, config: PoolConfig, op: Id | None = None) -> Pool:
        return self._whole.create_pool(config, op)

    def rename_pool(self, old: str, name: str, op: Id | None = None) -> PoolConfig:
        return self._whole.rename_pool(to_text(self.pool(old).config.id), name, op)

    def alter_pool(
        self, name: str, primary: Paths, check: Callable[[Pool, Id | None], None], op: Id | None = None
    ) -> PoolConfig:
        return self._whole.alter_pool(to_text(self.pool(name).config.id), primary, check, op)

    def settle_pool(self, ident: Id) -> PoolConfig:
        return self._whole.settle_pool(self.pool(to_text(ident)).config.id)

    def drop_pool(self, name: str, op: Id | None = None) -> PoolConfig:
        return self._whole.drop_pool(to_text(self.pool(name).config.id), op)

    def remove(self, objects: Iterable[Listed]) -> None:
        self._whole.remove(objects)

    def leftovers(self, grace: float) -> list[Listed]:
        """Of the whole lake: the folder of a hidden pool is not a leftover."""
        return self._whole.leftovers(grace)
