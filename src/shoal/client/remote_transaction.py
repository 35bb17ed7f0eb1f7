"""Transactions on a lake behind a service, which keeps what they stage: a copy of one stages into the very same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from shoal.api.options import ReadOptions
from shoal.api.protocol import Isolation
from shoal.client.changes import Place, make_note, optional_commit_by
from shoal.client.infos import Reader
from shoal.client.questions import ask, question
from shoal.client.service import Call, Note, Service, make_key
from shoal.client.transport import Access
from shoal.client.uploads import Upload, load_choices, open_uploads
from shoal.errors import InvalidInput, NotFound, ShoalError
from shoal.frames.results import Results
from shoal.model import types as t
from shoal.model.values import Value, array, record, string


class RemoteTransaction:
    """A transaction that a service keeps."""

    def __init__(self, place: Place, ident: str, base: str | None, position: int) -> None:
        self._place = place
        self._id = ident
        self._base = base
        self._position = position
        """Where the service looks for the commit, if it began anew and knows the transaction no more."""
        self.is_done = False

    def __reduce__(self) -> tuple[Any, ...]:
        place = self._place
        return _restore, (place.service.access, place.pool, place.branch, self._id, self._base, self._position)

    @property
    def id(self) -> str:
        return self._id

    @property
    def base(self) -> str | None:
        return self._base

    def load(self, data: Any, *, format: str = "auto") -> None:  # noqa: A002 - the word for it
        self._require_undone()
        with open_uploads(data, format, ReadOptions()) as uploads:
            for upload in uploads:
                self.stage(upload, load_choices(upload, None, ReadOptions()))

    def stage(self, upload: Upload, choices: dict[str, str | None]) -> None:
        """Stage one body."""
        self._place.service.change(self._call("load", upload=upload, choices=choices))

    def delete(self, ids: Sequence[str] = (), *, where: str | None = None) -> None:
        self._require_undone()
        if where is not None and ids:
            raise InvalidInput("delete by ids or by a filter, not both")
        objects = record([("object_ids", array(map(string, ids)))])
        self._place.service.change(
            self._call("delete", value=objects if where is None else record([("where", string(where))]))
        )

    def query(self, program: str) -> Results:
        return ask(self._place.service, self._names("query"), question(program, None, None), program)

    def take_over(self, *others: Self) -> None:
        for other in others:
            if other.id != self.id:
                raise InvalidInput(f"{other.id} is not a copy of session {self.id}")

    def commit(self, *, author: str | None = None, message: str = "", meta: Any = None) -> str:
        commit = self._commit(make_note(author, message, meta), {})
        assert commit is not None
        return commit

    def commit_if_changed(self, *, author: str | None, message: str, meta: Any) -> None:
        """The same, but a transaction that changed nothing just ends."""
        self._commit(make_note(author, message, meta), {"optional": "T"})

    def _commit(self, note: Note, choices: dict[str, str | None]) -> str | None:
        self._require_undone()
        choices = {"position": str(self._position), **choices}
        call = self._call("commit", headers=note.headers(), choices=choices)
        commit = optional_commit_by(self._place, call, self.id)
        self.is_done = True
        return commit

    def abandon(self) -> None:
        self._require_undone()
        self.is_done = True
        with suppress(NotFound):  # the answer to a first try may have been lost
            self._place.service.change(Call("DELETE", self._names(), key=make_key()))

    def give_up(self) -> None:
        """Abandon it because of an error, which is what matters: the service forgets it in the end by itself."""
        if not self.is_done:
            with suppress(ShoalError):
                self.abandon()

    def _require_undone(self) -> None:
        if self.is_done:
            raise InvalidInput(f"transaction {self.id} has ended (begin a new one)")

    def _names(self, *names: str) -> tuple[str, ...]:
        return self._place.names("transaction", self.id, *names)

    def _call(self, verb: str, **how: Any) -> Call:
        return Call("POST", self._names(verb), key=make_key(), **how)


def begin(place: Place, isolation: Isolation, expires: float | None, key: str | None = None) -> RemoteTransaction:
    """A new transaction on the tip of a branch."""
    fields = [("isolation", string(isolation))]
    if expires is not None:
        fields.append(("expires", Value(t.FLOAT64, float(expires))))
    told = place.service.change(Call("POST", place.names("transaction"), value=record(fields), key=make_key(key)))
    assert told is not None
    reader = Reader(place.service.url)
    ident, base = reader.id(told, "id"), reader.optional_id(told, "base")
    return RemoteTransaction(place, ident, base, reader.data(told, "position"))


def _restore(access: Access, pool: str, branch: str, ident: str, base: str | None, position: int) -> RemoteTransaction:
    return RemoteTransaction(Place(Service(access), pool, branch), ident, base, position)


@contextmanager
def committed(
    transaction: RemoteTransaction, author: str | None, message: str, meta: Any
) -> Iterator[RemoteTransaction]:
    """A transaction that is committed at the end, if it changed anything; on an error it is abandoned."""
    try:
        yield transaction
    except BaseException:
        transaction.give_up()
        raise
    if not transaction.is_done:
        transaction.commit_if_changed(author=author, message=message, meta=meta)
