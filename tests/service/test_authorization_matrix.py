"""Who may call what: every route of the service, by everybody, against a real one.

What is expected stands here, by the names of routes, and not in their table: a route that is new, or needs something
else than before, fails until somebody has thought about it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
import urllib3

from shoal.ids import new, to_text
from shoal.local.access import LocalAccess
from shoal.local.lake import create_local, open_local
from shoal.service.routes import ROUTES, Route
from shoal.testing import identity_provider as idp
from shoal.testing.services import Served, serving


class Level(IntEnum):
    """What a caller has to have; OPEN and KNOWN are nothing to be granted."""

    OPEN = -1
    KNOWN = 0
    READ = 1
    WRITE = 2
    ADMIN = 3
    LAKE = 4


class Row(NamedTuple):
    """What a route needs, and a request to it."""

    level: Level
    body: Any = None
    params: dict[str, str] | None = None
    names: dict[str, str] | None = None


ID = to_text(new())
GRANT = {"subject": "somebody", "pool": "logs", "verb": "read"}
ROWS: dict[str, Row] = {
    "root": Row(Level.OPEN),
    "version": Row(Level.OPEN),
    "status": Row(Level.OPEN),
    "authMethod": Row(Level.OPEN),
    "authIdentity": Row(Level.KNOWN),
    "listGrants": Row(Level.KNOWN),
    "grant": Row(Level.ADMIN, GRANT),
    "revoke": Row(Level.ADMIN, GRANT),
    "listTokens": Row(Level.LAKE),
    "createToken": Row(Level.LAKE, {"name": f"t-{ID}"}),
    "revokeToken": Row(Level.LAKE),
    "metrics": Row(Level.KNOWN),
    "lake": Row(Level.KNOWN),
    "events": Row(Level.KNOWN),
    "listPools": Row(Level.KNOWN),
    "createPool": Row(Level.LAKE, {"name": "made"}),
    "showPool": Row(Level.READ),
    "renamePool": Row(Level.ADMIN, {"name": "renamed"}),
    "dropPool": Row(Level.ADMIN),
    "poolStats": Row(Level.READ),
    "listBranches": Row(Level.READ),
    "createBranch": Row(Level.WRITE, {"name": "twig", "commit": "main"}),
    "showBranch": Row(Level.READ),
    "dropBranch": Row(Level.WRITE, names={"branch": "twig"}),
    "listTags": Row(Level.READ),
    "createTag": Row(Level.WRITE, {"name": "v2", "commit": "main"}),
    "dropTag": Row(Level.WRITE),
    "resolve": Row(Level.READ),
    "log": Row(Level.READ),
    "changes": Row(Level.READ),
    "objects": Row(Level.READ),
    "report": Row(Level.READ),
    "diff": Row(Level.READ, params={"old": "main", "new": "main"}),
    "load": Row(Level.WRITE, {"ts": 2}),
    "delete": Row(Level.WRITE, {"where": "ts == 99"}),
    "alterPool": Row(Level.ADMIN, {"primary": []}),
    "update": Row(Level.WRITE, {"where": "ts == 99", "program": "put a := 1"}),
    "attach": Row(Level.WRITE, {"uris": []}),
    "attachable": Row(Level.WRITE, {"uris": []}),
    "detach": Row(Level.WRITE, {"names": ["/nowhere/x.parquet"]}),
    "partitions": Row(Level.READ),
    "rewrite": Row(Level.WRITE, {"partition": "1", "program": "pass"}),
    "compact": Row(Level.WRITE, {"object_ids": []}),
    "manage": Row(Level.WRITE),
    "runs": Row(Level.READ),
    "merge": Row(Level.WRITE),
    "revert": Row(Level.WRITE),
    "cherryPick": Row(Level.WRITE),
    "rebase": Row(Level.WRITE),
    "commitStatus": Row(Level.READ),
    "begin": Row(Level.WRITE, {}),
    "stageLoad": Row(Level.WRITE, {"ts": 3}),
    "stageDelete": Row(Level.WRITE, {"where": "ts == 99"}),
    "stageUpdate": Row(Level.WRITE, {"where": "ts == 99", "program": "put a := 1"}),
    "queryStaged": Row(Level.WRITE, {"query": "count()"}),
    "sqlStaged": Row(Level.WRITE, {"statement": "select 1 as one"}),
    "commit": Row(Level.WRITE),
    "abandon": Row(Level.WRITE),
    "beginOver": Row(Level.WRITE, {"pools": ["logs", "logs@branch"]}),
    "listTransactions": Row(Level.KNOWN),
    # Those of others are not there: what callers may do with their own is tested below.
    "showTransaction": Row(Level.KNOWN),
    "stageLoadOver": Row(Level.KNOWN, {"ts": 3}, {"place": "logs"}),
    "stageDeleteOver": Row(Level.KNOWN, {"where": "ts == 99"}, {"place": "logs"}),
    "stageUpdateOver": Row(Level.KNOWN, {"where": "ts == 99", "program": "put a := 1"}, {"place": "logs"}),
    "queryStagedOver": Row(Level.KNOWN, {"query": "from logs"}),
    "sqlStagedOver": Row(Level.KNOWN, {"statement": "select 1 as one"}),
    "commitOver": Row(Level.KNOWN, {"places": []}),
    "abandonOver": Row(Level.KNOWN),
    "vacuumLake": Row(Level.LAKE, params={"dryrun": "T"}),
    "vacuumPool": Row(Level.ADMIN, params={"dryrun": "T"}),
    "vacuum": Row(Level.ADMIN, params={"dryrun": "T"}),
    "vacate": Row(Level.ADMIN),
    "purge": Row(Level.ADMIN, {"object_ids": [ID]}),
    "addVectors": Row(Level.WRITE, {"object_ids": [ID]}),
    "deleteVectors": Row(Level.WRITE, {"object_ids": [ID]}),
    "query": Row(Level.KNOWN, {"query": "yield 1"}),
    "describe": Row(Level.KNOWN, {"query": "yield 1"}),
    "explain": Row(Level.KNOWN, {"query": "yield 1"}),
    "sql": Row(Level.KNOWN, {"statement": "select 1"}),
    "queryStatus": Row(Level.KNOWN),
    "compile": Row(Level.KNOWN, {"query": "yield 1"}),
}
LEVELS = {"other": Level.KNOWN, "reader": Level.READ, "jane": Level.READ, "writer": Level.WRITE,
          "owner": Level.ADMIN, "root": Level.LAKE}  # fmt: skip
"""What callers have on the pool `logs`. `other` is the owner of `secret`; `jane` comes with a token of a provider."""
NAMES = {"pool": "logs", "branch": "main", "revision": "main", "tag": "v1", "child": "branch", "commit": "main",
         "onto": "main", "id": ID, "request": ID, "name": "nobody"}  # fmt: skip
DESTRUCTIVE = ("renamePool", "dropPool")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"])

    def steady(self, name: str) -> tuple[int, dict[str, str], bytes]:
        """What does not change from request to request, without the name that was asked for."""
        changing = ("date", "x-request-id", "content-length")
        headers = {k.lower(): v for k, v in self.headers.items() if k.lower() not in changing}
        return self.status, headers, self.body.replace(name.encode(), b"NAME")


@dataclass(frozen=True, slots=True)
class World:
    """A service with its lake, and tokens of all kinds of callers."""

    served: Served
    known: dict[str, str]
    unknown: dict[str, str | None]
    http: urllib3.PoolManager

    def call(
        self, token: str | None, method: str, path: str, body: Any = None, /, key: str | None = None, **params: str
    ) -> Answer:
        headers = {"Accept": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = self.served.url + path + ("?" + urlencode(params) if params else "")
        data = None if body is None else json.dumps(body).encode()
        answer = self.http.request(method, url, body=data, headers=headers, retries=False, preload_content=False)
        try:
            is_endless = answer.headers.get("Content-Type", "").startswith("text/event-stream")
            return Answer(answer.status, answer.headers, b"" if is_endless else answer.read())
        finally:
            answer.close()

    def route(self, token: str | None, route: Route, **names: str) -> Answer:
        """A request to a route, with a name in the place of another one."""
        row = ROWS[route.name]
        chosen = {**NAMES, **(row.names or {}), **names}
        path = route.path.format(**{name: quote(text, safe="") for name, text in chosen.items()})
        body = row.body
        if isinstance(body, dict) and "pool" in body:
            body = {**body, "pool": chosen["pool"]}
        return self.call(token, route.method, path, body, **(row.params or {}))

    def as_known(self, who: str, method: str, path: str, body: Any = None, /, **params: str) -> Answer:
        return self.call(self.known[who], method, path, body, **params)

    def ask(self, who: str, program: str, **more: Any) -> Answer:
        return self.as_known(who, "POST", "/query", {"query": program, **more})

    def state(self) -> object:
        """All that a request could have changed."""
        lake = open_local(str(self.served.lake))
        access = LocalAccess(lake)
        refs = {p.name: (p.id, lake.pool(p.id).branches(), lake.pool(p.id).tags()) for p in lake.pools()}
        return refs, access.grants(), access.tokens()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("matrix")
    lake = create_local(str(folder / "lake"))
    for name in ("logs", "secret"):
        pool = lake.create(name, key="ts")
        pool.load([{"ts": 1, "from": name}])
        pool.create_branch("branch")
        pool.create_tag("v1")
    access = LocalAccess(lake)
    for subject, verb in (("reader", "read"), ("jane", "read"), ("writer", "write"), ("owner", "admin")):
        access.grant(subject, "logs", verb)
    access.grant("other", "secret", "admin")
    access.grant("root", "*", "admin")
    known = {name: access.create_token(name).secret for name in LEVELS if name != "jane"}
    known["jane"] = idp.sign(sub="jane", exp=int(time.time()) + 3600)
    unknown = {
        "no token": None,
        "an expired token": access.create_token("expired", "root", expires=0.001).secret,
        "a revoked token": access.create_token("revoked", "root").secret,
        "a token of another lake": LocalAccess(create_local("memory://")).create_token("root").secret,
        "an expired JWT": idp.sign(sub="root", exp=int(time.time()) - 3600),
        "a JWT for another audience": idp.sign(sub="root", aud="https://other.example.com"),
        "a JWT of another issuer": idp.sign(sub="root", iss="https://other.example.com/"),
        "a JWT signed with the public key": idp.forge_shared("HS256", idp.KIDS["RS256"], idp.public_pem("RS256")),
        "a JWT that is not signed": idp.forge({"alg": "none"}, idp.claims(sub="root")),
        "a JWT without a subject": idp.sign(sub=None),
        "garbage": "garbage",
    }
    access.revoke_token("revoked")
    flags = ["-auth.enabled", "-auth.audience", idp.AUDIENCE, "-auth.domain", idp.DOMAIN, "-auth.jwkspath"]
    keys = idp.write_jwks(folder / "jwks.json")
    with serving(folder / "lake", folder, [*flags, str(keys), "-log.level", "debug"]) as served:
        yield World(served, known, unknown, urllib3.PoolManager(maxsize=8))


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert {route.name for route in ROUTES} == set(ROWS)
    assert len({route.name for route in ROUTES}) == len(ROUTES)


def test_the_description_is_open_and_nothing_else_is_beside_the_table(world: World) -> None:
    assert world.call(None, "GET", "/openapi.json").status == 200
    for path in ("/debug/pprof", "/auth", "/pool/logs/nothing", "/docs"):
        assert world.call(None, "GET", path).status == 404


def pool_routes(*levels: Level) -> list[Route]:
    return [route for route in ROUTES if "{pool}" in route.path and (not levels or ROWS[route.name].level in levels)]


def by_name(routes: list[Route]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("route", routes, ids=[route.name for route in routes])


@by_name(list(ROUTES))
def test_nobody_who_is_not_known_gets_in(world: World, route: Route) -> None:
    before = world.state()
    for kind, token in world.unknown.items():
        answer = world.route(token, route)
        if ROWS[route.name].level is Level.OPEN:
            assert answer.status == 200, kind
        else:
            assert (answer.status, answer.headers.get("Shoal-Error")) == (401, "unauthenticated"), kind
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.error.count("\n") == 0
            assert "logs" not in answer.error
    assert world.state() == before


@by_name(list(ROUTES))
def test_everybody_may_do_what_was_granted_and_nothing_else(world: World, route: Route) -> None:
    level = ROWS[route.name].level
    before = world.state()
    for who in [who for who, has in LEVELS.items() if has < level]:
        answer = world.route(world.known[who], route)
        if level <= Level.ADMIN and LEVELS[who] < Level.READ:
            assert (answer.status, answer.error) == (404, "logs: pool not found"), who
        else:
            assert (answer.status, answer.headers["Shoal-Error"]) == (403, "forbidden"), (who, answer)
            assert f"{who} has no " in answer.error
    assert world.state() == before
    for who in [who for who, has in LEVELS.items() if has >= level]:
        names = {"pool": pool_of_its_own(world, f"{route.name}-{who}")} if route.name in DESTRUCTIVE else {}
        answer = world.route(world.known[who], route, **names)
        assert answer.status not in (401, 403), (who, answer)
        assert answer.status < 500, (who, answer)
        if answer.status == 404:
            assert "pool not found" not in answer.error, who
        if names and route.name == "renamePool":
            world.as_known("root", "DELETE", "/pool/renamed")


def pool_of_its_own(world: World, name: str) -> str:
    """A pool that may be lost, whose owner is `owner`."""
    assert world.as_known("root", "POST", "/pool", {"name": name}).status == 200
    grant = {"subject": "owner", "pool": name, "verb": "admin"}
    assert world.as_known("root", "POST", "/auth/grants", grant).status == 200
    return name


@by_name(pool_routes())
def test_a_pool_that_may_not_be_read_is_like_one_that_is_not_there(world: World, route: Route) -> None:
    secret = open_local(str(world.served.lake)).pool("secret").id
    for hidden, absent in (("secret", "nosuch"), (secret, to_text(new()))):
        for who in ("reader", "owner"):
            one = world.route(world.known[who], route, pool=hidden)
            other = world.route(world.known[who], route, pool=absent)
            assert one.status == 404
            assert one.steady(hidden) == other.steady(absent)


@by_name(pool_routes())
def test_the_pool_of_grants_is_read_by_admins_of_the_lake_and_changed_by_nobody(world: World, route: Route) -> None:
    ident = open_local(str(world.served.lake)).pool(".access").id
    before = world.state()
    for name in (".access", ident):
        for who in ("reader", "owner", "other"):
            assert world.route(world.known[who], route, pool=name).error == f"{name}: pool not found"
        answer = world.route(world.known["root"], route, pool=name)
        if ROWS[route.name].level is Level.READ:
            assert answer.status < 500
            assert answer.status not in (401, 403)
        else:
            assert (answer.status, answer.headers["Shoal-Error"]) == (403, "forbidden")
    assert world.state() == before


# ---- queries


def said(answer: Answer) -> Any:
    assert answer.status == 200, answer
    return json.loads(answer.body)


READS = [
    "from secret", "from secret@main", "from secret:branches", "from secret@main:objects", "from secret:log",
    "from logs | join (from secret) on ts=ts hit:=from", "from (pool logs pool secret)", "from 'secret'",
    "fork (=> from logs => from secret)", "from logs | load secret", "from 'sec*'", "from /secret/",
    "from '.access'", "from logs | load '.access'",
]  # fmt: skip


@pytest.mark.parametrize("program", READS)
@pytest.mark.parametrize("path", ["/query", "/query/describe", "/query/explain"])
def test_a_query_over_a_pool_that_may_not_be_read_is_one_over_a_pool_that_is_not_there(
    world: World, program: str, path: str
) -> None:
    absent = program.replace("secret", "nosuch").replace("sec*", "nos*").replace(".access", ".nothin")
    one = world.as_known("owner", "POST", path, {"query": program})
    other = world.as_known("owner", "POST", path, {"query": absent})
    assert one.status in (400, 404)
    shown = other.body.replace(b"nosuch", b"secret").replace(b"nos*", b"sec*").replace(b".nothin", b".access")
    assert (one.status, one.body) == (other.status, shown)


def test_a_query_reads_what_its_caller_may(world: World) -> None:
    assert said(world.ask("owner", "from logs | ts==1 | yield from")) == ["logs"]
    assert said(world.ask("other", "from secret | yield from")) == ["secret"]
    assert said(world.ask("root", "from logs | ts==1 | join (from secret) on ts=ts hit:=from | yield hit")) == [
        "secret"
    ]
    assert "grant" in said(world.ask("root", "from '.access' | yield kind"))


def test_lists_of_pools_hold_what_the_caller_may_read(world: World) -> None:
    for who, names in (("owner", ["logs"]), ("other", ["secret"]), ("jane", ["logs"])):
        assert [each["name"] for each in said(world.as_known(who, "GET", "/pool"))] == names
        assert said(world.ask(who, "from :pools | yield name")) == names
        assert set(said(world.ask(who, "from :branches | yield pool.name"))) == set(names)
        assert set(said(world.ask(who, "from * | ts==1 | yield from"))) == set(names)
    assert {"logs", "secret"} <= {each["name"] for each in said(world.as_known("root", "GET", "/pool"))}
    assert ".access" not in {each["name"] for each in said(world.as_known("root", "GET", "/pool"))}


def test_the_pool_that_a_query_is_told_to_read_is_checked_as_well(world: World) -> None:
    hidden = world.ask("owner", "*", head={"pool": "secret", "branch": "main"})
    absent = world.ask("owner", "*", head={"pool": "nosuch", "branch": "main"})
    assert hidden.status in (400, 404)
    assert hidden.steady("secret") == absent.steady("nosuch")


def test_a_query_loads_only_where_its_caller_may_write(world: World) -> None:
    before = world.state()
    for program in ("from logs | load logs", "from logs | load logs@branch", "from logs | fork (=> load logs => pass)"):
        answer = world.ask("reader", program)
        assert b"reader has no write here" in answer.body, answer
    assert b"changed by shoal grant" in world.ask("root", "from logs | load '.access'").body
    assert world.state() == before
    assert world.ask("writer", "from logs | ts==1 | load logs@branch").status == 200
    assert world.state() != before
    log = world.ask("root", "from logs@branch:log | has(author) | head 1 | yield author")
    assert json.loads(log.body) == ["writer"], "who asked is the author, not who runs the service"


@pytest.mark.parametrize("statement", ["select * from secret", 'select * from "secret@main"', "select * from SECRET",
                                       "select * from logs, secret", 'select (select max(ts) from secret) from logs',
                                       'select * from ".access"'])  # fmt: skip
def test_sql_reads_what_its_caller_may(world: World, statement: str) -> None:
    answer = world.as_known("owner", "POST", "/query/sql", {"statement": statement})
    assert answer.status in (400, 404)
    assert "pool not found" in answer.error
    fine = world.as_known("owner", "POST", "/query/sql", {"statement": "select count(*) as n from logs where ts = 1"})
    assert said(fine) == [{"n": 1}]


WRITES = (
    "insert into {} (ts) values (5)", "update {} set a = 1 where ts = 1", "delete from {} where ts = 1",
    "merge into {} as t using (select 1 as ts) s on t.ts = s.ts when matched then delete",
)  # fmt: skip


@pytest.mark.parametrize("statement", WRITES)
def test_sql_changes_what_its_caller_may(world: World, statement: str) -> None:
    before = world.state()
    for who, pool, status, text in (
        ("reader", "logs", 403, "reader has no write here"),
        ("jane", '"logs@branch"', 403, "jane has no write here"),
        ("writer", "secret", 404, "pool not found"),
        ("root", '".access"', 403, "changed by shoal grant"),
    ):
        answer = world.as_known(who, "POST", "/query/sql", {"statement": statement.format(pool)})
        assert (answer.status, text in answer.error) == (status, True), (who, answer)
    assert world.state() == before
    answer = world.as_known("writer", "POST", "/query/sql", {"statement": statement.format('"logs@branch"')})
    assert set(said(answer)[0]) == {"commit", "inserted", "updated", "deleted"}
    log = world.ask("root", "from logs@branch:log | has(author) | head 1 | yield author")
    assert json.loads(log.body) == ["writer"], "who asked is the author, not who runs the service"


def test_sql_reads_other_pools_as_its_caller_may_and_creates_them_as_an_admin(world: World) -> None:
    hidden = {"statement": 'insert into "logs@branch" by name select ts from secret'}
    assert world.as_known("writer", "POST", "/query/sql", hidden).status in (400, 404)
    before = world.state()
    made = {"statement": "create table made_by_sql as select 1 as a"}
    for who in ("reader", "writer", "owner"):
        answer = world.as_known(who, "POST", "/query/sql", made)
        assert (answer.status, answer.headers["Shoal-Error"]) == (403, "forbidden"), answer
    assert world.state() == before
    assert said(world.as_known("root", "POST", "/query/sql", made))[0]["inserted"] == 1
    assert world.as_known("root", "DELETE", "/pool/made_by_sql").status == 204


@pytest.mark.parametrize("program", ["file FILE", "from (file FILE)", "get http://127.0.0.1:9/x", "file s3://bucket/x",
                                     "from logs | join (file FILE) on ts=ts"])  # fmt: skip
def test_a_query_reads_nothing_outside_of_the_lake(world: World, tmp_path: Path, program: str) -> None:
    path = tmp_path / "data.json"
    path.write_text('{"ts":1,"password":"hunter2"}')
    text = program.replace("FILE", str(path))
    begun = said(world.as_known("root", "POST", "/pool/logs/branch/main/transaction", {}))["id"]
    transaction = f"/pool/logs/branch/main/transaction/{begun}"
    for place in ("/query", "/query/describe", "/query/explain", f"{transaction}/query"):
        answer = world.as_known("root", "POST", place, {"query": text})
        assert (answer.status, answer.headers["Shoal-Error"]) == (403, "forbidden"), (place, answer)
    assert world.as_known("root", "DELETE", transaction).status == 204


# ---- what belongs to one caller


def test_a_transaction_is_of_who_began_it(world: World) -> None:
    begun = said(world.as_known("writer", "POST", "/pool/logs/branch/main/transaction", {}))["id"]
    place = f"/pool/logs/branch/main/transaction/{begun}"
    assert world.as_known("writer", "POST", f"{place}/load", {"ts": 7}).status == 204
    for method, end, body in (
        ("POST", "/load", {"ts": 8}), ("POST", "/delete", {"where": "ts==7"}), ("POST", "/query", {"query": "*"}),
        ("POST", "/commit", None), ("DELETE", "", None),
    ):  # fmt: skip
        for who in ("owner", "root"):
            assert world.as_known(who, method, place + end, body).status == 404
    for program in ("from secret", "from logs | join (from secret) on ts=ts", "from '.access'"):
        assert b"pool not found" in world.as_known("writer", "POST", f"{place}/query", {"query": program}).body
    assert world.as_known("writer", "DELETE", place).status == 204


OVER = (
    ("POST", "/load?place=logs", {"ts": 8}), ("POST", "/delete?place=logs", {"where": "ts==7"}),
    ("POST", "/update?place=logs", {"where": "ts==7", "program": "put a := 1"}),
    ("POST", "/query", {"query": "from logs"}), ("POST", "/sql", {"statement": "select 1 as one"}),
    ("POST", "/commit", None), ("GET", "", None),
    ("DELETE", "", None),
)  # fmt: skip
"""Everything that can be asked of a transaction over several pools."""


def test_a_transaction_over_several_pools_needs_all_of_them(world: World) -> None:
    for who, pools, status, error in (
        ("writer", ["logs", "secret"], 404, "secret: pool not found"),
        ("other", ["secret", "logs"], 404, "logs: pool not found"),
        ("reader", ["logs"], 403, "reader has no write here"),
        ("root", ["logs", ".access"], 403, "changed by shoal grant"),
        ("writer", ["logs", "nosuch"], 404, "nosuch: pool not found"),
    ):
        answer = world.as_known(who, "POST", "/transaction", {"pools": pools})
        assert answer.status == status, (who, answer)
        assert error in answer.error, who
    assert said(world.as_known("reader", "GET", "/transaction")) == []


def test_a_transaction_over_several_pools_is_of_who_began_it(world: World) -> None:
    begun = said(world.as_known("writer", "POST", "/transaction", {"pools": ["logs", "logs@branch"]}))["id"]
    for method, end, body in OVER:
        for who in ("owner", "root", "other"):
            assert world.as_known(who, method, f"/transaction/{begun}{end}", body).status == 404, (who, end)
    for path in (f"/pool/logs/branch/main/transaction/{begun}", f"/pool/logs/branch/branch/transaction/{begun}"):
        assert world.as_known("writer", "POST", f"{path}/commit").status == 404, "it is not one of a branch"
    assert begun not in [each["id"] for each in said(world.as_known("root", "GET", "/transaction"))]
    assert begun in [each["id"] for each in said(world.as_known("writer", "GET", "/transaction"))]
    hidden = world.as_known("writer", "POST", f"/transaction/{begun}/query", {"query": "from secret"})
    assert b"pool not found" in hidden.body
    assert world.as_known("writer", "DELETE", f"/transaction/{begun}").status == 204


@pytest.mark.parametrize("places", [["logs", "logs@branch"], ["secret", "logs@branch"]])
def test_nobody_takes_the_id_of_the_transaction_of_another(world: World, places: list[str]) -> None:
    key = to_text(new())
    assert world.as_known("writer", "POST", "/transaction", {"pools": ["logs", "logs@branch"]}, key=key).status == 200
    path, before = f"/transaction/{key}", said(world.ask("root", "from logs | count()"))
    for place in ("logs", "logs@branch"):
        assert world.as_known("writer", "POST", f"{path}/load", {"ts": 70}, place=place).status == 204
    taken = world.as_known("root", "POST", "/transaction", {"pools": places}, key=key)
    assert (taken.status, b"that of another transaction" in taken.body) == (400, True)
    assert world.as_known("owner", "POST", "/pool/logs/branch/main/transaction", {}, key=key).status == 400
    assert len(said(world.as_known("writer", "POST", f"{path}/commit"))["commits"]) == 2
    assert said(world.ask("root", "from logs | count()")) == [before[0] + 1]


def test_a_commit_under_the_id_of_another_transaction_is_refused(world: World) -> None:
    key, before = to_text(new()), said(world.ask("root", "from logs | count()"))
    for who, pools in (("root", ["secret", "logs@branch"]), ("writer", ["logs", "logs@branch"])):
        begun = world.as_known(who, "POST", "/transaction", {"pools": pools}, key=key)
        for place in pools:
            assert world.as_known(who, "POST", f"/transaction/{key}/load", {"ts": 71}, place=place).status == 204
        body = {"places": said(begun)["places"]}
        answers = [world.as_known(who, "POST", f"/transaction/{key}/commit", body) for _ in range(2)]
        assert [answer.status for answer in answers] == [200 if who == "root" else 400] * 2, answers
    assert said(world.ask("root", "from logs | count()")) == before


def test_each_request_to_a_transaction_over_several_pools_needs_all_of_them(world: World) -> None:
    grant = {"subject": "writer", "pool": "two", "verb": "write"}
    assert world.as_known("root", "POST", "/pool", {"name": "two"}).status == 200
    assert world.as_known("root", "POST", "/auth/grants", grant).status == 200
    begun = said(world.as_known("writer", "POST", "/transaction", {"pools": ["logs", "two"]}))["id"]
    assert world.as_known("root", "DELETE", "/auth/grants", grant).status == 204
    before = world.state()
    for method, end, body in OVER:
        answer = world.as_known("writer", method, f"/transaction/{begun}{end}", body)
        assert answer.status == 404, end
        assert answer.error == "two@main: pool not found", end
    assert begun not in [each["id"] for each in said(world.as_known("writer", "GET", "/transaction"))]
    reads = {**grant, "verb": "read"}
    assert world.as_known("root", "POST", "/auth/grants", reads).status == 200
    for method, end, body in OVER:
        assert world.as_known("writer", method, f"/transaction/{begun}{end}", body).status == 403, end
    assert world.state()[0] == before[0]  # type: ignore[index]
    assert world.as_known("root", "POST", "/auth/grants", grant).status == 200
    assert world.as_known("writer", "DELETE", f"/transaction/{begun}").status == 204
    assert world.as_known("root", "DELETE", "/pool/two").status == 204


def test_decided_transactions_are_shown_as_far_as_their_pools_may_be_seen(world: World) -> None:
    grant = {"subject": "owner", "pool": "secret", "verb": "write"}
    assert world.as_known("root", "POST", "/auth/grants", grant).status == 200
    begun = said(world.as_known("owner", "POST", "/transaction", {"pools": ["logs@branch", "secret"]}))["id"]
    path = f"/transaction/{begun}"
    for place in ("logs@branch", "secret"):
        assert world.as_known("owner", "POST", f"{path}/load?place={place}", {"ts": 50}).status == 204
    done = said(world.as_known("owner", "POST", f"{path}/commit"))
    assert [each["place"] for each in done["commits"]] == ["logs@branch", "secret@main"]
    assert world.as_known("root", "DELETE", "/auth/grants", grant).status == 204
    for who, seen in (("owner", ["logs"]), ("reader", ["logs"]), ("other", ["secret"]), ("root", ["logs", "secret"])):
        listed = said(world.ask(who, f"from :transactions | id == {begun}"))
        assert sorted(part["name"] for each in listed for part in each["parts"]) == seen, who
        shown = said(world.as_known(who, "GET", path))
        assert (shown["state"], [each["place"].split("@")[0] for each in shown["commits"]]) == ("committed", seen), who
    stranger = said(world.as_known("root", "POST", "/auth/tokens", {"name": "stranger"}))["token"]
    assert world.call(stranger, "GET", path).status == 404
    assert said(world.call(stranger, "POST", "/query", {"query": "from :transactions | state=='committed'"})) == []
    assert world.as_known("owner", "POST", f"{path}/commit").status == 404, "it may write to all pools no more"


def test_how_a_query_ended_is_told_to_who_asked(world: World) -> None:
    answer = world.ask("owner", "from logs")
    ident = answer.headers["X-Request-ID"]
    assert said(world.as_known("owner", "GET", f"/query/status/{ident}")) == {"error": ""}
    assert world.as_known("root", "GET", f"/query/status/{ident}").status == 404


def listener(world: World, who: str) -> Any:
    headers = {"Authorization": f"Bearer {world.known[who]}"}
    url = f"{world.served.url}/events"
    answer = world.http.request("GET", url, headers=headers, preload_content=False, timeout=10.0, retries=False)
    assert answer.status == 200
    return answer


def test_events_are_told_to_who_may_read_their_pools(world: World) -> None:
    lake = open_local(str(world.served.lake))
    hidden, shown = lake.pool("secret").id, lake.pool("logs").id
    heard = listener(world, "reader")
    try:
        for name in ("secret", "logs"):
            assert world.as_known("root", "POST", f"/pool/{name}/branch/main", {"ts": 50}).status == 200
        text = b""
        while shown.encode() not in text:
            text += heard.read1(4096)
        assert hidden.encode() not in text
    finally:
        heard.close()


# ---- changes of rights


def test_a_right_ends_with_its_grant_and_a_token_with_its_revocation(world: World) -> None:
    made = said(world.as_known("root", "POST", "/auth/tokens", {"name": "guest", "expires": 600}))
    grant = {"subject": "guest", "pool": "logs", "verb": "read"}
    assert world.call(made["token"], "GET", "/pool/logs").status == 404
    assert said(world.as_known("owner", "POST", "/auth/grants", grant))["by"] == "owner"
    assert world.call(made["token"], "GET", "/pool/logs").status == 200
    assert world.as_known("owner", "DELETE", "/auth/grants", grant).status == 204
    assert world.call(made["token"], "GET", "/pool/logs").status == 404
    assert world.as_known("root", "DELETE", "/auth/tokens/guest").status == 204
    assert world.call(made["token"], "GET", "/pool").status == 401


def test_a_new_pool_of_the_same_name_gives_no_right(world: World) -> None:
    name = pool_of_its_own(world, "again")
    assert world.as_known("owner", "DELETE", f"/pool/{name}").status == 204
    assert world.as_known("root", "POST", "/pool", {"name": name}).status == 200
    assert world.as_known("owner", "GET", f"/pool/{name}").error == f"{name}: pool not found"


def test_nobody_gives_themselves_more(world: World) -> None:
    before = world.state()
    attempts: list[Callable[[], Answer]] = [
        lambda: world.as_known(
            "writer", "POST", "/auth/grants", {"subject": "writer", "pool": "logs", "verb": "admin"}
        ),
        lambda: world.as_known("owner", "POST", "/auth/grants", {"subject": "owner", "pool": "*", "verb": "admin"}),
        lambda: world.as_known("owner", "POST", "/auth/grants", {"subject": "owner", "pool": "secret", "verb": "read"}),
        lambda: world.as_known("owner", "POST", "/auth/tokens", {"name": "mine", "subject": "root"}),
        lambda: world.as_known("owner", "PUT", "/pool/logs", {"name": ".access"}),
        lambda: world.as_known("root", "PUT", "/pool/.access", {"name": "mine"}),
        lambda: world.as_known("root", "POST", "/pool", {"name": ".access"}),
        lambda: world.as_known("root", "POST", "/auth/grants", {"subject": "x", "pool": ".access", "verb": "write"}),
    ]
    for attempt in attempts:
        assert attempt().status in (400, 403, 404)
    assert world.state() == before


def test_a_token_is_taken_from_the_header_alone(world: World) -> None:
    token = world.known["root"]
    for name in ("token", "access_token", "authorization"):
        assert world.call(None, "GET", "/pool", **{name: token}).status == 401
    answer = world.http.request("GET", f"{world.served.url}/pool", headers={"Cookie": f"token={token}"}, retries=False)
    assert answer.status == 401


def test_who_asks_is_told_who_they_are(world: World) -> None:
    told = said(world.as_known("jane", "GET", "/auth/identity"))
    assert (told["subject"], told["method"], told["grants"]) == ("jane", "jwt", [{"pool": "logs", "verb": "read"}])
    assert said(world.call(None, "GET", "/auth/method"))["kind"] in ("auth0", "jwt")


def test_no_secret_is_in_the_log_of_the_service(world: World) -> None:
    world.call(world.known["root"], "GET", "/pool", token=world.known["root"])
    log = world.served.lines()
    assert "listening" in log
    for token in (*world.known.values(), *filter(None, world.unknown.values())):
        if token != "garbage":
            assert token not in log
            assert token[-20:] not in log
