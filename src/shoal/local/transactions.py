"""Transactions on a lake in a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from shoal.access.view import Pools
from shoal.api.branch import WriteMode, key_values
from shoal.api.commitish import parse_head
from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.api.requests import NO_NOTE, Note, Op
from shoal.api.results import Results
from shoal.api.transaction import Begin, Transaction
from shoal.errors import InvalidInput
from shoal.ids import Id, to_text
from shoal.lake import changes, rewriting, sessions
from shoal.lake.actions import NOTHING, Patch, patch_of
from shoal.lake.keys import KeyRange
from shoal.lake.lake import open_at
from shoal.lake.pools import Pool
from shoal.lake.sessions import BranchRead, JournalRead, Session
from shoal.lazy import lazy
from shoal.local.commits import object_ids
from shoal.local.executor import StoreExecutor, implements, operation, stored_note
from shoal.local.loads import staged_write
from shoal.planner.execute import Question
from shoal.planner.lake_query import ask, ask_once, change_of
from shoal.planner.pool_partitions import with_partitions
from shoal.planner.predicates import parse_predicate

if TYPE_CHECKING:
    from shoal.local import sql_changes, updates
    from shoal.planner import statement_plans
else:
    sql_changes = lazy("shoal.local.sql_changes")
    statement_plans = lazy("shoal.planner.statement_plans")
    updates = lazy("shoal.local.updates")


@implements(Begin)
def begin(lake: StoreExecutor, request: Begin) -> LocalTransaction:
    """Begin a transaction on the tip of a branch."""
    pool = lake.writable(request.pool)
    seconds = sessions.DEFAULT_SECONDS if request.expires is None else request.expires
    session = sessions.begin(pool, request.branch, request.isolation, seconds, operation(request.op))
    return LocalTransaction(lake.root, pool, session)


class LocalTransaction(Transaction):
    """A session on a branch, with the pool to write to."""

    def __init__(self, lake: Pools, pool: Pool, session: Session) -> None:
        self._lake = lake
        self._pool = pool
        self.session = session
        self.is_done = False
        self._view_cache: tuple[Patch, Id | None] | None = None
        self._lock = Lock()
        """Guards the session: a query in progress records the ranges it reads while changes are staged."""
        self._reads = _Reads(pool.config.id, self._note)
        self._steps: set[str] = set()
        """The ids of the operations that were staged; a retry stages nothing."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._lake.store.uri, to_text(self._pool.config.id), self.session)

    @property
    def id(self) -> str:
        return to_text(self.session.id)

    @property
    def base(self) -> str | None:
        return None if self.session.base is None else to_text(self.session.base)

    def load(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        op: Op = None,
    ) -> None:
        self.write("load", data, format, options, op)

    def upsert(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        op: Op = None,
    ) -> None:
        self.write("upsert", data, format, options, op)

    def write(self, mode: WriteMode, data: Any, format_name: str, options: ReadOptions, op: Op) -> None:
        """Stage data in one of the ways in which a pool takes it."""
        sessions.check_open(self.session)
        if isinstance(op, str) and op in self._steps:
            return
        self._step(op, staged_write(self._pool, self._view(), self.session.branch, mode, data, format_name, options))

    def update(self, where: str, program: str, *, op: Op = None) -> None:
        sessions.check_open(self.session)
        if isinstance(op, str) and op in self._steps:
            return
        predicate = parse_predicate(where)
        keys = predicate.key_range(self._pool.config.key.paths[0])
        self._note(lambda session: sessions.note_read(session, keys))
        self._step(op, updates.updating(self._pool, self._view(), predicate, updates.parse_update(program)))

    def delete(self, ids: Sequence[str] = (), *, where: str | None = None, keys: Any = None, op: Op = None) -> None:
        if keys is not None:
            if where is not None or ids:
                raise InvalidInput("delete by ids, by a filter or by keys, and not by two of them")
            self.write("delete", key_values(keys), "auto", DEFAULT_READ, op)
            return
        sessions.check_open(self.session)
        if isinstance(op, str) and op in self._steps:
            return
        view = self._view()
        if where is None:
            objects = changes.find_objects(self._pool, view, object_ids(self._pool, ids))
            self._step(op, patch_of(deletes=objects))
            return
        if ids:
            raise InvalidInput("delete by ids or by a filter, not both")
        predicate = parse_predicate(where)
        keys = predicate.key_range(self._pool.config.key.paths[0])
        self._note(lambda session: sessions.note_read(session, keys))
        self._step(op, rewriting.without(self._pool, view, predicate))

    def _step(self, op: Op, patch: Patch) -> None:
        """Stage changes, unless this operation has staged them already."""
        ident = op() if callable(op) else op
        if ident in self._steps:
            return
        self._stage(patch)
        if ident is not None:
            self._steps.add(ident)

    def query(self, program: str) -> Results:
        pool, branch = self._pool.config.id, self.session.branch
        views = {(pool, branch): self._view()}
        head = (to_text(pool), branch)
        return ask(self._lake, Question(program, head, views=views, reads=self._log))

    def sql(self, statement: str, *, op: Op = None) -> Results:
        sessions.check_open(self.session)
        pool, branch = self._pool, self.session.branch
        reading = statement_plans.Reading(views={(pool.config.id, branch): self._view()}, log=self._log)
        change = change_of(statement)
        if change is None:
            return ask_once(self._lake, statement, reading)
        if change.verb == "create":
            raise InvalidInput("sql: a transaction is on a branch of a pool, and creates no pools")
        name, target = parse_head(change.target)
        if statement_plans.pool_of(self._lake, name, change.is_quoted).config.id != pool.config.id or target != branch:
            raise InvalidInput(f"sql: this transaction changes {pool.config.name}@{branch}, and not {change.target}")
        if isinstance(op, str) and op in self._steps:
            return sql_changes.result_of(statement, None, sql_changes.UNKNOWN)
        patch, counts = sql_changes.staged_change(self._lake, pool, branch, self._view(), change, reading)
        self._step(op, patch)
        return sql_changes.result_of(statement, None, counts)

    @property
    def _log(self) -> _Reads | None:
        return self._reads if self.session.isolation == "serializable" else None

    def take_over(self, *others: Self) -> None:
        with self._lock:
            self.session = sessions.take_over(self._pool, self.session, [other.session for other in others])

    def end(self, note: Note = NO_NOTE, *, if_changed: bool = False) -> str | None:
        self._require_active()
        if if_changed and self.is_empty:
            self.abandon()
            return None
        described = changes.with_message(stored_note(note), rewriting.describe_patch(self.session.staged))
        commit = sessions.commit(self._pool, self.session, described, self._lake)
        self.is_done = True
        return to_text(commit)

    def abandon(self) -> None:
        self._require_active()
        self.is_done = True
        self.session = sessions.emptied(self.session)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is staged."""
        return self.session.staged == NOTHING

    def _require_active(self) -> None:
        if self.is_done:
            raise InvalidInput(f"transaction {self.id} has ended (begin a new one)")

    def _stage(self, patch: Patch) -> None:
        self._require_active()
        with self._lock:
            self.session = sessions.stage(self.session, patch)

    def _view(self) -> Id | None:
        """A commit with the state that the transaction sees, cached until the next change."""
        if self._view_cache is None or self._view_cache[0] != self.session.staged:
            self._view_cache = self.session.staged, sessions.view(self._pool, self.session)
            self._reads.views.add(self._view_cache[1])
        return self._view_cache[1]

    def _note(self, note: Callable[[Session], Session]) -> None:
        with self._lock:
            self.session = note(self.session)


class _Reads:
    """Records in a session what queries read: on its own branch, on others, and of metadata."""

    def __init__(self, pool: Id, note: Callable[[Callable[[Session], Session]], None]) -> None:
        self._pool = pool
        self._note = note
        self.views: set[Id | None] = set()
        """The commits that have stood for the session's own branch."""
        self._branches: dict[tuple[Id, Id | None], tuple[str, ...]] = {}
        """The names of other branches that queries read, by pool and commit."""

    def on_branch(self, pool: Id, branch: str, commit: Id | None) -> None:
        names = self._branches.get((pool, commit), ())
        if branch not in names:
            self._branches[pool, commit] = (*names, branch)

    def on_values(self, pool: Id, commit: Id | None, keys: KeyRange) -> None:
        if pool == self._pool and commit in self.views:
            self._note(lambda session: sessions.note_read(session, keys))
        reads = [BranchRead(pool, branch, commit, keys) for branch in self._branches.get((pool, commit), ())]
        if reads:
            self._note(lambda session: sessions.note_others(session, reads))

    def on_journal(self, pool: Id | None, position: int) -> None:
        self._note(lambda session: sessions.note_journal(session, JournalRead(pool, position)))


def _restore(uri: str, pool: str, session: Session) -> LocalTransaction:
    lake = open_at(uri)
    return LocalTransaction(lake, with_partitions(lake.pool(pool)), sessions.forked(session))
