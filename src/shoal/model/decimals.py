"""Decimals: exact numbers with a fixed count of digits after the point.

The data of a decimal is a `decimal.Decimal` with exactly the scale of its type. Sums and products are exact; one that
needs more than 38 digits is an error, never rounded. A value that is converted to a type with fewer digits after the
point is rounded half away from zero, as SQL does it.
"""

from __future__ import annotations

import decimal as py
import math
import re
from decimal import Decimal
from typing import Any

from shoal.errors import InvalidInput
from shoal.model import types as t

EXACT = py.Context(prec=2 * t.MAX_DIGITS + 2, rounding=py.ROUND_HALF_UP, traps=[py.InvalidOperation, py.DivisionByZero])
"""Enough digits for any product of two decimals."""
_TEXT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?")
_LONGEST = 1000
_INTEGER_DIGITS: dict[t.Type, int] = {
    typ: len(str(max(abs(low), high))) for typ, (low, high) in t.INT_RANGES.items() if typ not in (t.TIME, t.DURATION)
}


def format_decimal(number: Decimal) -> str:
    """All digits, without an exponent: `1.10`."""
    return f"{number:f}"


def parse_decimal(text: str, typ: t.Decimal) -> Decimal:
    """The number that a text spells, with the scale of a type."""
    if not _TEXT.fullmatch(text) or len(text) > _LONGEST:
        raise InvalidInput(f"invalid decimal: {text[:100]!r}")
    return fit(Decimal(text), typ)


def parse_exactly(text: str, typ: t.Decimal) -> Decimal:
    """The number that a text spells; InvalidInput if the type would have to round it."""
    number = parse_decimal(text, typ)
    if number != Decimal(text):
        raise InvalidInput(f"{text[:100]} has more than {typ.scale} digits after the point")
    return number


def of_number(number: float | Decimal, typ: t.Decimal) -> Decimal:
    """A number as a decimal. A float is what its shortest text says: 0.1 is 0.1."""
    if isinstance(number, float):
        if not math.isfinite(number):
            raise InvalidInput(f"{number} is not a decimal")
        return fit(Decimal(repr(number)), typ)
    return fit(Decimal(number), typ)


def fit(number: Decimal, typ: t.Decimal) -> Decimal:
    """A number with the scale of a type; InvalidInput if it has too many digits before the point."""
    if not number.is_finite() or number.adjusted() >= 2 * t.MAX_DIGITS:
        raise InvalidInput(f"{number} has too many digits for {typ.name}")
    scaled = number.quantize(Decimal((0, (1,), -typ.scale)), context=EXACT)
    if scaled.adjusted() >= typ.precision - typ.scale and scaled:
        raise InvalidInput(f"{format_decimal(scaled)} has too many digits for {typ.name}")
    return scaled if scaled else Decimal((0, (0,), -typ.scale))  # there is one zero


def aligned(a: Any, b: Any) -> tuple[Any, Any]:
    """Two numbers as Python compares them: next to a decimal, a float is what its shortest text says."""
    if isinstance(a, float) and isinstance(b, Decimal):
        return (Decimal(repr(a)) if math.isfinite(a) else a), b
    if isinstance(a, Decimal) and isinstance(b, float):
        return a, (Decimal(repr(b)) if math.isfinite(b) else b)
    return a, b


def decimal_of(typ: t.Type) -> t.Decimal | None:
    """The decimals that hold all values of an integer or decimal type; None for other types."""
    under = typ.under
    if isinstance(under, t.Decimal):
        return under
    digits = _INTEGER_DIGITS.get(under)
    return None if digits is None else t.decimal(digits, 0)


def common_decimal(types: list[t.Decimal]) -> t.Decimal | None:
    """The decimals that hold all values of some decimal types; None if they would need too many digits."""
    scale = max(typ.scale for typ in types)
    whole = max(typ.precision - typ.scale for typ in types)
    return t.decimal(max(1, whole + scale), scale) if whole + scale <= t.MAX_DIGITS else None


def result_type(op: str, a: t.Decimal, b: t.Decimal) -> t.Decimal:
    """The type of a sum, a difference or a product, whatever the values are."""
    if op == "*":
        return t.decimal(t.MAX_DIGITS, min(a.scale + b.scale, t.MAX_DIGITS))
    return t.decimal(t.MAX_DIGITS, max(a.scale, b.scale))


def compute(op: str, a: Decimal, b: Decimal, typ: t.Decimal) -> Decimal:
    """A sum, a difference or a product as a value of its type. InvalidInput if it has too many digits."""
    match op:
        case "+":
            exact = EXACT.add(a, b)
        case "-":
            exact = EXACT.subtract(a, b)
        case _:
            exact = EXACT.multiply(a, b)
    number = fit(exact, typ)
    if number != exact:
        raise InvalidInput(f"{format_decimal(exact)} has too many digits for a decimal")
    return number
