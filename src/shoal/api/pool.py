"""A pool: its request types, and the handle whose methods send them. A pool stands for its branch `main`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shoal.api.branch import Branch
from shoal.api.codecs import DIFF, IDS, NOTHING, REF, REFS, VACUUMED
from shoal.api.infos import MAIN, Diff, PoolInfo, RefInfo, Vacuumed
from shoal.api.pool_settings import parse_paths
from shoal.api.requests import Executor, Need, Op, Request, in_body, in_query, verb
from shoal.model.node import frozen
from shoal.model.values import Value

GRACE = "seconds before garbage is deleted"
DRY_RUN = "T to delete nothing"


@verb("GET", "/pool/{pool}/branch", Need.READ, REFS)
class ListBranches(Request[list[RefInfo]]):
    """List all branches, sorted by name."""

    pool: str


@verb("GET", "/pool/{pool}/tag", Need.READ, REFS)
class ListTags(Request[list[RefInfo]]):
    """List all tags, sorted by name."""

    pool: str


@verb("POST", "/pool/{pool}", Need.WRITE, REF, event="branch-update")
class CreateBranch(Request[RefInfo]):
    """Create a branch at a commitish."""

    pool: str
    name: str = in_body("name")
    commit: str = in_body("commit", is_id=True, default=MAIN)
    op: Op = None


@verb("DELETE", "/pool/{pool}/branch/{branch}", Need.WRITE, NOTHING, event="branch-delete")
class DropBranch(Request[None]):
    """Remove a branch; its data stays until a vacuum."""

    pool: str
    branch: str
    op: Op = None


@verb("POST", "/pool/{pool}/tag", Need.WRITE, REF, event="branch-update")
class CreateTag(Request[RefInfo]):
    """Create a tag at a commitish. Tags never move."""

    pool: str
    name: str = in_body("name")
    commit: str = in_body("commit", is_id=True, default=MAIN)
    op: Op = None


@verb("DELETE", "/pool/{pool}/tag/{tag}", Need.WRITE, NOTHING, event="branch-delete")
class DropTag(Request[None]):
    """Remove a tag."""

    pool: str
    tag: str
    op: Op = None


@verb("GET", "/pool/{pool}/diff", Need.READ, DIFF, name="diff")
class DiffObjects(Request[Diff]):
    """List the data objects that differ between two commitishes; with `values`, the values."""

    pool: str
    old: str = in_query("old", "a commitish")
    new: str = in_query("new", "a commitish")
    values: bool = in_query("values", "T for values", "boolean")


@frozen
class DiffValues(Request[Iterator[tuple[str, Value]]]):
    """The values that differ, in the order of the pool key, each with "-" or "+"."""

    pool: str
    old: str
    new: str


@verb("POST", "/pool/{pool}/vacuum", Need.ADMIN, VACUUMED)
class VacuumPool(Request[Vacuumed]):
    """Delete unreachable objects."""

    pool: str
    grace: float | None = in_query("grace", GRACE, "number")
    dry_run: bool = in_query("dryrun", DRY_RUN, "boolean")


@verb("POST", "/pool/{pool}/vacate/{commit}", Need.ADMIN, NOTHING)
class Vacate(Request[None]):
    """Cut off the history before a commit."""

    pool: str
    commit: str


@verb("POST", "/pool/{pool}/purge", Need.ADMIN, IDS)
class Purge(Request[list[str]]):
    """Remove data objects from all history."""

    pool: str
    ids: tuple[str, ...] = in_body("object_ids", "array", default=())


@verb("POST", "/pool/{pool}/alter", Need.ADMIN, NOTHING, name="alterPool", event="pool-update")
class AlterPool(Request[None]):
    """Give a pool another primary key, or none."""

    pool: str
    primary: tuple[str, ...] = in_body("primary", "array", has_texts=True, default=())
    op: Op = None


class Pool(Branch):
    """A pool of a lake, which is also its branch `main`: `pool.load(data)` is `pool.branch("main").load(data)`."""

    def __init__(self, lake: Executor, info: PoolInfo) -> None:
        super().__init__(lake, info, MAIN)

    def __repr__(self) -> str:
        key = f"{','.join(self._pool.key)} {self._pool.order}"
        return f"<pool {self.name}, sorted by {key}, of {getattr(self.lake, 'uri', '')}>"

    @property
    def name(self) -> str:
        """The name of the pool when it was opened."""
        return self._pool.name

    @property
    def id(self) -> str:
        """The id of the pool, which never changes."""
        return self._pool.id

    def info(self) -> PoolInfo:
        """The name and the fixed settings of the pool."""
        return self._pool

    def branch(self, name: str) -> Branch:
        """A branch by name; whether it exists is checked on use."""
        return Branch(self.lake, self._pool, name)

    def branches(self) -> list[RefInfo]:
        """All branches, sorted by name."""
        return self.lake.do(ListBranches(self.id))

    def tags(self) -> list[RefInfo]:
        """All tags, sorted by name."""
        return self.lake.do(ListTags(self.id))

    def create_branch(self, name: str, at: str = MAIN, *, op: Op = None) -> Branch:
        """Create a branch at a commitish."""
        self.lake.do(CreateBranch(self.id, name, at, op))
        return self.branch(name)

    def drop_branch(self, name: str, *, op: Op = None) -> None:
        """Remove a branch; its data stays until a vacuum."""
        self.lake.do(DropBranch(self.id, name, op))

    def create_tag(self, name: str, at: str = MAIN, *, op: Op = None) -> None:
        """Create a tag at a commitish. Tags never move."""
        self.lake.do(CreateTag(self.id, name, at, op))

    def drop_tag(self, name: str, *, op: Op = None) -> None:
        """Remove a tag."""
        self.lake.do(DropTag(self.id, name, op))

    def diff(self, old: str, new: str) -> Diff:
        """The data objects that differ between two commitishes."""
        return self.lake.do(DiffObjects(self.id, old, new))

    def diff_values(self, old: str, new: str) -> Iterator[tuple[str, Value]]:
        """The values that differ, in the order of the pool key, each with "-" or "+"."""
        return self.lake.do(DiffValues(self.id, old, new))

    def alter(self, *, primary: str | Iterable[str], op: Op = None) -> None:
        """Give the pool another primary key, which every record of every branch has to have, each another one.

        `""` takes the primary key away. Writers that work meanwhile fail with Conflict, and can repeat what they did.

        >>> pool.alter(primary="id")  # doctest: +SKIP
        """
        self.lake.do(AlterPool(self.id, tuple(".".join(path) for path in parse_paths(primary)), op))

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        """Delete unreachable objects that are older than the grace period in seconds (default 7 days)."""
        return self.lake.do(VacuumPool(self.id, grace, dry_run))

    def vacate(self, commit: str) -> None:
        """Cut off the history before a commit."""
        self.lake.do(Vacate(self.id, commit))

    def purge(self, ids: Sequence[str]) -> list[str]:
        """Remove data objects from all history; returns their ids."""
        return self.lake.do(Purge(self.id, tuple(ids)))
