"""A query that is asked again is not compiled again, and is never older than the lake."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

import shoal
from shoal.errors import ShoalError
from shoal.lake.lake import Lake, open_lake
from shoal.lang.compile import compile_source
from shoal.local.executor import whole
from shoal.local.lake import LocalLake
from shoal.model.literals import format_time
from shoal.model.text import format_value
from shoal.planner import execute
from shoal.testing.clocks import DAY, Machine


@pytest.fixture
def lake() -> LocalLake:
    made = shoal.create("memory://")
    assert isinstance(made, LocalLake)
    made.create("p", key="k").load([{"k": 1}])
    return made


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """The programs that were compiled."""
    found: list[str] = []

    def counted(source, evaluate, catalog):  # type: ignore[no-untyped-def]
        found.append(source.text)
        return compile_source(source, evaluate, catalog)

    with patch.object(execute, "compile_source", counted):
        yield found


def ask(lake: LocalLake, program: str, engine: str = "duckdb") -> list[str]:
    return [format_value(v) for v in lake.query(program, engine=engine)]


@pytest.mark.parametrize("engine", ["interp", "duckdb", "auto"])
def test_it_is_compiled_once_as_long_as_nothing_changes(lake: LocalLake, compiled: list[str], engine: str) -> None:
    for _ in range(3):
        assert ask(lake, "from p | sum(k)", engine) == ["1"]
    assert compiled == ["from p | sum(k)"]


def test_whatever_changes_is_seen(lake: LocalLake, compiled: list[str]) -> None:
    pool = lake.pool("p")
    program = "from p | count(), sum(k)"
    assert ask(lake, program) == ["{count:1(uint64),sum:1}"]
    pool.load([{"k": 2}])
    assert ask(lake, program) == ["{count:2(uint64),sum:3}"]
    shoal_elsewhere = LocalLake(Lake(lake.root.store, lake.root.info))
    shoal_elsewhere.pool("p").load([{"k": 3}])
    assert ask(lake, program) == ["{count:3(uint64),sum:6}"]
    pool.delete(where="k == 2")
    assert ask(lake, program) == ["{count:2(uint64),sum:4}"]
    lake.rename("p", "q")
    lake.create("p", key="k").load([{"k": 10}])
    assert ask(lake, program) == ["{count:1(uint64),sum:10}"]
    assert len(compiled) == 5


def test_a_pool_that_was_dropped_is_not_there(lake: LocalLake) -> None:
    assert ask(lake, "from p | count()") == ["1(uint64)"]
    lake.drop("p")
    with pytest.raises(ShoalError, match="p: pool not found"):
        ask(lake, "from p | count()")


def test_a_pattern_of_pools_finds_new_ones(lake: LocalLake) -> None:
    assert ask(lake, "from * | count()") == ["1(uint64)"]
    lake.create("q", key="k").load([{"k": 1}, {"k": 2}])
    assert ask(lake, "from * | count()") == ["3(uint64)"]


def test_transactions_see_their_own(lake: LocalLake) -> None:
    assert ask(lake, "from p | count()") == ["1(uint64)"]
    with lake.pool("p").transaction() as change:
        change.load([{"k": 5}])
        assert [format_value(v) for v in change.query("from p | count()")] == ["2(uint64)"]
        assert ask(lake, "from p | count()") == ["1(uint64)"]
    assert ask(lake, "from p | count()") == ["2(uint64)"]


def test_a_warning_of_purged_data_comes_each_time(lake: LocalLake) -> None:
    pool = lake.pool("p")
    pool.create_branch("old")
    (o,) = pool.objects()
    pool.load([{"k": 2}])
    pool.delete([o.id])
    before = [c.id for c in pool.log()][1]
    pool.drop_branch("old")
    pool.purge([o.id])
    for _ in range(2):
        warnings: list[str] = []
        found = lake.query(f"from p@{before} | count()", engine="duckdb", on_warning=warnings.append)
        assert [format_value(v) for v in found] == ["1(uint64)"]
        assert len(warnings) == 1


def test_a_warning_of_a_wrong_clock_comes_each_time_in_both_languages(
    lake: LocalLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    for module in ("shoal.lake.clocks", "shoal.lake.journal", "shoal.storage.memory"):
        monkeypatch.setattr(f"{module}.time", machine)
    lake = LocalLake(open_lake(whole(lake).store))
    machine.ahead = 30 * DAY
    lake.pool("p").load([{"k": 2}])
    machine.ahead = 0
    now = format_time(machine.truth)
    for _ in range(2):
        warnings: list[str] = []
        found = lake.query(f"from p@{now} | count()", engine="duckdb", on_warning=warnings.append)
        assert [format_value(v) for v in found] == ["1(uint64)"]
        assert len(warnings) == 1
        assert warnings[0].startswith(f"p@{now}: the next commit is dated")
        list(lake.sql(f'select count(*) from "p@{now}"', on_warning=warnings.append))
        assert warnings == warnings[:1] * 2


def test_the_least_recent_make_room(lake: LocalLake, compiled: list[str]) -> None:
    for number in range(100):
        ask(lake, f"from p | k == {number} | count()")
    compiled.clear()
    ask(lake, "from p | k == 99 | count()")
    ask(lake, "from p | k == 0 | count()")
    assert compiled == ["from p | k == 0 | count()"]
