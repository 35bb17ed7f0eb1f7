"""Grants and tokens of a lake behind a service, by calls that are answered with JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from shoal.access.records import require_verb
from shoal.api.access import Grant, NewToken, Token
from shoal.client.transport import Access, Request, Transport
from shoal.errors import CorruptData

_SECONDS = 60.0
_JSON = "application/json"


class JsonCalls:
    """A service, and the token that proves who calls."""

    def __init__(self, access: Access) -> None:
        self._transport = Transport(access)

    def __call__(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer; None if it is empty. An error is raised as what it was there."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": _JSON, "Content-Type": _JSON}
        answer = self._transport.send(Request(method, path, headers, data, _SECONDS))
        if answer.is_error:
            raise answer.error()
        with answer:
            return _parse(answer.url, answer.read())


def _parse(url: str, data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except (ValueError, RecursionError):
        raise CorruptData(f"{url}: the answer is not valid JSON (is it a service of Shoal?)") from None


class RemoteAccess:
    """Grants and tokens of a lake behind a service; the subject of the token is the one that changes them."""

    def __init__(self, calls: JsonCalls) -> None:
        self._call = calls

    def grants(self) -> list[Grant]:
        return [_grant(each) for each in self._call("GET", "/auth/grants")]

    def grant(self, subject: str, pool: str, verb: str) -> Grant:
        return _grant(self._call("POST", "/auth/grants", {"subject": subject, "pool": pool, "verb": verb}))

    def revoke(self, subject: str, pool: str, verb: str) -> None:
        self._call("DELETE", "/auth/grants", {"subject": subject, "pool": pool, "verb": verb})

    def tokens(self) -> list[Token]:
        return [_token(each) for each in self._call("GET", "/auth/tokens")]

    def create_token(self, name: str, subject: str | None = None, expires: float | None = None) -> NewToken:
        asked = {"name": name, "subject": subject, "expires": expires}
        answer = self._call("POST", "/auth/tokens", {each: value for each, value in asked.items() if value is not None})
        return NewToken(_token(answer), answer["token"])

    def revoke_token(self, name: str) -> None:
        self._call("DELETE", f"/auth/tokens/{quote(name, safe='')}")

    def method(self) -> Any:
        """How the service finds out who asks."""
        return self._call("GET", "/auth/method")

    def identity(self) -> Any:
        """Who the service takes the caller for."""
        return self._call("GET", "/auth/identity")


def _grant(fields: dict[str, Any]) -> Grant:
    verb = require_verb(fields["verb"])
    return Grant(fields["subject"], fields["pool"], fields["pool_id"], verb, fields["by"], _time(fields["ts"]))


def _token(fields: dict[str, Any]) -> Token:
    expires = None if fields["expires"] is None else _time(fields["expires"])
    return Token(fields["name"], fields["subject"], expires, fields["by"], _time(fields["ts"]))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
