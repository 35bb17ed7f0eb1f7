"""Planted bugs: runs the tests that must catch them. The list is `tests/mutations`.

A mutation is data: a text in a source file and what replaces it, the invariant that breaks, and the test that must fail
by an assertion. It is applied to a copy of the source, never to the source itself. `python -m tools.mutations NAME`
runs those whose names contain a text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import yaml

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
CASES = ROOT / "tests" / "mutations"
TIMEOUT = 90.0
_ASSERTION = r"^(AssertionError|assert |Failed: (?!Timeout))"
"""How the message of a test begins that failed because something was not as it should be."""


@dataclass(frozen=True)
class Mutation:
    """A planted bug."""

    name: str
    file: str
    """Its path below `src`."""
    search: str
    """A text that occurs once in the file."""
    replace: str
    invariant: str
    test: str
    """The node id of the test that must fail."""
    says: str = ""
    """A pattern that the failure must match, if it is not just any assertion."""

    def apply(self, text: str) -> str:
        """The text of the file with the bug; ValueError if it does not apply."""
        count = text.count(self.search)
        if count != 1:
            raise ValueError(f"{self.name}: the text to replace occurs {count} times in {self.file}")
        return text.replace(self.search, self.replace)


def read_mutations(folder: Path = CASES) -> list[Mutation]:
    """All mutations, by area."""
    out: list[Mutation] = []
    for path in sorted(folder.glob("*.yaml")):
        cases = yaml.safe_load(path.read_text())
        out += [Mutation(f"{path.stem}/{name}", **case) for name, case in cases.items()]
    return out


@contextmanager
def mutated_source(mutation: Mutation) -> Iterator[Path]:
    """A copy of the source with the bug. Compiled files are copied as well, which saves seconds."""
    with tempfile.TemporaryDirectory(prefix="shoal-mutation-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy)
        path = copy / mutation.file
        path.write_text(mutation.apply(path.read_text()))
        yield copy


@dataclass(frozen=True)
class Outcome:
    """What a test did about a mutation."""

    is_caught: bool
    detail: str


def run(mutation: Mutation, timeout: float = TIMEOUT) -> Outcome:
    """Run the test of a mutation against the mutated source."""
    with mutated_source(mutation) as source, tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        command += [f"--timeout={timeout}", mutation.test]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout + 30
            )
        except subprocess.TimeoutExpired:
            return Outcome(False, "the test does not end")
        if done.returncode != 1 or not report.exists():
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            return Outcome(False, f"exit status {done.returncode}: {' / '.join(lines[-4:])}")
        return _judge(mutation, report)


def _judge(mutation: Mutation, report: Path) -> Outcome:
    """Whether a test failed by an assertion, and not because the source could not be used."""
    failures = list(ElementTree.parse(report).iter("failure"))
    if not failures:
        return Outcome(False, "an error, not a failure")
    message = failures[0].get("message", "")
    if mutation.says:
        is_caught = re.search(mutation.says, message + "\n" + (failures[0].text or "")) is not None
    else:
        is_caught = re.search(_ASSERTION, message) is not None
    return Outcome(is_caught, message.splitlines()[0][:160] if message else "")


def main(names: Sequence[str]) -> int:
    """Run the mutations that are named, or all; 1 if one is not caught."""
    missed = 0
    for mutation in read_mutations():
        if names and not any(name in mutation.name for name in names):
            continue
        began = time.monotonic()
        outcome = run(mutation)
        missed += not outcome.is_caught
        word = "caught" if outcome.is_caught else "MISSED"
        print(f"{word} {mutation.name} in {time.monotonic() - began:.1f} s: {outcome.detail}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
