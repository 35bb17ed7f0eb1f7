"""Operators and aggregates in SQL: what the interpreter gives, and nothing left for it to do."""

from __future__ import annotations

import pytest

import shoal
from shoal.ids import to_text
from shoal.lake import column_form
from shoal.local.lake import LocalLake
from shoal.model.text import format_value
from shoal.testing.agreement import difference
from shoal.testing.queries import parse_values

FIRST = """
{k:1,s:"x",n:1.5,tags:["a","b"]}
{k:2,s:"x",n:-0.,tags:["b"]}
{k:3,s:"y",n:0.,tags:[]([string])}
{k:4,n:null(float64),r:{x:1,y:"u"}}
{k:5,n:2.,r:{x:2,y:"v"}}
{k:5,n:2.,r:{x:2,y:"v"}}
{k:7,s:null(string),n:NaN,tags:null([string])}
"""
SECOND = """
{k:2,s:80(port=uint16),n:3.}
{k:3,s:80(port=uint16),n:4.}
{k:6,s:"x",n:5.,tags:|[1,2]|}
{k:8,n:6.5}
{k:9,r:{x:"text"}}
{k:9,r:null({x:string})}
"""
KEYS = """
{x:1,v:1}
{x:2.,v:2}
{x:2(uint8),v:3}
{x:9223372036854775807,v:4}
{x:9223372036854775808.,v:5}
{x:9223372036854775808(uint64),v:6}
{x:18446744073709551615(uint64),v:7}
{x:18446744073709551616.,v:8}
{x:-0.,v:9}
{x:0,v:10}
{x:NaN,v:11}
{x:NaN,v:12}
{x:1e300,v:13}
{x:-Inf,v:14}
{x:null(int64),v:15}
{x:null(string),v:16}
{x:null,v:17}
{v:18}
{x:"x",v:19}
{x:"y"(=name),v:20}
{x:0x61,v:21}
{x:10.0.0.1,v:22}
{x:::1,v:23}
{x:true,v:24}
{x:error("bad"),v:25}
{x:error("bad"),v:26}
{x:1s,v:27}
{x:1000000000,v:28}
{x:9007199254740993,v:29}
{x:9007199254740992.,v:30}
{x:"x",v:31}(=named)
null({x:int64,v:int64})
null(named={x:int64})
"no record"
[1]
"""
"""Keys that are equal, or nearly so, though their types are not."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(made, LocalLake)
    for name, key in (("up", "k"), ("down", "k:desc")):
        pool = made.create(name, key=key)
        pool.load(parse_values(FIRST))
        pool.load(parse_values(SECOND))
    made.create("one", key="k").load(parse_values(FIRST))
    made.create("keys", key="id").load(parse_values(KEYS))
    return made


def check(lake: LocalLake, program: str, is_ordered: bool) -> None:
    right = list(lake.query(program, engine="interp"))
    assert right, program
    assert difference(right, list(lake.query(program, engine="duckdb")), is_ordered) is None, program
    (plan,) = lake.explain(program, engine="duckdb")
    assert plan.engine == "duckdb"
    # An aggregate without keys is a record first, out of which its value is taken.
    assert plan.interpreted in ((), ("yield",)), program


POOLS = ("up", "down", "one")


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    "program",
    [
        "dcount(s)",
        "dcount(n), union(n) by k",
        "union(k) by typeof(s)",
        "union(s) where k > 2",
        "union(r)",
        "any(s)",
        "any(n) by s:=typeof(s)",
        "any(r), last:=any(tags) where k > 3",
        "collect(k), count() by typeof(n)",
        "collect(r), sum(k)",
        "fuse(this)",
        "fuse(r) by k",
        "count(), fuse(this), dcount(typeof(this))",
        "fuse(this) where has(r)",
        "sort -r k | collect(k), count()",
        "sort -r k | any(n)",
        "union(tags)",
    ],
)
def test_aggregates_that_keep_values(lake: LocalLake, pool: str, program: str) -> None:
    check(lake, f"from {pool} | {program}", is_ordered=False)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    ("program", "is_ordered"),
    [
        ("count() by k | sort count, k", True),
        ("count() by k | sort -r count, k | head 3", True),
        ("count(), sum(k) by n:=typeof(n) | put more:=sum + 1 | where more > 1", False),
        ("count() by a.b:=k | yield a | sort b", True),
        ("sum(k) by t:=typeof(n), k | max(sum) by t", False),
        ("count() by k | sum(k) by count | sort count", True),
        ("avg(k), min(k), q:=sum(k) where k > 3 by k | cut k, avg, min, q | sort k", True),
        ("sum(n), any:=count(r), avg(n) by k | sort k", True),
        ("min(n) where k > 2, count(s), last:=max(r.x) by k:=k / 2 | sort k", True),
        ("sort n | sort -r k", True),
        ("sort k | where k > 2 | put z:=k + 1", True),
    ],
)
def test_rows_go_on_after_groups_and_sorts(lake: LocalLake, pool: str, program: str, is_ordered: bool) -> None:
    check(lake, f"from {pool} | {program}", is_ordered)


@pytest.mark.parametrize(
    "program",
    [
        "count() by x:=(has(s) ? s : k)",
        "yield has(s) ? {q:s} : {r:k} | where r > 0",
        "yield has(s) ? {q:s} : {r:k} | sort r",
        "put z:=k / 'x' | /incompatible/",
    ],
)
def test_a_row_has_columns_that_a_program_took_out_of_it(lake: LocalLake, program: str) -> None:
    check(lake, f"from one | where k != 7 and k != 3 | {program}", is_ordered="sort" in program)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    "program",
    [
        "tail 1",
        "tail 3 | put z:=k",
        "where k < 6 | tail 2",
        "sort -r k | tail 4",
        "sort n | tail 100",
        "yield k, n, r",
        "yield k, k / 0, quiet(s) | head 7",
        "over tags",
        "over tags, k | tail 5",
        "over r",
        "over {k,n}",
        "over tags => (where this != 'a')",
        "over this | uniq",
        "cut k | uniq",
        "cut k | uniq -c",
        "sort n | cut n | uniq -c",
        "cut r | uniq -c",
        "yield n | uniq",
        "fuse",
        "where k > 3 | cut s, r | fuse",
        "sort -r k | yield s | fuse",
        "over this | fuse",
        "yield tags, r | uniq -c",
    ],
)
def test_rows_that_are_taken_apart_or_compared_keep_their_order(lake: LocalLake, pool: str, program: str) -> None:
    right = list(lake.query(f"from {pool} | {program}", engine="interp"))
    assert right
    assert difference(right, list(lake.query(f"from {pool} | {program}", engine="duckdb")), ordered=True) is None
    (plan,) = lake.explain(f"from {pool} | {program}", engine="duckdb")
    assert plan.interpreted in ((), ("put",))


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    "program",
    [
        "fork (=> where k > 3 => cut s)",
        "fork (=> cut k => over tags) | count() by typeof(this)",
        "switch (case k > 6 => yield 'high' case n > 1 => yield 'n' default => yield 'other') | count() by v:=this",
        "switch (default => pass case s => drop k case has(s) => yield s)",
        "switch s (case 'x' => cut k case null => cut n case 80 => pass default => yield 'no')",
        "switch s (case 'x' => cut k)",
        "fork (=> switch (case k == 2 => pass) => over r | yield key)",
    ],
)
def test_legs(lake: LocalLake, pool: str, program: str) -> None:
    check(lake, f"from {pool} | {program}", is_ordered=False)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    "program",
    [
        "fork (=> count() by typeof(n) => where k > 2 | sum(k) by r:=typeof(r))",
        "where k < 9 | fork (=> head 2 => tail 2) | sort k",
        "switch (case has(s) => dcount(s) case has(r) => yield r | any(this) default => count())",
        "switch k (case 2 => count() by k case 3 => any(n) default => union(k))",
        "fork (=> sort k | head 3 => sort -r k | head 3) | merge k",
        "fork (=> sum(n) by k => dcount(n) by k) | join on k=k dcount:=dcount",
    ],
)
def test_legs_in_which_rows_come_together_scan_for_themselves(lake: LocalLake, pool: str, program: str) -> None:
    program = f"from {pool} | {program}"
    right = list(lake.query(program, engine="interp"))
    assert right
    assert difference(right, list(lake.query(program, engine="duckdb"))) is None
    assert [plan.engine for plan in lake.explain(program, engine="duckdb")] == ["duckdb"] * (2 + ("default" in program))


@pytest.mark.parametrize(
    ("program", "is_ordered"),
    [
        *((f"from keys | {style} join (from keys) on x q:=v", True) for style in ("inner", "left", "right", "anti")),
        ("from up | join (from down) on k s, n", True),
        ("from up | right join (from keys) on s=x k:=v, k_2:=x", True),
        ("from keys | left join (from up) on x=n", True),
        ("from keys | sort -r x | left join (from keys | where v > 2) on x q:=v", True),
        ("from keys | right join (from keys | sort -r v | head 9) on x q:=v", True),
        ("from ( pool up pool keys ) | left join on k=x v, w:=quiet(w)", True),
        ("from up | fork (=> where k > 2 => cut k, x:=r.x) | join on k x", True),
        ("from up | switch (case k > 3 => pass default => cut k, n) | anti join on (k - 3)=k m:=n", True),
        ("from up | join (from keys) on k=x v | left join (from one) on k t:=tags | where k > 1 | put z:=v", True),
        ("from up | right join (from down | left join (from keys) on k=x v) on k v | tail 3", True),
        ("from up | left join (from keys | where v == 77) on k=x v", True),
        ("from up | join (from keys | where nothing == 77) on k=x v", True),
        ("from up | left join (from keys | where nothing == 77) on k=x v", True),
        ("from keys | left join (from up) on v=k w:=quiet(w)", True),
        ("from keys | left join (from up | count() by k) on x=k count", True),
        ("from up | count() by k | join (from keys) on k=x v | sum(v), count() by k", False),
    ],
)
def test_joins(lake: LocalLake, program: str, is_ordered: bool) -> None:
    right = list(lake.query(program, engine="interp"))
    assert difference(right, list(lake.query(program, engine="duckdb")), is_ordered) is None
    first, *others = lake.explain(program, engine="duckdb")
    assert (first.engine, first.interpreted) == ("duckdb", ())
    assert [(o.engine, o.why, o.queries, o.interpreted) for o in others] == [
        ("duckdb", f"joined by the queries of {first.pool}", (), ())
    ] * len(others)


@pytest.mark.parametrize(
    "program",
    [
        "from up | join (from keys) on k=x n:=count()",
        "from up | join (from keys) on r=x v",
        "from up | join (from keys | shape) on k=x v",
        "from up | grok('%{WORD:w}', s) | left join (from keys) on w=x v",
    ],
)
def test_a_join_without_sql_is_left_to_the_interpreter(lake: LocalLake, program: str) -> None:
    right = list(lake.query(program, engine="interp"))
    assert difference(right, list(lake.query(program, engine="duckdb")), ordered=True) is None
    first, second = lake.explain(program, engine="duckdb")
    assert "join" in first.interpreted
    assert (second.pool, second.engine) == ("keys", "duckdb")


@pytest.mark.parametrize(
    "program", ["sort x", "sort -r x", "sort -nulls first x, v", "sort -r -nulls first x | head 7"]
)
def test_keys_of_several_types_are_in_the_order_of_the_interpreter(lake: LocalLake, program: str) -> None:
    check(lake, f"from keys | {program}", is_ordered=True)


@pytest.mark.parametrize("program", ["where n == n", "where r.x > 1", "sort n", "sort -r r.x", "max(n), min(r.x) by k"])
def test_a_nan_is_there_whatever_the_statistics_of_a_file_say(lake: LocalLake, program: str) -> None:
    if "nans" not in [pool.name for pool in lake.pools()]:
        values = parse_values("{k:1,n:1.5,r:{x:NaN}} {k:1,n:NaN,r:{x:2.}} {k:3,n:2.,r:{x:3.}}")
        lake.create("nans", key="k").load(values)
    check(lake, f"from nans | {program}", is_ordered="by" not in program)


def test_the_last_rows_are_read_from_the_last_objects(lake: LocalLake, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = lake.create("many", key="k")
    with pool.transaction() as changing:
        for i in range(50):
            changing.load([{"k": i}])
    opened: list[str] = []
    checked = column_form.checked_file

    def counted(store, prefix, o):  # type: ignore[no-untyped-def]
        opened.append(to_text(o.id))
        return checked(store, prefix, o)

    monkeypatch.setattr(column_form, "checked_file", counted)
    assert [format_value(v) for v in lake.query("from many | tail 2", engine="duckdb")] == ["{k:48}", "{k:49}"]
    assert len(opened) <= 3
