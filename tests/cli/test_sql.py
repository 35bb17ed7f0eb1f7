"""`shoal sql`, as it is meant to be called."""

from __future__ import annotations

import pytest

from shoal.testing.shell import Shell

ROWS = '{ts:1,host:"a",status:200}{ts:2,host:"b",status:500}{ts:3,host:"a",status:"none"}'


@pytest.fixture
def logs(shell: Shell) -> Shell:
    shell.load(ROWS)
    shell.run("tag", "-q", "v1")
    shell.load('{ts:4,host:"c",status:404}')
    return shell


def test_a_statement_is_answered_in_any_format(logs: Shell) -> None:
    statement = 'select host, count(*) as n, max("status$int64") as worst from logs group by host order by host'
    assert logs.run("sql", "-z", statement).splitlines() == [
        '{host:"a",n:2,worst:200}',
        '{host:"b",n:1,worst:500}',
        '{host:"c",n:1,worst:404}',
    ]
    assert logs.run("sql", "-f", "csv", statement) == "host,n,worst\na,2,200\nb,1,500\nc,1,404\n"
    assert logs.run("sql", "-j", "select ts from logs where status = '404'") == '{"ts":4}\n'
    assert logs.run("-lake", str(logs.lake), "sql", "-f", "table", "-engine", "duckdb", "select 1 as x") == "x\n1\n"
    logs.run("sql", "-f", "parquet", "-o", "out.parquet", statement)
    assert logs.run("zq", "-z", "count()", "out.parquet") == "3(uint64)\n"


def test_quoted_names_are_pools_as_they_were(logs: Shell) -> None:
    assert logs.run("sql", "-z", 'select count(*) as n from "logs@v1"') == "{n:3}\n"
    assert logs.run("sql", "-z", "describe logs").splitlines()[-1] == '{column_name:"status",column_type:"VARCHAR"}'


@pytest.mark.parametrize(
    "argv, message",
    [
        (["select * from '/etc/passwd'"], "/etc/passwd: pool not found"),
        (["drop table logs"], "sql: DROP is not a statement for pools (pools are dropped by shoal drop)"),
        (
            ["show tables"],
            "sql: SHOW is not a statement for pools (shoal ls lists the pools, describe POOL its columns)",
        ),
        (
            ["select * from logs@v1"],
            (
                "sql: parameters are not allowed in a query "
                '(the name of a pool at a branch, tag or commit is in double quotes: "logs@v1")'
            ),
        ),
        (["selec *"], "sql: syntax error at line 1, column 7, near '*' (did you mean select?)"),
        (["select * from lgos"], "lgos: pool not found (did you mean logs?)"),
        (["select lowr(host) from logs"], "sql: there is no function lowr (did you mean lower?)"),
        (["select statsu from logs"], 'sql: no column is named "statsu" (did you mean status?)'),
        (["select l.hst from logs l"], 'sql: no column is named "hst" (describe POOL lists the columns)'),
        (
            ["select count(*) from logs where status = 404"],
            (
                'sql: column status is text, since it holds int64 and string values ("status$int64" has the int64 ones)'
                ": Conversion Error: Could not convert string 'none' to INT32 when casting from source column status"
            ),
        ),
        (["select zebra from logs"], 'sql: no column is named "zebra" (describe POOL lists the columns)'),
    ],
)
def test_what_is_wrong_is_one_line(argv: list[str], message: str, logs: Shell) -> None:
    assert logs.fail("sql", *argv) == message


@pytest.mark.parametrize(
    "argv, message",
    [
        (["select", "1"], "sql: give one statement as one argument (quote it)"),
        ([], "sql: give one statement as one argument (quote it)"),
        (["-engine", "interp", "select 1"], "invalid value 'interp' for flag -engine (one of: auto, duckdb, spark)"),
        (["-engine", "dukdb", "select 1"], "invalid value 'dukdb' for flag -engine (did you mean duckdb?)"),
    ],
)
def test_misuse_is_one_line(argv: list[str], message: str, logs: Shell) -> None:
    assert logs.misuse("sql", *argv) == message


def test_help_tells_what_tables_there_are(bare: Shell) -> None:
    text = bare.run("sql", "-help")
    assert '"logs@v1" is the pool at a branch, tag, commit or time' in text
    assert "-engine" in text
