"""Operators that make several rows of one: `fork`, `switch`, `yield` of several expressions, and `over`.

Each leg, and each way in which a row is taken apart, has a frame of its own. The order of the legs means nothing. The
rows that one row is taken apart into have two more order items: the number of the expression, and the index in its
value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql, both, either, negated
from shoal.engines.sql.comparisons import compare_literal
from shoal.engines.sql.expressions import record_node, truth, value
from shoal.engines.sql.frames import Case, Frame, Item, any_of, passing
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
from shoal.formats.columns.layouts import physical_names
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import MISSING, Value
from shoal.model.values import is_error as is_error_value

Run = Callable[[plan.Seq, Sequence[Frame]], Sequence[Frame]]
"""Runs operators on rows."""


def forked(op: plan.Fork, frames: Sequence[Frame], run: Run) -> list[Frame]:
    """Every row into every leg."""
    return _together([run(leg, frames) for leg in op.legs])


def switched(op: plan.Switch, frames: Sequence[Frame], run: Run) -> list[Frame]:
    """Every row into the first leg that it fits; one without a test takes what is left, wherever it stands."""
    left = list(frames)
    legs: list[Sequence[Frame]] = [()] * len(op.cases)
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


def _parted(frames: Sequence[Frame], test: Callable[[Node], Cond]) -> tuple[list[Frame], list[Frame]]:
    """The rows that pass a test, and all others, whatever the test makes of them."""
    matching, left = [], []
    for frame in frames:
        verdicts = [test(case.node) for case in frame.cases]
        matching.append(passing(frame, verdicts))
        left.append(passing(frame, [negated(verdict) for verdict in verdicts]))
    return matching, left


def _together(legs: Sequence[Sequence[Frame]]) -> list[Frame]:
    """The rows of all legs; their order items are padded to one length."""
    numbered = [(number, frame) for number, leg in enumerate(legs) for frame in leg if frame.cases]
    longest = max((len(frame.order) for _, frame in numbered), default=0)

    def placed(number: int, frame: Frame) -> Frame:
        numbers = [0] * (longest - len(frame.order)) + [number]
        return replace(frame, order=(*frame.order, *(Item(build.integer(n)) for n in numbers)))

    return [placed(number, frame) for number, frame in numbered]


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
                for index, part in enumerate(_fields(node) if is_there is not False else ()):
                    fields.setdefault(index, []).append(Case(is_there, part, case.columns))
            elif not isinstance(under, t.Array | t.Set | t.Map):
                whole.append(Case(when, node, case.columns))
            elif isinstance(node, Leaf):
                lists.setdefault((_element(under), node.sql), []).append(when)
            elif is_valid(node):
                raise NotColumnar("a constant that is taken apart")
    frames = [_restricted(frame, cases, number, index) for index, cases in fields.items()]
    if whole:
        frames.append(_restricted(frame, whole, number, 0))
    return frames + [_elements(frame, number, typ, sql, any_of(whens)) for (typ, sql), whens in lists.items()]


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


def _restricted(frame: Frame, cases: list[Case], number: int, index: int) -> Frame:
    """The rows of some cases alone."""
    restricted = replace(frame, cases=tuple(cases), order=_order(frame, number, index))
    return restricted.having(any_of([case.when for case in cases]))


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
