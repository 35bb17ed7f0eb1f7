"""Operators on rows, as changes of a relation. What has no exact columnar form raises NotColumnar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from shoal.engines.sql.build import Cond, both, either, negated
from shoal.engines.sql.expressions import combined, truth, value
from shoal.engines.sql.nodes import (
    Const,
    Node,
    NotColumnar,
    Outcome,
    Outcomes,
    Rec,
    always,
    bounded,
    const,
    equals_error,
    fields_of,
    is_error,
    narrowed,
    on,
)
from shoal.engines.sql.relations import Case, Relation, passing
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import QUIET, Value

MOST_CASES = 512
MOST_IN_DOUBT = 3
"""Fields of an operator that may each be quiet or not: each doubles the cases."""


def apply(op: plan.Op, relation: Relation) -> Relation:
    """A relation after an operator."""
    match op:
        case plan.Pass():
            return relation
        case plan.Filter(expr):
            return filtered(relation, expr)
        case plan.Yield((expr,)):
            return changed(relation, lambda node: value(expr, node))
        case plan.Cut(args):
            return changed(relation, lambda node: cut(args, node))
        case plan.Put(args):
            return changed(relation, lambda node: _put(args, node))
        case plan.Drop(paths):
            return changed(relation, lambda node: _drop(frozenset(paths), node))
        case plan.Rename(args):
            return changed(relation, lambda node: _rename(args, node))
    raise NotColumnar(type(op).__name__)


def filtered(relation: Relation, expr: plan.Expr) -> Relation:
    """The rows that a filter lets pass."""
    return passing(relation, [truth(expr, case.node) for case in relation.cases])


def changed(relation: Relation, change: Callable[[Node], Outcomes]) -> Relation:
    """Each row by what a function makes of it; what becomes quiet is dropped."""
    cases: list[Case] = []
    dropped: list[Cond] = []
    for case in relation.cases:
        for outcome in change(case.node):
            when = both(case.when, outcome.when)
            is_quiet = equals_error(outcome.node, QUIET)
            dropped.append(both(when, is_quiet))
            if is_quiet is not True:
                cases.append(Case(when, outcome.node, case.columns))
    if len(cases) > MOST_CASES:
        raise NotColumnar("too many cases")
    return replace(relation, cases=tuple(cases)).having(negated(either(*dropped)))


# ---- fields of records


def _name(target: plan.Expr) -> str:
    if isinstance(target, plan.This) and len(target.path) == 1:
        return target.path[0]
    raise NotColumnar("a target that is not a top-level field")


def cut(args: Sequence[plan.Assignment], node: Node) -> Outcomes:
    """A record of just these fields; quiet if there is none of them."""
    if not args:
        raise NotColumnar("cut of nothing")
    names = [_name(a.target) for a in args]
    return _with_quiet(
        names, [value(a.expr, node) for a in args], lambda kept: combined(*kept) if kept[0] else const(QUIET)
    )


def _with_quiet(
    names: list[str], columns: list[Outcomes], make: Callable[[tuple[list[str], list[Outcomes]]], Outcomes]
) -> Outcomes:
    """What `make` gives for fields without those that are quiet; on a condition, where one may be quiet or not."""
    outcomes: list[Outcome] = []
    ways = [_ways(column) for column in columns]
    if sum(len(alternatives) > 1 for alternatives in ways) > MOST_IN_DOUBT:
        raise NotColumnar("many fields that may be quiet")
    for picked in product(*ways):
        kept = [(name, way.column) for name, way in zip(names, picked, strict=True) if way.column]
        when = both(*(way.when for way in picked))
        if when is not False:
            outcomes.extend(on(when, make(([name for name, _ in kept], [column for _, column in kept]))))
    return bounded(outcomes)


@frozen
class _Way:
    """What a field is on a condition; without outcomes it is quiet."""

    when: Cond
    column: Outcomes


def _ways(column: Outcomes) -> list[_Way]:
    quiet = [(o, equals_error(o.node, QUIET)) for o in column]
    is_quiet = either(*(both(o.when, condition) for o, condition in quiet))
    kept = tuple(o for o, condition in quiet if condition is not True)
    ways = (_Way(negated(is_quiet), kept), _Way(is_quiet, ()))
    return [way for way in ways if way.when is not False]


def _put(args: Sequence[plan.Assignment], node: Node) -> Outcomes:
    under = node.type.under
    if not isinstance(under, t.Record):
        if is_error(node):
            return always(node)
        raise NotColumnar("put into a value that is not a record")
    names = [_name(a.target) for a in args]
    if len(set(names)) < len(names):
        raise NotColumnar("a field that is put twice")
    old = dict(zip((f.name for f in under.fields), fields_of(node), strict=True))

    def make(kept: tuple[list[str], list[Outcomes]]) -> Outcomes:
        if not kept[0]:
            return always(node)
        columns = {name: always(field) for name, field in old.items()} | dict(zip(*kept, strict=True))
        return combined(list(columns), list(columns.values()))

    return _with_quiet(names, [value(a.expr, node) for a in args], make)


def _drop(paths: frozenset[plan.Path], node: Node) -> Outcomes:
    if not isinstance(node.type.under, t.Record):
        return always(node)
    remaining = _without(node, paths, ())
    return const(QUIET) if remaining is None else always(remaining)


def _without(node: Node, paths: frozenset[plan.Path], at: plan.Path) -> Node | None:
    """A record without some fields; None if nothing is left, the very node if it has none of them."""
    under = node.type.under
    if not isinstance(under, t.Record) or not any(p[: len(at)] == at for p in paths):
        return node
    kept: list[tuple[str, Node]] = []
    is_same = True
    for f, inner in zip(under.fields, fields_of(node), strict=True):
        path = (*at, f.name)
        remaining = None if path in paths else _without(inner, paths, path)
        is_same = is_same and remaining is inner
        if remaining is not None:
            kept.append((f.name, remaining))
    if is_same:
        return node
    if not kept:
        return None
    if isinstance(node, Const):
        raise NotColumnar("drop from a constant")
    assert isinstance(node, Rec)
    return Rec(t.record((n, x.type) for n, x in kept), tuple(x for _, x in kept), node.valid)


def _rename(args: Sequence[plan.Assignment], node: Node) -> Outcomes:
    if not isinstance(node.type.under, t.Record):
        return always(node)
    fields = list(fields_of(node))
    names = [f.name for f in node.type.under.fields]
    for arg in args:
        old, new = _name(arg.expr), _name(arg.target)
        if old not in names:
            continue
        names[names.index(old)] = new
        if len(set(names)) < len(names):
            raise NotColumnar("a name that is there already")
    typ = t.record(zip(names, (x.type for x in fields), strict=True))
    if isinstance(node, Const):
        return const(Value(typ, node.value.data))
    assert isinstance(node, Rec)
    return (Outcome(True, Rec(typ, tuple(fields), node.valid)),)


# ---- projection


def projected(relation: Relation, paths: Sequence[plan.Path]) -> Relation:
    """Records of just the fields at some paths, which is all that is looked at from here on."""
    return replace(relation, cases=tuple(replace(c, node=narrowed(c.node, paths)) for c in relation.cases))
