"""The interpreter on the cases of the language."""

from __future__ import annotations

import pytest

from shoal.errors import ShoalError
from shoal.testing.queries import Case, answer, load_cases

CASES = load_cases("language")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case) -> None:
    if case.error:
        with pytest.raises(ShoalError) as caught:
            answer(case.program, case.input)
        assert str(caught.value) == case.error
    else:
        assert answer(case.program, case.input) == case.output
