"""Grants and tokens as data of the lake."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import shoal
from shoal.errors import AlreadyExists, CorruptData, InvalidInput, NotFound, Unsupported
from shoal.ids import new, to_text
from shoal.local.access import FRESH, LocalAccess
from shoal.local.lake import LocalLake, create_local, open_local


@pytest.fixture
def lake() -> LocalLake:
    made = create_local("memory://")
    made.create("logs", key="ts")
    return made


@pytest.fixture
def access(lake: LocalLake) -> LocalAccess:
    return LocalAccess(lake)


def shown(access: LocalAccess) -> list[tuple[str, str, str]]:
    return [(g.subject, g.verb, g.pool) for g in access.grants()]


# ---- grants


def test_there_is_no_pool_before_something_was_granted(lake: LocalLake, access: LocalAccess) -> None:
    assert (access.grants(), access.tokens(), access.rights().pool) == ([], [], None)
    with pytest.raises(NotFound):
        lake.pool(".access")
    with pytest.raises(NotFound):
        access.revoke("ada", "logs", "read")
    with pytest.raises(NotFound, match=r"^ci: token not found$"):
        access.revoke_token("ci")


def test_what_was_granted_is_shown_with_who_did_it(access: LocalAccess) -> None:
    began = datetime.now(UTC) - timedelta(seconds=1)
    made = access.grant("ada", "logs", "write", by="root")
    access.grant("bob", "*", "admin", by="root")
    assert shown(access) == [("bob", "admin", "*"), ("ada", "write", "logs")]
    assert made == access.grants()[1]
    assert made.by == "root"
    assert began < made.ts < datetime.now(UTC) + timedelta(seconds=1)


def test_what_is_granted_twice_is_one_record(lake: LocalLake, access: LocalAccess) -> None:
    for _ in range(2):
        access.grant("ada", "logs", "write")
        access.grant("ada", lake.pool("logs").id, "write")
    assert lake.query("from '.access' | count()").to_list() == [1]
    assert len(list(lake.pool(".access").log())) == 1


def test_a_grant_is_taken_back_alone(access: LocalAccess) -> None:
    for subject, verb in (("ada", "read"), ("ada", "write"), ("bob", "read")):
        access.grant(subject, "logs", verb)
    access.grant("ada", "*", "read")
    access.revoke("ada", "logs", "read")
    assert shown(access) == [("ada", "read", "*"), ("ada", "write", "logs"), ("bob", "read", "logs")]
    with pytest.raises(NotFound, match="ada was not granted read on logs"):
        access.revoke("ada", "logs", "read")


def test_the_log_tells_what_happened(lake: LocalLake, access: LocalAccess) -> None:
    access.grant("ada", "logs", "write", by="root")
    access.create_token("ci", "bot", by="ada")
    access.revoke_token("ci", by="ada")
    access.revoke("ada", "logs", "write", by="root")
    assert [(c.author, c.message) for c in lake.pool(".access").log()] == [
        ("root", "revoke write on logs from ada"),
        ("ada", "revoke token ci"),
        ("ada", "create token ci for bot"),
        ("root", "grant write on logs to ada"),
    ]


@pytest.mark.parametrize(
    "subject",
    ["ada", "auth0|1234", "https://id.example.com/7", 'a "quoted" \\ one', "löwe", "a' or true or '", "x" * 255],
)
def test_a_subject_is_any_name_that_can_be_printed(access: LocalAccess, subject: str) -> None:
    access.grant("other", "logs", "read")
    access.grant(subject, "logs", "read")
    assert access.rights().has(subject, access.scope("logs")[0], "read")
    access.revoke(subject, "logs", "read")
    assert shown(access) == [("other", "read", "logs")]


@pytest.mark.parametrize("subject", ["", " ", "ada ", "a\nb", "*", "\0", "x" * 256])
def test_other_subjects_are_refused(access: LocalAccess, subject: str) -> None:
    for change in (access.grant, access.revoke):
        with pytest.raises(InvalidInput, match="invalid subject"):
            change(subject, "logs", "read")
    with pytest.raises(InvalidInput, match="invalid subject"):
        access.create_token("ci", subject)


@pytest.mark.parametrize("verb", ["", "Read", "own", "*"])
def test_other_verbs_are_refused(access: LocalAccess, verb: str) -> None:
    for change in (access.grant, access.revoke):
        with pytest.raises(InvalidInput, match=r"cannot be granted \(one of: read, write, admin\)"):
            change("ada", "logs", verb)


def test_pools_that_are_not_there_are_not_granted(access: LocalAccess) -> None:
    for change in (access.grant, access.revoke):
        for name in ("nothing", to_text(new())):
            with pytest.raises(NotFound, match=f"{name}: pool not found"):
                change("ada", name, "read")


# ---- tokens


def test_a_token_is_known_by_its_secret(access: LocalAccess) -> None:
    made = access.create_token("ci", "bot", by="root")
    assert made.secret.startswith("shoal_")
    assert access.holder(made.secret) == made.token == access.tokens()[0]
    assert (made.token.name, made.token.subject, made.token.by, made.token.expires) == ("ci", "bot", "root", None)
    assert access.create_token("plain").token.subject == "plain"
    assert len({access.create_token(f"t{i}").secret for i in range(5)}) == 5


def test_a_token_tells_when_it_expires(access: LocalAccess) -> None:
    made = access.create_token("ci", expires=3600).token
    assert made.expires is not None
    assert made.expires - made.ts == timedelta(hours=1)
    for seconds in (0, -1.0, float("nan"), float("inf"), 1e12):
        with pytest.raises(InvalidInput, match="the lifetime of a token must be"):
            access.create_token("bad", expires=seconds)


def test_a_name_is_taken_until_the_token_is_revoked(access: LocalAccess) -> None:
    first = access.create_token("ci")
    with pytest.raises(AlreadyExists, match="ci: token already exists"):
        access.create_token("ci")
    access.revoke_token("ci")
    assert access.holder(first.secret) is None
    second = access.create_token("ci")
    assert access.holder(second.secret) is not None
    assert access.holder(first.secret) is None


@pytest.mark.parametrize("name", ["", "a b", "-x", "a/b", "a\nb", 'a"', "x" * 101, ".."])
def test_other_names_are_refused(access: LocalAccess, name: str) -> None:
    for change in (access.create_token, access.revoke_token):
        with pytest.raises(InvalidInput, match="invalid token name"):
            change(name)


# ---- the pool


def test_lists_leave_the_pool_out_but_it_can_be_named(lake: LocalLake, access: LocalAccess) -> None:
    access.grant("ada", "logs", "read")
    assert [p.name for p in lake.pools()] == ["logs"]
    assert lake.status().pools == 1
    for program in ("from :pools | yield name", "from :branches | yield pool.name"):
        assert lake.query(program).to_list() == ["logs"]
    for program in ("from *", "from /./"):
        assert lake.query(program).to_list() == []
    assert lake.query("from '.access' | cut kind,subject,verb").to_list() == [
        {"kind": "grant", "subject": "ada", "verb": "read"}
    ]
    assert lake.pool(".access").info().key == ("subject",)


def test_names_that_begin_with_a_dot_are_reserved(lake: LocalLake, access: LocalAccess) -> None:
    access.grant("ada", "logs", "read")
    ident = lake.pool(".access").id
    changes: list[Callable[[], object]] = [
        lambda: lake.create(".x"),
        lambda: lake.rename("logs", ".access"),
        lambda: lake.rename(".access", "mine"),
        lambda: lake.rename(ident, "mine"),
    ]
    for change in changes:
        with pytest.raises(InvalidInput, match="reserved"):
            change()
    with pytest.raises(InvalidInput, match="cannot be granted by itself"):
        access.grant("ada", ".access", "read")


def test_a_vacuum_takes_care_of_the_pool_and_leaves_what_is_granted(lake: LocalLake, access: LocalAccess) -> None:
    access.grant("ada", "logs", "read")
    access.grant("bob", "logs", "read")
    access.revoke("bob", "logs", "read")
    lake.vacuum(grace=0)
    assert shown(LocalAccess(lake)) == [("ada", "read", "logs")]


def test_many_changes_leave_few_objects(lake: LocalLake, access: LocalAccess) -> None:
    for i in range(70):
        access.grant(f"user-{i}", "logs", "read")
    assert len(list(lake.pool(".access").objects())) < 20
    assert len(shown(access)) == 70
    access.revoke("user-3", "logs", "read")
    assert len(shown(LocalAccess(lake))) == 69


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"kind": "deny", "subject": "ada"}, Unsupported),
        ({"kind": "grant", "subject": "ada", "pool": "*", "verb": "own", "by": "", "ts": None}, Unsupported),
        ({"kind": "grant", "subject": "ada"}, CorruptData),
        ({"kind": "grant", "subject": 1, "pool": "*", "verb": "read", "by": "x"}, CorruptData),
        ({"kind": "grant", "subject": "a", "pool": "*", "verb": "read", "by": "x", "ts": 1}, CorruptData),
        ({"kind": "token", "name": "a", "id": "b", "subject": "c", "by": "x", "hash": "h"}, CorruptData),
        ({"other": 1}, CorruptData),
        (1, CorruptData),
    ],
)
def test_a_record_that_is_not_understood_gives_no_right(
    lake: LocalLake, access: LocalAccess, record: object, error: type[Exception]
) -> None:
    access.grant("ada", "logs", "read")
    lake.pool(".access").load([record])
    with pytest.raises(error, match=r"^\.access: "):
        LocalAccess(lake).rights()


# ---- several at once


def test_changes_of_others_are_seen_within_a_second_and_own_ones_at_once(lake: LocalLake) -> None:
    seconds = [0.0]
    one, other = LocalAccess(lake), LocalAccess(lake, lambda: seconds[0])
    assert other.grants() == []
    one.grant("ada", "logs", "read")
    assert shown(one) == [("ada", "read", "logs")]
    assert other.grants() == []
    seconds[0] += FRESH
    assert shown(other) == [("ada", "read", "logs")]
    before = other.rights()
    seconds[0] += FRESH
    assert other.rights() is before


def test_several_at_once_lose_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    shoal.create(uri).create("logs")

    def work(i: int) -> str:
        mine = LocalAccess(open_local(uri))
        mine.grant(f"user-{i}", "logs", "read")
        mine.grant("all", "logs", "write")
        mine.create_token(f"token-{i}")
        mine.grant(f"user-{i}", "logs", "write")
        mine.revoke(f"user-{i}", "logs", "read")
        try:
            mine.create_token("same")
        except AlreadyExists:
            return "second"
        return "first"

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(work, range(6)))
    assert sorted(outcomes) == ["first"] + ["second"] * 5
    found = LocalAccess(open_local(uri))
    assert set(shown(found)) == {(f"user-{i}", "write", "logs") for i in range(6)} | {("all", "write", "logs")}
    assert [t.name for t in found.tokens()] == ["same", *(f"token-{i}" for i in range(6))]


# ---- a pool that an older version called *


def test_a_grant_on_everything_is_never_one_on_a_pool_of_that_name(
    lake: LocalLake, access: LocalAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        for module in ("shoal.lake.lake", "shoal.local.pools"):
            older.setattr(f"{module}.check_config", lambda config: config)
        star = lake.create("*", key="ts")
    star.load([{"ts": 1}])
    assert lake.pool("*").id == star.id
    access.grant("ada", "*", "read")
    assert access.rights().has("ada", lake.pool("logs").id, "read")
    access.grant("bob", star.id, "read")
    assert not access.rights().has("bob", lake.pool("logs").id, "read")
    assert shown(access) == [("ada", "read", "*"), ("bob", "read", star.id)]
    access.revoke("ada", "*", "read")
    assert shown(access) == [("bob", "read", star.id)]
    lake.rename("*", "stars")
    assert shown(access) == [("bob", "read", "stars")]
    assert lake.query("from stars").to_list() == [{"ts": 1}]
