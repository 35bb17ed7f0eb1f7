"""Access tokens: `shoal_<id>_<secret>`. The id finds the record, the secret proves; only a digest of it all is kept.

A secret has 256 bits of chance, so that a fast digest is as good as a slow one: there is nothing to guess.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from typing import NamedTuple

from shoal.ids import TEXT_SIZE, new, to_text

_PREFIX = "shoal_"
_BYTES = 32
_NOTHING = bytes(32)


class Secret(NamedTuple):
    """A new token: the id in it, its text, which is shown once, and the digest that is kept."""

    id: str
    text: str
    hash: bytes


def make() -> Secret:
    """A new token."""
    ident = to_text(new())
    text = f"{_PREFIX}{ident}_{secrets.token_urlsafe(_BYTES)}"
    return Secret(ident, text, digest(text))


def is_token(text: str) -> bool:
    """Whether a text is meant to be an access token of a lake."""
    return text.startswith(_PREFIX)


def id_in(text: str) -> str:
    """The id in a token; "" if there is none."""
    ident, underscore, _ = text.removeprefix(_PREFIX).partition("_")
    return ident if underscore and len(ident) == TEXT_SIZE else ""


def digest(text: str) -> bytes:
    """What is kept of a token."""
    return sha256(text.encode()).digest()


def proves(text: str, kept: bytes | None) -> bool:
    """Whether a token is the one that a digest was kept of. It takes as long where there is none."""
    return hmac.compare_digest(digest(text), _NOTHING if kept is None else kept) and kept is not None
