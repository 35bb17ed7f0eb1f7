"""A statement that is asked again is not planned again, and its answer is never older than the lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

import shoal
from shoal.access.view import VisibleLake
from shoal.engines.duckdb import sandbox
from shoal.engines.stopping import Stop
from shoal.errors import CorruptData, InvalidInput, NotFound, ShoalError
from shoal.lake.lake import Lake
from shoal.local.executor import whole
from shoal.local.lake import LocalLake
from shoal.planner import statement_plans
from shoal.planner.lake_query import ask_sql

COUNT = "select count(*) as n, sum(k) as total from p"


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    made = shoal.create(tmp_path / "lake")
    assert isinstance(made, LocalLake)
    made.create("p", key="k").load([{"k": 1}])
    return made


@pytest.fixture
def planned() -> Iterator[list[int]]:
    """An entry for each statement that was planned."""
    found: list[int] = []
    plan = statement_plans._Planner.plan

    def counted(self, statement, engine, warn):  # type: ignore[no-untyped-def]
        found.append(len(statement.uses))
        return plan(self, statement, engine, warn)

    with patch.object(statement_plans._Planner, "plan", counted):
        yield found


def ask(lake: LocalLake, text: str = COUNT) -> list[object]:
    return lake.sql(text).to_list()


def test_it_is_planned_once_as_long_as_nothing_changes(lake: LocalLake, planned: list[int]) -> None:
    for _ in range(3):
        assert ask(lake) == [{"n": 1, "total": 1}]
    assert planned == [1]


def test_its_texts_are_written_once(lake: LocalLake) -> None:
    with patch.object(sandbox.TableQuery, "_compiled", autospec=True, side_effect=sandbox.TableQuery._compiled) as made:
        for _ in range(3):
            assert ask(lake) == [{"n": 1, "total": 1}]
    assert made.call_count == 1


def test_whatever_changes_is_seen(lake: LocalLake, planned: list[int]) -> None:
    pool = lake.pool("p")
    assert ask(lake) == [{"n": 1, "total": 1}]
    pool.load([{"k": 2}])
    assert ask(lake) == [{"n": 2, "total": 3}]
    elsewhere = LocalLake(Lake(lake.root.store, lake.root.info))
    elsewhere.pool("p").load([{"k": 3}])
    assert ask(lake) == [{"n": 3, "total": 6}]
    pool.delete(where="k == 2")
    assert ask(lake) == [{"n": 2, "total": 4}]
    lake.rename("p", "q")
    with pytest.raises(NotFound, match="p: pool not found"):
        ask(lake)
    lake.create("p", key="k").load([{"k": 10}])
    assert ask(lake) == [{"n": 1, "total": 10}]
    lake.drop("p")
    with pytest.raises(NotFound, match="p: pool not found"):
        ask(lake)
    assert len(planned) == 7


def test_a_column_that_gets_another_type_is_seen(lake: LocalLake) -> None:
    text = "select k from p order by k"
    assert ask(lake, text) == [{"k": 1}]
    lake.pool("p").load([{"k": "one"}])
    assert ask(lake, text) == [{"k": "1"}, {"k": "one"}]


def test_any_of_several_pools_may_change(lake: LocalLake) -> None:
    lake.create("q", key="k").load([{"k": 1}])
    text = "select count(*) as n from p join q using (k)"
    assert ask(lake, text) == [{"n": 1}]
    lake.pool("q").load([{"k": 1}])
    assert ask(lake, text) == [{"n": 2}]
    lake.pool("p").load([{"k": 1}])
    assert ask(lake, text) == [{"n": 4}]


def test_branches_and_tags_that_move_are_seen(lake: LocalLake) -> None:
    pool = lake.pool("p")
    branch = pool.create_branch("dev")
    pool.create_tag("v")
    on_branch, on_tag = 'select count(*) as n from "p@dev"', 'select count(*) as n from "p@v"'
    assert ask(lake, on_branch) == ask(lake, on_tag) == [{"n": 1}]
    branch.load([{"k": 2}])
    assert ask(lake, on_branch) == [{"n": 2}]
    pool.drop_branch("dev")
    with pytest.raises(NotFound):
        ask(lake, on_branch)
    pool.create_branch("dev")
    assert ask(lake, on_branch) == [{"n": 1}]
    pool.load([{"k": 3}])
    pool.drop_tag("v")
    pool.create_tag("v")
    assert ask(lake, on_tag) == [{"n": 2}]


def test_a_time_that_has_not_come_is_not_fixed(lake: LocalLake) -> None:
    text = 'select count(*) as n from "p@2200-01-01T00:00:00Z"'
    assert ask(lake, text) == [{"n": 1}]
    lake.pool("p").load([{"k": 2}])
    assert ask(lake, text) == [{"n": 2}]


def test_a_commit_that_a_vacuum_took_is_planned_again(lake: LocalLake, planned: list[int]) -> None:
    pool = lake.pool("p")
    pool.create_branch("dev").load([{"k": 2}])
    commit = next(iter(pool.branch("dev").log())).id
    text = f'select count(*) as n from "p@{commit}"'
    assert ask(lake, text) == [{"n": 2}]
    pool.drop_branch("dev")
    pool.vacuum(grace=0)
    for _ in range(2):
        with pytest.raises(ShoalError):
            ask(lake, text)
    assert len(planned) > 1


def test_a_warning_of_purged_data_comes_each_time(lake: LocalLake) -> None:
    pool = lake.pool("p")
    (o,) = pool.objects()
    pool.load([{"k": 2}])
    pool.delete([o.id])
    before = [c.id for c in pool.log()][1]
    text = f'select count(*) as n from "p@{before}"'
    assert ask(lake, text) == [{"n": 2}]
    pool.purge([o.id])
    assert ask(lake, text) == [{"n": 1}]  # nobody listens, and the next one does
    for _ in range(2):
        warnings: list[str] = []
        assert lake.sql(text, on_warning=warnings.append).to_list() == [{"n": 1}]
        assert len(warnings) == 1


def test_engines_have_plans_of_their_own(lake: LocalLake, planned: list[int]) -> None:
    for engine in ("duckdb", "auto", "duckdb", None):
        assert lake.sql(COUNT, engine=engine).to_list() == [{"n": 1, "total": 1}]
    assert len(planned) == 2
    with pytest.raises(InvalidInput, match="does not speak SQL"):
        lake.sql(COUNT, engine="interp")


def test_callers_who_see_other_pools_do_not_share_plans(lake: LocalLake) -> None:
    visible = {lake.pool("p").id}
    ann = LocalLake(VisibleLake(whole(lake), lambda ident: ident in visible, lambda ident, name: None))
    bob = LocalLake(VisibleLake(whole(lake), lambda ident: False, lambda ident, name: None))
    for _ in range(2):
        assert ask(lake) == ask(ann) == [{"n": 1, "total": 1}]
        with pytest.raises(NotFound, match=r"^p: pool not found"):
            ask(bob)
    visible.clear()  # in the same view: what was granted is taken back
    with pytest.raises(NotFound, match=r"^p: pool not found"):
        ask(ann)
    assert ask(lake) == [{"n": 1, "total": 1}]


def test_a_pool_of_a_similar_name_that_appears_is_seen(lake: LocalLake) -> None:
    visible = {lake.pool("p").id}
    lake.create("P", key="k")
    view = LocalLake(VisibleLake(whole(lake), lambda ident: ident in visible, lambda ident, name: None))
    text = "select count(*) as n from p"
    assert ask(view, text) == [{"n": 1}]
    visible.clear()
    visible.add(lake.pool("P").id)
    assert ask(view, text) == [{"n": 0}]
    visible.add(lake.pool("p").id)
    assert ask(view, text) == [{"n": 1}]


def test_limits_are_those_of_each_run(lake: LocalLake) -> None:
    limited = Stop()
    limited.memory = 256 << 20
    runs: list[type] = []
    execution = sandbox._execution

    def noted(job, is_trusted):  # type: ignore[no-untyped-def]
        made = execution(job, is_trusted)
        runs.append(type(made))
        return made

    with patch.object(sandbox, "_execution", noted):
        for stop in (None, limited, None, limited):
            results = lake.sql(COUNT) if stop is None else ask_sql(lake.root, COUNT, None, None, stop)
            assert results.to_list() == [{"n": 1, "total": 1}]
    assert runs[0] is runs[2] is not runs[1]
    assert runs[1] is runs[3]


def test_damage_to_a_file_is_told_each_time(lake: LocalLake, tmp_path: Path) -> None:
    assert ask(lake) == [{"n": 1, "total": 1}]
    (file,) = (tmp_path / "lake" / lake.pool("p").id / "data").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    for _ in range(2):
        with pytest.raises(CorruptData):
            ask(lake)
    file.write_bytes(content)
    assert ask(lake) == [{"n": 1, "total": 1}]
    file.unlink()
    with pytest.raises(CorruptData):
        ask(lake)


def test_rows_in_memory_are_read_for_each_run(planned: list[int]) -> None:
    lake = shoal.create("memory://")
    lake.create("p", key="k").load([{"k": 1}])
    for _ in range(2):
        assert lake.sql(COUNT).to_list() == [{"n": 1, "total": 1}]
    lake.pool("p").load([{"k": 2}])
    assert lake.sql(COUNT).to_list() == [{"n": 2, "total": 3}]
    assert len(planned) == 2


def test_an_invalid_statement_is_explained_each_time(lake: LocalLake) -> None:
    for _ in range(2):
        with pytest.raises(InvalidInput, match='no column is named "kk"'):
            ask(lake, "select kk from p")
    assert ask(lake) == [{"n": 1, "total": 1}]


def test_a_plan_of_very_many_objects_is_not_kept(
    lake: LocalLake, planned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement_plans, "MOST_SOURCES", 0)
    for _ in range(2):
        assert ask(lake) == [{"n": 1, "total": 1}]
    assert len(planned) == 2
