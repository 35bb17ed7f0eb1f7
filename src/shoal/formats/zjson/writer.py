"""ZJSON: one JSON object a line. Type ids are local to the stream, and a type nests where it is first used.

A line is `{"type":<type>,"value":<value>}`. A complex type gets its id after its parts, so the
outermost type of a line has the highest one; later lines, and type values, say only the id.
All primitives but null are JSON strings, since a JSON number cannot hold a uint64.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from shoal.formats.streams import Sink, WriteOptions
from shoal.model import types as t
from shoal.model.text import format_primitive
from shoal.model.values import Value
from shoal.model.zcode import Data

Json = Any
"""What a JSON encoder takes: dicts, lists, strings, ints and None."""
Encoder = Callable[[Data], Json]


class Writer:
    """Writes values as lines of ZJSON."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out
        self._ids: dict[t.Type, int] = {}
        self._encoders: dict[t.Type, Encoder] = {}

    def write(self, value: Value) -> None:
        """Add a line."""
        typ = self._type(value.type)  # before the value: type values in it take later ids
        self._out.write(_dump({"type": typ, "value": self._value(value.type, value.data)}) + b"\n")

    def close(self) -> None:
        """Nothing is buffered."""

    def _type(self, typ: t.Type) -> Json:
        """A type as JSON: spelled out the first time, its id after that."""
        if isinstance(typ, t.Primitive) and t.wire_name(typ) is None:
            return {"kind": "primitive", "name": typ.name}
        if typ in self._ids:
            return {"kind": "ref", "id": self._ids[typ]}
        parts = self._parts(typ)
        self._ids[typ] = ident = t.FIRST_COMPLEX_ID + len(self._ids)
        kind = "named" if isinstance(typ, t.Primitive) else typ.kind
        return {"kind": kind, "id": ident, **parts}

    def _parts(self, typ: t.Type) -> dict[str, Json]:
        match typ:
            case t.Record():
                return {"fields": [{"name": f.name, "type": self._type(f.type)} for f in typ.fields]}
            case t.Array() | t.Set():
                return {"type": self._type(typ.elem)}
            case t.Map():
                return {"key_type": self._type(typ.key), "val_type": self._type(typ.value)}
            case t.Union():
                return {"types": [self._type(m) for m in typ.types]}
            case t.Enum():
                return {"symbols": list(typ.symbols)}
            case t.Error():
                return {"type": self._type(typ.inner)}
            case t.Named():
                return {"name": typ.name, "type": self._type(typ.inner)}
            case t.Primitive():
                return {"name": t.wire_name(typ), "type": self._type(t.STRING)}
            case _:
                raise AssertionError(typ)

    def _value(self, typ: t.Type, data: Data) -> Json:
        return None if data is None else self._encoder(typ)(data)

    def _encoder(self, typ: t.Type) -> Encoder:
        encoder = self._encoders.get(typ)
        if encoder is None:
            encoder = self._encoders[typ] = self._make_encoder(typ.under)
        return encoder

    def _make_encoder(self, typ: t.Type) -> Encoder:
        value = self._value
        match typ:
            case t.Record():
                kinds = typ.children()
                return lambda data: [value(k, d) for k, d in zip(kinds, data, strict=True)]
            case t.Array() | t.Set():
                elem = typ.elem
                return lambda data: [value(elem, d) for d in data]
            case t.Map():
                key, val = typ.key, typ.value
                return lambda data: [[value(key, k), value(val, v)] for k, v in data]
            case t.Union():
                members = typ.types
                return lambda data: [str(data[0]), value(members[data[0]], data[1])]
            case t.Enum():
                return str
            case t.Error():
                return self._encoder(typ.inner)
            case t.Primitive() if typ is t.STRING:
                return str
            case t.Primitive() if typ is t.TYPE:
                return self._type
            case _:
                return partial(format_primitive, typ)


def _dump(line: Json) -> bytes:
    """Compact JSON. orjson stops at 254 levels, which a type of 128 levels exceeds in JSON."""
    try:
        return orjson.dumps(line)
    except orjson.JSONEncodeError:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()
