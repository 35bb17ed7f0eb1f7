"""Who may do what in a lake: grants and tokens, which are records in its pool `.access`.

To grant is to load a record, to revoke is to delete it: the log of that pool tells who did it, and when.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from threading import RLock

from shoal.access import tokens as token_secrets
from shoal.access.authors import default_author
from shoal.access.records import (
    EVERYTHING,
    GrantRecord,
    Rights,
    TokenRecord,
    as_datetime,
    fold,
    grant_value,
    require_subject,
    require_token_name,
    require_verb,
    token_value,
)
from shoal.access.reserved import ACCESS, is_reserved
from shoal.api.access import VERBS, Grant, NewToken, Token
from shoal.api.pool import Pool
from shoal.api.transaction import Transaction
from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from shoal.ids import new, to_text
from shoal.lake.keys import parse_sort_key
from shoal.lake.pool_config import PoolConfig
from shoal.lake.scans import scan_objects
from shoal.local.lake import LocalLake
from shoal.model.literals import quote

FRESH = 1.0
"""Seconds for which what was read is taken to be so still: for that long may a right outlive its end elsewhere."""
LONGEST_SUBJECT = 255
_TRIES = 50
_MOST_OBJECTS = 64
_TOKEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


class LocalAccess:
    """Access to a lake that is reached directly. Safe for threads; one for each lake is enough."""

    def __init__(self, lake: LocalLake, fresh: float = FRESH) -> None:
        self._lake = lake
        self._fresh = fresh
        self._lock = RLock()
        self._known: Rights | None = None
        self._looked = 0.0

    # ---- what there is

    def rights(self) -> Rights:
        """All that was granted. Others' changes are seen within a second, own ones at once."""
        with self._lock:
            if self._known is None or time.monotonic() >= self._looked + self._fresh:
                at = time.monotonic()
                self._known = self._read(self._known)
                self._looked = at
            return self._known

    def _read(self, known: Rights | None) -> Rights:
        pool = self._find()
        if pool is None:
            return Rights()
        tip = pool.resolve()
        if known is not None and (known.pool, known.tip) == (pool.id, tip):
            return known
        stored = self._lake.opened(pool.id)
        objects = stored.snapshot(stored.resolve(tip or "")).objects()
        return fold(pool.id, tip, scan_objects(stored, objects))

    def grants(self) -> list[Grant]:
        names = {EVERYTHING: EVERYTHING, **{to_text(c.id): c.name for c in self._lake.root.configs()}}
        # The oldest of grants that are the same: only that one changed anything.
        found = {(g.pool, g.subject, g.verb): g for g in sorted(self.rights().grants, key=lambda g: -g.ts)}
        shown = [_grant(g, names[g.pool]) for g in found.values() if g.pool in names]
        return sorted(shown, key=lambda g: (g.pool, g.subject, VERBS.index(g.verb)))

    def tokens(self) -> list[Token]:
        return sorted(map(_token, self.rights().tokens), key=lambda token: token.name)

    def holder(self, secret: str) -> Token | None:
        """The token that a secret proves to have, expired or not; None for one that is unknown or was revoked."""
        kept = self.rights().by_id.get(token_secrets.id_in(secret))
        is_proven = token_secrets.proves(secret, None if kept is None else kept.hash)
        return _token(kept) if kept is not None and is_proven else None

    def pool_name(self, pool_id: str) -> str:
        """The name of a pool by its id."""
        return self._lake.pool(pool_id).name

    def place(self, pool: str) -> tuple[str, str]:
        """The id that grants keep for a pool that is given by its name or id, and its name; `*` is both for `*`."""
        if pool == EVERYTHING:
            return EVERYTHING, EVERYTHING
        found = self._lake.pool(pool)
        if is_reserved(found.name):
            raise InvalidInput(f"{found.name}: it cannot be granted alone (whoever has admin on '*' may read it)")
        return found.id, found.name

    # ---- changes

    def grant(self, subject: str, pool: str, verb: str, by: str | None = None) -> Grant:
        what, (place, name) = require_verb(verb), self.place(pool)
        made = GrantRecord(require_subject(subject), place, what, by or default_author(), time.time_ns())

        def stage(tx: Transaction) -> None:
            if not any(_same(each, made) for each in self._read(None).grants):
                tx.load([grant_value(made)])

        self._change(stage, made.by, f"grant {verb} on {name} to {subject}")
        return _grant(made, name)

    def revoke(self, subject: str, pool: str, verb: str, by: str | None = None) -> None:
        what, (place, name) = require_verb(verb), self.place(pool)
        where = _all_of(kind="grant", subject=require_subject(subject), pool=place, verb=what)

        def stage(tx: Transaction) -> None:
            if not _has_match(tx, where):
                raise NotFound(f"{subject} was not granted {verb} on {name} (see: shoal grant)")
            tx.delete(where=where)

        self._change(stage, by or default_author(), f"revoke {verb} on {name} from {subject}")

    def create_token(
        self, name: str, subject: str | None = None, expires: float | None = None, by: str | None = None
    ) -> NewToken:
        secret, now = token_secrets.make(), time.time_ns()
        until = None if expires is None else now + _lifetime(expires)
        whose = require_subject(require_token_name(name) if subject is None else subject)
        made = TokenRecord(require_token_name(name), secret.id, whose, secret.hash, until, by or default_author(), now)

        def stage(tx: Transaction) -> None:
            if _has_match(tx, _all_of(kind="token", name=name)):
                raise AlreadyExists(f"{name}: token already exists (revoke it with: shoal tokens revoke {name})")
            tx.load([token_value(made)])

        self._change(stage, made.by, f"create token {name} for {whose}")
        return NewToken(_token(made), secret.text)

    def revoke_token(self, name: str, by: str | None = None) -> None:
        where = _all_of(kind="token", name=require_token_name(name))

        def stage(tx: Transaction) -> None:
            if not _has_match(tx, where):
                raise NotFound(f"{name}: token not found")
            tx.delete(where=where)

        self._change(stage, by or default_author(), f"revoke token {name}")

    def _change(self, stage: Callable[[Transaction], None], by: str, message: str) -> None:
        """One commit, made again on what is there as long as others are first."""
        pool = self._find() or self._create()
        try:
            for tried in range(1, _TRIES + 1):
                try:
                    with pool.transaction(isolation="serializable", author=by, message=message) as tx:
                        stage(tx)
                    break
                except Conflict:
                    if tried == _TRIES:
                        raise
                    time.sleep(random.uniform(0, 0.01 * tried))
        finally:
            with self._lock:
                self._known = None
        self._tidy(pool, by)

    def _tidy(self, pool: Pool, by: str) -> None:
        """Each change leaves a data object of its own: many are made one, so that reading them stays cheap."""
        ids = [o.id for o in pool.objects()]
        if len(ids) > _MOST_OBJECTS:
            try:
                pool.compact(ids, author=by, engine="interp")
            except Conflict:
                return  # whoever was first does it

    def _find(self) -> Pool | None:
        try:
            return self._lake.pool(ACCESS)
        except NotFound:
            return None

    def _create(self) -> Pool:
        config = PoolConfig(new(), ACCESS, parse_sort_key("subject"))
        with suppress(AlreadyExists):  # another process may be first
            self._lake.root.create_pool(config)
        return self._lake.pool(ACCESS)


# ---- what is asked for


def _lifetime(seconds: float) -> int:
    if not 0 < seconds <= 100 * 365 * 24 * 3600:
        raise InvalidInput("a token is good for more than no time, and for at most a hundred years")
    return int(seconds * 1e9)


def _all_of(**fields: str) -> str:
    """The filter for records with these texts."""
    return " and ".join(f"{name} == {quote(text)}" for name, text in fields.items())


def _has_match(tx: Transaction, where: str) -> bool:
    with tx.query(where) as records:
        return next(iter(records), None) is not None


def _same(one: GrantRecord, other: GrantRecord) -> bool:
    return (one.subject, one.pool, one.verb) == (other.subject, other.pool, other.verb)


def _grant(kept: GrantRecord, pool: str) -> Grant:
    return Grant(kept.subject, pool, kept.pool, kept.verb, kept.by, as_datetime(kept.ts))


def _token(kept: TokenRecord) -> Token:
    expires = None if kept.expires is None else as_datetime(kept.expires)
    return Token(kept.name, kept.subject, expires, kept.by, as_datetime(kept.ts))
