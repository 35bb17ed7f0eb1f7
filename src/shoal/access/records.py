"""What the pool `.access` holds: a record for each grant and for each token, and what they come to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from shoal.access.reserved import ACCESS
from shoal.api.access import VERBS, Grant, NewToken, Token, Verb
from shoal.errors import CorruptData, InvalidInput, Unsupported
from shoal.model import types as t
from shoal.model.fields import get, get_data, time_value
from shoal.model.values import Value, record, string

"""Each includes those before it."""
EVERYTHING = "*"
"""Stands for all pools, and for the lake itself."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LONGEST_SUBJECT = 255
_TOKEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


@dataclass(frozen=True, slots=True)
class GrantRecord:
    """A grant as it is kept."""

    subject: str
    pool: str
    """The id of a pool, or `*`."""
    verb: Verb
    by: str
    ts: int
    """In nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as it is kept."""

    name: str
    id: str
    subject: str
    hash: bytes = field(repr=False)
    expires: int | None
    """In nanoseconds since 1970; None: never."""
    by: str
    ts: int


@dataclass(frozen=True, slots=True)
class Rights:
    """All that was granted, as of one commit."""

    pool: str | None = None
    """The id of `.access`; None if there is no such pool yet."""
    tip: str | None = None
    grants: tuple[GrantRecord, ...] = ()
    tokens: tuple[TokenRecord, ...] = ()
    levels: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How many of the verbs a subject has on a pool."""
    by_id: Mapping[str, TokenRecord] = field(default_factory=dict)

    def has(self, subject: str, pool: str, verb: Verb) -> bool:
        """Whether a subject may do something to a pool, by a grant on it or on everything."""
        levels = (self.levels.get((subject, place), 0) for place in (pool, EVERYTHING))
        return max(levels) > VERBS.index(verb)


def fold(pool: str, tip: str | None, values: Iterable[Value]) -> Rights:
    """What records come to. What is not understood is an error: it could take a right away."""
    found = [_parse(value) for value in values]
    grants = tuple(each for each in found if isinstance(each, GrantRecord))
    tokens = tuple(each for each in found if isinstance(each, TokenRecord))
    levels: dict[tuple[str, str], int] = {}
    for each in grants:
        place = each.subject, each.pool
        levels[place] = max(levels.get(place, 0), 1 + VERBS.index(each.verb))
    return Rights(pool, tip, grants, tokens, levels, {each.id: each for each in tokens})


def grant_value(grant: GrantRecord) -> Value:
    """The record of a grant."""
    return record([
        ("kind", string("grant")),
        ("subject", string(grant.subject)),
        ("pool", string(grant.pool)),
        ("verb", string(grant.verb)),
        ("by", string(grant.by)),
        ("ts", time_value(grant.ts)),
    ])  # fmt: skip


def token_value(token: TokenRecord) -> Value:
    """The record of a token."""
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
                raise Unsupported(f"{ACCESS}: a grant of {verb!r} is unknown here (update Shoal)")
            subject, pool, by = (_text(value, name) for name in ("subject", "pool", "by"))
            return GrantRecord(subject, pool, verb, by, _time(value, "ts"))
        case "token":
            name, ident, subject, by = (_text(value, name) for name in ("name", "id", "subject", "by"))
            return TokenRecord(name, ident, subject, _hash(value), _expiry(value), by, _time(value, "ts"))
        case kind:
            raise Unsupported(f"{ACCESS}: a record of kind {kind!r} is unknown here (update Shoal)")


def _text(value: Value, name: str) -> str:
    found = get_data(value, name, ACCESS)
    if not isinstance(found, str):
        raise CorruptData(f"{ACCESS}: the field {name!r} of a record is no string")
    return found


def _time(value: Value, name: str) -> int:
    if get(value, name, ACCESS).type is not t.TIME:
        raise CorruptData(f"{ACCESS}: the field {name!r} of a record is no time")
    return int(get_data(value, name, ACCESS))


def _expiry(value: Value) -> int | None:
    return None if get(value, "expires", ACCESS).data is None else _time(value, "expires")


def _hash(value: Value) -> bytes:
    found = get_data(value, "hash", ACCESS)
    if not isinstance(found, bytes):
        raise CorruptData(f"{ACCESS}: the field 'hash' of a record is no bytes")
    return found


def as_datetime(ns: int) -> datetime:
    """A time as Python has it."""
    return datetime.fromtimestamp(ns / 1e9, UTC)


def show_grant(grant: Grant) -> Value:
    """A grant as commands and services show it."""
    texts = [(name, string(getattr(grant, name))) for name in ("subject", "verb", "pool", "pool_id", "by")]
    return record([*texts, ("ts", _moment(grant.ts))])


def show_token(token: Token, *more: tuple[str, Value]) -> Value:
    """A token as commands and services show it."""
    texts = [(name, string(getattr(token, name))) for name in ("name", "subject", "by")]
    return record([*texts, ("ts", _moment(token.ts)), ("expires", _moment(token.expires)), *more])


def show_new_token(made: NewToken) -> Value:
    """A token with its secret, as a service shows it this once."""
    return show_token(made.token, ("token", string(made.secret)))


def _moment(at: datetime | None) -> Value:
    return Value(t.TIME, None if at is None else (at - _EPOCH) // _MICROSECOND * 1000)


def require_verb(verb: str) -> Verb:
    """The verb itself."""
    if verb not in VERBS:
        raise InvalidInput(f"{verb!r} cannot be granted (one of: {', '.join(VERBS)})")
    return verb


def require_subject(subject: str) -> str:
    """The subject itself, if it could be one: a name that can be printed, and that is not `*`."""
    if not subject or len(subject) > LONGEST_SUBJECT or not subject.isprintable() or subject.strip() != subject:
        raise InvalidInput(f"invalid subject: {subject[:100]!r} (printable, at most {LONGEST_SUBJECT} characters)")
    if subject == EVERYTHING:
        raise InvalidInput(f"invalid subject: {subject!r} (rights are granted one subject at a time)")
    return subject


def require_token_name(name: str) -> str:
    """The name itself, if a token may have it."""
    if _TOKEN_NAME.fullmatch(name) is None:
        raise InvalidInput(f"invalid token name: {name[:100]!r} (letters, digits and any of . _ @ + -)")
    return name
