"""Attacks on SQL: DuckDB's own list of functions, called in every position and spelling, and statements bent at random.

Whatever gets past the check runs, and its results must show nothing of the machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import shoal
from shoal.engines.tables.sql_functions import (
    FUNCTIONS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    TABLE_FUNCTIONS,
)
from shoal.engines.tables.statements import Statement
from shoal.errors import InvalidInput, NotFound, ShoalError
from shoal.local.lake import LocalLake
from shoal.testing.tiers import IS_LONG, examples

SEED = 14
DIRECTORY = "hidden-directory"
VARIABLE, SECRET = "SHOAL_FUZZ_SECRET", "value-of-a-variable"
SECRETS = (DIRECTORY, SECRET, "read_parquet", "allowed_paths", "root:x:0", "create view", "enable_external_access")
"""Parts of the path of the lake, the environment, definitions of views, settings and a file of the system."""

AS_TABLES = (
    "select * from {}",
    "from {}",
    "from {} select 1",
    "select * from {} as t(a)",
    "select * from logs, {}",
    "select * from logs, lateral {}",
    "select * from logs, lateral {} as l(a)",
    "select * from logs, lateral (select * from {})",
    "select * from logs join {} on true",
    "select * from logs left join lateral {} on true",
    "select * from logs cross join {}",
    "select * from logs positional join {}",
    "select * from logs semi join {} on true",
    "select * from logs natural join {}",
    "select * from (logs join {} on true)",
    "select * from (select * from {})",
    "with c as (select * from {}) select * from c",
    "with c as materialized (from {}) select 1",
    "with recursive c as (select 1 union all select 1 from {}) select * from c",
    "with logs as (from {}) select * from logs",
    "select (select count(*) from {})",
    "select exists (select 1 from {})",
    "select array(select 1 from {})",
    "select 1 in (select 1 from {}), 1 = any (select 1 from {})",
    "select host from logs where exists (from {})",
    "select host from logs order by (select 1 from {})",
    "select host from logs limit (select 1 from {})",
    "values ((select count(*) from {}))",
    "pivot {} on 1 using count(*)",
    "pivot (select * from {}) on 1 using count(*)",
    "select * from {} pivot (count(*) for a in ('x'))",
    "unpivot {} on a into name n value v",
    "select 1 union all select 1 from {}",
    "(from {}) intersect select 1",
    "select 1 except all (select 1 from {})",
    "select * from {} tablesample 10%",
    "describe {}",
    "describe select * from {}",
    "summarize {}",
    "select * from (summarize select * from {})",
    "explain analyze select * from {}",
    "create macro m() as table select * from {}",
    "create table x as from {}",
)
AS_VALUES = (
    "select {}",
    "select {} as x from logs",
    "select host from logs where {} is null",
    "select host from logs group by {}",
    "select count(*) from logs group by all having {} is null",
    "select host from logs qualify {} is null",
    "select host from logs order by {}",
    "select host from logs limit {}",
    "select max({}) over (partition by {} order by {}) from logs",
    "select count(*) filter (where {} is null) from logs",
    "select [{}], {{'a': {}}}, map {{'a': {}}}, ({}, 1)",
    "select list_transform([1], x -> {})",
    "select [{} for x in [1] if {} is null]",
    "select case when {} is null then {} else {} end",
    "select cast({} as varchar), {}::varchar, try_cast({} as int), try({})",
    "select coalesce({}, 1), {} || 'x', {} in (1), {} between 1 and 2, not {}",
    "select columns({}) from logs",
    "select * replace ({} as host) from logs",
    "select [1][{}], [1][{}:2]",
    "select interval ({}) day",
    "values ({})",
    "select * from (values ({})) v(a)",
    "select * from unnest([{}])",
    "select * from range({})",
    "select * from logs, lateral unnest([{}]) u(a)",
    "select * from logs a join logs b on {} is null",
    "with c(x) as (select {}) select x from c",
    "select (select {})",
    "select 1 union all select {}",
    "pivot logs on host using max({})",
    "pivot logs on {} using count(*)",
    "select 'x'.upper().{}",
    "create macro m() as {}",
    "describe select {}",
)
ARGUMENTS = ("", "'/etc/passwd'", f"'{VARIABLE}'", "'select 1'", "1", "host", "'logs', 'host'", "x := 1", "*", "[1], 2")


def spellings(rng: random.Random, name: str) -> str:
    """A name as it could be written as well."""
    mixed = "".join(rng.choice((c.lower(), c.upper())) for c in name)
    before = rng.choice(("", "", "", "main.", "system.main.", '"main".', 'system."main".', "pg_catalog."))
    spelled = rng.choice((name, name, name.upper(), mixed, f'"{name}"', f'"{mixed}"'))
    after = rng.choice(("", "", "", " ", "/**/", " /* x */ ", "\n", "--\n", "\t", "\u00a0", "\u2003", "\ufeff"))
    return f"{before}{spelled}{after}"


def call(rng: random.Random, name: str) -> str:
    return f"{spellings(rng, name)}({rng.choice(ARGUMENTS)})"


def filled(rng: random.Random, position: str, name: str) -> str:
    return position.format(*(call(rng, name) for _ in range(position.count("{}"))))


def attacks() -> Iterator[str]:
    """Each refused function in some positions, in the long tier in all; and each position with some functions."""
    rng = random.Random(SEED)
    as_tables = sorted(REFUSED_TABLE_FUNCTIONS | REFUSED_FUNCTIONS | FUNCTIONS - TABLE_FUNCTIONS)
    as_values = sorted((REFUSED_TABLE_FUNCTIONS | REFUSED_FUNCTIONS) - FUNCTIONS)
    for positions, names in ((AS_TABLES, as_tables), (AS_VALUES, as_values)):
        for name in names:
            for position in positions if IS_LONG else rng.sample(positions, 1):
                yield filled(rng, position, name)
        for position in positions:
            for name in rng.sample(names, 3):
                yield filled(rng, position, name)


def test_no_position_and_no_spelling_lets_a_refused_function_through(lake: LocalLake) -> None:
    """What passes is not a call: `from apply(x)` and `from "a" <mark>(x)` name a pool, with names for its columns."""
    for text in [text for text in attacks() if not _is_refused(text)]:
        assert Statement(text).uses, text
        with pytest.raises(NotFound, match="pool not found"):
            lake.sql(text)


def _is_refused(text: str) -> bool:
    try:
        Statement(text)
    except InvalidInput as e:
        assert "\n" not in str(e)
        return True
    return False


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLake]:
    created = shoal.create(tmp_path_factory.mktemp(DIRECTORY))
    assert isinstance(created, LocalLake)
    created.create("logs", key="ts").load(b'{ts:1,host:"a",l:[1,2],r:{x:1}}{ts:2,host:"b"}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, SECRET)
        yield created


def require_no_secret(lake: LocalLake, text: str) -> bool:
    """Run a statement; whether it gave results. None of them, and no error, may show anything of the machine."""
    try:
        shown, is_answered = lake.sql(text, engine="duckdb").to_zson(), True
    except ShoalError as e:
        shown, is_answered = str(e), False
    quoted = text.lower()
    leaks = [secret for secret in SECRETS if secret in shown.lower() and secret not in quoted]
    assert not leaks, (text, leaks, shown[:500])
    return is_answered


def test_functions_that_are_allowed_show_nothing_of_the_machine(lake: LocalLake) -> None:
    rng = random.Random(SEED)
    names = sorted(FUNCTIONS) if IS_LONG else rng.sample(sorted(FUNCTIONS), 25)
    answered = 0
    for name in names:
        for arguments in ("", "host", f"'{VARIABLE}'", "l", "r", "ts, ts", "'/etc/passwd', 'r'"):
            if IS_LONG or rng.random() < 0.3:
                answered += require_no_secret(lake, f'select "{name}"({arguments}) as x from logs')
    assert answered > len(names) // 10, "the calls tell nothing, because none of them works"


BENT = (
    "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff", "\x0b", "\x0c", "\x00", "\x85", "\u2028", "--", "/*", "*/", "'",
    '"', "`", ";", "(", ")", ",", "$$", "$x$", "E'", "U&'", "\\", ".", " from ", " lateral ", " duckdb_settings() ",
    " sqlite_master ", " duckdb_views ", " union all ", "::", "[", "]", "{", "}", " as ", "%", "#1", "?", ":=", "=>",
)  # fmt: skip
PLAIN = (
    "select host from logs",
    "select sql from duckdb_views",
    "select host x, sql y from sqlite_master",
    "with duckdb_views as (select 1 as sql) select sql from duckdb_views",
    "with t0 as (select 1 as x) select * from logs, t0",
    "select * from logs where host = 'a' -- comment",
    "select value from logs, lateral duckdb_settings()",
    "select * from query('from duckdb_settings()')",
    "select x::duckdb_settings from logs",
    "pivot logs on host using count(*)",
)


def bent(rng: random.Random) -> str:
    text = rng.choice(PLAIN)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(text))
        gone = rng.choice((0, 0, 0, 1, 3))
        text = text[:at] + rng.choice((*BENT, rng.choice(PLAIN))) + text[at + gone :]
    if rng.random() < 0.3:
        text = text.replace(" ", rng.choice(("\u00a0", "\u2003", "\t", "/**/", "\u3000")), rng.randint(1, 4))
    return text


def test_statements_bent_at_random_show_nothing_of_the_machine(lake: LocalLake) -> None:
    rng = random.Random(SEED)
    texts = [text for text in (bent(rng) for _ in range(examples(1000))) if not _is_refused(text)]
    assert texts, "nothing gets past the check, not even what is plain"
    for text in texts if IS_LONG else texts[:60]:
        require_no_secret(lake, text)


def test_names_of_with_are_never_those_of_the_catalog(lake: LocalLake) -> None:
    """A table that WITH defines has a name of ours: where DuckDB does not see it, it finds nothing else by its name."""
    common = "with t0 as (select 1 as x), sqlite_master as (select 2 as sql)"
    text = f"{common} select host, x, sql from logs, t0, sqlite_master order by host"
    assert lake.sql(text).to_list() == [{"host": "a", "x": 1, "sql": 2}, {"host": "b", "x": 1, "sql": 2}]
    with pytest.raises(ShoalError, match="duckdb_views: pool not found"):
        lake.sql("select * from duckdb_views, (with duckdb_views as (select 1 as a) select a from duckdb_views)")
