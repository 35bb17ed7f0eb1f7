"""`join`: both sides as tables that have their keys as columns, brought together in the order of the keys.

Rows with equal keys stay in the order of the left side, then in that of the right one, as the interpreter has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from shoal.engines.interp.operators.join import spliced_names
from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql, both, either, negated
from shoal.engines.sql.expressions import record_node, value
from shoal.engines.sql.flat_tables import Table, table_of
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Outcomes, Rec, const, fields_of, narrowed
from shoal.engines.sql.operators import MOST_CASES, cut
from shoal.engines.sql.relations import Case, Item, Order, Relation, passing
from shoal.engines.sql.sort_keys import Keys, RowKey, is_missing, keys_of
from shoal.engines.sql.types import failure
from shoal.formats.columns.layouts import SHAPE
from shoal.lang import plan
from shoal.lang.rules.project_fields import joined as joined_paths
from shoal.lang.rules.project_fields import paths_in
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import NULL, Value

_LEFT, _RIGHT = "l", "r"
"""The tables; the columns of the right one begin with its name in what comes out."""
_NOTHING = Value(t.record(()), ())


@frozen
class _Side:
    key: plan.Expr
    relations: Sequence[Relation]
    order: plan.Order | None


@frozen
class _Keyed:
    """Rows that have a key, and what it may be."""

    relation: Relation
    keys: tuple[RowKey, ...]


def joined(op: plan.Join, left: Sequence[Relation], right: Sequence[Relation]) -> list[Relation]:
    """The rows of a join. A right join is a left join the other way round."""
    a, b = _Side(op.left_key, left, op.left_order), _Side(op.right_key, right, op.right_order)
    if op.style == "right":
        a, b = b, a
    ones, others = _having_keys(a), _having_keys(b)
    row_keys = (f for side in (*ones, *others) for f in side.keys)
    keys = keys_of(row_keys, is_descending=(a.order or b.order or "asc") == "desc")
    if not ones or (not others and op.style == "inner"):
        return []
    table = table_of([side.relation for side in ones], [keys.columns(side.keys) for side in ones])
    if not others:
        return [Relation(table.query.subquery(_LEFT, copy=False), table.cases, order=(*keys.order(), *table.order))]
    cuts = [_cut(() if op.style == "anti" else op.args, side) for side in others]
    cut_table = table_of(cuts, [keys.columns(side.keys) for side in others], prefix=_RIGHT)
    if op.style == "anti":
        return [_unmatched(table, cut_table, keys)]
    return [_matched(table, cut_table, keys, with_unmatched=op.style != "inner")]


def _having_keys(side: _Side) -> list[_Keyed]:
    """The rows that have keys, of those relations that have any."""
    sides = [_keyed(side.key, relation) for relation in side.relations]
    return [keyed for keyed in sides if keyed.relation.cases]


def _keyed(key: plan.Expr, relation: Relation) -> _Keyed:
    outcomes = [value(key, case.node) for case in relation.cases]
    absent = [either(*(both(o.when, is_missing(o.node)) for o in alternatives)) for alternatives in outcomes]
    row_keys = tuple(
        RowKey(case, both(case.when, o.when), o.node)
        for case, alternatives in zip(relation.cases, outcomes, strict=True)
        for o in alternatives
        if is_missing(o.node) is not True
    )
    return _Keyed(passing(relation, [negated(verdict) for verdict in absent]), row_keys)


def _cut(args: Sequence[plan.Assignment], side: _Keyed) -> Relation:
    """What the rows of the right side add to those of the left one; those that add nothing are null."""
    paths: tuple[plan.Path, ...] | None = ()
    for arg in args:
        paths = joined_paths(paths, paths_in(arg.expr))

    def made_of(node: Node) -> Outcomes:
        return cut(args, node if paths is None else narrowed(node, paths)) if args else const(_NOTHING)

    cases = [
        Case(both(case.when, o.when), o.node if _is_record(o.node) else Const(NULL), case.columns)
        for case in side.relation.cases
        for o in made_of(case.node)
    ]
    return replace(side.relation, cases=tuple(cases))


def _unmatched(table: Table, other: Table, keys: Keys) -> Relation:
    """The rows of the left side that have no match."""
    columns = _columns(table, keys, "")
    return Relation(_join(table, other, keys, columns, "anti"), table.cases, order=(*keys.order(), *table.order))


def _matched(table: Table, other: Table, keys: Keys, with_unmatched: bool) -> Relation:
    """Pairs of rows; with those of the left side that have no match, if the join keeps them."""
    code = build.column(_RIGHT + SHAPE)
    columns = [*_columns(table, keys, ""), *_columns(other, None, _RIGHT)]
    everywhere = frozenset(name for name, _ in columns) - {
        n for case in (*table.cases, *other.cases) for n in case.columns
    }
    cases: list[Case] = []
    for one in table.cases:
        for two in other.cases:
            when: Cond = two.when
            if with_unmatched and when is True:
                when = build.is_present(code)
            node = _spliced(one.node, two.node)
            cases.append(Case(both(one.when, when), node, one.columns | two.columns | everywhere))
        if with_unmatched:
            cases.append(Case(both(one.when, build.is_null(code)), one.node, one.columns | everywhere))
    if len(cases) > MOST_CASES:
        raise NotColumnar("too many cases")
    between: Order = (Item(build.is_null(code)),) if with_unmatched else ()
    source = _join(table, other, keys, columns, "left" if with_unmatched else "inner")
    return Relation(source, tuple(cases), order=(*keys.order(), *table.order, *between, *other.order))


def _columns(table: Table, keys: Keys | None, prefix: str) -> list[tuple[str, Sql]]:
    """The columns of a table, by the names that they get."""
    names = [*table.columns(), *(keys.names() if keys else ())]
    of = _RIGHT if prefix else _LEFT
    return [(prefix + name, exp.column(exp.to_identifier(name, quoted=True), table=of)) for name in names]


def _join(table: Table, other: Table, keys: Keys, columns: Sequence[tuple[str, Sql]], style: str) -> Sql:
    query = exp.select(*(exp.alias_(sql, name, quoted=True, copy=False) for name, sql in columns), copy=False)
    query = query.from_(table.query.subquery(_LEFT, copy=False), copy=False)
    right = other.query.subquery(_RIGHT, copy=False)
    query = query.join(right, on=keys.equal(_LEFT, _RIGHT), join_type=style, copy=False)
    return query.subquery("joined", copy=False)


# ---- records


def _is_record(node: Node) -> bool:
    return isinstance(node.type.under, t.Record)


def _spliced(left: Node, right: Node) -> Node:
    """One record of two, as the interpreter makes it."""
    left = _without_names(left)
    under = left.type.under
    if not isinstance(under, t.Record):
        return failure("join: not a record", left)
    if not isinstance(right.type.under, t.Record):
        return left
    names = spliced_names([f.name for f in under.fields], [f.name for f in right.type.under.fields])
    return record_node(names, [*fields_of(left), *fields_of(right)])


def _without_names(node: Node) -> Node:
    """A value without the names of its type."""
    match node:
        case Const(value):
            return Const(value.under())
        case Rec(typ, fields, valid):
            return Rec(typ.under, fields, valid)
        case Leaf(typ, sql):
            if isinstance(typ.under, t.Union):
                raise NotColumnar("a union that is joined")
            return Leaf(typ.under, sql)
