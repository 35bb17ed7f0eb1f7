"""A lake: its request types, and the handle whose methods send them, wherever the lake is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Unpack

from shoal.api.codecs import NOTHING, PLANS, POOL, POOLS, STATUS, VACUUMED
from shoal.api.handles import public_names
from shoal.api.infos import Description, LakeStatus, PoolInfo, ScanPlan, Vacuumed
from shoal.api.lake_transaction import BeginOver, LakeTransaction, Resume, all_committed
from shoal.api.options import Memory, Watch
from shoal.api.pool import DRY_RUN, GRACE, Pool
from shoal.api.pool_settings import NO_SETTINGS, PoolSettings, new_settings
from shoal.api.queries import Query, Sql
from shoal.api.requests import Need, Note, NoteArgs, Op, R, Request, in_body, in_query, verb
from shoal.api.results import Results
from shoal.api.transaction import Isolation
from shoal.errors import Unsupported
from shoal.model.node import frozen
from shoal.model.values import Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_KEY = "ts:desc"


@verb("GET", "/lake", Need.IDENTITY, STATUS, name="lake")
class GetStatus(Request[LakeStatus]):
    """Show the location and format of the lake."""


@verb("GET", "/pool", Need.IDENTITY, POOLS)
class ListPools(Request[list[PoolInfo]]):
    """List the pools that the caller may read, sorted by name."""


@verb("GET", "/pool/{pool}", Need.READ, POOL, name="showPool")
class GetPool(Request[PoolInfo]):
    """Show the settings of a pool."""

    pool: str


@frozen
class CreatePool(Request[PoolInfo]):
    """Create a pool and its branch `main`."""

    name: str
    key: str | tuple[str, ...] = DEFAULT_KEY
    order: str | None = None
    object_size: int | None = None
    seek_stride: int | None = None
    settings: PoolSettings = NO_SETTINGS
    op: Op = None


@verb("PUT", "/pool/{pool}", Need.ADMIN, NOTHING, event="pool-update", outlives_pool=True)
class RenamePool(Request[PoolInfo]):
    """Rename a pool."""

    pool: str
    name: str = in_body("name")
    op: Op = None


@verb("DELETE", "/pool/{pool}", Need.ADMIN, NOTHING, event="pool-delete", outlives_pool=True)
class DropPool(Request[PoolInfo]):
    """Delete a pool and everything in it."""

    pool: str
    op: Op = None


@verb("POST", "/vacuum", Need.LAKE, VACUUMED)
class VacuumLake(Request[Vacuumed]):
    """Vacuum all pools, and delete leftovers of crashes outside of them."""

    grace: float | None = in_query("grace", GRACE, "number")
    dry_run: bool = in_query("dryrun", DRY_RUN, "boolean")


@verb("POST", "/query/explain", Need.IDENTITY, PLANS)
class Explain(Request[list[ScanPlan]]):
    """Show how a query would read each pool, and which engine would run it."""

    program: str = in_body("query", default="")
    head: str | None = in_body("head", "object", default=None)
    engine: str | None = in_body("engine", default=None)
    includes: tuple[str, ...] = ()


@frozen
class Describe(Request[Description]):
    """Show the pools that a query reads, and how its results are arranged."""

    program: str
    head: str | None = None


class Lake(ABC):
    """A lake in a directory, in a bucket or behind a service. Errors are those of `shoal.errors`."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """The location of the lake."""

    @abstractmethod
    def do(self, request: Request[R]) -> R:
        """Execute a request. The methods of this class, `Pool` and `Branch` call this."""

    def __repr__(self) -> str:
        return f"<lake {self.uri}>"

    def __dir__(self) -> list[str]:
        return public_names(Lake, without=("do",))

    def status(self) -> LakeStatus:
        """The location and format of the lake."""
        return self.do(GetStatus())

    def pools(self) -> list[PoolInfo]:
        """All pools, sorted by name."""
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
        inline: int | None = None,
        primary: str | Iterable[str] = (),
        partition: str = "",
        policy: str = "",
        op: Op = None,
    ) -> Pool:
        """Create a pool.

        - `key`: what it is sorted by, such as `"ts"`, `"ts:desc"` or `["a.b", "c"]`; ascending by default.
        - `order`: `"asc"` or `"desc"`, if the key does not say it.
        - `object_size`: bytes of values in a data object, 500 MiB by default.
        - `seek_stride`: bytes between the entries of the seek index of an object in row form.
        - `inline`: data of a commit up to this many bytes is part of the commit, 64 KiB by default; 0 for none.
        - `primary`: the fields of the primary key: a branch has at most one record with the same values in them.
        - `partition`: an expression; a data object has records of one value of it.
        - `policy`: what becomes of records with equal keys, such as `"dedupe"`.
        - `op`: the id of the operation, for retries.
        """
        paths = key if isinstance(key, str) else tuple(key)
        settings = new_settings(inline, primary, partition, policy)
        return Pool(self, self.do(CreatePool(name, paths, order, object_size, seek_stride, settings, op)))

    def rename(self, old: str, new: str, *, op: Op = None) -> PoolInfo:
        """Rename a pool. Handles of it stay valid."""
        return self.do(RenamePool(old, new, op))

    def drop(self, name: str, *, op: Op = None) -> PoolInfo:
        """Delete a pool and everything in it."""
        return self.do(DropPool(name, op))

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        """Vacuum all pools, and delete leftovers of crashes outside of them.

        What is younger than `grace` seconds stays; the default is 7 days. With `dry_run` nothing is deleted.
        """
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
        """Run a program in the Zed language; returns its results, which are computed as they are read.

        - `head`: the `pool@branch` that a program without a source reads.
        - `includes`: files with program text to prepend.
        - `memory`: bytes that operators may use before they spill to disk.
        - `statistics`: whether to count what is read.
        - `on_debug`: called with each value that the operator `debug` sees.
        - `on_warning`: called with each warning, a line of text.
        - `watch`: called with the position in each source, for progress; a lake behind a service may not call it.
        - `engine`: `interp`, `duckdb`, `spark` or `auto`; the default is SHOAL_ENGINE, or else `auto`.
        - `on_output`: called with the name of a channel and each value that the operator `output` sends to it, except
          for `main`.
        """
        asides = on_debug, on_warning, watch
        return self.do(Query(program, head, tuple(includes), memory, statistics, *asides, engine, on_output))

    def register(self, spark: SparkSession, *, times: str = "microseconds") -> list[str]:
        """Create a temporary view of Spark for each pool, at the tip that its main branch has now; returns the names.

        All views of a call are of one time.

        A Spark timestamp has microseconds; `times="integers"` gives nanoseconds as integers instead.
        """
        raise Unsupported(f"{self.uri} is behind a service, and Spark reads a store (open the lake by its own URI)")

    def sql(
        self,
        statement: str,
        *,
        engine: str | None = None,
        on_warning: Callable[[str], None] | None = None,
        op: Op = None,
        **note: Unpack[NoteArgs],
    ) -> Results:
        """Run a statement in SQL. Each pool is a table; `"pool@commitish"` is the pool at a commitish.

        INSERT, UPDATE, DELETE, MERGE INTO and CREATE TABLE AS change a pool in one commit. Their result is one record:
        the commit, and how many records were inserted, updated and deleted.

        - `engine`: `duckdb`, `spark` or `auto`. See `docs/sql.md` for columns and types.
        - `on_warning`: called with each warning, a line of text.
        - `op`: the id of the operation, for changes. One that is repeated with the same id happens once.
        - `author`, `message`, `meta`: stored in the commit.
        """
        return self.do(Sql(statement, engine, on_warning, Note(**note), op))

    def transaction(
        self,
        places: Sequence[str],
        *,
        isolation: Isolation = "snapshot",
        expires: float | None = None,
        **note: Unpack[NoteArgs],
    ) -> AbstractContextManager[LakeTransaction]:
        """Begin a transaction on branches of several pools; it commits at the end, and abandons on an error.

        All branches change at the same moment, or none does. Queries in it see one consistent state of all pools.

        >>> with lake.transaction(["orders", "items@dev"], message="two sold") as t:  # doctest: +SKIP
        ...     t.load("orders", [{"id": 7, "item": "taco", "qty": 2}])
        ...     t.update("items@dev", "id == 'taco'", "stock := stock - 2")
        """
        return all_committed(self.begin(places, isolation=isolation, expires=expires), Note(**note))

    def begin(
        self, places: Sequence[str], *, isolation: Isolation = "snapshot", expires: float | None = None, op: Op = None
    ) -> LakeTransaction:
        """Begin a transaction on branches of several pools, which the caller must end by `commit` or `abandon`.

        - `places`: the branches, such as `"orders"` or `"items@dev"`.
        - `isolation`: with `"serializable"` a commit also fails if another writer changed what it has read.
        - `expires`: the seconds after which it can no longer be committed; a day by default.
        """
        names = (places,) if isinstance(places, str) else tuple(places)
        return self.do(BeginOver(names, isolation, expires, op))

    def resume(self, saved: str) -> LakeTransaction:
        """Go on with a transaction that another process has saved."""
        return self.do(Resume(saved))

    def explain(
        self, program: str, *, head: str | None = None, includes: Sequence[str] = (), engine: str | None = None
    ) -> list[ScanPlan]:
        """How a query would read each pool, and which engine would run it. Does not run it."""
        return self.do(Explain(program, head, engine, tuple(includes)))
