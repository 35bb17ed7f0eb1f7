"""The reviewed list of SQL functions against those of the installed DuckDB: what nobody reviewed fails here."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from shoal.engines.tables.sql_functions import (
    FUNCTIONS,
    INTERNAL_PREFIXES,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    TABLE_FUNCTIONS,
    TYPED_FUNCTIONS,
)
from shoal.engines.tables.statements import Statement
from shoal.errors import InvalidInput, Unsupported
from shoal.testing.tiers import IS_LONG

TABLES = ("table", "table_macro")
CONNECTION = duckdb.connect()


def installed(*kinds: str) -> set[str]:
    """The names of DuckDB's functions of these kinds, except for operators."""
    rows = CONNECTION.execute("select lower(function_name), function_type from duckdb_functions()").fetchall()
    return {name for name, kind in rows if kind in kinds and re.fullmatch(r"[a-z_]\w*", name)}


UNSAFE = installed("scalar", "macro", "aggregate", "window", *TABLES) - FUNCTIONS - TABLE_FUNCTIONS


def test_every_function_of_duckdb_was_reviewed() -> None:
    names = installed("scalar", "macro", "aggregate", "window")
    unknown = {name for name in names - FUNCTIONS - REFUSED_FUNCTIONS if not name.startswith(INTERNAL_PREFIXES)}
    assert unknown == set(), "review these, then add them to a list of engines/tables/sql_functions.py"
    assert installed(*TABLES) - TABLE_FUNCTIONS - REFUSED_TABLE_FUNCTIONS == set(), "review these table functions"


def test_a_function_is_allowed_or_refused() -> None:
    assert not FUNCTIONS & REFUSED_FUNCTIONS
    assert not TABLE_FUNCTIONS & REFUSED_TABLE_FUNCTIONS
    assert len(FUNCTIONS) > 500, "the list lost most of its names"


QUOTED = '(the name of a pool at a branch, tag or commit is in double quotes: "logs@v1")'


@pytest.mark.parametrize(
    "text, message",
    [
        ("select getenv('HOME')", "sql: getenv reaches beyond the pools, which a query may not"),
        ("select uper('x')", "sql: there is no function uper (did you mean upper?)"),
        ("select qqqqqq()", "sql: there is no function qqqqqq (DuckDB's functions that compute values can be called)"),
        ("select current_user", "sql: current_user reaches beyond the pools, which a query may not"),
        ("select * from a, lateral duckdb_views()", "sql: duckdb_views is not a pool (only pools can be read)"),
        ("select * from upper('x')", "sql: upper is not a pool (only pools can be read)"),
        ("select * from (summarize a)", "sql: SUMMARIZE is not allowed in a query"),
        ("select $1", f"sql: parameters are not allowed in a query {QUOTED}"),
        ('select x::"foo bar" from a', "sql: 'foo bar' is not allowed in a query"),
        ("select * from a at (version => 1)", "sql: HISTORICALDATA is not allowed in a query"),
        ("select var_map(x) from a", "sql: a function is called with arguments that it does not take"),
    ],
)
def test_what_is_refused_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Statement(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "call, dialect", [("date()", "duckdb"), ("datetime(x)", "duckdb"), ("date_add(1, 'b')", "spark")]
)
def test_wrong_arguments_are_an_error_of_the_statement(call: str, dialect: str) -> None:
    with pytest.raises(InvalidInput, match="a function is called with arguments that it does not take"):
        Statement(f"select {call} from a").sql(dialect, ["t0"])


ALLOWED = [
    "select * from a, lateral (select a.x) l",
    "select * from a, unnest(a.l) u(x), range(a.n), json_each(a.j), generate_series(1, 2)",
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select r.n from r",
    "select a.*, columns('x'), columns(* exclude (b)), * replace (1 as c) from a",
    "select list_transform(l, x -> x + 1), [y * 2 for y in l if y > 1], l[1:2], l[-1] from a",
    "select list_filter(l, lambda x: x > 1), unnest(r, recursive := true) from a",
    "pivot a on x using sum(y) group by z",
    "unpivot a on p, q into name n value v",
    "select * from a pivot (sum(y) for x in (1, 2))",
    "select count(*) filter (where x > 1), string_agg(x, ',' order by y), quantile_cont(x, 0.5) from a",
    "select lag(x, 1) over w from a window w as (order by y) qualify row_number() over () = 1",
    "select j->'$.a', j->>'b', json_extract(j, '$.a[*].b'), j.a from a",
    "select strftime(ts, '%Y'), date_trunc('day', ts), extract(year from ts), ts + interval 1 day from a",
    "select ts at time zone 'UTC', date_diff('day', ts, now()), current_date, epoch(ts), ts::date from a",
    "select s ~ 'x', s similar to 'x', s glob 'x*', s ilike 'x', s || 'x', position('a' in s), trim(s) from a",
    "select struct_pack(a := 1), {'a': 1}, row(1, 2), map {'a': 1}, m['a'], struct_extract(r, 'x') from a",
    "select case x when 1 then 2 end, coalesce(x, 1), if(x > 1, 2, 3), x is distinct from y, try_cast(x as int) from a",
    "select x::decimal(3, 1), x::int[], x::struct(a int), x::enum('a', 'b'), x::hugeint, x::uuid, x::json from a",
    "select * from a join b using (x) left join c on a.x = c.x semi join f on true asof join h on a.t >= h.t",
    "(select 1 union all by name select 2) intersect select 3 except all select 4 order by all limit 1 offset 2",
    "select distinct on (x) x from a group by grouping sets ((x), ()), cube (x), rollup (y) having count(*) > 1",
    "select exists (select 1), x = any (select 1), array(select 1), (select max(x) from b) from a",
    "select hash(x), md5(s), to_json(x), json_group_array(x), typeof(x), approx_count_distinct(x), histogram(x) from a",
    "select 'x'.upper(), x.lower() from a",
    "from a using sample 5 rows",
    "describe select user, r.name from a",
    "values (1, 2), (3, 4)",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_ordinary_sql_is_allowed(text: str) -> None:
    assert_as_checked(text)


def test_what_was_checked_is_what_duckdb_runs() -> None:
    """sqlglot writes functions under other names than it read: none of them may be one that is refused."""
    typed = {name.lower() for kind in TYPED_FUNCTIONS for name in getattr(exp, kind).sql_names()}
    names = sorted(FUNCTIONS | {name for name in typed if name.isidentifier()})
    calls = [f"{name}({', '.join(['x'] * count)})" for name in names for count in range(4)]
    for called in calls if IS_LONG else random.Random(14).sample(calls, 300):
        with suppress(InvalidInput, Unsupported):  # another number of arguments
            assert_as_checked(f"select {called} from a")


def assert_as_checked(text: str) -> None:
    """Let DuckDB parse what it would run, and look for functions and tables that are not those of the check."""
    statement = Statement(text)
    names = [f"t{i}" for i in range(len(statement.uses))]
    tree = json.loads(parsed_by_duckdb(statement.sql("duckdb", names)))
    if tree["error"]:
        assert "Only SELECT statements" in tree["error_message"] or tree["error_type"] == "parser", (text, tree)
        return
    for node in nodes(tree):
        name = node.get("function_name", "").lower()
        assert name not in UNSAFE, text
        if node.get("type") == "BASE_TABLE":
            assert re.fullmatch(r"[tc]\d+", node["table_name"]), (text, node)
            assert node["qualified_name"]["path"] == [node["table_name"]], (text, node)


def parsed_by_duckdb(text: str) -> str:
    options = "skip_null := true, skip_empty := true, skip_default := true"
    (row,) = CONNECTION.execute(f"select json_serialize_sql(?, {options})", [text]).fetchall()
    return str(row[0])


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON document."""
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from nodes(child)
