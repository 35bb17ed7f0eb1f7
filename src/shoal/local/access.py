"""Grants and tokens of a lake, which are records in its pool `.access`.

A grant is a record that is loaded, and revoking deletes it: the log of the pool shows who did it, and when.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from threading import RLock

from shoal.access.records import (
    ACCESS,
    EVERYTHING,
    GrantRecord,
    Rights,
    TokenRecord,
    as_datetime,
    default_author,
    fold,
    grant_value,
    has_digest,
    id_in_token,
    is_reserved,
    new_secret,
    require_subject,
    require_token_name,
    require_verb,
    token_value,
)
from shoal.api.access import VERBS, Grant, NewToken, Token
from shoal.api.pool import Pool
from shoal.api.transaction import Transaction
from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from shoal.ids import Id, new, parse, to_text
from shoal.lake.keys import parse_sort_key
from shoal.lake.pool_config import PoolConfig
from shoal.lake.scans import scan_objects
from shoal.local.lake import LocalLake
from shoal.model.literals import quote
from shoal.storage.backoff import backoff

FRESH = 1.0
"""Seconds for which rights are cached. A right that another process revokes may last that much longer."""
_TRIES = 50
_MOST_OBJECTS = 64


class LocalAccess:
    """Grants and tokens of a lake in a store. Thread-safe; one per lake is enough."""

    def __init__(self, lake: LocalLake, clock: Callable[[], float] = time.monotonic) -> None:
        self._lake = lake
        self._clock = clock
        self._lock = RLock()
        self._cached: Rights | None = None
        self._cached_at = 0.0

    # ---- reading

    def rights(self) -> Rights:
        """All grants and tokens. Changes by other processes show within a second, own ones at once."""
        with self._lock:
            if self._cached is None or self._clock() >= self._cached_at + FRESH:
                now = self._clock()
                self._cached = self._read(self._cached)
                self._cached_at = now
            return self._cached

    def _read(self, cached: Rights | None) -> Rights:
        pool = self._find()
        if pool is None:
            return Rights()
        tip = pool.resolve()
        if cached is not None and (cached.pool, cached.tip) == (pool.id, tip):
            return cached
        stored = self._lake.opened(pool.id)
        objects = stored.snapshot(stored.resolve(tip or "")).objects()
        return fold(pool.id, tip, scan_objects(stored, objects))

    def grants(self) -> list[Grant]:
        names = {EVERYTHING: EVERYTHING, **{to_text(c.id): _shown(c.name, c.id) for c in self._lake.root.configs()}}
        # Of equal grants show the oldest: only that one changed anything.
        oldest = {(g.pool, g.subject, g.verb): g for g in sorted(self.rights().grants, key=lambda g: -g.ts)}
        shown = [_grant(g, names[g.pool]) for g in oldest.values() if g.pool in names]
        return sorted(shown, key=lambda g: (g.pool, g.subject, VERBS.index(g.verb)))

    def tokens(self) -> list[Token]:
        return sorted(map(_token, self.rights().tokens), key=lambda token: token.name)

    def holder(self, secret: str) -> Token | None:
        """The token with this secret, expired or not; None if it is unknown or revoked."""
        token = self.rights().by_id.get(id_in_token(secret))
        is_valid = has_digest(secret, None if token is None else token.hash)
        return _token(token) if token is not None and is_valid else None

    def pool_name(self, pool_id: str) -> str:
        """The name of a pool by its id."""
        return self._lake.pool(pool_id).name

    def scope(self, pool: str) -> tuple[str, str]:
        """The id and the name of the pool that a grant is about, from its name or id; `*` has `*` for both."""
        if pool == EVERYTHING:
            return EVERYTHING, EVERYTHING
        try:
            handle = self._lake.pool(pool)
        except NotFound:  # its hint may name a pool that the caller does not know of
            raise NotFound(f"{pool}: pool not found") from None
        if is_reserved(handle.name):
            raise InvalidInput(f"{handle.name}: cannot be granted by itself (admin on '*' includes it)")
        return handle.id, _shown(handle.name, parse(handle.id))

    # ---- changes

    def grant(self, subject: str, pool: str, verb: str, by: str | None = None) -> Grant:
        granted, (scope, name) = require_verb(verb), self.scope(pool)
        grant = GrantRecord(require_subject(subject), scope, granted, by or default_author(), time.time_ns())

        def stage(tx: Transaction) -> None:
            if not any(_same(other, grant) for other in self._read(None).grants):
                tx.load([grant_value(grant)])

        self._change(stage, grant.by, f"grant {verb} on {name} to {subject}")
        return _grant(grant, name)

    def revoke(self, subject: str, pool: str, verb: str, by: str | None = None) -> None:
        revoked, (scope, name) = require_verb(verb), self.scope(pool)
        where = _all_of(kind="grant", subject=require_subject(subject), pool=scope, verb=revoked)

        def stage(tx: Transaction) -> None:
            if not _has_match(tx, where):
                raise NotFound(f"{subject} was not granted {verb} on {name} (see: shoal grant)")
            tx.delete(where=where)

        self._change(stage, by or default_author(), f"revoke {verb} on {name} from {subject}")

    def create_token(
        self, name: str, subject: str | None = None, expires: float | None = None, by: str | None = None
    ) -> NewToken:
        secret, now = new_secret(), time.time_ns()
        until = None if expires is None else now + _lifetime(expires)
        user = require_subject(require_token_name(name) if subject is None else subject)
        token = TokenRecord(require_token_name(name), secret.id, user, secret.hash, until, by or default_author(), now)

        def stage(tx: Transaction) -> None:
            if _has_match(tx, _all_of(kind="token", name=name)):
                raise AlreadyExists(f"{name}: token already exists (revoke it with: shoal tokens revoke {name})")
            tx.load([token_value(token)])

        self._change(stage, token.by, f"create token {name} for {user}")
        return NewToken(_token(token), secret.text)

    def revoke_token(self, name: str, by: str | None = None) -> None:
        where = _all_of(kind="token", name=require_token_name(name))

        def stage(tx: Transaction) -> None:
            if not _has_match(tx, where):
                raise NotFound(f"{name}: token not found")
            tx.delete(where=where)

        self._change(stage, by or default_author(), f"revoke token {name}")

    def _change(self, stage: Callable[[Transaction], None], by: str, message: str) -> None:
        """Commit what `stage` stages, with a retry on each conflict."""
        pool = self._find() or self._create()
        try:
            for pause in (*islice(backoff(), _TRIES - 1), None):
                try:
                    with pool.transaction(isolation="serializable", author=by, message=message) as tx:
                        stage(tx)
                    break
                except Conflict:
                    if pause is None:
                        raise
                    time.sleep(pause)
        finally:
            with self._lock:
                self._cached = None
        self._compact(pool, by)

    def _compact(self, pool: Pool, by: str) -> None:
        """Each change adds a data object. Compact them when there are many, so that reading stays cheap."""
        ids = [o.id for o in pool.objects()]
        if len(ids) > _MOST_OBJECTS:
            try:
                pool.compact(ids, author=by, engine="interp")
            except Conflict:
                return  # another process compacts them

    def _find(self) -> Pool | None:
        try:
            return self._lake.pool(ACCESS)
        except NotFound:
            return None

    def _create(self) -> Pool:
        config = PoolConfig(new(), ACCESS, parse_sort_key("subject"))
        with suppress(AlreadyExists):  # another process may have created it
            self._lake.root.create_pool(config)
        return self._lake.pool(ACCESS)


# ---- values


def _lifetime(seconds: float) -> int:
    if not 0 < seconds <= 100 * 365 * 24 * 3600:
        raise InvalidInput("the lifetime of a token must be positive and at most a hundred years")
    return int(seconds * 1e9)


def _all_of(**fields: str) -> str:
    """A filter for records with these strings in these fields."""
    return " and ".join(f"{name} == {quote(text)}" for name, text in fields.items())


def _has_match(tx: Transaction, where: str) -> bool:
    with tx.query(where) as records:
        return next(iter(records), None) is not None


def _same(one: GrantRecord, other: GrantRecord) -> bool:
    return (one.subject, one.pool, one.verb) == (other.subject, other.pool, other.verb)


def _shown(name: str, ident: Id) -> str:
    """What a grant calls a pool: its name, or its id if the name would stand for all pools."""
    return to_text(ident) if name == EVERYTHING else name


def _grant(grant: GrantRecord, pool: str) -> Grant:
    return Grant(grant.subject, pool, grant.pool, grant.verb, grant.by, as_datetime(grant.ts))


def _token(token: TokenRecord) -> Token:
    expires = None if token.expires is None else as_datetime(token.expires)
    return Token(token.name, token.subject, expires, token.by, as_datetime(token.ts))
