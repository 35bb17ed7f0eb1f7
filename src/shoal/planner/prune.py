"""Pruning: which data objects a scan has to read.

A filter of the language, or the conditions of an SQL statement, becomes a range of the pool key and ranges of fields.
An object is skipped if the pool key or a zone map shows that no value in it can match. A range may be too wide, never
too narrow: in doubt an object is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

from shoal.errors import InvalidInput
from shoal.ids import Id
from shoal.lake.keys import EVERYTHING, Bound, KeyRange, Path
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.zones import FieldRange, may_match
from shoal.lang import plan
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.literals import parse_date, parse_ip
from shoal.model.node import frozen
from shoal.model.order import compare_values
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.engines.tables.forms import Column, TableForm
    from shoal.engines.tables.statements import Condition, Constant
    from shoal.planner import merge_policies, partition_filters
else:
    merge_policies = lazy("shoal.planner.merge_policies")
    partition_filters = lazy("shoal.planner.partition_filters")

_FLIPPED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = (*t.SIGNED, *t.UNSIGNED, t.DURATION)
_AMOUNTS = (*t.SIGNED, *t.UNSIGNED, t.FLOAT64)
_EXACT = 2**53
"""Integers below are exact as floats."""
_MICROSECOND = 1000
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?)?Z?")
Bounds = tuple[Value, Value]


@frozen
class Pruned:
    """The objects that a scan has to read, and how many it need not."""

    objects: tuple[DataObject, ...]
    total: int
    by_key: int
    by_zone: int
    by_partition: int = 0

    @property
    def size(self) -> int:
        """Bytes to read at most."""
        return sum(o.size for o in self.objects)

    @property
    def count(self) -> int:
        """Values to read at most."""
        return sum(o.count for o in self.objects)


def prune(pool: Pool, commit: Id | None, condition: plan.Expr | None) -> Pruned:
    """Which objects may hold something that meets a condition."""
    keys = key_range(condition, pool.config.key.paths[0])
    snapshot = pool.snapshot(commit)
    by_key = list(snapshot.objects(keys))
    by_partition = list(_in_partitions(pool, by_key, condition))
    conditions = _deciding(pool, field_ranges(condition))
    kept = tuple(o for o in by_partition if all(may_match(o, each) for each in conditions))
    total = snapshot.count() if keys != EVERYTHING else len(by_key)
    left_out = len(by_key) - len(by_partition)
    return Pruned(kept, total, total - len(by_key), len(by_partition) - len(kept), left_out)


def _in_partitions(pool: Pool, objects: list[DataObject], condition: plan.Expr | None) -> Iterable[DataObject]:
    """The objects of partitions in which a condition may be true."""
    if not pool.config.settings.partition or condition is None:
        return objects
    judge = partition_filters.judge(pool, condition)
    never = partition_filters.Verdict.NEVER
    return objects if judge is None else (o for o in objects if judge(o) is not never)


def _deciding(pool: Pool, conditions: list[FieldRange]) -> list[FieldRange]:
    """The conditions that leave objects out: with a merge policy those on fields that a group has in common."""
    if not pool.config.settings.policy:
        return conditions
    policy = merge_policies.policy_of(pool.config)
    fields = () if policy is None else policy.fields
    return [each for each in conditions if any(each.path[: len(field)] == field for field in fields)]


# ---- filters of the language


def key_range(filter_: plan.Expr | None, path: Path) -> KeyRange:
    """The range of the key at a path outside of which a filter is never true."""
    match filter_:
        case plan.Binary("and", left, right):
            return _both(key_range(left, path), key_range(right, path))
        case plan.Binary("or", left, right):
            return _either(key_range(left, path), key_range(right, path))
        case plan.Binary(op, plan.This(field), plan.Literal(value)) if field == path and op in _FLIPPED:
            return _compared(op, value)
        case plan.Binary(op, plan.Literal(value), plan.This(field)) if field == path and op in _FLIPPED:
            return _compared(_FLIPPED[op], value)
    return EVERYTHING


def is_key_range(filter_: plan.Expr | None, path: Path) -> bool:
    """Whether a filter asks for nothing but a range of the key at a path: it is true for all that is in it."""
    match filter_:
        case plan.Binary("and", left, right):
            return is_key_range(left, path) and is_key_range(right, path)
        case plan.Binary(op, plan.This(field), plan.Literal(value)) if field == path and op in _FLIPPED:
            return _compared(op, value) != EVERYTHING
        case plan.Binary(op, plan.Literal(value), plan.This(field)) if field == path and op in _FLIPPED:
            return _compared(_FLIPPED[op], value) != EVERYTHING
    return False


def has_key(keys: KeyRange, key: Value) -> bool:
    """Whether a key is surely in a range; not if it does not compare with its bounds."""
    bounds = [bound.value for bound in (keys.lower, keys.upper) if bound is not None]
    if key.data is None or key.data != key.data or not bounds or not all(_alike(key, bound) for bound in bounds):
        return False
    return keys.may_hold(key, key)


def field_ranges(filter_: plan.Expr | None) -> list[FieldRange]:
    """Fields that have to be in a range for a filter to be true: those of its comparisons with literals."""
    match filter_:
        case plan.Binary("and", left, right):
            return [*field_ranges(left), *field_ranges(right)]
        case plan.Binary(op, plan.This(path), plan.Literal(value)) if path and op in _FLIPPED:
            values = _compared(op, value)
        case plan.Binary(op, plan.Literal(value), plan.This(path)) if path and op in _FLIPPED:
            values = _compared(_FLIPPED[op], value)
        case _:
            return []
    return [] if values == EVERYTHING else [FieldRange(path, values)]


def _compared(op: str, value: Value) -> KeyRange:
    """The range of `key op value`. Only kinds of values that compare in filters as they do in sorts are of use."""
    typ = value.type.under
    if value.data is None or value.data != value.data or not (t.is_number(typ) or typ in (t.STRING, t.IP, t.DATE)):
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


# ---- conditions of SQL
#
# They have to be true of all rows that SQL would find. So what SQL compares in its own way is left out: a NaN is the
# greatest of all floats there, and narrow floats are compared with the rounded constant.


def condition_of(form: TableForm, conditions: Iterable[Condition]) -> plan.Expr | None:
    """A filter that is true of all records whose rows meet conditions, as far as they say something of fields."""
    exprs = [expr for condition in conditions for expr in _fields(form, condition)]
    return reduce(lambda a, b: plan.Binary("and", a, b), exprs) if exprs else None


def _fields(form: TableForm, condition: Condition) -> Sequence[plan.Expr]:
    column = form.column_at(condition.column)
    if column is None or not column.path:
        return ()
    typ, op = _compared_type(form, column), condition.op
    if typ is None or (typ is t.FLOAT64 and op in (">", ">=")) or (typ is t.IP and op != "="):
        return ()
    constants = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    candidates = [_bounds(typ, constant, form.style.times == "integers") for constant in constants]
    bounds = [each for each in candidates if each is not None]
    if len(bounds) < len(candidates):
        return ()
    low = min((each[0] for each in bounds), key=lambda value: value.data)
    high = max((each[1] for each in bounds), key=lambda value: value.data)
    this = plan.This(column.path)
    strict = op if op in ("<", ">") and low == high else ""
    below = [plan.Binary(strict or "<=", this, plan.Literal(high))] if op not in (">", ">=") else []
    above = [plan.Binary(strict or ">=", this, plan.Literal(low))] if op not in ("<", "<=") else []
    return [*above, *below]


def _compared_type(form: TableForm, column: Column) -> t.Type | None:
    """The type in which a column compares with constants, if values of all types that it holds do; or None.

    In a column of texts a number is compared as text, of which zone maps know nothing.
    """
    types = [column.type] if column.is_exact else form.types_at(column.path)
    if len(types) == 1:
        return types[0]
    if types and all(typ in _AMOUNTS for typ in types):
        return t.FLOAT64
    return None


def _bounds(typ: t.Type, value: Constant, is_integer: bool) -> Bounds | None:
    """What is surely not above, and not below, a constant when it is compared with values of a type."""
    if typ is t.TIME and isinstance(value, str) and not is_integer:
        return _time_bounds(value)
    if typ in _INTEGERS or (typ is t.TIME and is_integer):
        return None if isinstance(value, str) else _number_bounds(value, is_whole=True)
    if typ is t.FLOAT64:
        return None if isinstance(value, str) else _number_bounds(value, is_whole=False)
    if not isinstance(value, str):
        return None
    if typ is t.STRING:
        return Value(t.STRING, value), Value(t.STRING, value)
    if typ is t.DATE:
        return _date_bounds(value)
    return _address_bounds(value) if typ is t.IP else None


def _number_bounds(value: float, is_whole: bool) -> Bounds | None:
    if not abs(value) < _EXACT:
        return None
    number = float(value)
    if number.is_integer():
        return Value(t.INT64, int(value)), Value(t.INT64, int(value))
    low, high = math.nextafter(number, -math.inf), math.nextafter(number, math.inf)
    if is_whole:
        return Value(t.INT64, math.floor(low)), Value(t.INT64, math.ceil(high))
    return Value(t.FLOAT64, low), Value(t.FLOAT64, high)


def _time_bounds(text: str) -> Bounds | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        seconds = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00:00'}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    # An engine may drop the digits below the microsecond on either side of a comparison.
    time = int(seconds) * 10**9 + int((match[3] or "").ljust(9, "0"))
    if not -(2**63) + _MICROSECOND < time < 2**63 - _MICROSECOND:
        return None
    return Value(t.TIME, time - _MICROSECOND), Value(t.TIME, time + _MICROSECOND)


def _date_bounds(text: str) -> Bounds | None:
    try:
        date = Value(t.DATE, parse_date(text))
    except InvalidInput:
        return None  # a time of that day, perhaps
    return date, date


def _address_bounds(text: str) -> Bounds | None:
    try:
        address = Value(t.IP, parse_ip(text))
    except InvalidInput:
        return None
    return address, address
