"""Access to a lake behind a service: the same as in `shoal.api.access`, by its routes under `/auth`."""

from __future__ import annotations

from typing import Any

from shoal.api.access import Grant, NewToken, Token, require_verb
from shoal.api.access_records import as_datetime
from shoal.api.python_values import to_python
from shoal.client.infos import Reader
from shoal.client.service import Call, Service
from shoal.client.transport import Access
from shoal.model import types as t
from shoal.model.values import Value, record, string

_AUTH, _GRANTS, _TOKENS = "auth", ("auth", "grants"), ("auth", "tokens")


class RemoteAccess:
    """Grants and tokens of a lake behind a service; who changes them is whoever the token is for."""

    def __init__(self, access: Access) -> None:
        self._service = Service(access)
        self._reader = Reader(access.url)

    def grants(self) -> list[Grant]:
        return [self._grant(value) for value in self._service.read(*_GRANTS)]

    def grant(self, subject: str, pool: str, verb: str) -> Grant:
        told = self._service.change(Call("POST", _GRANTS, value=_asked(subject, pool, verb), is_safe=True))
        assert told is not None
        return self._grant(told)

    def revoke(self, subject: str, pool: str, verb: str) -> None:
        self._service.change(Call("DELETE", _GRANTS, value=_asked(subject, pool, verb)))

    def tokens(self) -> list[Token]:
        return [self._token(value) for value in self._service.read(*_TOKENS)]

    def create_token(self, name: str, subject: str | None = None, expires: float | None = None) -> NewToken:
        asked = [("name", string(name))]
        if subject is not None:
            asked.append(("subject", string(subject)))
        if expires is not None:
            asked.append(("expires", Value(t.FLOAT64, expires)))
        told = self._service.change(Call("POST", _TOKENS, value=record(asked)))
        assert told is not None
        return NewToken(self._token(told), self._reader.data(told, "token"))

    def revoke_token(self, name: str) -> None:
        self._service.change(Call("DELETE", (*_TOKENS, name)))

    def method(self) -> Any:
        """How the service finds out who asks."""
        return to_python(self._service.read_one(_AUTH, "method"))

    def identity(self) -> Any:
        """Who the service takes the caller for."""
        return to_python(self._service.read_one(_AUTH, "identity"))

    def _grant(self, told: Value) -> Grant:
        subject, pool, pool_id, verb, by = (
            self._reader.data(told, name) for name in ("subject", "pool", "pool_id", "verb", "by")
        )
        return Grant(subject, pool, pool_id, require_verb(verb), by, as_datetime(self._reader.data(told, "ts")))

    def _token(self, told: Value) -> Token:
        name, subject, by, ts = (self._reader.data(told, name) for name in ("name", "subject", "by", "ts"))
        expires = self._reader.field(told, "expires").data
        return Token(name, subject, None if expires is None else as_datetime(expires), by, as_datetime(ts))


def _asked(subject: str, pool: str, verb: str) -> Value:
    return record([("subject", string(subject)), ("pool", string(pool)), ("verb", string(verb))])
