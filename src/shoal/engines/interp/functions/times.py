"""The time it is, and times in steps."""

from __future__ import annotations

import time

from shoal.engines.interp.functions.coercions import to_int, wrap
from shoal.engines.interp.functions.failures import failure
from shoal.model import types as t
from shoal.model.literals import SECOND
from shoal.model.values import Value


def now() -> Value:
    """The time it is."""
    return Value(t.TIME, time.time_ns())


def bucket(value: Value, step: Value) -> Value:
    """A time or duration cut to a multiple of a step: `bucket(2020-05-26T15:27:47Z, 1h)` is `2020-05-26T15:00:00Z`."""
    return _bucket("", value, step)


def every(value: Value, step: Value) -> Value:
    """`bucket`, for the time of the current value."""
    return _bucket("every", value, step)


def _bucket(name: str, value: Value, step: Value) -> Value:
    """A step that is not a duration counts seconds, also a duration under a name. Cutting goes towards zero."""
    if value.data is None or step.data is None:
        return Value(t.TIME, None)
    size = step.data if step.type is t.DURATION else to_int(step)
    if size is None:
        return failure(f"{name}: second argument is not a duration or number", step)
    if step.type is not t.DURATION:
        size = wrap(size * SECOND, t.DURATION)
    if value.type.under is t.DURATION:
        return Value(t.DURATION, _cut(value.data, size))
    instant = to_int(value)
    if instant is None:
        return failure(f"{name}: first argument is not a time", value)
    return Value(t.TIME, _cut(instant, size))


def _cut(number: int, size: int) -> int:
    if size == 0:
        return number
    cut = abs(number) // abs(size) * abs(size)
    return cut if number >= 0 else -cut
