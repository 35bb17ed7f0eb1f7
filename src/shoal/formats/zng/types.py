"""The types of one ZNG stream, by number. Tags of a union count as its typedef lists the members.

Ours are listed in canonical order. A file may list them otherwise; then the values of that type, and
of any type with it inside, are decoded with their tags put right.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data, Decoder, decode_int, decoder, normal_map, normal_set, read_name, read_uvarint, split

_SMALL = 4096
"""Bytes of a types frame that is remembered."""
RECORD, ARRAY, SET, MAP, UNION, ENUM, ERROR, NAMED = range(8)


class EndlessValue(InvalidInput):
    """A value that says it is longer than the frame it is in."""


class TypeTable:
    """Typedefs so far, with the decoders of their values."""

    def __init__(self) -> None:
        self._types: list[t.Type] = []
        self._foreign: dict[int, Decoder] = {}
        """Decoders of types with a union inside whose members are not listed in canonical order."""

    def _lookup(self, ident: int) -> t.Type:
        if ident < t.FIRST_COMPLEX_ID:
            if ident not in t.PRIMITIVES_BY_ID:
                raise InvalidInput(f"type {ident} is reserved and has no meaning yet")
            return t.PRIMITIVES_BY_ID[ident]
        if ident - t.FIRST_COMPLEX_ID >= len(self._types):
            raise InvalidInput(f"type {ident} is used before its definition")
        return self._types[ident - t.FIRST_COMPLEX_ID]

    def read_typedefs(self, payload: bytes) -> None:
        """Add the definitions of a types frame."""
        if self._types or len(payload) > _SMALL:
            self._add(payload)
            return
        table = _first_types(payload)
        self._types, self._foreign = table._types.copy(), table._foreign.copy()

    def _add(self, payload: bytes) -> None:
        pos = 0
        while pos < len(payload):
            code = payload[pos]
            if code not in range(8):
                raise InvalidInput(f"unknown typedef code {code}")
            names, parts, pos = _read_parts(code, payload, pos + 1)
            kinds = [self._lookup(part) for part in parts]
            typ = _make_type(code, names, kinds)
            in_order = not isinstance(typ, t.Union) or list(typ.types) == kinds
            if not in_order or any(part in self._foreign for part in parts):
                ident = t.FIRST_COMPLEX_ID + len(self._types)
                self._foreign[ident] = _foreign_decoder(typ, kinds, [self._decoder(part) for part in parts])
            self._types.append(typ)

    def _decoder(self, ident: int) -> Decoder:
        return self._foreign.get(ident) or decoder(self._lookup(ident))

    def read_values(self, payload: bytes) -> Iterator[Value]:
        """The values of a values frame."""
        pos, end = 0, len(payload)
        entries: dict[int, tuple[t.Type, Decoder]] = {}
        while pos < end:
            ident = payload[pos]
            pos += 1
            if ident > 127:
                ident, pos = read_uvarint(payload, pos - 1)
            entry = entries.get(ident)
            if entry is None:
                entry = entries[ident] = self._lookup(ident), self._decoder(ident)
            size = payload[pos]
            pos += 1
            if size > 127:
                size, pos = read_uvarint(payload, pos - 1)
            if size == 0:
                yield Value(entry[0], None)
                continue
            stop = pos + size - 1
            if stop > end:
                raise EndlessValue("value runs past its frame")
            yield Value(entry[0], entry[1](payload, pos, stop))
            pos = stop


@lru_cache(256)
def _first_types(payload: bytes) -> TypeTable:
    """The types of a stream that begins with this frame. All metadata objects of a kind begin with the same one."""
    table = TypeTable()
    table._add(payload)
    return table


def _read_parts(code: int, buf: bytes, pos: int) -> tuple[list[str], list[int], int]:
    """The names and the type numbers of a typedef, and the position after it."""
    count = {MAP: 2}.get(code, 1)
    if code in (RECORD, UNION, ENUM):
        count, pos = read_uvarint(buf, pos)
        if count > len(buf) - pos:
            raise InvalidInput(f"typedef of {count} parts in {len(buf) - pos} bytes")
    names: list[str] = []
    parts: list[int] = []
    for _ in range(count):
        if code in (RECORD, ENUM, NAMED):
            name, pos = read_name(buf, pos)
            names.append(name)
        if code != ENUM:
            part, pos = read_uvarint(buf, pos)
            parts.append(part)
    return names, parts, pos


def _make_type(code: int, names: list[str], kinds: list[t.Type]) -> t.Type:
    if code == RECORD:
        return t.record(zip(names, kinds, strict=True))
    if code == UNION:
        union = t.union(kinds)
        if len(union.types) != len(kinds):
            raise InvalidInput("a type is twice in a union")
        return union
    if code == ENUM:
        return t.enum(names)
    if code == NAMED:
        return t.named(names[0], kinds[0])
    if code == MAP:
        return t.map_of(*kinds)
    return {ARRAY: t.array, SET: t.set_of, ERROR: t.error}[code](kinds[0])


def _foreign_decoder(typ: t.Type, kinds: list[t.Type], parts: list[Decoder]) -> Decoder:
    """Decodes bodies of `typ`, given the decoders of its parts in the order of the typedef."""

    def items(buf: bytes, pos: int, end: int, decoders: list[Decoder]) -> list[Data]:
        """The items of a container, decoded by each decoder in turn."""
        bodies = split(buf, pos, end)
        turns = range(len(bodies))
        return [None if b is None else decoders[i % len(decoders)](buf, *b) for i, b in zip(turns, bodies, strict=True)]

    match typ:
        case t.Union():
            tags = [typ.tags[kind] for kind in kinds]

            def union(buf: bytes, pos: int, end: int) -> Data:
                tag_at, body = split(buf, pos, end, 2)
                tag = decode_int(buf[slice(*tag_at)]) if tag_at is not None else 0
                if not 0 <= tag < len(tags):
                    raise InvalidInput("union tag out of range")
                data = None if body is None else parts[tag](buf, *body)
                return None if kinds[tag] is t.NULL else (tags[tag], data)

            return union
        case t.Record():
            count = len(parts)

            def record(buf: bytes, pos: int, end: int) -> Data:
                split(buf, pos, end, count)
                return tuple(items(buf, pos, end, parts))

            return record
        case t.Array():
            return lambda buf, pos, end: tuple(items(buf, pos, end, parts))
        case t.Set():
            return lambda buf, pos, end: normal_set(typ.elem, items(buf, pos, end, parts))
        case t.Map():

            def entries(buf: bytes, pos: int, end: int) -> Data:
                flat = items(buf, pos, end, parts)
                return normal_map(typ.key, zip(flat[::2], flat[1::2], strict=True))

            return entries
        case _:
            return parts[0]
