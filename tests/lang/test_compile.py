from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

import shoal
from shoal.engines.interp.engine import evaluate
from shoal.lang import compile as compiler
from shoal.lang import plan
from shoal.lang.compile import compile_program, compile_source, compile_tree, reads_input, stands_alone
from shoal.lang.parser import parse, parse_source
from shoal.lang.source import Part, ProgramError, Source


def test_a_text_a_source_and_a_tree_give_the_same_plan() -> None:
    text = "where x > 60*60 | sort y | head 3"
    source = Source([Part("", text)])
    program = compile_program(text, evaluate)
    assert compile_source(source, evaluate) == program
    assert compile_tree(parse(text), source, evaluate) == program


def test_constants_are_computed_by_the_evaluator_that_is_given() -> None:
    asked: list[plan.Expr] = []

    def evaluator(expr: plan.Expr, funcs: object) -> object:
        asked.append(expr)
        return evaluate(expr)

    compile_program("const n = 1+2 yield n", evaluator)  # type: ignore[arg-type]
    assert asked


def test_an_error_of_the_analysis_points_into_the_source() -> None:
    with pytest.raises(ProgramError, match="line 1, column 5"):
        compile_program("cut a[b]", evaluate)


@pytest.mark.parametrize(
    ("text", "reads", "alone"),
    [
        ("yield 1", True, True),
        ("yield 1 | sort this", True, True),
        ("file a.zson | count()", False, True),
        ("from (file a.zson file b.zson) | count()", False, True),
        ("where x | yield 1", True, False),
        ("count()", True, False),
        ("*", True, False),
        ("pass | yield 1", True, False),
        ("fork (=> yield 1 => file a.zson)", True, False),
    ],
)
def test_a_program_stands_alone_if_it_needs_no_input(text: str, reads: bool, alone: bool) -> None:
    program = compile_program(text, evaluate)
    assert (reads_input(program), stands_alone(program)) == (reads, alone)


@pytest.fixture
def parsed() -> Iterator[list[str]]:
    """The programs that were parsed."""
    texts: list[str] = []

    def counted(source: Source) -> object:
        texts.append(source.text)
        return parse_source(source)

    with patch.object(compiler, "parse_source", counted):
        yield texts


def test_a_program_without_a_source_is_parsed_once(parsed: list[str]) -> None:
    assert [value.data for value in shoal.query("yield 1+1")] == [2]
    assert len(parsed) == 1
