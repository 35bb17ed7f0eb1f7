"""Grants and tokens of a lake: their types, and the protocol that manages them."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Literal, Protocol

from shoal.model.node import frozen

Verb = Literal["read", "write", "admin"]
VERBS: tuple[Verb, ...] = ("read", "write", "admin")


@frozen
class Grant:
    """The right of a subject to a verb on a pool."""

    subject: str
    pool: str
    """Its name, or `*`."""
    pool_id: str
    """What is stored, so that a grant does not apply to a later pool of the same name."""
    verb: Verb
    by: str
    ts: datetime


@frozen
class Token:
    """A token without its secret."""

    name: str
    subject: str
    expires: datetime | None
    """None: never."""
    by: str
    ts: datetime


@frozen
class NewToken:
    """A token and its secret, which is shown only once."""

    token: Token
    secret: str = field(repr=False)


class AccessControl(Protocol):
    """Manages access to a lake, in a store or through a service."""

    def grants(self) -> list[Grant]:
        """All grants that the caller may see, sorted by pool, subject and verb."""

    def grant(self, subject: str, pool: str, verb: str) -> Grant:
        """Grant a verb on a pool to a subject. The pool is a name, an id or `*`. An existing grant is not an error."""

    def revoke(self, subject: str, pool: str, verb: str) -> None:
        """Revoke a grant."""

    def tokens(self) -> list[Token]:
        """All tokens, sorted by name."""

    def create_token(self, name: str, subject: str | None = None, expires: float | None = None) -> NewToken:
        """Create a token for a subject (by default its name) that expires after `expires` seconds, or never."""

    def revoke_token(self, name: str) -> None:
        """Revoke a token."""
