"""Transactions on a lake that is reached directly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Self

from shoal.errors import InvalidInput
from shoal.frames.results import Results
from shoal.ids import Id, to_text
from shoal.lake import changes, rewriting, sessions
from shoal.lake.keys import KeyRange
from shoal.lake.lake import Lake
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.sessions import Session
from shoal.lake.snapshots import NOTHING, Patch
from shoal.lake.stores import open_lake
from shoal.local.writing import make_note, object_ids, write_data
from shoal.planner.predicates import parse_predicate
from shoal.planner.queries import Question, ask


class LocalTransaction:
    """A session on a branch, with what it takes to write."""

    def __init__(self, lake: Lake, pool: Pool, session: Session) -> None:
        self._lake = lake
        self._pool = pool
        self.session = session
        self.is_done = False
        self._seen: tuple[Patch, Id | None] | None = None
        self._turn = Lock()
        """A query that is being read notes what it reads, while something else may be staged."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._lake.store.uri, to_text(self._pool.config.id), self.session)

    @property
    def id(self) -> str:
        return to_text(self.session.id)

    @property
    def base(self) -> str | None:
        return None if self.session.base is None else to_text(self.session.base)

    def load(self, data: Any, *, format: str = "auto") -> None:  # noqa: A002 - the word for it
        sessions.check_open(self.session)
        self.add(write_data(self._pool, data, format, None))

    def add(self, objects: Sequence[DataObject]) -> None:
        """Stage objects that were just written."""
        self._stage(Patch(tuple(objects)))

    def delete(self, ids: Sequence[str] = (), *, where: str | None = None) -> None:
        sessions.check_open(self.session)
        view = self._view()
        if where is None:
            found = changes.find_objects(self._pool, view, object_ids(self._pool, ids))
            self._stage(Patch((), tuple(found)))
            return
        if ids:
            raise InvalidInput("delete by ids or by a filter, not both")
        predicate = parse_predicate(where)
        wanted = predicate.key_range(self._pool.config.key.paths[0])
        self._on_read(self._pool.config.id, wanted)
        self._stage(rewriting.without(self._pool, view, predicate))

    def query(self, program: str) -> Results:
        pool, branch = self._pool.config.id, self.session.branch
        views = {(pool, branch): self._view()}
        head = (to_text(pool), branch)
        return ask(self._lake, Question(program, head, views=views, on_read=self._on_read))

    def take_over(self, *others: Self) -> None:
        with self._turn:
            self.session = sessions.take_over(self.session, [other.session for other in others])

    def commit(self, *, author: str | None = None, message: str = "", meta: Any = None) -> str:
        self._require_undone()
        note = make_note(author, message, meta)
        staged = self.session.staged
        note = changes.with_message(note, rewriting.describe_patch(staged))
        commit = sessions.commit(self._pool, self.session, note)
        self.is_done = True
        return to_text(commit)

    def abandon(self) -> None:
        self._require_undone()
        self.is_done = True
        self.session = sessions.emptied(self.session)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is staged."""
        return self.session.staged == NOTHING

    def _require_undone(self) -> None:
        if self.is_done:
            raise InvalidInput(f"transaction {self.id} has ended (begin a new one)")

    def _stage(self, patch: Patch) -> None:
        self._require_undone()
        with self._turn:
            self.session = sessions.stage(self.session, patch)

    def _view(self) -> Id | None:
        """A commit with what the transaction sees; made anew only after a change."""
        if self._seen is None or self._seen[0] != self.session.staged:
            self._seen = self.session.staged, sessions.view(self._pool, self.session)
        return self._seen[1]

    def _on_read(self, pool: Id, wanted: KeyRange) -> None:
        if pool == self._pool.config.id:
            with self._turn:
                self.session = sessions.note_read(self.session, wanted)


def _restore(uri: str, pool: str, session: Session) -> LocalTransaction:
    lake = open_lake(uri)
    return LocalTransaction(lake, lake.pool(pool), sessions.forked(session))


@contextmanager
def committed(transaction: LocalTransaction, author: str | None, message: str, meta: Any) -> Iterator[LocalTransaction]:
    """A transaction that is committed at the end, if it changed anything; on an error it is abandoned."""
    try:
        yield transaction
    except BaseException:
        if not transaction.is_done:
            transaction.abandon()
        raise
    if not transaction.is_done and not transaction.is_empty:
        transaction.commit(author=author, message=message, meta=meta)
