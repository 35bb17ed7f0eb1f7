"""Every operator, function, aggregate, format and verb has cases of our own, and every case has a name."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from shoal.cli.main import VERBS
from shoal.formats.registry import readable, writable
from shoal.lang import ast
from shoal.lang.aggregates import AGGREGATES
from shoal.lang.functions import SIGNATURES
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, ProgramError, Source
from shoal.lang.walk import nodes
from shoal.testing.queries import Case, load_cases
from shoal.testing.scripts import Script, Step, load_scripts

LANGUAGE = load_cases("language")
SCRIPTS = [*load_scripts("formats"), *load_scripts("verbs")]
IN_SCRIPTS = {ast.File, ast.Load, ast.Pool}
"""Operators that want a file or a lake have their cases in scripts."""
WITHOUT_CASES = {ast.Get}
"""It wants a network; `tests/sources` has a server for it."""


@pytest.fixture(scope="module")
def used() -> Counter[Any]:
    """In how many cases each operator, function and aggregate occurs."""
    counts: Counter[Any] = Counter()
    for case in LANGUAGE:
        counts.update(_parts(case))
    return counts


def _parts(case: Case) -> set[Any]:
    try:
        return set(_named(parse_source(Source([Part("", case.program)]))))
    except ProgramError:
        return set()


def _named(program: Any) -> Iterator[Any]:
    for node in nodes(program):
        yield type(node)
        if isinstance(node, ast.Agg) or _is_aggregate(node):
            yield ("aggregate", node.name)
        elif isinstance(node, ast.Call):
            yield ("function", node.name)
        elif isinstance(node, ast.Grep):
            yield ("function", "grep")


def _is_aggregate(node: Any) -> bool:
    """With more than one argument `min` and `max` are functions."""
    return isinstance(node, ast.Call) and node.name in AGGREGATES and len(node.args) < 2


def test_every_operator_has_several_cases(used: Counter[Any]) -> None:
    operators = set(get_args(ast.Op)) - IN_SCRIPTS - WITHOUT_CASES
    assert {node.__name__ for node in operators if used[node] < (1 if node is ast.From else 3)} == set()


def test_operators_that_want_a_file_or_a_lake_are_in_scripts() -> None:
    queries = [shlex.split(step.command) for script in SCRIPTS for step in script.steps if " '" in step.command]
    programs = [word for words in queries for word in words if " " in word]
    found = {part for program in programs for part in _parts(Case("", program, "", ""))}
    assert found >= IN_SCRIPTS


def test_every_function_has_several_cases(used: Counter[Any]) -> None:
    assert {name for name in SIGNATURES if used["function", name] < (1 if name == "now" else 2)} == set()


def test_every_aggregate_has_several_cases(used: Counter[Any]) -> None:
    assert {name for name in AGGREGATES if used["aggregate", name] < 3} == set()


def test_every_kind_of_expression_has_a_case(used: Counter[Any]) -> None:
    assert {node.__name__ for node in get_args(ast.Expr) if not used[node]} == set()


def _commands(scripts: list[Script]) -> Iterator[tuple[list[str], Step]]:
    for script in scripts:
        for step in script.steps:
            for part in re.split(r"\| |\$\(", step.command):
                if part.lstrip().startswith("shoal "):
                    yield part.replace("'", " ").split()[1:], step


def test_every_format_is_read_and_written_in_a_script() -> None:
    commands = [words for words, _ in _commands(load_scripts("formats"))]
    read = {words[words.index("-i") + 1] for words in commands if "-i" in words}
    written = {words[words.index("-f") + 1] for words in commands if "-f" in words}
    assert set(readable()) - read == set()
    assert set(writable()) - written == set()


WITH_BROKER = {"sync"}
"""Verbs that work only where a broker of Kafka is: `tests/connect/kafka` has them."""


def test_every_verb_has_a_script_in_which_it_works_and_one_in_which_it_fails() -> None:
    commands = list(_commands(load_scripts("verbs")))
    works = {words[0] for words, step in commands if "[exit " not in step.printed}
    fails = {words[0] for words, step in commands if "[exit " in step.printed}
    assert VERBS.keys() - works == WITH_BROKER
    assert VERBS.keys() - fails == set()


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in LANGUAGE] + [script.name for script in SCRIPTS]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_there_are_enough_cases() -> None:
    assert len(LANGUAGE) > 800
