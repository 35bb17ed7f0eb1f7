"""Planted bugs: every one still applies, and the test that is named beside it catches it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tools.mutations import CASES, ROOT, SOURCE, Mutation, read_mutations, run

MUTATIONS = read_mutations()
AREAS = {"journal", "committer", "clocks", "vacuum", "cache", "pruning", "access", "limits", "input", "storage"}
SAMPLE = ("journal/the entry of another is taken for the own one", "cache/a range is not cut to its length")


def named(name: str) -> Mutation:
    return next(mutation for mutation in MUTATIONS if mutation.name == name)


def test_there_are_planted_bugs_in_every_area() -> None:
    assert len(MUTATIONS) >= 25
    assert {mutation.name.partition("/")[0] for mutation in MUTATIONS} >= AREAS
    assert len({(mutation.file, mutation.search, mutation.replace) for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("area", sorted(path.stem for path in CASES.glob("*.yaml")))
def test_every_planted_bug_still_applies_and_names_a_test(area: str) -> None:
    for mutation in MUTATIONS:
        if not mutation.name.startswith(f"{area}/"):
            continue
        changed = mutation.apply((SOURCE / mutation.file).read_text())
        compile(changed, mutation.file, "exec")
        path, _, name = mutation.test.partition("::")
        assert name.split("[")[0].split("::")[-1] in defined(ROOT / path), f"{mutation.name}: no test {mutation.test}"


def defined(path: Path) -> set[str]:
    """The names of the functions and classes in a file of tests."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_a_bug_that_does_not_apply_is_told() -> None:
    stale = Mutation("x", "shoal/version.py", "a text that is not there", "", "", "")
    with pytest.raises(ValueError, match="occurs 0 times"):
        stale.apply((SOURCE / stale.file).read_text())


def test_a_bug_that_breaks_the_import_does_not_count_as_caught() -> None:
    broken = Mutation("x", "shoal/version.py", "VERSION =", "import nothing\nVERSION =", "", "tests/test_ids.py")
    assert not run(broken).is_caught


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_planted_bugs_is_caught(name: str) -> None:
    outcome = run(named(name))
    assert outcome.is_caught, outcome.detail


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [mutation.name for mutation in MUTATIONS])
def test_every_planted_bug_is_caught(name: str) -> None:
    outcome = run(named(name))
    assert outcome.is_caught, outcome.detail
