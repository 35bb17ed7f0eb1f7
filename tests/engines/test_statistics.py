"""Statistics: every engine counts what a query reads and matches, as the interpreter does.

The interpreter counts values, and their bytes in binary form; it skips parts of objects by the pool key. DuckDB and
Spark count data objects as a whole, and their bytes as they are stored: these differ, the numbers of records do not,
unless a filter on the pool key, or a limit, lets the interpreter stop early.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.api.options import Statistics
from shoal.testing.agreement import COUNTED, check_statistics, load_counted, statistics_of


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = shoal.create(tmp_path / "lake")
    load_counted(lake)
    return lake


@pytest.mark.parametrize("program, read, matched", COUNTED)
def test_records_are_counted_as_the_interpreter_does(lake: Lake, program: str, read: int, matched: int) -> None:
    check_statistics(lake, program, read, matched, "duckdb")


def test_statistics_do_not_choose_the_interpreter(lake: Lake) -> None:
    for program, _, _ in COUNTED:
        assert {scan.engine for scan in lake.explain(program, engine="duckdb")} == {"duckdb"}, program


def test_a_limit_counts_the_objects_that_were_opened(lake: Lake) -> None:
    counted = statistics_of(lake, "from p | head 3", "duckdb")
    assert (counted.records_read, counted.records_matched) == (10, 10)


def test_bytes_are_those_of_the_objects_as_they_are_stored(lake: Lake) -> None:
    size = sum(o.size for o in lake.pool("p").objects())
    counted = statistics_of(lake, "from p | where s == 'a'", "duckdb")
    assert (counted.bytes_read, counted.bytes_matched) == (size, size // 2)


def test_nothing_is_counted_unless_asked_for(lake: Lake) -> None:
    assert lake.query("from p | count()", engine="duckdb").hold().statistics == Statistics()


def test_a_statement_of_sql_counts_the_objects_of_its_tables(lake: Lake) -> None:
    results = lake.sql("select count(*) from p where n >= 20", engine="duckdb").hold()
    assert results.to_list()[0] == {"count_star()": 10}
    assert (results.statistics.records_read, results.statistics.records_matched) == (10, 10)
    assert results.statistics.bytes_read > 0
