"""How large a value is when all of it is written out. Data is shared, so a small program can make a huge value."""

from __future__ import annotations

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.values import text_error
from shoal.model.zcode import Data

MAX_TEXT = 1 << 26
"""How long a string made by a program may be, in characters."""
MAX_PARTS = 2_000_000
"""How many parts a value made by a program may have."""
TOO_LONG = text_error(f"string too long: more than {MAX_TEXT} characters")


class TooLarge(InvalidInput):
    """A program makes a value that could never be written out."""


def check_parts(typ: t.Type, data: Data) -> None:
    """Raise TooLarge for a value with too many parts."""
    if parts_within(typ, data, MAX_PARTS) > MAX_PARTS:
        raise TooLarge(f"value too large: it has more than {MAX_PARTS} parts")


def parts_within(typ: t.Type, data: Data, limit: int) -> int:
    """How many parts a value has; some number above the limit if it has more than that."""
    under = typ.under
    if data is None or under.depth <= 1:
        return 1
    if under.depth == 2:
        return len(data) if isinstance(data, tuple) else 2
    match under:
        case t.Array() | t.Set():
            return _all(((under.elem, item) for item in data), len(data), under.elem, limit)
        case t.Map():
            keys = _all(((under.key, k) for k, _ in data), len(data), under.key, limit)
            return keys + _all(((under.value, v) for _, v in data), len(data), under.value, limit - keys)
        case t.Record():
            pairs = zip((f.type for f in under.fields), data, strict=True)
            return _all(pairs, len(data), None, limit)
        case t.Union():
            return parts_within(under.types[data[0]], data[1], limit)
        case t.Error():
            return parts_within(under.inner, data, limit)
    return 1


def _all(items: object, count: int, elem: t.Type | None, limit: int) -> int:
    if elem is not None and elem.under.depth <= 1:
        return 1 + count
    total = 1
    for typ, item in items:  # type: ignore[attr-defined]
        total += parts_within(typ, item, limit - total)
        if total > limit:
            break
    return total
