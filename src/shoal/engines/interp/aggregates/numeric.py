"""`sum`, `min`, `max` and `avg`.

The first three compute in the widest kind of number seen so far: uint64, int64, duration, time, float64,
in this order; a null takes part in that choice and in nothing else. Integers wrap around at 64 bits.
"""

from __future__ import annotations

from typing import Any

from shoal.model import types as t
from shoal.model.cast import cast_primitive
from shoal.model.values import NULL, Value

KINDS: dict[t.Type, t.Primitive] = {
    **dict.fromkeys(t.UNSIGNED, t.UINT64),
    **dict.fromkeys(t.SIGNED, t.INT64),
    t.DURATION: t.DURATION,
    t.TIME: t.TIME,
    **dict.fromkeys(t.FLOATS, t.FLOAT64),
}
"""The kind that numbers of each type are computed in. Kinds are ordered by their identifiers."""

_MAX_INT64 = 2**63 - 1
_WRAP = 2**64


def _in_kind(kind: t.Primitive, amount: Any) -> Any:
    """The amount as a number of this kind; integers wrap around."""
    if kind is t.FLOAT64:
        return float(amount)
    amount %= _WRAP
    return amount if kind is t.UINT64 or amount <= _MAX_INT64 else amount - _WRAP


class _Reducer:
    """A number that each further number changes."""

    __slots__ = ("_amount", "_kind", "_ready")

    def __init__(self) -> None:
        self._kind: t.Primitive | None = None
        self._amount: Any = None
        self._ready: t.Primitive | None = None
        """The kind, once there is an amount: numbers of just this type need no further look."""

    def consume(self, value: Value) -> None:
        value = value.under()
        kind, data = KINDS.get(value.type), value.data
        if kind is None or (kind is t.UINT64 and self._is_too_large(data)):
            return
        if self._kind is None:
            self._kind = kind
        elif kind.id > self._kind.id:
            self._widen(kind)
        if data is not None:
            data = _in_kind(self._kind, data)
            self._amount = self._first(data) if self._amount is None else self._combine(self._amount, data)
            self._ready = self._kind

    def _is_too_large(self, data: int | None) -> bool:
        """A uint64 that has no place among signed numbers is left out."""
        return data is not None and data > _MAX_INT64 and self._kind in (t.INT64, t.DURATION, t.TIME)

    def _widen(self, kind: t.Primitive) -> None:
        if self._kind is not None and self._amount is not None:
            self._amount = _in_kind(kind, _in_kind(self._kind, self._amount))
            self._ready = kind
        self._kind = kind

    def _first(self, data: Any) -> Any:
        return data

    def _combine(self, amount: Any, data: Any) -> Any:
        raise NotImplementedError

    def result(self) -> Value:
        if self._kind is None:
            return NULL
        return Value(self._kind, None if self._amount is None else _in_kind(self._kind, self._amount))

    def partial(self) -> Value:
        return self.result()

    def merge(self, partial: Value) -> None:
        self.consume(partial)


class Sum(_Reducer):
    """The sum of the numbers."""

    __slots__ = ()

    def consume(self, value: Value) -> None:
        if value.type is self._ready and value.data is not None:
            self._amount += value.data  # wraps around in the end, which comes to the same
        else:
            super().consume(value)

    def _first(self, data: Any) -> Any:
        return 0 + data  # so that -0. alone adds up to 0.

    def _combine(self, amount: Any, data: Any) -> Any:
        return amount + data


class Min(_Reducer):
    """The least of the numbers. A NaN counts only if there is nothing else, so that the order does not matter."""

    __slots__ = ()

    def consume(self, value: Value) -> None:
        if value.type is self._ready and (data := value.data) is not None:
            if not self._amount <= data and data == data:
                self._amount = data
        else:
            super().consume(value)

    def _combine(self, amount: Any, data: Any) -> Any:
        return data if data < amount or amount != amount else amount


class Max(_Reducer):
    """The greatest of the numbers. A NaN counts only if there is nothing else, so that the order does not matter."""

    __slots__ = ()

    def consume(self, value: Value) -> None:
        if value.type is self._ready and (data := value.data) is not None:
            if not self._amount >= data and data == data:
                self._amount = data
        else:
            super().consume(value)

    def _combine(self, amount: Any, data: Any) -> Any:
        return data if data > amount or amount != amount else amount


_MEAN = t.record((("sum", t.FLOAT64), ("count", t.UINT64)))


class Average:
    """The mean of the numbers, always a float64; a string that spells a number is one."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def consume(self, value: Value) -> None:
        typ, data = value.type, value.data
        if data is not None and (typ is t.FLOAT64 or typ is t.INT64 or (data := _float_of(value)) is not None):
            self._sum += data
            self._count += 1

    def result(self) -> Value:
        return Value(t.FLOAT64, self._sum / self._count if self._count else None)

    def partial(self) -> Value:
        return Value(_MEAN, (self._sum, self._count))

    def merge(self, partial: Value) -> None:
        total, count = partial.data
        self._sum += total
        self._count += count


def _float_of(value: Value) -> float | None:
    """The amount of a number or of a string that spells one, in a union or not; else None."""
    value = value.under()
    if value.data is None or not (t.is_number(value.type) or value.type is t.STRING):
        return None
    made = cast_primitive(value, t.FLOAT64)
    return made.data if made.type is t.FLOAT64 else None
