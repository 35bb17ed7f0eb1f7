"""Which keys a filter can be true for: what lets a scan skip objects and parts of them. In doubt, all of them."""

from __future__ import annotations

from shoal.lake.keys import EVERYTHING, Bound, KeyRange, Path
from shoal.lake.zones import FieldRange
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.order import compare_values
from shoal.model.values import Value

_FLIPPED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def key_range(filter_: plan.Expr | None, path: Path) -> KeyRange:
    """The range of the key at a path outside of which a filter is never true."""
    match filter_:
        case plan.Binary("and", left, right):
            return _both(key_range(left, path), key_range(right, path))
        case plan.Binary("or", left, right):
            return _either(key_range(left, path), key_range(right, path))
        case plan.Binary(op, plan.This(found), plan.Literal(value)) if found == path and op in _FLIPPED:
            return _compared(op, value)
        case plan.Binary(op, plan.Literal(value), plan.This(found)) if found == path and op in _FLIPPED:
            return _compared(_FLIPPED[op], value)
    return EVERYTHING


def field_ranges(filter_: plan.Expr | None) -> list[FieldRange]:
    """Fields that have to be in a range for a filter to be true: those of its comparisons with literals."""
    match filter_:
        case plan.Binary("and", left, right):
            return [*field_ranges(left), *field_ranges(right)]
        case plan.Binary(op, plan.This(path), plan.Literal(value)) if path and op in _FLIPPED:
            found = _compared(op, value)
        case plan.Binary(op, plan.Literal(value), plan.This(path)) if path and op in _FLIPPED:
            found = _compared(_FLIPPED[op], value)
        case _:
            return []
    return [] if found == EVERYTHING else [FieldRange(path, found)]


def _compared(op: str, value: Value) -> KeyRange:
    """The range of `key op value`. Only kinds of values that compare in filters as they do in sorts are of use."""
    typ = value.type.under
    if value.data is None or value.data != value.data or not (t.is_number(typ) or typ in (t.STRING, t.IP)):
        return EVERYTHING
    bound = Bound(value, op not in ("<", ">"))
    return KeyRange(bound if op in (">", ">=", "==") else None, bound if op in ("<", "<=", "==") else None)


def _both(a: KeyRange, b: KeyRange) -> KeyRange:
    return KeyRange(_inner(a.lower, b.lower, 1), _inner(a.upper, b.upper, -1))


def _inner(a: Bound | None, b: Bound | None, side: int) -> Bound | None:
    """The stricter bound; any one of two that do not compare."""
    if a is None or b is None:
        return a or b
    if not _alike(a.value, b.value):
        return a
    c = compare_values(a.value, b.value) * side
    if c == 0:
        return a if not a.inclusive else b
    return a if c > 0 else b


def _either(a: KeyRange, b: KeyRange) -> KeyRange:
    return KeyRange(_outer(a.lower, b.lower, 1), _outer(a.upper, b.upper, -1))


def _outer(a: Bound | None, b: Bound | None, side: int) -> Bound | None:
    """The looser bound; none if one side has none, or if they do not compare."""
    if a is None or b is None or not _alike(a.value, b.value):
        return None
    c = compare_values(a.value, b.value) * side
    if c == 0:
        return a if a.inclusive else b
    return a if c < 0 else b


def _alike(a: Value, b: Value) -> bool:
    x, y = a.type.under, b.type.under
    return x is y or (t.is_number(x) and t.is_number(y))
