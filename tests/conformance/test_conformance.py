"""The public cases whose program is `*` or `pass`: formats alone decide them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from shoal.testing.conformance import run

SHARED = Path(__file__).parents[2].parent / "shared" / "conformance"


def load_cases() -> list[dict[str, Any]]:
    if not SHARED.is_dir():
        return []
    lines = (SHARED / "inproc.jsonl").read_text().splitlines()
    return [case for case in map(json.loads, lines) if case["zed"].strip() in ("*", "pass")]


CASES = load_cases()


def load_runner() -> Any:
    spec = importlib.util.spec_from_file_location("run_inproc", SHARED / "run_inproc.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not CASES, reason="the conformance cases lie beside the project, in ../shared, and are not here")
def test_there_are_as_many_cases_as_there_should_be() -> None:
    assert len(CASES) == 58


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    runner = load_runner()
    out, err, status = run(case["zed"], runner.field(case, "input"), case["input_flags"], case["output_flags"])
    assert runner.judge(case, out, err, status, lenient=False) is None, (out, err)
