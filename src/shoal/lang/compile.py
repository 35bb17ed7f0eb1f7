"""The compiler: from the text of a program to its plan. Parse, analyze, optimize, in this order.

An engine is needed for one thing only, the values of constant expressions: `evaluate` computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from shoal.lang import ast, plan
from shoal.lang.analyze import analyze
from shoal.lang.catalog import Catalog, Evaluate
from shoal.lang.parser import parse_source
from shoal.lang.recursion import deep_frames
from shoal.lang.rules.fold_constants import fold_constants
from shoal.lang.rules.join_filters import join_filters
from shoal.lang.rules.order_joins import order_joins
from shoal.lang.rules.project_fields import project_fields
from shoal.lang.rules.push_down_filters import push_down_filters
from shoal.lang.rules.top_of_sort import top_of_sort
from shoal.lang.source import Part, Source

Rule: TypeAlias = Callable[[plan.Program], plan.Program]

RULES: tuple[Rule, ...] = (join_filters, push_down_filters, top_of_sort, order_joins, project_fields)
"""Applied once each; `fold_constants` comes before them all, since it needs an evaluator."""


def optimize(program: plan.Program, evaluate: Evaluate) -> plan.Program:
    """The plan after all rules."""
    program = fold_constants(program, evaluate)
    for rule in RULES:
        program = rule(program)
    return program


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
