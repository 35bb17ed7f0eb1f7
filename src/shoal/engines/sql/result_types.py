"""The results that an expression may have: all their types, and constants among them, inferred from its operands.

For most functions the types of the arguments decide. So the interpreter computes a few values of these types, the null
first; a table adds the results of other values. A function that is not in the table is not columnar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import TypeAlias

from shoal.engines.interp.engine import evaluate
from shoal.engines.interp.expressions.access import is_integer
from shoal.engines.interp.functions.network import URI
from shoal.engines.interp.functions.records import PATHS
from shoal.engines.sql import build
from shoal.engines.sql.formulas import Result, computed, is_text_error
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Outcomes, Rec, always, is_error, refuse_exact
from shoal.engines.sql.types import failed
from shoal.lang import plan
from shoal.model import types as t
from shoal.model import values
from shoal.model.cast import is_castable
from shoal.model.extent import TOO_LONG
from shoal.model.values import MISSING, Value

MOST_RESULTS = 32
_MOST_REMEMBERED = 1024
Rule: TypeAlias = Callable[..., Iterable[Result]]
"""From the operands to the results that an expression may have."""


def results_of(expr: plan.Expr, operands: Sequence[Outcomes]) -> tuple[Result, ...]:
    """All results that an expression may have."""
    rule = _rule(expr)
    results: dict[Result, None] = {}
    for picked in product(*operands):
        results.update(dict.fromkeys(rule(*(_without_sql(o.node) for o in picked))))
    if len(results) > MOST_RESULTS:
        raise NotColumnar("too many results")
    return tuple(results)


def _without_sql(node: Node) -> Node:
    return node if isinstance(node, Const) else Leaf(node.type, build.NULL)


def _rule(expr: plan.Expr) -> Rule:
    match expr:
        case plan.This(path):
            return lambda this: _at_path(this, path)
        case plan.Dot(_, name):
            return lambda inner: _at_path(inner, (name,))
        case plan.Index():
            return _indexed
        case plan.Slice():
            return _sliced
        case plan.Unary("-"):
            return _negative
        case plan.Binary("==" | "!=" | "<" | "<=" | ">" | ">=" | "in"):
            return _tested
        case plan.Binary(op):
            return lambda a, b: _arithmetic(op, a, b)
        case plan.Search() | plan.RegexpSearch() | plan.RegexpMatch():
            return lambda subject: (t.BOOL,)
        case plan.ArrayExpr(elems):
            return lambda *nodes: (values.array(items).type for items in _elements(elems, nodes))
        case plan.SetExpr(elems):
            return lambda *nodes: (values.set_of(items).type for items in _elements(elems, nodes))
        case plan.MapExpr():
            return _mapped
        case plan.Call(name) if name in FUNCTIONS:
            return lambda *args: _called(name, *args)
    raise NotColumnar(expr.name if isinstance(expr, plan.Call) else type(expr).__name__)


def members(typ: t.Type) -> Iterator[t.Type]:
    """The types that values of a type have outside of their unions; that of a union is for its nulls."""
    yield typ
    if isinstance(typ.under, t.Union):
        for member in typ.under.types:
            yield from members(member)


# ---- by asking the interpreter


def _asked(make: Callable[..., plan.Expr], operands: Sequence[Node]) -> Iterator[Result]:
    """What the interpreter makes of some values of the types of operands."""
    passed = {node.type for node in operands if not isinstance(node, Const)}
    for picked in product(*(_samples(node) for node in operands)):
        value = evaluate(make(*(plan.Literal(value) for value in picked)))
        # The text of an error is known, unless it is one of those in a column.
        is_text = is_text_error(value.type) and value.type not in passed
        yield value if is_text else value.type


@lru_cache(maxsize=_MOST_REMEMBERED)
def _negative(operand: Node) -> tuple[Result, ...]:
    return tuple(_asked(lambda a: plan.Unary("-", a), (operand,)))


@lru_cache(maxsize=_MOST_REMEMBERED)
def _arithmetic(op: str, a: Node, b: Node) -> tuple[Result, ...]:
    return tuple(_asked(lambda x, y: plan.Binary(op, x, y), (a, b)))


@lru_cache(maxsize=_MOST_REMEMBERED)
def _called(name: str, *args: Node) -> tuple[Result, ...]:
    return (*FUNCTIONS[name](*args), *_asked(lambda *exprs: plan.Call(name, exprs), args))


def _samples(node: Node) -> Iterator[Value]:
    if isinstance(node, Const):
        yield node.value
        return
    refuse_exact(node.type)
    for typ in members(node.type):
        yield Value(typ, None)
        under = typ.under
        if under in t.INT_RANGES:
            low, high = t.INT_RANGES[under]
            yield from (Value(typ, data) for data in dict.fromkeys((0, 1, low, high)))
        elif under in _OTHERS:
            yield Value(typ, _OTHERS[under])
        elif isinstance(under, t.Array | t.Set | t.Map):
            yield Value(typ, ())
        elif isinstance(under, t.Record):
            yield Value(typ, (None,) * len(under.fields))
        elif isinstance(under, t.Enum):
            yield from (Value(typ, data) for data in (0, len(under.symbols) - 1))


_OTHERS = {
    t.FLOAT16: 1.0, t.FLOAT32: 1.0, t.FLOAT64: 1.0, t.STRING: "", t.BYTES: b"", t.BOOL: False,
    t.IP: bytes(4), t.NET: bytes(8), t.TYPE: t.INT64,
}  # fmt: skip


# ---- operators


def _tested(a: Node, b: Node) -> Iterator[Result]:
    yield t.BOOL
    yield from (node.value if isinstance(node, Const) else node.type for node in (a, b) if is_error(node))


def _at_path(node: Node, path: plan.Path) -> Iterable[Result]:
    types: dict[Result, None] = {node.type: None}
    for name in path:
        types = dict.fromkeys(
            result for typ in types for result in ((MISSING,) if isinstance(typ, Value) else _fields(typ, name))
        )
    return types


def _fields(typ: t.Type, name: str) -> Iterator[Result]:
    for member in members(typ):
        under = member.under
        if isinstance(under, t.Record) and name in under.index:
            yield under.fields[under.index[name]].type
        elif isinstance(under, t.Map):
            yield MISSING
            yield from _outside(under.value)
        elif under is t.TYPE:
            yield MISSING
            yield t.TYPE
        else:
            yield MISSING


def _outside(typ: t.Type) -> list[t.Type]:
    """The types of an element once it is taken out; named unions stay."""
    return [typ, *typ.types] if isinstance(typ, t.Union) else [typ]


def _indexed(container: Node, key: Node) -> Iterator[Result]:
    yield MISSING
    for typ in members(container.type):
        under, at = typ.under, key.type.under
        if isinstance(under, t.Array | t.Set):
            yield from _outside(under.elem)
            if not isinstance(at, t.Primitive) or not is_integer(at):
                yield failed(key.type)
        elif isinstance(under, t.Record):
            yield from (f.type for f in under.fields)
            if at is not t.STRING:
                yield failed(key.type)
        elif isinstance(under, t.Map):
            yield from _outside(under.value)


def _sliced(subject: Node, *bounds: Node) -> Iterator[Result]:
    if is_error(subject):
        yield subject.value if isinstance(subject, Const) else subject.type
        return
    if any(bound.type.under is not t.INT64 for bound in bounds):
        yield values.text_error("slice index is not a number")
    for typ in members(subject.type):
        inner = typ if typ is subject.type else typ.under
        is_sliceable = typ.under in (t.STRING, t.BYTES) or isinstance(typ.under, t.Array | t.Set)
        yield inner if is_sliceable else failed(inner)


def _elements(elems: Sequence[plan.Expr | plan.Spread], nodes: Sequence[Node]) -> Iterator[list[Value]]:
    """The types of elements, as nulls of them; what is spread may be empty, or vanish."""
    choices: list[list[list[Value]]] = []
    for elem, node in zip(elems, nodes, strict=True):
        inner = t.inner_of(node.type) if isinstance(elem, plan.Spread) else node.type
        elements = [] if inner is None else [[Value(inner, None)]]
        choices.append([[], *elements] if isinstance(elem, plan.Spread) else elements)
    for picked in product(*choices):
        yield [value for one in picked for value in one]


def _mapped(*nodes: Node) -> Iterator[Result]:
    nulls = [Value(node.type, None) for node in nodes]
    yield values.map_of(zip(nulls[::2], nulls[1::2], strict=True)).type


# ---- functions: results beside those of null and zero


def _nothing_else(*args: Node) -> Iterable[Result]:
    return ()


def _always(*results: Result) -> Rule:
    return lambda *args: results


def _or_failed(*results: Result) -> Rule:
    """These results, or an error around one of the arguments."""
    return lambda *args: (*results, *_failures(args))


def _failures(args: Iterable[Node]) -> Iterator[Result]:
    for arg in args:
        yield failed(arg.type)
        yield from (failed(member.under) for member in members(arg.type))


def _only_strings(*results: Result) -> Rule:
    """These results, of arguments that may be strings."""
    return lambda *args: results if all(t.STRING in map(_under, members(arg.type)) for arg in args) else ()


def _under(typ: t.Type) -> t.Type:
    return typ.under


def _numeric(*results: Result) -> Rule:
    """These results of numbers; a text may spell a number or not."""

    def rule(*args: Node) -> Iterable[Result]:
        texts = [arg for arg in args if not t.is_number(arg.type.under)]
        return (*results, *_failures(texts))

    return rule


def _log(arg: Node) -> Iterable[Result]:
    return (t.FLOAT64, *_failures((arg,)))


def _extreme(first: Node, *others: Node) -> Iterable[Result]:
    under = first.type.under
    kind = t.UINT64 if under in t.UNSIGNED else t.INT64 if under in t.INT_RANGES else t.FLOAT64
    # A negative number has no unsigned type.
    return (kind, *_failures(others)) if kind is t.UINT64 else _numeric(kind)(*others)


def _bucketed(when: Node, step: Node) -> Iterable[Result]:
    kinds = (t.TIME, t.DURATION) if when.type.under is t.DURATION else (t.TIME,)
    return _numeric(*kinds)(when, step)


def _coded(arg: Node) -> Iterator[Result]:
    """Bytes as text, and text as bytes."""
    for typ in members(arg.type):
        if typ.under is t.BYTES:
            yield t.STRING
        elif typ.under is t.STRING:
            yield from (t.BYTES, failed(t.STRING))


def _network(address: Node, *mask: Node) -> Iterator[Result]:
    yield t.NET
    yield from _failures((address, *mask))
    for node in mask:
        yield failed(t.record((("address", address.type), ("mask", node.type))))


def _formatted(form: Node, when: Node) -> Iterable[Result]:
    return (t.STRING,) if isinstance(form, Const) else (t.STRING, failed(form.type))


def _matched(pattern: Node, text: Node) -> Iterable[Result]:
    if not isinstance(pattern, Const):
        raise NotColumnar("a pattern that is not known")
    return ()


def _replaced(text: Node, old: Node, new: Node) -> Iterable[Result]:
    return (*_only_strings(t.STRING, t.NULL, TOO_LONG)(text, old, new),)


def _replaced_by_pattern(text: Node, pattern: Node, new: Node) -> Iterable[Result]:
    return _matched(pattern, text)


def _cast(arg: Node, to: Node) -> Iterator[Result]:
    if not isinstance(to, Const) or to.type.under is not t.TYPE or to.value.data is None:
        raise NotColumnar("a cast to what is not known")
    target = to.value.data
    if not is_castable(target):
        raise NotColumnar("a cast of values with parts")
    if is_error(arg):
        return
    yield target
    for typ in members(arg.type):
        if not _always_casts(typ.under, target.under):
            yield failed(typ)


def _always_casts(a: t.Type, b: t.Type) -> bool:
    """Whether every value of one type has a meaning as another."""
    if a is b or isinstance(a, t.Union):
        return True
    if b is t.STRING:
        return isinstance(a, t.Primitive) and a is not t.BYTES
    if not t.is_number(a):
        return False
    if b in t.INT_RANGES and a in t.INT_RANGES:
        (low, high), (least, most) = t.INT_RANGES[a], t.INT_RANGES[b]
        return bool(least <= low and high <= most)
    return b is t.BOOL or b is t.FLOAT64


def _coalesced(*args: Node) -> Iterator[Result]:
    yield t.NULL
    for arg in args:
        if not isinstance(arg, Const):
            yield arg.type


FUNCTIONS: dict[str, Rule] = {
    "abs": _nothing_else,
    "base64": _coded,
    "bucket": _bucketed,
    "cast": _cast,
    "ceil": _nothing_else,
    "cidr_match": _nothing_else,
    "coalesce": _coalesced,
    "compare": _nothing_else,
    "every": _bucketed,
    "fields": _always(PATHS, MISSING),
    "floor": _nothing_else,
    "grep": _nothing_else,
    "has_error": _always(t.BOOL),
    "hex": _coded,
    "join": _always(TOO_LONG),
    "ksuid": _or_failed(t.STRING, t.BYTES),
    "len": _nothing_else,
    "levenshtein": _nothing_else,
    "log": _log,
    "lower": _nothing_else,
    "max": _extreme,
    "min": _extreme,
    "network_of": _network,
    "parse_uri": _or_failed(URI),
    "pow": _numeric(t.FLOAT64),
    "regexp": _matched,
    "regexp_replace": _replaced_by_pattern,
    "replace": _replaced,
    "round": _nothing_else,
    "rune_len": _nothing_else,
    "split": _nothing_else,
    "sqrt": _numeric(t.FLOAT64),
    "strftime": _formatted,
    "trim": _nothing_else,
    "upper": _nothing_else,
}


def called(name: str, *args: Node) -> Outcomes:
    """What a function makes of values."""
    fields = [(f"a{i}", arg) for i, arg in enumerate(args)]
    this = Rec(t.record((field, arg.type) for field, arg in fields), args)
    exprs = [plan.Literal(arg.value) if isinstance(arg, Const) else plan.This((field,)) for field, arg in fields]
    expr = plan.Call(name, tuple(exprs))
    return computed(expr, this, results_of(expr, [always(arg) for arg in args]))
