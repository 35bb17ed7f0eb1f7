"""Text to types and values: ZSON, of which JSON is a part. The inverse of `text`.

A literal gets its natural type (`1` is an int64); decorators after it convert it, so
`[1,2]([uint8])` is read as two int64s and then retyped. What has no natural type, an enum
symbol or an integer beyond int64, must be inside some decorator in the end.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.decorate import BIG, SYMBOL, Container, LongFloat, Typed, is_unfinished, retype, settled, unified
from shoal.model.literals import parse_date, parse_duration, parse_float, parse_ip, parse_net, parse_time
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_map, normal_set

_SKIP = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+\n?|/\*.*?\*/)*+", re.DOTALL)
_STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
"""Possessive, as there is one way to read a string: else each character of a long one is kept to come back to."""
_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$]*")
_TYPE_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$.]*|\d+")
_COUNT = re.compile(r"\d{1,3}")
_END = r"(?=[\s,\])}(|:]|$)"
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})"
    r"|(?P<integer>[+-]?\d+)(?=[\s,\])}(|])"
    r"|(?P<time>\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d))"
    rf"|(?P<date>\d{{4}}-\d\d-\d\d){_END}"
    r"|(?P<net>(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}:(?:[0-9a-fA-F]{0,4}:){1,7}[0-9a-fA-F.]*)/\d+)"
    r"|(?P<ip>\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}:(?:[0-9a-fA-F]{0,4}:){1,7}[0-9a-fA-F.]*)"
    rf"|(?P<duration>-?(?:[.0-9]+(?:ns|us|ms|s|m|h|d|w|y))+){_END}"
    rf"|(?P<bytes>0x[0-9a-fA-F]*){_END}"
    rf"|(?P<real>[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?\d+[eE][+-]?\d+|[+-]?Inf|NaN){_END}"
    rf"|(?P<int>[+-]?\d+){_END}"
    rf"|(?P<word>true|false|null){_END}"
    r"|(?P<raw>`[^`]*`)"
)
_PLAIN = (
    rf"(?:(?P<string>{_STRING})|(?P<integer>-?\d{{1,18}})"
    r"|(?P<real>-?\d{1,7}\.\d{0,8})|(?P<word>true|false|null))"
)
"""Values that are plain whatever decorator may follow what they are in: floats have no more digits than they hold."""
_EXACT_DIGITS = 15
_GAP = r"[ \t\r\n]*"
_PLAIN_FIELD = re.compile(rf'{_GAP}(?:([^\W\d][\w$]*)|"([^"\\\n]*)"){_GAP}:{_GAP}{_PLAIN}{_GAP}[,}}]')
"""A whole field with a plain value, and what follows it: most of any data, in one step."""
_PLAIN_ELEMENT = re.compile(rf"{_GAP}{_PLAIN}{_GAP}[,\]]")
_LONGEST_NUMBER = 400
"""Characters of a number, a time or an address; none that means something is longer."""
_LONG_KINDS = ("string", "raw", "bytes")
_OPEN = ("", '"', "`", "/")
"""What begins something that may be long and hold anything: a string, a raw string, a comment."""
_ENDS = re.compile(r"[\s,\]})]")
"""What ends any other token."""


class NeedMore(Exception):
    """The text ends before the value does; raised only when more of it may come."""


def parse_value(text: str) -> Value:
    """The one value in `text`."""
    parser = Parser(text)
    value = parser.value()
    if value is None:
        raise InvalidInput("expected a value, found nothing")
    if parser.value() is not None:
        raise InvalidInput("expected one value, found several")
    return value


def parse_type(text: str) -> t.Type:
    """The type in `text`, without the angle brackets of a type value."""
    parser = Parser(text)
    typ = parser.type()
    parser.skip()
    if parser.pos != len(text):
        parser.fail("the end of the type")
    return typ


class Parser:
    """Reads values from a text that may be a part of a longer one (see `final`)."""

    def __init__(self, text: str, final: bool = True, names: dict[str, t.Type] | None = None) -> None:
        self.text = text
        self.pos = 0
        self.final = final
        self.names = {} if names is None else names
        self._depth = 0
        self._shadowed: list[tuple[str, t.Type | None]] = []
        self._has_literals = False

    # ---- moving over the text

    def skip(self) -> None:
        """Move past white space and comments."""
        m = _SKIP.match(self.text, self.pos)
        assert m is not None
        self.pos = m.end()
        if self.text.startswith("/*", self.pos) and self.final:
            self.fail("the end of a comment")

    def peek(self) -> str:
        """The next character that counts; "" at the end of a final text."""
        c = self.text[self.pos : self.pos + 1]
        if not c or c in " \t\r\n/":
            self.skip()
            c = self.text[self.pos : self.pos + 1]
            if not self.final and (not c or c == "/"):
                raise NeedMore
        return c

    def accept(self, mark: str) -> bool:
        """Move past `mark` if it comes next."""
        if self.peek() and self.text.startswith(mark, self.pos):
            self.pos += len(mark)
            return True
        if not self.final and len(self.text) - self.pos < len(mark):
            raise NeedMore
        return False

    def expect(self, mark: str, what: str) -> None:
        """Move past `mark` or fail."""
        if not self.accept(mark):
            self.fail(what)

    def fail(self, expected: str) -> NoReturn:
        """Complain about what stands at the current position; not yet, if it may be the beginning of something."""
        if not self.final and self._may_go_on():
            raise NeedMore
        rest = self.text[self.pos : self.pos + 20].split("\n")[0]
        raise ParseError(
            self.pos, f"expected {expected}, found {rest!r}" if rest else f"expected {expected}, found the end"
        )

    def _may_go_on(self) -> bool:
        """Whether the text may end within a token that begins here."""
        if self.text[self.pos : self.pos + 1] in _OPEN:
            return True
        return len(self.text) - self.pos <= _LONGEST_NUMBER and not _ENDS.search(self.text, self.pos + 1)

    # ---- values

    def value(self) -> Value | None:
        """The next value; None at the end of the text."""
        if not self.peek():
            return None
        start = self.pos
        self._depth = 0
        self._shadowed.clear()
        self._has_literals = False
        typ, data = self._value()
        if is_unfinished(typ):
            raise ParseError(start, "enum symbols and integers beyond int64 need a decorator")
        return Value(typ, settled(typ, data) if self._has_literals else data)

    def undo_names(self) -> None:
        """Forget the type names that the value being read has bound, so that it can be read again."""
        while self._shadowed:
            name, before = self._shadowed.pop()
            if before is None:
                del self.names[name]
            else:
                self.names[name] = before

    def _value(self) -> Typed:
        if self._depth >= t.MAX_DEPTH:
            raise ParseError(self.pos, f"value nests deeper than {t.MAX_DEPTH} levels")
        self._depth += 1
        start = self.pos
        typed = self._undecorated()
        while self.peek() == "(":
            self.pos += 1
            typed = self._decorated(typed, start)
        self._depth -= 1
        return typed

    def _decorated(self, typed: Typed, start: int) -> Typed:
        if self.accept("="):
            typ = self._define(self._type_name(), typed[0])
            self.expect(")", "')' after a type name")
            if t.wire_name(typ) is None:
                return typ, typed[1]
            return self._retyped(typed, typ, start)
        typ = self.type()
        self.expect(")", "')' after a decorator")
        return self._retyped(typed, typ, start)

    def _retyped(self, typed: Typed, typ: t.Type, start: int) -> Typed:
        try:
            return typ, retype(typed, typ)
        except InvalidInput as e:
            raise ParseError(start, str(e)) from None

    def _undecorated(self) -> Typed:
        c = self.peek()
        if c == "{":
            return self._record()
        if c == "[":
            self.pos += 1
            items = self._sequence("]")
            elem, data = unified(items)
            return t.array(elem), self._container(tuple(data), items)
        if c == "|":
            return self._set() if self.accept("|[") else self._map()
        if c == "<":
            self.pos += 1
            typ = self.type()
            self.expect(">", "'>' after a type")
            return t.TYPE, typ
        if c == "%":
            self.pos += 1
            return SYMBOL, self._name("an enum symbol")
        if c == "e" and self.text.startswith("error", self.pos):
            self.pos += len("error")
            self.expect("(", "'(' after error")
            inner = self._value()
            self.expect(")", "')' after an error's value")
            return t.error(inner[0]), inner[1]
        return self._literal()

    def _literal(self) -> Typed:
        m = _TOKEN.match(self.text, self.pos)
        if m is None:
            self.fail("a value")
        kind, text = m.lastgroup or "", m.group()
        if len(text) > _LONGEST_NUMBER and kind not in _LONG_KINDS:
            raise ParseError(self.pos, f"literal longer than {_LONGEST_NUMBER} characters")
        if m.end() == len(self.text) and not self.final:
            raise NeedMore
        try:
            typed: Typed = _LITERALS[kind](text)
        except (InvalidInput, ValueError) as e:
            raise ParseError(self.pos, str(e)) from None
        self._has_literals = self._has_literals or type(typed[1]) is LongFloat
        self.pos = m.end()
        return typed

    def _record(self) -> Typed:
        self.pos += 1
        names: list[str] = []
        items: list[Typed] = []
        start = self.pos
        while True:
            if m := _PLAIN_FIELD.match(self.text, self.pos):
                self.pos = m.end()
                names.append(m[1] if m[1] is not None else m[2])
                items.append(_plain_literal(m))
                if m[0][-1] == "}":
                    break
                continue
            if self.accept("}"):
                break
            names.append(self._name("a field name"))
            self.expect(":", "':' after a field name")
            items.append(self._value())
            if not self.accept(","):
                self.expect("}", "',' or '}' in a record")
                break
        if len(set(names)) != len(names):
            raise ParseError(start, f"duplicate field {next(n for i, n in enumerate(names) if n in names[:i])!r}")
        return t.record_of(tuple(names), tuple([i[0] for i in items])), tuple([i[1] for i in items])

    def _sequence(self, closing: str) -> list[Typed]:
        items: list[Typed] = []
        while True:
            if closing == "]" and (m := _PLAIN_ELEMENT.match(self.text, self.pos)):
                self.pos = m.end()
                items.append(_plain_literal(m))
                if m[0][-1] == "]":
                    break
                continue
            if self.accept(closing):
                break
            items.append(self._value())
            if not self.accept(","):
                self.expect(closing, f"',' or '{closing}'")
                break
        return items

    def _set(self) -> Typed:
        items = self._sequence("]|")
        elem, data = unified(items)
        elements = normal_set(elem, data) if not is_unfinished(elem) else tuple(data)
        return t.set_of(elem), self._container(elements, items)

    def _map(self) -> Typed:
        self.expect("|{", "a value")
        keys: list[Typed] = []
        values: list[Typed] = []
        while not self.accept("}|"):
            keys.append(self._value())
            self.expect(":", "':' after a map key")
            values.append(self._value())
            if not self.accept(","):
                self.expect("}|", "',' or '}|' in a map")
                break
        key, key_data = unified(keys)
        value, value_data = unified(values)
        pairs = zip(key_data, value_data, strict=True)
        entries = normal_map(key, pairs) if not is_unfinished(key) else tuple(pairs)
        return t.map_of(key, value), self._container(entries, keys, values)

    def _container(self, data: tuple[Data, ...], *items: list[Typed]) -> tuple[Data, ...]:
        """Data of a container that remembers the types its items had, should a decorator ask."""
        if all(len({typ for typ, _ in part}) < 2 for part in items):
            return data
        self._has_literals = True
        return Container(data, items)

    def _name(self, what: str) -> str:
        if self.peek() == '"':
            return str(self._literal()[1])
        m = _NAME.match(self.text, self.pos)
        if m is None:
            self.fail(what)
        if m.end() == len(self.text) and not self.final:
            raise NeedMore
        self.pos = m.end()
        return m.group()

    # ---- types

    def type(self) -> t.Type:
        """The next type."""
        if self._depth >= t.MAX_DEPTH:
            raise ParseError(self.pos, f"type nests deeper than {t.MAX_DEPTH} levels")
        self._depth += 1
        try:
            return self._type()
        except InvalidInput as e:
            raise e if isinstance(e, ParseError) else ParseError(self.pos, str(e)) from None
        finally:
            self._depth -= 1

    def _type(self) -> t.Type:
        c = self.peek()
        if c == "{":
            return self._record_type()
        if self.accept("["):
            elem = self.type()
            self.expect("]", "']' after an element type")
            return t.array(elem)
        if self.accept("|["):
            elem = self.type()
            self.expect("]|", "']|' after an element type")
            return t.set_of(elem)
        if self.accept("|{"):
            key = self.type()
            self.expect(":", "':' after a key type")
            value = self.type()
            self.expect("}|", "'}|' after a value type")
            return t.map_of(key, value)
        if self.accept("("):
            members = [self.type()]
            while self.accept(","):
                members.append(self.type())
            self.expect(")", "',' or ')' in a union type")
            return t.union(members)
        return self._word_type()

    def _record_type(self) -> t.Type:
        self.pos += 1
        fields: list[tuple[str, t.Type]] = []
        while not self.accept("}"):
            name = self._name("a field name")
            self.expect(":", "':' after a field name")
            fields.append((name, self.type()))
            if not self.accept(","):
                self.expect("}", "',' or '}' in a record type")
                break
        return t.record(fields)

    def _word_type(self) -> t.Type:
        start = self.pos
        quoted = self.peek() == '"'
        name = self._type_name()
        if name == "enum" and not quoted and self.accept("("):
            symbols = [self._name("an enum symbol")] if self.peek() != ")" else []
            while self.accept(","):
                symbols.append(self._name("an enum symbol"))
            self.expect(")", "',' or ')' in an enum type")
            return t.enum(symbols)
        if name == "error" and not quoted and self.accept("("):
            inner = self.type()
            self.expect(")", "')' after an error's type")
            return t.error(inner)
        if self.accept("="):
            return self._define(name, self.type())
        if name == "decimal" and not quoted and self.accept("("):
            precision = self._digits()
            self.expect(",", "',' after the digits of a decimal type")
            scale = self._digits()
            self.expect(")", "')' after a decimal type")
            return t.decimal(precision, scale)
        if not quoted and name in t.PRIMITIVES:
            return t.PRIMITIVES[name]
        if name not in self.names:
            if name == t.DATE.name and not quoted:
                return t.DATE
            raise ParseError(start, f"no such type name: {name!r}")
        return self.names[name]

    def _digits(self) -> int:
        self.peek()
        m = _COUNT.match(self.text, self.pos)
        if m is None:
            self.fail("a number of digits")
        if m.end() == len(self.text) and not self.final:
            raise NeedMore
        self.pos = m.end()
        return int(m.group())

    def _type_name(self) -> str:
        if self.peek() == '"':
            return str(self._literal()[1])
        m = _TYPE_NAME.match(self.text, self.pos)
        if m is None:
            self.fail("a type")
        if m.end() == len(self.text) and not self.final:
            raise NeedMore
        self.pos = m.end()
        return m.group()

    def _define(self, name: str, typ: t.Type) -> t.Type:
        """Bind a name from here on. A number is a mere shorthand and leaves no trace in the type."""
        if not name.isdigit():
            try:
                typ = t.named(name, typ)
            except InvalidInput as e:
                raise ParseError(self.pos, str(e)) from None
        self._shadowed.append((name, self.names.get(name)))
        self.names[name] = typ
        return typ


class ParseError(InvalidInput):
    """Text that is not valid ZSON; `position` counts characters from the start of the text."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what)
        self.position = position


# ---- literals

_UNICODE_ESCAPE = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}")


def _string(text: str) -> Typed:
    if "\\" not in text:
        return t.STRING, text[1:-1]
    text = _UNICODE_ESCAPE.sub(lambda m: json.dumps(chr(int(m[1], 16)))[1:-1], text)
    string = json.loads(text, strict=False)
    return t.STRING, string.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _integer(text: str) -> Typed:
    n = int(text)
    return (t.INT64 if -(2**63) <= n < 2**63 else BIG), n


def _real(text: str) -> Typed:
    number = parse_float(text)
    return t.FLOAT64, number if len(text) <= _EXACT_DIGITS else LongFloat(text, number)


def _bytes(text: str) -> Typed:
    if len(text) % 2:
        raise InvalidInput("bytes need an even number of hexadecimal digits")
    return t.BYTES, bytes.fromhex(text[2:])


_LITERALS: dict[str, Any] = {
    "string": _string,
    "integer": _integer,
    "int": _integer,
    "real": _real,
    "time": lambda s: (t.TIME, parse_time(s)),
    "date": lambda s: (t.DATE, parse_date(s)),
    "net": lambda s: (t.NET, parse_net(s)),
    "ip": lambda s: (t.IP, parse_ip(s)),
    "duration": lambda s: (t.DURATION, parse_duration(s)),
    "bytes": _bytes,
    "word": lambda s: (t.NULL, None) if s == "null" else (t.BOOL, s == "true"),
    "raw": lambda s: (t.STRING, s[1:-1]),
}


def _plain_literal(m: re.Match[str]) -> Typed:
    kind = m.lastgroup or ""
    literal: Typed = _LITERALS[kind](m[kind])
    return literal
