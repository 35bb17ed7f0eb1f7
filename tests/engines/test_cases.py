"""The cases of the language on a pool: DuckDB gives what the interpreter gives."""

from __future__ import annotations

from itertools import groupby

import pytest

import shoal
from shoal.local.lake import LocalLake
from shoal.testing.agreement import difference, outcome
from shoal.testing.queries import Case, load_cases, parse_values
from shoal.testing.tiers import IS_LONG

PARTS = 8
STEP = 1 if IS_LONG else 12
"""The quick tier takes every twelfth input."""


def inputs() -> list[tuple[str, list[Case]]]:
    """Each input that has values, with the programs that want it; those that stop before they read have no use for a
    pool, and declarations come before the source.
    """
    cases = [case for case in load_cases("language") if not case.error and case.input.strip() not in ("", "null")]
    plain = [case for case in cases if not case.program.startswith(("const ", "func ", "op ", "type ", "from "))]
    by_input = groupby(sorted(plain, key=lambda case: case.input), key=lambda case: case.input)
    return [(text, list(group)) for text, group in by_input][::STEP]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    lake = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(lake, LocalLake)
    return lake


@pytest.mark.parametrize("part", range(PARTS))
def test_duckdb_gives_what_the_interpreter_gives(lake: LocalLake, part: int) -> None:
    for number, (text, cases) in enumerate(inputs()):
        if number % PARTS != part:
            continue
        pool = f"cases{number}"
        lake.create(pool, key="k").load(parse_values(text))
        for case in cases:
            program = f"from {pool} | {case.program}"
            right = outcome(lambda: lake.query(program, engine="interp"))  # noqa: B023 - called at once
            other = outcome(lambda: lake.query(program, engine="duckdb"))  # noqa: B023
            assert difference(right, other) is None, case.name
