"""The Lake protocol: what one can do with a lake, whether it is a directory, a bucket or behind a service.

Ids are texts of 27 letters and digits. A commitish is the name of a branch or tag, the id of a commit, or an RFC 3339
time, which stands for the branch `main` as it was then. Errors are those of `shoal.errors`.

What changes something takes an `id` (`to_text(new())` of `shoal.ids`): whoever was not told what became of it repeats
it with the same one, and it is done once; a repeat of what was done gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, Self

from shoal.api.options import Memory, ReadOptions, Watch
from shoal.api.results import Results
from shoal.model.values import NULL, Value

Isolation = Literal["snapshot", "serializable"]


@dataclass(frozen=True, slots=True)
class PoolInfo:
    """A pool: what is fixed about it, and its name."""

    name: str
    id: str
    key: tuple[str, ...]
    order: str
    object_size: int
    seek_stride: int


@dataclass(frozen=True, slots=True)
class RefInfo:
    """A branch or a tag."""

    name: str
    commit: str | None
    """None: nothing has been committed there yet."""


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit as the log tells it."""

    id: str
    parent: str | None
    author: str
    date: datetime
    message: str
    meta: Value = NULL
    merged: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """A data object."""

    id: str
    min: Value
    max: Value
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Diff:
    """The objects that one commit has and another has not."""

    added: tuple[ObjectInfo, ...]
    removed: tuple[ObjectInfo, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """What became of data objects that were to be compacted together."""

    objects: int
    """How many they were."""
    commit: str | None
    """None: they are as they were."""
    error: str = ""
    """Why."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum removed, or would remove."""

    objects: int
    """Data objects."""
    size: int
    """Bytes of all that goes, metadata included."""


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """What a lake says of itself."""

    uri: str
    id: str
    version: int
    features: tuple[str, ...]
    pools: int


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """How the scan of a pool, and what follows it, would be run."""

    pool: str
    commit: str
    objects: int
    """Data objects that have to be read."""
    total: int
    """Data objects that there are."""
    pruned_by_key: int
    pruned_by_zone_map: int
    size: int
    """Bytes of the data objects that have to be read."""
    engine: str
    why: str
    """Why this engine."""
    queries: tuple[str, ...]
    """The SQL of the engine, for each layout of objects; none for the interpreter."""
    interpreted: tuple[str, ...]
    """The operators that are left to the interpreter."""

    def pruning(self) -> str:
        """`1 of 60 (59 pruned: key 40, zone map 19)`."""
        reasons = (("key", self.pruned_by_key), ("zone map", self.pruned_by_zone_map))
        shown = [f"{name} {count}" for name, count in reasons if count]
        gone = f" ({self.total - self.objects} pruned: {', '.join(shown)})" if shown else ""
        return f"{self.objects} of {self.total}{gone}"


class Transaction(Protocol):
    """Changes to one branch that come as one commit. As a context manager it commits at the end, or on error abandons.

    It can be pickled: copies stage in other processes, and `take_over` brings in what they did.
    """

    @property
    def id(self) -> str:
        """The id of the transaction: a commit that is repeated with it happens once."""

    @property
    def base(self) -> str | None:
        """The commit it began on."""

    def load(self, data: Any, *, format: str = "auto") -> None:  # noqa: A002 - the word for it
        """Stage data."""

    def delete(self, ids: Sequence[str] = (), *, where: str | None = None) -> None:
        """Stage the removal of data objects, or of the records that a filter is true for."""

    def query(self, program: str) -> Results:
        """Ask the lake as the transaction sees it; a program without a source reads the branch."""

    def take_over(self, *others: Self) -> None:
        """Bring in what copies of this transaction staged."""

    def commit(self, *, author: str | None = None, message: str = "", meta: Any = None) -> str:
        """Put it all onto the branch; the id of the commit. Conflict if others were in the way."""

    def abandon(self) -> None:
        """Drop what was staged."""


class Pool(Protocol):
    """One pool of a lake."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def id(self) -> str:
        """Its id, which stays when it is renamed."""

    def info(self) -> PoolInfo:
        """What is fixed about it."""

    def branches(self) -> list[RefInfo]:
        """All branches, by name."""

    def tags(self) -> list[RefInfo]:
        """All tags, by name."""

    def create_branch(self, name: str, at: str = "main", *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        """A new branch at a commitish."""

    def drop_branch(self, name: str, *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        """Remove a branch; what it held stays until a vacuum."""

    def create_tag(self, name: str, at: str = "main", *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        """A tag at a commitish. Tags never move."""

    def drop_tag(self, name: str, *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        """Remove a tag."""

    def resolve(self, commitish: str = "main") -> str | None:
        """The id of the commit that a commitish stands for; None for an empty branch."""

    def load(
        self,
        data: Any,
        *,
        branch: str = "main",
        format: str = "auto",  # noqa: A002 - the word for it
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
        engine: str | None = None,
        options: ReadOptions | None = None,
    ) -> str:
        """Commit data (bytes, a path, a file, values, tables, frames); the id of the commit. See `docs/python.md`.

        With `engine="spark"` files are read by tasks of Spark; so are very large ones unless another engine is named.
        """

    def done(self, id: str, branch: str = "main") -> str | None:  # noqa: A002 - the word for it
        """The commit that a branch was given by an operation, by the id of it; None if it was not done."""

    def delete(
        self,
        ids: Sequence[str] = (),
        *,
        where: str | None = None,
        branch: str = "main",
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
        engine: str | None = None,
    ) -> str:
        """Remove data objects, or the records that a filter is true for, from a branch; the id of the commit."""

    def compact(
        self,
        ids: Sequence[str],
        *,
        branch: str = "main",
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
        engine: str | None = None,
    ) -> str:
        """Rewrite data objects as sorted ones without overlaps; the id of the commit."""

    def compact_runs(self, branch: str = "main") -> list[list[str]]:
        """Which data objects of a branch are worth compacting, each list together."""

    def compact_all(self, branch: str = "main", *, engine: str | None = None) -> Iterator[Compaction]:
        """Compact what is worth it, each run by a commit of its own."""

    def revert(
        self,
        commit: str,
        *,
        branch: str = "main",
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> str:
        """Take a commit back; the id of the commit that does it."""

    def merge(
        self,
        child: str,
        into: str = "main",
        *,
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> str:
        """Bring the changes of a branch into another; the id of the commit there."""

    def rebase(self, branch: str, onto: str = "main", *, id: str | None = None) -> str | None:  # noqa: A002 - the word for it
        """Replay the commits of a branch on the tip of another; the new tip."""

    def log(self, at: str = "main") -> Iterator[CommitInfo]:
        """Commits, newest first."""

    def objects(self, at: str = "main") -> Iterator[ObjectInfo]:
        """Data objects, in the order of the pool key."""

    def diff(self, old: str, new: str) -> Diff:
        """The data objects that a commitish has and another has not."""

    def diff_values(self, old: str, new: str) -> Iterator[tuple[str, Value]]:
        """The values that differ, in the order of the pool key, each with "-" or "+"."""

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        """Remove what nothing reaches and is older than the grace period in seconds (7 days unless given)."""

    def vacate(self, commit: str) -> None:
        """Let history begin with a commit."""

    def purge(self, ids: Sequence[str]) -> list[str]:
        """Remove data objects from all of history; their ids."""

    def transaction(
        self,
        branch: str = "main",
        *,
        isolation: Isolation = "snapshot",
        expires: float | None = None,
        author: str | None = None,
        message: str = "",
        meta: Any = None,
    ) -> AbstractContextManager[Transaction]:
        """Begin a transaction on a branch."""


class Lake(Protocol):
    """A lake."""

    @property
    def uri(self) -> str:
        """Where it is."""

    def status(self) -> LakeStatus:
        """What it says of itself."""

    def pools(self) -> list[PoolInfo]:
        """All pools, by name."""

    def pool(self, name: str) -> Pool:
        """A pool by its name or id."""

    def create(
        self,
        name: str,
        *,
        key: str | Iterable[str] = "ts:desc",
        order: str | None = None,
        object_size: int | None = None,
        seek_stride: int | None = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> Pool:
        """A new pool, sorted by a key such as "ts", "ts:desc" or ["a.b", "c"]; ascending unless it says otherwise."""

    def rename(self, old: str, new: str, *, id: str | None = None) -> PoolInfo:  # noqa: A002 - the word for it
        """Give a pool another name."""

    def drop(self, name: str, *, id: str | None = None) -> PoolInfo:  # noqa: A002 - the word for it
        """Remove a pool with all that is in it."""

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        """Vacuum all pools, and remove what crashes left outside of them."""

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
    ) -> Results:
        """What a program makes of the lake. `head` is the `pool@branch` that a program without a source reads.

        `watch` is given what each source reads, to tell how far it has come; a lake that is elsewhere may not use it.
        `engine` is `interp`, `duckdb`, `spark` or `auto`, which is the default unless the environment has SHOAL_ENGINE.
        """

    def sql(
        self, statement: str, *, engine: str | None = None, on_warning: Callable[[str], None] | None = None
    ) -> Results:
        """What a query in SQL gives: pools are tables by their names, and `"pool@commitish"` as they were there.

        `engine` is `duckdb`, `spark` or `auto`. See `docs/sql.md` for columns and types.
        """

    def explain(
        self, program: str, *, head: str | None = None, includes: Sequence[str] = (), engine: str | None = None
    ) -> list[ScanPlan]:
        """What a query would read of each pool, and which engine would do what; nothing is run."""
