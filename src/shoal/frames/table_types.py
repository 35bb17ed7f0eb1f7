"""The surface of a Zed type: the plain type that represents it in a table, so that any library can read the table.

    plain types, time, duration     themselves
    arrays, records                 of surfaces
    ip, net, type, enum             string, of their text
    float16                         float32
    set                             array, in canonical order
    map                             array of {key,value}, in canonical order
    union                           {tag,"0","1",...}: one field per member
    {}                              bool: true if it is not null
    error, named types              the surface of the inner type

Surface data has a meaning only together with the type. The physical form of the lake's columns keeps the order of
Zed; the surface is made for people to read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.literals import format_ip, format_net, parse_ip, parse_net, round_float
from shoal.model.parse import parse_type, parse_value
from shoal.model.text import format_type, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_map, normal_set

Change = Callable[[Data], Data]
_SURFACE: t.MemoKey[t.Type] = t.MemoKey("surface")
_TO_SURFACE: t.MemoKey[Change] = t.MemoKey("to surface")
_FROM_SURFACE: t.MemoKey[Change] = t.MemoKey("from surface")


def surface(typ: t.Type) -> t.Type:
    """The plain type that represents a type."""
    plain = typ.memo.get(_SURFACE)
    if plain is None:
        try:
            plain = _surface(typ.under)
        except InvalidInput:  # a map takes two levels here; values that nest too deeply are written as ZSON
            plain = t.STRING
        typ.memo[_SURFACE] = plain
    return plain


def is_plain(typ: t.Type) -> bool:
    """Whether a type is its own surface."""
    return surface(typ) is typ


def _surface(typ: t.Type) -> t.Type:
    match typ:
        case t.Primitive():
            return _SUBSTITUTES.get(typ, typ)
        case t.Record():
            return t.record((f.name, surface(f.type)) for f in typ.fields) if typ.fields else t.BOOL
        case t.Array() | t.Set():
            return t.array(surface(typ.elem))
        case t.Map():
            return t.array(t.record((("key", surface(typ.key)), ("value", surface(typ.value)))))
        case t.Union():
            return t.record((("tag", t.INT16), *((str(i), surface(m)) for i, m in enumerate(typ.types))))
        case t.Enum():
            return t.STRING
        case t.Error():
            return surface(typ.inner)
        case _:
            raise AssertionError(typ)


_SUBSTITUTES: dict[t.Type, t.Type] = {t.IP: t.STRING, t.NET: t.STRING, t.TYPE: t.STRING, t.FLOAT16: t.FLOAT32}


def to_surface(typ: t.Type) -> Change:
    """Converts data of a type to its surface."""
    return _cached(typ, _TO_SURFACE, _to_surface)


def from_surface(typ: t.Type) -> Change:
    """Converts surface data to data of the type; InvalidInput if it does not fit."""
    return _cached(typ, _FROM_SURFACE, _from_surface)


def _cached(typ: t.Type, key: t.MemoKey[Change], make: Callable[[t.Type], Change]) -> Change:
    conversion = typ.memo.get(key)
    if conversion is None:
        is_text = surface(typ) is t.STRING and isinstance(typ.under, _CONTAINERS)
        change = _same if is_plain(typ) else make(typ.under) if not is_text else _AS_ZSON[key](typ.under)
        conversion = typ.memo[key] = lambda data: None if data is None else change(data)
    return conversion


_CONTAINERS = (t.Record, t.Array, t.Set, t.Map, t.Union)
_AS_ZSON: dict[t.MemoKey[Change], Callable[[t.Type], Change]] = {
    _TO_SURFACE: lambda typ: lambda data: format_value(Value(typ, data)),
    _FROM_SURFACE: lambda typ: lambda text: parse_value(text).data,
}


def _same(data: Data) -> Data:
    return data


def _to_surface(typ: t.Type) -> Change:
    match typ:
        case t.Primitive():
            return _TEXTS.get(typ, _same)
        case t.Record():
            return _parts([to_surface(f.type) for f in typ.fields]) if typ.fields else lambda data: True
        case t.Array() | t.Set():
            elem = to_surface(typ.elem)
            return lambda data: tuple([elem(d) for d in data])
        case t.Map():
            key, value = to_surface(typ.key), to_surface(typ.value)
            return lambda data: tuple([(key(k), value(v)) for k, v in data])
        case t.Union():
            members = [to_surface(m) for m in typ.types]
            return lambda data: (data[0], *(m(data[1]) if i == data[0] else None for i, m in enumerate(members)))
        case t.Enum():
            return lambda data: typ.symbols[data]
        case t.Error():
            return to_surface(typ.inner)
        case _:
            raise AssertionError(typ)


def _from_surface(typ: t.Type) -> Change:
    match typ:
        case t.Primitive():
            return _PARSERS.get(typ, _same)
        case t.Record():
            return _parts([from_surface(f.type) for f in typ.fields]) if typ.fields else lambda data: ()
        case t.Array():
            elem = from_surface(typ.elem)
            return lambda data: tuple([elem(d) for d in data])
        case t.Set():
            kind, member = typ.elem, from_surface(typ.elem)
            return lambda data: normal_set(kind, [member(d) for d in data])
        case t.Map():
            kind, key, value = typ.key, from_surface(typ.key), from_surface(typ.value)
            return lambda data: normal_map(kind, [(key(k), value(v)) for k, v in data])
        case t.Union():
            return _member([from_surface(m) for m in typ.types])
        case t.Enum():
            return _position(typ)
        case t.Error():
            return from_surface(typ.inner)
        case _:
            raise AssertionError(typ)


def _parts(changes: list[Change]) -> Change:
    return lambda data: tuple([change(d) for change, d in zip(changes, data, strict=True)])


def _member(members: list[Change]) -> Change:
    def choose(data: Data) -> Data:
        tag = data[0]
        if tag is None or not 0 <= tag < len(members):
            raise InvalidInput(f"no member {tag} in a union of {len(members)}")
        return (tag, members[tag](data[tag + 1]))

    return choose


def _position(typ: t.Enum) -> Change:
    indexes = {symbol: i for i, symbol in enumerate(typ.symbols)}

    def find(symbol: Any) -> int:
        if symbol not in indexes:
            raise InvalidInput(f"no symbol {symbol!r} in {format_type(typ)}")
        return indexes[symbol]

    return find


_TEXTS: dict[t.Type, Change] = {t.IP: format_ip, t.NET: format_net, t.TYPE: format_type}
_PARSERS: dict[t.Type, Change] = {
    t.IP: parse_ip,
    t.NET: parse_net,
    t.TYPE: parse_type,
    t.FLOAT16: lambda data: round_float(data, 2),
}
