"""What the routes under `/auth` do. Who may see or change a grant is decided here: it depends on the grant."""

from __future__ import annotations

from typing import Any

from shoal.access.records import EVERYTHING
from shoal.api.access import Grant, NewToken, Token
from shoal.service.auth.access import Access
from shoal.service.auth.identity import Identity
from shoal.service.auth.settings import AuthSettings


def method(settings: AuthSettings) -> dict[str, Any]:
    """How to prove who one is. It is open: one has to know it beforehand."""
    if not settings.enabled:
        return {"kind": ""}  # as in Zed, whose client takes any other word for a method
    if settings.clientid and settings.domain:
        details = {"audience": settings.audience, "client_id": settings.clientid, "domain": settings.domain}
        return {"kind": "auth0", "auth0": details}
    if settings.jwkspath:
        return {"kind": "jwt", "jwt": {"audience": settings.audience, "issuer": settings.expected_issuer}}
    return {"kind": "token"}


def whoami(access: Access, identity: Identity) -> dict[str, Any]:
    """Who asks, as it was proven, and what they were granted; `tenant_id` and `user_id` are for clients of Zed."""
    mine = [] if identity.may_do_all else [g for g in access.store.grants() if g.subject == identity.subject]
    return {
        "tenant_id": "",
        "user_id": identity.subject,
        "subject": identity.subject,
        "method": identity.method,
        "grants": [{"pool": g.pool, "verb": g.verb} for g in mine],
    }


def grants(access: Access, identity: Identity) -> list[Grant]:
    """The grants on pools that somebody is an admin of."""
    return [g for g in access.store.grants() if access.may(identity, _pool_id(g.pool_id), "admin")]


def grant(access: Access, identity: Identity, subject: str, pool: str, verb: str) -> Grant:
    """Let a subject do something to a pool."""
    pool_id = _require_admin(access, identity, pool)
    return access.store.grant(subject, pool_id, verb, by=identity.subject)


def revoke(access: Access, identity: Identity, subject: str, pool: str, verb: str) -> None:
    """Take a grant back."""
    pool_id = _require_admin(access, identity, pool)
    access.store.revoke(subject, pool_id, verb, by=identity.subject)


def tokens(access: Access, identity: Identity) -> list[Token]:
    """All tokens, without their secrets."""
    access.require(identity, None, "admin")
    return access.store.tokens()


def create_token(
    access: Access, identity: Identity, name: str, expires: float | None = None, subject: str | None = None
) -> NewToken:
    """A new token for a subject, which is the name unless given; `expires` is in seconds from now."""
    access.require(identity, None, "admin")
    return access.store.create_token(name, subject, expires, by=identity.subject)


def revoke_token(access: Access, identity: Identity, name: str) -> None:
    """Accept a token no longer."""
    access.require(identity, None, "admin")
    access.store.revoke_token(name, by=identity.subject)


def _require_admin(access: Access, identity: Identity, pool: str) -> str:
    """The id of a pool that somebody is an admin of, or `*`: what is granted is what was looked at, come what may."""
    pool_id, _ = access.store.scope(pool)
    access.require(identity, _pool_id(pool_id), "admin", asked=pool)
    return pool_id


def _pool_id(scope: str) -> str | None:
    return None if scope == EVERYTHING else scope
