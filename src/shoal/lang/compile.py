"""The compiler: from the text of a program to its plan. Parse, analyze, optimize, in this order.

An engine is needed for one thing only, the values of constant expressions: `evaluate` computes them.
"""

from __future__ import annotations

from shoal.lang import ast, plan
from shoal.lang.analyze import analyze
from shoal.lang.catalog import Catalog, Evaluate
from shoal.lang.frames import deep_frames
from shoal.lang.optimize import optimize
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, Source


def compile_program(text: str, evaluate: Evaluate, catalog: Catalog | None = None) -> plan.Program:
    """The plan of a program."""
    return compile_source(Source([Part("", text)]), evaluate, catalog)


def compile_source(source: Source, evaluate: Evaluate, catalog: Catalog | None = None) -> plan.Program:
    """The plan of a program that may come from several files."""
    return compile_tree(parse_source(source), source, evaluate, catalog)


def compile_tree(tree: ast.Seq, source: Source, evaluate: Evaluate, catalog: Catalog | None = None) -> plan.Program:
    """The plan of a program that is parsed already; errors point into its source."""
    with deep_frames():
        return optimize(analyze(tree, source, evaluate, catalog), evaluate)


def reads_input(program: plan.Program) -> bool:
    """Whether a program reads the input of its query, since it brings no source of its own."""
    return isinstance(program.body[0], plan.DefaultScan)


def stands_alone(program: plan.Program) -> bool:
    """Whether a program can do without input: it brings its own source, or it begins with a `yield`."""
    match program.body:
        case (plan.DefaultScan(filter=None), plan.Yield(), *_):
            return True
    return not reads_input(program)
