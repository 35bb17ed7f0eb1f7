"""Access to a lake behind a service: the same as in `shoal.local.access`, by its routes under `/auth`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from shoal.access.records import require_verb
from shoal.api.access import Grant, NewToken, Token
from shoal.client.json_calls import JsonCalls


class RemoteAccess:
    """Grants and tokens of a lake behind a service; who changes them is whoever the token is for."""

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
        made = self._call("POST", "/auth/tokens", {each: value for each, value in asked.items() if value is not None})
        return NewToken(_token(made), made["token"])

    def revoke_token(self, name: str) -> None:
        self._call("DELETE", f"/auth/tokens/{quote(name, safe='')}")

    def method(self) -> Any:
        """How the service finds out who asks."""
        return self._call("GET", "/auth/method")

    def identity(self) -> Any:
        """Who the service takes the caller for."""
        return self._call("GET", "/auth/identity")


def _grant(told: dict[str, Any]) -> Grant:
    verb = require_verb(told["verb"])
    return Grant(told["subject"], told["pool"], told["pool_id"], verb, told["by"], _time(told["ts"]))


def _token(told: dict[str, Any]) -> Token:
    expires = None if told["expires"] is None else _time(told["expires"])
    return Token(told["name"], told["subject"], expires, told["by"], _time(told["ts"]))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
