"""Groups as rows: what an aggregation gives is a source for the operators after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from shoal.engines.aggregates import Outcome
from shoal.engines.sql import build, nodes
from shoal.engines.sql.build import Cond
from shoal.engines.sql.expressions import combined, record_node
from shoal.engines.sql.frames import Case, Frame
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Outcomes, always, const, fields_of
from shoal.engines.sql.operators import MOST_CASES
from shoal.engines.sql.summaries import GROUP, Result, Summary
from shoal.engines.sql.tables import flat_node
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import NULL, Value


def grouped(op: plan.Summarize, summary: Summary) -> Frame:
    """The groups of a summary in which each is whole. They are in no order."""
    cases: list[Case] = []
    names = frozenset(selected.alias_or_name for selected in summary.query.selects)
    for code, combination in enumerate(summary.combinations):
        when: Cond = True
        if len(summary.combinations) > 1:
            when = build.binary("=", build.column(GROUP), build.integer(code))
        place = summary.keys.layout.shapes.index(combination.keys)
        guarded = {i for i, valid in enumerate(summary.keys.structs) if valid is not None}
        keys = fields_of(flat_node(combination.keys, summary.keys.layout.forms[place], guarded))
        columns = [*map(always, keys), *map(_outcomes, combination.results)]
        places = [f"f{i}" for i in range(len(columns))]
        paths = [path for path, _ in op.keys] + [path for path, _ in op.aggs]
        for outcome in combined(places, columns):
            node = _nested(list(zip(paths, fields_of(outcome.node), strict=True)))
            cases.append(Case(build.both(when, outcome.when), node, names))
    if len(cases) > MOST_CASES:
        raise NotColumnar("too many cases")
    return Frame(summary.query.subquery("groups", copy=False), tuple(cases))


def _nested(fields: Sequence[tuple[plan.Path, Node]]) -> Node:
    """A record of values at paths."""
    tree: dict[str, Any] = {}
    for path, node in fields:
        level = tree
        for name in path[:-1]:
            level = level.setdefault(name, {})
        level[path[-1]] = node
    return _record_of(tree)


def _record_of(tree: dict[str, Any]) -> Node:
    made = [_record_of(item) if isinstance(item, dict) else item for item in tree.values()]
    return record_node(list(tree), made)


def _outcomes(result: Result) -> Outcomes:
    """What one aggregate is in a group."""
    columns = [build.column(name) for name in result.columns]
    match result.outcome:
        case Outcome.COUNT:
            return always(Leaf(t.UINT64, build.cast(columns[0], "UBIGINT"))) if columns else const(Value(t.UINT64, 0))
        case Outcome.MEAN:
            if not columns:
                return const(Value(t.FLOAT64, None))
            total, count = columns
            divisor = build.call("nullif", build.cast(count, "DOUBLE"), build.integer(0))
            return always(Leaf(t.FLOAT64, build.divided(total, divisor)))
        case Outcome.BOOL:
            return always(Leaf(t.BOOL, columns[0])) if columns else const(Value(t.BOOL, None))
        case Outcome.NUMBER:
            if not columns:
                return const(NULL)
            number = Leaf(result.type, columns[0])
            if not result.consumed:
                return always(number)
            is_fed = build.binary(">", build.column(result.consumed), build.integer(0))
            return nodes.Outcome(is_fed, number), nodes.Outcome(build.negated(is_fed), Const(NULL))
    assert_never(result.outcome)
