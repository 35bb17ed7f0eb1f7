"""The language guide is complete: each operator, function and aggregate is in an example that runs.

The programs are parsed, not searched for words: `join` the operator is not `join` the function.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from shoal.cli.flags import parse as parse_flags
from shoal.cli.verbs.zq import FLAGS
from shoal.errors import InvalidInput
from shoal.lang import ast
from shoal.lang.aggregates import AGGREGATES
from shoal.lang.functions import SIGNATURES
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, Source
from shoal.lang.walk import nodes

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "language.md", *sorted((DOCS / "language").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

OPERATORS: dict[str, type[ast.Node]] = {
    "assert": ast.Assert, "cut": ast.Cut, "debug": ast.Debug, "drop": ast.Drop, "explode": ast.Explode,
    "file": ast.File, "fork": ast.Fork, "from": ast.From, "fuse": ast.Fuse, "get": ast.Get, "head": ast.Head,
    "join": ast.Join, "load": ast.Load, "merge": ast.Merge, "output": ast.Output, "over": ast.Over,
    "pass": ast.Pass, "put": ast.Put, "rename": ast.Rename, "sample": ast.Sample, "search": ast.Search,
    "shape": ast.Shape, "sort": ast.Sort, "summarize": ast.Summarize, "switch": ast.Switch, "tail": ast.Tail,
    "top": ast.Top, "uniq": ast.Uniq, "where": ast.Where, "yield": ast.Yield,
}  # fmt: skip
WITHOUT_KEYWORD = {ast.Scope, ast.OpAssignment, ast.OpExpr}
NEED_MORE: dict[str, type[ast.Node]] = {"get": ast.Get, "load": ast.Load, "from": ast.Pool}
"""Operators whose examples need a network or a lake, so they are not run. For `from` that is the pool form."""


def programs(page: Path) -> Iterator[Source]:
    """The programs in the examples of a page."""
    blocks = [(m[1], m[2] or "", m[3]) for m in BLOCK.finditer(page.read_text())]
    files = {name: text for _, name, text in blocks if name}
    for kind, _, text in blocks:
        for command in re.findall(r"^\$ (.*)", text, re.MULTILINE) if kind == "console" else ():
            yield from _program(shlex.split(command), files)


def _program(words: list[str], files: dict[str, str]) -> Iterator[Source]:
    if "zq" not in words:
        return
    begin = words.index("zq") + 1
    end = next((i for i in range(begin, len(words)) if re.fullmatch(r"\||\d?>.*", words[i])), len(words))
    args = parse_flags(FLAGS, words[begin:end])
    if args["C"]:
        return
    parts = [Part(name, files[name]) for name in args["I"]]
    if args.words and args.words[0] not in files:
        parts.append(Part("", args.words[0]))
    yield Source(parts)


def parsed_nodes() -> list[Any]:
    """All nodes of all programs that parse; examples of syntax errors are skipped."""
    out: list[Any] = []
    for page in PAGES:
        for program in programs(page):
            try:
                out.extend(nodes(parse_source(program)))
            except InvalidInput:
                continue
    return out


@pytest.fixture(scope="module")
def shown() -> list[Any]:
    return parsed_nodes()


def test_the_list_of_operators_is_the_language_s() -> None:
    assert set(OPERATORS.values()) | WITHOUT_KEYWORD | {ast.Pool} == set(get_args(ast.Op))


def test_every_operator_has_an_example_that_runs(shown: list[Any]) -> None:
    ran = {type(node) for node in shown}
    assert {name for name, node in OPERATORS.items() if node not in ran} == {"get", "load"}


def test_every_operator_has_a_section_in_alphabetical_order() -> None:
    page = (DOCS / "language" / "operators.md").read_text()
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == sorted(OPERATORS)


@pytest.mark.parametrize("name", NEED_MORE)
def test_what_cannot_run_is_shown_with_a_sentence_that_says_why(name: str) -> None:
    page = (DOCS / "language" / "operators.md").read_text()
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    text = re.search(r"needs? a (?:lake|network).*?\n\n```text\n(.*?)```", section, re.DOTALL | re.IGNORECASE)
    assert text is not None
    programs = [re.split(r" {4,}", line)[0] for line in text[1].splitlines()]
    for program in programs:
        assert NEED_MORE[name] in {type(node) for node in nodes(parse_source(Source([Part("", program)])))}


def test_every_function_has_an_example_that_runs(shown: list[Any]) -> None:
    called = {node.name for node in shown if isinstance(node, ast.Call) and not _is_aggregate(node)}
    called |= {"grep" for node in shown if isinstance(node, ast.Grep)}
    assert SIGNATURES.keys() - called == set()


def test_every_aggregate_has_an_example_that_runs(shown: list[Any]) -> None:
    called = {node.name for node in shown if isinstance(node, ast.Agg) or _is_aggregate(node)}
    assert AGGREGATES.keys() - called == set()


def _is_aggregate(node: object) -> bool:
    """With more than one argument `min` and `max` are functions."""
    return isinstance(node, ast.Call) and node.name in AGGREGATES and len(node.args) < 2
