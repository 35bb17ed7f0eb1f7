"""The pool key: what records are sorted by, which ranges objects cover. A null key is greater than any other.

Numbers compare by amount across their types, other values by type first; that is the order of `sort`, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, Literal

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.order import compare_values
from shoal.model.values import NULL, Value, string

Order = Literal["asc", "desc"]
Path = tuple[str, ...]

_FIELD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_PLAIN = frozenset((
    t.INT8, t.INT16, t.INT32, t.INT64, t.UINT8, t.UINT16, t.UINT32, t.UINT64, t.TIME, t.DURATION, t.STRING, t.BYTES
))  # fmt: skip
"""Types whose data Python orders as Zed does."""


@frozen
class SortKey:
    """The key of a pool: paths, the first of which bounds the objects, and one direction for all of them."""

    paths: tuple[Path, ...]
    order: Order = "asc"

    def __str__(self) -> str:
        return f"{','.join('.'.join(p) or 'this' for p in self.paths)}:{self.order}"


def parse_sort_key(text: str) -> SortKey:
    """`ts`, `ts:desc`, `a.b,c:asc`; a bare key is ascending, `this` is the whole value."""
    names, colon, order = text.partition(":")
    if colon and order not in ("asc", "desc"):
        raise InvalidInput(f"invalid order {order!r} of the pool key {text!r} (asc or desc)")
    paths = tuple(_parse_path(name.strip(), text) for name in names.split(","))
    if len(set(paths)) < len(paths):
        raise InvalidInput(f"a field is twice in the pool key {text!r}")
    return SortKey(paths, "desc" if order == "desc" else "asc")


def _parse_path(name: str, text: str) -> Path:
    if name == "this":
        return ()
    path = tuple(name.removeprefix("this.").split("."))
    if not all(_FIELD.fullmatch(part) for part in path):
        raise InvalidInput(f"invalid pool key {text!r} (fields joined by dots, several keys by commas)")
    return path


def getter(path: Path) -> Callable[[Value], Value | None]:
    """The value at a path, out of its union if it is in one; None where there is none.

    It finds what the expression `a.b` finds: also inside of unions, and by the keys of maps.
    """

    def get(value: Value) -> Value | None:
        inner: Value | None = _opened(value)
        for name in path:
            if inner is None:
                return None
            inner = _inside(inner, name)
        return inner

    return get


def _opened(value: Value) -> Value:
    return value.under() if isinstance(value.type.under, t.Union) else value


def _inside(value: Value, name: str) -> Value | None:
    is_map = isinstance(value.type.under, t.Map)
    item = value_at(value, string(name)) if is_map else value.field(name)
    return None if item is None else _opened(item)


def value_at(value: Value, key: Value) -> Value | None:
    """The value of a map at a key."""
    typ = value.type.under
    if not isinstance(typ, t.Map) or value.data is None:
        return None
    for k, v in value.data:
        if _opened(Value(typ.key, k)) == key:
            return Value(typ.value, v)
    return None


def is_ranged(key: Value) -> bool:
    """Whether filters compare a key as sorts do. An enum is a number to a filter, and something else to a sort."""
    return isinstance(key.type.under, t.Primitive)


def compare_in(order: Order, a: Value, b: Value) -> int:
    """Compare in the order of a pool: nulls last ascending, first descending."""
    c = compare_values(a, b, nulls_max=True)
    return c if order == "asc" else -c


Key = tuple[Value, ...]


def key_getter(key: SortKey) -> Callable[[Value], Key]:
    """All values of a record's key; a field that is missing counts as null."""
    getters = [getter(path) for path in key.paths]
    if len(getters) == 1:
        only = getters[0]
        return lambda value: (only(value) or NULL,)
    return lambda value: tuple(get(value) or NULL for get in getters)


def comparer(order: Order) -> Callable[[Key], Any]:
    """A key for sorts and merges in the order of a pool."""

    def compare(a: Key, b: Key) -> int:
        for x, y in zip(a, b, strict=True):
            if c := compare_in(order, x, y):
                return c
        return 0

    return cmp_to_key(compare)


def sorted_indices(keys: list[Key], order: Order) -> list[int]:
    """Where the items go that have these keys: a stable sort. Plain keys of one type need no comparison in Python."""
    plain = _plain_keys(keys)
    if plain is not None:
        return sorted(range(len(keys)), key=plain.__getitem__, reverse=order == "desc")
    compared = [comparer(order)(key) for key in keys]
    return sorted(range(len(keys)), key=compared.__getitem__)


def _plain_keys(keys: list[Key]) -> list[Any] | None:
    """The data of the keys, if Python orders it in the same way; nulls are made greater than all else."""
    for index in range(len(keys[0]) if keys else 0):
        types = {key[index].type.under for key in keys}
        types.discard(t.NULL)
        if len(types) > 1 or not types <= _PLAIN:
            return None
    if keys and len(keys[0]) == 1:
        return [(k.data is None, 0 if k.data is None else k.data) for (k,) in keys]
    return [tuple((k.data is None, 0 if k.data is None else k.data) for k in key) for key in keys]


# ---- ranges


@frozen
class Bound:
    """One end of a range."""

    value: Value
    inclusive: bool = True


@frozen
class KeyRange:
    """Keys that may matter, of the kind of values that the bounds are: others are not in the range."""

    lower: Bound | None = None
    upper: Bound | None = None

    def may_hold(self, low: Value, high: Value) -> bool:
        """Whether something between two keys can be in the range. In doubt it can.

        A null is the greatest key: as the lowest one it says that there are only nulls, which no comparison finds.
        """
        if low.data is None:
            return self.lower is None and self.upper is None
        return self.may_hold_between(low, high)

    def may_hold_between(self, low: Value | None, high: Value | None) -> bool:
        """Whether something between two values, of which one may be unknown, can be in the range."""
        if self.lower is not None and high is not None and _is_beyond(high, self.lower, 1):
            return False
        return self.upper is None or low is None or not _is_beyond(low, self.upper, -1)


EVERYTHING = KeyRange()


def _is_beyond(key: Value, bound: Bound, side: int) -> bool:
    """Whether a key, and all on its far side, are outside of a bound.

    Only like is compared with like: between an int and a string no order means anything to a filter.
    """
    if key.data is None:
        return False
    a, b = key.type.under, bound.value.type.under
    if not (a is b or (t.is_number(a) and t.is_number(b))):
        return False
    c = compare_values(key, bound.value) * side
    return c < 0 or (c == 0 and not bound.inclusive)
