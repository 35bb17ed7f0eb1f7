"""Types and literals in programs."""

from __future__ import annotations

import re

from shoal.lang import ast
from shoal.lang.scanner import IDENTIFIER_REST, IP4, IP6, Scanner, memoized

_PRIMITIVES = (
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "bool", "string", "duration", "time", "bytes", "ip", "net", "type", "null",
)  # fmt: skip
_LITERALS = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("net", rf"{IP6}/\d+(?!{IDENTIFIER_REST})|{IP4}/\d+"),
        ("ip", rf"{IP6}(?!{IDENTIFIER_REST})|{IP4}"),
        ("bytes", r"0x[0-9a-fA-F]*"),
        ("duration", r"-?(?:\d++(?:\.\d++)?+(?:ns|us|ms|s|m|h|d|w|y))+"),
        ("time", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"),
        ("float64", rf"-?\d+\.\d*(?:[eE][+-]?\d+)?|-?\.\d+(?:[eE][+-]?\d+)?|(?:NaN|[-+]?Inf)(?!{IDENTIFIER_REST})"),
        ("int64", r"-?\d+"),
        ("bool", rf"(?:true|false)(?!{IDENTIFIER_REST})"),
        ("null", rf"null(?!{IDENTIFIER_REST})"),
    )
)


class TypeParser(Scanner):
    """Types, and literals of primitive types."""

    def literal(self) -> ast.Primitive | ast.TypeValue | None:
        """Any literal but an f-string."""
        start = self.pos
        if (typ := self.type_value()) is not None:
            return typ
        if (text := self.quoted()) is not None:
            return ast.Primitive("string", text, span=(start, self.pos))
        for name, pattern in _LITERALS:
            found = pattern.match(self.text, self.pos)
            if found:
                self.pos = found.end()
                return ast.Primitive(name, found[0], span=(start, self.pos))
        self.miss()
        return None

    def type_value(self) -> ast.TypeValue | None:
        """`<type>`."""
        start = self.pos
        if self.mark("<"):
            typ = self.type()
            if typ is not None and self.mark(">"):
                return ast.TypeValue(typ, span=(start, self.pos))
        self.pos = start
        return None

    @memoized
    def type(self) -> ast.Type | None:
        """A type."""
        start = self.pos
        primitive = self.word(*_PRIMITIVES)
        if primitive:
            return ast.TypePrimitive(primitive, span=(start, self.pos))
        for parse in (
            self._error_type, self._enum_type, self._named_type, self._union_type, self._record_type,
            self._array_type, self._set_type, self._map_type,
        ):  # fmt: skip
            typ = parse()
            if typ is not None:
                return typ
            self.pos = start
        return None

    def _error_type(self) -> ast.Type | None:
        start = self.pos
        if self.word("error") and self.spaced("("):
            inner = self.type()
            if inner is not None and self._closed(")"):
                return ast.TypeOfError(inner, span=(start, self.pos))
        return None

    def _enum_type(self) -> ast.Type | None:
        start = self.pos
        if not (self.word("enum") and self.spaced("(")):
            return None
        symbols: list[str] = []
        while (symbol := self.field_name()) is not None:
            symbols.append(symbol)
            if not self.spaced(","):
                break
        if self._closed(")"):
            return ast.TypeEnum(tuple(symbols), span=(start, self.pos))
        return None

    def _named_type(self) -> ast.Type | None:
        start = self.pos
        name = self.field_name()
        if name is None:
            return None
        while self.at(".") and (more := self._dotted()) is not None:
            name = f"{name}.{more}"
        end = self.pos
        if self.spaced("="):
            inner = self.type()
            if inner is not None:
                return ast.TypeDef(name, inner, span=(start, self.pos))
        self.pos = end
        return ast.TypeName(name, span=(start, end))

    def _dotted(self) -> str | None:
        """What follows a dot in a type name, as in `ksuid.KSUID`."""
        start = self.pos
        self.pos += 1
        name = self.identifier()
        if name is None:
            self.pos = start
        return name

    def _union_type(self) -> ast.Type | None:
        start = self.pos
        if not self.mark("("):
            return None
        self.space()
        types: list[ast.Type] = []
        while (typ := self.type()) is not None:
            types.append(typ)
            if not self.spaced(","):
                break
        if types and self._closed(")"):
            return ast.TypeUnion(tuple(types), span=(start, self.pos))
        return None

    def _record_type(self) -> ast.Type | None:
        start = self.pos
        if not self.mark("{"):
            return None
        self.space()
        fields: list[ast.TypeField] = []
        while (field := self._type_field()) is not None:
            fields.append(field)
            if not self.spaced(","):
                break
        if self._closed("}"):
            return ast.TypeRecord(tuple(fields), span=(start, self.pos))
        return None

    def _type_field(self) -> ast.TypeField | None:
        start = self.pos
        name = self.field_name()
        if name is not None and self.spaced(":"):
            typ = self.type()
            if typ is not None:
                return ast.TypeField(name, typ, span=(start, self.pos))
        self.pos = start
        return None

    def _array_type(self) -> ast.Type | None:
        start = self.pos
        elem = self._between("[", "]")
        return None if elem is None else ast.TypeArray(elem, span=(start, self.pos))

    def _set_type(self) -> ast.Type | None:
        start = self.pos
        elem = self._between("|[", "]|")
        return None if elem is None else ast.TypeSet(elem, span=(start, self.pos))

    def _between(self, opening: str, closing: str) -> ast.Type | None:
        if self.mark(opening):
            self.space()
            elem = self.type()
            if elem is not None and self._closed(closing):
                return elem
        return None

    def _map_type(self) -> ast.Type | None:
        start = self.pos
        if not self.mark("|{"):
            return None
        self.space()
        key = self.type()
        if key is not None and self.spaced(":"):
            value = self.type()
            if value is not None and self._closed("}|"):
                return ast.TypeMap(key, value, span=(start, self.pos))
        return None

    def _closed(self, closing: str) -> bool:
        self.space()
        return self.mark(closing)

    def field_name(self) -> str | None:
        """The name of a field: an identifier or a string."""
        name = self.identifier()
        return self.quoted() if name is None else name
