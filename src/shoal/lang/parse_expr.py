"""Expressions, from the loosest operator to the tightest."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from shoal.lang import ast
from shoal.lang.parse_types import TypeParser
from shoal.lang.scanner import KEYWORD_CHARS, memoized

MAX_CHAIN = 1000
"""How many operands one chain of equal operators may have; `and` and `or` are not limited."""

_REGEXP = re.compile(rf"/((?:[^/\\]|\\.)+)/(?!{KEYWORD_CHARS}|\\)", re.DOTALL)
_GLOB_CHARS = re.compile(rf"(?:{KEYWORD_CHARS}|\d|\*)")
_GLOB_START = re.compile(rf"(?:{KEYWORD_CHARS}|\\)|\*+(?:{KEYWORD_CHARS}|\\|\d)")
_GLOB_STAR = re.compile(rf"(?:{KEYWORD_CHARS}|\d|\\.)*+\*", re.DOTALL)
_KEYWORD_CHARS = re.compile(rf"(?:{KEYWORD_CHARS})")
_KEYWORD_ESCAPES = "=*+-"

T = TypeVar("T")


class ExpressionParser(TypeParser):
    """Expressions."""

    @abstractmethod
    def sequence(self) -> ast.Seq | None:
        """The operators of a subquery."""

    # ---- operators, loosest first

    @memoized
    def expr(self) -> ast.Expr | None:
        """Any expression."""
        start = self.pos
        cond = self.logical_or()
        if cond is None:
            return None
        end = self.pos
        if self.spaced("?"):
            then = self._chosen()
            if then is not None and self.spaced(":"):
                otherwise = self._chosen()
                if otherwise is not None:
                    return ast.Conditional(cond, then, otherwise, span=(start, self.pos))
        self.pos = end
        return cond

    def _chosen(self) -> ast.Expr | None:
        """What is chosen by a condition, which may be the next condition, but not without end."""
        self.choices += 1
        try:
            return self.expr() if self.choices <= MAX_CHAIN else None
        finally:
            self.choices -= 1

    @memoized
    def logical_or(self) -> ast.Expr | None:
        """`a or b`."""
        return self._logical("or", self._logical_and)

    def _logical_and(self) -> ast.Expr | None:
        return self._logical("and", self._comparison)

    def _logical(self, op: str, operand: Callable[[], ast.Expr | None]) -> ast.Expr | None:
        first = operand()
        if first is None:
            return None
        operands = [first]
        while True:
            end = self.pos
            self.space()
            if self.word(op, op.upper()):
                self.space()
                more = operand()
                if more is not None:
                    operands.append(more)
                    continue
            self.pos = end
            return balanced(op, operands)

    def _comparison(self) -> ast.Expr | None:
        start = self.pos
        left = self.additive()
        if left is None:
            return None
        end = self.pos
        self.space()
        op = self.comparator()
        if op is not None:
            self.space()
            right = self.additive()
            if right is not None:
                return ast.Binary(op, left, right, span=(start, self.pos))
        elif self.mark("~"):
            self.space()
            pattern = self.regexp()
            if pattern is not None:
                return ast.Binary("~", left, pattern, span=(start, self.pos))
        self.pos = end
        return left

    def comparator(self) -> str | None:
        """One of the comparisons."""
        for op in ("==", "!=", "<=", "<", ">=", ">"):
            if self.at(op):
                self.pos += len(op)
                return op
        return self.word("in")

    @memoized
    def additive(self) -> ast.Expr | None:
        """`a + b`."""
        return self._chain("+-", lambda: self._chain("*/%", self._not))

    def _chain(self, ops: str, operand: Callable[[], ast.Expr | None]) -> ast.Expr | None:
        start = self.pos
        left = operand()
        for _ in range(MAX_CHAIN):
            if left is None:
                return None
            end = self.pos
            self.space()
            op = self.text[self.pos : self.pos + 1]
            if op and op in ops:
                self.pos += 1
                self.space()
                right = operand()
                if right is not None:
                    left = ast.Binary(op, left, right, span=(start, self.pos))
                    continue
            self.miss()
            self.pos = end
            return left
        return left

    def _not(self) -> ast.Expr | None:
        start = self.pos
        if self._negation():
            operand = self._deeper(self._not)
            if operand is not None:
                return ast.Unary("!", operand, span=(start, self.pos))
            self.pos = start
        return self._minus()

    def _negation(self) -> bool:
        """Take `!`, or `not` and white space."""
        start = self.pos
        if self.at("!") and not self.at("!="):
            self.pos += 1
            self.space()
            return True
        if self.word("not", "NOT") and self.gap():
            return True
        self.pos = start
        return False

    def _minus(self) -> ast.Expr | None:
        start = self.pos
        if self.at("-") and self.literal() is None:
            self.pos = start + 1
            self.space()
            operand = self.deref()
            if operand is not None:
                return ast.Unary("-", operand, span=(start, self.pos))
        self.pos = start
        return self.deref()

    def _deeper(self, rule: Callable[[], ast.Expr | None]) -> ast.Expr | None:
        """Parse a rule that repeats itself without brackets, but not without end."""
        self.depth += 1
        try:
            return rule() if self.depth <= MAX_CHAIN // 10 else None
        finally:
            self.depth -= 1

    # ---- what binds tightest

    @memoized
    def deref(self) -> ast.Expr | None:
        """A primary with its `.name`, `[index]` and `[from:to]`."""
        start = self.pos
        made = self.cast()
        if made is None:
            made = self.function()
        if made is None:
            made = self.primary()
        for _ in range(MAX_CHAIN):
            if made is None:
                return None
            end = self.pos
            further = self._further(made, start)
            if further is None:
                self.pos = end
                return made
            made = further
        return made

    def _further(self, expr: ast.Expr, start: int) -> ast.Expr | None:
        if self.mark("."):
            name = self.identifier()
            return None if name is None else ast.Dot(expr, name, span=(start, self.pos))
        if not self.mark("["):
            return None
        self.space()
        begin = self.pos
        low = self.additive()
        if self.spaced(":"):
            high = self.additive()
            self.space()
            if (low or high) and self.mark("]"):
                return ast.Slice(expr, low, high, span=(start, self.pos))
        self.pos = begin
        index = self.expr()
        self.space()
        if index is not None and self.mark("]"):
            return ast.Index(expr, index, span=(start, self.pos))
        return None

    def cast(self) -> ast.Expr | None:
        """`<type>(e)`."""
        start = self.pos
        typ = self.type_value()
        if typ is not None and self.spaced("("):
            inner = self._over_or_expr()
            if inner is not None and self.closed(")"):
                return ast.Cast(inner, typ, span=(start, self.pos))
        self.pos = start
        return None

    @memoized
    def function(self) -> ast.Expr | None:
        """A call."""
        start = self.pos
        for parse in (self._grep, self._regexp_call, self._call):
            made = parse(start)
            if made is not None:
                return made
            self.pos = start
        return None

    def _grep(self, start: int) -> ast.Expr | None:
        if not (self.word("grep") and self.spaced("(")):
            return None
        pattern = self.regexp() or self.glob() or self.expr()
        if pattern is None:
            return None
        subject = None
        if self.spaced(","):
            subject = self._over_or_expr()
            if subject is None:
                return None
        return ast.Grep(pattern, subject, span=(start, self.pos)) if self.closed(")") else None

    def _regexp_call(self, start: int) -> ast.Expr | None:
        """`regexp` and `regexp_replace` take a pattern where others take a value."""
        name = self.word("regexp", "regexp_replace")
        if name is None or not self.spaced("("):
            return None
        args: list[ast.Expr] = []
        while True:
            arg = self._pattern_text() or self.expr()
            if arg is None:
                return None
            args.append(arg)
            if not self.spaced(","):
                break
        if not self.closed(")"):
            return None
        return ast.Call(name, tuple(args), self.where_clause(), span=(start, self.pos))

    def _pattern_text(self) -> ast.Expr | None:
        pattern = self.regexp()
        return None if pattern is None else ast.Primitive("string", pattern.pattern, span=pattern.span)

    def _call(self, start: int) -> ast.Expr | None:
        name = self.identifier()
        if name is None or name in ("not", "select") or not self.spaced("("):
            return None
        over = self.over_expr()
        args = (over,) if over is not None else self.exprs() or ()
        if not self.closed(")"):
            return None
        end = self.pos
        return ast.Call(name, args, self.where_clause(), span=(start, end))

    def where_clause(self) -> ast.Expr | None:
        """` where e` of an aggregate."""
        start = self.pos
        if self.clause("where"):
            cond = self.logical_or()
            if cond is not None:
                return cond
        self.pos = start
        return None

    def exprs(self) -> tuple[ast.Expr, ...] | None:
        """One or more expressions with commas between them."""
        return self.listed(self.expr)

    def listed(self, item: Callable[[], T | None]) -> tuple[T, ...] | None:
        """One or more of something with commas between them."""
        first = item()
        if first is None:
            return None
        items = [first]
        while True:
            end = self.pos
            if self.spaced(","):
                more = item()
                if more is not None:
                    items.append(more)
                    continue
            self.pos = end
            return tuple(items)

    def primary(self) -> ast.Expr | None:
        """A literal, a name, a container, or something in parentheses."""
        start = self.pos
        for parse in (self.record, self._array, self._set, self._map, self.fstring, self.literal, self._id):
            made: ast.Expr | None = parse()
            if made is not None:
                return made
            self.pos = start
        if self.mark("("):
            self.space()
            inner = self._over_or_expr()
            if inner is not None and self.closed(")"):
                return inner
        self.pos = start
        return None

    def _id(self) -> ast.Id | None:
        start = self.pos
        name = self.identifier()
        return None if name is None else ast.Id(name, span=(start, self.pos))

    def closed(self, mark: str) -> bool:
        """Take white space and this text."""
        self.space()
        return self.mark(mark)

    def _over_or_expr(self) -> ast.Expr | None:
        return self.over_expr() or self.expr()

    @memoized
    def over_expr(self) -> ast.OverExpr | None:
        """`over e with x | seq` as a value."""
        start = self.pos
        if self.word("over") and self.gap():
            exprs = self.exprs()
            if exprs is not None:
                names = self.locals()
                if self.spaced("|"):
                    body = self.sequence()
                    if body is not None:
                        return ast.OverExpr(exprs, names, body, span=(start, self.pos))
        return None

    def locals(self) -> tuple[ast.Local, ...]:
        """` with a, b=e`, or nothing."""
        start = self.pos
        if self.clause("with"):
            names = self.listed(self._local)
            if names is not None:
                return names
        self.pos = start
        return ()

    def _local(self) -> ast.Local | None:
        start = self.pos
        name = self.identifier()
        if name is None:
            return None
        end = self.pos
        if self.spaced("="):
            expr = self.expr()
            if expr is not None:
                return ast.Local(name, expr, span=(start, self.pos))
        self.pos = end
        return ast.Local(name, ast.Id(name, span=(start, end)), span=(start, end))

    # ---- containers

    def record(self) -> ast.RecordExpr | None:
        """`{...}`."""
        start = self.pos
        elems: tuple[ast.Field | ast.Id | ast.Spread, ...] | None = self._container("{", "}", self._record_elem)
        return None if elems is None else ast.RecordExpr(elems, span=(start, self.pos))

    def _array(self) -> ast.ArrayExpr | None:
        start = self.pos
        elems: tuple[ast.Expr | ast.Spread, ...] | None = self._container("[", "]", self._elem)
        return None if elems is None else ast.ArrayExpr(elems, span=(start, self.pos))

    def _set(self) -> ast.SetExpr | None:
        start = self.pos
        elems: tuple[ast.Expr | ast.Spread, ...] | None = self._container("|[", "]|", self._elem)
        return None if elems is None else ast.SetExpr(elems, span=(start, self.pos))

    def _map(self) -> ast.MapExpr | None:
        start = self.pos
        entries = self._container("|{", "}|", self._entry)
        return None if entries is None else ast.MapExpr(entries, span=(start, self.pos))

    def _container(self, opening: str, closing: str, item: Callable[[], T | None]) -> tuple[T, ...] | None:
        if not self.mark(opening):
            return None
        self.space()
        items = self.listed(item) or ()
        return items if self.closed(closing) else None

    def _record_elem(self) -> ast.Field | ast.Id | ast.Spread | None:
        start = self.pos
        spread = self._spread()
        if spread is not None:
            return spread
        name = self.field_name()
        if name is not None and self.spaced(":"):
            value = self.expr()
            if value is not None:
                return ast.Field(name, value, span=(start, self.pos))
        self.pos = start
        return self._id()

    def _elem(self) -> ast.Expr | ast.Spread | None:
        return self._spread() or self.expr()

    def _spread(self) -> ast.Spread | None:
        start = self.pos
        if self.mark("..."):
            self.space()
            expr = self.expr()
            if expr is not None:
                return ast.Spread(expr, span=(start, self.pos))
        self.pos = start
        return None

    def _entry(self) -> ast.Entry | None:
        start = self.pos
        key = self.expr()
        if key is not None and self.spaced(":"):
            value = self.expr()
            if value is not None:
                return ast.Entry(key, value, span=(start, self.pos))
        self.pos = start
        return None

    # ---- strings with expressions in them, and patterns

    def fstring(self) -> ast.FString | None:
        """`f"text {e}"`."""
        start = self.pos
        if not (self.at('f"') or self.at("f'")):
            return None
        quote = self.text[self.pos + 1]
        self.pos += 2
        parts: list[str | ast.Expr] = []
        while True:
            text = self.characters(quote + "{")
            if text:
                parts.append(text)
            if self.mark(quote):
                return ast.FString(tuple(parts), span=(start, self.pos))
            if not self.mark("{"):
                return None
            self.space()
            expr = self.expr()
            if expr is None or not self.closed("}"):
                return None
            parts.append(expr)

    def regexp(self) -> ast.Regexp | None:
        """`/pattern/`."""
        start = self.pos
        found = _REGEXP.match(self.text, start)
        if found is None:
            self.miss()
            return None
        self.pos = found.end()
        return ast.Regexp(found[1], span=(start, self.pos))

    def glob(self) -> ast.Glob | None:
        """A search word with at least one star in it."""
        start = self.pos
        if not (_GLOB_START.match(self.text, start) and _GLOB_STAR.match(self.text, start)):
            self.miss()
            return None
        pattern = self._characters_of(_GLOB_CHARS, star="\\*")
        if "*" not in pattern.replace("\\*", ""):
            self.pos = start
            return None
        return ast.Glob(pattern, span=(start, self.pos))

    def search_word(self) -> str | None:
        """A bare word to search for."""
        start = self.pos
        if not (_KEYWORD_CHARS.match(self.text, start) or self.at("\\")):
            self.miss()
            return None
        word = self._characters_of(re.compile(rf"(?:{KEYWORD_CHARS}|\d)"), star="*")
        return word or None

    def _characters_of(self, allowed: re.Pattern[str], star: str) -> str:
        """Characters of a word, with its own escapes: `\\=`, `\\*`, `\\+`, `\\-`."""
        out: list[str] = []
        while self.pos < len(self.text):
            if allowed.match(self.text, self.pos):
                out.append(self.text[self.pos])
                self.pos += 1
            elif self.at("\\") and self.text[self.pos + 1 : self.pos + 2] in tuple(_KEYWORD_ESCAPES):
                out.append(star if self.text[self.pos + 1] == "*" else self.text[self.pos + 1])
                self.pos += 2
            else:
                escaped = self.escape() if self.at("\\") else None
                if escaped is None:
                    break
                out.append(escaped)
        return "".join(out)


def balanced(op: str, operands: list[ast.Expr]) -> ast.Expr:
    """One tree of a chain of `and` or `or`; wide rather than deep, so that it may be as long as it likes."""
    if len(operands) <= 8:
        made = operands[0]
        for right in operands[1:]:
            made = ast.Binary(op, made, right, span=(made.span[0], right.span[1]))
        return made
    half = len(operands) // 2
    left, right = balanced(op, operands[:half]), balanced(op, operands[half:])
    return ast.Binary(op, left, right, span=(left.span[0], right.span[1]))
