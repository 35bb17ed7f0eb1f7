"""A lake of which only some pools are seen. The others are not there: not in lists, not by name, not in errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from shoal.access.authors import default_author
from shoal.errors import NotFound
from shoal.ids import Id, to_text
from shoal.lake.lake import Lake
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.lang import plan
from shoal.lang.walk import nodes
from shoal.sources.policy import NO_SOURCES, SourcePolicy
from shoal.storage.store import Listed


def check_plan(lake: Lake, program: plan.Program, policy: SourcePolicy | None = None) -> None:
    """Forbidden if a query reads files or URLs that it may not, or loads where it may not."""
    allowed = policy or policy_of(lake)
    if allowed is not None:
        for source in external_sources(program):
            allowed.require(source)
    if isinstance(lake, VisibleLake):
        for node in nodes(program):
            if isinstance(node, plan.Load):
                pool_to_load(lake, node.pool)


def external_sources(program: plan.Program) -> Iterator[str]:
    """The paths and URLs that a program reads."""
    for node in nodes(program):
        match node:
            case plan.FileScan(path):
                yield path
            case plan.HttpScan(url):
                yield url


def pool_to_load(lake: Lake, name: str) -> Pool:
    """The pool that a query loads into, if it may."""
    found = lake.pool(name)
    if isinstance(lake, VisibleLake):
        lake.require_load(to_text(found.config.id), name)
    return found


def policy_of(lake: Lake) -> SourcePolicy | None:
    """What queries of a lake may read beside its pools; None if that is anything."""
    return lake.sources if isinstance(lake, VisibleLake) else None


def author_of(lake: Lake) -> str:
    """Who loads when a query does and names nobody."""
    return (lake.author if isinstance(lake, VisibleLake) else None) or default_author()


class VisibleLake(Lake):
    """A lake behind two questions: is the pool of this id to be seen, and may a query load into it?"""

    def __init__(
        self,
        whole: Lake,
        is_visible: Callable[[str], bool],
        require_load: Callable[[str, str], None],
        sources: SourcePolicy = NO_SOURCES,
        author: str | None = None,
    ) -> None:
        super().__init__(whole.store, whole.info)
        self._whole = whole
        self._is_visible = is_visible
        self.require_load = require_load
        """Is given the id of a pool and the name by which it was asked for; raises if nothing may be loaded there."""
        self.sources = sources
        """What queries may read beside pools."""
        self.author = author
        """Who loads, where a query does not say; None is the user of this process."""

    def configs(self) -> list[PoolConfig]:
        return [config for config in self._whole.configs() if self._is_visible(to_text(config.id))]

    def pool(self, name: str) -> Pool:
        found = self._whole.pool(name)
        if not self._is_visible(to_text(found.config.id)):
            raise NotFound(f"{name}: pool not found")
        return found

    def require_writable(self, to_free: bool = False) -> None:
        self._whole.require_writable(to_free)

    def position(self) -> int:
        return self._whole.position()

    def create_pool(self, config: PoolConfig, op: Id | None = None) -> Pool:
        return self._whole.create_pool(config, op)

    def rename_pool(self, old: str, name: str, op: Id | None = None) -> PoolConfig:
        return self._whole.rename_pool(to_text(self.pool(old).config.id), name, op)

    def drop_pool(self, name: str, op: Id | None = None) -> PoolConfig:
        return self._whole.drop_pool(to_text(self.pool(name).config.id), op)

    def remove(self, objects: Iterable[Listed]) -> None:
        self._whole.remove(objects)

    def leftovers(self, grace: float) -> list[Listed]:
        """Of the whole lake: the folder of a pool that is not seen is no leftover."""
        return self._whole.leftovers(grace)
