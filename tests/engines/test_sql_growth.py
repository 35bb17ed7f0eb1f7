"""Statements that make huge values: every reviewed function is called with large arguments of the types that it takes.

Each runs under a limit of memory and of time. Whatever it does, its process stays within the first, and ends with the
second. Nobody has to say which functions can grow: a function that is reviewed is called here.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from threading import Timer

import duckdb
import pytest

from shoal.engines.duckdb.child_processes import SERVER
from shoal.engines.duckdb.fork_server import ROOM_PER_THREAD
from shoal.engines.stopping import Stop
from shoal.engines.tables.sql_functions import FUNCTIONS
from shoal.errors import InvalidInput, ShoalError, Stopped
from shoal.local.lake import LocalLake, create_local
from shoal.testing.processes import watching
from shoal.testing.queries import asked_under
from shoal.testing.tiers import IS_LONG

SEED = 27
MEMORY = 64 << 20
LIBRARIES = 100 << 20
MOST = LIBRARIES + MEMORY + (os.cpu_count() or 1) * ROOM_PER_THREAD
"""Resident bytes that the process of a statement may have."""
SECONDS = 0.4
PATIENCE = 3.0
"""Seconds that a statement may take beyond its time limit, on a busy machine."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    lake = create_local(str(tmp_path_factory.mktemp("growth") / "lake"))
    lake.create("logs", key="n").load([{"n": n, "s": f"text {n}"} for n in range(5000)])
    assert asked_under(limited(), lake.sql, "select 1 as x").one().data == (1,)
    return lake


def limited() -> Stop:
    stop = Stop()
    stop.memory = MEMORY
    return stop


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a statement."""

    error: ShoalError | None
    seconds: float
    peak: int


def run(lake: LocalLake, text: str) -> Outcome:
    stop, error = limited(), None
    assert SERVER._process is not None
    timer = Timer(SECONDS, stop.stop, [Stopped("the test waits no longer")])
    timer.start()
    began = time.monotonic()
    with watching(SERVER._process.pid) as watch:
        try:
            for _ in asked_under(stop, lake.sql, text, engine="duckdb"):
                pass
        except ShoalError as e:
            error = e
        finally:
            timer.cancel()
    return Outcome(error, time.monotonic() - began, watch.peak)


def require_bounded(lake: LocalLake, text: str) -> Outcome:
    """Run a statement, which has to stay within its limits."""
    outcome = run(lake, text)
    assert outcome.peak < MOST, text
    assert outcome.seconds < SECONDS + PATIENCE, text
    return outcome


# ---- every function

TEXT, LIST, NUMBER = "repeat('x,', 500000)", "range(1000000)", "1000000000"
LARGE = {
    "VARCHAR": (TEXT, "'%1000000000d{:1000000000}'", "''"),
    "BLOB": (f"{TEXT}::blob",),
    "BIT": ("bitstring('1', 10000000)",),
    "JSON": (f"to_json({LIST})",),
    "VARIANT": (f"{LIST}::variant",),
    "ANY[]": (LIST, f"list_transform(range(1000), lambda x: {TEXT})"),
    "T[][]": ("list_transform(range(1000), lambda x: range(10000))",),
    "VARCHAR[]": ("list_transform(range(1000000), lambda x: x::varchar)",),
    "BOOLEAN[]": ("list_transform(range(1000000), lambda x: true)",),
    "MAP(K, V)": (f"map({LIST}, {LIST})",),
    "TUPLE(K, V)[]": ("list_transform(range(100000), lambda x: (x, x))",),
    "LAMBDA": (f"lambda x: {TEXT}", f"lambda x, y: {LIST}"),
    "ANY": (TEXT, LIST, NUMBER),
    "STRUCT": (f"{{'a': {TEXT}}}",),
    "TUPLE": (f"row({TEXT}, {LIST})",),
    "UNION": (f"union_value(a := {TEXT})",),
    "GEOMETRY": ("'POINT(1 1)'::geometry",),
    "TIMESTAMP": ("timestamp '1900-01-01'", "timestamp '2200-01-01'"),
    "DATE": ("date '1900-01-01'", "date '2200-01-01'"),
    "INTERVAL": ("interval 1 second",),
    "TIME": ("time '12:00'",),
    "BOOLEAN": ("true",),
    "UUID": ("uuid()",),
}
"""Arguments by the types of parameters. The first is the largest."""
SAME = {
    "T[]": "ANY[]", "K[]": "ANY[]", "V[]": "ANY[]", "BIGINT[]": "ANY[]", "T": "ANY", "K": "ANY", "V": "ANY",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "TIMESTAMPTZ_NS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP",
    "TIME WITH TIME ZONE": "TIME", "TIME_NS": "TIME", "None": "ANY",
}  # fmt: skip
NUMBERS = (NUMBER, "100")


def signatures() -> list[tuple[str, tuple[str, ...]]]:
    """The reviewed scalar functions and macros of DuckDB, with the types of their parameters."""
    columns = "lower(function_name), parameter_types, varargs"
    rows = duckdb.sql(
        f"select {columns} from duckdb_functions() where function_type in ('scalar', 'macro') order by all"
    ).fetchall()
    return [
        (name, (*map(str, types), *[str(more)] * 3 * (more is not None)))
        for name, types, more in rows
        if name in FUNCTIONS and (types or more)
    ]


def arguments(rng: random.Random, typ: str) -> str:
    typ = SAME.get(typ, typ)
    return rng.choice(LARGE.get(typ, (f"{LIST}::{typ}",) if typ.endswith("[]") else NUMBERS))


def call(rng: random.Random, name: str, types: tuple[str, ...]) -> str:
    return f'"{name}"({", ".join(arguments(rng, typ) for typ in types)})'


POSITIONS = (
    "select {} as x",
    "select {} as x from logs",
    "select length(({})::varchar) as x from logs",
    "select hex(({})::varchar) || hex(({})::varchar) as x from logs",
    "select max({}) as x from logs",
    "select n from logs where ({}) is not null order by ({})",
    "with c as (select {} as x from logs) select [x, x, x] as y from c",
    "select list_transform(range(1000), lambda z: {}) as x",
)


PARTS = 8


def test_the_list_of_functions_is_complete() -> None:
    assert len(signatures()) > 800


@pytest.mark.parametrize("part", range(PARTS))
def test_no_function_takes_more_than_the_limits_allow(lake: LocalLake, part: int) -> None:
    rng = random.Random(SEED + part)
    every = signatures()[part::PARTS]
    outcomes = []
    for name, types in every if IS_LONG else rng.sample(every, 4):
        text = rng.choice(POSITIONS).replace("{}", call(rng, name, types))
        outcomes.append(require_bounded(lake, text))
    computed = sum(not isinstance(outcome.error, InvalidInput) for outcome in outcomes)
    assert not IS_LONG or computed > len(outcomes) // 3, "the calls show nothing, because few of them are valid"


# ---- ways to grow that are not calls of one function

GROWING = [
    "select length(repeat('x', 2000000000)) as x",
    "select sum(length(repeat(s, 100000))) as x from logs",
    "select list_sum(range(200000000)) as x",
    "select max(length(hex(hex(hex(repeat(s, 10000)))))) as x from logs",
    "with recursive r(s, n) as (select 'x', 0 union all select s || s, n + 1 from r where n < 60) select max(s) from r",
    "with recursive r(l, n) as (select [1], 0 union all select l || l, n + 1 from r where n < 60) select max(l) from r",
    "select lpad('x', 2000000000, 'y') as x, rpad('x', 2000000000, 'y') as y",
    "select printf('%2000000000d', n) as x, format('{:2000000000}', n) as y from logs",
    "select bitstring('1', 2000000000) as x",
    "select list_resize([n], 1000000) as x from logs",
    "select regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g') as x",
    "select replace(repeat('a', 100000), 'a', repeat('b', 100000)) as x",
    "select string_split(repeat(s, 100000), ' ') as x from logs",
    "select unnest(range(1000000000)) as x",
    "select unnest(list_transform(range(1000), lambda z: repeat('x', 1000000))) as x from logs",
    "pivot (select n, repeat(s, 10000) as s from logs) on n using max(s)",
    "select string_agg(repeat(logs.s, 1000), ',') as x from logs, logs l",
    "select list(repeat(logs.s, 1000)) as x from logs, logs l",
    "select n, s from logs order by repeat(s, 100000)",
    "select distinct repeat(s, 100000) as x from logs",
    "select case when n < 0 then s else repeat(s, 100000) end as x from logs",
    "select s from logs where repeat(s, 100000) like '%x%y%z%'",
    "select [z for z in range(100000000) if z % 2 = 0] as x",
    "select list_reduce(range(60), lambda a, b: a || a, 'x') as x",
    "select '" + "x" * 1000 + "'" + " || s || repeat(s, 1000)" * 200 + " as x from logs",
    "select " + ", ".join(f"repeat(s, 10000) as c{n}" for n in range(300)) + " from logs",
    "select to_json(range(n * 1000)) as x from logs",
    "select generate_series(timestamp '1900-01-01', timestamp '2200-01-01', interval 1 microsecond) as x",
    "select levenshtein(repeat(s, 10000), repeat('b', 100000)) as x from logs",
    "select max(repeat(s, 10000)) over (order by n rows 1000 preceding) as x from logs",
]


@pytest.mark.parametrize("text", GROWING if IS_LONG else GROWING[::4], ids=lambda text: text[:60])
def test_no_statement_takes_more_than_the_limits_allow(lake: LocalLake, text: str) -> None:
    assert isinstance(require_bounded(lake, text).error, Stopped)
