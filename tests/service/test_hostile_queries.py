"""Queries that nobody means well with, and callers who try what was granted to them no more.

Programs and statements stand here as data: each ends in time, within memory, and tells nothing that is none of its
caller's business.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from shoal.ids import new, to_text
from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake, create_local, open_local
from shoal.testing.services import Served, serving

SECONDS = 3
SLACK = 15.0
"""Seconds that an answer may take longer on a busy machine."""
MEMORY_MIB = 700
SECRET = "hunter2"


@dataclass(frozen=True, slots=True)
class Scene:
    """A service with limits, its lake, and two callers."""

    served: Served
    tokens: dict[str, str]
    http: urllib3.PoolManager
    file: Path

    def call(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self.tokens[who]}", **headers}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.request(method, self.served.url + path, body=data, headers=headers, retries=False, timeout=30)

    @property
    def lake(self) -> LocalLake:
        return open_local(str(self.served.lake))

    def grant(self, subject: str, pool: str, verb: str) -> None:
        """Grant a right through the service, which knows its own changes at once."""
        body = {"subject": subject, "pool": pool, "verb": verb}
        assert self.call("root", "POST", "/auth/grants", body).status == 200

    def revoke(self, subject: str, pool: str, verb: str) -> None:
        body = {"subject": subject, "pool": pool, "verb": verb}
        assert self.call("root", "DELETE", "/auth/grants", body).status == 204

    def is_well(self) -> bool:
        began = time.monotonic()
        status = self.http.request("GET", self.served.url + "/status", retries=False, timeout=SLACK).status
        seconds = time.monotonic() - began
        most = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.served.process.pid}/status").read_text())
        assert most is not None
        return status == 200 and seconds < SLACK and int(most[1]) >> 10 < MEMORY_MIB


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("queries")
    file = folder / "secret.csv"
    file.write_text(f"a,b\n{SECRET},1\n")
    lake = create_local(str(folder / "lake"))
    for name in ("logs", "other", "secret"):
        lake.create(name, key="ts").load([{"ts": 1, "a": SECRET if name == "secret" else name}])
    access = LocalAccess(lake)
    for pool in ("logs", "other"):
        access.grant("eve", pool, "admin")
    access.grant("root", "*", "admin")
    tokens = {name: access.create_token(name).secret for name in ("eve", "root", "bob")}
    flags = ["-auth.enabled", "-limit.time", f"{SECONDS}s", "-limit.memory", "128MiB", "-log.level", "error"]
    with serving(folder / "lake", folder, flags) as served:
        yield Scene(served, tokens, urllib3.PoolManager(), file)


@pytest.fixture(autouse=True)
def stays_well(scene: Scene) -> Iterator[None]:
    """After each test the service answers at once, within its memory."""
    yield
    assert scene.served.process.poll() is None
    assert scene.is_well()


# ---- what takes time and memory

DEEP = 5000
LONG = "x" * 10000
THOUSAND = ",".join(map(str, range(1000)))
PROGRAMS = [
    "yield " + "(" * DEEP + "1" + ")" * DEEP,
    "yield " + "!" * DEEP + "true",
    "yield " + "-" * DEEP + "1",
    "yield " + "1+" * DEEP + "1",
    "yield " + "true ? 1 : " * DEEP + "1",
    "yield 1" + " | pass" * DEEP,
    "yield a" + "[0]" * DEEP,
    "fork (=> " * DEEP,
    "yield " + "9" * 100_000,
    "func f(x): (f(x)+1) yield f(1)",
    "op f(): (f()) yield 1 | f()",
    "func f(n): (n<2 ? n : f(n-1)+f(n-2)) yield f(40)",
    "yield [1,2,3,4,5,6,7,8,9] | " + "over this | yield [this,this,this,this,this,this,this,this] | " * 8 + "count()",
    "yield {a:1} | " + "yield {a:this,b:this,c:this} | " * 20 + "count()",
    'yield "a" | ' + "yield hex(bytes(this)) | " * 70 + "yield len(this)",
    'yield "a" | ' + "yield base64(bytes(this)) | " * 80 + "yield len(this)",
    "yield 1 | " + "yield string([this]) | " * 60 + "yield len(this)",
    'yield "a" | yield ' + "hex(bytes(" * 40 + "this" + "))" * 40,
    "func f(s,n): (n==0 ? len(s) : f(s+s,n-1)) yield f('abc',100)",
    "func f(s,n): (n==0 ? s : hex(bytes(s)) + f(s,n-1)) yield len(f('" + "abc" * 10000 + "',5000))",
    "yield {a:'" + "x" * 10000 + "'} | " + "put b:=this | put c:=this | " * 20 + "yield len(string(this))",
    f"yield 1 | over [{THOUSAND}] with s='{LONG}' => (over [{THOUSAND}] with s => (yield s+string(this))) | sort this",
    f"yield {{s:'{'x' * 100000}'}} | over [{THOUSAND}] with s => (sort s+string(this)) | max(this) by key:=this",
    "yield 1 | " + "fork (=> pass => pass) | " * 30 + "count()",
    "yield 1 | " + "fork (=> pass => pass) | " * 30 + "tail 1",
    "yield 1 | " + "fork (=> yield this => yield this) | " * 30 + "sort this | tail 1",
    "yield levenshtein('" + "".join(map(chr, range(0x4E00, 0x9E00))) * 9 + "', 'b')",
    "yield split('"
    + "\u0436" * 200000
    + "', '')"
    + " | over this | collect(this)" * 3
    + " | yield [this,this,this,this]" * 9,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda text: text[:30])
def test_a_program_that_does_not_end_is_ended(scene: Scene, program: str) -> None:
    began = time.monotonic()
    answer = scene.call("eve", "POST", "/query", {"query": program})
    assert answer.status == 400
    assert time.monotonic() - began < SECONDS + SLACK


STATEMENTS = [
    "select " + "(" * DEEP + "1" + ")" * DEEP,
    "select " + "1+" * 2000 + "1",
    "select '" + "x" * 200_000 + "'",
    "select count(*) from range(1000000) a, range(1000000) b where a.range + b.range = -1",
    "select len(list(range)) from range(1000000000)",
    "select length(repeat('x', 2000000000))",
    "select sum(length(repeat(s, 100000))) from (select range::varchar as s from range(5000))",
    "select list_sum(range(200000000))",
    "select max(length(hex(hex(hex(repeat('x' || range, 10000)))))) from range(5000)",
    "with recursive r(s, n) as (select 'x', 0 union all select s || s, n + 1 from r where n < 60) select max(s) from r",
    "select length(lpad('x', 2000000000, 'y'))",
    "select format('{:2000000000}', 1), printf('%2000000000d', 1)",
    "select list_transform(range(100000), lambda x: range(100000))",
    "select repeat('x', 50000000) as s",
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda text: text[:60])
def test_a_statement_that_does_not_end_is_ended(scene: Scene, statement: str) -> None:
    began = time.monotonic()
    answer = scene.call("eve", "POST", "/query/sql", {"statement": statement})
    assert answer.status in (400, 503)
    assert time.monotonic() - began < SECONDS + SLACK


# ---- what is outside of the lake, or of what was granted

OUTSIDE = [
    "select * from read_csv('FILE')", "select * from 'FILE'", 'select * from "FILE"', "from 'FILE'", "describe 'FILE'",
    "select content from read_text('FILE')", "select * from read_blob('FILE')", "select * from glob('FILE')",
    "select (select content from read_text('FILE'))", "with x as (from read_text('FILE')) select * from x",
    "select * from logs where a in (select content from read_text('FILE'))", "summarize 'FILE'",
    "select * from query('from read_text(''FILE'')')", "select * from query_table('FILE')",
    "select * from sniff_csv('FILE')", "select * from logs, lateral (select * from read_text('FILE'))",
    "select * from logs union all by name select * from 'FILE'", "values ((select content from read_text('FILE')))",
    "copy logs to 'FILE.out'", "attach 'FILE.db' as x", "install httpfs", "load httpfs", "pragma database_list",
    "select * from duckdb_settings()", "select getenv('HOME')", "select current_setting('temp_directory')",
    "select * from duckdb_secrets()", "select write_log('x')", "set threads=1", "select 1; select 2",
    "select * from secret", 'select * from "secret@main"', "select * from logs where a in (select a from secret)",
    "select * from logs join secret using (ts)", "with x as (from secret) select * from x", 'select * from ".access"',
    "select * from logs union select * from SECRET", "select exists(from secret)", "describe secret",
    "select * from logs, lateral (select * from secret)", "values ((select a from secret))",
]  # fmt: skip


@pytest.mark.parametrize("statement", OUTSIDE)
def test_a_statement_reads_the_pools_of_its_caller_and_nothing_else(scene: Scene, statement: str) -> None:
    files = sorted(scene.file.parent.iterdir())
    answer = scene.call("eve", "POST", "/query/sql", {"statement": statement.replace("FILE", str(scene.file))})
    assert answer.status in (400, 404)
    assert SECRET.encode() not in answer.data
    assert sorted(scene.file.parent.iterdir()) == files


HIDDEN = [
    "from secret", "from SECRET_ID", "from secret@main", "from SECRET_ID@main", "from secret@main:log",
    "from secret@main:rawlog", "from secret@main:objects", "from secret:branchlog", "from secret:tags",
    "from secret@main:shapes", "from logs | over this => (from secret)", "from logs | join (from secret) on ts=ts",
    "from logs | fork (=> from secret => pass)", "from logs | switch (case true => from secret)",
    "from (pool logs => pass pool secret => pass)", "op f(): (from secret) f()", "from '.access'", "from .access",
    "from logs | load secret", "from logs | load SECRET_ID", "from logs | load secret@main", "file FILE", "get FILE",
    "from 'file://FILE'", "from 'FILE'", "from secret | head 1 | yield a",
]  # fmt: skip


@pytest.mark.parametrize("program", HIDDEN)
def test_a_program_reads_the_pools_of_its_caller_and_nothing_else(scene: Scene, program: str) -> None:
    before = [scene.lake.pool(name).resolve("main") for name in ("logs", "secret")]
    text = program.replace("SECRET_ID", scene.lake.pool("secret").id).replace("FILE", str(scene.file))
    for path in ("/query", "/query/explain", "/query/describe"):
        answer = scene.call("eve", "POST", path, {"query": text})
        assert answer.status in (400, 403, 404), answer.data
        assert SECRET.encode() not in answer.data
    assert [scene.lake.pool(name).resolve("main") for name in ("logs", "secret")] == before


# ---- what was granted once


def test_a_transaction_is_not_reached_through_another_pool(scene: Scene) -> None:
    logs, other = "/pool/logs/branch/main", "/pool/other/branch/main"
    begun = json.loads(scene.call("eve", "POST", logs + "/transaction", {}).data)["id"]
    for method, end, body in (
        ("POST", "/load", {"ts": 5}), ("POST", "/delete", {"where": "ts==1"}), ("POST", "/query", {"query": "*"}),
        ("POST", "/commit", None), ("DELETE", "", None),
    ):  # fmt: skip
        assert scene.call("eve", method, f"{other}/transaction/{begun}{end}", body).status == 404
    assert scene.call("eve", "POST", f"{logs}/transaction/{begun}/load", {"ts": 5}).status == 204
    assert scene.call("eve", "DELETE", f"{logs}/transaction/{begun}").status == 204


def test_a_transaction_sees_no_pool_that_was_taken_from_its_caller(scene: Scene) -> None:
    scene.grant("eve", "secret", "read")
    place = "/pool/logs/branch/main/transaction"
    begun = json.loads(scene.call("eve", "POST", place, {}).data)["id"]
    ask = {"query": "from secret | yield a"}
    assert json.loads(scene.call("eve", "POST", f"{place}/{begun}/query", ask).data) == [SECRET]
    scene.revoke("eve", "secret", "read")
    answer = scene.call("eve", "POST", f"{place}/{begun}/query", ask)
    assert answer.status in (400, 404)
    assert b"pool not found" in answer.data


def test_a_request_that_failed_is_not_done_when_it_comes_again_without_the_right(scene: Scene) -> None:
    key, body = {"Idempotency-Key": to_text(new())}, {"name": "taken"}
    for name in ("lent", "taken"):
        scene.lake.create(name)
    scene.grant("bob", "lent", "admin")
    assert scene.call("bob", "PUT", "/pool/lent", body, **key).status == 409
    scene.revoke("bob", "lent", "admin")
    scene.lake.drop("taken")
    assert scene.call("bob", "PUT", "/pool/lent", body, **key).status == 404
    assert {"lent"} == {pool.name for pool in scene.lake.pools()} & {"lent", "taken"}


def test_the_id_of_a_request_is_no_way_to_what_others_asked(scene: Scene) -> None:
    ident = {"X-Request-ID": "the-same"}
    assert scene.call("root", "POST", "/query", {"query": "from secret"}, **ident).status == 200
    assert scene.call("eve", "GET", "/query/status/the-same").status == 404
    assert scene.call("eve", "POST", "/query", {"query": "from logs"}, **ident).status == 200
    assert scene.call("root", "GET", "/query/status/the-same").status == 200
