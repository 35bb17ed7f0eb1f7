"""From the header `Authorization` to who asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shoal.errors import Unauthenticated
from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake, create_local
from shoal.service.auth.authenticator import Authenticator
from shoal.service.auth.identity import ANYONE, Identity
from shoal.service.auth.settings import AuthSettings
from shoal.testing import identity_provider as idp


@pytest.fixture
def lake() -> LocalLake:
    return create_local("memory://")


@pytest.fixture
def store(lake: LocalLake) -> LocalAccess:
    return LocalAccess(lake)


def refusal(authenticator: Authenticator, header: str | None) -> str:
    with pytest.raises(Unauthenticated) as e:
        authenticator.authenticate(header)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_a_service_that_does_not_want_to_know_lets_anyone_in(store: LocalAccess) -> None:
    authenticator = Authenticator(AuthSettings(enabled=False), store)
    for header in (None, "", "Bearer nonsense"):
        assert authenticator.authenticate(header) is ANYONE
    assert ANYONE.may_do_all
    assert not Identity("anyone", "token").may_do_all


def test_a_token_of_the_lake_tells_its_subject(store: LocalAccess) -> None:
    authenticator = Authenticator(AuthSettings(), store)
    made = store.create_token("laptop", "ada")
    for word in ("Bearer", "bearer", "BEARER"):
        assert authenticator.authenticate(f"{word} {made.secret}") == Identity("ada", "token")


def test_a_token_that_was_revoked_or_has_expired_is_refused(store: LocalAccess) -> None:
    later = datetime.now(UTC) + timedelta(seconds=60)
    authenticator = Authenticator(AuthSettings(), store, now=lambda: later)
    gone, short, long = (
        store.create_token("gone"),
        store.create_token("short", expires=50),
        store.create_token("long", expires=90),
    )
    store.revoke_token("gone")
    assert "it is unknown or was revoked" in refusal(authenticator, f"Bearer {gone.secret}")
    assert "it has expired" in refusal(authenticator, f"Bearer {short.secret}")
    assert authenticator.authenticate(f"Bearer {long.secret}").subject == "long"


def test_nothing_but_the_whole_token_proves_anything(store: LocalAccess) -> None:
    authenticator = Authenticator(AuthSettings(), store)
    secret, other = store.create_token("one").secret, store.create_token("two").secret
    _, ident, rest = secret.split("_", 2)
    wrong = [
        secret[:-1], secret + "x", f"shoal_{ident}_{rest.swapcase()}", f"shoal_{ident}_", f"shoal_{ident}",
        "shoal_", "shoal__",
        f"shoal_{ident}_{other.split('_', 2)[2]}", f"shoal_{'0' * 27}_{rest}", "shoal_" + "x" * 100_000,
    ]  # fmt: skip
    for text in wrong:
        said = refusal(authenticator, f"Bearer {text}")
        assert "it is unknown or was revoked" in said
        assert rest not in said


@pytest.mark.parametrize("header", [None, "", " "])
def test_no_header_is_refused(store: LocalAccess, header: str | None) -> None:
    refusal(Authenticator(AuthSettings(), store), header)


@pytest.mark.parametrize("header", ["Bearer", "Bearer a b", "Basic YWRhOnNlY3JldA==", "shoal_x_y", "Bearer\ta\tb"])
def test_a_header_of_another_kind_is_refused(store: LocalAccess, header: str) -> None:
    assert "write it as: Bearer TOKEN" in refusal(Authenticator(AuthSettings(), store), header)


def test_tokens_of_a_provider_are_believed_only_where_its_keys_are_known(store: LocalAccess, tmp_path: Path) -> None:
    header = f"Bearer {idp.sign()}"
    assert "it is none of this lake" in refusal(Authenticator(AuthSettings(), store), header)
    both = Authenticator(idp.settings(idp.write_jwks(tmp_path / "jwks.json")), store)
    assert both.authenticate(header) == Identity("ada", "jwt")
    assert both.authenticate(f"Bearer {store.create_token('ci').secret}") == Identity("ci", "token")


def test_the_secret_is_in_no_text_and_nowhere_in_the_lake(lake: LocalLake, store: LocalAccess) -> None:
    made = store.create_token("ci", "bot")
    secret = made.secret.split("_", 2)[2]
    assert len(secret) >= 43  # 256 bits in letters of 6
    held = store.holder(made.secret)
    for shown in (repr(made), repr(held), repr(store.tokens()), repr(store.rights())):
        assert secret not in shown
    assert all(secret not in commit.message for commit in lake.pool(".access").log())
    inner = lake.root.store
    assert all(secret.encode() not in inner.get(listed.key) for listed in inner.list())
