"""Sources that a program names: what it asks of the catalog, and what it scans."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shoal.errors import NotFound
from shoal.lang import plan
from shoal.lang.catalog import Catalog, PoolInfo
from shoal.lang.source import ProgramError
from shoal.testing.queries import compile_program

BY_TS = (plan.SortKey(plan.This(("ts",)), "desc"),)
POOLS = (PoolInfo("logs", "id-logs", BY_TS), PoolInfo("logs2", "id-logs2"), PoolInfo("users", "id-users"))


class Pools:
    """A catalog of three pools; a commit is known by its pool and its commitish."""

    head: tuple[str, str] | None = ("logs", "live")

    def pools(self) -> Sequence[PoolInfo]:
        return POOLS

    def pool(self, name: str) -> PoolInfo:
        for pool in POOLS:
            if name in (pool.name, pool.id):
                return pool
        raise NotFound(f"{name}: pool not found")

    def commit(self, pool: PoolInfo, commitish: str) -> str:
        if commitish == "nowhere":
            raise NotFound(f"{commitish}: branch not found")
        return f"{pool.name}/{commitish or 'main'}"

    def lake_metas(self) -> frozenset[str]:
        return frozenset({"pools", "branches"})

    def pool_metas(self) -> frozenset[str]:
        return frozenset({"branches"})

    def commit_metas(self) -> frozenset[str]:
        return frozenset({"objects", "log"})


def body(program: str, catalog: Catalog | None = None) -> plan.Seq:
    return compile_program(program, catalog or Pools()).body


SCANS = [
    ("from logs", plan.PoolScan("id-logs", "logs/main", BY_TS)),
    ("from logs@live", plan.PoolScan("id-logs", "logs/live", BY_TS)),
    ("from 'users'", plan.PoolScan("id-users", "users/main")),
    ("from users@2024-01-01T00:00:00Z", plan.PoolScan("id-users", "users/2024-01-01T00:00:00Z")),
    ("from HEAD", plan.PoolScan("id-logs", "logs/live", BY_TS)),
    ("const p='users' from p", plan.PoolScan("id-users", "users/main")),
    ("op scan(p): (from p) scan('users')", plan.PoolScan("id-users", "users/main")),
    ("from :pools", plan.MetaScan("pools")),
    ("from logs:branches", plan.MetaScan("branches", "id-logs")),
    ("from logs@live:objects", plan.MetaScan("objects", "id-logs", "logs/live")),
    ("from logs:objects tap", plan.MetaScan("objects", "id-logs", "logs/main", tap=True)),
    ("file a.zson format zng", plan.FileScan("a.zson", "zng")),
    ("get http://h/x", plan.HttpScan("http://h/x")),
    ("get s3://b/x", plan.FileScan("s3://b/x")),
    (
        "get 'http://h/x' method POST headers {a:['b','c']} body 'q'",
        plan.HttpScan("http://h/x", method="POST", headers=(("a", "b"), ("a", "c")), body="q"),
    ),
]


@pytest.mark.parametrize("program, scan", SCANS)
def test_a_source_becomes_a_scan(program: str, scan: plan.Op) -> None:
    assert body(program) == (scan,)


@pytest.mark.parametrize("program", ["from logs*", "from /^logs/", "from (pool logs pool logs2)"])
def test_several_pools_become_legs(program: str) -> None:
    (fork,) = body(program)
    assert isinstance(fork, plan.Fork)
    assert [leg[0].pool for leg in fork.legs] == ["id-logs", "id-logs2"]  # type: ignore[union-attr]


def test_a_filter_goes_into_the_scan_and_a_load_names_its_pool() -> None:
    scan, load = body("from logs | x==1 | load users@b author 'me' message 'hi' meta '{a:1}'")
    assert isinstance(scan, plan.PoolScan)
    assert scan.filter is not None
    assert load == plan.Load("id-users", "b", "me", "hi", "{a:1}")


def test_a_filter_goes_into_a_listing_of_objects_only_on_demand() -> None:
    assert len(body("from logs:objects | x==1")) == 2
    assert len(body("from logs:objects tap | x==1")) == 1


ERRORS = [
    ("from nope", "nope: pool not found at line 1, column 6:"),
    ("from (pool nope => head 1 pool logs)", "nope: pool not found at line 1, column 12:"),
    ('from logs | join (from "nope") on a=b', "nope: pool not found at line 1, column 24:"),
    ("from logs@nowhere", "nowhere: branch not found at line 1, column 1:"),
    ("from z*", "z*: pool matching glob not found at line 1, column 6:"),
    ("from /z/", "z: pool matching regexp not found at line 1, column 6:"),
    ("from :nope", 'unknown lake metadata type "nope" in from operator at line 1, column 1:'),
    ("from logs:nope", 'unknown metadata type "nope" at line 1, column 1:'),
    ("from (pool logs* => count())", "=> not allowed after pool pattern in 'from' operator at line 1, column 7:"),
    ("load nope", "nope: pool not found at line 1, column 1:"),
    ("const p=1 from p", "p: string value required at line 1, column 16:"),
    ("get 'http://h' headers {a:1}", "headers field value must be an array or set of strings"),
]


@pytest.mark.parametrize("program, text", ERRORS)
def test_what_is_not_there_is_named_with_its_place(program: str, text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        body(program)
    assert text in str(caught.value)


def test_head_may_be_unknown_and_a_lake_may_be_absent() -> None:
    headless = Pools()
    headless.head = None
    with pytest.raises(ProgramError, match="cannot scan from unknown HEAD"):
        body("from HEAD", headless)
    for program in ("from logs", "from HEAD", "from l*", "from :pools"):
        with pytest.raises(ProgramError, match='"from pool" cannot be used without a lake'):
            compile_program(program)
    with pytest.raises(ProgramError, match="load operator cannot be used without a lake"):
        compile_program("load logs")
