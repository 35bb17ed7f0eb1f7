"""The types of one ZNG stream, by number. Tags of a union count as its typedef lists the members.

Ours are listed in canonical order. A file may list them otherwise; then the values of that type, and
of any type with it inside, are decoded with their tags put right.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.limits import LIGHT, check_bytes, check_types
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Decoder, decoder, read_name, read_uvarint, walking_decoder

_SMALL = 4096
"""Bytes of a types frame that is remembered."""
RECORD, ARRAY, SET, MAP, UNION, ENUM, ERROR, NAMED = range(8)


class EndlessValue(InvalidInput):
    """A value that says it is longer than the frame it is in."""


class TypeTable:
    """Typedefs so far, with the decoders of their values."""

    def __init__(self, options: ReadOptions = DEFAULT_READ) -> None:
        self._options = options
        self._parts = 0
        """Of all types together, each written out."""
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
            self._parts += 1 + max(len(names), len(parts))
            check_types(self._parts, self._options)
            typ = _make_type(code, names, kinds)
            in_order = not isinstance(typ, t.Union) or list(typ.types) == kinds
            if not in_order or any(part in self._foreign for part in parts):
                ident = t.FIRST_COMPLEX_ID + len(self._types)
                self._foreign[ident] = walking_decoder(typ, kinds, [self._decoder(part) for part in parts])
            self._types.append(typ)

    def _decoder(self, ident: int) -> Decoder:
        return self._foreign.get(ident) or decoder(self._lookup(ident))

    def entry(self, ident: int) -> tuple[t.Type, Decoder, bool]:
        """A type, its decoder, and whether that is not just the one of the type."""
        return self._lookup(ident), self._decoder(ident), ident in self._foreign

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
                if size > LIGHT:
                    check_bytes(entry[0], min(size, end), self._options)
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
