"""Types of literals: what they are by themselves, and what a decorator makes of them.

A container of items of several types takes them into a union, and `null` among typed items becomes a
null of their type. A decorator that follows may see it otherwise, so until then the container
remembers its items as they were written.
"""

from __future__ import annotations

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.decimals import parse_exactly
from shoal.model.literals import parse_date, round_float
from shoal.model.text import format_type
from shoal.model.zcode import Data, normal_map, normal_set

Typed = tuple[t.Type, Data]
BIG = t.Primitive("integer beyond int64", -1)
SYMBOL = t.Primitive("enum symbol", -2)


class LongFloat(float):
    """A float whose text has more digits than a float holds: a decorator may make a decimal of all of them."""

    text: str

    def __new__(cls, text: str, number: float) -> LongFloat:
        literal = super().__new__(cls, number)
        literal.text = text
        return literal


class Container(tuple[Data, ...]):
    """A container of items of several types as they were written, before their union or null took them in."""

    items: tuple[list[Typed], ...]

    def __new__(cls, data: tuple[Data, ...], items: tuple[list[Typed], ...]) -> Container:
        container = super().__new__(cls, data)
        container.items = items
        return container


def settled(typ: t.Type, data: Data) -> Data:
    """Data without the memory of how its containers were written."""
    if data is None:
        return None
    match typ:
        case t.Named() | t.Error():
            return settled(typ.inner, data)
        case t.Record():
            return tuple(settled(f.type, d) for f, d in zip(typ.fields, data, strict=True))
        case t.Array() | t.Set():
            return tuple(settled(typ.elem, d) for d in data)
        case t.Map():
            return tuple((settled(typ.key, k), settled(typ.value, v)) for k, v in data)
        case t.Union():
            return (data[0], settled(typ.types[data[0]], data[1]))
        case _:
            return float(data) if isinstance(data, LongFloat) else data


_IS_UNFINISHED: t.MemoKey[bool] = t.MemoKey("is unfinished")


def is_unfinished(typ: t.Type) -> bool:
    """Whether something in a value of this type still waits for a decorator."""
    answer = typ.memo.get(_IS_UNFINISHED)
    if answer is None:
        answer = typ in (BIG, SYMBOL) or any(is_unfinished(c) for c in typ.children())
        typ.memo[_IS_UNFINISHED] = answer
    return answer


def unified(items: list[Typed]) -> tuple[t.Type, list[Data]]:
    """The element type of a container of these items, and their data in it."""
    kinds = dict.fromkeys(typ for typ, _ in items if typ is not t.NULL)
    if len(kinds) < 2:
        return next(iter(kinds), t.NULL), [data for _, data in items]
    union = t.union(kinds)
    return union, [None if typ is t.NULL else (union.tags[typ], data) for typ, data in items]


def retype(typed: Typed, to: t.Type) -> Data:
    """The data of a literal as its decorator wants it."""
    typ, data = typed
    if typ is to or (data is None and typ is t.NULL):
        return data
    if isinstance(to, t.Named):
        return data if typ is to.inner else retype(typed, to.inner)
    match typ, to:
        case _, t.Union():
            if typ in to.tags:
                return (to.tags[typ], data)
            raise InvalidInput(f"type {_show(typ)} is not in union type {_show(to)}")
        case t.Primitive(), t.Primitive() | t.Enum():
            return _retype_primitive(typ, data, to)
        case t.Record(), t.Record() if list(typ.index) == list(to.index) and data is not None:
            pairs = zip(typ.children(), data, to.children(), strict=True)
            return tuple(retype((x, d), y) for x, d, y in pairs)
        case t.Array(), t.Array() if data is not None:
            return tuple(retype(item, to.elem) for item in _items(data, typ.elem))
        case t.Set(), t.Set() if data is not None:
            return normal_set(to.elem, [retype(item, to.elem) for item in _items(data, typ.elem)])
        case t.Map(), t.Map() if data is not None:
            keys = [retype(item, to.key) for item in _items(data, typ.key, 0)]
            values = [retype(item, to.value) for item in _items(data, typ.value, 1)]
            return normal_map(to.key, zip(keys, values, strict=True))
        case t.Error(), t.Error():
            return retype((typ.inner, data), to.inner)
    raise InvalidInput(f"type mismatch: {_show(typ)} cannot be used as {_show(to)}")


def _items(data: Data, elem: t.Type, part: int | None = None) -> list[Typed]:
    """Elements (or, of a map, its keys or values) with the types they were written with."""
    if isinstance(data, Container):
        return data.items[part or 0]
    return [(elem, d if part is None else d[part]) for d in data]


_FLOAT_SIZES = {t.FLOAT16: 2, t.FLOAT32: 4, t.FLOAT64: 8}


def _retype_primitive(typ: t.Primitive, data: Data, to: t.Type) -> Data:
    if typ in (t.INT64, BIG) and to in t.INT_RANGES and to not in (t.TIME, t.DURATION) and data is not None:
        low, high = t.INT_RANGES[to]
        if not low <= data <= high:
            raise InvalidInput(f"{data} is out of range of {_show(to)}")
        return data
    if typ in (t.INT64, BIG) and to in t.FLOATS and data is not None:
        if abs(data) > 2**53:
            raise InvalidInput(f"{data} cannot be exact as {_show(to)} (write it as a float)")
        return round_float(float(data), _FLOAT_SIZES[to])
    if typ is t.FLOAT64 and to in t.FLOATS and data is not None:
        return round_float(data, _FLOAT_SIZES[to])
    if isinstance(to, t.Decimal) and typ in (t.INT64, BIG, t.FLOAT64, t.STRING) and data is not None:
        return parse_exactly(data.text if isinstance(data, LongFloat) else str(data), to)
    if to is t.DATE and typ is t.STRING and data is not None:
        return parse_date(data)
    if typ in (SYMBOL, t.STRING) and isinstance(to, t.Enum):
        if data not in to.symbols:
            raise InvalidInput(f"symbol {data!r} not a member of {_show(to)}")
        return to.symbols.index(data)
    raise InvalidInput(f"type mismatch: {_show(typ)} cannot be used as {_show(to)}")


def _show(typ: t.Type) -> str:
    return repr(format_type(typ))
