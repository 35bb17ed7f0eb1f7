"""The pool `.access`: records of grants and tokens, the rights that they add up to, and the secrets of tokens.

A token is `shoal_<id>_<secret>`. The id finds its record; only a digest of the whole token is stored. A secret has
256 random bits and cannot be guessed, so that a fast digest is as safe as a slow one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from shoal.api.access import VERBS, Grant, NewToken, Token, Verb
from shoal.errors import CorruptData, InvalidInput, Unsupported
from shoal.ids import TEXT_SIZE, new, to_text
from shoal.lake.pool_config import ALL_POOLS, PoolConfig
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.fields import get, get_data, time_value
from shoal.model.node import frozen
from shoal.model.plain_names import require_plain_name
from shoal.model.values import Value, record, string

if TYPE_CHECKING:
    import getpass
    import hashlib
    import hmac
    import secrets
    import socket
else:
    getpass = lazy("getpass")
    hashlib = lazy("hashlib")
    hmac = lazy("hmac")
    secrets = lazy("secrets")
    socket = lazy("socket")

ACCESS = ".access"
"""The pool of grants and tokens. Pools whose names begin with a dot are reserved for Shoal; lists leave them out."""
EVERYTHING = ALL_POOLS
"""Stands for all pools, and for the lake itself."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LONGEST_SUBJECT = 255
_TOKEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
_PREFIX = "shoal_"
_SECRET_SIZE = 32
_NO_DIGEST = bytes(32)


@frozen
class GrantRecord:
    """A grant as it is stored."""

    subject: str
    pool: str
    """The id of a pool, or `*`."""
    verb: Verb
    by: str
    ts: int
    """In nanoseconds since 1970."""


@frozen
class TokenRecord:
    """A token as it is stored."""

    name: str
    id: str
    subject: str
    hash: bytes = field(repr=False)
    expires: int | None
    """In nanoseconds since 1970; None: never."""
    by: str
    ts: int


@frozen
class Rights:
    """All grants and tokens as of one commit."""

    pool: str | None = None
    """The id of `.access`; None if there is no such pool yet."""
    tip: str | None = None
    grants: tuple[GrantRecord, ...] = ()
    tokens: tuple[TokenRecord, ...] = ()
    levels: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By subject and pool id: how many of the verbs the subject has. Each verb includes those before it."""
    by_id: Mapping[str, TokenRecord] = field(default_factory=dict)

    def has(self, subject: str, pool: str, verb: Verb) -> bool:
        """Whether a subject has a verb on a pool, by a grant on the pool or on everything."""
        levels = (self.levels.get((subject, scope), 0) for scope in (pool, EVERYTHING))
        return max(levels) > VERBS.index(verb)


def fold(pool: str, tip: str | None, values: Iterable[Value]) -> Rights:
    """The rights that records add up to. An unknown record is an error: it could take a right away."""
    entries = [_parse(value) for value in values]
    grants = tuple(entry for entry in entries if isinstance(entry, GrantRecord))
    tokens = tuple(entry for entry in entries if isinstance(entry, TokenRecord))
    levels: dict[tuple[str, str], int] = {}
    for grant in grants:
        key = grant.subject, grant.pool
        levels[key] = max(levels.get(key, 0), 1 + VERBS.index(grant.verb))
    return Rights(pool, tip, grants, tokens, levels, {token.id: token for token in tokens})


def grant_value(grant: GrantRecord) -> Value:
    """A grant as a record."""
    return record([
        ("kind", string("grant")),
        ("subject", string(grant.subject)),
        ("pool", string(grant.pool)),
        ("verb", string(grant.verb)),
        ("by", string(grant.by)),
        ("ts", time_value(grant.ts)),
    ])  # fmt: skip


def token_value(token: TokenRecord) -> Value:
    """A token as a record."""
    return record([
        ("kind", string("token")),
        ("name", string(token.name)),
        ("id", string(token.id)),
        ("subject", string(token.subject)),
        ("hash", Value(t.BYTES, token.hash)),
        ("expires", Value(t.TIME, token.expires)),
        ("by", string(token.by)),
        ("ts", time_value(token.ts)),
    ])  # fmt: skip


def _parse(value: Value) -> GrantRecord | TokenRecord:
    match _text(value, "kind"):
        case "grant":
            verb = _text(value, "verb")
            if verb not in VERBS:
                raise Unsupported(f"{ACCESS}: unknown verb {verb!r} in a grant (update Shoal)")
            subject, pool, by = (_text(value, name) for name in ("subject", "pool", "by"))
            return GrantRecord(subject, pool, verb, by, _time(value, "ts"))
        case "token":
            name, ident, subject, by = (_text(value, name) for name in ("name", "id", "subject", "by"))
            return TokenRecord(name, ident, subject, _hash(value), _expiry(value), by, _time(value, "ts"))
        case kind:
            raise Unsupported(f"{ACCESS}: unknown kind of record {kind!r} (update Shoal)")


def _text(value: Value, name: str) -> str:
    text = get_data(value, name, ACCESS)
    if not isinstance(text, str):
        raise CorruptData(f"{ACCESS}: the field {name!r} of a record is not a string")
    return text


def _time(value: Value, name: str) -> int:
    if get(value, name, ACCESS).type is not t.TIME:
        raise CorruptData(f"{ACCESS}: the field {name!r} of a record is not a time")
    return int(get_data(value, name, ACCESS))


def _expiry(value: Value) -> int | None:
    return None if get(value, "expires", ACCESS).data is None else _time(value, "expires")


def _hash(value: Value) -> bytes:
    digest = get_data(value, "hash", ACCESS)
    if not isinstance(digest, bytes):
        raise CorruptData(f"{ACCESS}: the field 'hash' of a record is not bytes")
    return digest


def as_datetime(ns: int) -> datetime:
    """Nanoseconds since 1970 as a datetime."""
    return datetime.fromtimestamp(ns / 1e9, UTC)


def show_grant(grant: Grant) -> Value:
    """A grant as commands and services show it."""
    texts = [(name, string(getattr(grant, name))) for name in ("subject", "verb", "pool", "pool_id", "by")]
    return record([*texts, ("ts", _moment(grant.ts))])


def show_token(token: Token, *more: tuple[str, Value]) -> Value:
    """A token as commands and services show it."""
    texts = [(name, string(getattr(token, name))) for name in ("name", "subject", "by")]
    return record([*texts, ("ts", _moment(token.ts)), ("expires", _moment(token.expires)), *more])


def show_new_token(new_token: NewToken) -> Value:
    """A token with its secret, which a service shows only once."""
    return show_token(new_token.token, ("token", string(new_token.secret)))


def _moment(at: datetime | None) -> Value:
    return Value(t.TIME, None if at is None else (at - _EPOCH) // _MICROSECOND * 1000)


def require_verb(verb: str) -> Verb:
    """Return the verb; InvalidInput if there is no such verb."""
    if verb not in VERBS:
        raise InvalidInput(f"{verb!r} cannot be granted (one of: {', '.join(VERBS)})")
    return verb


def require_subject(subject: str) -> str:
    """Return the subject; InvalidInput unless it is a printable name other than `*`."""
    require_plain_name(subject, "subject")
    if not subject or len(subject) > LONGEST_SUBJECT or not subject.isprintable() or subject.strip() != subject:
        raise InvalidInput(f"invalid subject: {subject[:100]!r} (printable, at most {LONGEST_SUBJECT} characters)")
    if subject == EVERYTHING:
        raise InvalidInput(f"invalid subject: {subject!r} (rights are granted one subject at a time)")
    return subject


def require_token_name(name: str) -> str:
    """Return the name; InvalidInput if a token cannot have it."""
    if _TOKEN_NAME.fullmatch(name) is None:
        raise InvalidInput(f"invalid token name: {name[:100]!r} (letters, digits and any of . _ @ + -)")
    return name


# ---- reserved pools


def is_reserved(name: str) -> bool:
    """Whether the name of a pool is reserved for Shoal."""
    return name.startswith(".")


def require_unreserved(name: str) -> None:
    """InvalidInput if the name of a pool is reserved."""
    if is_reserved(name):
        raise InvalidInput(f"{name}: names of pools that begin with a dot are reserved (choose another)")


def shown_pools(configs: Iterable[PoolConfig]) -> list[PoolConfig]:
    """The pools that lists show."""
    return [config for config in configs if not is_reserved(config.name)]


# ---- secrets


class Secret(NamedTuple):
    """A new token: its id, its text, which is shown once, and the digest to store."""

    id: str
    text: str
    hash: bytes


def new_secret() -> Secret:
    """A new token with a random secret."""
    ident = to_text(new())
    text = f"{_PREFIX}{ident}_{secrets.token_urlsafe(_SECRET_SIZE)}"
    return Secret(ident, text, _digest(text))


def is_token(text: str) -> bool:
    """Whether a text looks like a token of a lake."""
    return text.startswith(_PREFIX)


def id_in_token(text: str) -> str:
    """The id in a token; "" if there is none."""
    ident, underscore, _ = text.removeprefix(_PREFIX).partition("_")
    return ident if underscore and len(ident) == TEXT_SIZE else ""


def has_digest(text: str, stored: bytes | None) -> bool:
    """Whether a token has the stored digest. Takes as long if there is none, so that timing reveals nothing."""
    return hmac.compare_digest(_digest(text), _NO_DIGEST if stored is None else stored) and stored is not None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


# ---- authors


def default_author() -> str:
    """The author of a commit or grant that names none: `SHOAL_USER`, `ZED_USER`, or `user@machine`."""
    for name in ("SHOAL_USER", "ZED_USER"):
        if os.environ.get(name):
            return os.environ[name]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
