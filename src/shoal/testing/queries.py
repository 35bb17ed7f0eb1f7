"""Short ways to run a program in a test: ZSON text in, ZSON texts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from shoal.api.options import Memory
from shoal.api.results import Results
from shoal.engines.interp.engine import evaluate, run_program
from shoal.engines.interp.environment import Run
from shoal.engines.stopping import Stop, stopped_by
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
    """A program, its input and its output, both as ZSON, or the error that it stops with."""

    name: str
    """The file, and a sentence that says what the case shows."""
    program: str
    input: str
    output: str
    error: str = ""


def load_cases(folder: str) -> list[Case]:
    """The cases in the files of a folder of `tests/cases`; `tests/cases/README.md` describes the files."""
    return [
        case for path in sorted((CASES / folder).glob("*.txt")) for case in parse_cases(path.stem, path.read_text())
    ]


def parse_cases(file: str, text: str) -> list[Case]:
    """The cases in a text: blocks of `// name`, a program, `< input`, and `> output` or `! error` lines.

    >>> parse_cases("f", "// Sums.\\n\\n// It adds.\\nyield this+1\\n< 1 2\\n> 2\\n> 3")
    [Case(name='f: It adds.', program='yield this+1', input='1 2', output='2\\n3', error='')]
    """
    blocks = [block.strip("\n").split("\n") for block in text.split("\n\n") if block.strip()]
    return [_case(file, lines) for lines in blocks if not all(line.startswith("//") for line in lines)]


def _case(file: str, lines: list[str]) -> Case:
    name = lines[0].removeprefix("// ") if lines[0].startswith("// ") else lines[0]
    program = [line for line in lines if line[:1] not in "<>!"]
    if lines[0].startswith("// "):
        del program[0]
    has_input = any(line.startswith("<") for line in lines)
    return Case(
        f"{file}: {name}",
        "\n".join(program),
        _marked(lines, "<") if has_input else "null",
        _marked(lines, ">"),
        _marked(lines, "!"),
    )


def _marked(lines: list[str], mark: str) -> str:
    return "\n".join(line[2:] for line in lines if line.startswith(mark))


def asked_under(stop: Stop, ask: Callable[..., Results], *args: Any, **options: Any) -> Results:
    """The results of a query that a stop ends."""
    with stopped_by(stop):
        return ask(*args, **options)
