"""The common type of values: one type that a column has which holds all of them.

    integers                  the narrowest integer type that holds all; decimal(20,0) for int64 with uint64
    integers and decimals     a decimal with room for all digits
    numbers with a float      float64; a float32 if there is nothing else
    dates and times           time
    records                   a record with the fields of all of them, each of its common type
    arrays and sets           an array of the common type of the elements
    maps                      a map with the common type of the values, if all keys are of one plain type
    a union                   the common type of its members
    anything else that mixes  string: the text of each value

Names of types make no difference, and neither do nulls without a type. The order of the types decides on the order of
fields alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shoal.model import types as t
from shoal.model.decimals import common_decimal, decimal_of

_SIGNED = (t.INT8, t.INT16, t.INT32, t.INT64)
_UNSIGNED = (t.UINT8, t.UINT16, t.UINT32, t.UINT64)
_WIDE = t.decimal(20, 0)
"""For integers of all types."""


def common_type(types: Iterable[t.Type]) -> t.Type:
    """The common type of some types; that of nulls alone is null."""
    kinds = list(dict.fromkeys(_parts(types)))
    if not kinds:
        return t.NULL
    if len(kinds) == 1:
        return _of_one(kinds[0])
    if all(_is_amount(kind) for kind in kinds):
        return _number(kinds)
    if all(kind in (t.DATE, t.TIME) for kind in kinds):
        return t.TIME
    if all(isinstance(kind, t.Record) for kind in kinds):
        return _record(kinds)
    if all(isinstance(kind, t.Array | t.Set) for kind in kinds):
        return t.array(common_type(kind.children()[0] for kind in kinds))
    if all(isinstance(kind, t.Map) for kind in kinds):
        return _map(kinds)
    return t.STRING


def _parts(types: Iterable[t.Type]) -> Iterator[t.Type]:
    """Types without names and unions, and without null."""
    for typ in types:
        under = typ.under
        if isinstance(under, t.Union):
            yield from _parts(under.types)
        elif under is not t.NULL:
            yield under


def _of_one(typ: t.Type) -> t.Type:
    match typ:
        case t.Record():
            return _record([typ])
        case t.Array() | t.Set():
            return t.array(common_type([typ.elem]))
        case t.Map():
            return _map([typ])
        case t.Error() | t.Enum():
            return t.STRING
    return t.FLOAT32 if typ is t.FLOAT16 else typ


def _is_amount(typ: t.Type) -> bool:
    return typ in t.SIGNED or typ in t.UNSIGNED or typ in t.FLOATS or isinstance(typ, t.Decimal)


def _number(kinds: list[t.Type]) -> t.Type:
    if any(kind in t.FLOATS for kind in kinds):
        return t.FLOAT32 if all(kind in (t.FLOAT16, t.FLOAT32) for kind in kinds) else t.FLOAT64
    if any(isinstance(kind, t.Decimal) for kind in kinds):
        decimals = [decimal for kind in kinds if (decimal := decimal_of(kind)) is not None]
        return common_decimal(decimals) or t.FLOAT64
    return next((typ for typ in (*_UNSIGNED, *_SIGNED) if all(_fits(kind, typ) for kind in kinds)), _WIDE)


def _fits(typ: t.Type, into: t.Primitive) -> bool:
    (low, high), (least, most) = t.INT_RANGES[typ], t.INT_RANGES[into]  # type: ignore[index]
    return bool(least <= low and high <= most)


def _record(kinds: list[t.Type]) -> t.Type:
    fields: dict[str, list[t.Type]] = {}
    for kind in kinds:
        assert isinstance(kind, t.Record)
        for name, typ in kind.fields:
            fields.setdefault(name, []).append(typ)
    return t.record((name, common_type(types)) for name, types in fields.items())


def _map(kinds: list[t.Type]) -> t.Type:
    """Keys of several types would no longer be distinct in one type."""
    keys = list(dict.fromkeys(_parts(kind.children()[0] for kind in kinds)))
    if len(keys) != 1 or not isinstance(keys[0], t.Primitive | t.Enum):
        return t.STRING
    return t.map_of(_of_one(keys[0]), common_type(kind.children()[1] for kind in kinds))
