"""Who may do what in a lake: grants, tokens, and what one can do about them."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Literal, Protocol

from shoal.model.node import frozen

Verb = Literal["read", "write", "admin"]
VERBS: tuple[Verb, ...] = ("read", "write", "admin")


@frozen
class Grant:
    """What a subject may do to a pool."""

    subject: str
    pool: str
    """Its name, or `*`."""
    pool_id: str
    """What is kept, so that a new pool of the same name is another one."""
    verb: Verb
    by: str
    ts: datetime


@frozen
class Token:
    """A token, without its secret, which nobody has but whom it was given to."""

    name: str
    subject: str
    expires: datetime | None
    """None: never."""
    by: str
    ts: datetime


@frozen
class NewToken:
    """A token and its secret, which is shown this once."""

    token: Token
    secret: str = field(repr=False)


class AccessControl(Protocol):
    """What one can do about access to a lake, whether it is reached directly or through a service."""

    def grants(self) -> list[Grant]:
        """All grants that one may see, by pool, subject and verb."""

    def grant(self, subject: str, pool: str, verb: str) -> Grant:
        """Let a subject do something to a pool, which is a name, an id or `*`. It may be granted already."""

    def revoke(self, subject: str, pool: str, verb: str) -> None:
        """Take a grant back."""

    def tokens(self) -> list[Token]:
        """All tokens, by name."""

    def create_token(self, name: str, subject: str | None = None, expires: float | None = None) -> NewToken:
        """A new token of a subject (its name, unless given), which expires after some seconds or never."""

    def revoke_token(self, name: str) -> None:
        """Accept a token no longer."""
