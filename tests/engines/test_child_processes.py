"""Statements with a memory limit run in processes of their own: they answer alike, and end when they have to."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import closing
from pathlib import Path
from threading import Timer

import pytest

from shoal.api.results import Results
from shoal.engines.duckdb.child_processes import SERVER, Server
from shoal.engines.duckdb.fork_server import ROOM_PER_THREAD, SHARES
from shoal.engines.duckdb.statement_job import Database, EngineFailure, Job
from shoal.engines.stopping import Stop, stopped_by
from shoal.errors import ShoalError, Stopped
from shoal.local.lake import LocalLake, create_local
from shoal.model.text import format_value
from shoal.testing.processes import children, has_children, watching
from shoal.testing.queries import asked_under

MEMORY = 128 << 20
WHY = "the query was stopped by a test"
PATIENCE = 2.0
"""Seconds from a stop to the end of a statement, on a busy machine."""
ROWS = 3000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    lake = create_local(str(tmp_path_factory.mktemp("children") / "lake"))
    row = '{{n:{0},s:"s{1}",from:10.0.{1}.1,took:{0}s,l:[{0},1],r:{{x:{0}.5}}}}'
    lake.create("logs", key="n").load("".join(row.format(n, n % 7) for n in range(ROWS)).encode())
    lake.create("mixed", key="n").load(
        b"{n:1,u:1((int64,string)),m:|{1:2}|} {n:2,t:<int64>,e:error(1)} {n:3,u:10.0.0.0/8}"
    )
    lake.create("keys", key="n").load(b'{n:1,m:|{null(string):1,"a":2}|}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.lake.object_writer.MOST_SHAPES", 0)
        lake.create("in_rows", key="n").load(b'{n:1,a:10.0.0.1} {n:2,a:"text"}')
    return lake


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def ask(lake: LocalLake, text: str, memory: int | None = MEMORY, stop: Stop | None = None) -> Results:
    stop = stop or Stop()
    stop.memory = memory
    return asked_under(stop, lake.sql, text, engine="duckdb")


def answer(lake: LocalLake, text: str, memory: int | None) -> list[str]:
    try:
        return [format_value(value) for value in ask(lake, text, memory)]
    except ShoalError as e:
        return [type(e).__name__, str(e)]


@pytest.mark.parametrize(
    "text",
    [
        "from logs order by n",
        "select s, count(*) as c, max(\"from\") as f, sum(took) as t from logs group by s order by s",
        "from mixed order by n",
        "select i.a as x, j.a as y from in_rows i join in_rows j using (n) order by n",
        "describe logs",
        "select n from logs where n < 0",
        "select n, repeat(s, 1000) as s from logs order by n",
        "select 'a'::enum('a', 'b') as e, union_value(k := 1) as u, map {'a': [1]} as m, [1, 2]::int[2] as f",
        "select 1.50 as d, 12345678901234567890123456789 as h, interval 3 day as i, null as z, '101'::bit as b",
        "select list_transform(range(5), lambda x: {'a': x, 'b': [x::varchar]}) as l from range(10)",
        "select n.x from logs",
        "select error('wrong') from logs",
        "select cast(s as int) as i from logs",
        "select * from keys",
        "selec 1",
        "select nothing from logs",
    ],
)  # fmt: skip
def test_a_child_answers_like_this_process(lake: LocalLake, text: str) -> None:
    assert answer(lake, text, MEMORY) == answer(lake, text, None)


def test_large_results_come_in_parts_that_are_small(lake: LocalLake) -> None:
    texts = [value.data for value in ask(lake, "select repeat('x', 100000) as s from range(500)")]
    assert texts == [("x" * 100_000,)] * 500


@pytest.mark.parametrize(
    "value", ["repeat('x', 5000000)", "range(150000)", "list_transform(range(150000), lambda x: null)"]
)
def test_a_row_is_no_larger_than_its_share_of_the_memory(lake: LocalLake, value: str) -> None:
    share = MEMORY // SHARES >> 20
    with pytest.raises(Stopped, match=f"makes a value of more than {share} MiB, its share of 128 MiB"):
        list(ask(lake, f"select {value} as a"))


LONG = [
    "select length(lpad('x', 100000000, 'y') || lpad('x', 50000000, s)) from logs",
    "select levenshtein(repeat('a', 300000), repeat('b', 300000))",
    "select count(*) from logs a, logs b, logs c, logs d where a.s || b.s = c.s || d.s || 'x'",
]
"""Most of them compute one vector for minutes, which DuckDB does not interrupt."""


@pytest.mark.parametrize("text", LONG)
def test_a_stop_ends_a_statement_within_a_vector(lake: LocalLake, temporary: Path, text: str) -> None:
    stop = Stop()
    Timer(0.3, stop.stop, [Stopped(WHY)]).start()
    began = time.monotonic()
    with pytest.raises(Stopped, match=WHY):
        list(ask(lake, text, 512 << 20, stop))
    assert time.monotonic() - began < 0.3 + PATIENCE
    assert_nothing_left(temporary)


def assert_nothing_left(temporary: Path) -> None:
    """No temporary files, and no process but the one that waits for the next statement."""
    assert list(temporary.iterdir()) == []
    assert SERVER._process is not None
    assert has_children(SERVER._process.pid, 1, PATIENCE)


SPILLING = "select * from (select hash(range) as h, repeat('x', 50) as s from range(4000000)) order by h"


def test_a_statement_may_use_all_of_its_memory_and_the_disk(lake: LocalLake, temporary: Path) -> None:
    assert ask(lake, f"select count(*) as c from ({SPILLING} limit 3000000)").one().data == (3_000_000,)
    assert_nothing_left(temporary)


def test_results_that_nobody_wants_end_the_statement(lake: LocalLake, temporary: Path) -> None:
    with ask(lake, SPILLING) as results:
        next(iter(results))
        assert list(temporary.rglob("*")) != [], "nothing is on disk, so the test shows nothing"
    assert_nothing_left(temporary)


@pytest.mark.parametrize("value", ["length(repeat('x', 500000000))", "max(length(repeat(s, 100000)))"])
def test_a_statement_has_no_more_memory_than_its_limit(lake: LocalLake, value: str) -> None:
    ask(lake, "select 1 as x").one()
    assert SERVER._process is not None
    with watching(SERVER._process.pid) as watch, pytest.raises(Stopped, match="needs more than 128 MiB of memory"):
        list(ask(lake, f"select {value} as x from logs"))
    libraries = 100 << 20
    assert watch.peak < libraries + MEMORY + (os.cpu_count() or 1) * ROOM_PER_THREAD


def test_the_server_has_one_thread_so_that_it_can_fork(lake: LocalLake) -> None:
    ask(lake, "select 1 as x").one()
    assert SERVER._process is not None
    assert len(list(Path(f"/proc/{SERVER._process.pid}/task").iterdir())) == 1


def test_a_child_that_dies_is_reported_and_the_next_statement_has_another(lake: LocalLake) -> None:
    values = iter(ask(lake, f"select s from logs, range({1 << 40})"))
    next(values)
    assert SERVER._process is not None
    for child in children(SERVER._process.pid):
        os.kill(child, signal.SIGKILL)
    with pytest.raises(Stopped, match="the process of the statement died"):
        list(values)
    assert ask(lake, "select count(*) as c from logs").one().data == (ROWS,)


def test_a_server_that_died_is_started_again_and_its_children_died_with_it(lake: LocalLake) -> None:
    values = iter(ask(lake, f"select s from logs, range({1 << 40})"))
    next(values)
    assert SERVER._process is not None
    SERVER._process.kill()
    with pytest.raises(Stopped, match="the process of the statement died"):
        list(values)
    assert ask(lake, "select count(*) as c from logs").one().data == (ROWS,)


def test_the_end_of_a_process_ends_its_children() -> None:
    server, stop = Server(), Stop()
    stop.memory = MEMORY
    with closing(server.child()) as child, stopped_by(stop):
        child.start(job("select a.range from range(1000000) a, range(1000000) b"))
        server.close()
        with pytest.raises(Stopped, match="died"):
            list(child.batches())


def job(text: str) -> Job:
    """A statement that reads nothing."""
    return Job(text, (), (), (), (), {})


def test_a_database_reads_nothing_that_is_not_in_its_job(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with closing(Database()) as database, pytest.raises(EngineFailure, match="Permission Error"):
        database.start(job(f"from read_csv('{tmp_path}/secret.csv')"))
