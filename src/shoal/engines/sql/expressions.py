"""Expressions over rows of one shape, as SQL. What has no exact columnar form raises NotColumnar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from sqlglot import exp

from shoal.engines.interp.engine import evaluate
from shoal.engines.interp.expressions.access import is_integer, walk
from shoal.engines.interp.reshape import parts
from shoal.engines.sql import build
from shoal.engines.sql.arithmetic import arithmetic, minus
from shoal.engines.sql.build import Cond, both, either, negated
from shoal.engines.sql.comparisons import compare, compare_literal
from shoal.engines.sql.formulas import computed, node_of
from shoal.engines.sql.functions import FUNCTIONS
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
    is_error,
    is_known_error,
    is_long,
    on,
)
from shoal.engines.sql.result_types import FUNCTIONS as RESULTS
from shoal.engines.sql.result_types import results_of
from shoal.engines.sql.searches import find_regexp, find_text, matches_regexp
from shoal.engines.sql.types import failure
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import FALSE, MISSING, TRUE, Value

MOST_ALTERNATIVES = 100
COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


def truth(expr: plan.Expr, this: Node) -> Cond:
    """Whether a filter by this expression lets a row pass."""
    match expr:
        case plan.Binary("and", left, right):
            return both(truth(left, this), truth(right, this))
        case plan.Binary("or", left, right):
            outcomes = value(left, this)
            spoiled = either(*(o.when for o in outcomes if not _is_bool(o.node) and not _is_missing(o.node)))
            return either(_holds(outcomes), both(negated(spoiled), truth(right, this)))
    return _holds(value(expr, this))


def _holds(outcomes: Outcomes) -> Cond:
    return either(*(both(o.when, _bool(o.node)) for o in outcomes if _is_bool(o.node)))


def _is_bool(node: Node) -> bool:
    return node.type.under is t.BOOL


def _is_missing(node: Node) -> bool:
    return is_known_error(node, MISSING)


def _bool(node: Node) -> Cond:
    """Whether a bool is true."""
    if isinstance(node, Const):
        return bool(node.value.data)
    assert isinstance(node, Leaf)
    sql = node.sql
    # What was made known to be a value of its own is the plain condition again.
    is_known = isinstance(sql, exp.Coalesce) and sql.expressions == [exp.false()]
    return sql.this if is_known else sql


def _condition(holds: Cond) -> Node:
    """A condition as a value."""
    if isinstance(holds, bool):
        return Const(TRUE if holds else FALSE)
    return Leaf(t.BOOL, build.known(holds))


def value(expr: plan.Expr, this: Node) -> Outcomes:
    """What an expression makes of a row."""
    match expr:
        case plan.Literal(literal):
            return const(literal)
        case plan.Binary("and" | "or"):
            return _not_long(_logical(expr, this))
        case plan.Conditional():
            return _not_long(_conditional(expr, this))
        case plan.RecordExpr():
            return _record(expr, this)
    operands = [value(operand, this) for operand in _operands(expr)]
    try:
        outcomes = _in_sql(expr, this, operands)
        return outcomes if isinstance(expr, plan.This) else _not_long(outcomes)
    except NotColumnar:
        inputs = [always(this)] if isinstance(expr, plan.This) else operands
        return _not_long(computed(expr, this, results_of(expr, inputs)))


def _not_long(outcomes: Outcomes) -> Outcomes:
    if is_long(outcomes):
        raise NotColumnar("long SQL")
    return outcomes


def _operands(expr: plan.Expr) -> tuple[plan.Expr, ...]:
    """The expressions of which one is a function."""
    match expr:
        case plan.This():
            return ()
        case plan.Dot(inner) | plan.Unary(_, inner) | plan.RegexpMatch(_, inner) | plan.RegexpSearch(_, inner):
            return (inner,)
        case plan.Search(_, _, inner):
            return (inner,)
        case plan.Index(a, b) | plan.Binary(_, a, b):
            return (a, b)
        case plan.Slice(inner, start, stop):
            return (inner, *(bound for bound in (start, stop) if bound is not None))
        case plan.Call(_, args):
            return args
        case plan.ArrayExpr(elems) | plan.SetExpr(elems):
            return tuple(e.expr if isinstance(e, plan.Spread) else e for e in elems)
        case plan.MapExpr(entries):
            return tuple(part for entry in entries for part in entry)
    raise NotColumnar(type(expr).__name__)


def _in_sql(expr: plan.Expr, this: Node, operands: Sequence[Outcomes]) -> Outcomes:
    """What an expression makes of its operands, where SQL can say it."""
    match expr:
        case plan.This(path):
            return always(at_path(this, path))
        case plan.Dot(_, name):
            return bounded(Outcome(o.when, at_path(o.node, (name,))) for o in operands[0])
        case plan.Index(_, plan.Literal(key)):
            return _index(operands[0], key)
        case plan.Slice(_, start, stop):
            return _slice(operands[0], start, stop)
        case plan.Unary("!"):
            return bounded(x for o in operands[0] for x in on(o.when, _negated(o.node)))
        case plan.Unary("-"):
            return bounded(x for o in operands[0] for x in on(o.when, minus(o.node)))
        case plan.Binary(op, _, right) if op in COMPARISONS:
            return _comparison(op, right, operands[0], operands[1])
        case plan.Binary("in"):
            return _both_sides(operands[0], operands[1], _contained)
        case plan.Binary(op):
            return _both_sides(operands[0], operands[1], lambda a, b: arithmetic(op, a, b))
        case plan.Call(name):
            return _call(name, operands)
        case plan.Search(text, term):
            return _search(operands[0], lambda node: find_text(node, text, term))
        case plan.RegexpSearch(pattern):
            return _search(operands[0], lambda node: find_regexp(node, pattern))
        case plan.RegexpMatch(pattern):
            return bounded(Outcome(o.when, _condition(matches_regexp(o.node, pattern))) for o in operands[0])
    raise NotColumnar(type(expr).__name__)


def at_path(node: Node, path: plan.Path) -> Node:
    """The field at a path."""
    for i, name in enumerate(path):
        if isinstance(node, Const):
            return Const(walk(node.value, path[i:]))
        under = node.type.under
        if isinstance(node, Rec):
            assert isinstance(under, t.Record)
            if name not in under.index:
                return Const(MISSING)
            node = node.fields[under.index[name]]
        elif isinstance(under, t.Union | t.Map) or under is t.TYPE:
            raise NotColumnar("a path through a union, a map or a type")
        else:
            return Const(MISSING)
    return node


def _index(containers: Outcomes, key: Value) -> Outcomes:
    """A field of a record by its name, or an element by its index."""
    return bounded(x for o in containers for x in on(o.when, _element(o.node, key)))


def _element(node: Node, key: Value) -> Outcomes:
    under, at = node.type.under, key.type.under
    if isinstance(node, Rec) and at is t.STRING:
        return always(at_path(node, (key.data or "",)))
    if not isinstance(under, t.Array | t.Set) or not isinstance(node, Leaf) or isinstance(under.elem, t.Union):
        raise NotColumnar("an element of something else, or of a union")
    if not isinstance(at, t.Primitive) or not is_integer(at):
        raise NotColumnar("an index that is not a number")
    index: int = key.data or 0
    is_there = build.binary(">=", build.call("len", node.sql), build.integer(index + 1 if index >= 0 else -index))
    element = build.call("list_extract", node.sql, build.integer(index + 1 if index >= 0 else index))
    return Outcome(is_there, node_of(under.elem, element)), Outcome(negated(is_there), Const(MISSING))


def _contained(a: Node, b: Node) -> Outcomes:
    """Whether a value is another one, or in it, where it is known what is in it."""
    if not isinstance(b, Const):
        if not isinstance(b.type.under, t.Primitive):
            raise NotColumnar("a search for a value in values with parts")
        return always(_condition(compare("==", a, b)))
    elements = [Value(*part).under() for part in parts(b.type, b.value.data)]
    if len(elements) > MOST_ALTERNATIVES:
        raise NotColumnar("a long list")
    return always(_condition(either(*(compare("==", a, Const(item)) for item in elements))))


def _slice(subjects: Outcomes, start: plan.Expr | None, stop: plan.Expr | None) -> Outcomes:
    """A part of a string, between constant positions."""
    low, high = _place(start), _place(stop)
    outcomes: list[Outcome] = []
    for o in subjects:
        if is_error(o.node):
            outcomes.append(o)
            continue
        if o.node.type.under is not t.STRING or not isinstance(o.node, Leaf):
            raise NotColumnar("a part of something else than a string")
        args = [o.node.sql, build.integer((low or 0) + 1)]
        if high is not None:
            args.append(build.integer(max(0, high - (low or 0))))
        outcomes.append(Outcome(o.when, Leaf(o.node.type, build.call("substring", *args))))
    return bounded(outcomes)


def _place(expr: plan.Expr | None) -> int | None:
    if expr is None:
        return None
    if isinstance(expr, plan.Literal) and expr.value.type is t.INT64 and (expr.value.data or 0) >= 0:
        return expr.value.data or 0
    raise NotColumnar("a place that is counted from the end, or not known")


# ---- operators


def _comparison(op: str, right: plan.Expr, first: Outcomes, second: Outcomes) -> Outcomes:
    if isinstance(right, plan.Literal):
        literal = right.value
        return bounded(
            o if is_error(o.node) else Outcome(o.when, _condition(compare_literal(op, o.node, literal))) for o in first
        )
    return _both_sides(first, second, lambda a, b: always(_condition(compare(op, a, b))))


def _both_sides(first: Outcomes, second: Outcomes, combine: Callable[[Node, Node], Outcomes]) -> Outcomes:
    """Two operands; an error on the left is the result, else one on the right."""
    outcomes: list[Outcome] = []
    for a in first:
        if is_error(a.node):
            outcomes.append(a)
            continue
        for b in on(a.when, second):
            outcomes.extend((b,) if is_error(b.node) else on(b.when, combine(a.node, b.node)))
    return bounded(outcomes)


def _as_bool(node: Node) -> Node:
    """A bool that is not null; or the error that it is, or makes."""
    if _is_bool(node):
        return _condition(_bool(node))
    if is_error(node):
        return node
    return failure("not type bool", node)


def _negated(node: Node) -> Outcomes:
    node = _as_bool(node)
    return always(node if is_error(node) else _condition(negated(_bool(node))))


def _logical(expr: plan.Binary, this: Node) -> Outcomes:
    outcomes: list[Outcome] = []
    right: Outcomes | None = None
    for a in value(expr.left, this):
        left = _as_bool(a.node)
        if is_error(left) and not (expr.op == "or" and _is_missing(left)):
            outcomes.append(Outcome(a.when, left))
            continue
        if right is None:
            right = tuple(Outcome(o.when, _as_bool(o.node)) for o in value(expr.right, this))
        settled = False if is_error(left) else _bool(left)
        if expr.op == "and":
            settled = negated(settled)
        outcomes.extend(on(both(a.when, settled), const(TRUE if expr.op == "or" else FALSE)))
        outcomes.extend(on(both(a.when, negated(settled)), right))
    return bounded(outcomes)


def _conditional(expr: plan.Conditional, this: Node) -> Outcomes:
    outcomes: list[Outcome] = []
    for o in value(expr.cond, this):
        if not _is_bool(o.node):
            outcomes.append(Outcome(o.when, failure("?-operator: bool predicate required", o.node)))
            continue
        holds = _bool(o.node)
        if both(o.when, holds) is not False:
            outcomes.extend(on(both(o.when, holds), value(expr.then, this)))
        if both(o.when, negated(holds)) is not False:
            outcomes.extend(on(both(o.when, negated(holds)), value(expr.otherwise, this)))
    return bounded(outcomes)


def _record(expr: plan.RecordExpr, this: Node) -> Outcomes:
    """A record; of several fields of one name the last one stands where the first one stood."""
    outcomes: list[Outcome] = []
    for picked in product(*(value(e.expr, this) for e in expr.elems)):
        when = both(*(o.when for o in picked))
        if when is False:
            continue
        fields: dict[str, Node] = {}
        for elem, outcome in zip(expr.elems, picked, strict=True):
            fields.update({elem.name: outcome.node} if isinstance(elem, plan.Field) else _spread(outcome.node))
        outcomes.append(Outcome(when, record_node(list(fields), list(fields.values()))))
    return bounded(outcomes)


def _spread(node: Node) -> dict[str, Node]:
    """The fields of a record; anything else vanishes."""
    under = node.type.under
    if not isinstance(under, t.Record):
        return {}
    if isinstance(node, Rec):
        return dict(zip((f.name for f in under.fields), node.fields, strict=True))
    return {f.name: at_path(node, (f.name,)) for f in under.fields}


def combined(names: list[str], columns: list[Outcomes]) -> Outcomes:
    """Records of fields that may each have several outcomes."""
    return bounded(
        Outcome(both(*(o.when for o in picked)), record_node(names, [o.node for o in picked]))
        for picked in product(*columns)
    )


def record_node(names: list[str], nodes: list[Node]) -> Node:
    """A record of these fields."""
    typ = t.record(zip(names, (node.type for node in nodes), strict=True))
    if all(isinstance(node, Const) for node in nodes):
        return Const(Value(typ, tuple(node.value.data for node in nodes if isinstance(node, Const))))
    return Rec(typ, tuple(nodes))


def _search(outcomes: Outcomes, find) -> Outcomes:  # type: ignore[no-untyped-def]
    """A search in a value; there is nothing to be found in an error."""
    return bounded(Outcome(o.when, Const(FALSE) if is_error(o.node) else _condition(find(o.node))) for o in outcomes)


def _call(name: str, args: Sequence[Outcomes]) -> Outcomes:
    if name not in FUNCTIONS and name not in RESULTS:
        raise NotColumnar(f"the function {name}")
    outcomes: list[Outcome] = []
    for picked in product(*args):
        when = both(*(o.when for o in picked))
        if when is False:
            continue
        nodes = [o.node for o in picked]
        if all(isinstance(n, Const) for n in nodes) and nodes:
            literals = tuple(plan.Literal(n.value) for n in nodes if isinstance(n, Const))
            outcomes.extend(on(when, const(evaluate(plan.Call(name, literals)))))
            continue
        function = FUNCTIONS.get(name)
        if function is None:
            raise NotColumnar(f"the function {name}")
        outcomes.extend(on(when, function(*nodes)))
    return bounded(outcomes)
