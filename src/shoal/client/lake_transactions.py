"""Transactions over several pools through a service, which keeps what is staged: a copy stages into the very same."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Self

from shoal.api.codecs import Reader, read_place, show_place, texts
from shoal.api.commitish import parse_head
from shoal.api.infos import PlaceInfo
from shoal.api.lake_transaction import BeginOver, LakeTransaction, Resume, require_whole
from shoal.api.requests import NO_NOTE, Note, Op
from shoal.api.results import Results
from shoal.client.queries import ask, question, told
from shoal.client.requests import note_headers
from shoal.client.service import Call, Service, make_key
from shoal.client.transactions import Staging, abandon, terms
from shoal.client.transport import Access
from shoal.errors import InvalidInput, NotFound, OutcomeUnknown, ReadOnly, ShoalError
from shoal.model.values import Value, array, record, string


class RemotePart(Staging):
    """What a transaction over several pools does on one branch."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_part, (self._service.access, self._id, self._base, self._choices["place"])

    def end(self, note: Note = NO_NOTE, *, if_changed: bool = False) -> str | None:
        require_whole(self.id)
        return None

    def abandon(self) -> None:
        require_whole(self.id)


class RemoteLakeTransaction(LakeTransaction):
    """A transaction over several pools that a service keeps."""

    def __init__(self, service: Service, ident: str, infos: Sequence[PlaceInfo], expires: float) -> None:
        self._service = service
        self._id = ident
        self._infos = tuple(infos)
        self._expires = expires
        self.is_done = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._service.access, self._id, self._infos, self._expires)

    @property
    def id(self) -> str:
        return self._id

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(info.place for info in self._infos)

    @property
    def expires(self) -> float:
        return self._expires

    def part(self, place: str) -> RemotePart:
        self._require_undone()
        name, branch = parse_head(place)
        for info in self._infos:
            if branch == info.branch and name in (info.pool, parse_head(info.place)[0]):
                return RemotePart(self._service, self._path, self.id, info.base, f"{info.pool}@{branch}")
        raise NotFound(f"{place}: not part of this transaction (it was begun on {', '.join(self.places)})")

    def query(self, program: str) -> Results:
        return ask(self._service, (*self._path, "query"), question(program, None, None), program)

    def sql(self, statement: str, *, op: Op = None) -> Results:
        self._require_undone()
        body = record([("statement", string(statement))])
        return told(ask(self._service, (*self._path, "sql"), body, statement, key=make_key(op)), statement)

    def take_over(self, *others: Self) -> None:
        for other in others:
            if other.id != self.id:
                raise InvalidInput(f"{other.id} is not a copy of transaction {self.id}")

    def end(self, note: Note = NO_NOTE, *, if_changed: bool = False) -> Mapping[str, str] | None:
        self._require_undone()
        # A service that has restarted finds a commit of one branch by what it told when the transaction began.
        body = record([("places", array(map(show_place, self._infos)))])
        choices = {"optional": "T" if if_changed else None}
        names, headers = (*self._path, "commit"), note_headers(note)
        try:
            answers = self._service.read_all(Call("POST", names, choices, headers, value=body, key=make_key()))
            commits = self._commits(answers[0]) if answers else None
        except OutcomeUnknown:
            commits = self._commits_if_decided()
            if commits is None:
                raise
        self.is_done = True
        return commits

    def _commits_if_decided(self) -> dict[str, str] | None:
        """The commits of a transaction whose outcome is unknown, if the service can be asked about it."""
        try:
            (answer,) = self._service.read_all(Call("GET", self._path, is_safe=True))
        except (ShoalError, ValueError):
            return None
        return self._commits(answer) or None

    def _commits(self, answer: Value) -> dict[str, str]:
        """The commits in an answer, by branch: a pool that has another name by now keeps that of the beginning."""
        reader = Reader(self._service.url)
        names = {(info.pool, info.branch): info.place for info in self._infos}
        return {
            names.get((reader.id(each, "pool"), reader.data(each, "branch")), reader.data(each, "place")): reader.id(
                each, "commit"
            )
            for each in reader.elements(answer, "commits")
        }

    def abandon(self) -> None:
        self._require_undone()
        self.is_done = True
        abandon(self._service, self._path)

    def give_up(self) -> None:
        """Abandon it because of an error, which is what the caller sees; the service forgets expired ones."""
        with suppress(ShoalError):
            super().give_up()

    def save(self) -> str:
        self._require_undone()
        return json.dumps({"id": self.id, "places": list(map(asdict, self._infos)), "expires": self.expires})

    def _require_undone(self) -> None:
        if self.is_done:
            raise InvalidInput(f"transaction {self.id} has ended (begin a new one)")

    @property
    def _path(self) -> tuple[str, ...]:
        return "transaction", self.id


def begin_over(service: Service, request: BeginOver) -> RemoteLakeTransaction:
    """A new transaction on branches of several pools."""
    body = record([("pools", texts(request.places)), *terms(request.isolation, request.expires)])
    answer = service.change(Call("POST", ("transaction",), value=body, key=make_key(request.op)))
    assert answer is not None
    reader = Reader(service.url)
    infos = [read_place(reader, each) for each in reader.elements(answer, "places")]
    return RemoteLakeTransaction(service, reader.id(answer, "id"), infos, reader.data(answer, "expires") / 1e9)


def resume(service: Service, request: Resume) -> RemoteLakeTransaction:
    """Go on with a transaction that was saved, if the service still has it."""
    try:
        saved = json.loads(request.saved)
        infos = [PlaceInfo(**each) for each in saved["places"]]
        ident, expires = str(saved["id"]), float(saved["expires"])
    except (KeyError, TypeError, ValueError):
        raise InvalidInput("this is not a saved transaction (it is what save() gives)") from None
    if time.time() > expires:
        raise ReadOnly(f"transaction {ident} has expired (begin a new one)")
    return RemoteLakeTransaction(service, ident, infos, expires)


def _restore(access: Access, ident: str, infos: Sequence[PlaceInfo], expires: float) -> RemoteLakeTransaction:
    return RemoteLakeTransaction(Service(access), ident, infos, expires)


def _restore_part(access: Access, ident: str, base: str | None, place: str) -> RemotePart:
    return RemotePart(Service(access), ("transaction", ident), ident, base, place)
