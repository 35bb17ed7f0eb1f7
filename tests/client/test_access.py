"""Grants and tokens through a service: as they are in the store, and by those who may."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

import shoal
from shoal.api.access import AccessControl
from shoal.client.access import JsonCalls, RemoteAccess
from shoal.client.transport import Access
from shoal.errors import AlreadyExists, Forbidden, InvalidInput, NotFound, Unauthenticated
from shoal.local.access import LocalAccess
from shoal.local.lake import create_local, open_local
from shoal.testing.services import Served, serving


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """A service, and the token of its admin."""
    folder = tmp_path_factory.mktemp("access")
    lake = create_local(str(folder / "lake"))
    for name in ("logs", "secret", "a/b c"):
        lake.create(name, key="ts").load([{"ts": 1}])
    access = LocalAccess(lake)
    access.grant("root", "*", "admin")
    root = access.create_token("root").secret
    with serving(folder / "lake", folder, ["-auth.enabled"]) as served:
        yield served, root


@pytest.fixture
def root(place: tuple[Served, str]) -> RemoteAccess:
    return connect(place[0], place[1])


def connect(served: Served, token: str | None) -> RemoteAccess:
    return RemoteAccess(JsonCalls(Access(served.url, token)))


def shown(access: AccessControl) -> list[tuple[str, str, str]]:
    return [(g.subject, g.verb, g.pool) for g in access.grants()]


def test_what_is_granted_through_a_service_is_what_is_in_the_store(
    place: tuple[Served, str], root: RemoteAccess
) -> None:
    made = root.grant("ada", "a/b c", "write")
    assert (made.subject, made.pool, made.verb, made.by) == ("ada", "a/b c", "write", "root")
    stored = LocalAccess(open_local(str(place[0].lake)))
    assert root.grants() == stored.grants()
    assert made in stored.grants()
    root.revoke("ada", "a/b c", "write")
    assert shown(root) == [("root", "admin", "*")]
    with pytest.raises(NotFound, match="ada was not granted write on a/b c"):
        root.revoke("ada", "a/b c", "write")


def test_a_token_that_is_made_through_a_service_lets_in_until_it_is_revoked(
    place: tuple[Served, str], root: RemoteAccess
) -> None:
    served, _ = place
    made = root.create_token("ci+1@example.com", "ada", 3600)
    assert made.token in root.tokens()
    assert made.token.expires is not None
    assert abs(made.token.expires - made.token.ts - timedelta(hours=1)) < timedelta(milliseconds=1)
    assert made.secret not in repr(made)
    ada = connect(served, made.secret)
    assert (ada.identity()["subject"], ada.identity()["method"], ada.identity()["grants"]) == ("ada", "token", [])
    assert shoal.open(served.url, token=made.secret).pools() == []
    root.grant("ada", "logs", "read")
    assert [p.name for p in shoal.open(served.url, token=made.secret).pools()] == ["logs"]
    with pytest.raises(AlreadyExists):
        root.create_token("ci+1@example.com")
    root.revoke_token("ci+1@example.com")
    with pytest.raises(Unauthenticated, match="unknown or was revoked"):
        ada.identity()
    root.revoke("ada", "logs", "read")


def test_errors_are_those_of_the_service(place: tuple[Served, str], root: RemoteAccess) -> None:
    served, _ = place
    nobody = connect(served, None)
    assert nobody.method() == {"kind": "token"}
    for ask in (nobody.identity, nobody.grants, nobody.tokens):
        with pytest.raises(Unauthenticated, match="no token was sent"):
            ask()
    guest = connect(served, root.create_token("guest").secret)
    assert guest.grants() == []
    with pytest.raises(Forbidden, match="guest has no admin here"):
        guest.tokens()
    with pytest.raises(NotFound, match=r"^secret: pool not found$"):
        guest.grant("guest", "secret", "read")
    with pytest.raises(InvalidInput, match="cannot be granted"):
        root.grant("guest", "logs", "own")
    root.revoke_token("guest")
