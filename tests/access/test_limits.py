"""Limits of queries: time, rows and memory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from threading import Timer
from threading import enumerate as enumerate_threads

import pytest

from shoal.access.limits import Limits, limited
from shoal.engines.stopping import Stop
from shoal.errors import InvalidInput, Stopped
from shoal.local.lake import LocalLake, create_local
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing.queries import asked_under

COUNT, WIDTH = 400, 100
MIB = 1 << 20
PATIENCE = 20.0
"""Seconds until a query ends that was stopped, on a busy machine."""
MUCH = "from p | over a with b=a => (over b with x=this => (over b | yield {x,y:this}))"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = create_local(str(tmp_path_factory.mktemp("limits") / "lake"))
    array = list(range(WIDTH))
    made.create("p", key="n").load([{"n": n, "one": 1, "s": f"s{n}" * 100, "a": array} for n in range(COUNT)])
    return made


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def asked(lake: LocalLake, program: str, engine: str, limits: Limits) -> list[Value]:
    stop = Stop()
    with limited(limits, stop, lambda: asked_under(stop, lake.query, program, engine=engine)) as results:
        return list(results)


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_a_query_that_takes_too_long_is_stopped(lake: LocalLake, engine: str) -> None:
    begun = time.monotonic()
    with pytest.raises(Stopped) as caught:
        asked(lake, f"{MUCH} | count()", engine, Limits(seconds=0.3))
    told = "the query took longer than 0.3s (limit of the service; narrow it, or ask for less)"
    assert str(caught.value) == told
    assert 0.3 <= time.monotonic() - begun < PATIENCE


def test_time_counts_from_the_question_on(lake: LocalLake) -> None:
    endless = "func f(n): ( n < 2 ? 1 : f(n-1)+f(n-2) ) yield f(60)"
    with pytest.raises(Stopped, match=r"longer than 0\.2s"):
        asked(lake, endless, "interp", Limits(seconds=0.2))


def test_a_query_that_ends_in_time_is_not_stopped_later(lake: LocalLake) -> None:
    stop = Stop()
    with limited(Limits(seconds=1), stop, lambda: asked_under(stop, lake.query, "from p | head 1")) as results:
        assert len(list(results)) == 1
    with pytest.raises(InvalidInput):
        limited(Limits(seconds=0.3), stop, lambda: asked_under(stop, lake.query, "from p | nonsense(1)"))
    for timer in [thread for thread in enumerate_threads() if isinstance(thread, Timer)]:
        timer.join(5)  # at once if it was cancelled, else when it fires
    assert stop.why is None


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_a_query_gives_no_more_values_than_it_may(lake: LocalLake, engine: str) -> None:
    assert len(asked(lake, "from p | head 5", engine, Limits(rows=5))) == 5
    with pytest.raises(Stopped):
        asked(lake, "from p | head 6", engine, Limits(rows=5))
    with pytest.raises(Stopped) as caught:
        asked(lake, "from p", engine, Limits(rows=5))
    assert (
        str(caught.value) == "the query returns more than 5 values (limit of the service; narrow it, or ask for less)"
    )


SPILLING = [
    "from p | head 200 | over a with s => (yield {s,x:this}) | sort x, s | tail 2",
    "from p | head 100 | over a with s => (yield {s,x:this}) | count() by x, s | count()",
    "from p | over a with s => (yield {s,x:this}) | fuse | tail 1",
    "from p | over a with s => (yield {s,x:this}) | tail 30000 | count()",
    "from p | over a with s => (yield {s,x:this}) | fork (=> sort s, x | head 1 => tail 1) | sort x",
    "fork (=> from p | cut one, s | head 20 => from p | cut one, n) | join on one=one n | count()",
    "from p | collect(s) by m:=n%100 | put c:=len(collect) | sum(c)",
]


@pytest.mark.parametrize("program", SPILLING)
def test_what_can_go_to_disk_does_and_the_answer_is_the_same(lake: LocalLake, temporary: Path, program: str) -> None:
    free = list(lake.query(program, engine="interp"))
    assert asked(lake, program, "interp", Limits(memory=4 * MIB)) == free
    assert [path for path in temporary.rglob("*") if path.is_file()] == []


RUNNING = "from p | put c:=collect(s+s+s+s+s+s+s+s+s+s+s+s+s+s+s+s+s+s+s+s) | where n < 0"
"""What it has collected is a value after each row."""
HOLDING = [
    "from p | over a with s => (yield s+string(this)) | collect(this)",
    "from p | over a with s => (yield s+string(this)) | union(this)",
    "from p | over a with s => (yield {k:s+string(this)}) | collect_map(|{k:1}|)",
    RUNNING,
]


@pytest.mark.parametrize("program", HOLDING)
def test_what_cannot_go_to_disk_fails_and_nothing_is_left_out_silently(lake: LocalLake, program: str) -> None:
    with pytest.raises(Stopped) as caught:
        asked(lake, program, "interp", Limits(memory=4 * MIB))
    remedy = "(limit of the service; narrow it, or ask for less)"
    held = f"the query needs more than 4 MiB of memory {remedy}"
    large = f"the query makes a value of more than 0.25 MiB, its share of 4 MiB {remedy}"
    assert str(caught.value) == (large if program == RUNNING else held)


def test_an_array_that_would_be_too_large_is_not_made(lake: LocalLake) -> None:
    more = "over a with b=a | over b with b=b => (over b with b=b => (over b))"
    made = lake.query(f"from p | head 1 | put z:=({more})", engine="interp").one()
    assert "value too large: it has more than 2000000 parts" in format_value(made)


STATEMENTS = [
    "select string_agg(a.s || b.n, '') x from p a, p b",
    "select list(a.s || b.n) x from p a, p b",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_sql_holds_no_more_than_it_may(lake: LocalLake, statement: str) -> None:
    stop = Stop()
    with pytest.raises(Stopped, match="needs more than 40 MiB of memory"):
        list(limited(Limits(memory=40 * MIB), stop, lambda: asked_under(stop, lake.sql, statement, engine="duckdb")))


def test_sql_goes_to_disk(lake: LocalLake, temporary: Path) -> None:
    stop = Stop()
    statement = "select a.s || b.n x from p a, p b order by x"
    results = limited(Limits(memory=100 * MIB), stop, lambda: asked_under(stop, lake.sql, statement, engine="duckdb"))
    assert sum(1 for _ in results) == COUNT * COUNT
    assert [path for path in temporary.rglob("*") if path.is_file()] == []


def test_duckdb_answers_alike_with_little_memory(lake: LocalLake) -> None:
    program = "from p | over a | sort this | tail 3"
    limits = Limits(memory=60 * MIB)
    first = asked(lake, program, "duckdb", limits)
    assert first == asked(lake, program, "duckdb", limits) == list(lake.query(program, engine="interp"))
