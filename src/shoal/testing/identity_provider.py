"""An identity provider for tests: keys of each kind, their JSON Web Key Set, and signed tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shoal.service.auth.settings import AuthSettings

AUDIENCE = "https://lake.example.com"
DOMAIN = "https://login.example.com"
ISSUER = f"{DOMAIN}/"
KIDS = {"RS256": "rsa-1", "ES256": "ec-1", "EdDSA": "ed-1"}


def private_key(algorithm: str, name: str = "") -> Any:
    """The private key for an algorithm; another one for each name."""
    return _key(algorithm, name)


@cache
def _key(algorithm: str, name: str) -> Any:
    match algorithm:
        case "RS256":
            return rsa.generate_private_key(65537, 2048)
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


def jwk(algorithm: str, name: str = "") -> dict[str, Any]:
    """The public key as the provider publishes it."""
    key: dict[str, Any] = jwt.get_algorithm_by_name(algorithm).to_jwk(
        private_key(algorithm, name).public_key(), as_dict=True
    )
    return {**key, "kid": name or KIDS[algorithm], "use": "sig", "alg": algorithm}


def public_pem(algorithm: str) -> bytes:
    """The public key as PEM, which a faulty verifier takes for a shared secret."""
    pem: bytes = private_key(algorithm).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def write_jwks(path: Path, *more: dict[str, Any]) -> Path:
    """Write a file with keys of all kinds."""
    path.write_text(json.dumps({"keys": [*map(jwk, KIDS), *more]}))
    return path


def settings(path: Path | str) -> AuthSettings:
    """Settings of a service that trusts this provider."""
    return AuthSettings(audience=AUDIENCE, clientid="client", domain=DOMAIN, jwkspath=str(path))


def claims(**changed: Any) -> dict[str, Any]:
    """Valid claims with changes; None removes a claim."""
    now = int(time.time())
    all_claims = {"sub": "ada", "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + 300, **changed}
    return {name: value for name, value in all_claims.items() if value is not None}


def sign(algorithm: str = "RS256", headers: dict[str, Any] | None = None, **changed: Any) -> str:
    """A signed token for `ada`, valid but for the changes."""
    return jwt.encode(claims(**changed), private_key(algorithm), algorithm, {"kid": KIDS[algorithm], **(headers or {})})


# ---- tokens that no provider would sign


def encode(data: object) -> str:
    """A part of a token: bytes, or any JSON."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forge(header: object, payload: object, signature: bytes = b"") -> str:
    """A token with arbitrary parts."""
    return f"{encode(header)}.{encode(payload)}.{encode(signature)}"


def forge_shared(algorithm: str, kid: str, secret: bytes) -> str:
    """A token signed with a shared secret. Libraries refuse a public key as the secret, so it is encoded here."""
    body = f"{encode({'alg': algorithm, 'kid': kid})}.{encode(claims())}"
    return f"{body}.{encode(hmac.digest(secret, body.encode(), hashlib.sha256))}"
