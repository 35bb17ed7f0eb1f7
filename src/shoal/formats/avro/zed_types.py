"""Properties by which a schema says what Avro has no word for. Readers that do not know them see plain Avro.

    {"type":"int","zed_type":"uint8"}                          a number, or the text of an ip, a net or a type
    {"type":"array","items":"long","zed_type":"set"}           and "map", of records of a key and a value
    {"type":"record","fields":[...],"zed_type":"error"}        a record of one field stands for what it holds:
                                                               an "error", a "union" or another "value"
    {"type":"long","zed_name":"port"}                          a type with a name
    {"name":"a_b","zed_name":"a b","type":...}                 a field whose name Avro does not allow
    {"type":"enum","symbols":["a_b"],"zed_symbols":["a b"]}    symbols likewise

Like logical types, properties that make no sense are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.errors import InvalidInput
from shoal.formats.avro.logical_types import Logical
from shoal.formats.avro.logical_types import of as logical_type
from shoal.model import types as t
from shoal.model.literals import format_ip, format_net, parse_ip, parse_net, round_float
from shoal.model.parse import parse_type
from shoal.model.text import format_type
from shoal.model.zcode import Data

TYPE, NAME, SYMBOLS = "zed_type", "zed_name", "zed_symbols"
SET, MAP = "set", "map"
ERROR, UNION, VALUE = "error", "union", "value"
WRAPPERS = (ERROR, UNION, VALUE)
"""What a record of one field may stand for."""


def of(base: str, schema: Any) -> Logical | None:
    """The type that a property of a primitive schema names."""
    make = _PRIMITIVES.get((base, schema.get(TYPE)))
    return None if make is None else make(schema)


def field_name(field: Any) -> str:
    """The name of a field of a record."""
    name = field.get(NAME)
    return name if isinstance(name, str) else str(field["name"])


def symbols(schema: Any) -> list[str]:
    """The symbols of an enum."""
    names = schema.get(SYMBOLS)
    plain: list[str] = schema["symbols"]
    if not isinstance(names, list) or len(names) != len(plain) or not all(isinstance(name, str) for name in names):
        return plain
    return names if len(set(names)) == len(names) else plain


def named(typ: t.Type, schema: Any) -> t.Type:
    """A type with the name that a schema gives it."""
    name = schema.get(NAME)
    if not isinstance(name, str) or name in t.PRIMITIVES:
        return typ
    candidate = t.named(name, typ)
    return candidate if isinstance(candidate, t.Named) else typ  # some names stand for types of other data


# ---- primitive types


def _integer(typ: t.Primitive) -> Callable[[Any], Logical]:
    least, most = t.INT_RANGES[typ]

    def convert(number: int) -> Data:
        if not least <= number <= most:
            raise InvalidInput(f"{number} is not of type {typ.name}")
        return number

    return lambda schema: Logical(typ, convert, _same)


def _same(data: Data) -> Any:
    return data


def _float16(schema: Any) -> Logical:
    def convert(number: float) -> Data:
        if number == number and round_float(number, 2) != number:
            raise InvalidInput(f"{number} is not of type float16")
        return number

    return Logical(t.FLOAT16, convert, _same)


def _uint64(schema: Any) -> Logical | None:
    """A decimal without digits after the point."""
    decimal = logical_type("bytes", schema)
    if decimal is None or decimal.type is not t.decimal(20, 0):
        return None
    most = t.INT_RANGES[t.UINT64][1]

    def convert(data: bytes) -> Data:
        number = int.from_bytes(data, "big", signed=True)
        if not 0 <= number <= most:
            raise InvalidInput(f"{number} is not of type uint64")
        return number

    return Logical(t.UINT64, convert, lambda number: number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))


def _text(typ: t.Type, parse: Callable[[str], Data], show: Callable[[Data], str]) -> Callable[[Any], Logical]:
    return lambda schema: Logical(typ, parse, show)


_PRIMITIVES: dict[tuple[str, Any], Callable[[Any], Logical | None]] = {
    **{("int", typ.name): _integer(typ) for typ in (t.INT8, t.INT16, t.UINT8, t.UINT16)},
    **{("long", typ.name): _integer(typ) for typ in (t.UINT32, t.DURATION)},
    ("float", "float16"): _float16,
    ("bytes", "uint64"): _uint64,
    ("string", "ip"): _text(t.IP, parse_ip, format_ip),
    ("string", "net"): _text(t.NET, parse_net, format_net),
    ("string", "type"): _text(t.TYPE, parse_type, format_type),
}
"""By the type of Avro and the property."""
