"""Who may do what: nothing, unless it was granted."""

from __future__ import annotations

import itertools

import pytest

from shoal.api.access import VERBS
from shoal.errors import AlreadyExists, Forbidden, InvalidInput, NotFound
from shoal.ids import new, to_text
from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake, create_local
from shoal.service.auth import handlers
from shoal.service.auth.access import Access
from shoal.service.auth.identity import ANYONE, Identity
from shoal.service.auth.settings import AuthSettings
from shoal.testing import identity_provider as idp

ADA, BOB, ROOT, EVE = (Identity(name, "token") for name in ("ada", "bob", "root", "eve"))


@pytest.fixture
def lake() -> LocalLake:
    made = create_local("memory://")
    for name in ("logs", "secret"):
        made.create(name, key="ts").load([{"ts": 1, "in": name}])
    return made


@pytest.fixture
def access(lake: LocalLake) -> Access:
    store = LocalAccess(lake)
    store.grant("root", "*", "admin")
    store.grant("ada", "logs", "write")
    store.grant("bob", "*", "read")
    return Access(store)


@pytest.mark.parametrize(("granted", "asked"), [*itertools.product(VERBS, VERBS)])
def test_a_verb_includes_those_below_it(lake: LocalLake, granted: str, asked: str) -> None:
    access = Access(LocalAccess(lake))
    access.store.grant("ada", "logs", granted)
    is_allowed = VERBS.index(asked) <= VERBS.index(granted)
    assert access.may(ADA, lake.pool("logs").id, asked) is is_allowed  # type: ignore[arg-type]
    assert not access.may(ADA, lake.pool("secret").id, asked)  # type: ignore[arg-type]
    assert not access.may(ADA, None, asked)  # type: ignore[arg-type]
    assert not access.may(EVE, lake.pool("logs").id, asked)  # type: ignore[arg-type]


def test_what_is_granted_on_everything_holds_for_pools_and_the_lake(lake: LocalLake, access: Access) -> None:
    for place in (None, lake.pool("logs").id, lake.pool("secret").id):
        access.require(ROOT, place, "admin")
        access.require(BOB, place, "read")
        assert not access.may(BOB, place, "write")
    later = lake.create("later").id
    access.require(BOB, later, "read")


def test_how_it_is_known_who_asks_makes_no_difference(lake: LocalLake, access: Access) -> None:
    access.require(Identity("ada", "jwt"), lake.pool("logs").id, "write")


def test_a_pool_that_may_not_be_read_is_not_there(lake: LocalLake, access: Access) -> None:
    secret = lake.pool("secret").id
    for verb in VERBS:
        for asked in ("secret", secret):
            with pytest.raises(NotFound) as hidden:
                access.require(ADA, secret, verb, asked)
            assert str(hidden.value) == f"{asked}: pool not found"
        with pytest.raises(NotFound) as absent:
            lake.pool("nothing")
        assert str(absent.value) == "nothing: pool not found"


def test_a_pool_that_may_be_read_says_what_is_missing(lake: LocalLake, access: Access) -> None:
    with pytest.raises(Forbidden, match=r"logs: ada has no admin here .*: shoal grant ada admin 'logs'"):
        access.require(ADA, lake.pool("logs").id, "admin", "logs")
    with pytest.raises(Forbidden, match=r"ada has no admin here .*: shoal grant ada admin '\*'"):
        access.require(ADA, None, "admin")


def test_a_new_pool_of_the_same_name_is_another_one(lake: LocalLake, access: Access) -> None:
    old = lake.pool("logs").id
    lake.drop("logs")
    new_one = lake.create("logs").id
    assert access.may(ADA, old, "write")
    assert not access.may(ADA, new_one, "read")
    assert [(g.subject, g.pool) for g in access.store.grants()] == [("bob", "*"), ("root", "*")]


def test_a_right_stays_with_a_pool_that_is_renamed(lake: LocalLake, access: Access) -> None:
    lake.rename("logs", "old-logs")
    access.require(ADA, lake.pool("old-logs").id, "write")
    assert ("ada", "old-logs") in [(g.subject, g.pool) for g in access.store.grants()]


def test_a_revoked_right_ends_at_once(lake: LocalLake, access: Access) -> None:
    access.store.revoke("ada", "logs", "write")
    assert not access.may(ADA, lake.pool("logs").id, "read")


def test_the_pool_of_grants_is_read_by_admins_and_changed_by_nobody(lake: LocalLake, access: Access) -> None:
    place = lake.pool(".access").id
    for who in (ROOT, ANYONE):
        access.require(who, place, "read")
        for verb in ("write", "admin"):
            with pytest.raises(Forbidden, match=r"\.access: this is changed by shoal grant, revoke and tokens alone"):
                access.require(who, place, verb, ".access")
    for who in (ADA, BOB, EVE):
        with pytest.raises(NotFound, match=r"^\.access: pool not found$"):
            access.require(who, place, "read", ".access")


def test_anyone_may_do_all_where_nobody_asks(lake: LocalLake) -> None:
    access = Access(LocalAccess(lake))
    for place, verb in itertools.product((None, lake.pool("logs").id), VERBS):
        access.require(ANYONE, place, verb)


# ---- the lake as somebody sees it


@pytest.mark.parametrize(
    "program",
    ["from %s", "from %s@main:objects", "from %s:branches", "from logs | join (from %s) on ts=ts", "from 'sec*'",
     "fork (=> from logs => from %s) | count()"],
)  # fmt: skip
def test_a_query_over_a_pool_that_is_not_seen_is_one_over_a_pool_that_is_not_there(
    lake: LocalLake, access: Access, program: str
) -> None:
    def said(name: str) -> str:
        with pytest.raises((NotFound, InvalidInput)) as e:
            access.view(ADA, lake).query(program.replace("%s", name).replace("sec", name[:3])).to_list()
        return str(e.value).replace(name, "POOL").replace(name[:3], "POO")

    assert said("secret") == said("nosuch")


def test_lists_leave_out_what_is_not_seen(lake: LocalLake, access: Access) -> None:
    names = {who.subject: [p.name for p in access.view(who, lake).pools()] for who in (ADA, BOB, ROOT, EVE)}
    assert names == {"ada": ["logs"], "bob": ["logs", "secret"], "root": ["logs", "secret"], "eve": []}
    view = access.view(ADA, lake)
    assert view.query("from :pools | yield name").to_list() == ["logs"]
    assert view.query("from :branches | yield pool.name").to_list() == ["logs"]
    assert view.query("from * | yield in").to_list() == ["logs"]
    assert view.status().pools == 1


def test_sql_sees_no_more(lake: LocalLake, access: Access) -> None:
    view = access.view(ADA, lake)
    assert view.sql('select "in" from logs').to_list() == [{"in": "logs"}]
    for name in ("secret", "SECRET", '"secret"', '".access"'):
        with pytest.raises(NotFound, match="pool not found"):
            view.sql(f"select * from {name}").to_list()


def test_grants_are_seen_by_admins_alone(lake: LocalLake, access: Access) -> None:
    program = "from '.access' | kind == 'grant' | count()"
    assert access.view(ROOT, lake).query(program).to_list() == [3]
    for who in (ADA, BOB, EVE):
        with pytest.raises(InvalidInput, match="pool not found"):
            access.view(who, lake).query(program).to_list()


def test_a_query_that_was_compiled_before_does_not_outlive_the_right_to_it(lake: LocalLake, access: Access) -> None:
    assert access.view(ADA, lake) is access.view(ADA, lake)
    assert access.view(ADA, lake).query("from logs").to_list() == [{"ts": 1, "in": "logs"}]
    access.store.revoke("ada", "logs", "write")
    with pytest.raises(InvalidInput, match="logs: pool not found"):
        access.view(ADA, lake).query("from logs").to_list()


def test_a_query_loads_only_where_its_caller_may_write(lake: LocalLake, access: Access) -> None:
    assert len(access.view(ADA, lake).query("from logs | load logs").to_list()) == 1
    for who, program, error in (
        (BOB, "from logs | load logs", Forbidden),
        (BOB, "from logs | fork (=> load secret => pass)", Forbidden),
        (ADA, "from logs | load secret", InvalidInput),
        (ROOT, "from logs | load '.access'", Forbidden),
        (ANYONE, "from logs | load '.access'", Forbidden),
    ):
        with pytest.raises(error):
            access.view(who, lake).query(program).to_list()
    assert lake.query("from logs | count()").to_list() == [2]
    assert lake.query("from secret | count()").to_list() == [1]


def test_a_vacuum_of_a_view_takes_nothing_of_what_is_not_seen(lake: LocalLake, access: Access) -> None:
    access.view(ADA, lake).vacuum(grace=0)
    assert lake.query("from secret").to_list() == [{"ts": 1, "in": "secret"}]
    assert len(access.store.grants()) == 3


def test_a_view_changes_the_lake_itself(lake: LocalLake, access: Access) -> None:
    view = access.view(ADA, lake)
    view.rename("logs", "more")
    assert lake.pool("more").id == view.pool("more").id
    with pytest.raises(NotFound, match="secret: pool not found"):
        view.rename("secret", "open")
    with pytest.raises(NotFound, match="secret: pool not found"):
        view.drop("secret")
    view.drop("more")
    assert [p.name for p in lake.pools()] == ["secret"]
    assert view.create("fresh").name == "fresh"


# ---- what the routes under /auth do


def test_the_method_tells_how_to_log_in(tmp_path: object) -> None:
    assert handlers.method(AuthSettings(enabled=False)) == {"kind": ""}
    assert handlers.method(AuthSettings()) == {"kind": "token"}
    details = {"audience": idp.AUDIENCE, "client_id": "client", "domain": idp.DOMAIN}
    assert handlers.method(idp.settings("keys.json")) == {"kind": "auth0", "auth0": details}
    plain = AuthSettings(audience="a", issuer="i", jwkspath="k")
    assert handlers.method(plain) == {"kind": "jwt", "jwt": {"audience": "a", "issuer": "i"}}


def test_whoever_asks_is_told_who_they_are(access: Access) -> None:
    found = handlers.whoami(access, ADA)
    assert (found["subject"], found["user_id"], found["method"]) == ("ada", "ada", "token")
    assert found["grants"] == [{"pool": "logs", "verb": "write"}]
    assert handlers.whoami(access, ANYONE)["grants"] == []


def test_an_admin_of_a_pool_grants_and_sees_what_is_on_it(lake: LocalLake, access: Access) -> None:
    access.store.grant("ada", "logs", "admin")
    made = handlers.grant(access, ADA, "eve", "logs", "read")
    assert (made.subject, made.pool, made.verb, made.by) == ("eve", "logs", "read", "ada")
    access.require(EVE, lake.pool("logs").id, "read")
    assert {g.subject for g in handlers.grants(access, ADA)} == {"ada", "eve"}
    assert {g.subject for g in handlers.grants(access, ROOT)} == {"ada", "eve", "bob", "root"}
    assert handlers.grants(access, EVE) == []
    handlers.revoke(access, ADA, "eve", "logs", "read")
    assert not access.may(EVE, lake.pool("logs").id, "read")
    assert next(iter(lake.pool(".access").log())).author == "ada"


def test_nobody_grants_what_they_do_not_administer(access: Access) -> None:
    for change in (handlers.grant, handlers.revoke):
        with pytest.raises(Forbidden):
            change(access, ADA, "ada", "logs", "admin")
        with pytest.raises(Forbidden):
            change(access, ADA, "ada", "*", "read")
        with pytest.raises(NotFound, match=r"^secret: pool not found$"):
            change(access, ADA, "ada", "secret", "read")
        with pytest.raises(NotFound, match=r"^nothing: pool not found$"):
            change(access, ADA, "ada", "nothing", "read")
        with pytest.raises(InvalidInput, match="cannot be granted by itself"):
            change(access, ROOT, "ada", ".access", "write")


def test_tokens_are_for_admins_of_the_lake(access: Access) -> None:
    made = handlers.create_token(access, ROOT, "ci", expires=60.0, subject="bot")
    assert (made.token.name, made.token.subject, made.token.by) == ("ci", "bot", "root")
    assert [t.name for t in handlers.tokens(access, ROOT)] == ["ci"]
    with pytest.raises(AlreadyExists):
        handlers.create_token(access, ROOT, "ci")
    for who in (ADA, BOB, EVE):
        for act in (
            lambda who=who: handlers.tokens(access, who),
            lambda who=who: handlers.create_token(access, who, "mine", subject="root"),
            lambda who=who: handlers.revoke_token(access, who, "ci"),
        ):
            with pytest.raises(Forbidden):
                act()
    handlers.revoke_token(access, ROOT, "ci")
    assert handlers.tokens(access, ROOT) == []


def test_a_name_that_looks_like_an_id_is_none(lake: LocalLake, access: Access) -> None:
    with pytest.raises(NotFound):
        handlers.grant(access, ROOT, "ada", to_text(new()), "read")
