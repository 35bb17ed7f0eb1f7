"""Transactions and loads through a service.

The service keeps what a transaction stages: a copy of one stages into the very same. A load of one body is one request,
a load of several is a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from shoal.api.branch import FindDone, Load, WriteMode, key_values
from shoal.api.codecs import COMMIT, Reader
from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.api.requests import NO_NOTE, Note, Op
from shoal.api.results import Results
from shoal.api.transaction import Begin, Isolation, Transaction
from shoal.client.queries import ask, question, told
from shoal.client.requests import carry_out, commit_if_done, note_headers, value_of
from shoal.client.service import Call, Service, make_key
from shoal.client.transport import Access
from shoal.client.uploads import Upload, load_choices, open_uploads
from shoal.errors import InvalidInput, NotFound, OutcomeUnknown, ShoalError
from shoal.model import types as t
from shoal.model.values import Value, record, string

Staged = tuple[Upload, dict[str, str | None]]
"""A body, and how it is to be read."""


class Staging(Transaction):
    """What is staged on one branch: each change is a request, below the path of a transaction."""

    def __init__(
        self, service: Service, path: tuple[str, ...], ident: str, base: str | None, place: str | None = None
    ) -> None:
        self._service = service
        self._path = path
        self._id = ident
        self._base = base
        self._choices = {} if place is None else {"place": place}
        """Which branch it is, if the transaction has several."""
        self.is_done = False

    @property
    def id(self) -> str:
        return self._id

    @property
    def base(self) -> str | None:
        return self._base

    def load(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        op: Op = None,
    ) -> None:
        self._write("load", data, format, options)

    def stage(self, upload: Upload, choices: Mapping[str, str | None]) -> None:
        """Stage one body."""
        self._service.change(self._call("load", choices=choices, upload=upload))

    def upsert(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        op: Op = None,
    ) -> None:
        self._write("upsert", data, format, options)

    def _write(self, mode: WriteMode, data: Any, format_name: str, options: ReadOptions) -> None:
        self._require_undone()
        with open_uploads(data, format_name, options) as uploads:
            for upload in uploads:
                self.stage(upload, {**load_choices(upload, None, options), "mode": None if mode == "load" else mode})

    def update(self, where: str, program: str, *, op: Op = None) -> None:
        self._require_undone()
        body = record([("where", string(where)), ("program", string(program))])
        self._service.change(self._call("update", op, value=body))

    def delete(self, ids: Sequence[str] = (), *, where: str | None = None, keys: Any = None, op: Op = None) -> None:
        if keys is not None:
            if where is not None or ids:
                raise InvalidInput("delete by ids, by a filter or by keys, and not by two of them")
            self._write("delete", key_values(keys), "auto", DEFAULT_READ)
            return
        self._require_undone()
        if where is not None and ids:
            raise InvalidInput("delete by ids or by a filter, not both")
        body = [("object_ids", value_of(tuple(ids)))] if where is None else [("where", string(where))]
        self._service.change(self._call("delete", op, value=record(body)))

    def query(self, program: str) -> Results:
        body = question(program, None, None)
        return ask(self._service, (*self._path, "query"), body, program, choices=self._choices)

    def sql(self, statement: str, *, op: Op = None) -> Results:
        self._require_undone()
        body, names = record([("statement", string(statement))]), (*self._path, "sql")
        return told(ask(self._service, names, body, statement, key=make_key(op), choices=self._choices), statement)

    def take_over(self, *others: Self) -> None:
        for other in others:
            if other.id != self.id:
                raise InvalidInput(f"{other.id} is not a copy of transaction {self.id}")

    def _require_undone(self) -> None:
        if self.is_done:
            raise InvalidInput(f"transaction {self.id} has ended (begin a new one)")

    def _call(self, verb: str, op: Op = None, *, choices: Mapping[str, str | None] = {}, **how: Any) -> Call:
        return Call("POST", (*self._path, verb), {**choices, **self._choices}, key=make_key(op), **how)


class RemoteTransaction(Staging):
    """A transaction on one branch that a service keeps."""

    def __init__(self, service: Service, pool: str, branch: str, ident: str, base: str | None, position: int) -> None:
        super().__init__(service, ("pool", pool, "branch", branch, "transaction", ident), ident, base)
        self._pool = pool
        self._branch = branch
        self._position = position
        """Where the service looks for the commit, if it has restarted and lost the transaction."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._service.access, self._pool, self._branch, self._id, self._base, self._position)

    def end(self, note: Note = NO_NOTE, *, if_changed: bool = False) -> str | None:
        self._require_undone()
        choices = {"position": str(self._position), "optional": "T" if if_changed else None}
        call = self._call("commit", headers=note_headers(note), choices=choices)
        try:
            values = self._service.read_all(call)
            commit = COMMIT.decode(Reader(self._service.url), iter(values)) if values else None
        except OutcomeUnknown:
            commit = commit_if_done(self._service, self._pool, self._branch, self.id)
            if commit is None:
                raise
        self.is_done = True
        return commit

    def abandon(self) -> None:
        self._require_undone()
        self.is_done = True
        abandon(self._service, self._path)

    def give_up(self) -> None:
        """Abandon it because of an error, which is what the caller sees; the service forgets expired ones."""
        with suppress(ShoalError):
            super().give_up()


def abandon(service: Service, path: tuple[str, ...]) -> None:
    """Let a service drop a transaction."""
    with suppress(NotFound):  # the answer to a first try may have been lost
        service.change(Call("DELETE", path, key=make_key()))


def begin(service: Service, request: Begin) -> RemoteTransaction:
    """A new transaction on the tip of a branch."""
    names = ("pool", request.pool, "branch", request.branch, "transaction")
    body = record(terms(request.isolation, request.expires))
    answer = service.change(Call("POST", names, value=body, key=make_key(request.op)))
    assert answer is not None
    reader = Reader(service.url)
    ident, base = reader.id(answer, "id"), reader.optional_id(answer, "base")
    return RemoteTransaction(service, request.pool, request.branch, ident, base, reader.data(answer, "position"))


def terms(isolation: Isolation, expires: float | None) -> list[tuple[str, Value]]:
    """How a transaction is begun, as fields of a body."""
    fields = [("isolation", string(isolation))]
    return fields if expires is None else [*fields, ("expires", Value(t.FLOAT64, float(expires)))]


def _restore(access: Access, pool: str, branch: str, ident: str, base: str | None, position: int) -> RemoteTransaction:
    return RemoteTransaction(Service(access), pool, branch, ident, base, position)


# ---- loads


def load(service: Service, request: Load) -> str:
    """Commit data; the id of the commit."""
    key = make_key(request.op)
    with open_uploads(request.data, request.format, request.options) as uploads:
        mode = {"mode": None if request.mode == "load" else request.mode, "on_conflict": request.on_conflict}
        mode["expect"] = request.expect
        bodies = [(upload, {**load_choices(upload, request.engine, request.options), **mode}) for upload in uploads]
        if len(bodies) > 1:
            for name in ("on_conflict", "expect"):
                if mode[name] is not None:
                    shown = name.replace("_", " ")
                    raise InvalidInput(f"{shown}: through a service it goes with one file or one list of records")
            return _load_each(service, request, bodies, key)
        ((upload, choices),) = bodies
        return _load_one(service, request, upload, choices, key)


def _load_one(service: Service, request: Load, upload: Upload, choices: dict[str, str | None], key: str) -> str:
    names = ("pool", request.pool, "branch", request.branch)
    call = Call("POST", names, choices, note_headers(request.note), upload=upload, key=key)
    try:
        return COMMIT.decode(Reader(service.url), iter(service.read_all(call)))
    except OutcomeUnknown as e:
        commit = None if e.commit is None else commit_if_done(service, request.pool, request.branch, e.commit)
        if commit is None:
            raise
        return commit


def _load_each(service: Service, request: Load, bodies: Sequence[Staged], key: str) -> str:
    """Several bodies as one commit; if one of them cannot be read, nothing is committed."""
    transaction = begin(service, Begin(request.pool, request.branch, op=key))
    done = carry_out(service, FindDone(request.pool, request.branch, transaction.id))
    if done is not None:
        return done
    try:
        for upload, choices in bodies:
            transaction.stage(upload, choices)
    except BaseException:
        transaction.give_up()
        raise
    note = request.note
    return transaction.commit(author=note.author, message=note.message, meta=note.meta)
