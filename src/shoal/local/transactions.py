"""Transactions on a lake in a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, Self

from shoal.access.view import Pools
from shoal.api.branch import WriteMode, key_values
from shoal.api.commitish import parse_head
from shoal.api.lake_transaction import require_whole
from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.api.requests import NO_NOTE, Note, Op
from shoal.api.results import Results
from shoal.api.transaction import Begin, Transaction
from shoal.errors import InvalidInput, NotFound
from shoal.ids import Id, to_text
from shoal.lake import changes, rewriting, sessions
from shoal.lake.actions import NOTHING, Patch, patch_of
from shoal.lake.cuts import Cut, Taken, fixed_cut, read_cut
from shoal.lake.journal import Journal
from shoal.lake.lake import open_at
from shoal.lake.pools import Pool
from shoal.lake.roll_up import roll_up
from shoal.lake.sessions import Session
from shoal.lake.tallies import Count, exactly, of_deletion, of_upsert, one_sided
from shoal.lazy import lazy
from shoal.local.commits import object_ids
from shoal.local.executor import StoreExecutor, implements, operation, stored_note
from shoal.local.loads import staged_write
from shoal.local.transaction_scope import Scope
from shoal.planner.execute import Question
from shoal.planner.lake_query import ask, ask_once, change_of
from shoal.planner.pool_partitions import with_partitions
from shoal.planner.predicates import parse_predicate

if TYPE_CHECKING:
    from shoal.lake import record_changes
    from shoal.local import sql_changes, updates
    from shoal.planner import statement_plans
else:
    record_changes = lazy("shoal.lake.record_changes")
    sql_changes = lazy("shoal.local.sql_changes")
    statement_plans = lazy("shoal.planner.statement_plans")
    updates = lazy("shoal.local.updates")


@implements(Begin)
def begin(lake: StoreExecutor, request: Begin) -> LocalTransaction:
    """Begin a transaction on the tip of a branch."""
    pool = lake.writable(request.pool)
    cut = read_cut([(pool.config.id, pool.journal)], [(pool.config.id, request.branch)])
    return begin_in(lake, pool, request.branch, request, Scope(cut), operation(request.op))


class Terms(Protocol):
    """How a transaction is begun."""

    @property
    def isolation(self) -> sessions.Isolation:
        """What is checked when it commits."""

    @property
    def expires(self) -> float | None:
        """After how many seconds it can no longer be committed."""


def begin_in(
    lake: StoreExecutor, pool: Pool, branch: str, terms: Terms, scope: Scope, op: Id | None
) -> LocalTransaction:
    """Begin a transaction on the tip that a branch has in the cut of a scope, which it becomes a part of."""
    seconds = sessions.DEFAULT_SECONDS if terms.expires is None else terms.expires
    session = sessions.begin(pool, branch, terms.isolation, seconds, op, scope.cut)
    return LocalTransaction(lake.root, pool, session, scope)


class LocalTransaction(Transaction):
    """A session on a branch, with the pool to write to."""

    def __init__(self, lake: Pools, pool: Pool, session: Session, scope: Scope) -> None:
        self.scope = scope
        scope.parts.append(self)
        self._lake = lake
        self._pool = pool
        self.session = session
        self.is_done = False
        self.whole: str | None = None
        """The transaction over several pools that it is a part of."""
        self._view_cache: tuple[Patch, Id | None] | None = None
        self._lock = Lock()
        """Guards the session: a query in progress records the ranges it reads while changes are staged."""
        self._shown: set[Id | None] = set()
        """The commits that have stood for the branch in queries."""
        self._steps: set[str] = set()
        """The ids of the operations that were staged; a retry stages nothing."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._lake.store.uri, to_text(self._pool.config.id), self.session, self.scope.cut.taken())

    @property
    def place(self) -> tuple[Id, str]:
        """The pool, and the name of the branch."""
        return self._pool.config.id, self.session.branch

    @property
    def pool(self) -> Pool:
        """The pool that it changes."""
        return self._pool

    @property
    def lake(self) -> Pools:
        """The lake that it reads."""
        return self._lake

    @property
    def isolation(self) -> sessions.Isolation:
        """What is checked when it commits."""
        return self.session.isolation

    @property
    def id(self) -> str:
        return to_text(self.session.id)

    @property
    def base(self) -> str | None:
        return None if self.session.base is None else to_text(self.session.base)

    @property
    def expires(self) -> float:
        """From then on it cannot be committed, in seconds since 1970."""
        return self.session.expires

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
        patch = staged_write(self._pool, self.view(), self.session.branch, mode, data, format_name, options)
        self._step(op, patch, of_upsert if mode == "upsert" else one_sided)

    def update(self, where: str, program: str, *, op: Op = None) -> None:
        sessions.check_open(self.session)
        if isinstance(op, str) and op in self._steps:
            return
        updates.require_unmerged(self._pool)
        predicate = parse_predicate(where)
        keys = predicate.key_range(self._pool.config.key.paths[0])
        self.note(lambda session: sessions.note_read(session, keys))
        patch = updates.updating(self._pool, self.view(), predicate, updates.parse_update(program))
        self._step(op, patch, record_changes.ByKey(self._pool))

    def delete(self, ids: Sequence[str] = (), *, where: str | None = None, keys: Any = None, op: Op = None) -> None:
        if keys is not None:
            if where is not None or ids:
                raise InvalidInput("delete by ids, by a filter or by keys, and not by two of them")
            self.write("delete", key_values(keys), "auto", DEFAULT_READ, op)
            return
        sessions.check_open(self.session)
        if isinstance(op, str) and op in self._steps:
            return
        view = self.view()
        if where is None:
            objects = changes.find_objects(self._pool, view, object_ids(self._pool, ids))
            self._step(op, patch_of(deletes=objects))
            return
        if ids:
            raise InvalidInput("delete by ids or by a filter, not both")
        predicate = parse_predicate(where)
        keys = predicate.key_range(self._pool.config.key.paths[0])
        self.note(lambda session: sessions.note_read(session, keys))
        staged = [o.id for o in self.session.staged.adds]
        self._step(op, rewriting.without(self._pool, view, predicate, uncommitted=staged), of_deletion)

    def _step(self, op: Op, patch: Patch, count: Count = one_sided) -> None:
        """Stage changes, unless this operation has staged them already."""
        ident = op() if callable(op) else op
        if ident in self._steps:
            return
        self._stage(patch, count)
        if ident is not None:
            self._steps.add(ident)

    def query(self, program: str) -> Results:
        scope, (pool, branch) = self.scope, self.place
        head = (to_text(pool), branch)
        views, log = scope.views(), scope.log
        return ask(self._lake, Question(program, head, views=views, reads=log, cut=scope.cut, staging=scope))

    def sql(self, statement: str, *, op: Op = None) -> Results:
        sessions.check_open(self.session)
        pool, branch, scope = self._pool, self.session.branch, self.scope
        reading = statement_plans.Reading(views=scope.views(), log=scope.log, cut=scope.cut)
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
        patch, counts = sql_changes.staged_change(self._lake, pool, branch, self.view(), change, reading)
        self._step(op, patch, of_upsert if change.replaces else exactly(sql_changes.tally_of(counts)))
        return sql_changes.result_of(statement, None, counts)

    def take_over(self, *others: Self) -> None:
        with self._lock:
            self.session = sessions.take_over(self._pool, self.session, [other.session for other in others])

    def end(self, note: Note = NO_NOTE, *, if_changed: bool = False) -> str | None:
        self._require_active()
        require_whole(self.whole)
        if if_changed and self.is_empty:
            self.abandon()
            return None
        described = changes.with_message(stored_note(note), rewriting.describe_patch(self.session.staged))
        commit = sessions.commit(self._pool, self.session, described, self._lake)
        self.is_done = True
        roll_up(self._pool, self.session.branch, commit, described.author)
        return to_text(commit)

    def abandon(self) -> None:
        self._require_active()
        require_whole(self.whole)
        self.discard()

    def discard(self) -> None:
        """Drop what is staged."""
        self.is_done = True
        self.session = sessions.emptied(self.session)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is staged."""
        return self.session.staged == NOTHING

    def _require_active(self) -> None:
        if self.is_done:
            raise InvalidInput(f"transaction {self.id} has ended (begin a new one)")

    def stage(self, patch: Patch) -> None:
        """Stage changes."""
        self._stage(patch, one_sided)

    def _stage(self, patch: Patch, count: Count) -> None:
        self._require_active()
        with self._lock:
            self.session = sessions.stage(self.session, patch, count)

    def view(self) -> Id | None:
        """A commit with the state that the transaction sees, cached until the next change."""
        if self._view_cache is None or self._view_cache[0] != self.session.staged:
            self._view_cache = self.session.staged, sessions.view(self._pool, self.session)
            self._shown.add(self._view_cache[1])
        return self._view_cache[1]

    def has_shown(self, commit: Id | None) -> bool:
        """Whether a commit has stood for the branch in a query."""
        return commit in self._shown

    def note(self, change: Callable[[Session], Session]) -> None:
        """Record something in the session."""
        with self._lock:
            self.session = change(self.session)


def _restore(uri: str, pool: str, session: Session, taken: Sequence[Taken]) -> LocalTransaction:
    lake = open_at(uri)
    scope = Scope(cut_again(lake, taken))
    return LocalTransaction(lake, with_partitions(lake.pool(pool)), sessions.forked(session), scope)


def cut_again(lake: Pools, taken: Sequence[Taken]) -> Cut:
    """The cut of a transaction that was begun elsewhere."""

    def journal_of(pool: Id) -> Journal | None:
        with suppress(NotFound):
            return lake.pool(to_text(pool)).journal
        return None

    return fixed_cut(taken, journal_of)
