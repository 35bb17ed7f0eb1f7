"""Operators that make several rows of one: `fork`, `switch`, `yield` of several expressions, and `over`.

Each leg, and each way in which a row is taken apart, has a relation of its own. The order of the legs means nothing.
The rows that one row is taken apart into have two more order items: the number of the expression, and the index in
its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql, both, either, negated
from shoal.engines.sql.comparisons import compare_literal
from shoal.engines.sql.expressions import record_node, truth, value
from shoal.engines.sql.nodes import (
    Const,
    Leaf,
    Node,
    NotColumnar,
    Outcome,
    Outcomes,
    Rec,
    always,
    bounded,
    const,
    fields_of,
    is_error,
    is_known_error,
    is_valid,
    on,
)
from shoal.engines.sql.operators import changed
from shoal.engines.sql.relations import Case, Item, Relation, any_of, passing
from shoal.formats.columns.layouts import physical_names
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import MISSING, Value
from shoal.model.values import is_error as is_error_value

Run = Callable[[plan.Seq, Sequence[Relation]], Sequence[Relation]]
"""Runs operators on rows."""


def forked(op: plan.Fork, relations: Sequence[Relation], run: Run) -> list[Relation]:
    """Every row into every leg."""
    return _together([run(leg, relations) for leg in op.legs])


def switched(op: plan.Switch, relations: Sequence[Relation], run: Run) -> list[Relation]:
    """Every row into the first leg that it fits; one without a test takes what is left, wherever it stands."""
    left = list(relations)
    legs: list[Sequence[Relation]] = [()] * len(op.cases)
    if op.expr is not None:
        subject = op.expr
        _, left = _parted(left, lambda node: _is_missing(subject, node))
    for i, case in enumerate(op.cases):
        if case.expr is not None:
            matching, left = _parted(left, _test(op.expr, case.expr))
            legs[i] = run(case.body, matching)
    default = next((i for i, case in enumerate(op.cases) if case.expr is None), None)
    if default is not None:
        legs[default] = run(op.cases[default].body, left)
    return _together(legs)


def _test(subject: plan.Expr | None, test: plan.Expr) -> Callable[[Node], Cond]:
    """Whether a row fits a leg."""
    if subject is None:
        return lambda node: truth(test, node)
    if not isinstance(test, plan.Literal) or is_error_value(test.value):
        raise NotColumnar("a case that is not a plain value")
    return lambda node: either(
        *(both(o.when, compare_literal("==", o.node, test.value)) for o in value(subject, node) if not is_error(o.node))
    )


def _is_missing(subject: plan.Expr, node: Node) -> Cond:
    return either(*(o.when for o in value(subject, node) if is_known_error(o.node, MISSING)))


def _parted(relations: Sequence[Relation], test: Callable[[Node], Cond]) -> tuple[list[Relation], list[Relation]]:
    """The rows that pass a test, and all others, whatever the test makes of them."""
    matching, left = [], []
    for relation in relations:
        verdicts = [test(case.node) for case in relation.cases]
        matching.append(passing(relation, verdicts))
        left.append(passing(relation, [negated(verdict) for verdict in verdicts]))
    return matching, left


def _together(legs: Sequence[Sequence[Relation]]) -> list[Relation]:
    """The rows of all legs; their order items are padded to one length."""
    numbered = [(number, relation) for number, leg in enumerate(legs) for relation in leg if relation.cases]
    longest = max((len(relation.order) for _, relation in numbered), default=0)

    def placed(number: int, relation: Relation) -> Relation:
        numbers = [0] * (longest - len(relation.order)) + [number]
        return replace(relation, order=(*relation.order, *(Item(build.integer(n)) for n in numbers)))

    return [placed(number, relation) for number, relation in numbered]


_KEY = t.array(t.STRING)
_ELEMENT, _PLACE = "element", "place"


def yielded(exprs: Sequence[plan.Expr], relations: Sequence[Relation]) -> list[Relation]:
    """One row an expression."""
    return [
        replace(changed(relation, lambda node: value(expr, node)), order=_order(relation, number))  # noqa: B023 - used at once
        for relation in relations
        for number, expr in enumerate(exprs)
    ]


def unrolled(exprs: Sequence[plan.Expr], relations: Sequence[Relation]) -> list[Relation]:
    """What is inside the values of the expressions."""
    return [
        part for relation in relations for number, expr in enumerate(exprs) for part in _parts(relation, number, expr)
    ]


def _order(relation: Relation, *numbers: int) -> tuple[Item, ...]:
    return (*relation.order, *(Item(build.integer(number)) for number in numbers))


def _parts(relation: Relation, number: int, expr: plan.Expr) -> list[Relation]:
    whole: list[Case] = []
    lists: dict[tuple[t.Type, Sql], list[Cond]] = {}
    fields: dict[int, list[Case]] = {}
    for case in relation.cases:
        for outcome in bounded(x for o in value(expr, case.node) for x in on(o.when, _taken_out(o.node))):
            node, when = outcome.node, both(case.when, outcome.when)
            under = node.type.under
            if is_known_error(node, MISSING):
                continue
            if isinstance(under, t.Record):
                is_there = both(when, is_valid(node))
                for index, part in enumerate(_fields(node) if is_there is not False else ()):
                    fields.setdefault(index, []).append(Case(is_there, part, case.columns))
            elif not isinstance(under, t.Array | t.Set | t.Map):
                whole.append(Case(when, node, case.columns))
            elif isinstance(node, Leaf):
                lists.setdefault((_element(under), node.sql), []).append(when)
            elif is_valid(node):
                raise NotColumnar("a constant that is taken apart")
    relations = [_restricted(relation, cases, number, index) for index, cases in fields.items()]
    if whole:
        relations.append(_restricted(relation, whole, number, 0))
    return relations + [_elements(relation, number, typ, sql, any_of(whens)) for (typ, sql), whens in lists.items()]


def _taken_out(node: Node) -> Outcomes:
    """A value without the names of its type, and out of its unions."""
    if isinstance(node, Const):
        return const(node.value.under())
    if isinstance(node, Rec):
        return always(node)
    return _found_in(node.type, node.sql)


def _found_in(typ: t.Type, sql: Sql) -> Outcomes:
    """What is in a column, without names and out of its unions."""
    under = typ.under
    if not isinstance(under, t.Union):
        return always(part_node(under, sql))
    outcomes = [Outcome(build.is_null(sql), Const(Value(under, None)))]
    for tag, member in enumerate(under.types):
        is_tag = build.binary("=", build.part(sql, "tag"), build.integer(tag))
        outcomes.extend(on(is_tag, _found_in(member, build.part(sql, str(tag)))))
    return bounded(outcomes)


def _restricted(relation: Relation, cases: list[Case], number: int, index: int) -> Relation:
    """The rows of some cases alone."""
    restricted = replace(relation, cases=tuple(cases), order=_order(relation, number, index))
    return restricted.having(any_of([case.when for case in cases]))


def _elements(relation: Relation, number: int, typ: t.Type, sql: Sql, when: Cond) -> Relation:
    """The elements of lists, with their indexes."""
    columns = [
        *relation.order_columns(),
        (_ELEMENT, build.call("unnest", sql)),
        (_PLACE, build.call("generate_subscripts", sql, build.integer(1))),
    ]
    source = relation.having(when).select(columns).subquery("elements", copy=False)
    order = [replace(item, sql=build.column(f"o{i}")) for i, item in enumerate(relation.order)]
    items = (*order, Item(build.integer(number)), Item(build.column(_PLACE)))
    cases = [Case(o.when, o.node, frozenset({_ELEMENT})) for o in _found_in(typ, build.column(_ELEMENT))]
    return Relation(source, tuple(cases), order=items)


def _element(typ: t.Array | t.Set | t.Map) -> t.Type:
    """The type of what is in a list."""
    return t.record((("key", typ.key), ("value", typ.value))) if isinstance(typ, t.Map) else typ.elem


def part_node(typ: t.Type, sql: Sql) -> Node:
    """A value in one column; of a record the fields."""
    under = typ.under
    if not isinstance(under, t.Record):
        return Const(Value(typ, None)) if under is t.NULL else Leaf(typ, sql)
    parts = zip(under.fields, physical_names(under), strict=True)
    fields = tuple(part_node(f.type, build.part(sql, name)) for f, name in parts)
    return Rec(typ, fields, build.is_present(sql))


def _fields(node: Node) -> list[Node]:
    """The fields of a record, each with its name."""
    under = node.type.under
    assert isinstance(under, t.Record)
    names = [Const(Value(_KEY, (f.name,))) for f in under.fields]
    return [record_node(["key", "value"], list(pair)) for pair in zip(names, fields_of(node), strict=True)]
