"""Searches in SQL: a text, a value or a pattern, anywhere in a row."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import re2
from sqlglot import exp

from shoal.engines.interp.engine import evaluate
from shoal.engines.interp.expressions.search import contains_text
from shoal.engines.interp.functions.searching import dotted_names
from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql, both, either
from shoal.engines.sql.comparisons import compare_literal
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Rec
from shoal.formats.columns.layouts import physical_names
from shoal.lang import plan
from shoal.lang.regexps import compile_regexp
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value


@frozen
class Find:
    """What is looked for, and how it is found."""

    in_string: Callable[[Sql], Cond]
    in_name: Callable[[str], bool] | None
    in_value: Callable[[Value], bool]
    """In a value that is known."""
    literal: Value | None = None
    """What other values than strings are compared with."""


def find_text(node: Node, text: str, literal: Value) -> Cond:
    """Whether a value, or the text that it was written as, is anywhere in a row."""
    kind = literal.type.under

    def in_value(value: Value) -> bool:
        return bool(evaluate(plan.Search(text, literal, plan.Literal(value))).data)

    if kind is t.STRING:
        term = unicodedata.normalize("NFC", literal.data)
        return _anywhere(node, Find(lambda sql: _contains(sql, term), contains_text(term), in_value))
    if kind in (t.NET, t.NULL) or not isinstance(kind, t.Primitive):
        raise NotColumnar("a search for something else than a plain value")
    return _anywhere(node, Find(lambda sql: _contains(sql, text), None, in_value, literal))


def find_regexp(node: Node, pattern: str) -> Cond:
    """Whether a string or a name of a field anywhere in a row matches."""
    compiled = compile_regexp(pattern)
    _check(pattern)

    def in_value(value: Value) -> bool:
        return bool(evaluate(plan.RegexpSearch(pattern, plan.Literal(value))).data)

    in_name = lambda name: compiled.search(name) is not None  # noqa: E731
    return _anywhere(node, Find(lambda sql: _matches(sql, pattern), in_name, in_value))


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


_DOUBTFUL = frozenset("iks")
"""ASCII letters that other letters become in lower case: İ, the sign of Kelvin, the long s."""


def _contains(sql: Sql, term: str) -> Cond:
    """Whether a string contains a term, in upper or lower case, as `is_within` does.

    `ILIKE`, which is fast, compares in lower case, and so finds too much where other letters become those of the term;
    the exact test looks at what it found.
    """
    _check(term)
    exact = build.call("regexp_extract", sql, build.text(f"(?i){re2.escape(term)}"))
    is_equal = build.binary("=", build.call("strlen", exact), build.integer(len(term.encode())))
    if not term:
        return build.is_present(sql)
    if not term.isascii():
        return is_equal
    lower = term.lower()
    if set(lower) & set("%_\\"):
        return both(build.call("contains", build.call("lower", sql), build.text(lower)), is_equal)
    like = exp.ILike(this=exp.paren(sql, copy=False), expression=build.text(f"%{lower}%"))
    return both(like, is_equal) if set(lower) & _DOUBTFUL else like


def _anywhere(node: Node, find: Find) -> Cond:
    match node:
        case Const(value):
            return find.in_value(_out_of_errors(value))
        case Rec(typ, fields, valid):
            under = typ.under
            assert isinstance(under, t.Record)
            if find.in_name is not None and any(find.in_name(name) for name in dotted_names(under)):
                return True
            condition = either(*(_anywhere(f, find) for f in fields))
            # What is in a record that is null is null, too, and nothing is found in it.
            return condition if valid is None or not isinstance(condition, bool) else both(valid, condition)
        case Leaf():
            return _in_leaf(node, find)


def _out_of_errors(value: Value) -> Value:
    """A part of a row is searched even if it is an error; only a row that is one itself is not."""
    while isinstance(under := value.type.under, t.Error):
        value = Value(under.inner, value.data)
    return value


def _in_leaf(node: Leaf, find: Find, depth: int = 0) -> Cond:
    """Whether something is found in one column: in its strings, or anywhere inside of its parts."""
    under = node.type.under
    match under:
        case t.Primitive():
            if under is t.STRING:
                return find.in_string(node.sql)
            return False if find.literal is None else compare_literal("==", node, find.literal)
        case t.Error():
            return _in_leaf(Leaf(under.inner, node.sql), find, depth)
        case t.Record():
            if find.in_name is not None and any(find.in_name(name) for name in dotted_names(under)):
                return True
            parts = zip(under.fields, physical_names(under), strict=True)
            return either(*(_in_leaf(Leaf(f.type, build.part(node.sql, name)), find, depth) for f, name in parts))
        case t.Union():
            return either(*(_in_member(node.sql, i, typ, find, depth) for i, typ in enumerate(under.types)))
        case t.Array() | t.Set():
            element = build.column(f"e{depth}")
            return _in_some(node.sql, _in_leaf(Leaf(under.elem, element), find, depth + 1), depth)
        case t.Map():
            entry = build.column(f"e{depth}")
            key = _in_leaf(Leaf(under.key, build.part(entry, "key")), find, depth + 1)
            item = _in_leaf(Leaf(under.value, build.part(entry, "value")), find, depth + 1)
            return _in_some(node.sql, either(key, item), depth)
    raise NotColumnar("a search in an enum")


def _in_member(sql: Sql, tag: int, typ: t.Type, find: Find, depth: int) -> Cond:
    is_tag = build.binary("=", build.part(sql, "tag"), build.integer(tag))
    return both(is_tag, _in_leaf(Leaf(typ, build.part(sql, str(tag))), find, depth))


def _in_some(sql: Sql, condition: Cond, depth: int) -> Cond:
    """Whether a condition holds for some element of a list."""
    if condition is False:
        return False
    each = exp.Lambda(this=build.known(condition), expressions=[exp.to_identifier(f"e{depth}")])
    return build.binary(">", build.call("len", build.call("list_filter", sql, each)), build.integer(0))
