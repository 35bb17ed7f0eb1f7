"""Connections that a thread keeps for statements: used again, by one statement at a time, and never in a bad state."""

from __future__ import annotations

import threading
from ipaddress import IPv4Address
from pathlib import Path

import duckdb
import pytest

import shoal
from shoal.engines.duckdb import own_databases
from shoal.engines.duckdb.own_databases import MOST_SESSIONS, OwnDatabase
from shoal.errors import ShoalError
from shoal.local.lake import LocalLake

ROWS = 40_000
"""So many that results come in several batches."""


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    made = shoal.create(tmp_path / "lake")
    assert isinstance(made, LocalLake)
    made.create("p", key="k").load([{"k": i, "s": f"s{i % 7}"} for i in range(ROWS)])
    return made


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> list[duckdb.DuckDBPyConnection]:
    """The connections that statements ran on. The thread begins and ends without any."""
    found: list[duckdb.DuckDBPyConnection] = []
    start = OwnDatabase.start

    def noted(self, job, *args):  # type: ignore[no-untyped-def]
        found.append(self._con)
        start(self, job, *args)

    monkeypatch.setattr(OwnDatabase, "start", noted)
    monkeypatch.setattr(own_databases, "_of_thread", threading.local())
    return found


def test_a_statement_finds_its_connection_again(lake: LocalLake, connections: list[duckdb.DuckDBPyConnection]) -> None:
    for _ in range(3):
        assert lake.sql("select sum(k) as n from p").to_list() == [{"n": ROWS * (ROWS - 1) // 2}]
    lake.sql("select max(k) as n from p").to_list()
    first, second, third, other = connections
    assert first is second is third is not other


def test_two_open_results_of_one_statement_do_not_meet(
    lake: LocalLake, connections: list[duckdb.DuckDBPyConnection]
) -> None:
    text = "select k from p order by k"
    lake.sql(text).to_list()
    one, two = iter(lake.sql(text)), iter(lake.sql(text))
    assert len(connections) == 3
    assert connections[1] is not connections[2]
    assert [next(one).data[0] for _ in range(3)] == [next(two).data[0] for _ in range(3)] == [0, 1, 2]
    assert len(list(one)) == len(list(two)) == ROWS - 3
    assert len(lake.sql(text).to_list()) == ROWS


def test_what_is_read_in_part_is_not_kept(lake: LocalLake, connections: list[duckdb.DuckDBPyConnection]) -> None:
    text = "select k from p order by k"
    for _ in range(2):
        with lake.sql(text) as results:
            assert next(iter(results)).data == (0,)
    assert connections[0] is not connections[1]


def test_what_fails_is_not_kept(lake: LocalLake, connections: list[duckdb.DuckDBPyConnection]) -> None:
    text = "select case when k = 39999 then error('no') else 'yes' end as e from p"
    for _ in range(2):
        with pytest.raises(ShoalError):
            lake.sql(text).to_list()
    assert len({id(each) for each in connections}) == len(connections)


def test_chance_is_not_seeded_by_the_statement_before(lake: LocalLake) -> None:
    text = "select random() as r, setseed(0.5) as s"
    assert len({row["r"] for _ in range(4) for row in lake.sql(text).to_list()}) == 4


def test_the_clock_goes_on(lake: LocalLake) -> None:
    text = "select now() as t"
    assert lake.sql(text).to_list() != lake.sql(text).to_list()


def test_two_open_statements_may_convert_the_same_column(lake: LocalLake) -> None:
    lake.create("addresses", key="k").load(
        [{"k": i, "ip": IPv4Address(f"10.0.{i // 250}.{i % 250}")} for i in range(ROWS)]
    )
    unread = lake.sql("select ip from addresses")
    one, two = lake.sql("select k, ip from addresses order by k"), lake.sql("select ip from addresses order by k")
    assert [next(iter(each)).data[-1] for each in (one, two)] == ["10.0.0.0", "10.0.0.0"]
    del unread
    assert len(lake.sql("select ip from addresses").to_list()) == ROWS


def test_the_least_recent_make_room(lake: LocalLake, connections: list[duckdb.DuckDBPyConnection]) -> None:
    texts = [f"select {i} as i, max(k) as n from p" for i in range(MOST_SESSIONS + 1)]
    for text in (*texts, texts[-1], texts[0]):
        lake.sql(text).to_list()
    assert connections[-2] is connections[-3]
    assert connections[-1] not in connections[:-1]
    with pytest.raises(duckdb.Error):
        connections[0].execute("select 1")  # closed


def test_results_may_be_read_in_another_thread(lake: LocalLake) -> None:
    counts: list[int] = []
    for _ in range(3):
        results = lake.sql("select k from p")
        thread = threading.Thread(target=lambda found=results: counts.append(len(found.to_list())))
        thread.start()
        thread.join()
    assert counts == [ROWS] * 3


def test_threads_have_connections_of_their_own(lake: LocalLake, connections: list[duckdb.DuckDBPyConnection]) -> None:
    sums: list[int] = []

    def ask() -> None:
        for _ in range(5):
            sums.extend(row["n"] for row in lake.sql("select sum(k) as n from p").to_list())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [ROWS * (ROWS - 1) // 2] * 20
    assert len({id(each) for each in connections}) == 4
