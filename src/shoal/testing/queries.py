"""Short ways to run a program in a test: ZSON text in, ZSON texts out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from shoal.api.options import Memory
from shoal.engines.interp.engine import evaluate, run_program
from shoal.engines.interp.environment import Run
from shoal.lang import compile as compiler
from shoal.lang import plan
from shoal.lang.catalog import Catalog
from shoal.model.parse import Parser
from shoal.model.text import format_value
from shoal.model.values import Value


def parse_values(text: str) -> list[Value]:
    """All values in a ZSON text."""
    parser = Parser(text)
    out: list[Value] = []
    while (value := parser.value()) is not None:
        out.append(value)
    return out


def compile_program(text: str, catalog: Catalog | None = None) -> plan.Program:
    """The plan of a program, whose constants the interpreter computes."""
    return compiler.compile_program(text, evaluate, catalog)


def run(program: str, values: Iterable[Value], memory: Memory | None = None) -> list[Value]:
    """What the interpreter makes of values."""
    return list(run_program(compile_program(program), values, Run(memory=memory or Memory())))


def answer(program: str, text: str = "null", memory: Memory | None = None) -> str:
    """What the interpreter makes of a ZSON text, one value a line.

    >>> answer("yield this + 1", "1 2")
    '2\\n3'
    """
    return "\n".join(format_value(value) for value in run(program, parse_values(text), memory))


CASES = Path(__file__).parents[3] / "tests" / "cases"


class Case(NamedTuple):
    """A program, its input and its output, both as ZSON."""

    program: str
    input: str
    output: str


def load_cases(folder: str) -> list[Case]:
    """The cases in the files of a folder of `tests/cases`: blocks of a program, `< input` and `> output` lines."""
    texts = [path.read_text() for path in sorted((CASES / folder).glob("*.txt"))]
    blocks = [block for text in texts for block in text.split("\n\n") if block.strip()]
    return [_case(block) for block in blocks if not block.startswith("//")]


def _case(block: str) -> Case:
    lines = block.strip("\n").split("\n")
    program = "\n".join(line for line in lines if line[:2] not in ("< ", "> ", "<"))
    given = "\n".join(line[2:] for line in lines if line[:1] == "<")
    wanted = "\n".join(line[2:] for line in lines if line[:2] == "> ")
    return Case(program, given, wanted)
