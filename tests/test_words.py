"""The source is in plain English: habits of an earlier dialect do not come back in comments, docstrings or names.

`tests/docs/test_words.py` reads the README and the guides in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "shoal"
NOT_YET_CLEAN: tuple[str, ...] = ()
"""Packages and modules that still have hits: take one out when it is clean."""
BANNED = {
    r"(?<![Tt]here )\bis no\b(?! longer| more)": "say `is not a X`, or `not a valid X`",
    r"\banew\b": "say `again`",
    r"\bso many\b": "name the number",
    r"\b[Ww]hoever\b": "name the actor: a writer, a reader, a caller",
    r'"""The same\b': "name the thing",
    r"\bfound = ": "name the value by a noun",
    r"\bmade = ": "name the value by a noun",
}
REAL_USES: frozenset[tuple[str, str]] = frozenset()
"""Pairs of a path and a whole line, without its indentation, in which a pattern is meant as it stands."""


def hits(path: Path) -> Iterator[str]:
    """Where a file uses a banned pattern, with the advice for it."""
    name = path.relative_to(SOURCE).as_posix()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for pattern, advice in BANNED.items():
            if re.search(pattern, line) and (name, line.strip()) not in REAL_USES:
                yield f"{name}:{number}: {line.strip()} ({advice})"


def packages() -> dict[str, list[Path]]:
    """The modules to check, by the package or module at the top that they are in."""
    exempt = [SOURCE / name for name in NOT_YET_CLEAN]
    modules: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if not any(path.is_relative_to(other) for other in exempt):
            modules.setdefault(path.relative_to(SOURCE).parts[0], []).append(path)
    return modules


@pytest.mark.parametrize(("package", "paths"), packages().items())
def test_a_package_is_free_of_the_old_dialect(package: str, paths: list[Path]) -> None:
    assert [hit for path in paths for hit in hits(path)] == []


def test_exceptions_are_modules_and_lines_that_exist() -> None:
    assert [name for name in NOT_YET_CLEAN if not (SOURCE / name).exists()] == []
    lines = {(name, line.strip()) for name, _ in REAL_USES for line in (SOURCE / name).read_text().splitlines()}
    assert lines >= REAL_USES


def test_patterns_know_a_habit_from_a_real_use() -> None:
    def matches(line: str) -> bool:
        return any(re.search(pattern, line) for pattern in BANNED)

    assert matches("# This is no record.")
    assert matches("found = 1")
    assert matches('    """The same in seconds."""')
    assert not matches("# There is no record, and it is no longer read.")
    assert not matches("found_at = 1; assert made == 2")
