"""A lake: the requests about it, and the handle whose methods make them, wherever the lake is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from shoal.api.codecs import NOTHING, PLANS, POOL, POOLS, STATUS, VACUUMED
from shoal.api.infos import Description, LakeStatus, PoolInfo, ScanPlan, Vacuumed
from shoal.api.options import Memory, Watch
from shoal.api.pool import DRY_RUN, GRACE, Pool
from shoal.api.requests import Need, Op, R, Request, in_body, in_query, verb
from shoal.api.results import Results
from shoal.model.node import frozen
from shoal.model.values import Value

DEFAULT_KEY = "ts:desc"


@verb("GET", "/lake", Need.IDENTITY, STATUS, name="lake")
class GetStatus(Request[LakeStatus]):
    """Show where the lake is and which format it has."""


@verb("GET", "/pool", Need.IDENTITY, POOLS)
class ListPools(Request[list[PoolInfo]]):
    """List the pools that the caller may read, by name."""


@verb("GET", "/pool/{pool}", Need.READ, POOL, name="showPool")
class GetPool(Request[PoolInfo]):
    """Show what never changes about a pool."""

    pool: str


@frozen
class CreatePool(Request[PoolInfo]):
    """Create a pool and its branch `main`."""

    name: str
    key: str | tuple[str, ...] = DEFAULT_KEY
    order: str | None = None
    object_size: int | None = None
    seek_stride: int | None = None
    op: Op = None


@verb("PUT", "/pool/{pool}", Need.ADMIN, NOTHING, event="pool-update", outlives_pool=True)
class RenamePool(Request[PoolInfo]):
    """Give a pool another name."""

    pool: str
    name: str = in_body("name")
    op: Op = None


@verb("DELETE", "/pool/{pool}", Need.ADMIN, NOTHING, event="pool-delete", outlives_pool=True)
class DropPool(Request[PoolInfo]):
    """Remove a pool with all that is in it."""

    pool: str
    op: Op = None


@verb("POST", "/vacuum", Need.LAKE, VACUUMED)
class VacuumLake(Request[Vacuumed]):
    """Vacuum all pools, and remove what crashes left outside of them."""

    grace: float | None = in_query("grace", GRACE, "number")
    dry_run: bool = in_query("dryrun", DRY_RUN, "boolean")


@frozen
class Query(Request[Results]):
    """Run a program over the lake."""

    program: str
    head: str | None = None
    """The `pool@branch` that a program without a source reads."""
    includes: tuple[str, ...] = ()
    """Files with text to put in front of the program."""
    memory: Memory | None = None
    statistics: bool = False
    on_debug: Callable[[Value], None] | None = None
    on_warning: Callable[[str], None] | None = None
    watch: Watch | None = None
    engine: str | None = None
    on_output: Callable[[str, Value], None] | None = None
    """Sees the values that `output` sends to a channel other than `main`, with its name."""


@frozen
class Sql(Request[Results]):
    """Run a SELECT statement over the pools of the lake."""

    statement: str
    engine: str | None = None
    on_warning: Callable[[str], None] | None = None


@verb("POST", "/query/explain", Need.IDENTITY, PLANS)
class Explain(Request[list[ScanPlan]]):
    """Show what a query would read of each pool, and which engine would do what."""

    program: str = in_body("query", default="")
    head: str | None = in_body("head", "object", default=None)
    engine: str | None = in_body("engine", default=None)
    includes: tuple[str, ...] = ()


@frozen
class Describe(Request[Description]):
    """Show where the results of a query come from, and how they are arranged."""

    program: str
    head: str | None = None


class Lake(ABC):
    """A lake: a directory, a bucket, or behind a service. Errors are those of `shoal.errors`."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """Where it is."""

    @abstractmethod
    def do(self, request: Request[R]) -> R:
        """Carry out a request. The methods of this class and of `Pool` and `Branch` make them."""

    def __repr__(self) -> str:
        return f"<lake {self.uri}>"

    def status(self) -> LakeStatus:
        """Where it is and which format it has."""
        return self.do(GetStatus())

    def pools(self) -> list[PoolInfo]:
        """All pools, by name."""
        return self.do(ListPools())

    def pool(self, name: str) -> Pool:
        """A pool by its name or id."""
        return Pool(self, self.do(GetPool(name)))

    def create(
        self,
        name: str,
        *,
        key: str | Iterable[str] = DEFAULT_KEY,
        order: str | None = None,
        object_size: int | None = None,
        seek_stride: int | None = None,
        op: Op = None,
    ) -> Pool:
        """Create a pool, sorted by a key such as "ts", "ts:desc" or ["a.b", "c"]; ascending by default."""
        paths = key if isinstance(key, str) else tuple(key)
        return Pool(self, self.do(CreatePool(name, paths, order, object_size, seek_stride, op)))

    def rename(self, old: str, new: str, *, op: Op = None) -> PoolInfo:
        """Give a pool another name."""
        return self.do(RenamePool(old, new, op))

    def drop(self, name: str, *, op: Op = None) -> PoolInfo:
        """Remove a pool with all that is in it."""
        return self.do(DropPool(name, op))

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        """Vacuum all pools, and remove what crashes left outside of them."""
        return self.do(VacuumLake(grace, dry_run))

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
        on_output: Callable[[str, Value], None] | None = None,
    ) -> Results:
        """Run a program. `head` is the `pool@branch` that a program without a source reads.

        `watch` sees how far each source has been read; a lake behind a service may not use it. `engine` is `interp`,
        `duckdb`, `spark` or `auto`, which is the default unless the environment has SHOAL_ENGINE. `on_output` sees
        the values that the operator `output` sends to another channel than `main`, with the name of the channel.
        """
        asides = on_debug, on_warning, watch
        return self.do(Query(program, head, tuple(includes), memory, statistics, *asides, engine, on_output))

    def sql(
        self, statement: str, *, engine: str | None = None, on_warning: Callable[[str], None] | None = None
    ) -> Results:
        """Run a SELECT statement: pools are tables by their names, and `"pool@commitish"` as they were there.

        `engine` is `duckdb`, `spark` or `auto`. See `docs/sql.md` for columns and types.
        """
        return self.do(Sql(statement, engine, on_warning))

    def explain(
        self, program: str, *, head: str | None = None, includes: Sequence[str] = (), engine: str | None = None
    ) -> list[ScanPlan]:
        """What a query would read of each pool, and which engine would do what; nothing is run."""
        return self.do(Explain(program, head, engine, tuple(includes)))
