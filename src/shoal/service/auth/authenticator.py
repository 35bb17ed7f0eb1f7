"""From the header `Authorization` to who asks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from shoal.access.records import is_token
from shoal.errors import Unauthenticated
from shoal.local.access import LocalAccess
from shoal.service.auth.identity import ANYONE, Identity
from shoal.service.auth.jwks import KeySet
from shoal.service.auth.jwts import LONGEST, JwtVerifier
from shoal.service.auth.settings import AuthSettings


class Authenticator:
    """Knows tokens of the lake and, where keys are configured, those of an identity provider."""

    def __init__(
        self,
        settings: AuthSettings,
        store: LocalAccess,
        now: Callable[[], datetime] = partial(datetime.now, UTC),
    ) -> None:
        self.settings = settings
        self._now = now
        self._store = store
        self._jwts = JwtVerifier(settings, KeySet(settings.jwkspath)) if settings.jwkspath else None

    def authenticate(self, header: str | None) -> Identity:
        """Who asks; Unauthenticated if that is not proven."""
        if not self.settings.enabled:
            return ANYONE
        token = _bearer(header)
        if is_token(token):
            return self._by_token(token)
        if self._jwts is None:
            raise Unauthenticated("the token was refused: it is none of this lake (ask an admin for one)")
        return self._jwts.identify(token)

    def _by_token(self, secret: str) -> Identity:
        token = self._store.holder(secret) if len(secret) <= LONGEST else None
        if token is None:
            raise Unauthenticated("the token was refused: it is unknown or was revoked (ask an admin for a new one)")
        if token.expires is not None and token.expires <= self._now():
            raise Unauthenticated("the token was refused: it has expired (ask an admin for a new one)")
        return Identity(token.subject, "token")


def _bearer(header: str | None) -> str:
    """The token in `Bearer TOKEN`."""
    if not header:
        raise Unauthenticated("no token was sent (send the header Authorization: Bearer TOKEN; see: shoal auth login)")
    words = header.split()
    if len(words) != 2 or words[0].lower() != "bearer":
        raise Unauthenticated("the header Authorization is not understood (write it as: Bearer TOKEN)")
    return words[1]
