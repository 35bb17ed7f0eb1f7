"""Aggregates that keep values (`any`, `collect`, `dcount`, `fuse`, `union`): the interpreter computes them, from rows
that SQL has made few. A row has the keys of its group and one value: `{k0,k1,...,v}`.

To `dcount` and `union` values count once; to `fuse` the first one of each type does, in the order of the rows; to `any`
the first that is not null. `collect` and `collect_map` take them all, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlglot import exp

from shoal.engines.aggregates import Kept, rows_kept
from shoal.engines.sql import build
from shoal.engines.sql.build import Sql
from shoal.engines.sql.comparisons import is_null
from shoal.engines.sql.expressions import combined, record_node, value
from shoal.engines.sql.flat_tables import told_apart
from shoal.engines.sql.nodes import (
    Const,
    Node,
    NotColumnar,
    Outcome,
    Outcomes,
    always,
    const,
    fields_of,
    is_known_error,
)
from shoal.engines.sql.operators import changed, filtered
from shoal.engines.sql.relations import Flat, Order, Relation, flatten, merged_column, ordered_by
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import MISSING, QUIET, Value


@frozen
class Reduction:
    """The rows of one relation that matter to one aggregate."""

    query: exp.Select
    flat: Flat
    order: Order = ()
    """What the rows are ordered by; empty if their order does not matter."""

    def in_order(self) -> exp.Select:
        """The query, sorted."""
        return ordered_by(self.query.copy(), self.order)


def halves(op: plan.Summarize) -> tuple[plan.Summarize, tuple[plan.Summarize, ...]]:
    """What SQL computes of an aggregation; and for each aggregate that keeps values how its rows are aggregated."""
    plain = plan.Summarize(tuple(a for a in op.aggs if rows_kept(a[1].name) is None), op.keys, op.limit)
    keys = tuple((path, plan.This((f"k{i}",))) for i, (path, _) in enumerate(op.keys))
    kept = tuple(
        plan.Summarize(((path, plan.Agg(agg.name, plan.This(("v",)))),), keys, partials_out=True)
        for path, agg in op.aggs
        if rows_kept(agg.name) is not None
    )
    return plain, kept


def reductions(op: plan.Summarize, relations: Sequence[Relation]) -> tuple[tuple[Reduction, ...], ...]:
    """For each aggregate that keeps values the rows of each relation that matter to it."""
    return tuple(
        tuple(_reduced(op, agg, kept, relation) for relation in relations)
        for _, agg in op.aggs
        if (kept := rows_kept(agg.name)) is not None
    )


def row_types(relations: Sequence[Relation]) -> tuple[Reduction, ...]:
    """For each relation a row `{v}` of each type that its rows have, in the order of the first of them."""
    return tuple(
        _first(changed(relation, lambda node: always(record_node(["v"], [_null(node.type)])))) for relation in relations
    )


def _reduced(op: plan.Summarize, agg: plan.Agg, kept: Kept, relation: Relation) -> Reduction:
    if agg.where is not None:
        relation = filtered(relation, agg.where)
    relation = changed(relation, lambda node: _row(op, agg, kept, node))
    match kept:
        case Kept.DISTINCT:
            return _distinct(relation)
        case Kept.FIRST:
            return _first(relation)
        case Kept.ALL:
            flat = flatten(relation.cases)
            return Reduction(relation.select([*flat.columns(), *relation.order_columns()]), flat, relation.order)
    assert_never(kept)


def _row(op: plan.Summarize, agg: plan.Agg, kept: Kept, node: Node) -> Outcomes:
    """The keys and the value of a row; what is missing is left out."""
    if agg.expr is None:
        raise NotColumnar("an aggregate of nothing")
    outcomes: list[Outcome] = []
    for o in value(agg.expr, node):
        if (kept is Kept.FIRST or isinstance(o.node, Const)) and is_known_error(o.node, MISSING):
            outcomes.append(Outcome(o.when, Const(QUIET)))
            continue
        # A fusion looks at nothing but types.
        kept_node = _null(o.node.type) if agg.name == "fuse" else o.node
        names = [f"k{i}" for i in range(len(op.keys))]
        row = combined([*names, "v"], [*(value(expr, node) for _, expr in op.keys), (Outcome(True, kept_node),)])
        outcomes.extend(Outcome(build.both(o.when, r.when), r.node) for r in row)
    return tuple(o for o in outcomes if o.when is not False) or const(QUIET)


def _null(typ: t.Type) -> Node:
    return Const(Value(typ, None))


def _distinct(relation: Relation) -> Reduction:
    flat = flatten(relation.cases, is_exact=True)
    columns = flat.columns()
    inner = relation.select(columns).subquery("rows", copy=False)
    query = exp.select(*(build.column(name) for name, _ in columns), copy=False).from_(inner, copy=False)
    return Reduction(query.group_by(*told_apart(flat), copy=False), flat)


def _first(relation: Relation) -> Reduction:
    """The first row of each group and type of value; one whose value is not null comes before all others."""
    flat = flatten(relation.cases, is_exact=True)
    columns = [*flat.columns(), *relation.order_columns()]
    absent = merged_column(
        [(case, case.when, build.known(is_null(fields_of(case.node)[-1]))) for case in relation.cases], build.TRUE
    )
    rank: list[Sql] = [absent, build.text("ASC NULLS LAST")]
    for item in relation.order:
        rank += [item.sql, build.text(f"{'DESC' if item.is_descending else 'ASC'} NULLS LAST")]
    inner = relation.select([*columns, ("rank", build.call("create_sort_key", *rank))]).subquery("rows", copy=False)
    query = exp.select(*(build.column(name) for name, _ in columns), copy=False).from_(inner, copy=False)
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=told_apart(flat, "v"),
        order=exp.Order(expressions=[build.column("rank")]),
    )
    return Reduction(query.qualify(build.binary("=", number, build.integer(1))), flat, relation.order)
