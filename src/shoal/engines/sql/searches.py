"""Searches in SQL: a text, a value or a pattern, anywhere in a row."""

from __future__ import annotations

import unicodedata

import re2

from shoal.engines.interp.expressions.search import contains_text
from shoal.engines.interp.functions.searching import dotted_names
from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql, both, either
from shoal.engines.sql.comparisons import compare_literal
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Rec
from shoal.lang.regexps import compile_regexp
from shoal.model import types as t
from shoal.model.values import Value


def find_text(node: Node, text: str, wanted: Value) -> Cond:
    """Whether a value, or the text that it was written as, is anywhere in a row."""
    kind = wanted.type.under
    if kind is t.STRING:
        term = unicodedata.normalize("NFC", wanted.data)
        contains = contains_text(term)
        return _anywhere(node, lambda sql: _contains(sql, term), contains, None)
    if kind is t.NET or not isinstance(kind, t.Primitive):
        raise NotColumnar("a search for something else than a plain value")
    return _anywhere(node, lambda sql: _contains(sql, text), None, wanted)


def find_regexp(node: Node, pattern: str) -> Cond:
    """Whether a string or a name of a field anywhere in a row matches."""
    compiled = compile_regexp(pattern)
    _check(pattern)
    return _anywhere(node, lambda sql: _matches(sql, pattern), lambda name: compiled.search(name) is not None, None)


def matches_regexp(node: Node, pattern: str) -> Cond:
    """`e ~ /pattern/`: a null is as good as an empty string."""
    if node.type.under is not t.STRING:
        return False
    if isinstance(node, Const):
        return compile_regexp(pattern).search(node.value.data or "") is not None
    assert isinstance(node, Leaf)
    _check(pattern)
    return _matches(build.or_zero(node.sql, build.text("")), pattern)


def _check(pattern: str) -> None:
    if "\0" in pattern:
        raise NotColumnar("a zero byte in a pattern")


def _matches(sql: Sql, pattern: str) -> Sql:
    return build.call("regexp_matches", sql, build.text(pattern))


def _contains(sql: Sql, term: str) -> Cond:
    """Whether a string contains a term, in upper or lower case, as `is_within` tells.

    Letters that are ASCII in one case only make the first test find too much; the second one, which is the exact one,
    looks at what it found.
    """
    _check(term)
    exact = build.call("regexp_extract", sql, build.text(f"(?i){re2.escape(term)}"))
    found = build.binary("=", build.call("strlen", exact), build.integer(len(term.encode())))
    if not term:
        return build.is_present(sql)
    if not term.isascii():
        return found
    return both(build.call("contains", build.call("lower", sql), build.text(term.lower())), found)


def _anywhere(node: Node, in_string, in_name, wanted: Value | None) -> Cond:  # type: ignore[no-untyped-def]
    match node:
        case Const(value):
            return _known(value, in_string, in_name, wanted)
        case Rec(typ, fields, valid):
            under = typ.under
            assert isinstance(under, t.Record)
            if in_name is not None and any(in_name(name) for name in dotted_names(under)):
                return True
            found = either(*(_anywhere(f, in_string, in_name, wanted) for f in fields))
            return found if valid is None else both(valid, found)
        case Leaf(typ, sql):
            under = typ.under
            if under is t.STRING:
                made: Cond = in_string(sql)
                return made
            if isinstance(under, t.Primitive):
                return False if wanted is None else compare_literal("==", node, wanted)
            if under is t.array(t.STRING) or under is t.set_of(t.STRING):
                raise NotColumnar("a search in a list")
            raise NotColumnar("a search in a container")


def _known(value: Value, in_string, in_name, wanted: Value | None) -> Cond:  # type: ignore[no-untyped-def]
    raise NotColumnar("a search in a constant")
