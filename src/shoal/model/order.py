"""The order of values of any types: numbers by amount, others by type first, nulls at one end.

Two numbers of different types may compare equal (1 and 1.), other values only if they are the same.
Records, maps, unions and nets order by their binary form: a fixed order, not a meaningful one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from shoal.model import types as t
from shoal.model.decimals import aligned
from shoal.model.values import Value
from shoal.model.zcode import Data, encode


def compare_values(a: Value, b: Value, nulls_max: bool = True) -> int:
    """-1, 0 or 1. With `nulls_max` a null is greater than any other value, else less."""
    if a.data is None or b.data is None:
        if a.data is None and b.data is None:
            return 0
        return 1 if (a.data is None) == nulls_max else -1
    x, y = a.type.under, b.type.under
    if x is y:
        return _compare_data(x, a.data, b.data, nulls_max)
    if t.is_number(x) and t.is_number(y):
        return _compare_numbers(a.data, b.data)
    return t.compare_types_totally(x, y)


def sort_key(nulls_max: bool = True) -> Callable[[Value], Any]:
    """A key for `sorted` over values of any types."""
    return cmp_to_key(lambda a, b: compare_values(a, b, nulls_max))


def _compare_numbers(a: Any, b: Any) -> int:
    """NaN is less than any number and equal to itself."""
    if a != a or b != b:
        return int(b != b) - int(a != a)
    if type(a) is not type(b):
        a, b = aligned(a, b)
    return int(a > b) - int(a < b)


def _compare_data(typ: t.Type, a: Data, b: Data, nulls_max: bool) -> int:
    match typ:
        case t.Primitive():
            return _compare_primitives(typ, a, b)
        case t.Array() | t.Set():
            elem = typ.elem
            for x, y in zip(a, b, strict=False):
                if c := compare_values(Value(elem, x), Value(elem, y), nulls_max):
                    return c
            return (len(a) > len(b)) - (len(a) < len(b))
        case _:
            return _compare_bytes(encode(typ, a) or b"", encode(typ, b) or b"")


def _compare_primitives(typ: t.Primitive, a: Data, b: Data) -> int:
    if t.is_number(typ):
        return _compare_numbers(a, b)
    if typ is t.TYPE:
        return t.compare_types_totally(a, b)
    if typ is t.IP and len(a) != len(b):
        return -1 if len(a) < len(b) else 1
    return int(a > b) - int(a < b)


def _compare_bytes(a: bytes, b: bytes) -> int:
    return (a > b) - (a < b)
