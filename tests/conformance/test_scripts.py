"""The public cases that are shell scripts and documentation examples, with the real command behind shims."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.testing.conformance import ABSENT, SHARED, Case, exceptions, load
from shoal.testing.tiers import IS_LONG

PARTS = 6
EVERY = 1 if IS_LONG else 4
"""The quick tier runs every fourth of them."""
SHARES = {"docs": 0.95, "script": 0.95, "lake": 0.8, "service": 0.85}
"""How many of the cases have to pass: examples and scripts without a lake, and both with one, and with a service."""


def chosen(name: str) -> list[Case]:
    """The cases that do not ask about the insides of another program, by what they need."""
    found = [*load("docs"), *load("script")] if name in ("lake", "service") else load(name)
    return [case for case in found if not case["internal"] and not case["skip"] and _group(case, name) == name]


def _group(case: Case, name: str) -> str:
    """What a case needs most of; one that needs nothing belongs where it comes from."""
    if "service" in case["needs"]:
        return "service"
    return "lake" if "lake" in case["needs"] else name if name in ("docs", "script") else ""


def run_part(name: str, cases: list[Case], directory: Path) -> dict[str, str | None]:
    """Name and verdict of each case that could be run."""
    (directory / f"{name}.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    shoal = Path(sys.executable).parent / "shoal"
    out = directory / "results"
    subprocess.run(
        [
            sys.executable, str(SHARED / "run_script.py"), str(directory / f"{name}.jsonl"), "--cmd", str(shoal),
            "-j", "1", "--data", str(SHARED / "data"), "--json", str(out), "-q", "--service-wait", "60",
        ],
        capture_output=True,
        timeout=600,
        check=False,
    )  # fmt: skip
    results = map(json.loads, out.read_text().splitlines())
    return {r["name"]: None if r["ok"] else f"{r['why']}\n{r.get('detail', '')}" for r in results}


@pytest.mark.skipif(not load("docs"), reason=ABSENT)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", SHARES)
def test_cases(name: str, part: int, tmp_path: Path) -> None:
    verdicts = run_part(name, chosen(name)[part::PARTS][::EVERY], tmp_path)
    assert verdicts
    failed = {case: verdict for case, verdict in verdicts.items() if verdict is not None}
    assert {case: why for case, why in failed.items() if case not in exceptions()} == {}
    passed_after_all = {case for case in verdicts if case in exceptions()} - set(failed)
    assert not passed_after_all, "these pass: take them off the list in docs/conformance.md"


@pytest.mark.skipif(not load("docs"), reason=ABSENT)
@pytest.mark.parametrize("name", SHARES)
def test_no_more_exceptions_than_allowed(name: str) -> None:
    names = {case["name"] for case in chosen(name) if not case["unrunnable"] and "s3" not in case["needs"]}
    assert len(names & exceptions()) <= (1 - SHARES[name]) * len(names)
