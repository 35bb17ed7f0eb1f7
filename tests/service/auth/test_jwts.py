"""Tokens of an identity provider: which are believed, and that all others are refused in one line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import Unauthenticated
from shoal.service.auth.identity import Identity
from shoal.service.auth.jwks import KeySet
from shoal.service.auth.jwts import LEEWAY, LONGEST, JwtVerifier
from shoal.testing import identity_provider as idp
from shoal.testing.identity_provider import encode, forge


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> JwtVerifier:
    path = idp.write_jwks(tmp_path_factory.mktemp("keys") / "jwks.json")
    return JwtVerifier(idp.settings(path), KeySet(str(path)))


def refusal(verifier: JwtVerifier, token: str) -> str:
    with pytest.raises(Unauthenticated) as e:
        verifier.identify(token)
    text = str(e.value)
    assert "\n" not in text
    assert token[:40] not in text or not token
    return text


@pytest.mark.parametrize("algorithm", idp.KIDS)
def test_a_good_token_tells_its_subject(verifier: JwtVerifier, algorithm: str) -> None:
    assert verifier.identify(idp.sign(algorithm)) == Identity("ada", "jwt")
    several = idp.sign(algorithm, aud=["https://other.example.com", idp.AUDIENCE], sub="auth0|123")
    assert verifier.identify(several).subject == "auth0|123"


NOW = int(time.time())
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "expired": ({"exp": NOW - LEEWAY - 60}, "it has expired"),
    "not yet valid": ({"nbf": NOW + 3600}, "it is not valid yet"),
    "made in the future": ({"iat": NOW + 3600}, "it is not valid yet"),
    "another audience": ({"aud": "https://other.example.com"}, "it is for another audience"),
    "a part of the audience": ({"aud": idp.AUDIENCE[:-1]}, "it is for another audience"),
    "no audience among many": ({"aud": []}, "it lacks the claim 'aud'"),
    "another issuer": ({"iss": "https://evil.example.com/"}, "it is of another issuer"),
    "the issuer without its slash": ({"iss": idp.DOMAIN}, "it is of another issuer"),
    "no sub": ({"sub": None}, "it lacks the claim 'sub'"),
    "no exp": ({"exp": None}, "it lacks the claim 'exp'"),
    "no aud": ({"aud": None}, "it lacks the claim 'aud'"),
    "no iss": ({"iss": None}, "it lacks the claim 'iss'"),
    "an empty sub": ({"sub": ""}, "not a token that is accepted"),
    "a sub that stands for everything": ({"sub": "*"}, "not a token that is accepted"),
    "a sub with a newline": ({"sub": "ada\nbob"}, "not a token that is accepted"),
    "a sub that is very long": ({"sub": "a" * 256}, "not a token that is accepted"),
    "an exp that is no number": ({"exp": "tomorrow"}, "not a token that is accepted"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("algorithm", idp.KIDS)
def test_a_wrong_claim_is_refused(verifier: JwtVerifier, algorithm: str, case: str) -> None:
    changed, why = WRONG[case]
    assert why in refusal(verifier, idp.sign(algorithm, **changed))


@pytest.mark.parametrize("changed", [{"sub": 1}, {"sub": ["ada"]}, {"exp": float("inf")}, {"aud": {"a": 1}}])
def test_a_claim_of_a_wrong_type_is_refused(verifier: JwtVerifier, changed: dict[str, Any]) -> None:
    key = idp.private_key("ES256")
    body = f"{encode({'alg': 'ES256', 'kid': idp.KIDS['ES256']})}.{encode(idp.claims(**changed))}"
    signature = jwt.get_algorithm_by_name("ES256").sign(body.encode(), key)
    refusal(verifier, f"{body}.{encode(signature)}")


def test_clocks_may_differ_a_little(verifier: JwtVerifier) -> None:
    now = int(time.time())
    assert verifier.identify(idp.sign(exp=now - LEEWAY + 20, nbf=now + LEEWAY - 20)).subject == "ada"


@pytest.mark.parametrize("name", ["none", "None", "NONE", ""])
def test_a_token_without_a_signature_is_refused(verifier: JwtVerifier, name: str) -> None:
    for kid in ({}, {"kid": idp.KIDS["RS256"]}):
        assert "its algorithm is none of" in refusal(verifier, forge({"alg": name, **kid}, idp.claims()))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("name", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_no_shared_secret(verifier: JwtVerifier, algorithm: str, name: str) -> None:
    token = idp.forge_shared(name, idp.KIDS[algorithm], idp.public_pem(algorithm))
    assert "its algorithm is none of" in refusal(verifier, token)


@pytest.mark.parametrize("name", ["RS384", "RS512", "PS256", "ES384", "ES512", "ES256K"])
def test_other_algorithms_are_refused_even_with_a_known_key(verifier: JwtVerifier, name: str) -> None:
    token = forge({"alg": name, "kid": idp.KIDS["RS256"]}, idp.claims(), b"x" * 256)
    assert "its algorithm is none of" in refusal(verifier, token)


def test_a_key_is_used_with_its_own_algorithm_alone(verifier: JwtVerifier) -> None:
    token = idp.sign("ES256", {"kid": idp.KIDS["RS256"]})
    assert "its key is not known" in refusal(verifier, token)


def test_an_unknown_key_and_no_key_at_all_are_refused(verifier: JwtVerifier) -> None:
    assert "its key is not known" in refusal(verifier, idp.sign(headers={"kid": "other"}))
    assert "it does not name its key" in refusal(verifier, idp.sign(headers={"kid": ""}))
    assert "it does not name its key" in refusal(verifier, forge({"alg": "RS256"}, idp.claims(), b"x" * 256))
    refusal(verifier, forge({"alg": "RS256", "kid": ["rsa-1"]}, idp.claims(), b"x" * 256))


def test_the_key_of_somebody_else_under_a_known_id_is_refused(verifier: JwtVerifier) -> None:
    mine = jwt.encode(idp.claims(), idp.private_key("RS256", "mine"), "RS256", {"kid": idp.KIDS["RS256"]})
    assert "its signature is wrong" in refusal(verifier, mine)


def test_a_token_cannot_bring_its_key(verifier: JwtVerifier, tmp_path: Path) -> None:
    """Neither in itself nor by a URL, which is not looked at."""
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"keys": [idp.jwk("RS256", "mine")]}))
    for headers in ({"jku": path.as_uri()}, {"x5u": "https://127.0.0.1:9/x"}, {"jwk": idp.jwk("RS256", "mine")}):
        token = jwt.encode(idp.claims(), idp.private_key("RS256", "mine"), "RS256", {"kid": "mine", **headers})
        assert "its key is not known" in refusal(verifier, token)
        assert verifier.identify(idp.sign(headers=dict(headers))).subject == "ada"


def test_conditions_that_are_not_understood_are_refused(verifier: JwtVerifier) -> None:
    for names in (["http://example.com/only-on-mondays"], ["exp"], [], None):
        refusal(verifier, idp.sign(headers={"crit": names, "http://example.com/only-on-mondays": True}))


def test_a_changed_token_is_refused(verifier: JwtVerifier) -> None:
    header, payload, signature = idp.sign().split(".")
    forged = encode(idp.claims(sub="root"))
    assert "its signature is wrong" in refusal(verifier, f"{header}.{forged}.{signature}")
    assert "its signature is wrong" in refusal(verifier, f"{header}.{payload}.{encode(b'x' * 256)}")
    refusal(verifier, f"{header}.{payload}.")
    refusal(verifier, f"{header}.{payload}")


def test_a_token_that_is_too_long_is_not_looked_at(verifier: JwtVerifier) -> None:
    assert "too long" in refusal(verifier, "e" * (LONGEST + 1))


DEEP = b'{"alg":' + b"[" * 7000 + b"]" * 7000 + b"}"


@pytest.mark.parametrize("token", ["", ".", "..", "...", "a.b.c", "e30.e30.e30", f"{encode([])}.{encode([])}.",
                                   f"{encode(DEEP)}.e30.e30"])  # fmt: skip
def test_garbage_is_refused(verifier: JwtVerifier, token: str) -> None:
    refusal(verifier, token)


@given(st.text() | st.lists(st.binary(), min_size=3, max_size=3).map(lambda parts: ".".join(map(encode, parts))))
def test_any_garbage_is_refused(verifier: JwtVerifier, token: str) -> None:
    refusal(verifier, token)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
HEADER = st.fixed_dictionaries({}, optional={
    "alg": st.sampled_from(list(idp.KIDS)) | JSON, "kid": st.sampled_from(list(idp.KIDS.values())) | JSON,
    "typ": JSON, "crit": JSON, "b64": JSON, "zip": JSON,
})  # fmt: skip


@given(HEADER, st.dictionaries(st.sampled_from(["sub", "aud", "iss", "exp", "nbf", "iat", "jti"]), JSON))
def test_any_header_and_claims_without_a_signature_are_refused(
    verifier: JwtVerifier, header: dict[str, Any], claims: dict[str, Any]
) -> None:
    refusal(verifier, forge(header, claims, b"x" * 64))


@given(st.dictionaries(st.sampled_from(["sub", "aud", "iss", "exp", "nbf", "iat", "jti"]), JSON))
def test_claims_of_any_kind_that_are_signed_are_understood_or_refused(
    verifier: JwtVerifier, changed: dict[str, Any]
) -> None:
    body = f"{encode({'alg': 'EdDSA', 'kid': idp.KIDS['EdDSA']})}.{encode({**idp.claims(), **changed})}"
    token = f"{body}.{encode(jwt.get_algorithm_by_name('EdDSA').sign(body.encode(), idp.private_key('EdDSA')))}"
    try:
        assert verifier.identify(token).method == "jwt"
    except Unauthenticated as e:
        assert "\n" not in str(e)
