"""A lake that is reached directly, in its store: the Lake protocol over `shoal.lake`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from shoal.access.reserved import require_unreserved, shown_pools
from shoal.api.commitish import parse_head
from shoal.api.options import Memory, Watch
from shoal.api.protocol import LakeStatus, PoolInfo, ScanPlan, Vacuumed
from shoal.engines.stopping import Stop, current
from shoal.errors import NotFound
from shoal.frames.results import Results
from shoal.ids import parse, to_text
from shoal.lake import lake
from shoal.lake.stores import create_lake, open_lake
from shoal.lake.vacuum import DEFAULT_GRACE
from shoal.lazy import lazy
from shoal.local.pool import LocalPool
from shoal.local.pool_configs import make_config, pool_info
from shoal.model.values import Value
from shoal.planner.describing import Description, describe
from shoal.planner.queries import Question, ask, explain
from shoal.storage.store import sweep

if TYPE_CHECKING:
    from shoal.planner import sql as planner_sql
else:
    planner_sql = lazy("shoal.planner.sql")


def open_local(uri: str) -> LocalLake:
    """The lake at a path or URI."""
    return LocalLake(open_lake(uri))


def create_local(uri: str) -> LocalLake:
    """A new lake at a path or URI."""
    return LocalLake(create_lake(uri))


class LocalLake:
    """A lake in a store that this process can reach."""

    def __init__(self, inner: lake.Lake) -> None:
        self.inner = inner

    def __reduce__(self) -> tuple[Any, ...]:
        return open_local, (self.uri,)

    def __repr__(self) -> str:
        return f"<lake {self.uri}>"

    @property
    def uri(self) -> str:
        return self.inner.store.uri

    def status(self) -> LakeStatus:
        info = self.inner.info
        features = tuple(sorted(info.features))
        return LakeStatus(self.uri, to_text(info.id), info.version, features, len(self.pools()))

    def pools(self) -> list[PoolInfo]:
        return [pool_info(config) for config in shown_pools(self.inner)]

    def pool(self, name: str) -> LocalPool:
        return LocalPool(self.inner, self.inner.pool(name))

    def create(
        self,
        name: str,
        *,
        key: str | Iterable[str] = "ts:desc",
        order: str | None = None,
        object_size: int | None = None,
        seek_stride: int | None = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> LocalPool:
        require_unreserved(name)
        config = make_config(name, key, order, object_size, seek_stride)
        op = None if id is None else parse(id)
        return LocalPool(self.inner, self.inner.create_pool(config, op))

    def rename(self, old: str, new: str, *, id: str | None = None) -> PoolInfo:  # noqa: A002 - the word for it
        require_unreserved(new)
        with suppress(NotFound):  # a repetition: it has its new name already
            require_unreserved(self.pool(old).name)
        return pool_info(self.inner.rename_pool(old, new, None if id is None else parse(id)))

    def drop(self, name: str, *, id: str | None = None) -> PoolInfo:  # noqa: A002 - the word for it
        return pool_info(self.inner.drop_pool(name, None if id is None else parse(id)))

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        seconds = DEFAULT_GRACE if grace is None else grace
        done = [self.pool(c.name).vacuum(grace=seconds, dry_run=dry_run) for c in self.inner.configs()]
        leftovers = self.inner.leftovers(seconds)
        if not dry_run:
            self.inner.remove(leftovers)
            sweep(self.inner.store, seconds)
        size = sum(each.size for each in done) + sum(listed.size for listed in leftovers)
        return Vacuumed(sum(each.objects for each in done), size)

    def query(
        self,
        program: str,
        *,
        head: str | None = None,
        includes: Sequence[str] = (),
        memory: Memory | None = None,
        statistics: bool = False,
        on_debug: Callable[[Value], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
        watch: Watch | None = None,
        engine: str | None = None,
        stop: Stop | None = None,
    ) -> Results:
        place = None if head is None else parse_head(head)
        question = Question(
            program,
            place,
            tuple(includes),
            memory,
            statistics,
            on_debug=on_debug,
            on_warning=on_warning,
            watch=watch,
            engine=engine,
            stop=stop or current(),
        )
        return ask(self.inner, question)

    def sql(
        self,
        statement: str,
        *,
        engine: str | None = None,
        on_warning: Callable[[str], None] | None = None,
        stop: Stop | None = None,
    ) -> Results:
        results: Results = planner_sql.ask_sql(self.inner, statement, engine, on_warning, stop or current())
        return results

    def describe(self, program: str, *, head: str | None = None) -> Description:
        """What can be said of the results of a query before it is run."""
        return describe(self.inner, Question(program, None if head is None else parse_head(head)))

    def explain(
        self, program: str, *, head: str | None = None, includes: Sequence[str] = (), engine: str | None = None
    ) -> list[ScanPlan]:
        place = None if head is None else parse_head(head)
        decisions = explain(self.inner, Question(program, place, tuple(includes), engine=engine))
        return [
            ScanPlan(
                d.pool,
                d.commit,
                len(d.pruned.objects),
                d.pruned.total,
                d.pruned.by_key,
                d.pruned.by_zone,
                d.pruned.size,
                d.engine,
                d.why,
                d.queries,
                tuple(type(op).__name__.lower() for op in d.rest),
            )
            for d in decisions
        ]
