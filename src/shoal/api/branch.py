"""A branch of a pool: its request types, and the handle whose methods send them.

Reads take a commitish as well: a branch, a tag, a commit id, or an RFC 3339 time, which stands for the branch `main`
at that time. Errors are those of `shoal.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Unpack

from shoal.api.codecs import COMMIT, COMMITS, COMPACTIONS, DONE, OBJECTS, OPTIONAL_COMMIT, REPORT, RUNS
from shoal.api.infos import CommitInfo, CommitReport, Compaction, ObjectInfo, PoolInfo
from shoal.api.options import DEFAULT_READ, ReadOptions, Watch
from shoal.api.requests import NO_NOTE, Executor, Need, Note, NoteArgs, Op, R, Request, in_body, in_query, verb
from shoal.api.transaction import Begin, Isolation, Transaction, committed
from shoal.errors import InvalidInput
from shoal.model.node import frozen

_ENGINE = "interp, duckdb, spark or auto"


@frozen
class Load(Request[str]):
    """Load data in one commit; returns its id."""

    pool: str
    branch: str
    data: Any
    format: str = "auto"
    options: ReadOptions = DEFAULT_READ
    engine: str | None = None
    watch: Watch | None = None
    note: Note = NO_NOTE
    op: Op = None


@verb("POST", "/pool/{pool}/branch/{branch}/delete", Need.WRITE, COMMIT, event="branch-commit")
class Delete(Request[str]):
    """Delete data objects, or the records that match a filter."""

    pool: str
    branch: str
    ids: tuple[str, ...] = in_body("object_ids", "array", default=())
    where: str | None = in_body("where", default=None)
    engine: str | None = in_query("engine", _ENGINE)
    note: Note = NO_NOTE
    op: Op = None

    def __post_init__(self) -> None:
        if self.where is not None and self.ids:
            raise InvalidInput("delete by ids or by a filter, not both")


@verb("POST", "/pool/{pool}/branch/{branch}/compact", Need.WRITE, COMMIT, event="branch-commit")
class Compact(Request[str]):
    """Merge data objects into sorted ones that do not overlap."""

    pool: str
    branch: str
    ids: tuple[str, ...] = in_body("object_ids", "array", default=())
    engine: str | None = in_query("engine", _ENGINE)
    vectors: bool = in_query("vectors", "accepted for clients that give it", "boolean")
    note: Note = NO_NOTE
    op: Op = None


@verb("GET", "/pool/{pool}/branch/{branch}/runs", Need.READ, RUNS, name="runs")
class CompactRuns(Request[list[list[str]]]):
    """List the runs of data objects that are worth compacting."""

    pool: str
    branch: str


@verb("POST", "/pool/{pool}/branch/{branch}/manage", Need.WRITE, COMPACTIONS, name="manage", event="branch-commit")
class CompactAll(Request[Iterator[Compaction]]):
    """Compact every run of data objects that is worth it, one commit per run."""

    pool: str
    branch: str
    engine: str | None = in_query("engine", _ENGINE)


@verb("POST", "/pool/{pool}/branch/{branch}/revert/{commit}", Need.WRITE, COMMIT, event="branch-commit")
class Revert(Request[str]):
    """Undo a commit by a new one that does the opposite."""

    pool: str
    branch: str
    commit: str
    note: Note = NO_NOTE
    op: Op = None


@verb("POST", "/pool/{pool}/branch/{branch}/cherry-pick/{commit}", Need.WRITE, COMMIT, event="branch-commit")
class CherryPick(Request[str]):
    """Apply the changes of one commit to a branch, as a new commit."""

    pool: str
    branch: str
    commit: str
    note: Note = NO_NOTE
    op: Op = None


@verb("POST", "/pool/{pool}/branch/{branch}/merge/{child}", Need.WRITE, COMMIT, event="branch-commit")
class Merge(Request[str]):
    """Merge another branch into this one, in one commit."""

    pool: str
    branch: str
    child: str
    note: Note = NO_NOTE
    op: Op = None


@verb("POST", "/pool/{pool}/branch/{branch}/rebase/{onto}", Need.WRITE, OPTIONAL_COMMIT, event="branch-update")
class Rebase(Request[str | None]):
    """Replay the commits of a branch on the tip of another; returns the new tip."""

    pool: str
    branch: str
    onto: str
    op: Op = None


@verb("GET", "/pool/{pool}/branch/{branch}/commit/{id}", Need.READ, DONE, name="commitStatus")
class FindDone(Request[str | None]):
    """Find the commit that an operation created on a branch, by the operation id."""

    pool: str
    branch: str
    id: str
    after: float | None = in_query("position", "position of the journal before the operation, if known", "number")


@verb("GET", "/pool/{pool}/revision/{revision}/log", Need.READ, COMMITS)
class Log(Request[Iterator[CommitInfo]]):
    """List commits, newest first."""

    pool: str
    revision: str
    ancestors: bool = in_query("ancestors", "T to list merged commits as well", "boolean")
    all: bool = in_query("all", "T to list the commits of all branches and tags", "boolean")
    author: str | None = in_query("author", "part of the names of authors; * stands for any text")
    limit: float | None = in_query("limit", "how many commits to list", "number")
    brought: bool = in_query("brought", "T to add to each merge the commits that it brought in", "boolean")

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit >= 0:
            raise InvalidInput(f"the limit of a log is a number of commits, not {self.limit:g}")


def select_commits(commits: Iterator[CommitInfo], request: Log) -> Iterator[CommitInfo]:
    """As many commits by the author as a request asks for. A merge counts for those that it brought in."""
    author = request.author
    if author is not None:
        commits = (c for c in commits if any(is_by(author, each) for each in (c, *c.brought)))
    return commits if request.limit is None else islice(commits, int(request.limit))


def is_by(author: str, commit: CommitInfo) -> bool:
    """Whether a text is part of the name of the author, whatever the case; `*` stands for any text."""
    parts = author.lower().split("*")
    at, name = 0, commit.author.lower()
    for part in parts:
        at = name.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


@verb("GET", "/pool/{pool}/revision/{revision}/report", Need.READ, REPORT)
class Report(Request[CommitReport]):
    """Report what a commit adds: records, bytes, shapes, and fields that are new or have new types."""

    pool: str
    revision: str


@verb("GET", "/pool/{pool}/revision/{revision}/objects", Need.READ, OBJECTS)
class Objects(Request[Iterator[ObjectInfo]]):
    """List data objects, in the order of the pool key."""

    pool: str
    revision: str


@verb("GET", "/pool/{pool}/revision/{revision}", Need.READ, OPTIONAL_COMMIT)
class Resolve(Request[str | None]):
    """Find the commit that a commitish stands for; none for an empty branch."""

    pool: str
    revision: str


class Branch:
    """A branch of a pool, with a method for each verb.

    Methods that change something take `op`, the id of the operation (`to_text(new())` of `shoal.ids`). If the outcome
    is unknown, retry with the same id: the operation happens once, and the retry returns the same result. `author`,
    `message` and `meta` are stored in the commit.
    """

    def __init__(self, lake: Executor, pool: PoolInfo, name: str) -> None:
        self.lake = lake
        self._pool = pool
        self.branch_name = name

    @property
    def pool_id(self) -> str:
        """The id of its pool."""
        return self._pool.id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Branch):
            return NotImplemented
        return (self.pool_id, self.branch_name) == (other.pool_id, other.branch_name)

    def __hash__(self) -> int:
        return hash((self.pool_id, self.branch_name))

    def __repr__(self) -> str:
        return f"<branch {self._pool.name}@{self.branch_name}>"

    def load(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        engine: str | None = None,
        watch: Watch | None = None,
        op: Op = None,
        **note: Unpack[NoteArgs],
    ) -> str:
        """Load data (bytes, a path, a file, values, tables, frames); returns the commit id. See `docs/python.md`.

        With `engine="spark"` Spark tasks read the files; very large ones go to Spark unless another engine is given.
        `watch` is called with the position in each file, for progress.
        """
        return self._do(Load, data, format, options, engine, watch, Note(**note), op)

    def delete(
        self,
        ids: Sequence[str] = (),
        *,
        where: str | None = None,
        engine: str | None = None,
        op: Op = None,
        **note: Unpack[NoteArgs],
    ) -> str:
        """Delete data objects, or the records that match a filter; returns the commit id."""
        return self._do(Delete, tuple(ids), where, engine, Note(**note), op)

    def compact(self, ids: Sequence[str], *, engine: str | None = None, op: Op = None, **note: Unpack[NoteArgs]) -> str:
        """Merge data objects into sorted ones that do not overlap; returns the commit id."""
        return self._do(Compact, tuple(ids), engine, False, Note(**note), op)

    def compact_runs(self) -> list[list[str]]:
        """The runs of data objects that are worth compacting."""
        return self._do(CompactRuns)

    def compact_all(self, *, engine: str | None = None) -> Iterator[Compaction]:
        """Compact every run of data objects that is worth it, one commit per run."""
        return self._do(CompactAll, engine)

    def revert(self, commit: str, *, op: Op = None, **note: Unpack[NoteArgs]) -> str:
        """Undo a commit by a new one that does the opposite; returns its id."""
        return self._do(Revert, commit, Note(**note), op)

    def cherry_pick(self, commit: str, *, op: Op = None, **note: Unpack[NoteArgs]) -> str:
        """Apply the changes of one commit to this branch; returns the id of the new commit."""
        return self._do(CherryPick, commit, Note(**note), op)

    def merge(self, child: str, *, op: Op = None, **note: Unpack[NoteArgs]) -> str:
        """Merge another branch into this one; returns the commit id."""
        return self._do(Merge, child, Note(**note), op)

    def rebase(self, onto: str, *, op: Op = None) -> str | None:
        """Replay the commits of this branch on the tip of another; returns the new tip."""
        return self._do(Rebase, onto, op)

    def done(self, op: str) -> str | None:
        """The commit that an operation created here, by operation id; None if it was not done."""
        return self._do(FindDone, op)

    def log(
        self,
        at: str | None = None,
        *,
        ancestors: bool = False,
        all: bool = False,  # noqa: A002 - the word for it
        author: str | None = None,
        limit: int | None = None,
        brought: bool = False,
    ) -> Iterator[CommitInfo]:
        """The commits of this branch, or of a commitish, newest first.

        With `ancestors`, also those that were merged; with `all`, those of all branches and tags. `author` is a part of
        the author's name, in which `*` stands for any text. With `brought`, each merge has the commits that it brought
        in as its attribute `brought`.
        """
        return self.lake.do(Log(self._pool.id, at or self.branch_name, ancestors, all, author, limit, brought))

    def report(self, at: str | None = None) -> CommitReport:
        """What the last commit of this branch, or a commitish, adds: records, bytes, fields that are new or changed."""
        return self.lake.do(Report(self._pool.id, at or self.branch_name))

    def objects(self, at: str | None = None) -> Iterator[ObjectInfo]:
        """Data objects, in the order of the pool key, of this branch or of a commitish."""
        return self.lake.do(Objects(self._pool.id, at or self.branch_name))

    def resolve(self, commitish: str | None = None) -> str | None:
        """The id of the commit that this branch, or a commitish, stands for; None for an empty branch."""
        return self.lake.do(Resolve(self._pool.id, commitish or self.branch_name))

    def begin(self, *, isolation: Isolation = "snapshot", expires: float | None = None, op: Op = None) -> Transaction:
        """Begin a transaction, which the caller must end."""
        return self._do(Begin, isolation, expires, op)

    def transaction(
        self, *, isolation: Isolation = "snapshot", expires: float | None = None, **note: Unpack[NoteArgs]
    ) -> AbstractContextManager[Transaction]:
        """Begin a transaction; as a context manager it commits at the end and abandons on an error."""
        return committed(self.begin(isolation=isolation, expires=expires), Note(**note))

    def _do(self, request: Callable[..., Request[R]], *fields: Any) -> R:
        return self.lake.do(request(self._pool.id, self.branch_name, *fields))
