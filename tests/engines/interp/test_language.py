"""The interpreter on the cases of the language."""

from __future__ import annotations

import pytest

from shoal.testing.queries import Case, answer, load_cases

CASES = load_cases("language")


@pytest.mark.parametrize("case", CASES, ids=[case.program for case in CASES])
def test_case(case: Case) -> None:
    assert answer(case.program, case.input) == case.output
