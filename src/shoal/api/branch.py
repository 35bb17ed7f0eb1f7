"""A branch of a pool: its request types, and the handle whose methods send them.

Reads take a commitish as well: a branch, a tag, a commit id, or an RFC 3339 time, which stands for the branch `main`
at that time. Errors are those of `shoal.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, Unpack, overload

from shoal.api.changes import Changes, ChangeStream
from shoal.api.codecs import (
    ATTACHED,
    COMMIT,
    COMMITS,
    COMPACTIONS,
    DONE,
    OBJECTS,
    OPTIONAL_COMMIT,
    PARTITIONS,
    REPORT,
    RUNS,
)
from shoal.api.handles import public_names
from shoal.api.infos import (
    AttachedFile,
    CommitInfo,
    CommitReport,
    Compaction,
    ObjectInfo,
    PartitionInfo,
    PoolInfo,
)
from shoal.api.options import DEFAULT_READ, Memory, ReadOptions, Watch
from shoal.api.queries import Query, Sql
from shoal.api.requests import (
    NO_NOTE,
    WHEN,
    Executor,
    Need,
    Note,
    NoteArgs,
    Op,
    R,
    Request,
    in_body,
    in_query,
    require_texts,
    verb,
)
from shoal.api.results import Results
from shoal.api.transaction import Begin, Isolation, Transaction, committed
from shoal.errors import InvalidInput
from shoal.ids import to_text
from shoal.model.fields import NO_ID
from shoal.model.node import frozen
from shoal.model.values import Value, string

_ENGINE = "interp, duckdb, spark or auto"
WriteMode = Literal["load", "upsert", "delete"]
NO_COMMIT = to_text(NO_ID)
"""Stands for no commit: what an empty branch is expected to have."""


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
    mode: WriteMode = "load"
    """What becomes of data in a keyed pool: added, put in place of records with equal keys, or taken for such keys."""
    on_conflict: str | None = None
    """What becomes of records that another writer has changed meanwhile: fail, ours, theirs or newest:FIELD."""
    expect: str | None = None
    """The commit since which the branch must not have changed, maintenance aside; `NO_COMMIT` for an empty branch."""


@verb("POST", "/pool/{pool}/branch/{branch}/update", Need.WRITE, COMMIT, event="branch-commit")
class Update(Request[str]):
    """Change the records that match a filter by a program."""

    pool: str
    branch: str
    where: str = in_body("where")
    program: str = in_body("program")
    on_conflict: str | None = in_body("on_conflict", default=None)
    note: Note = NO_NOTE
    op: Op = None


@verb("POST", "/pool/{pool}/branch/{branch}/delete", Need.WRITE, COMMIT, event="branch-commit")
class Delete(Request[str]):
    """Delete data objects, the records that match a filter, or a partition."""

    pool: str
    branch: str
    ids: tuple[str, ...] = in_body("object_ids", "array", default=())
    where: str | None = in_body("where", default=None)
    partition: str | None = in_body("partition", default=None)
    engine: str | None = in_query("engine", _ENGINE)
    note: Note = NO_NOTE
    op: Op = None

    def __post_init__(self) -> None:
        if self.where is not None and self.ids:
            raise InvalidInput("delete by ids or by a filter, not both")
        if self.partition is not None and (self.ids or self.where is not None):
            raise InvalidInput("delete a partition, or by ids or a filter, not both")


@verb("POST", "/pool/{pool}/branch/{branch}/rewrite", Need.WRITE, COMMIT, name="rewrite", event="branch-commit")
class RewritePartition(Request[str]):
    """Replace the records of a partition by what a program makes of them, in one commit."""

    pool: str
    branch: str
    partition: str = in_body("partition")
    program: str = in_body("program")
    engine: str | None = in_query("engine", _ENGINE)
    note: Note = NO_NOTE
    op: Op = None


@verb("POST", "/pool/{pool}/branch/{branch}/attach", Need.WRITE, COMMIT, event="branch-commit")
class Attach(Request[str]):
    """Attach Parquet files where they are, in one commit."""

    pool: str
    branch: str
    uris: tuple[str, ...] = in_body("uris", "array", has_texts=True, default=())
    note: Note = NO_NOTE
    op: Op = None


@verb("POST", "/pool/{pool}/branch/{branch}/attachable", Need.WRITE, ATTACHED)
class Attachable(Request[list[AttachedFile]]):
    """List the Parquet files that would be attached, without attaching them."""

    pool: str
    branch: str
    uris: tuple[str, ...] = in_body("uris", "array", has_texts=True, default=())


@verb("POST", "/pool/{pool}/branch/{branch}/detach", Need.WRITE, COMMIT, event="branch-commit")
class Detach(Request[str]):
    """Take attached files out of a branch, by their paths or URLs, or by the ids of their data objects."""

    pool: str
    branch: str
    names: tuple[str, ...] = in_body("names", "array", has_texts=True, default=())
    note: Note = NO_NOTE
    op: Op = None


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
    since: str | None = in_query("since", f"{WHEN}: commits after it")
    path: str | None = in_query("path", "a field, quoted as in a program: commits that changed it, or records with it")
    graph: bool = in_query("graph", "T to list also the commits that a graph of these leads past, as hidden", "boolean")

    def __post_init__(self) -> None:
        require_texts(self)
        if self.limit is not None and not self.limit >= 0:
            raise InvalidInput(f"the limit of a log is a number of commits, not {self.limit:g}")


def select_commits(commits: Iterator[CommitInfo], request: Log) -> Iterator[CommitInfo]:
    """As many commits by the author as a request asks for. A merge counts for those that it brought in."""
    author = request.author
    if author is not None:
        commits = (c if _is_among(author, c) else replace(c, is_listed=False) for c in commits)
    limit = None if request.limit is None else int(request.limit)
    if request.graph:
        return _with_hidden(commits, limit)
    return islice((c for c in commits if c.is_listed), limit)


def _is_among(author: str, commit: CommitInfo) -> bool:
    return any(is_by(author, each) for each in (commit, *commit.brought))


def _with_hidden(commits: Iterator[CommitInfo], limit: int | None) -> Iterator[CommitInfo]:
    """Commits up to the last one that is listed, with those between them."""
    hidden: list[CommitInfo] = []
    count = 0
    for commit in commits if limit != 0 else ():
        if not commit.is_listed:
            hidden.append(commit)
            continue
        yield from hidden
        yield commit
        hidden, count = [], count + 1
        if count == limit:
            return


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


@verb("GET", "/pool/{pool}/revision/{revision}/partitions", Need.READ, PARTITIONS, name="partitions")
class Partitions(Request[Iterator[PartitionInfo]]):
    """List the partitions of a pool: value, data objects, records and bytes."""

    pool: str
    revision: str


@verb("GET", "/pool/{pool}/revision/{revision}", Need.READ, OPTIONAL_COMMIT)
class Resolve(Request[str | None]):
    """Find the commit that a commitish stands for; none for an empty branch."""

    pool: str
    revision: str


def key_values(keys: Any) -> Any:
    """Primary keys as data to load: in a list a text is a key, and not a path."""
    if isinstance(keys, list | tuple | set | frozenset | range):
        return [string(key) if isinstance(key, str) else key for key in keys]
    return keys


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

    def __dir__(self) -> list[str]:
        return public_names(type(self), ("branch_name", "lake"))

    def query(
        self,
        program: str = "pass",
        *,
        includes: Sequence[str] = (),
        memory: Memory | None = None,
        statistics: bool = False,
        on_debug: Callable[[Value], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
        watch: Watch | None = None,
        engine: str | None = None,
        on_output: Callable[[str, Value], None] | None = None,
    ) -> Results:
        """Run a program that reads this branch, unless it begins with a source of its own; returns its results.

        Without a program these are all values. The options are those of `lake.query`.

        >>> pool.query("status >= 500 | count() by host").to_pandas()  # doctest: +SKIP
        """
        asides = on_debug, on_warning, watch
        head = f"{self._pool.id}@{self.branch_name}"
        return self.lake.do(Query(program, head, tuple(includes), memory, statistics, *asides, engine, on_output))

    def schema(self) -> dict[str, str]:
        """The columns of this branch with their types, as SQL, Spark and data frames see them.

        The exact types of all values are those of `pool.query("from POOL:shapes")`.
        """
        name = f"{self._pool.id}@{self.branch_name}".replace('"', '""')
        rows = self.lake.do(Sql(f'describe "{name}"'))
        return {row.data[0]: row.data[1] for row in rows}

    def load(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        engine: str | None = None,
        watch: Watch | None = None,
        expect: str | None = None,
        op: Op = None,
        **note: Unpack[NoteArgs],
    ) -> str:
        """Load data in one commit; returns the id of the commit.

        - `data`: a path or URL, bytes, a binary file, an Arrow table, a data frame of pandas, Polars or Spark, an
          iterable of dicts and other values, or a list of any of these. A str is a path, never data.
        - `format`: the format of files and bytes, which is detected otherwise.
        - `options`: how they are read, a `shoal.ReadOptions`.
        - `engine`: with `"spark"`, Spark tasks read the files. Very large ones go to Spark unless an engine is given.
        - `watch`: called with the position in each file, for progress.
        - `expect`: the commit since which the branch must not have changed, maintenance aside; else it is a Conflict.
          `shoal.api.branch.NO_COMMIT` stands for an empty branch.
        - `op`: the id of the operation. A load that is repeated with the same id happens once.
        - `author`, `message`, `meta`: stored in the commit; the author is the user of this process by default.

        >>> pool.load([{"ts": 1, "host": "a"}], message="by hand")  # doctest: +SKIP
        '3M9ITSlPteFXUdEjJbvFOh5vzzO'
        """
        return self._do(Load, data, format, options, engine, watch, Note(**note), op, "load", None, expect)

    def upsert(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        on_conflict: str | None = None,
        watch: Watch | None = None,
        op: Op = None,
        **note: Unpack[NoteArgs],
    ) -> str:
        """Insert records, or replace those with the same primary key, in one commit; returns its id.

        The pool needs a primary key (`lake.create(name, primary="id")`).

        - `data`, `format`, `options`, `watch`, `op`: as for `load`.
        - `on_conflict`: what happens if another writer has changed one of the records meanwhile: `"fail"` (the
          default), `"ours"`, `"theirs"` or `"newest:FIELD"`.

        >>> pool.upsert([{"id": 1, "name": "Ada"}])  # doctest: +SKIP
        '3M9ITSlPteFXUdEjJbvFOh5vzzO'
        """
        return self._do(Load, data, format, options, None, watch, Note(**note), op, "upsert", on_conflict)

    def update(
        self, where: str, program: str, *, on_conflict: str | None = None, op: Op = None, **note: Unpack[NoteArgs]
    ) -> str:
        """Change the records for which a condition holds by a program, in one commit; returns its id.

        >>> pool.update("status == 'new'", "put status := 'seen'")  # doctest: +SKIP
        '3M9ITSlPteFXUdEjJbvFOh5vzzO'
        """
        return self._do(Update, where, program, on_conflict, Note(**note), op)

    def delete(
        self,
        ids: Sequence[str] = (),
        *,
        where: str | None = None,
        keys: Any = None,
        on_conflict: str | None = None,
        partition: str | None = None,
        engine: str | None = None,
        op: Op = None,
        **note: Unpack[NoteArgs],
    ) -> str:
        """Delete data objects, records by a condition or by primary keys, or a partition; returns the commit id.

        - `ids`: data objects, or commits that stand for those that they added.
        - `where`: a boolean expression, such as `"status >= 500"`.
        - `keys`: primary keys: values, or records that have its fields; a path or any other input of `load`.
        - `on_conflict`: what becomes of records with these keys that another writer changes meanwhile, as in `upsert`.
        - `partition`: a value as in ZSON, such as `"2024-01-01T00:00:00Z"`, `null` or `missing`. No data is read.
        - `engine`: with `"spark"`, Spark tasks look for the records.
        - `op`: the id of the operation. A deletion that is repeated with the same id happens once.
        """
        if keys is not None:
            if where is not None or ids or partition is not None:
                raise InvalidInput("delete by ids, by a filter, by keys or a partition, and not by two of them")
            data = key_values(keys)
            return self._do(Load, data, "auto", DEFAULT_READ, None, None, Note(**note), op, "delete", on_conflict)
        return self._do(Delete, tuple(ids), where, partition, engine, Note(**note), op)

    def rewrite(
        self, partition: str, program: str, *, engine: str | None = None, op: Op = None, **note: Unpack[NoteArgs]
    ) -> str:
        """Replace the records of a partition by what a program makes of them; returns the commit id.

        `partition` is a value as in ZSON. What the program gives has to belong to the same partition.
        """
        return self._do(RewritePartition, partition, program, engine, Note(**note), op)

    @overload
    def attach(
        self, uris: str | Sequence[str], *, dry_run: Literal[False] = False, op: Op = None, **note: Unpack[NoteArgs]
    ) -> str: ...

    @overload
    def attach(
        self, uris: str | Sequence[str], *, dry_run: Literal[True], op: Op = None, **note: Unpack[NoteArgs]
    ) -> list[AttachedFile]: ...

    def attach(
        self, uris: str | Sequence[str], *, dry_run: bool = False, op: Op = None, **note: Unpack[NoteArgs]
    ) -> str | list[AttachedFile]:
        """Attach Parquet files where they are, in one commit; returns its id.

        - `uris`: paths or s3 URLs of files, or of folders, of which all files below are meant. Folders such as
          `year=2024` give fields. Of a service they are those of its machine, and its source policy must allow them.
        - `dry_run`: returns the files that would be attached, and commits nothing.

        Files are not copied: only their footers are read. One that changes later can no longer be read.
        """
        named = (uris,) if isinstance(uris, str) else tuple(uris)
        if dry_run:
            return self._do(Attachable, named)
        return self._do(Attach, named, Note(**note), op)

    def detach(self, names: str | Sequence[str], *, op: Op = None, **note: Unpack[NoteArgs]) -> str:
        """Take attached files out of this branch; returns the commit id. The files stay where they are.

        `names` are paths or URLs of files or of folders, or the ids of data objects.
        """
        return self._do(Detach, (names,) if isinstance(names, str) else tuple(names), Note(**note), op)

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
        since: str | None = None,
        path: str | None = None,
        graph: bool = False,
    ) -> Iterator[CommitInfo]:
        """The commits of this branch, newest first.

        - `at`: a commitish to begin with: a branch, a tag, a commit id or a time.
        - `ancestors`: list merged commits as well.
        - `all`: list the commits of all branches and tags.
        - `author`: a part of the author's name, in which `*` stands for any text.
        - `limit`: how many commits to list.
        - `brought`: give each merge the commits that it brought in, as its attribute `brought`.
        - `since`: list commits after a time, a date or a duration before now, such as `7d`; or those that a commitish
          does not know.
        - `path`: list commits that added or deleted records with this field, such as `a.b` or `this["a b"].c`, or
          updated its value.
        - `graph`: list also what lies between these commits, with `is_listed` False.
        """
        choices = ancestors, all, author, limit, brought, since, path, graph
        return self.lake.do(Log(self._pool.id, at or self.branch_name, *choices))

    def changes(
        self,
        since: str | None = None,
        until: str | None = None,
        *,
        follow: bool = False,
        uniform: bool = False,
        on_warning: Callable[[str], None] | None = None,
    ) -> ChangeStream:
        """What commits changed, record by record: the oldest commit first, and compactions left out.

        - `since`: changes after this commitish, time, date or duration before now, or after the `position` of a
          change; all, if it is not given.
        - `until`: changes up to such a time or commitish, and with it; those of this branch, if it is not given.
        - `follow`: go on with the commits to come, until the stream is closed.
        - `uniform`: give `before` and `after` one type in all changes, for formats such as Arrow and CSV.
        - `on_warning`: called with a line for each data object that was purged, whose records are left out.

        >>> for change in pool.changes(since=last):  # doctest: +SKIP
        ...     print(change.change, change.before, change.after)
        ...     last = change.position
        """
        request = Changes(self._pool.id, self.branch_name, since, until, follow, uniform, on_warning)
        return ChangeStream(self.lake.do(request), since)

    def report(self, at: str | None = None) -> CommitReport:
        """What the last commit of this branch, or a commitish, adds: records, bytes, fields that are new or changed."""
        return self.lake.do(Report(self._pool.id, at or self.branch_name))

    def objects(self, at: str | None = None) -> Iterator[ObjectInfo]:
        """Data objects, in the order of the pool key, of this branch or of a commitish."""
        return self.lake.do(Objects(self._pool.id, at or self.branch_name))

    def partitions(self, at: str | None = None) -> Iterator[PartitionInfo]:
        """The partitions of this branch or of a commitish, with their data objects, records and bytes."""
        return self.lake.do(Partitions(self._pool.id, at or self.branch_name))

    def resolve(self, commitish: str | None = None) -> str | None:
        """The id of the commit that this branch, or a commitish, stands for; None for an empty branch."""
        return self.lake.do(Resolve(self._pool.id, commitish or self.branch_name))

    def begin(self, *, isolation: Isolation = "snapshot", expires: float | None = None, op: Op = None) -> Transaction:
        """Begin a transaction, which the caller must end by `commit` or `abandon`.

        With `isolation="serializable"` a commit also fails if another writer changed what the transaction has read.
        After `expires` seconds it can no longer be committed.
        """
        return self._do(Begin, isolation, expires, op)

    def transaction(
        self, *, isolation: Isolation = "snapshot", expires: float | None = None, **note: Unpack[NoteArgs]
    ) -> AbstractContextManager[Transaction]:
        """Begin a transaction; as a context manager it commits at the end and abandons on an error.

        >>> with pool.transaction(message="all or nothing") as tx:  # doctest: +SKIP
        ...     tx.delete(where="host == 'a'")
        ...     tx.load("fixed.ndjson")
        """
        return committed(self.begin(isolation=isolation, expires=expires), Note(**note))

    def _do(self, request: Callable[..., Request[R]], *fields: Any) -> R:
        return self.lake.do(request(self._pool.id, self.branch_name, *fields))
