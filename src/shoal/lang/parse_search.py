"""Search expressions: words, globs, patterns and values that may stand anywhere in a record."""

from __future__ import annotations

from collections.abc import Callable

from shoal.lang import ast
from shoal.lang.aggregates import AGGREGATES
from shoal.lang.functions import SIGNATURES
from shoal.lang.parse_expr import ExpressionParser, balanced
from shoal.lang.scanner import memoized
from shoal.model.types import PRIMITIVES


def is_callable(word: str) -> bool:
    """Whether a word is the name of a function, an aggregate or a type."""
    return word in SIGNATURES or word in AGGREGATES or word in PRIMITIVES or not word.isidentifier()


class SearchParser(ExpressionParser):
    """Search expressions."""

    def keyword_guard(self) -> bool:
        """Whether the next case of a switch or the next source of a `from` begins here."""
        raise NotImplementedError

    @memoized
    def search_or(self) -> ast.Expr | None:
        """`a b or not c`."""
        first = self._search_and()
        if first is None:
            return None
        operands = [first]
        while True:
            end = self.pos
            if self.gap() and self.word("or", "OR") and self.gap():
                more = self._search_and()
                if more is not None:
                    operands.append(more)
                    continue
            self.pos = end
            return balanced("or", operands)

    def _search_and(self) -> ast.Expr | None:
        first = self._search_factor()
        if first is None:
            return None
        operands = [first]
        while True:
            end = self.pos
            more = self._and_factor()
            if more is None:
                self.pos = end
                return balanced("and", operands)
            operands.append(more)

    def _and_factor(self) -> ast.Expr | None:
        if not self.gap():
            return None
        start = self.pos
        if not (self.word("and", "AND") and self.gap()):
            self.pos = start
        begin = self.pos
        if self.word("or", "OR") or self.keyword_guard():
            return None
        self.pos = begin
        return self._search_factor()

    def _search_factor(self) -> ast.Expr | None:
        start = self.pos
        if self._negation():
            operand = self._deeper(self._search_factor)
            if operand is not None:
                return ast.Unary("!", operand, span=(start, self.pos))
            self.pos = start
        if self.mark("("):
            self.space()
            inner = self.search_or()
            if inner is not None and self.closed(")"):
                return inner
        self.pos = start
        return self._search_expr()

    def _search_expr(self) -> ast.Expr | None:
        start = self.pos
        alternatives: tuple[Callable[[], ast.Expr | None], ...] = (
            self.regexp, self.glob, self._term, self._everything, self._predicate, self.function,
        )  # fmt: skip
        for parse in alternatives:
            made = parse()
            if made is not None:
                return made
            self.pos = start
        return None

    def _term(self) -> ast.Expr | None:
        """A value or a word, unless an expression goes on after it."""
        start = self.pos
        value = self.literal()
        if value is None:
            word = self.search_word()
            if word is None:
                return None
            value = ast.Primitive("string", word, span=(start, self.pos))
        end = self.pos
        if self._expression_goes_on():
            is_term = self._groups_after(end, value)
            self.pos = end
            if not is_term and not (self.gap() and self.glob() is not None):
                return None
        self.pos = end
        return ast.Term(self.text[start:end], value, span=(start, end))

    def _groups_after(self, end: int, value: ast.Primitive | ast.TypeValue) -> bool:
        """Whether terms in parentheses follow a word that is nothing one could call."""
        if not isinstance(value, ast.Primitive) or value.type != "string" or not self.at("(") or self.pos == end:
            return False
        return not is_callable(value.text) and value.text not in self.declared

    def _everything(self) -> ast.Expr | None:
        start = self.pos
        if not self.mark("*"):
            return None
        end = self.pos
        if self._expression_goes_on():
            return None
        self.pos = end
        return ast.Primitive("bool", "true", span=(start, end))

    def _expression_goes_on(self) -> bool:
        """Whether an operator, a call or an index follows; the position is then anywhere."""
        self.space()
        if self.at("=>"):
            return False
        if self.text[self.pos : self.pos + 1] in tuple("+-*/%:([~"):
            return True
        return self.comparator() is not None

    def _predicate(self) -> ast.Expr | None:
        start = self.pos
        left = self.additive()
        if left is None:
            return None
        self.space()
        op = self.comparator()
        if op is None:
            return None
        self.space()
        right = self.additive()
        return None if right is None else ast.Binary(op, left, right, span=(start, self.pos))
