"""Values as JSON text. What JSON has no word for is written in a fixed way: see `_ENCODERS`.

ip, net, time, duration, type, bytes   strings of their ZSON text
ksuid.KSUID                            the text of the id
enum                                   its symbol
map                                    an object, keys as text
union                                  its inner value
error                                  {"error": value}
NaN, infinities                        null
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shoal.formats.colors import paint_json
from shoal.formats.streams import Sink, WriteOptions
from shoal.model import types as t
from shoal.model.decimals import format_decimal
from shoal.model.fields import id_text, is_id
from shoal.model.literals import format_ip, format_net, positional, scientific, shortest_digits
from shoal.model.text import format_primitive, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data

Encoder = Callable[[Data], str]
_quote = json.encoder.encode_basestring


class Writer:
    """Writes each value as one line of JSON, or indented."""

    def __init__(self, out: Sink, options: WriteOptions = WriteOptions()) -> None:
        self._out = out
        self._indent = options.pretty or 0
        self._paint = paint_json if options.color else None

    def write(self, value: Value) -> None:
        """Write a value and a line end."""
        text = to_json(value)
        if self._indent:
            text = indent_json(text, self._indent)
        if self._paint is not None:
            text = self._paint(text)
        self._out.write(text.encode() + b"\n")

    def close(self) -> None:
        """Nothing is buffered."""


def to_json(value: Value) -> str:
    """A value as compact JSON."""
    return _encode(value.type, value.data)


def indent_json(text: str, indent: int) -> str:
    """Compact JSON, indented."""
    # Numbers are kept as texts: a detour over floats could change them.
    node = json.loads(text, parse_float=_Verbatim, parse_int=_Verbatim)
    return _pretty(node, indent, "\n")


class _Verbatim(str):
    """A number as it was written."""


def _pretty(node: Any, indent: int, margin: str) -> str:
    if isinstance(node, _Verbatim):
        return node
    deeper = margin + " " * indent
    if isinstance(node, dict) and node:
        parts = (f"{_quote(k)}: {_pretty(v, indent, deeper)}" for k, v in node.items())
        return "{" + deeper + f",{deeper}".join(parts) + margin + "}"
    if isinstance(node, list) and node:
        return "[" + deeper + f",{deeper}".join(_pretty(v, indent, deeper) for v in node) + margin + "]"
    return json.dumps(node, ensure_ascii=False)


_ENCODER: t.MemoKey[Encoder] = t.MemoKey("JSON")


def _encode(typ: t.Type, data: Data) -> str:
    if data is None:
        return "null"
    encoder = typ.memo.get(_ENCODER)
    if encoder is None:
        encoder = typ.memo[_ENCODER] = _encode_id if is_id(typ) else _encoder(typ.under)
    return encoder(data)


def _encode_id(data: bytes) -> str:
    return f'"{id_text(data)}"'


def _encoder(typ: t.Type) -> Encoder:
    match typ:
        case t.Primitive():
            return _primitive_encoder(typ)
        case t.Record():
            parts = [(_quote(f.name) + ":", f.type) for f in typ.fields]
            return lambda data: (
                "{" + ",".join([name + _encode(kind, d) for (name, kind), d in zip(parts, data, strict=True)]) + "}"
            )
        case t.Array() | t.Set():
            elem = typ.elem
            return lambda data: "[" + ",".join([_encode(elem, d) for d in data]) + "]"
        case t.Map():
            key, value = typ.key, typ.value
            return lambda data: "{" + ",".join([f"{_key(key, k)}:{_encode(value, v)}" for k, v in data]) + "}"
        case t.Union():
            members = typ.types
            return lambda data: _encode(members[data[0]], data[1])
        case t.Enum():
            symbols = [_quote(s) for s in typ.symbols]
            return lambda data: symbols[data]
        case t.Error():
            inner = typ.inner
            return lambda data: f'{{"error":{_encode(inner, data)}}}'
        case _:
            raise AssertionError(typ)


def _key(typ: t.Type, data: Data) -> str:
    """A map key: a string as it is, an id as its text, anything else as its ZSON text."""
    if data is not None and is_id(typ):
        return _encode_id(data)
    value = Value(typ, data).under()
    return _quote(value.data if value.type is t.STRING and value.data is not None else format_value(value))


def _primitive_encoder(typ: t.Primitive) -> Encoder:
    if typ is t.STRING:
        return _quote
    if typ in t.UNSIGNED or typ in t.SIGNED:
        return str
    if isinstance(typ, t.Decimal):
        return format_decimal
    if typ in t.FLOATS:
        size = {t.FLOAT16: 2, t.FLOAT32: 4, t.FLOAT64: 8}[typ]
        return lambda data: float_to_json(data, size)
    if typ is t.BOOL:
        return lambda data: "true" if data else "false"
    if typ is t.IP:
        return lambda data: f'"{format_ip(data)}"'
    if typ is t.NET:
        return lambda data: f'"{format_net(data)}"'
    return lambda data: _quote(format_primitive(typ, data))


def float_to_json(value: float, size: int = 8) -> str:
    """The shortest number that reads back equal; without a point if it is whole."""
    if value - value != 0:
        return "null"
    if value == 0:
        return "0" if str(value)[0] != "-" else "-0"
    sign = "-" if value < 0 else ""
    digits, exponent = shortest_digits(abs(value), size)
    if -7 < exponent < 21:
        return sign + positional(digits, exponent)
    text = scientific(digits, exponent)
    # One digit of exponent where one is enough, as JSON is usually written.
    return sign + (text[:-2] + text[-1] if text[-2] == "0" and text[-3] == "-" else text)


class LineWriter(Writer):
    """Writes NDJSON: one line a value, whatever the indentation asked for."""

    def __init__(self, out: Sink, options: WriteOptions = WriteOptions()) -> None:
        super().__init__(out, replace(options, pretty=0))
