"""The public cases of a program, an input and an output."""

from __future__ import annotations

import pytest

from shoal.testing.conformance import ABSENT, Case, exceptions, load, run, runner

CASES = load("inproc")


@pytest.mark.skipif(not CASES, reason=ABSENT)
def test_nearly_all_cases_are_expected_to_pass() -> None:
    names = {case["name"] for case in CASES}
    assert len(names & exceptions()) <= 0.03 * len(names)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case: Case) -> None:
    judge = runner("run_inproc")
    out, err, status = run(case["zed"], judge.field(case, "input"), case["input_flags"], case["output_flags"])
    verdict = judge.judge(case, out, err, status, lenient=False)
    if case["name"] in exceptions():
        assert verdict is not None, "passes: take it off the list in docs/conformance.md"
    else:
        assert verdict is None, (out, err)
