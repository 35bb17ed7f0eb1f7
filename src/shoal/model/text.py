"""The canonical text of types and values: ZSON, on one line or indented.

A decorator is printed only where a reader could not work the type out: `1` is an int64,
`1(uint8)` needs one. A named type is defined at its first use in a value, `80(port=uint16)`,
and referred to after that, `81(port)`; `persist` keeps definitions across values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shoal.model import types as t
from shoal.model.decimals import format_decimal
from shoal.model.literals import (
    format_date,
    format_duration,
    format_float,
    format_ip,
    format_net,
    format_time,
    quote,
    quote_name,
    quote_type_name,
)
from shoal.model.values import Value
from shoal.model.zcode import Data

_PRIMITIVES: dict[t.Type, Callable[[Data], str]] = {
    **dict.fromkeys((*t.UNSIGNED, *t.SIGNED), str),
    t.FLOAT16: lambda v: format_float(v, 2),
    t.FLOAT32: lambda v: format_float(v, 4),
    t.FLOAT64: format_float,
    t.DURATION: format_duration,
    t.TIME: format_time,
    t.DATE: format_date,
    t.BOOL: lambda v: "true" if v else "false",
    t.BYTES: lambda v: "0x" + v.hex(),
    t.STRING: quote,
    t.IP: format_ip,
    t.NET: format_net,
    t.TYPE: lambda v: f"<{format_type(v)}>",
    t.NULL: lambda v: "null",
}


def format_primitive(typ: t.Type, data: Data) -> str:
    """The literal of a primitive value, without any decorator."""
    if data is None:
        return "null"
    return format_decimal(data) if isinstance(typ, t.Decimal) else _PRIMITIVES[typ](data)


def format_value(value: Value) -> str:
    """A value on one line, complete by itself."""
    return Formatter().format(value)


def brief(value: Value, limit: int = 200) -> str:
    """A value for an error message: on one line, and cut if it is long."""
    text = format_value(value)
    return text if len(text) <= limit else f"{text[:limit]}..."


_TEXT: t.MemoKey[str] = t.MemoKey("text")


def format_type(typ: t.Type) -> str:
    """A type on one line, complete by itself."""
    text = typ.memo.get(_TEXT)
    if text is None:
        text = typ.memo[_TEXT] = _type_text(typ, {})
    return text


def _type_text(typ: t.Type, defs: dict[str, t.Named]) -> str:
    """The text of a type, given the names already defined to its left."""

    def text(child: t.Type) -> str:
        return _type_text(child, defs)

    match typ:
        case t.Primitive():
            return typ.name
        case t.Named():
            name = quote_type_name(typ.name)
            if defs.get(typ.name) is typ:
                return name
            inner = text(typ.inner)
            defs[typ.name] = typ  # after its parts: bindings follow the depth-first order
            return f"{name}={inner}"
        case t.Record():
            return "{" + ",".join(f"{quote_name(f.name)}:{text(f.type)}" for f in typ.fields) + "}"
        case t.Array():
            return f"[{text(typ.elem)}]"
        case t.Set():
            return f"|[{text(typ.elem)}]|"
        case t.Map():
            key = text(typ.key)
            return f"|{{{key}:{text(typ.value)}}}|"
        case t.Union():
            return "(" + ",".join(text(m) for m in typ.types) + ")"
        case t.Enum():
            return "enum(" + ",".join(quote_name(s) for s in typ.symbols) + ")"
        case t.Error():
            return f"error({text(typ.inner)})"
        case _:
            raise AssertionError(typ)


_IMPLIED = frozenset((
    t.INT64, t.FLOAT64, t.DURATION, t.TIME, t.DATE, t.BOOL, t.BYTES, t.STRING, t.IP, t.NET, t.TYPE, t.NULL,
))  # fmt: skip


_IS_IMPLIED: t.MemoKey[bool] = t.MemoKey("is implied")


def is_implied(typ: t.Type) -> bool:
    """Whether a value of this type shows its type without any decorator."""
    answer = typ.memo.get(_IS_IMPLIED)
    if answer is None:
        answer = typ.memo[_IS_IMPLIED] = _is_implied(typ)
    return answer


def _is_implied(typ: t.Type) -> bool:
    match typ:
        case t.Primitive():
            return typ in _IMPLIED
        case t.Record() | t.Array() | t.Set() | t.Map() | t.Error():
            return all(is_implied(c) for c in typ.children())
        case _:
            return False


def is_self_describing(typ: t.Type) -> bool:
    """Whether a value shows all of its type but its outer name, in the decorators of its parts."""
    inner = typ.inner if isinstance(typ, t.Named) else typ
    return is_implied(inner) or isinstance(inner, (t.Record, t.Array, t.Set, t.Map))


class Formatter:
    """Writes values as ZSON. `indent` of 0 keeps a value on one line."""

    def __init__(self, indent: int = 0, persist: Callable[[str], bool] | None = None) -> None:
        self._tab = indent
        self._newline = "\n" if indent else ""
        self._colon = ": " if indent else ":"
        self._persist = persist
        self._persistent: dict[str, t.Named] = {}
        self._names: dict[str, t.Named] = {}
        self._out: list[str] = []

    def format(self, value: Value) -> str:
        """The text of one value."""
        self._out = []
        self._names = dict(self._persistent)
        typ, data = value.type, value.data
        empty = self._value(0, typ, data, self._is_known(typ), is_implied(typ), False)
        self._decorate(typ, False, data is None or (empty and not _shows_empty(typ)))
        return "".join(self._out)

    # A value inside a decorated one is "known": its type was given above it.

    def _value(self, pad: int, typ: t.Type, data: Data, known: bool, implied: bool, decorate: bool) -> bool:
        """Print `data`; say whether it was empty, so that its type does not show."""
        if data is None:
            self._out.append("null")
            if decorate:
                self._decorate(typ, known and not implied, True)
            return False
        inside = known or self._is_known(typ)
        empty = False
        match typ:
            case t.Primitive():
                self._out.append(format_primitive(typ, data) if typ is not t.TYPE else self._type_value(pad, data))
            case t.Named():
                empty = self._value(pad, typ.inner, data, inside, implied, False)
            case t.Record():
                self._record(pad, typ, data, inside, implied)
            case t.Array():
                empty = self._sequence(pad, typ, "[", "]", data, inside, implied)
            case t.Set():
                empty = self._sequence(pad, typ, "|[", "]|", data, inside, implied)
            case t.Map():
                empty = self._map(pad, typ, data, inside, implied)
            case t.Union():
                tag, inner = data
                self._value(pad, typ.types[tag], inner, False, True, True)
            case t.Enum():
                self._out.append("%" + quote_name(typ.symbols[data]))
            case t.Error():
                self._out.append("error(")
                empty = self._value(pad, typ.inner, data, inside, implied, False)
                self._out.append(")")
        if decorate:
            self._decorate(typ, known, empty)
        return empty

    def _record(self, pad: int, typ: t.Record, data: Data, known: bool, implied: bool) -> None:
        out = self._out
        if not typ.fields:
            out.append("{}")
            return
        margin = self._newline + " " * (pad + self._tab)
        lead = "{" + margin
        for field, item in zip(typ.fields, data, strict=True):
            out.append(f"{lead}{quote_name(field.name)}{self._colon}")
            self._value(pad + self._tab, field.type, item, known, implied, True)
            lead = "," + margin
        out.append(f"{self._newline}{' ' * pad}}}")

    def _sequence(
        self, pad: int, typ: t.Array | t.Set, opening: str, closing: str, data: Data, known: bool, implied: bool
    ) -> bool:
        if not data:
            self._out.append(opening + closing)
            return True
        margin = self._newline + " " * (pad + self._tab)
        lead = opening + margin
        elements = _Elements(typ.elem)
        for item in data:
            self._out.append(lead)
            elem, inner = elements.see(item)
            self._value(pad + self._tab, elem, inner, known, implied, True)
            lead = "," + margin
        self._out.append(f"{self._newline}{' ' * pad}{closing}")
        if elements.hide_their_type() and not known:
            self._decorate(typ, False, True)
        return False

    def _map(self, pad: int, typ: t.Map, data: Data, known: bool, implied: bool) -> bool:
        margin = self._newline + " " * (pad + self._tab)
        keys, values = _Elements(typ.key), _Elements(typ.value)
        lead = "|{" + margin
        for key, value in data:
            self._out.append(lead)
            elem, inner = keys.see(key)
            self._value(pad + self._tab, elem, inner, known, implied, True)
            gap = " " if _starts_like_a_key(elem, inner) else ""
            elem, inner = values.see(value)
            self._out.append(gap + (": " if _starts_like_a_key(elem, inner) else self._colon))
            self._value(pad + self._tab, elem, inner, known, implied, True)
            lead = "," + margin
        self._out.append(f"{self._newline}{' ' * pad}}}|" if data else "|{}|")
        if data and not known and (keys.hide_their_type() or values.hide_their_type()):
            self._decorate(typ, False, True)
        return not data

    def _decorate(self, typ: t.Type, known: bool, hidden: bool) -> None:
        """Print what a reader needs to know of the type of the value just printed."""
        if known or (is_implied(typ) and (not hidden or typ is t.NULL)):
            return
        gap = " " if self._tab else ""
        if isinstance(typ, t.Named) and self._names.get(typ.name) is typ:
            self._out.append(f"{gap}({quote_type_name(typ.name)})")
        elif is_self_describing(typ) and not hidden:
            if isinstance(typ, t.Named):
                self._define(typ)
                self._out.append(f"{gap}(={quote_type_name(typ.name)})")
        else:
            self._out.append(f"{gap}({self._type_text(typ)})")

    def _type_text(self, typ: t.Type) -> str:
        before = dict(self._names)
        text = _type_text(typ, self._names)
        for name, named in self._names.items():
            if before.get(name) is not named:
                self._define(named)
        return text

    def _is_known(self, typ: t.Type) -> bool:
        return isinstance(typ, t.Named) and self._names.get(typ.name) is typ

    def _define(self, typ: t.Named) -> None:
        self._names[typ.name] = typ
        if self._persist is not None and self._persist(typ.name):
            self._persistent[typ.name] = typ

    def _type_value(self, pad: int, typ: t.Type) -> str:
        """A type value; indented, its records and unions take a line for each part. Its names hold from there on."""
        text = self._pretty_type(pad, typ, {}) if self._tab else format_type(typ)
        for named in _names_in(typ):
            self._names[named.name] = named
            if named.name in self._persistent:
                self._persistent[named.name] = named
        return f"<{text}>"

    def _pretty_type(self, pad: int, typ: t.Type, defs: dict[str, t.Named]) -> str:
        deeper = pad + self._tab
        margin, end = "\n" + " " * deeper, "\n" + " " * pad
        match typ:
            case t.Record() if typ.fields:
                fields = (f"{quote_name(f.name)}: {self._pretty_type(deeper, f.type, defs)}" for f in typ.fields)
                return "{" + margin + f",{margin}".join(fields) + end + "}"
            case t.Union():
                return (
                    "(" + margin + f",{margin}".join(self._pretty_type(deeper, m, defs) for m in typ.types) + end + ")"
                )
            case t.Array() | t.Set():
                opening, closing = ("[", "]") if isinstance(typ, t.Array) else ("|[", "]|")
                if isinstance(typ.elem, t.Primitive):
                    return opening + typ.elem.name + closing
                return opening + margin + self._pretty_type(deeper, typ.elem, defs) + end + closing
            case t.Map():
                if isinstance(typ.key, t.Primitive) and isinstance(typ.value, t.Primitive):
                    return f"|{{{typ.key.name}: {typ.value.name}}}|"
                key = self._pretty_type(deeper, typ.key, defs)
                return f"|{{{margin}{key}: {self._pretty_type(deeper, typ.value, defs)}{end}}}|"
            case t.Error():
                return f"error({self._pretty_type(pad, typ.inner, defs)})"
            case t.Named() if defs.get(typ.name) is not typ:
                inner = self._pretty_type(pad, typ.inner, defs)
                defs[typ.name] = typ
                return f"{quote_type_name(typ.name)}={inner}"
            case _:
                return _type_text(typ, defs)


def _names_in(typ: t.Type) -> Iterator[t.Named]:
    """The named types in a type, in the order in which a reader meets them."""
    for child in typ.children():
        yield from _names_in(child)
    if isinstance(typ, t.Named):
        yield typ


def _shows_empty(typ: t.Type) -> bool:
    """Whether an empty container shows its type by itself, since its elements have none."""
    if isinstance(typ, t.Error | t.Named):
        return _shows_empty(typ.inner)
    return all(c is t.NULL for c in typ.children())


def _starts_like_a_key(typ: t.Type, data: Data) -> bool:
    """An IPv6 address or net: a colon beside it would read as part of it."""
    return data is not None and ((typ.under is t.IP and len(data) == 16) or (typ.under is t.NET and len(data) == 32))


class _Elements:
    """Prints the elements of a container of unions bare, and knows if that hides the union."""

    def __init__(self, typ: t.Type) -> None:
        self._type = typ
        self._union = typ.under if isinstance(typ.under, t.Union) else None
        self._seen: set[int] = set()

    def see(self, data: Data) -> tuple[t.Type, Data]:
        """The type and data to print for one element."""
        if self._union is None:
            return self._type, data
        if data is None:
            return t.NULL, None
        self._seen.add(data[0])
        return self._union.types[data[0]], data[1]

    def hide_their_type(self) -> bool:
        """Whether the union has members that no element shows, or a name."""
        if self._union is None:
            return False
        count = len(self._union.types)
        return isinstance(self._type, t.Named) or len(self._seen) < count or count == 1
