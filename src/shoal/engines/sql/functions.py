"""Functions in SQL, by name: from the values of their arguments to what they make. Constants never come here."""

from __future__ import annotations

from collections.abc import Callable

from shoal.engines.interp.functions import types as type_functions
from shoal.engines.sql import build
from shoal.engines.sql.build import Cond
from shoal.engines.sql.nodes import (
    Const,
    Leaf,
    Node,
    NotColumnar,
    Outcome,
    Outcomes,
    Rec,
    always,
    const,
    is_error,
    is_known_error,
)
from shoal.model import types as t
from shoal.model.values import FALSE, MISSING, QUIET, TRUE, Value

Function = Callable[..., Outcomes]


def _of_type(function: Callable[[Value], Value]) -> Function:
    """A function that looks at the type of its argument alone."""

    def compute(node: Node) -> Outcomes:
        if node.type.under is t.TYPE:
            raise NotColumnar("a type of a type")
        return const(function(Value(node.type, None)))

    return compute


def _is(node: Node, *rest: Node) -> Outcomes:
    if len(rest) != 1 or not isinstance(rest[0], Const) or rest[0].type.under is not t.TYPE:
        raise NotColumnar("is, with the name of a type")
    return const(TRUE if rest[0].value.data is node.type else FALSE)


def _has(*nodes: Node) -> Outcomes:
    for node in nodes:
        if is_error(node):
            absent = is_known_error(node, MISSING) or is_known_error(node, QUIET)
            return const(FALSE) if absent else always(node)
    return const(TRUE)


def _missing(*nodes: Node) -> Outcomes:
    (found,) = _has(*nodes)
    if isinstance(found.node, Const) and found.node.type is t.BOOL:
        return const(FALSE if found.node.value.data else TRUE)
    return (found,)


def _is_error(node: Node) -> Outcomes:
    return const(TRUE if is_error(node) else FALSE)


def _quiet(node: Node) -> Outcomes:
    return const(QUIET) if is_known_error(node, MISSING) else always(node)


def _length(node: Node) -> Outcomes:
    under = node.type.under
    if isinstance(under, t.Record):
        return const(Value(t.INT64, len(under.fields)))
    if isinstance(node, Rec) or not isinstance(node, Leaf):
        raise NotColumnar("len")
    if under is t.STRING:
        return always(Leaf(t.INT64, build.or_zero(build.call("strlen", node.sql), build.integer(0))))
    if isinstance(under, t.Array | t.Set | t.Map):
        return always(Leaf(t.INT64, build.or_zero(build.call("len", node.sql), build.integer(0))))
    raise NotColumnar("len")


def _rune_len(node: Node) -> Outcomes:
    if node.type.under is not t.STRING or not isinstance(node, Leaf):
        raise NotColumnar("rune_len")
    return always(Leaf(t.INT64, build.or_zero(build.call("length", node.sql), build.integer(0))))


def _bucket(node: Node, step: Node) -> Outcomes:
    """A time or duration cut to a multiple of a step, towards zero."""
    if not isinstance(step, Const) or step.type is not t.DURATION or not step.value.data:
        raise NotColumnar("a bucket without a fixed step")
    typ = node.type.under
    if typ not in (t.TIME, t.DURATION) or not isinstance(node, Leaf):
        raise NotColumnar("a bucket of something else")
    size = build.integer(abs(step.value.data))
    cut = build.binary("-", node.sql, build.binary("%", node.sql, size))
    if typ is t.TIME:
        return always(Leaf(t.TIME, cut))
    # A null duration gives a null time.
    null: Cond = build.is_null(node.sql)
    return (
        *_on(null, Const(Value(t.TIME, None))),
        *_on(build.negated(null), Leaf(t.DURATION, cut)),
    )


def _on(when: Cond, node: Node) -> Outcomes:
    return () if when is False else (Outcome(when, node),)


FUNCTIONS: dict[str, Function] = {
    "bucket": _bucket,
    "every": _bucket,
    "has": _has,
    "is": _is,
    "is_error": _is_error,
    "kind": _of_type(type_functions.kind),
    "len": _length,
    "missing": _missing,
    "nameof": _of_type(type_functions.nameof),
    "quiet": _quiet,
    "rune_len": _rune_len,
    "typeof": _of_type(type_functions.typeof),
    "typeunder": _of_type(type_functions.typeunder),
}
