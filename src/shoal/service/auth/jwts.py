"""Tokens of an identity provider: signed by a key that is configured, for this service, by the expected issuer."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shoal.access.records import require_subject
from shoal.errors import InvalidInput, Unauthenticated
from shoal.service.auth.identity import Identity
from shoal.service.auth.jwks import ALGORITHMS, KeySet
from shoal.service.auth.settings import AuthSettings

LEEWAY = 30
"""Seconds that clocks may differ."""
LONGEST = 16 << 10
"""Characters of a token."""
_REQUIRED = ("exp", "aud", "iss", "sub")


class JwtVerifier:
    """Turns tokens into identities."""

    def __init__(self, settings: AuthSettings, keys: KeySet) -> None:
        self._audience = settings.audience
        self._issuer = settings.expected_issuer
        self._keys = keys

    def identify(self, token: str) -> Identity:
        """Who a token was made for; Unauthenticated if it is not to be believed."""
        jwt: Any = import_module("jwt")
        if len(token) > LONGEST:
            raise _refused("it is too long")
        try:
            algorithm, key = self._key(jwt.get_unverified_header(token))
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY,
                options={"require": list(_REQUIRED)},
            )
            return Identity(require_subject(claims["sub"]), "jwt")
        except jwt.ExpiredSignatureError:
            raise _refused("it has expired") from None
        except jwt.ImmatureSignatureError:
            raise _refused("it is not valid yet") from None
        except jwt.InvalidAudienceError:
            raise _refused("it is for another audience") from None
        except jwt.InvalidIssuerError:
            raise _refused("it is of another issuer") from None
        except jwt.MissingRequiredClaimError as e:
            raise _refused(f"it lacks the claim {e.claim!r}") from None
        except jwt.InvalidSignatureError:
            raise _refused("its signature is wrong") from None
        except (jwt.PyJWTError, InvalidInput, ValueError, TypeError, OverflowError, RecursionError):
            raise _refused("it is not a token that is accepted here") from None

    def _key(self, header: dict[str, Any]) -> tuple[str, Any]:
        """The key that a header names, and the algorithm, which has to be the one of the key."""
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise _refused(f"its algorithm is none of {', '.join(ALGORITHMS)}")
        if "crit" in header:
            raise _refused("it has conditions that are not understood here")
        if not isinstance(kid, str) or not kid:
            raise _refused("it does not name its key")
        key = self._keys.find(kid, algorithm)
        if key is None:
            raise _refused("its key is not known")
        return algorithm, key


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"the token was refused: {why} (log in again, and keep the token with: shoal auth store)")
