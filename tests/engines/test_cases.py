"""The cases of the language on a pool: DuckDB gives what the interpreter gives."""

from __future__ import annotations

import pytest

import shoal
from shoal.local.lake import LocalLake
from shoal.testing.agreement import cases_of_pools, differing_cases
from shoal.testing.tiers import IS_LONG

PARTS = 8
STEP = 1 if IS_LONG else 12
"""The quick tier takes every twelfth input."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    lake = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(lake, LocalLake)
    return lake


@pytest.mark.parametrize("part", range(PARTS))
def test_duckdb_gives_what_the_interpreter_gives(lake: LocalLake, part: int) -> None:
    assert differing_cases(lake, cases_of_pools()[::STEP][part::PARTS], "duckdb") == []
