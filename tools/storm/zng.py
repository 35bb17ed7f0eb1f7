"""A reader of ZNG that shares no code with Shoal. It knows what occurs in a lake, and raises Broken for the rest.

A record is a dict, an array or set a list, a map a list of pairs, a union the value in it. Type values stay bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

_SIGNED = {6, 7, 8, 9, 12, 13}
_UNSIGNED = {0, 1, 2, 3}
_FLOATS = {14: "<e", 15: "<f", 16: "<d"}
_BOOL, _BYTES, _STRING, _IP, _NET, _TYPE, _NULL = 23, 24, 25, 26, 27, 28, 29
_FIRST = 30
_RECORD, _ARRAY, _SET, _MAP, _UNION, _ENUM, _ERROR, _NAMED = range(8)
_END = 0xFF


class Broken(Exception):
    """Bytes that are not what the format says."""


class Type(NamedTuple):
    """A type of a stream: its kind, the names and the types in it."""

    kind: int
    names: tuple[str, ...] = ()
    parts: tuple[Any, ...] = ()
    primitive: int = -1


class Item(NamedTuple):
    """A value, with the name of its type if it has one."""

    name: str
    value: Any


def read_items(data: bytes) -> list[Item]:
    """All values in a sequence of streams."""
    try:
        return list(_read(data))
    except (IndexError, struct.error, UnicodeDecodeError, pa.ArrowException) as e:
        raise Broken(f"malformed ZNG: {e!r}") from e


def _read(data: bytes) -> Iterator[Item]:
    pos, types, is_open = 0, list[Type](), False
    while pos < len(data):
        code = data[pos]
        pos += 1
        if code == _END:
            types, is_open = [], False
            continue
        is_open = True
        high, pos = _uvarint(data, pos)
        size = code & 15 | high << 4
        payload = data[pos : pos + size]
        if len(payload) != size or code & 0x80:
            raise Broken("a frame is cut off or of an unknown version")
        pos += size
        if code & 0x40:
            payload = _decompress(payload)
        kind = code >> 4 & 3
        if kind == 0:
            _read_types(payload, types)
        elif kind == 1:
            yield from _read_values(payload, types)
    if is_open:
        raise Broken("a stream has no end")


def _uvarint(data: bytes, pos: int) -> tuple[int, int]:
    n = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return n, pos


def _decompress(payload: bytes) -> bytes:
    if payload[0] != 0:
        raise Broken("unknown compression")
    size, pos = _uvarint(payload, 1)
    return pa.Codec("lz4_raw").decompress(payload[pos:], size, asbytes=True)  # type: ignore[no-any-return]


def _text(data: bytes, pos: int) -> tuple[str, int]:
    size, pos = _uvarint(data, pos)
    return data[pos : pos + size].decode(), pos + size


def _read_types(data: bytes, types: list[Type]) -> None:
    pos = 0
    while pos < len(data):
        kind = data[pos]
        pos += 1
        count = {_MAP: 2}.get(kind, 1)
        if kind in (_RECORD, _UNION, _ENUM):
            count, pos = _uvarint(data, pos)
        names: list[str] = []
        parts: list[Type] = []
        for _ in range(count):
            if kind in (_RECORD, _ENUM, _NAMED):
                name, pos = _text(data, pos)
                names.append(name)
            if kind != _ENUM:
                ident, pos = _uvarint(data, pos)
                parts.append(_lookup(ident, types))
        types.append(Type(kind, tuple(names), tuple(parts)))


def _lookup(ident: int, types: list[Type]) -> Type:
    return Type(-1, primitive=ident) if ident < _FIRST else types[ident - _FIRST]


def _read_values(data: bytes, types: list[Type]) -> Iterator[Item]:
    pos = 0
    while pos < len(data):
        ident, pos = _uvarint(data, pos)
        typ = _lookup(ident, types)
        body, pos = _body(data, pos)
        yield Item(typ.names[0] if typ.kind == _NAMED else "", _value(typ, body))


def _body(data: bytes, pos: int) -> tuple[bytes | None, int]:
    """A body with its tag before it: 0 for null, else its length and one more."""
    tag, pos = _uvarint(data, pos)
    if tag == 0:
        return None, pos
    if pos + tag - 1 > len(data):
        raise Broken("a value is cut off")
    return data[pos : pos + tag - 1], pos + tag - 1


def _bodies(data: bytes) -> list[bytes | None]:
    out, pos = [], 0
    while pos < len(data):
        body, pos = _body(data, pos)
        out.append(body)
    return out


def _value(typ: Type, body: bytes | None) -> Any:
    if body is None:
        return None
    if typ.kind == -1:
        return _primitive(typ.primitive, body)
    return _COMPLEX[typ.kind](typ, body)


def _primitive(ident: int, body: bytes) -> Any:
    n = int.from_bytes(body, "little")
    if ident in _SIGNED:
        return -(n >> 1) if n & 1 else n >> 1
    if ident in _UNSIGNED:
        return n
    if ident in _FLOATS:
        return struct.unpack(_FLOATS[ident], body)[0]
    if ident == _BOOL:
        return body != b"\0"
    if ident == _STRING:
        return body.decode()
    if ident in (_BYTES, _IP, _NET, _TYPE):
        return body
    raise Broken(f"a value of type {ident}")


def _record(typ: Type, body: bytes) -> Any:
    bodies = _bodies(body)
    if len(bodies) != len(typ.names):
        raise Broken("a record does not fit its type")
    return {name: _value(part, each) for name, part, each in zip(typ.names, typ.parts, bodies, strict=True)}


def _map(typ: Type, body: bytes) -> Any:
    bodies = _bodies(body)
    key, value = typ.parts
    return [(_value(key, k), _value(value, v)) for k, v in zip(bodies[::2], bodies[1::2], strict=True)]


def _union(typ: Type, body: bytes) -> Any:
    tag, inner = _bodies(body)
    return _value(typ.parts[_primitive(9, tag or b"")], inner)


def _list(typ: Type, body: bytes) -> Any:
    return [_value(typ.parts[0], each) for each in _bodies(body)]


_COMPLEX: dict[int, Callable[[Type, bytes], Any]] = {
    _RECORD: _record,
    _ARRAY: _list,
    _SET: _list,
    _MAP: _map,
    _UNION: _union,
    _ENUM: lambda typ, body: typ.names[int.from_bytes(body, "little")],
    _ERROR: lambda typ, body: _value(typ.parts[0], body),
    _NAMED: lambda typ, body: _value(typ.parts[0], body),
}
