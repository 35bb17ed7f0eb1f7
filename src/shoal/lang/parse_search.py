"""Search expressions: words, globs, patterns and values that may stand anywhere in a record."""

from __future__ import annotations

from collections.abc import Callable

from shoal.lang import ast
from shoal.lang.aggregates import AGGREGATES
from shoal.lang.functions import SIGNATURES
from shoal.lang.parse_expr import Expressions, balanced
from shoal.lang.parse_literals import Literals
from shoal.lang.scanner import Scanner, memoized
from shoal.model.types import PRIMITIVES


def is_callable(word: str) -> bool:
    """Whether a word is the name of a function, an aggregate or a type."""
    return word in SIGNATURES or word in AGGREGATES or word in PRIMITIVES or not word.isidentifier()


class Searches:
    """Search expressions."""

    def __init__(self, scan: Scanner, literals: Literals, exprs: Expressions) -> None:
        self.scan = scan
        self._literals = literals
        self._exprs = exprs
        self._sequences = exprs.sequences
        self.declared: set[str] = set()
        """The functions and operators of the program, as far as it is parsed."""

    @memoized
    def search_or(self) -> ast.Expr | None:
        """`a b or not c`."""
        scan = self.scan
        first = self._search_and()
        if first is None:
            return None
        operands = [first]
        while True:
            end = scan.pos
            if scan.gap() and scan.word("or", "OR") and scan.gap():
                more = self._search_and()
                if more is not None:
                    operands.append(more)
                    continue
            scan.pos = end
            return balanced("or", operands)

    def _search_and(self) -> ast.Expr | None:
        scan = self.scan
        first = self._search_factor()
        if first is None:
            return None
        operands = [first]
        while True:
            end = scan.pos
            more = self._and_factor()
            if more is None:
                scan.pos = end
                return balanced("and", operands)
            operands.append(more)

    def _and_factor(self) -> ast.Expr | None:
        scan = self.scan
        if not scan.gap():
            return None
        start = scan.pos
        if not (scan.word("and", "AND") and scan.gap()):
            scan.pos = start
        begin = scan.pos
        if scan.word("or", "OR") or self._sequences.keyword_guard():
            return None
        scan.pos = begin
        return self._search_factor()

    def _search_factor(self) -> ast.Expr | None:
        scan = self.scan
        start = scan.pos
        if self._exprs.negation():
            operand = self._exprs.deeper(self._search_factor)
            if operand is not None:
                return ast.Unary("!", operand, span=(start, scan.pos))
            scan.pos = start
        if scan.mark("("):
            scan.space()
            inner = self.search_or()
            if inner is not None and scan.closed(")"):
                return inner
        scan.pos = start
        return self._search_expr()

    def _search_expr(self) -> ast.Expr | None:
        scan = self.scan
        start = scan.pos
        alternatives: tuple[Callable[[], ast.Expr | None], ...] = (
            self._literals.regexp, self._literals.glob, self._term, self._everything, self._predicate,
            self._exprs.function,
        )  # fmt: skip
        for parse in alternatives:
            expr = parse()
            if expr is not None:
                return expr
            scan.pos = start
        return None

    def _term(self) -> ast.Expr | None:
        """A value or a word, unless an expression goes on after it."""
        scan = self.scan
        start = scan.pos
        value = self._literals.literal()
        if value is None:
            word = self._literals.search_word()
            if word is None:
                return None
            value = ast.Primitive("string", word, span=(start, scan.pos))
        end = scan.pos
        if self._expression_goes_on():
            is_term = self._groups_after(end, value)
            scan.pos = end
            if not is_term and not (scan.gap() and self._literals.glob() is not None):
                return None
        scan.pos = end
        return ast.Term(scan.text[start:end], value, span=(start, end))

    def _groups_after(self, end: int, value: ast.Primitive | ast.TypeValue) -> bool:
        """Whether terms in parentheses follow a word that is nothing one could call."""
        scan = self.scan
        if not isinstance(value, ast.Primitive) or value.type != "string" or not scan.at("(") or scan.pos == end:
            return False
        return not is_callable(value.text) and value.text not in self.declared

    def _everything(self) -> ast.Expr | None:
        scan = self.scan
        start = scan.pos
        if not scan.mark("*"):
            return None
        end = scan.pos
        if self._expression_goes_on():
            return None
        scan.pos = end
        return ast.Primitive("bool", "true", span=(start, end))

    def _expression_goes_on(self) -> bool:
        """Whether an operator, a call or an index follows; the position is then anywhere."""
        scan = self.scan
        scan.space()
        if scan.at("=>"):
            return False
        if scan.text[scan.pos : scan.pos + 1] in tuple("+-*/%:([~"):
            return True
        return self._exprs.comparator() is not None

    def _predicate(self) -> ast.Expr | None:
        scan = self.scan
        start = scan.pos
        left = self._exprs.additive()
        if left is None:
            return None
        scan.space()
        op = self._exprs.comparator()
        if op is None:
            return None
        scan.space()
        right = self._exprs.additive()
        return None if right is None else ast.Binary(op, left, right, span=(start, scan.pos))
