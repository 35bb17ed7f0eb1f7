"""Every engine gives what the interpreter gives: on programs by chance over mixed shapes, and on the public cases."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.errors import InvalidInput
from shoal.local.lake import LocalLake
from shoal.testing.agreement import Questions, Rows, difference, is_ordered, outcome
from shoal.testing.conformance import ABSENT, load
from shoal.testing.queries import parse_values
from shoal.testing.tiers import IS_LONG

POOLS = 500 if IS_LONG else 14
QUESTIONS = 40
"""For each pool."""
KEYS = ("a", "ts", "k:desc", "s")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(made, LocalLake)
    return made


@pytest.mark.parametrize("seed", range(POOLS))
def test_programs_by_chance(lake: LocalLake, seed: int) -> None:
    pool = lake.create(f"chance{seed}", key=KEYS[seed % len(KEYS)])
    for part in range(1 + seed % 3):
        pool.load(Rows(seed * 10 + part).rows(40))
    lake.create(f"other{seed}", key="id").load(Rows(seed * 10).rows(15))
    for number in range(QUESTIONS):
        program = f"from chance{seed} | {Questions(seed * QUESTIONS + number).question(f'other{seed}')}"
        right = outcome(lambda: lake.query(program, engine="interp"))  # noqa: B023 - called at once
        found = outcome(lambda: lake.query(program, engine="duckdb"))  # noqa: B023
        assert difference(right, found, is_ordered(program)) is None, program


CASES = [case for case in load("inproc") if case.get("input")]


@pytest.mark.skipif(not CASES, reason=ABSENT)
@pytest.mark.parametrize("part", range(8))
def test_programs_of_the_public_cases(lake: LocalLake, part: int, tmp_path: Path) -> None:
    ran = 0
    for number, case in enumerate(CASES):
        if number % 8 != part:
            continue
        try:
            values = parse_values(case["input"])
            lake.create(f"public{number}", key="ts").load(values)
        except InvalidInput:
            continue  # not ZSON
        program = f"from public{number} | {case['zed']}"
        right = outcome(lambda: lake.query(program, engine="interp"))  # noqa: B023 - called at once
        found = outcome(lambda: lake.query(program, engine="duckdb"))  # noqa: B023
        assert difference(right, found) is None, program
        ran += 1
    assert ran
