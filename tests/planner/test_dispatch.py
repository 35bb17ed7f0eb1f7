"""Physical plans: typed values that stand in the program, pickle, and know nothing of the caller they were made for."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import shoal
from shoal.lang import plan
from shoal.lang.walk import nodes
from shoal.local.lake import LocalLake
from shoal.model.text import format_value
from shoal.planner.dispatch import Dispatched
from shoal.planner.execute import Question, compile_question, explain, prepare, run_dispatched

PROGRAMS = [
    "from p | where n > 2",
    "from p | sum(n), count() by s | sort s",
    "from p | sort -r n | head 3",
    "from p | tail 2",
    "from p | fuse",
    "from p | collect(n)",
    "from p | join (from q) on n=n right:=m | sort n",
]


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    lake = shoal.create(str(tmp_path / "lake"))
    assert isinstance(lake, LocalLake)
    lake.create("p", key="n").load([{"n": i, "s": "ab"[i % 2]} for i in range(10)])
    lake.create("q", key="n").load([{"n": i, "m": i * i} for i in range(5)])
    return lake


def physical_plans(dispatched: Dispatched) -> list[plan.Physical]:
    return [node for node in nodes(dispatched.program) if isinstance(node, plan.Physical)]


def answers(lake: LocalLake, question: Question, dispatched: Dispatched) -> list[str]:
    return [format_value(value) for value in run_dispatched(lake.root, question, dispatched)]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_physical_plan_pickles(lake: LocalLake, program: str, engine: str) -> None:
    question = Question(program, engine=engine)
    dispatched = prepare(lake.root, question)
    copied: Dispatched = pickle.loads(pickle.dumps(dispatched))
    assert len(physical_plans(copied)) == len(physical_plans(dispatched)) > 0
    assert [d.queries for d in copied.decisions] == [d.queries for d in dispatched.decisions]
    if engine == "duckdb":
        expected = [format_value(value) for value in lake.query(program, engine="interp")]
        assert answers(lake, question, copied) == expected


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_physical_plan_names_its_engine(lake: LocalLake, engine: str) -> None:
    (decision,) = explain(lake.root, Question("from p | where n > 2", engine=engine))
    assert decision.engine == engine
    assert decision.plan is not None
    assert decision.plan.engine == engine
    assert decision.queries == decision.plan.explain() != ()


def test_the_interpreter_has_no_physical_plan(lake: LocalLake) -> None:
    question = Question("from p | where n > 2", engine="interp")
    (decision,) = explain(lake.root, question)
    assert (decision.engine, decision.plan, decision.queries) == ("interp", None, ())
    assert prepare(lake.root, question).program == compile_question(lake.root, question)


def test_a_cached_plan_does_not_keep_the_callbacks_of_its_first_caller(lake: LocalLake) -> None:
    class Caller:
        def warn(self, text: str) -> None:
            raise AssertionError(text)

    question = Question("from p | count()", engine="duckdb", on_warning=Caller().warn)
    dispatched = prepare(lake.root, question)
    assert prepare(lake.root, Question("from p | count()", engine="duckdb")) is dispatched
    assert b"Caller" not in pickle.dumps(dispatched)
