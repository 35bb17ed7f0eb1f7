"""Literals, types and patterns: the parts of a program that have no expressions inside."""

from __future__ import annotations

import re

from shoal.lang import ast
from shoal.lang.scanner import IDENTIFIER_REST, IP4, IP6, KEYWORD_CHARS, Scanner, memoized
from shoal.lazy import lazy_pattern

_PRIMITIVES = (
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "bool", "string", "duration", "time", "bytes", "ip", "net", "type", "null",
)  # fmt: skip
_LITERALS = tuple(
    (name, lazy_pattern(pattern))
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
_DECIMAL = lazy_pattern(r"decimal\s*\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_REGEXP = lazy_pattern(rf"/((?:[^/\\]|\\.)+)/(?!{KEYWORD_CHARS}|\\)", re.DOTALL)
_GLOB_CHARS = lazy_pattern(rf"(?:{KEYWORD_CHARS}|\d|\*)")
_GLOB_START = lazy_pattern(rf"(?:{KEYWORD_CHARS}|\\)|\*+(?:{KEYWORD_CHARS}|\\|\d)")
_GLOB_STAR = lazy_pattern(rf"(?:{KEYWORD_CHARS}|\d|\\.)*+\*", re.DOTALL)
_KEYWORD_CHARS = lazy_pattern(rf"(?:{KEYWORD_CHARS})")
_WORD_CHARS = lazy_pattern(rf"(?:{KEYWORD_CHARS}|\d)")
_KEYWORD_ESCAPES = "=*+-"


class Literals:
    """Types, literals of primitive types, and the patterns and words of searches."""

    def __init__(self, scan: Scanner) -> None:
        self.scan = scan

    def literal(self) -> ast.Primitive | ast.TypeValue | None:
        """Any literal but an f-string."""
        scan = self.scan
        start = scan.pos
        if (typ := self.type_value()) is not None:
            return typ
        if (text := scan.quoted()) is not None:
            return ast.Primitive("string", text, span=(start, scan.pos))
        for name, pattern in _LITERALS:
            match = pattern.match(scan.text, scan.pos)
            if match:
                scan.pos = match.end()
                return ast.Primitive(name, match[0], span=(start, scan.pos))
        scan.miss()
        return None

    def type_value(self) -> ast.TypeValue | None:
        """`<type>`."""
        scan = self.scan
        start = scan.pos
        if scan.mark("<"):
            typ = self.type()
            if typ is not None and scan.mark(">"):
                return ast.TypeValue(typ, span=(start, scan.pos))
        scan.pos = start
        return None

    @memoized
    def type(self) -> ast.Type | None:
        """A type."""
        scan = self.scan
        start = scan.pos
        primitive = scan.word(*_PRIMITIVES)
        if primitive:
            return ast.TypePrimitive(primitive, span=(start, scan.pos))
        for parse in (
            self._error_type, self._enum_type, self._decimal_type, self._named_type, self._union_type,
            self._record_type, self._array_type, self._set_type, self._map_type,
        ):  # fmt: skip
            typ = parse()
            if typ is not None:
                return typ
            scan.pos = start
        return None

    def _error_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        if scan.word("error") and scan.spaced("("):
            inner = self.type()
            if inner is not None and scan.closed(")"):
                return ast.TypeOfError(inner, span=(start, scan.pos))
        return None

    def _enum_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        if not (scan.word("enum") and scan.spaced("(")):
            return None
        symbols: list[str] = []
        while (symbol := scan.field_name()) is not None:
            symbols.append(symbol)
            if not scan.spaced(","):
                break
        if scan.closed(")"):
            return ast.TypeEnum(tuple(symbols), span=(start, scan.pos))
        return None

    def _decimal_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        match = _DECIMAL.match(scan.text, scan.pos)
        if match is None:
            return None
        scan.pos = match.end()
        return ast.TypePrimitive(f"decimal({match[1]},{match[2]})", span=(start, scan.pos))

    def _named_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        name = scan.field_name()
        if name is None:
            return None
        while scan.at(".") and (more := self._dotted()) is not None:
            name = f"{name}.{more}"
        end = scan.pos
        if scan.spaced("="):
            inner = self.type()
            if inner is not None:
                return ast.TypeDef(name, inner, span=(start, scan.pos))
        scan.pos = end
        return ast.TypeName(name, span=(start, end))

    def _dotted(self) -> str | None:
        """What follows a dot in a type name, as in `ksuid.KSUID`."""
        scan = self.scan
        start = scan.pos
        scan.pos += 1
        name = scan.identifier()
        if name is None:
            scan.pos = start
        return name

    def _union_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        if not scan.mark("("):
            return None
        scan.space()
        types: list[ast.Type] = []
        while (typ := self.type()) is not None:
            types.append(typ)
            if not scan.spaced(","):
                break
        if types and scan.closed(")"):
            return ast.TypeUnion(tuple(types), span=(start, scan.pos))
        return None

    def _record_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        if not scan.mark("{"):
            return None
        scan.space()
        fields: list[ast.TypeField] = []
        while (field := self._type_field()) is not None:
            fields.append(field)
            if not scan.spaced(","):
                break
        if scan.closed("}"):
            return ast.TypeRecord(tuple(fields), span=(start, scan.pos))
        return None

    def _type_field(self) -> ast.TypeField | None:
        scan = self.scan
        start = scan.pos
        name = scan.field_name()
        if name is not None and scan.spaced(":"):
            typ = self.type()
            if typ is not None:
                return ast.TypeField(name, typ, span=(start, scan.pos))
        scan.pos = start
        return None

    def _array_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        elem = self._between("[", "]")
        return None if elem is None else ast.TypeArray(elem, span=(start, scan.pos))

    def _set_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        elem = self._between("|[", "]|")
        return None if elem is None else ast.TypeSet(elem, span=(start, scan.pos))

    def _between(self, opening: str, closing: str) -> ast.Type | None:
        scan = self.scan
        if scan.mark(opening):
            scan.space()
            elem = self.type()
            if elem is not None and scan.closed(closing):
                return elem
        return None

    def _map_type(self) -> ast.Type | None:
        scan = self.scan
        start = scan.pos
        if not scan.mark("|{"):
            return None
        scan.space()
        key = self.type()
        if key is not None and scan.spaced(":"):
            value = self.type()
            if value is not None and scan.closed("}|"):
                return ast.TypeMap(key, value, span=(start, scan.pos))
        return None

    def regexp(self) -> ast.Regexp | None:
        """`/pattern/`."""
        scan = self.scan
        start = scan.pos
        match = _REGEXP.match(scan.text, start)
        if match is None:
            scan.miss()
            return None
        scan.pos = match.end()
        return ast.Regexp(match[1], span=(start, scan.pos))

    def glob(self) -> ast.Glob | None:
        """A search word with at least one star in it."""
        scan = self.scan
        start = scan.pos
        if not (_GLOB_START.match(scan.text, start) and _GLOB_STAR.match(scan.text, start)):
            scan.miss()
            return None
        pattern = self._characters_of(_GLOB_CHARS, star="\\*")
        if "*" not in pattern.replace("\\*", ""):
            scan.pos = start
            return None
        return ast.Glob(pattern, span=(start, scan.pos))

    def search_word(self) -> str | None:
        """A bare word to search for."""
        scan = self.scan
        start = scan.pos
        if not (_KEYWORD_CHARS.match(scan.text, start) or scan.at("\\")):
            scan.miss()
            return None
        word = self._characters_of(_WORD_CHARS, star="*")
        return word or None

    def _characters_of(self, allowed: re.Pattern[str], star: str) -> str:
        """Characters of a word, with its own escapes: `\\=`, `\\*`, `\\+`, `\\-`."""
        scan = self.scan
        out: list[str] = []
        while scan.pos < len(scan.text):
            if allowed.match(scan.text, scan.pos):
                out.append(scan.text[scan.pos])
                scan.pos += 1
            elif scan.at("\\") and scan.text[scan.pos + 1 : scan.pos + 2] in tuple(_KEYWORD_ESCAPES):
                out.append(star if scan.text[scan.pos + 1] == "*" else scan.text[scan.pos + 1])
                scan.pos += 2
            else:
                escaped = scan.escape() if scan.at("\\") else None
                if escaped is None:
                    break
                out.append(escaped)
        return "".join(out)
