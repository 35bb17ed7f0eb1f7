"""Queries that would run for hours are stopped: they end at once, and leave nothing behind.

The interpreter checks the stop between two values, so its tests count checks. DuckDB works in threads of its own, so
its tests stop it from another thread, by the clock.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread, Timer

import pytest
from sqlglot import exp, parse_one

from shoal.api.options import Memory
from shoal.api.results import Results
from shoal.engines.duckdb.queries import query_batches
from shoal.engines.stopping import NEVER, Stop, current, results_stopped_by, stopped_by
from shoal.errors import ShoalError, Stopped
from shoal.local.lake import LocalLake, create_local
from shoal.testing.queries import asked_under

WIDTH, COUNT = 1000, 300
WHY = "the query was stopped by a test"
PATIENCE = 20.0
"""Seconds from a stop to the end of a query, on a busy machine."""
AFTER = 0.1
"""Seconds from the start of a query to its stop."""
CHECKS = 20_000
"""How often a query checks its stop before it is stopped: enough to fill a small memory."""
MOST_CHECKS_AFTERWARDS = 10
MUCH = "from p | over a with b=a => (over b with x=this => (over b | yield {x,y:this,s:'text of '+string(this)}))"
"""Three hundred million values."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = create_local(str(tmp_path_factory.mktemp("stopping") / "lake"))
    made.create("p", key="n")
    array = list(range(WIDTH))
    made.pool("p").load([{"n": n, "one": 1, "a": array, "s": f"s{n}" * 200} for n in range(COUNT)])
    return made


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class CountedStop(Stop):
    """Comes when it has been checked some number of times."""

    def __init__(self, checks: int) -> None:
        self.checks = 0
        self._most = checks
        self._reason: ShoalError | None = None
        super().__init__()

    @property
    def why(self) -> ShoalError | None:
        self.checks += 1
        if self.checks == self._most:
            self._reason = Stopped(WHY)
        return self._reason

    @why.setter
    def why(self, reason: ShoalError | None) -> None:
        self._reason = reason


def check_counted_stop(ask: Callable[[Stop], Results], checks: int = CHECKS) -> None:
    """A query ends within a few checks."""
    stop = CountedStop(checks)
    assert_stopped(lambda: ask(stop))
    assert checks < stop.checks <= checks + MOST_CHECKS_AFTERWARDS


def check_timed_stop(ask: Callable[[Stop], Results]) -> None:
    """A query ends in time after another thread has stopped it."""
    stop, begun = Stop(), time.monotonic()
    timer = Timer(AFTER, stop.stop, [Stopped(WHY)])
    timer.start()
    try:
        assert_stopped(lambda: ask(stop))
        assert AFTER <= time.monotonic() - begun < AFTER + PATIENCE
    finally:
        timer.cancel()


def assert_stopped(ask: Callable[[], Results]) -> None:
    with pytest.raises(ShoalError) as caught, ask() as results:
        for _ in results:
            pass
    assert isinstance(caught.value, Stopped)
    assert str(caught.value) == WHY


SMALL = Memory(sort=1 << 20, aggregate=1 << 20, fuse=1 << 20, groups=1000)
INTERPRETED = [
    "count()",
    "where false",
    "where s=='nothing'",
    "sort y",
    "sort this",
    "sort -r s, x",
    "tail 3",
    "uniq | where count > 5",
    "fuse",
    "collect(s)",
    "union(x*1000+y)",
    "count() by x, y",
    "count() by s:=s+string(x)",
    "put z:=regexp_replace(s, '(t|e|x)+', '[$1]') | where grep('never', z)",
    "explode s by string as one | where false",
    "fork (=> where x < 0 => sort y) | where false",
    "switch (case x < 0 => pass default => tail 1)",
    "top 5 x",
    "shape | tail 1",
    "put z:=count() | where z < 0",
]


@pytest.mark.parametrize("memory", [None, SMALL], ids=["roomy", "small"])
@pytest.mark.parametrize("ops", INTERPRETED)
def test_the_interpreter_stops(lake: LocalLake, temporary: Path, ops: str, memory: Memory | None) -> None:
    check_counted_stop(lambda stop: asked_under(stop, lake.query, f"{MUCH} | {ops}", engine="interp", memory=memory))
    assert_nothing_left(lake, temporary, "interp")


def assert_nothing_left(lake: LocalLake, temporary: Path, engine: str) -> None:
    """No temporary files, and the next query works."""
    assert [path for path in temporary.rglob("*") if path.is_file()] == []
    assert lake.query("from p | count()", engine=engine).one().data == COUNT


ALONE = {
    "a function that calls itself": "func f(n): ( n < 2 ? 1 : f(n-1)+f(n-2) ) from p | put z:=f(60) | where false",
    "the same while the program is compiled": "func f(n): ( n < 2 ? 1 : f(n-1)+f(n-2) ) yield f(60)",
    "a function on all elements": (
        "func f(n): ( n < 2 ? 1 : f(n-1)+f(n-2) ) func g(n): ( f(18) ) from p | yield map(a, g) | where false"
    ),
    "a query in an expression": (
        "from p | put z:=(over a with b=a | put y:=(over b with c=b | put x:=(over c | count()))) | where false"
    ),
    "a join of all with all": (
        "fork (=> from p | over a with one => (yield {one,x:this}) => from p | over a with one => (yield {one,y:this}))"
        " | join on one=one y | where x < 0"
    ),
    "texts that are far apart": (
        "from p | s:=join([s,s,s,s,s,s,s,s],'') | s:=join([s,s,s,s,s,s,s,s],'') | s:=join([s,s,s,s,s,s,s,s],'')"
        " | yield levenshtein(s, s+'x')"
    ),
    "matches of nothing in a long text": (
        "from p | s:=join([s,s,s,s,s,s,s,s],'') | s:=join([s,s,s,s,s,s,s,s],'') | s:=join([s,s,s,s,s,s,s,s],'')"
        " | yield regexp_replace(s, '', '')"
    ),
}


@pytest.mark.parametrize("program", ALONE.values(), ids=ALONE.keys())
def test_the_interpreter_stops_between_values(lake: LocalLake, temporary: Path, program: str) -> None:
    check_counted_stop(lambda stop: asked_under(stop, lake.query, program, engine="interp"), CHECKS // 10)
    assert_nothing_left(lake, temporary, "interp")


DUCKDB = {
    "from p | over a | over [this,this+1,this+2,this+3,this+4,this+5] | over [this,this*7,this*99] | count()": (),
    "func f(n): ( n < 2 ? 1 : f(n-1)+f(n-2) ) from p | put z:=f(n) | count() by z": ("put", "summarize"),
    f"{MUCH} | count()": ("over", "summarize", "yield"),
}
"""Programs, and what the interpreter does of them."""


@pytest.mark.parametrize("program", DUCKDB)
def test_duckdb_stops(lake: LocalLake, temporary: Path, program: str) -> None:
    (scan,) = lake.explain(program, engine="duckdb")
    assert (scan.engine, scan.interpreted) == ("duckdb", DUCKDB[program])
    check_timed_stop(lambda stop: asked_under(stop, lake.query, program, engine="duckdb"))
    assert_nothing_left(lake, temporary, "duckdb")


RANGES = "from range(1000000) a, range(1000000) b"


@pytest.mark.parametrize(
    "text",
    [
        f"select count(*) {RANGES} where a.range * b.range % 7 = 3",
        f"select a.range {RANGES}",
        f"select md5(b.range::text) x {RANGES} order by x",
        f"select a.range, b.range, count(*) {RANGES} group by all",
    ],
)
def test_queries_of_fragments_stop(temporary: Path, text: str) -> None:
    stop = Stop()
    Timer(AFTER, stop.stop, [Stopped(WHY)]).start()
    begun = time.monotonic()
    with pytest.raises(Stopped, match=WHY), stopped_by(stop):
        for _ in query_batches(parse_one(text, dialect="duckdb", into=exp.Select), {}):
            pass
    assert time.monotonic() - begun < AFTER + PATIENCE
    assert [path for path in temporary.rglob("*") if path.is_file()] == []


CROSS = "from p a, p b, p c, p d, p e, p f"
SQL = [
    f"select count(*) c {CROSS}",
    f"select a.s || b.s || c.s x {CROSS} order by x",
    f"select a.n, b.n, c.n, d.n, max(e.s) {CROSS} group by all",
    f"select a.s {CROSS} where a.s || b.s || c.s || d.s = 'never'",
    f"select a.s {CROSS}",
    f"select regexp_replace(a.s || b.s || c.s, '(s|1)+', 'x', 'g') x {CROSS} where x = 'never'",
    "select count(*) from range(100000000000) r where r.range % 7 = 9",
    "with recursive r as (select 1 x union all select x + 1 from r) select count(*) from r",
]


@pytest.mark.parametrize("statement", SQL)
def test_sql_stops(lake: LocalLake, temporary: Path, statement: str) -> None:
    check_timed_stop(lambda stop: asked_under(stop, lake.sql, statement, engine="duckdb"))
    assert_nothing_left(lake, temporary, "duckdb")


def test_what_is_stopped_before_it_begins_does_not_begin(lake: LocalLake) -> None:
    stop = Stop()
    stop.stop(Stopped(WHY))
    asks: list[Callable[[], Results]] = [
        lambda: asked_under(stop, lake.query, "from p", engine="interp"),
        lambda: asked_under(stop, lake.query, "from p", engine="duckdb"),
        lambda: asked_under(stop, lake.sql, "select * from p"),
    ]
    for ask in asks:
        with pytest.raises(Stopped, match=WHY), ask() as results:
            list(results)


def test_the_first_reason_counts_and_each_that_is_raised_is_a_new_one() -> None:
    stop = Stop()
    stop.check()
    stop.stop(Stopped("first"))
    stop.stop(Stopped("second"))
    raised = []
    for _ in range(2):
        with pytest.raises(Stopped, match="first") as caught:
            stop.check()
        raised.append(caught.value)
    assert raised[0] is not raised[1]


def test_callbacks_are_called_once_and_only_within() -> None:
    stop, called = Stop(), []
    with stop.on_stop(lambda: called.append("before")):
        pass
    with stop.on_stop(lambda: called.append("within")):
        stop.stop(Stopped(WHY))
        stop.stop(Stopped(WHY))
    with stop.on_stop(lambda: called.append("late")):
        assert called == ["within", "late"]
    assert called == ["within", "late"]


def test_a_cancellation_that_is_ignored_is_repeated_until_the_work_ends() -> None:
    stop, often = Stop(), Event()
    calls: list[int] = []

    def cancel() -> None:
        calls.append(1)
        if len(calls) == 3:
            often.set()
        raise RuntimeError("there is nothing to cancel yet")

    stopper = Thread(target=stop.stop, args=(Stopped(WHY),))
    before = set(threading.enumerate())
    with stop.cancelling(cancel):
        stopper.start()
        assert often.wait(60)
        stopper.join()
        assert set(threading.enumerate()) - before, "nobody repeats the cancellation"
    assert set(threading.enumerate()) <= before, "the cancellation is repeated after the work"


def test_the_stop_is_known_to_what_computes_values_and_not_to_who_takes_them() -> None:
    stop = Stop()

    def values() -> Iterator[Stop]:
        yield current()
        yield current()

    seen = []
    for found in results_stopped_by(stop, values()):
        seen.append(found)
        assert current() is NEVER
    assert seen == [stop, stop]
    with stopped_by(stop):
        assert current() is stop
    assert current() is NEVER


def test_closing_results_closes_what_computes_them() -> None:
    closed = []

    def values() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    made = results_stopped_by(Stop(), values())
    assert next(made) == 1
    made.close()  # type: ignore[attr-defined]
    assert closed == [True]
