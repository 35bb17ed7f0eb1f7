"""Equality, order and membership. Numbers compare across their types; null equals null alone."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from shoal.engines.interp.environment import Cache, Env, Eval
from shoal.engines.interp.expressions.access import SLOW, find, walk
from shoal.engines.interp.reshape import parts
from shoal.model import types as t
from shoal.model.decimals import aligned
from shoal.model.literals import DAY
from shoal.model.values import FALSE, MISSING, TRUE, Value, is_error
from shoal.model.zcode import Data

Test: TypeAlias = Callable[[Data], bool]
"""A test of data whose type is known."""

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_LITERALS = (t.NULL, t.IP, t.BOOL, t.FLOAT64, t.STRING, t.BYTES, t.TYPE, t.INT64, t.TIME, t.DURATION)
_INSTANTS = (t.DATE, t.TIME)
_ZERO = Decimal(0)
_UNSEEN = object()


def equal(a: Value, b: Value) -> bool:
    """Whether two values are the same, numbers whatever their type."""
    if a.data is None or b.data is None:
        return a.data is b.data
    a, b = _plain(a), _plain(b)
    if a.data is None or b.data is None:
        return a.data is b.data
    if t.is_number(a.type) and t.is_number(b.type):
        x, y = aligned(a.data, b.data)
        return bool(x == y)
    if a.type is not b.type and _are_instants(a.type, b.type):
        return _instant(a) == _instant(b)
    return a == b


def _are_instants(a: t.Type, b: t.Type) -> bool:
    """Whether both are a date or a time: a date is its first nanosecond in UTC."""
    return a in _INSTANTS and b in _INSTANTS


def _instant(value: Value) -> int:
    return int(value.data) * DAY if value.type is t.DATE else int(value.data)


def _plain(value: Value) -> Value:
    """A value without names and unions; an enum as the number of its symbol."""
    value = value.under()
    return Value(t.UINT64, value.data) if isinstance(value.type, t.Enum) else value


def compare(op: str, left: Eval, right: Eval) -> Eval:
    """A comparison of two expressions; of unlike types it is false, but for `!=`."""
    holds = OPERATORS[op]

    def test(this: Value, env: Env) -> Value:
        a = left(this, env)
        if is_error(a):
            return a
        b = right(this, env)
        if is_error(b):
            return b
        if op == "==":
            return TRUE if equal(a, b) else FALSE
        if op == "!=":
            return FALSE if equal(a, b) else TRUE
        return TRUE if _is_ordered(holds, a, b) else FALSE

    return test


def _is_ordered(holds: Callable[[Any, Any], bool], a: Value, b: Value) -> bool:
    a, b = a.under(), b.under()
    if a.data is None or b.data is None:
        return a.data is b.data and holds(0, 0)
    if t.is_number(a.type) and t.is_number(b.type):
        x, y = aligned(a.data, b.data)
        return x == x and y == y and holds(x, y)
    if a.type is not b.type:
        return _are_instants(a.type, b.type) and holds(_instant(a), _instant(b))
    if a.type is t.IP:
        return holds((len(a.data), a.data), (len(b.data), b.data))
    if a.type in (t.BOOL, t.STRING, t.BYTES, t.DATE):
        return holds(a.data, b.data)
    return a == b and holds(0, 0)


# ---- with a literal


def _date_test(op: str, constant: int) -> Test:
    holds = OPERATORS[op]
    if op == "!=":
        return lambda data: data is None or data * DAY != constant
    return lambda data: data is not None and holds(data * DAY, constant)


def is_comparable(literal: Value, op: str) -> bool:
    """Whether there is a faster way to compare with this literal."""
    typ = literal.type.under
    return (
        typ in _LITERALS and (typ is not t.NULL or op in ("==", "!=")) and (typ is t.NULL or literal.data is not None)
    )


def literal_test(op: str, literal: Value, typ: t.Type) -> Test | None:
    """How data of a type compares with a literal; None if it never holds, as with unlike types."""
    typ = t.UINT64 if isinstance(typ.under, t.Enum) else typ.under
    holds, constant, kind = OPERATORS[op], literal.data, literal.type.under
    if isinstance(typ, t.Union):
        return _union_test(op, literal, typ)
    if kind is t.NULL:
        return (lambda data: data is None) if op == "==" else (lambda data: data is not None)
    if kind is t.TIME and typ is t.DATE:
        return _date_test(op, constant)
    is_alike = t.is_number(typ) if t.is_number(kind) else typ is kind
    if not is_alike:
        return None
    if isinstance(typ, t.Decimal) and isinstance(constant, float):
        constant, _ = aligned(constant, _ZERO)
        if constant != constant:
            return (lambda data: True) if op == "!=" else (lambda data: False)
    if typ is t.IP:
        key = (len(constant), constant)
        return lambda data: op == "!=" if data is None else holds((len(data), data), key)
    if typ is t.TYPE:
        return _same_type(op, constant)
    if op == "==":
        return lambda data: data == constant and data is not None
    if op == "!=":
        return lambda data: data != constant
    return lambda data: data is not None and holds(data, constant)


def _same_type(op: str, expected: t.Type) -> Test | None:
    if op == "!=":
        return lambda data: data is not expected
    return (lambda data: data is expected) if op in ("==", "<=", ">=") else None


def _union_test(op: str, literal: Value, typ: t.Union) -> Test:
    members = [literal_test(op, literal, member) for member in typ.types]
    is_null_test = literal.type.under is t.NULL

    def test(data: Data) -> bool:
        if data is None:
            return is_null_test == (op == "==")
        member = members[data[0]]
        return member is not None and member(data[1])

    return test


def compare_literal(op: str, left: Eval, literal: Value) -> Eval:
    """A comparison of an expression with a literal."""
    tests: Cache[t.Type, Test | None] = Cache()

    def test(this: Value, env: Env) -> Value:
        value = left(this, env)
        typ = value.type
        if typ not in tests:
            if is_error(value):
                return value
            tests.keep(typ, literal_test(op, literal, typ))
        check = tests[typ]
        return TRUE if check is not None and check(value.data) else FALSE

    return test


def compare_path(op: str, names: tuple[str, ...], literal: Value) -> Eval:
    """A comparison of a field with a literal: the most frequent filter of all."""
    tests_by_type: Cache[t.Type, Any] = Cache()
    slow = compare_literal(op, lambda this, env: walk(this, names), literal)

    def find_test(typ: t.Type) -> Any:
        position = find(typ, names)
        if position is None or position is SLOW:
            return position
        indexes, leaf = position
        if isinstance(leaf.under, t.Error):
            return SLOW
        return indexes, literal_test(op, literal, leaf) or _never

    def test(this: Value, env: Env) -> Value:
        position = tests_by_type.get(this.type, _UNSEEN)
        if position is _UNSEEN:
            position = tests_by_type.keep(this.type, find_test(this.type))
        if position is None:
            return MISSING
        if position is SLOW:
            return slow(this, env)
        indexes, holds = position
        data = this.data
        for i in indexes:
            if data is None:
                break
            data = data[i]
        return TRUE if holds(data) else FALSE

    return test


def _never(data: Data) -> bool:
    return False


# ---- membership


def contained(left: Eval, right: Eval) -> Eval:
    """`a in b`: whether a is b or anywhere inside it."""

    def test(this: Value, env: Env) -> Value:
        needle = left(this, env)
        if is_error(needle):
            return needle
        container = right(this, env)
        if is_error(container):
            return container
        for typ, data in parts(container.type, container.data):
            if equal(needle, Value(typ, data)):
                return TRUE
        return FALSE

    return test


def contained_in_literal(left: Eval, container: Value) -> Eval:
    """`e in literal`: the parts of the literal are hashed once."""
    members = _Members(container)

    def test(this: Value, env: Env) -> Value:
        needle = left(this, env)
        if is_error(needle):
            return needle
        return TRUE if needle in members else FALSE

    return test


class _Members:
    """A value and all parts of it, to look for values that are equal to one of them."""

    def __init__(self, container: Value) -> None:
        self._has_null = False
        self._numbers: set[Data] = set()
        """Integers and floats."""
        self._decimals: set[Decimal] = set()
        """Decimals."""
        self._floats: set[Decimal] = set()
        """Floats as they compare with decimals."""
        self._by_type: dict[t.Type, set[Data]] = {}
        self._others: list[Value] = []
        """Those with parts of their own."""
        for typ, data in parts(container.type, container.data):
            self._add(Value(typ, data))

    def _add(self, value: Value) -> None:
        value = _plain(value)
        if value.data is None:
            self._has_null = True
        elif isinstance(value.type, t.Decimal):
            self._decimals.add(value.data)
        elif t.is_number(value.type):
            self._numbers.add(value.data)
            if value.type in t.FLOATS:
                self._floats.add(aligned(value.data, _ZERO)[0])
        elif isinstance(value.type, t.Primitive):
            self._by_type.setdefault(value.type, set()).add(value.data)
        else:
            self._others.append(value)

    def __contains__(self, needle: Value) -> bool:
        needle = _plain(needle)
        data = needle.data
        if data is None:
            return self._has_null
        if isinstance(needle.type, t.Decimal):
            return (
                data in self._decimals
                or data in self._floats
                or (data == (whole := int(data)) and whole in self._numbers)
            )
        if t.is_number(needle.type):
            # A NaN equals nothing, though it may be there.
            return data == data and (data in self._numbers or aligned(data, _ZERO)[0] in self._decimals)
        if isinstance(needle.type, t.Primitive):
            return data in self._by_type.get(needle.type, ())
        return any(needle == other for other in self._others)


def contained_literal(literal: Value, right: Eval) -> Eval:
    """`literal in e`."""
    tests: Cache[t.Type, Test | None] = Cache()

    def test(this: Value, env: Env) -> Value:
        container = right(this, env)
        if is_error(container):
            return container
        for typ, data in parts(container.type, container.data):
            if typ not in tests:
                tests.keep(typ, literal_test("==", literal, typ))
            check = tests[typ]
            if check is not None and check(data):
                return TRUE
        return FALSE

    return test
