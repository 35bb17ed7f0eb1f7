"""Operators that make several rows of one: `yield` of several expressions, and `over`.

For each way in which a row is taken apart there is a frame of its own. What comes out of one row is told apart by two
more items of order: the number of the expression, and the place inside of its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql, both
from shoal.engines.sql.expressions import record_node, value
from shoal.engines.sql.frames import Case, Frame, Item, any_of
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
    is_known_error,
    is_valid,
    on,
)
from shoal.engines.sql.operators import changed
from shoal.formats.columns.layouts import physical_names
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import MISSING, Value

_KEY = t.array(t.STRING)
_ELEMENT, _PLACE = "element", "place"


def yielded(exprs: Sequence[plan.Expr], frames: Sequence[Frame]) -> list[Frame]:
    """One row an expression."""
    return [
        replace(changed(frame, lambda node: value(expr, node)), order=_order(frame, number))  # noqa: B023 - used at once
        for frame in frames
        for number, expr in enumerate(exprs)
    ]


def unrolled(exprs: Sequence[plan.Expr], frames: Sequence[Frame]) -> list[Frame]:
    """What is inside the values of the expressions."""
    return [part for frame in frames for number, expr in enumerate(exprs) for part in _parts(frame, number, expr)]


def _order(frame: Frame, *numbers: int) -> tuple[Item, ...]:
    return (*frame.order, *(Item(build.integer(number)) for number in numbers))


def _parts(frame: Frame, number: int, expr: plan.Expr) -> list[Frame]:
    whole: list[Case] = []
    lists: dict[tuple[t.Type, Sql], list[Cond]] = {}
    fields: dict[int, list[Case]] = {}
    for case in frame.cases:
        for outcome in bounded(x for o in value(expr, case.node) for x in on(o.when, _taken_out(o.node))):
            node, when = outcome.node, both(case.when, outcome.when)
            under = node.type.under
            if is_known_error(node, MISSING):
                continue
            if isinstance(under, t.Record):
                is_there = both(when, is_valid(node))
                for place, part in enumerate(_fields(node) if is_there is not False else ()):
                    fields.setdefault(place, []).append(Case(is_there, part, case.columns))
            elif not isinstance(under, t.Array | t.Set | t.Map):
                whole.append(Case(when, node, case.columns))
            elif isinstance(node, Leaf):
                lists.setdefault((_element(under), node.sql), []).append(when)
            elif is_valid(node):
                raise NotColumnar("a constant that is taken apart")
    made = [_restricted(frame, cases, number, place) for place, cases in fields.items()]
    if whole:
        made.append(_restricted(frame, whole, number, 0))
    return made + [_elements(frame, number, typ, sql, any_of(whens)) for (typ, sql), whens in lists.items()]


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
    made = [Outcome(build.is_null(sql), Const(Value(under, None)))]
    for tag, member in enumerate(under.types):
        is_tag = build.binary("=", build.part(sql, "tag"), build.integer(tag))
        made.extend(on(is_tag, _found_in(member, build.part(sql, str(tag)))))
    return bounded(made)


def _restricted(frame: Frame, cases: list[Case], number: int, place: int) -> Frame:
    """The rows of some cases alone."""
    made = replace(frame, cases=tuple(cases), order=_order(frame, number, place))
    return made.having(any_of([case.when for case in cases]))


def _elements(frame: Frame, number: int, typ: t.Type, sql: Sql, when: Cond) -> Frame:
    """The elements of lists, with their places."""
    columns = [
        *frame.order_columns(),
        (_ELEMENT, build.call("unnest", sql)),
        (_PLACE, build.call("generate_subscripts", sql, build.integer(1))),
    ]
    source = frame.having(when).select(columns).subquery("elements", copy=False)
    order = [replace(item, sql=build.column(f"o{i}")) for i, item in enumerate(frame.order)]
    items = (*order, Item(build.integer(number)), Item(build.column(_PLACE)))
    cases = [Case(o.when, o.node, frozenset({_ELEMENT})) for o in _found_in(typ, build.column(_ELEMENT))]
    return Frame(source, tuple(cases), order=items)


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
