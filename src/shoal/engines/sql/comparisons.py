"""Comparisons in SQL, exact: of whole numbers with fractions, of nulls, and of values of unlike types."""

from __future__ import annotations

import math

from shoal.engines.interp.expressions.compare import is_comparable, literal_test
from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, both, either
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Rec, refuse_exact
from shoal.engines.sql.types import literal, physical, sql_type
from shoal.model import types as t
from shoal.model.values import Value

_SQL = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_EXACT_FLOAT = 2**53
_BYTEWISE = (t.STRING, t.BYTES, t.IP, t.BOOL)
_ALLOWS_EQUAL = ("==", "<=", ">=")
_SMALL = frozenset((t.INT8, t.INT16, t.INT32, t.UINT8, t.UINT16, t.UINT32))


def compare_literal(op: str, node: Node, constant: Value) -> Cond:
    """Whether a comparison with a literal holds; of unlike types it never does."""
    if not is_comparable(constant, op):
        return compare(op, node, Const(constant))
    if isinstance(node, Const):
        test = literal_test(op, constant, node.value.type)
        return test is not None and test(node.value.data)
    kind, typ = constant.type.under, node.type.under
    if kind is not t.NULL:
        refuse_exact(kind, typ)
    if isinstance(typ, t.Union | t.Enum):
        raise NotColumnar("a comparison with a union or an enum")
    if kind is t.NULL:
        return is_null(node) if op == "==" else build.negated(is_null(node))
    if not (t.is_number(typ) if t.is_number(kind) else typ is kind):
        return False
    if not isinstance(node, Leaf) or typ is t.TYPE:
        raise NotColumnar("a comparison with a type")
    holds = (
        _with_number(op, node, constant) if t.is_number(typ) else build.binary(_SQL[op], node.sql, literal(constant))
    )
    # NULL is different from anything, and nothing else.
    return either(build.is_null(node.sql), holds) if op == "!=" else holds


def is_null(node: Node) -> Cond:
    """Whether a value is null."""
    match node:
        case Const(value):
            return value.data is None
        case Rec(_, _, valid):
            return False if valid is None else build.negated(valid)
        case Leaf(typ, sql):
            return True if typ.under is t.NULL else build.is_null(sql)


def _with_number(op: str, node: Leaf, constant: Value) -> Cond:
    """A number against a literal number, which may be of the other kind: fraction or whole."""
    amount = constant.data
    if node.type.under in t.FLOATS:
        if isinstance(amount, int) and abs(amount) > _EXACT_FLOAT:
            raise NotColumnar("a large whole number against fractions")
        if math.isnan(amount):
            return op == "!="
        holds = build.binary(_SQL[op], build.cast(node.sql, "DOUBLE"), literal(Value(t.FLOAT64, float(amount))))
        # To the engine NaN is the greatest number, and a file does not tell that it has some.
        is_nan = build.is_nan(node.sql)
        return either(is_nan, holds) if op == "!=" else both(holds, build.negated(is_nan))
    if isinstance(amount, float):
        return _whole_with_fraction(op, node, amount)
    low, high = t.INT_RANGES[node.type.under]  # type: ignore[index]
    if low <= amount <= high:
        return build.binary(_SQL[op], node.sql, build.cast(build.integer(amount), sql_type(node.type)))
    return _with_out_of_range(op, node, is_above=amount > high)


def _with_out_of_range(op: str, node: Leaf, is_above: bool) -> Cond:
    if op in ("==", "!="):
        return False if op == "==" else build.is_present(node.sql)
    return build.is_present(node.sql) if (op in ("<", "<=")) == is_above else False


def _whole_with_fraction(op: str, node: Leaf, amount: float) -> Cond:
    if math.isnan(amount):
        return build.is_present(node.sql) if op == "!=" else False
    if math.isinf(amount):
        return _with_out_of_range(op, node, is_above=amount > 0)
    if op in ("==", "!="):
        if not amount.is_integer():
            return False if op == "==" else build.is_present(node.sql)
        return _with_number(op, node, Value(t.INT64, int(amount)))
    whole = math.floor(amount) if op in ("<=", ">") else math.ceil(amount)
    return _with_number(op, node, Value(t.INT64, whole))


# ---- of two expressions


def compare(op: str, a: Node, b: Node) -> Cond:
    """Whether a comparison of two values holds: null equals null alone, unlike types differ and have no order."""
    null_a, null_b = is_null(a), is_null(b)
    if null_a is True or null_b is True:
        other = null_b if null_a is True else null_a
        if op == "!=":
            return build.negated(other)
        return other if op in _ALLOWS_EQUAL else False
    alike = _compare_present(op, a, b)
    if op == "!=":
        if alike is True:
            return True if null_a is False or null_b is False else build.negated(both(null_a, null_b))
        return either(both(null_a, build.negated(null_b)), both(build.negated(null_a), null_b), alike)
    return either(alike, both(null_a, null_b)) if op in _ALLOWS_EQUAL else alike


def _compare_present(op: str, a: Node, b: Node) -> Cond:
    """The comparison of values that are not null; NULL if one of them is."""
    x, y = a.type.under, b.type.under
    refuse_exact(x, y)
    if isinstance(x, t.Union | t.Enum) or isinstance(y, t.Union | t.Enum):
        raise NotColumnar("a comparison with a union or an enum")
    if t.is_number(x) and t.is_number(y):
        assert not isinstance(a, Rec)
        assert not isinstance(b, Rec)
        return _numbers(op, a, b)
    if x is not y:
        return op == "!="
    if x not in _BYTEWISE or isinstance(a, Rec) or isinstance(b, Rec):
        raise NotColumnar("a comparison of values with parts")
    return build.binary(_SQL[op], physical(a), physical(b))


def _numbers(op: str, a: Leaf | Const, b: Leaf | Const) -> Cond:
    x, y = a.type.under, b.type.under
    if (x in t.FLOATS) != (y in t.FLOATS):
        if not {x, y} & _SMALL:
            raise NotColumnar("whole numbers of 64 bits against fractions")
    elif x not in t.FLOATS:
        if t.UINT64 in (x, y) and x is not y:
            return build.binary(_SQL[op], build.cast(physical(a), "HUGEINT"), build.cast(physical(b), "HUGEINT"))
        return build.binary(_SQL[op], physical(a), physical(b))
    one, two = build.cast(physical(a), "DOUBLE"), build.cast(physical(b), "DOUBLE")
    holds = build.binary(_SQL[op], one, two)
    nan = either(*(build.is_nan(s) for s, typ in ((one, x), (two, y)) if typ in t.FLOATS))
    return either(holds, nan) if op == "!=" else both(holds, build.negated(nan))
