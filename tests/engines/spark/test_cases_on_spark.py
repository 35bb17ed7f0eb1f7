"""The cases of the language on a pool: tasks of Spark give what the interpreter gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.testing.agreement import cases_of_pools, differing_cases
from shoal.testing.tiers import IS_LONG

STEP = 1 if IS_LONG else 60
"""The quick tier takes every sixtieth input."""


@pytest.mark.timeout(3_600 if IS_LONG else 300)
def test_tasks_give_what_the_interpreter_gives(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_all, tmp_path)


def check_all(directory: Path) -> None:
    """All in one lake."""
    lake = shoal.create(directory / "lake")
    assert differing_cases(lake, cases_of_pools()[::STEP], "spark") == []
