"""Cells of zeek logs, from text and to text. Tables and plain text show most values the same way.

Escapes stand for bytes, not characters: `\\xc3\\xb1` is one ñ, and bytes that are no UTF-8 stay
in the string as they were written, `\\x82`.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable
from enum import Enum

from shoal.errors import InvalidInput
from shoal.formats.go_floats import parse_go_float
from shoal.model import types as t
from shoal.model.fields import id_text, is_id
from shoal.model.literals import (
    SECOND,
    format_time,
    parse_ip,
    parse_net,
    positional,
    shortest_digits,
)
from shoal.model.text import format_primitive, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data

PORT = t.named("port", t.UINT16)
ZENUM = t.named("zenum", t.STRING)
UNSET = "-"
EMPTY = "(empty)"


# ---- from text

_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_SECONDS = re.compile(r"([+-]?)([0-9]{1,10})(?:\.([0-9]*))?")
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|([\\bfnrtv]))")
_ESCAPED = {b"\\": b"\\", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def unescape(text: str) -> str:
    """The string that a cell stands for. Bytes that were no UTF-8 come as surrogates."""
    if "\\" not in text and text.isascii():
        return text
    raw = _ESCAPE.sub(_escaped_bytes, text.encode(errors="surrogateescape"))
    return raw.decode(errors="backslashreplace")


def _escaped_bytes(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode()) if match[1] else _ESCAPED[match[2]]


def _parse_integer(typ: t.Primitive, text: str) -> int:
    low, high = t.INT_RANGES[typ]
    if not _INTEGER.fullmatch(text) or not low <= (number := int(text)) <= high:
        raise InvalidInput(f"invalid {typ.name}: {text!r}")
    return number


def _parse_seconds(text: str) -> int:
    """Nanoseconds of a decimal number of seconds; what is finer is cut off."""
    match = _SECONDS.fullmatch(text)
    if not match:
        raise InvalidInput(f"invalid number of seconds: {text!r}")
    sign, whole, fraction = match.groups()
    ns = int(whole) * SECOND + int((fraction or "")[:9].ljust(9, "0"))
    ns = -ns if sign == "-" else ns
    if not -(2**63) <= ns < 2**63:
        raise InvalidInput(f"number of seconds out of range: {text!r}")
    return ns


def _parse_double(text: str) -> float:
    number = parse_go_float(text)
    if number is None:
        raise InvalidInput(f"invalid double: {text!r}")
    return number


def _parse_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise InvalidInput(f"invalid bool: {text!r}")
    return _BOOLS[text]


def _parse_subnet(text: str) -> bytes:
    """An address without the bits below its mask."""
    net = parse_net(text)
    half = len(net) // 2
    return bytes(a & m for a, m in zip(net[:half], net[half:], strict=True)) + net[half:]


PARSERS: dict[t.Type, Callable[[str], Data]] = {
    t.STRING: unescape,
    t.INT64: lambda text: _parse_integer(t.INT64, text),
    t.UINT64: lambda text: _parse_integer(t.UINT64, text),
    t.UINT16: lambda text: _parse_integer(t.UINT16, text),
    t.FLOAT64: _parse_double,
    t.BOOL: _parse_bool,
    t.TIME: _parse_seconds,
    t.DURATION: _parse_seconds,
    t.IP: parse_ip,
    t.NET: _parse_subnet,
}
"""How a cell of each primitive type of zeek is read."""


# ---- to text


class Style(Enum):
    """What cells are written for: a log that is read again, a table, or lines of text."""

    LOG = "log"
    TABLE = "table"
    LINE = "line"


Text = Callable[[Data], str]
_TEXTS: dict[Style, t.MemoKey[Text]] = {style: t.MemoKey(f"cells of a {style.value}") for style in Style}


def cell_text(typ: t.Type, style: Style) -> Text:
    """How data of a type reads in a cell; nulls too."""
    key = _TEXTS[style]
    text = typ.memo.get(key)
    if text is None:
        text = typ.memo[key] = _or_unset(_plain_text(typ, style), _null_text(typ.under, style))
    return text


def _null_text(typ: t.Type, style: Style) -> str:
    return "" if typ is t.TIME and style is Style.TABLE else UNSET


def _or_unset(text: Text, null: str) -> Text:
    return lambda data: null if data is None else text(data)


def _plain_text(typ: t.Type, style: Style) -> Text:
    return id_text if is_id(typ) else _cell_text(typ.under, style)


def _cell_text(typ: t.Type, style: Style) -> Text:
    match typ:
        case t.Primitive():
            return _primitive_text(typ, style)
        case t.Array() | t.Set() if isinstance(typ.elem.under, (t.Primitive, t.Enum)):
            return _sequence_text(typ.elem, style)
        case t.Union():
            return lambda data: cell_text(typ.types[data[0]], style)(data[1])
        case t.Enum():
            return [escape(symbol) for symbol in typ.symbols].__getitem__
        case t.Error() if typ.inner is t.STRING:
            return lambda data: UNSET if data == "missing" else format_value(Value(typ, data))
        case _:
            return lambda data: format_value(Value(typ, data))


def _primitive_text(typ: t.Primitive, style: Style) -> Text:
    if typ is t.STRING:
        return escape
    if typ is t.BYTES:
        return lambda data: b64encode(data).decode()
    if typ is t.BOOL:
        return lambda data: "T" if data else "F"
    if typ in t.FLOATS:
        size = {t.FLOAT16: 2, t.FLOAT32: 4, t.FLOAT64: 8}[typ]
        return lambda data: format_double(data, size)
    if typ is t.DURATION or (typ is t.TIME and style is Style.LOG):
        return format_seconds
    if typ is t.TIME:
        return format_time
    return lambda data: format_primitive(typ, data)


def _sequence_text(elem: t.Type, style: Style) -> Text:
    plain = _plain_text(elem, style)
    may_hold_commas = elem.under is t.STRING or isinstance(elem.under, t.Enum)
    text = _or_unset((lambda data: plain(data).replace(",", "\\x2c")) if may_hold_commas else plain, UNSET)
    return lambda data: ",".join([text(d) for d in data]) if data else EMPTY


def escape(text: str) -> str:
    """A string as a cell; what could be taken for a null, an empty container or a separator is escaped."""
    if text in (UNSET, EMPTY):
        return _hex_escapes(text[0]) + text[1:]
    if "\\" not in text and text.isprintable():
        return text
    return "".join("\\\\" if c == "\\" else c if c.isprintable() else _hex_escapes(c) for c in text)


def _hex_escapes(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


def format_seconds(ns: int) -> str:
    """Seconds with 6 decimals, or 9 where 6 would lose something."""
    seconds, rest = divmod(abs(ns), SECOND)
    fraction = f"{rest:09d}" if rest % 1000 else f"{rest // 1000:06d}"
    return f"{'-' if ns < 0 else ''}{seconds}.{fraction}"


def format_double(value: float, size: int = 8) -> str:
    """The shortest digits that read back equal, never with an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    return sign + (positional(*shortest_digits(abs(value), size)) if value else "0")
