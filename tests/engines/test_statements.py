"""Statements in SQL: what they name, what they ask of it, what is refused, and values out of answers."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import shoal
from shoal.engines.duckdb.sandbox import TableQuery
from shoal.engines.tables.answers import batches_of
from shoal.engines.tables.statements import Statement
from shoal.errors import InvalidInput, NotFound
from shoal.formats.columns.batches import values_of
from shoal.local.lake import LocalLake
from shoal.model.text import format_value

USES = [
    ("select * from logs", ["logs"]),
    ("from logs", ["logs"]),
    ('select 1 from "logs@v1" a, logs b', ["logs@v1", "logs"]),
    ("with logs as (select * from logs) select * from logs", ["logs"]),
    ("with a as (select * from b), b as (select 1) select * from a, b", ["b"]),
    ("with recursive r as (select 1 union all select * from r) select * from r", []),
    ("select (select max(x) from b) from a where x in (select y from c)", ["a", "b", "c"]),
    ("select * from unnest([1, 2]), range(3)", []),
    ("values (1)", []),
    ("pivot logs on x using sum(y)", ["logs"]),
    ("describe logs", ["logs"]),
]


@pytest.mark.parametrize("text, names", USES)
def test_tables_are_what_with_does_not_name(text: str, names: list[str]) -> None:
    assert sorted(use.name for use in Statement(text).uses) == sorted(names)


WHERES = [
    ("x = 1 and y < 'a' and 2.5 >= z", [(("x",), "=", 1), (("y",), "<", "a"), (("z",), "<=", 2.5)]),
    ("(x > -1) and logs.y between 1 and 2", [(("x",), ">", -1), (("y",), ">=", 1), (("y",), "<=", 2)]),
    ("x in (1, 2) and r.x = 1", [(("x",), "in", (1, 2)), (("r", "x"), "=", 1)]),
    ("ts >= timestamp '2024-01-01'", [(("ts",), ">=", "2024-01-01")]),
    ("d < date '2024-01-01'", [(("d",), "<", "2024-01-01")]),
    ("x = 1 or y = 2", []),
    ("not x = 1 and x + 1 = 2 and x = y and x in (1, y) and x is null", []),
    ("d < date '2024-01-01 10:00:00' and t = timestamptz '2024-01-01'", []),
    ("made = 5", []),
    ("other.x = 5", []),
]  # fmt: skip


@pytest.mark.parametrize("where, conditions", WHERES)
def test_conditions_are_comparisons_that_all_rows_meet(where: str, conditions: list[object]) -> None:
    (use, *_) = Statement(f"select x + 1 as made from logs where {where} and exists (select 1 from other)").uses
    assert [(c.column, c.op, c.value) for c in use.conditions] == conditions


@pytest.mark.parametrize(
    "text, message",
    [
        ("insert into logs values (1)", "INSERT is not a statement for pools"),
        ("delete from logs", "DELETE is not a statement for pools"),
        ("create table x as select 1", "CREATE is not a statement for pools"),
        ("copy logs to 'x'", "COPY is not a statement for pools"),
        ("attach 'x'", "ATTACH is not a statement for pools"),
        ("set threads = 1", "SET is not a statement for pools"),
        ("pragma version", "PRAGMA is not a statement for pools"),
        ("install httpfs", "INSTALL is not a statement for pools"),
        ("explain select 1", "EXPLAIN is not a statement for pools"),
        ("with a as (delete from x returning *) select * from a", "DELETE is not a statement for pools"),
        ("select * into x from logs", "INTO is not a statement for pools"),
        ("select 1; select 2", "one statement is wanted, and there are 2"),
        ("", "one statement is wanted, and there are 0"),
        ("select x from", "Expected table name but got the end of the statement"),
        ("select * from read_csv('/etc/passwd')", "read_csv is not a pool (only pools can be read)"),
        ("select * from glob('/*')", "glob is not a pool"),
        ("select * from duckdb_settings()", "duckdb_settings is not a pool"),
        ("select * from a.b", 'a.b is not a pool (pools have no schemas; quote a name with dots: "a.b")'),
        ("select reflect('java.lang.System', 'exit')", "reflect reaches beyond the pools, which a query may not"),
    ],
)
def test_all_but_queries_of_pools_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Statement(text)
    assert str(raised.value).startswith(f"sql: {message}")
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(made, LocalLake)
    pool = made.create("logs", key="ts")
    pool.load(b'{ts:2024-01-01T00:00:00.000000001Z,host:"a",n:1}{ts:2024-01-02T00:00:00Z,host:"b",n:"x"}')
    pool.create_branch("side")
    pool.branch("side").load(b'{ts:2024-01-03T00:00:00Z,host:"c",n:2}')
    made.create("Weird.Name", key="k").load([{"k": 1}])
    return made


@pytest.mark.parametrize("path", ["/etc/passwd", "http://localhost/x.csv", "x.parquet", "s3://a/b.parquet"])
def test_files_are_no_tables(lake: LocalLake, path: str) -> None:
    for quoted in (f"'{path}'", f'"{path}"'):
        with pytest.raises(NotFound, match="pool not found"):
            lake.sql(f"select * from {quoted}")


def test_variables_of_python_are_no_tables(lake: LocalLake) -> None:
    secret = pa.table({"x": [1]})
    with pytest.raises(NotFound, match="secret: pool not found"):
        lake.sql("select * from secret")
    assert secret.num_rows == 1


def test_the_database_of_a_statement_reads_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the look at the statement had let it through; a service trusts no statement."""
    monkeypatch.setattr("shoal.engines.tables.statements.require_allowed", lambda tree: None)
    monkeypatch.setattr("shoal.engines.tables.statements._uses", lambda tree: iter(()))
    for text in ("select * from '/etc/passwd'", "select * from read_text('/etc/passwd')", "select * from glob('/*')"):
        with pytest.raises(InvalidInput, match=r"disabled by configuration|does not exist"):
            list(TableQuery(Statement(text), []).run())


def test_pools_are_tables_at_any_commitish(lake: LocalLake) -> None:
    count = "select count(*) as n from"
    assert lake.sql(f"{count} logs").to_zson() == lake.sql(f'{count} "logs@main"').to_zson() == "{n:2}"
    assert lake.sql(f"{count} LOGS").to_zson() == "{n:2}"
    assert lake.sql(f'{count} "logs@side"').to_zson() == "{n:3}"
    assert lake.sql('select k from "Weird.Name"').to_zson() == "{k:1}"
    joined = 'select s.host from "logs@side" s left join logs on s.ts = logs.ts where logs.ts is null'
    assert lake.sql(joined).to_zson() == '{host:"c"}'
    with pytest.raises(NotFound, match="LOGS: pool not found"):
        lake.sql(f'{count} "LOGS"')
    with pytest.raises(NotFound, match='"nope": branch not found'):
        lake.sql(f'{count} "logs@nope"')


def test_answers_have_exact_types(lake: LocalLake) -> None:
    text = 'select max(ts) as t, sum("n$int64") as s, avg("n$int64") as a, list(host order by host) as l from logs'
    assert lake.sql(text).to_zson() == '{t:2024-01-02T00:00:00Z,s:1,a:1.,l:["a","b"]}'
    assert lake.sql('select ts, n, "n$string" from logs order by ts limit 1').to_zson() == (
        '{ts:2024-01-01T00:00:00.000000001Z,n:"1",n$string:null(string)}'
    )
    described = lake.sql("describe logs").to_list()
    assert described[0] == {"column_name": "ts", "column_type": "TIMESTAMP_NS"}


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("select nope from logs", InvalidInput, 'sql: no column is named "nope"'),
        ("select cast(host as int) from logs", InvalidInput, "sql: Conversion Error: Could not convert string 'a'"),
        ("select n + host from logs", InvalidInput, "sql: "),
        (
            "select sum(n) from logs",
            InvalidInput,
            'sql: column n is text, since it holds int64 and string values ("n$int64" has the int64 ones): ',
        ),
    ],
)
def test_what_is_wrong_is_one_line(lake: LocalLake, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        list(lake.sql(text))
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_the_interpreter_does_not_speak_sql(lake: LocalLake, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="the interpreter does not speak SQL"):
        lake.sql("select 1", engine="interp")
    monkeypatch.setenv("SHOAL_ENGINE", "interp")
    assert lake.sql("select 'x' as a").to_zson() == '{a:"x"}'


DECIMALS = [
    (["1", "-2"], (38, 0), ["1", "-2"]),
    (["9223372036854775808", "1"], (38, 0), ["9223372036854775808(uint64)", "1(uint64)"]),
    (["18446744073709551616"], (38, 0), ["18446744073709551616(decimal(38,0))"]),
    (["1.5", None], (4, 2), ["1.50(decimal(4,2))", "null(decimal(4,2))"]),
    (["7"], (4, 0), ["7(decimal(4,0))"]),
    ([None], (38, 0), ["null(int64)"]),
]


@pytest.mark.parametrize("texts, kind, expected", DECIMALS)
def test_decimals_stay_decimals_unless_they_stand_for_integers(
    texts: list[str | None], kind: tuple[int, int], expected: list[str]
) -> None:
    data = [None if text is None else Decimal(text) for text in texts]
    batch = pa.record_batch({"d": pa.array(data, pa.decimal128(*kind))})
    assert [format_value(value) for value in values_of(batches_of([batch]))] == [f"{{d:{text}}}" for text in expected]


def test_parts_of_values_are_plain_as_well() -> None:
    whole = pa.decimal128(38, 0)
    typ = pa.struct([("t", pa.timestamp("us", "UTC")), ("l", pa.list_(whole)), ("m", pa.map_(pa.string(), whole))])
    data = [{"t": 1, "l": [Decimal(1), None], "m": [("a", Decimal(2))]}, None]
    batch = pa.record_batch({"s": pa.array(data, typ)})
    assert [format_value(value) for value in values_of(batches_of([batch]))] == [
        '{s:{t:1970-01-01T00:00:00.000001Z,l:[1,null(int64)],m:|{"a":2}|}}',
        "{s:null({t:time,l:[int64],m:|{string:int64}|})}",
    ]


def test_a_time_that_does_not_fit_is_an_error() -> None:
    batch = pa.record_batch({"t": pa.array([2**62], pa.timestamp("us"))})
    with pytest.raises(InvalidInput, match="out of range"):
        list(values_of(batches_of([batch])))
