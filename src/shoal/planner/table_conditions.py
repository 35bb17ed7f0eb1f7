"""Conditions on the columns of a table as ones on the fields of a pool, to prune by.

They have to be true of all rows that SQL would find, not of those alone: a bound may be too wide, never too narrow. So
what SQL compares in its own way is left out: a NaN is the greatest of all floats there, and narrow floats are compared
with what a constant is rounded to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import reduce

from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.statements import Condition, Constant
from shoal.errors import InvalidInput
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.literals import parse_ip
from shoal.model.values import Value

_INTEGERS = (*t.SIGNED, *t.UNSIGNED, t.DURATION)
_EXACT = 2**53
"""Integers below are the same as floats."""
_MICROSECOND = 1000
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?)?Z?")
Bounds = tuple[Value, Value]


def condition_of(form: TableForm, conditions: Iterable[Condition]) -> plan.Expr | None:
    """A filter that is true of all records whose rows meet conditions, as far as they say something of fields."""
    made = [expr for condition in conditions for expr in _fields(form, condition)]
    return reduce(lambda a, b: plan.Binary("and", a, b), made) if made else None


def _fields(form: TableForm, condition: Condition) -> Sequence[plan.Expr]:
    leaf = form.leaf_at(condition.column)
    if leaf is None or not leaf.path:
        return ()
    op = condition.op
    if (leaf.type is t.FLOAT64 and op in (">", ">=")) or (leaf.type is t.IP and op != "="):
        return ()
    constants = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    found = [_bounds(leaf.type, constant, form.style.times == "integers") for constant in constants]
    bounds = [each for each in found if each is not None]
    if len(bounds) < len(found):
        return ()
    low = min((each[0] for each in bounds), key=lambda value: value.data)
    high = max((each[1] for each in bounds), key=lambda value: value.data)
    this = plan.This(leaf.path)
    strict = op if op in ("<", ">") and low == high else ""
    below = [plan.Binary(strict or "<=", this, plan.Literal(high))] if op not in (">", ">=") else []
    above = [plan.Binary(strict or ">=", this, plan.Literal(low))] if op not in ("<", "<=") else []
    return [*above, *below]


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
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        seconds = datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00:00'}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    # An engine may drop the digits below the microsecond on either side of a comparison.
    time = int(seconds) * 10**9 + int((found[3] or "").ljust(9, "0"))
    if not -(2**63) + _MICROSECOND < time < 2**63 - _MICROSECOND:
        return None
    return Value(t.TIME, time - _MICROSECOND), Value(t.TIME, time + _MICROSECOND)


def _address_bounds(text: str) -> Bounds | None:
    try:
        address = Value(t.IP, parse_ip(text))
    except InvalidInput:
        return None
    return address, address
