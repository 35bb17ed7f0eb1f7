"""Better plans for the same meaning: the rules, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from shoal.lang import plan
from shoal.lang.catalog import Evaluate
from shoal.lang.rules.fold_constants import fold_constants
from shoal.lang.rules.join_filters import join_filters
from shoal.lang.rules.order_joins import order_joins
from shoal.lang.rules.project_fields import project_fields
from shoal.lang.rules.push_down_filters import push_down_filters
from shoal.lang.rules.top_of_sort import top_of_sort

Rule: TypeAlias = Callable[[plan.Program], plan.Program]

RULES: tuple[Rule, ...] = (join_filters, push_down_filters, top_of_sort, order_joins, project_fields)
"""Applied once each; `fold_constants` comes before them all, since it needs an evaluator."""


def optimize(program: plan.Program, evaluate: Evaluate) -> plan.Program:
    """The plan after all rules."""
    program = fold_constants(program, evaluate)
    for rule in RULES:
        program = rule(program)
    return program
