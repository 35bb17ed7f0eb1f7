"""What the pool `.access` holds: a record for each grant and for each token, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, get_args

from shoal.api.reserved import ACCESS
from shoal.errors import CorruptData, Unsupported
from shoal.lake.fields import get, get_data, time_value
from shoal.model import types as t
from shoal.model.values import Value, record, string

Verb = Literal["read", "write", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)
"""Each includes those before it."""
EVERYTHING = "*"
"""Stands for all pools, and for the lake itself."""


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
