"""Search through a whole value: its strings, the names of its fields, its other values.

For each type it is worked out once where strings can be, so that the rest is never looked at.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TypeAlias

from shoal.engines.interp.environment import Cache, Env, Eval
from shoal.engines.interp.expressions.compare import Test, is_comparable, literal_test
from shoal.engines.interp.functions.searching import dotted_names, is_within
from shoal.lang.regexps import compile_regexp
from shoal.model import types as t
from shoal.model.values import FALSE, TRUE, Value, is_error
from shoal.model.zcode import Data

TextTest: TypeAlias = Callable[[str], bool]


def search(expr: Eval, text: str, value: Value) -> Eval:
    """A search for a value, or for the text that it was written as."""
    return searcher(expr, finder_of(text, value))


def finder_of(text: str, value: Value) -> Finder:
    """Finds a value, or the text that it was written as."""
    kind = value.type.under
    if kind is t.STRING:
        term = unicodedata.normalize("NFC", value.data)
        contains = contains_text(term)
        return Finder(contains, contains, term=term)
    if kind is t.NET:
        return Finder(None, None, network_test(value.data))
    return Finder(contains_text(text), None, value_test(value), text)


def regexp_search(expr: Eval, pattern: str) -> Eval:
    """A search for strings and field names that match."""
    return searcher(expr, regexp_finder(pattern))


def regexp_finder(pattern: str) -> Finder:
    """Finds strings and field names that match."""
    compiled = compile_regexp(pattern)

    def matches(text: str) -> bool:
        return compiled.search(text) is not None

    return Finder(matches, matches)


def regexp_match(expr: Eval, pattern: str) -> Eval:
    """`e ~ /pattern/`."""
    compiled = compile_regexp(pattern)

    def test(this: Value, env: Env) -> Value:
        value = expr(this, env)
        if value.type.under is not t.STRING:
            return FALSE
        return TRUE if compiled.search(value.data or "") else FALSE

    return test


def searcher(expr: Eval, finder: Finder) -> Eval:
    """Whether the finder finds what it looks for in the value of an expression."""

    def test(this: Value, env: Env) -> Value:
        value = expr(this, env)
        matches = finder.test_of(value.type)
        if matches is None or is_error(value):
            return FALSE
        return TRUE if matches(value.data) else FALSE

    return test


def contains_text(term: str) -> TextTest:
    """Whether a text contains another, in upper or lower case."""
    if not term.isascii():
        return lambda text: is_within(term, text)
    folded = term.lower()

    def test(text: str) -> bool:
        return folded in text.lower() if text.isascii() else is_within(term, text)

    return test


def value_test(value: Value) -> Callable[[t.Type], Test | None]:
    """How data of a type is compared with a value."""
    if not is_comparable(value, "=="):
        return lambda typ: lambda data: Value(typ, data) == value
    return lambda typ: literal_test("==", value, typ)


def network_test(net: bytes) -> Callable[[t.Type], Test | None]:
    """A network is found as itself, and in every address that belongs to it."""
    half = len(net) // 2
    address, mask = net[:half], net[half:]

    def is_inside(data: Data) -> bool:
        return (
            data is not None
            and len(data) == half
            and all(a & m == b for a, m, b in zip(data, mask, address, strict=True))
        )

    def test_for(typ: t.Type) -> Test | None:
        if typ is t.NET:
            return lambda data: data == net
        return is_inside if typ is t.IP else None

    return test_for


class Finder:
    """Tests of strings, field names and other values, put together for each type that comes along."""

    def __init__(
        self,
        in_string: TextTest | None,
        in_name: TextTest | None,
        other: Callable[[t.Type], Test | None] | None = None,
        term: str | None = None,
    ) -> None:
        self.term = term
        """What strings have to contain, in upper or lower case, if that is what they are tested for."""
        self._in_string = in_string
        self._in_name = in_name
        self._other = other
        self._tests: Cache[t.Type, Test | None] = Cache()

    def test_of(self, typ: t.Type) -> Test | None:
        """The test for data of a type; None if nothing can be found in it."""
        if typ not in self._tests:
            return self._tests.keep(typ, self._make(typ))
        return self._tests[typ]

    def is_in_names(self, typ: t.Record) -> bool:
        """Whether the name of a field is found, so that every value of a type is."""
        return self._in_name is not None and any(self._in_name(name) for name in dotted_names(typ))

    def _make(self, typ: t.Type) -> Test | None:
        under = typ.under
        match under:
            case t.Primitive() | t.Enum():
                return self._leaf(under)
            case t.Record():
                return self._record(under)
            case t.Array() | t.Set():
                return self._each(self.test_of(under.elem))
            case t.Map():
                return self._map(self.test_of(under.key), self.test_of(under.value))
            case t.Union():
                return self._union([self.test_of(member) for member in under.types])
            case t.Error():
                return self.test_of(under.inner)
        return None

    def _leaf(self, typ: t.Type) -> Test | None:
        if typ is t.STRING:
            in_string = self._in_string
            if in_string is None:
                return None
            return lambda data: data is not None and in_string(data)
        return None if self._other is None else self._other(typ)

    def _record(self, typ: t.Record) -> Test | None:
        if self.is_in_names(typ):
            return lambda data: True
        tests = [(i, test) for i, f in enumerate(typ.fields) if (test := self.test_of(f.type)) is not None]
        if not tests:
            return None

        def test_record(data: Data) -> bool:
            if data is None:
                return False
            for i, test in tests:  # noqa: SIM110 - a generator would cost more than the test
                if test(data[i]):
                    return True
            return False

        return test_record

    def _each(self, test: Test | None) -> Test | None:
        if test is None:
            return None

        def test_each(data: Data) -> bool:
            return any(map(test, data or ()))

        return test_each

    def _map(self, key: Test | None, value: Test | None) -> Test | None:
        if key is None and value is None:
            return None
        return lambda data: any((key is not None and key(k)) or (value is not None and value(v)) for k, v in data or ())

    def _union(self, tests: list[Test | None]) -> Test | None:
        if not any(tests):
            return None

        def test_union(data: Data) -> bool:
            if data is None:
                return False
            test = tests[data[0]]
            return test is not None and test(data[1])

        return test_union
