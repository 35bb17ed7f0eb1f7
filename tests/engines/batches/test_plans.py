"""Batches by every way give what the interpreter makes of their values, in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from shoal.engines.batches import runs
from shoal.engines.batches.plans import BatchPlan, Fields, Way
from shoal.engines.interp.engine import evaluate, run_program
from shoal.engines.interp.environment import Run
from shoal.errors import ShoalError
from shoal.formats.columns.batches import Piece, batch_of
from shoal.lang import plan
from shoal.lang.compile import compile_program
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.planner.file_scans import depends_on_values_alone, first_stage
from shoal.planner.files import runs_plans
from shoal.testing.agreement import Questions, Rows, difference, is_ordered, outcome

WAYS: tuple[tuple[Way, ...], ...] = (("columns",), ("sql",), ("columns", "sql"), ())


def pieces(values: Sequence[Value], dice: random.Random) -> Iterator[Piece]:
    """Values one by one, and in batches of different sizes."""
    start = 0
    while start < len(values):
        size = dice.choice((1, 50, 300))
        some = values[start : start + size]
        yield from some if size == 1 else (batch_of(some),)
        start += size


def in_batches(
    program: plan.Program, values: Sequence[Value], ways: Sequence[Way], seed: int = 0
) -> list[Value] | None:
    """What comes out of a program; None if there is nothing to do with batches."""
    scan, *ops = program.body
    assert isinstance(scan, plan.DefaultScan)
    staged = first_stage(scan, tuple(ops), program.funcs) if depends_on_values_alone(program) else None
    if staged is None:
        return None

    def opened(fields: Fields) -> Iterator[Piece]:
        return pieces(values, random.Random(seed))

    body = (plan.Physical(BatchPlan(staged[0], opened, ways)), *staged[1])
    run = Run()
    runs_plans(run, run.open_scan)
    return list(run_program(plan.Program(body, program.funcs, program.types), (), run))


def check_agreement(seed: int, ways: Sequence[Way]) -> int:
    """How many programs were compared."""
    dice = random.Random(seed)
    rows, questions = Rows(seed).rows(40), Questions(seed)
    values = dice.choices(rows, k=700)
    compared = 0
    while compared < 4:
        text = questions.question("other")
        try:
            program = compile_program(text, evaluate)
        except ShoalError:
            continue
        other = outcome(lambda: in_batches(program, values, ways, seed) or [])  # noqa: B023 - called at once
        if other == []:
            continue
        right = outcome(lambda: run_program(program, iter(values), Run()))  # noqa: B023
        assert difference(right, other, is_ordered(text)) is None, text
        compared += 1
    return compared


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches are worth a step."""
    monkeypatch.setattr(runs, "_ROWS", 150)


@pytest.mark.parametrize("ways", WAYS, ids=",".join)
@pytest.mark.parametrize("seed", range(8))
def test_random_programs_agree_with_the_interpreter(seed: int, ways: Sequence[Way]) -> None:
    assert check_agreement(seed, ways)


@pytest.mark.long
@pytest.mark.parametrize("ways", WAYS, ids=",".join)
def test_many_random_programs_agree_with_the_interpreter(ways: Sequence[Way]) -> None:
    assert sum(check_agreement(seed, ways) for seed in range(100, 250)) == 600


ROWS = [
    parse_value(
        f'{{host:"host-{i * 7 % 11}",status:{(200, 404, 500)[i * i % 3]},took:{i}.5,msg:"text {i}",r:{{x:{i}}}}}'
    )
    for i in range(400)
] + [parse_value(text) for text in ('{host:5,took:"x"}', "{}", "17", 'error("bad")', "null({host:string})")] * 20
PROGRAMS = (
    "count()",
    "count() by host",
    "status>=404 | count() by status, host",
    "sum(took), min(took), max(took), avg(took) by status",
    "sum(status), n:=count(took), any(msg) by host",
    "count() where took>100 by host",
    "took>=390",
    "r.x<5 and host!='host-3' | cut msg",
    "TEXT 39 | cut msg",
    "union(status), dcount(host), fuse(r)",
    "count() by typeof(this), len(host)",
    "has(status) | count() by status | sort -r count, status | head 2",
)


@pytest.mark.parametrize("ways", WAYS, ids=",".join)
@pytest.mark.parametrize("text", PROGRAMS)
def test_results_come_in_the_order_of_the_interpreter(text: str, ways: Sequence[Way]) -> None:
    program = compile_program(text, evaluate)
    right = list(map(format_value, run_program(program, iter(ROWS), Run())))
    other = list(map(format_value, in_batches(program, ROWS, ways) or ()))
    if "sql" in ways and "by" in text:
        right, other = sorted(right), sorted(other)  # groups are in no order there
    assert other == right


def test_the_first_batch_that_a_way_does_not_suit_ends_its_use() -> None:
    """Here each row is distinct from the second batch on."""
    values = [parse_value("{a:1}")] * 300 + [parse_value(f"{{a:{i}}}") for i in range(2000)]
    program = compile_program("count() by b:=a+1 | count()", evaluate)
    assert list(map(format_value, in_batches(program, values, ("columns",)) or ())) == ["2000(uint64)"]


def test_a_program_that_only_passes_values_on_has_no_stage() -> None:
    for text in ("pass", "cut a", "sort a | head 3", "put b:=count()", "where count()>3"):
        assert in_batches(compile_program(text, evaluate), ROWS, ("columns",)) is None


def test_values_that_depend_on_more_than_a_value_stay_with_the_interpreter() -> None:
    for text in ("count() by now()", "where ksuid()!=null", "count() by typename('port')"):
        assert in_batches(compile_program(text, evaluate), ROWS, ("columns",)) is None
