"""How large a value is when all of it is written out. Data is shared, so a small program can make a huge value.

Parts that are shared count each time. Sizes are rough: what the data takes in memory, a little more than its binary
form. What is worked out about a type is kept with it, so that a flat record is measured in a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getsizeof

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.values import Value, text_error
from shoal.model.zcode import Data

MAX_TEXT = 1 << 26
"""How long a string made by a program may be, in characters."""
MAX_PARTS = 2_000_000
"""How many parts a value made by a program may have."""
MAX_BYTES = 1 << 30
"""How large a value made by a program may be where no other limit is set."""
TOO_LONG = text_error(f"string too long: more than {MAX_TEXT} characters")

LEAF_BYTES = 32
"""What a number, a null or another value of a fixed size takes."""
CONTAINER_BYTES = 64
"""What a record, array, set or map takes beside its parts."""
TEXT_BYTES = getsizeof("")
"""What a string takes beside its characters."""
_TYPE_PART_BYTES = 16
"""What each part of a type value takes, in memory and as text."""

Sizer = Callable[[Data], int]
_SIZER: t.MemoKey[Sizer] = t.MemoKey("size of values")


class TooLarge(InvalidInput):
    """A program makes a value that could never be written out."""


def check_size(size: int, limit: int) -> None:
    """Raise TooLarge before something is made that takes more bytes than the limit."""
    if size > limit:
        raise TooLarge(f"value too large: it takes more than {limit} bytes")


def size_of(value: Value) -> int:
    """Bytes that a value takes, roughly, with shared parts counted each time."""
    typ = value.type
    return (typ.memo.get(_SIZER) or _sizer(typ))(value.data)


def _sizer(typ: t.Type) -> Sizer:
    """What measures the values of a type."""
    sizer = typ.memo.get(_SIZER)
    return typ.memo.setdefault(_SIZER, _make_sizer(typ.under)) if sizer is None else sizer


def _make_sizer(under: t.Type) -> Sizer:
    match under:
        case t.Record():
            return _record_sizer([f.type for f in under.fields])
        case t.Array() | t.Set():
            return _elements_sizer(under.elem)
        case t.Map():
            entry = _record_sizer([under.key, under.value])
            return lambda data: LEAF_BYTES if data is None else CONTAINER_BYTES + sum(map(entry, data))
        case t.Union():
            members = [_sizer(member) for member in under.types]
            return lambda data: LEAF_BYTES if data is None else CONTAINER_BYTES + members[data[0]](data[1])
        case t.Error():
            return _sizer(under.inner)
        case t.STRING | t.BYTES:
            return getsizeof
        case t.TYPE:
            return lambda data: LEAF_BYTES if data is None else _TYPE_PART_BYTES * data.size
    return lambda data: LEAF_BYTES


def is_fixed(typ: t.Type) -> bool:
    """Whether all values of a type have one size."""
    under = typ.under
    return under.depth <= 1 and under not in (t.STRING, t.BYTES, t.TYPE)


def _record_sizer(types: Sequence[t.Type]) -> Sizer:
    fixed = CONTAINER_BYTES + LEAF_BYTES * sum(map(is_fixed, types))
    texts = [i for i, typ in enumerate(types) if typ.under in (t.STRING, t.BYTES)]
    others = [(i, _sizer(typ)) for i, typ in enumerate(types) if not is_fixed(typ) and i not in set(texts)]

    def size(data: Data) -> int:
        if data is None:
            return LEAF_BYTES
        total = fixed
        for i in texts:
            total += getsizeof(data[i])
        for i, sizer in others:
            total += sizer(data[i])
        return total

    return size


def _elements_sizer(elem: t.Type) -> Sizer:
    if is_fixed(elem):
        return lambda data: LEAF_BYTES if data is None else CONTAINER_BYTES + LEAF_BYTES * len(data)
    sizer = _sizer(elem)
    return lambda data: LEAF_BYTES if data is None else CONTAINER_BYTES + sum(map(sizer, data))


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
