"""Functions in SQL, by name: from the values of their arguments to what they make. Constants never come here."""

from __future__ import annotations

from collections.abc import Callable

from shoal.engines.interp.functions import types as type_functions
from shoal.engines.interp.functions.strings import SPACE
from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, both, negated
from shoal.engines.sql.casts import cast
from shoal.engines.sql.comparisons import is_null
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
    refuse_exact,
)
from shoal.engines.sql.result_types import called
from shoal.engines.sql.types import literal
from shoal.model import types as t
from shoal.model.values import FALSE, MISSING, NULL, QUIET, TRUE, Value

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
    (has,) = _has(*nodes)
    if isinstance(has.node, Const) and has.node.type is t.BOOL:
        return const(FALSE if has.node.value.data else TRUE)
    return (has,)


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


def _case_changed(name: str) -> Function:
    """Upper or lower case: the engine knows that of ASCII, and others have opinions of their own."""

    def compute(node: Node) -> Outcomes:
        if node.type.under is not t.STRING or not isinstance(node, Leaf):
            raise NotColumnar(name)
        is_ascii = build.binary("=", build.call("strlen", node.sql), build.call("length", node.sql))
        other = Leaf(t.STRING, build.choose([(build.negated(is_ascii), node.sql)], build.null("VARCHAR")))
        (outcome,) = called(name, other)
        assert isinstance(outcome.node, Leaf)
        return always(Leaf(t.STRING, build.choose([(is_ascii, build.call(name, node.sql))], outcome.node.sql)))

    return compute


def _trim(node: Node) -> Outcomes:
    if node.type.under is not t.STRING or not isinstance(node, Leaf):
        raise NotColumnar("trim")
    return always(Leaf(t.STRING, build.call("trim", node.sql, build.text(SPACE))))


def _abs(node: Node) -> Outcomes:
    under = node.type.under
    refuse_exact(under)
    if not isinstance(node, Leaf) or not t.is_number(under):
        raise NotColumnar("abs")
    if under in t.UNSIGNED:
        return always(node)
    number = build.or_zero(node.sql, build.integer(0))
    absolute = build.call("abs", number)
    if under in t.FLOATS:
        return always(Leaf(node.type, absolute))
    low, _ = t.INT_RANGES[under]  # type: ignore[index]
    # The least number has no counterpart, and stays what it is.
    is_least = build.binary("=", number, build.integer(low))
    return always(Leaf(node.type, build.choose([(is_least, number)], absolute)))


def _rounded(name: str) -> Function:
    """A float without its fraction; a null is 0."""

    def compute(node: Node) -> Outcomes:
        under = node.type.under
        if under in t.INT_RANGES:
            return always(node)
        if under is not t.FLOAT64 or not isinstance(node, Leaf):
            raise NotColumnar(name)
        return always(Leaf(node.type, build.call(name, build.or_zero(node.sql, build.integer(0)))))

    return compute


def _coalesce(*nodes: Node) -> Outcomes:
    outcomes: list[Outcome] = []
    rest: Cond = True
    for node in nodes:
        if isinstance(node.type.under, t.Union):
            raise NotColumnar("a union, which may hold null")
        if is_known_error(node, MISSING) or is_known_error(node, QUIET):
            continue
        null = is_null(node)
        outcomes.extend(_on(both(rest, negated(null)), node))
        rest = both(rest, null)
        if rest is False:
            return tuple(outcomes)
    return (*outcomes, *_on(rest, Const(NULL)))


def _cidr_match(net: Node, node: Node) -> Outcomes:
    """Addresses of a network are neighbours in their physical form."""
    if not isinstance(net, Const) or net.type.under is not t.NET or net.value.data is None:
        raise NotColumnar("a network that is not known")
    if not isinstance(node, Leaf) or node.type.under is not t.IP:
        raise NotColumnar("addresses inside of values")
    half = len(net.value.data) // 2
    address, mask = (int.from_bytes(part, "big") for part in (net.value.data[:half], net.value.data[half:]))
    hosts = (1 << 8 * half) - 1 - mask
    if hosts & (hosts + 1):
        raise NotColumnar("a mask with gaps")
    first, last = (
        literal(Value(t.IP, number.to_bytes(half, "big"))) for number in (address & mask, address & mask | hosts)
    )
    holds = both(build.binary(">=", node.sql, first), build.binary("<=", node.sql, last))
    return always(Leaf(t.BOOL, build.known(holds)))


def _on(when: Cond, node: Node) -> Outcomes:
    return () if when is False else (Outcome(when, node),)


FUNCTIONS: dict[str, Function] = {
    "abs": _abs,
    "bucket": _bucket,
    "cast": cast,
    "ceil": _rounded("ceil"),
    "cidr_match": _cidr_match,
    "coalesce": _coalesce,
    "every": _bucket,
    "floor": _rounded("floor"),
    "has": _has,
    "is": _is,
    "is_error": _is_error,
    "kind": _of_type(type_functions.kind),
    "len": _length,
    "lower": _case_changed("lower"),
    "missing": _missing,
    "nameof": _of_type(type_functions.nameof),
    "quiet": _quiet,
    "round": _rounded("round"),
    "rune_len": _rune_len,
    "trim": _trim,
    "typeof": _of_type(type_functions.typeof),
    "typeunder": _of_type(type_functions.typeunder),
    "upper": _case_changed("upper"),
}
