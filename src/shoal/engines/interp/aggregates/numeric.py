"""`sum`, `min`, `max` and `avg`.

The first three compute unsigned numbers, signed ones and fractions apart from each other, so that neither the order of
the numbers nor how the work is split makes a difference, but for the last digits of sums of fractions. The result is of
the widest kind seen: uint64, int64, duration, time, float64, in this order; a null takes part in that choice and in
nothing else. Integers wrap around at 64 bits. Decimals are computed apart from these as well, and exactly: with
integers the result is a decimal, with fractions a float64. `min` and `max` compare dates, if there are no numbers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.cast import cast_primitive
from shoal.model.decimals import EXACT, aligned, common_decimal, fit
from shoal.model.values import NULL, Value, record, text_error

_WHOLE_DECIMAL = t.decimal(t.MAX_DIGITS, 0)
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


def wrapped(kind: t.Type, amount: Any) -> Any:
    """The amount as a number of this kind; integers wrap around at 64 bits."""
    if kind is t.FLOAT64:
        return float(amount)
    amount %= _WRAP
    return amount if kind is t.UINT64 or amount <= _MAX_INT64 else amount - _WRAP


_SLOTS: dict[t.Type, int] = {t.UINT64: 0, t.INT64: 1, t.DURATION: 1, t.TIME: 1, t.FLOAT64: 2, t.DATE: 4}
"""Where numbers of each kind are kept."""
_DECIMAL, _DATE = 3, 4
NUMBERS = ("unsigned", "signed", "float", "decimal", "date")
"""The fields of a partial result: a number of each kind that was seen."""
_TOO_MANY_DIGITS = text_error("decimal overflow: more than 38 digits")
_BEYOND = Decimal("Infinity")
"""A sum that a part of the work could not hold."""


class _Reducer:
    """Numbers that each further number changes: an unsigned one, a signed one, a fraction."""

    __slots__ = ("_amounts", "_kinds", "_ready", "_slot")

    def __init__(self) -> None:
        self._amounts: list[Any] = [None] * len(NUMBERS)
        self._kinds: list[t.Primitive | None] = [None] * len(NUMBERS)
        """The widest kind seen in each slot."""
        self._ready: t.Primitive | None = None
        """The last type seen, once there is an amount in its slot: numbers of just this type need no further look."""
        self._slot = 0

    def consume(self, value: Value) -> None:
        value = value.under()
        typ, data = value.type, value.data
        kind = KINDS.get(typ)
        if kind is None:
            self._consume_other(typ, data)
            return
        slot = _SLOTS[kind]
        widest = self._kinds[slot]
        if widest is None or kind.id > widest.id:
            self._kinds[slot] = kind
        self._add(slot, data)
        if data is not None:
            self._ready, self._slot = typ if typ is kind else None, slot

    def _consume_other(self, typ: t.Type, data: Any) -> None:
        if isinstance(typ, t.Decimal):
            widest = self._kinds[_DECIMAL]
            self._kinds[_DECIMAL] = self._joined(widest, typ) if isinstance(widest, t.Decimal) else self._kind(typ)
            self._add(_DECIMAL, data)
        elif typ is t.DATE and self._takes_dates:
            self._kinds[_DATE] = t.DATE
            self._add(_DATE, data)

    _takes_dates = True

    def _add(self, slot: int, data: Any) -> None:
        if data is not None:
            amount = self._amounts[slot]
            self._amounts[slot] = self._first(data) if amount is None else self._combine(amount, data)

    def _kind(self, typ: t.Decimal) -> t.Decimal:
        """The kind of results of one decimal type."""
        return typ

    def _joined(self, a: t.Decimal, b: t.Decimal) -> t.Decimal:
        return a if a is b else common_decimal([a, b]) or t.decimal(t.MAX_DIGITS, max(a.scale, b.scale))

    def _first(self, data: Any) -> Any:
        return data

    def _combine(self, amount: Any, data: Any) -> Any:
        raise NotImplementedError

    def _total(self, amounts: list[Any]) -> Any:
        """The amounts of all slots combined; at least one has an amount."""
        total = amounts[0]
        for amount in amounts[1:]:
            total = self._combine(total, amount)
        return total

    def result(self) -> Value:
        unsigned, signed, fraction, decimal, date = self._kinds
        if decimal is not None:
            return self._decimal_result()
        kind = fraction or signed or unsigned
        if kind is None:
            return NULL if date is None else Value(t.DATE, self._amounts[_DATE])
        whole = signed or unsigned
        parts = [a for a in self._amounts[:2] if a is not None]
        amounts = [self._total(parts)] if parts else []
        if self._amounts[2] is not None:
            amounts = [*(self._as_fraction(whole, a) for a in amounts), self._amounts[2]]
        return Value(kind, wrapped(kind, self._total(amounts)) if amounts else None)

    def _decimal_result(self) -> Value:
        """The result where there are decimals. Integers beside them do not wrap around."""
        unsigned, signed, fraction, decimal, _ = self._kinds
        amounts = [a for a in (*self._amounts[:2], self._amounts[_DECIMAL]) if a is not None]
        if fraction is not None:
            floats = [float(a) for a in (*amounts, self._amounts[2]) if a is not None]
            return Value(t.FLOAT64, self._total(floats) if floats else None)
        assert isinstance(decimal, t.Decimal)
        kind = self._joined(decimal, _WHOLE_DECIMAL) if unsigned or signed else decimal
        if not amounts:
            return Value(kind, None)
        try:
            return Value(kind, fit(Decimal(self._total(amounts)), kind))
        except InvalidInput:
            return _TOO_MANY_DIGITS

    def _as_fraction(self, kind: t.Primitive | None, amount: Any) -> Any:
        """A whole number where it meets a fraction."""
        return amount

    def partial(self) -> Value:
        parts = zip(NUMBERS, self._kinds, self._amounts, strict=True)
        return record((name, NULL if kind is None else _partial(kind, amount)) for name, kind, amount in parts)

    def merge(self, partial: Value) -> None:
        for name in NUMBERS:
            part = partial.field(name)
            if part == _TOO_MANY_DIGITS:
                self._kinds[_DECIMAL] = self._kinds[_DECIMAL] or _WHOLE_DECIMAL
                self._amounts[_DECIMAL] = _BEYOND
            elif part is not None:
                self.consume(part)


def _partial(kind: t.Primitive, amount: Any) -> Value:
    """The part of a partial result that has the amount of one kind."""
    if amount is None or kind is t.DATE:
        return Value(kind, amount)
    if not isinstance(kind, t.Decimal):
        return Value(kind, wrapped(kind, amount))
    try:
        return Value(kind, fit(amount, kind))
    except InvalidInput:
        return _TOO_MANY_DIGITS


class Sum(_Reducer):
    """The sum of the numbers."""

    __slots__ = ()

    def consume(self, value: Value) -> None:
        if value.type is self._ready and value.data is not None:
            self._amounts[self._slot] += value.data  # wraps around in the end, which comes to the same
        else:
            super().consume(value)

    _takes_dates = False

    def _kind(self, typ: t.Decimal) -> t.Decimal:
        return t.decimal(t.MAX_DIGITS, typ.scale)

    def _first(self, data: Any) -> Any:
        return 0 + data  # so that -0. alone adds up to 0.

    def _combine(self, amount: Any, data: Any) -> Any:
        is_decimal = isinstance(amount, Decimal) or isinstance(data, Decimal)
        return EXACT.add(amount, data) if is_decimal else amount + data

    def _as_fraction(self, kind: t.Primitive | None, amount: Any) -> Any:
        return float(wrapped(kind or t.INT64, amount))


class Min(_Reducer):
    """The least of the numbers. A NaN counts only if there is nothing else."""

    __slots__ = ()

    def consume(self, value: Value) -> None:
        if value.type is self._ready and (data := value.data) is not None:
            if not self._amounts[self._slot] <= data and data == data:
                self._amounts[self._slot] = data
        else:
            super().consume(value)

    def _combine(self, amount: Any, data: Any) -> Any:
        a, b = aligned(amount, data)
        return data if amount != amount or b < a else amount


class Max(_Reducer):
    """The greatest of the numbers. A NaN counts only if there is nothing else."""

    __slots__ = ()

    def consume(self, value: Value) -> None:
        if value.type is self._ready and (data := value.data) is not None:
            if not self._amounts[self._slot] >= data and data == data:
                self._amounts[self._slot] = data
        else:
            super().consume(value)

    def _combine(self, amount: Any, data: Any) -> Any:
        a, b = aligned(amount, data)
        return data if amount != amount or b > a else amount


MEAN = t.record((("sum", t.FLOAT64), ("count", t.UINT64)))
"""The partial result of a mean."""


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
        return Value(MEAN, (self._sum, self._count))

    def merge(self, partial: Value) -> None:
        total, count = partial.data
        self._sum += total
        self._count += count


def _float_of(value: Value) -> float | None:
    """The amount of a number or of a string that spells one, in a union or not; else None."""
    value = value.under()
    if value.data is None or not (t.is_number(value.type) or value.type is t.STRING):
        return None
    number = cast_primitive(value, t.FLOAT64)
    return number.data if number.type is t.FLOAT64 else None


def partial_number(value: Value) -> Value:
    """The partial result of `sum`, `min` or `max` that holds one number, or the null of its kind."""
    parts = [value if slot == _SLOTS.get(value.type) else NULL for slot in range(len(NUMBERS))]
    return record(zip(NUMBERS, parts, strict=True))
