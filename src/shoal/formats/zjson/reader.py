"""Reading ZJSON. A union's tags count in the order its own definition lists the members, not canonically.

So what an id stands for is more than a type: it is a `_Shape`, a type together with the way to
read values that were written with that definition.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import orjson

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.limits import JSON_PARTS, at, check_types
from shoal.formats.streams import Source, read_lines
from shoal.model import types as t
from shoal.model.decimals import parse_exactly
from shoal.model.literals import parse_date, parse_duration, parse_float, parse_ip, parse_net, parse_time, round_float
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_map, normal_set

Json = Any
"""What a JSON parser gives."""
Decoder = Callable[[Json], Data]
"""Reads a value that is not null."""

_LONGEST_LITERAL = 512
"""No number, time or address is longer; a limit spares the parsers' regular expressions."""


class _Shape(NamedTuple):
    type: t.Type
    decode: Decoder

    def read(self, body: Json) -> Data:
        return None if body is None else self.decode(body)


def check_beginning(head: bytes) -> None:
    """Refuse what cannot be ZJSON: its first line may be longer than the bytes that detection looks at."""
    head = head.lstrip()
    if len(head) > 1000 and b'"type"' not in head[:1000]:
        raise InvalidInput("line 1: malformed ZJSON: no type at the beginning")


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The values of a ZJSON stream."""
    types = _Types(options)
    for number, line in enumerate(read_lines(source, options, JSON_PARTS), 1):
        try:
            value = _read_line(types, line)
        except InvalidInput as e:
            raise at(f"line {number}", e) from e
        yield value


def _read_line(types: _Types, line: bytes) -> Value:
    if not line.strip():
        # Format detection prints this text; it is that of other tools, word for word.
        raise InvalidInput(
            'malformed ZJSON: bad type object: "": unpacker error parsing JSON: unexpected end of JSON input'
        )
    try:
        body = orjson.loads(line)
    except ValueError as e:
        raise InvalidInput(f"malformed ZJSON: {e}") from None
    if not isinstance(body, dict) or body.keys() != {"type", "value"}:
        raise InvalidInput('malformed ZJSON: expected an object of "type" and "value"')
    shape = types.read(body["type"])
    return Value(shape.type, shape.read(body["value"]))


# ---- types


class _Types:
    """The types that a stream has defined so far."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._parts = 0
        self._by_id: dict[int, _Shape] = {}
        primitives = {typ: _Shape(typ, _primitive_decoder(typ)) for typ in t.PRIMITIVES.values()}
        primitives[t.TYPE] = _Shape(t.TYPE, lambda body: self.read(body).type)
        self._primitives = {typ.name: shape for typ, shape in primitives.items()}

    def read(self, body: Json, depth: int = 0) -> _Shape:
        """The type that a JSON object describes or refers to."""
        if depth > t.MAX_DEPTH:
            raise InvalidInput(f"type nests deeper than {t.MAX_DEPTH} levels")
        if not isinstance(body, dict):
            raise InvalidInput(f"expected a type, an object with a kind, got {_show(body)}")
        kind = body.get("kind")
        if kind == "primitive":
            return self._primitive(body)
        if kind == "ref":
            return self._reference(body)
        make = _KINDS.get(kind) if isinstance(kind, str) else None
        if make is None:
            raise InvalidInput(f"expected a kind of type, got {_show(kind)}")
        ident = _type_id(body)
        shape = make(body, partial(self.read, depth=depth + 1))
        self._parts += 1 + len(shape.type.children())
        check_types(self._parts, self._options)
        self._by_id[ident] = shape
        return shape

    def _primitive(self, body: Json) -> _Shape:
        name = _text(body, "name")
        if name not in self._primitives:
            raise InvalidInput(f"expected the name of a primitive type, got {_show(name)}")
        return self._primitives[name]

    def _reference(self, body: Json) -> _Shape:
        ident = _type_id(body)
        if ident not in self._by_id:
            raise InvalidInput(f"type id {ident} is used before its definition")
        return self._by_id[ident]


ReadType = Callable[[Json], _Shape]


def _record(body: Json, read_type: ReadType) -> _Shape:
    fields = [] if "fields" in body and body["fields"] is None else _items(body, "fields")
    for field in fields:
        if not isinstance(field, dict):
            raise InvalidInput(f"expected a field, an object of name and type, got {_show(field)}")
    shapes = [(_text(f, "name"), read_type(f.get("type"))) for f in fields]
    return _Shape(t.record((name, s.type) for name, s in shapes), partial(_read_record, [s for _, s in shapes]))


def _array(body: Json, read_type: ReadType) -> _Shape:
    elem = read_type(body.get("type"))
    return _Shape(t.array(elem.type), partial(_read_array, elem))


def _set(body: Json, read_type: ReadType) -> _Shape:
    elem = read_type(body.get("type"))
    return _Shape(t.set_of(elem.type), lambda body: normal_set(elem.type, _read_array(elem, body)))


def _map(body: Json, read_type: ReadType) -> _Shape:
    key = read_type(body.get("key_type"))
    value = read_type(body.get("val_type"))
    return _Shape(t.map_of(key.type, value.type), partial(_read_map, key, value))


def _union(body: Json, read_type: ReadType) -> _Shape:
    members = [read_type(m) for m in _items(body, "types")]
    typ = t.union(m.type for m in members)
    return _Shape(typ, partial(_read_union, [(typ.tags[m.type], m) for m in members]))


def _enum(body: Json, read_type: ReadType) -> _Shape:
    symbols = _items(body, "symbols")
    if not all(isinstance(s, str) for s in symbols):
        raise InvalidInput("expected the symbols of an enum to be strings")
    return _Shape(t.enum(symbols), partial(_read_index, len(symbols), "the position of an enum's symbol"))


def _error(body: Json, read_type: ReadType) -> _Shape:
    inner = read_type(body.get("type"))
    return _Shape(t.error(inner.type), inner.decode)


def _named(body: Json, read_type: ReadType) -> _Shape:
    inner = read_type(body.get("type"))
    typ = t.named(_text(body, "name"), inner.type)
    return _Shape(typ, _primitive_decoder(typ) if isinstance(typ, t.Primitive) else inner.decode)


_KINDS: dict[str, Callable[[Json, ReadType], _Shape]] = {
    "record": _record,
    "array": _array,
    "set": _set,
    "map": _map,
    "union": _union,
    "enum": _enum,
    "error": _error,
    "named": _named,
}


def _type_id(body: Json) -> int:
    ident = body.get("id")
    if type(ident) is not int or ident < t.FIRST_COMPLEX_ID:
        raise InvalidInput(f"expected a type id, an integer from {t.FIRST_COMPLEX_ID} up, got {_show(ident)}")
    return ident


def _text(body: Json, key: str) -> str:
    text = body.get(key)
    if not isinstance(text, str):
        raise InvalidInput(f"expected a string as {key!r} of a type, got {_show(text)}")
    return text


def _items(body: Json, key: str) -> list[Json]:
    items = body.get(key)
    if not isinstance(items, list):
        raise InvalidInput(f"expected an array as {key!r} of a type, got {_show(items)}")
    return items


def _show(body: Json) -> str:
    """A piece of JSON for an error message, short."""
    if isinstance(body, (dict, list)):
        return "an object" if isinstance(body, dict) else "an array"
    text = "null" if body is None else repr(body)
    return text if len(text) < 60 else text[:57] + "..."


# ---- values


def _read_list(body: Json, what: str) -> list[Json]:
    if not isinstance(body, list):
        raise InvalidInput(f"expected a JSON array for {what}, got {_show(body)}")
    return body


def _read_record(fields: list[_Shape], body: Json) -> Data:
    items = _read_list(body, "a record")
    if len(items) != len(fields):
        raise InvalidInput(f"expected {len(fields)} values for a record, got {len(items)}")
    return tuple([f.read(item) for f, item in zip(fields, items, strict=True)])


def _read_array(elem: _Shape, body: Json) -> Data:
    return tuple([elem.read(item) for item in _read_list(body, "an array or set")])


def _read_map(key: _Shape, value: _Shape, body: Json) -> Data:
    pairs = _read_list(body, "a map")
    if not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise InvalidInput("expected pairs of key and value for a map")
    return normal_map(key.type, [(key.read(k), value.read(v)) for k, v in pairs])


def _read_union(members: list[tuple[int, _Shape]], body: Json) -> Data:
    pair = _read_list(body, "a union")
    if len(pair) != 2:
        raise InvalidInput("expected a pair of tag and value for a union")
    tag, shape = members[_read_index(len(members), "the tag of a union", pair[0])]
    data = shape.read(pair[1])
    return None if shape.type is t.NULL else (tag, data)


def _read_index(count: int, what: str, body: Json) -> int:
    if not isinstance(body, str) or not _DIGITS.fullmatch(body) or int(body) >= count:
        raise InvalidInput(f"expected {what}, a string of a number below {count}, got {_show(body)}")
    return int(body)


# ---- primitives

_DIGITS = re.compile(r"[0-9]{1,18}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


def _read_int(typ: t.Primitive, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise InvalidInput("not a decimal number")
    low, high = t.INT_RANGES[typ]
    if not low <= (n := int(text)) <= high:
        raise InvalidInput("out of range")
    return n


def _read_float(size: int, text: str) -> float:
    value = round_float(parse_float(text), size)
    if math.isinf(value) and "Inf" not in text:
        raise InvalidInput("out of range")
    return value


def _read_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidInput("neither true nor false")
    return text == "true"


def _read_bytes(body: Json) -> bytes:
    try:
        if not isinstance(body, str) or not body.startswith("0x"):
            raise ValueError
        return binascii.unhexlify(body[2:])
    except ValueError:
        raise InvalidInput(f"expected a string of 0x and hexadecimal digits, got {_show(body)}") from None


def _read_string(body: Json) -> str:
    if not isinstance(body, str):
        raise InvalidInput(f"expected a JSON string for a string, got {_show(body)}")
    return body


def _read_null(body: Json) -> Data:
    raise InvalidInput(f"expected null for a value of type null, got {_show(body)}")


def _read_literal(name: str, parse: Callable[[str], Data], body: Json) -> Data:
    if not isinstance(body, str) or len(body) > _LONGEST_LITERAL:
        raise InvalidInput(f"expected a string of type {name}, got {_show(body)}")
    try:
        return parse(body)
    except InvalidInput as e:
        raise InvalidInput(f"expected a string of type {name}, got {_show(body)} ({e})") from None


_PARSERS: dict[t.Primitive, Callable[[str], Data]] = {
    **{typ: partial(_read_int, typ) for typ in (*t.UNSIGNED, *t.SIGNED) if isinstance(typ, t.Primitive)},
    t.FLOAT16: partial(_read_float, 2),
    t.FLOAT32: partial(_read_float, 4),
    t.FLOAT64: partial(_read_float, 8),
    t.DURATION: parse_duration,
    t.TIME: parse_time,
    t.DATE: parse_date,
    t.BOOL: _read_bool,
    t.IP: parse_ip,
    t.NET: parse_net,
}


def _primitive_decoder(typ: t.Primitive) -> Decoder:
    if isinstance(typ, t.Decimal):
        return partial(_read_literal, typ.name, partial(parse_exactly, typ=typ))
    if typ in _PARSERS:
        return partial(_read_literal, typ.name, _PARSERS[typ])
    return {t.STRING: _read_string, t.BYTES: _read_bytes}.get(typ, _read_null)
