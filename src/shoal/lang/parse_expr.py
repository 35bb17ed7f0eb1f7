"""Expressions, from the loosest operator to the tightest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from shoal.lang import ast
from shoal.lang.parse_literals import Literals
from shoal.lang.scanner import Scanner, memoized

MAX_CHAIN = 1000
"""How many operands one chain of equal operators may have; `and` and `or` are not limited."""


T = TypeVar("T")


class Sequences(Protocol):
    """The rules for sequences of operators, which the rules inside of them come back to."""

    def sequence(self) -> ast.Seq | None:
        """Operators with `|` between them."""

    def scoped_sequence(self) -> ast.Seq | None:
        """Operators, with declarations before them or not."""

    def end_of_op(self) -> bool:
        """Whether an operator may end here; takes nothing."""

    def keyword_guard(self) -> bool:
        """Whether the next case of a switch or the next source of a `from` begins here; takes nothing."""


class Expressions:
    """Expressions."""

    def __init__(self, scan: Scanner, literals: Literals, sequences: Sequences) -> None:
        self.scan = scan
        self.literals = literals
        self.sequences = sequences
        self._choices = 0
        self._depth = 0

    # ---- operators, loosest first

    @memoized
    def expr(self) -> ast.Expr | None:
        """Any expression."""
        scan = self.scan
        start = scan.pos
        cond = self.logical_or()
        if cond is None:
            return None
        end = scan.pos
        if scan.spaced("?"):
            then = self._chosen()
            if then is not None and scan.spaced(":"):
                otherwise = self._chosen()
                if otherwise is not None:
                    return ast.Conditional(cond, then, otherwise, span=(start, scan.pos))
        scan.pos = end
        return cond

    def _chosen(self) -> ast.Expr | None:
        """What is chosen by a condition, which may be the next condition, but not without end."""
        self._choices += 1
        try:
            return self.expr() if self._choices <= MAX_CHAIN else None
        finally:
            self._choices -= 1

    @memoized
    def logical_or(self) -> ast.Expr | None:
        """`a or b`."""
        return self._logical("or", self._logical_and)

    def _logical_and(self) -> ast.Expr | None:
        return self._logical("and", self._comparison)

    def _logical(self, op: str, operand: Callable[[], ast.Expr | None]) -> ast.Expr | None:
        scan = self.scan
        first = operand()
        if first is None:
            return None
        operands = [first]
        while True:
            end = scan.pos
            scan.space()
            if scan.word(op, op.upper()):
                scan.space()
                more = operand()
                if more is not None:
                    operands.append(more)
                    continue
            scan.pos = end
            return balanced(op, operands)

    def _comparison(self) -> ast.Expr | None:
        scan = self.scan
        start = scan.pos
        left = self.additive()
        if left is None:
            return None
        end = scan.pos
        scan.space()
        op = self.comparator()
        if op is not None:
            scan.space()
            right = self.additive()
            if right is not None:
                return ast.Binary(op, left, right, span=(start, scan.pos))
        elif scan.mark("~"):
            scan.space()
            pattern = self.literals.regexp()
            if pattern is not None:
                return ast.Binary("~", left, pattern, span=(start, scan.pos))
        scan.pos = end
        return left

    def comparator(self) -> str | None:
        """One of the comparisons."""
        scan = self.scan
        for op in ("==", "!=", "<=", "<", ">=", ">"):
            if scan.at(op):
                scan.pos += len(op)
                return op
        return scan.word("in")

    @memoized
    def additive(self) -> ast.Expr | None:
        """`a + b`."""
        return self._chain("+-", lambda: self._chain("*/%", self._not))

    def _chain(self, ops: str, operand: Callable[[], ast.Expr | None]) -> ast.Expr | None:
        scan = self.scan
        start = scan.pos
        left = operand()
        for _ in range(MAX_CHAIN):
            if left is None:
                return None
            end = scan.pos
            scan.space()
            op = scan.text[scan.pos : scan.pos + 1]
            if op and op in ops:
                scan.pos += 1
                scan.space()
                right = operand()
                if right is not None:
                    left = ast.Binary(op, left, right, span=(start, scan.pos))
                    continue
            scan.miss()
            scan.pos = end
            return left
        return left

    def _not(self) -> ast.Expr | None:
        scan = self.scan
        start = scan.pos
        if self.negation():
            operand = self.deeper(self._not)
            if operand is not None:
                return ast.Unary("!", operand, span=(start, scan.pos))
            scan.pos = start
        return self._minus()

    def negation(self) -> bool:
        """Take `!`, or `not` and white space."""
        scan = self.scan
        start = scan.pos
        if scan.at("!") and not scan.at("!="):
            scan.pos += 1
            scan.space()
            return True
        if scan.word("not", "NOT") and scan.gap():
            return True
        scan.pos = start
        return False

    def _minus(self) -> ast.Expr | None:
        scan = self.scan
        start = scan.pos
        if scan.at("-") and self.literals.literal() is None:
            scan.pos = start + 1
            scan.space()
            operand = self.deref()
            if operand is not None:
                return ast.Unary("-", operand, span=(start, scan.pos))
        scan.pos = start
        return self.deref()

    def deeper(self, rule: Callable[[], ast.Expr | None]) -> ast.Expr | None:
        """Parse a rule that repeats itself without brackets, but not without end."""
        self._depth += 1
        try:
            return rule() if self._depth <= MAX_CHAIN // 10 else None
        finally:
            self._depth -= 1

    # ---- what binds tightest

    @memoized
    def deref(self) -> ast.Expr | None:
        """A primary with its `.name`, `[index]` and `[from:to]`."""
        scan = self.scan
        start = scan.pos
        expr = self.cast()
        if expr is None:
            expr = self.function()
        if expr is None:
            expr = self.primary()
        for _ in range(MAX_CHAIN):
            if expr is None:
                return None
            end = scan.pos
            further = self._further(expr, start)
            if further is None:
                scan.pos = end
                return expr
            expr = further
        return expr

    def _further(self, expr: ast.Expr, start: int) -> ast.Expr | None:
        scan = self.scan
        if scan.mark("."):
            name = scan.identifier()
            return None if name is None else ast.Dot(expr, name, span=(start, scan.pos))
        if not scan.mark("["):
            return None
        scan.space()
        begin = scan.pos
        low = self.additive()
        if scan.spaced(":"):
            high = self.additive()
            scan.space()
            if (low or high) and scan.mark("]"):
                return ast.Slice(expr, low, high, span=(start, scan.pos))
        scan.pos = begin
        index = self.expr()
        scan.space()
        if index is not None and scan.mark("]"):
            return ast.Index(expr, index, span=(start, scan.pos))
        return None

    def cast(self) -> ast.Expr | None:
        """`<type>(e)`."""
        scan = self.scan
        start = scan.pos
        typ = self.literals.type_value()
        if typ is not None and scan.spaced("("):
            inner = self._over_or_expr()
            if inner is not None and scan.closed(")"):
                return ast.Cast(inner, typ, span=(start, scan.pos))
        scan.pos = start
        return None

    @memoized
    def function(self) -> ast.Expr | None:
        """A call."""
        scan = self.scan
        start = scan.pos
        for parse in (self._grep, self._regexp_call, self._call):
            call = parse(start)
            if call is not None:
                return call
            scan.pos = start
        return None

    def _grep(self, start: int) -> ast.Expr | None:
        scan = self.scan
        if not (scan.word("grep") and scan.spaced("(")):
            return None
        pattern = self.literals.regexp() or self.literals.glob() or self.expr()
        if pattern is None:
            return None
        subject = None
        if scan.spaced(","):
            subject = self._over_or_expr()
            if subject is None:
                return None
        return ast.Grep(pattern, subject, span=(start, scan.pos)) if scan.closed(")") else None

    def _regexp_call(self, start: int) -> ast.Expr | None:
        """`regexp` and `regexp_replace` take a pattern where others take a value."""
        scan = self.scan
        name = scan.word("regexp", "regexp_replace")
        if name is None or not scan.spaced("("):
            return None
        args: list[ast.Expr] = []
        while True:
            arg = self._pattern_text() or self.expr()
            if arg is None:
                return None
            args.append(arg)
            if not scan.spaced(","):
                break
        if not scan.closed(")"):
            return None
        return ast.Call(name, tuple(args), self.where_clause(), span=(start, scan.pos))

    def _pattern_text(self) -> ast.Expr | None:
        pattern = self.literals.regexp()
        return None if pattern is None else ast.Primitive("string", pattern.pattern, span=pattern.span)

    def _call(self, start: int) -> ast.Expr | None:
        scan = self.scan
        name = scan.identifier()
        if name is None or name in ("not", "select") or not scan.spaced("("):
            return None
        over = self.over_expr()
        args = (over,) if over is not None else self.exprs() or ()
        if not scan.closed(")"):
            return None
        end = scan.pos
        return ast.Call(name, args, self.where_clause(), span=(start, end))

    def where_clause(self) -> ast.Expr | None:
        """` where e` of an aggregate."""
        scan = self.scan
        start = scan.pos
        if scan.clause("where"):
            cond = self.logical_or()
            if cond is not None:
                return cond
        scan.pos = start
        return None

    def exprs(self) -> tuple[ast.Expr, ...] | None:
        """One or more expressions with commas between them."""
        scan = self.scan
        return scan.listed(self.expr)

    def primary(self) -> ast.Expr | None:
        """A literal, a name, a container, or something in parentheses."""
        scan = self.scan
        start = scan.pos
        for parse in (self.record, self._array, self._set, self._map, self.fstring, self.literals.literal, self._id):
            expr: ast.Expr | None = parse()
            if expr is not None:
                return expr
            scan.pos = start
        if scan.mark("("):
            scan.space()
            inner = self._over_or_expr()
            if inner is not None and scan.closed(")"):
                return inner
        scan.pos = start
        return None

    def _id(self) -> ast.Id | None:
        scan = self.scan
        start = scan.pos
        name = scan.identifier()
        return None if name is None else ast.Id(name, span=(start, scan.pos))

    def _over_or_expr(self) -> ast.Expr | None:
        return self.over_expr() or self.expr()

    @memoized
    def over_expr(self) -> ast.OverExpr | None:
        """`over e with x | seq` as a value."""
        scan = self.scan
        start = scan.pos
        if scan.word("over") and scan.gap():
            exprs = self.exprs()
            if exprs is not None:
                names = self.locals()
                if scan.spaced("|"):
                    body = self.sequences.sequence()
                    if body is not None:
                        return ast.OverExpr(exprs, names, body, span=(start, scan.pos))
        return None

    def locals(self) -> tuple[ast.Local, ...]:
        """` with a, b=e`, or nothing."""
        scan = self.scan
        start = scan.pos
        if scan.clause("with"):
            names = scan.listed(self._local)
            if names is not None:
                return names
        scan.pos = start
        return ()

    def _local(self) -> ast.Local | None:
        scan = self.scan
        start = scan.pos
        name = scan.identifier()
        if name is None:
            return None
        end = scan.pos
        if scan.spaced("="):
            expr = self.expr()
            if expr is not None:
                return ast.Local(name, expr, span=(start, scan.pos))
        scan.pos = end
        return ast.Local(name, ast.Id(name, span=(start, end)), span=(start, end))

    def sort_keys(self) -> tuple[ast.SortExpr, ...] | None:
        """`a desc, b`."""
        scan = self.scan
        return scan.listed(self._sort_key)

    def _sort_key(self) -> ast.SortExpr | None:
        scan = self.scan
        start = scan.pos
        expr = self.expr()
        if expr is None:
            return None
        end = scan.pos
        order = scan.word("asc", "desc") if scan.gap() else None
        if order is None:
            scan.pos = end
        return ast.SortExpr(expr, order or "", span=(start, scan.pos))

    # ---- containers

    def record(self) -> ast.RecordExpr | None:
        """`{...}`."""
        scan = self.scan
        start = scan.pos
        elems: tuple[ast.Field | ast.Id | ast.Spread, ...] | None = self._container("{", "}", self._record_elem)
        return None if elems is None else ast.RecordExpr(elems, span=(start, scan.pos))

    def _array(self) -> ast.ArrayExpr | None:
        scan = self.scan
        start = scan.pos
        elems: tuple[ast.Expr | ast.Spread, ...] | None = self._container("[", "]", self._elem)
        return None if elems is None else ast.ArrayExpr(elems, span=(start, scan.pos))

    def _set(self) -> ast.SetExpr | None:
        scan = self.scan
        start = scan.pos
        elems: tuple[ast.Expr | ast.Spread, ...] | None = self._container("|[", "]|", self._elem)
        return None if elems is None else ast.SetExpr(elems, span=(start, scan.pos))

    def _map(self) -> ast.MapExpr | None:
        scan = self.scan
        start = scan.pos
        entries = self._container("|{", "}|", self._entry)
        return None if entries is None else ast.MapExpr(entries, span=(start, scan.pos))

    def _container(self, opening: str, closing: str, item: Callable[[], T | None]) -> tuple[T, ...] | None:
        scan = self.scan
        if not scan.mark(opening):
            return None
        scan.space()
        items = scan.listed(item) or ()
        return items if scan.closed(closing) else None

    def _record_elem(self) -> ast.Field | ast.Id | ast.Spread | None:
        scan = self.scan
        start = scan.pos
        spread = self._spread()
        if spread is not None:
            return spread
        name = scan.field_name()
        if name is not None and scan.spaced(":"):
            value = self.expr()
            if value is not None:
                return ast.Field(name, value, span=(start, scan.pos))
        scan.pos = start
        return self._id()

    def _elem(self) -> ast.Expr | ast.Spread | None:
        return self._spread() or self.expr()

    def _spread(self) -> ast.Spread | None:
        scan = self.scan
        start = scan.pos
        if scan.mark("..."):
            scan.space()
            expr = self.expr()
            if expr is not None:
                return ast.Spread(expr, span=(start, scan.pos))
        scan.pos = start
        return None

    def _entry(self) -> ast.Entry | None:
        scan = self.scan
        start = scan.pos
        key = self.expr()
        if key is not None and scan.spaced(":"):
            value = self.expr()
            if value is not None:
                return ast.Entry(key, value, span=(start, scan.pos))
        scan.pos = start
        return None

    # ---- strings with expressions in them

    def fstring(self) -> ast.FString | None:
        """`f"text {e}"`."""
        scan = self.scan
        start = scan.pos
        if not (scan.at('f"') or scan.at("f'")):
            return None
        quote = scan.text[scan.pos + 1]
        scan.pos += 2
        parts: list[str | ast.Expr] = []
        while True:
            text = scan.characters(quote + "{")
            if text:
                parts.append(text)
            if scan.mark(quote):
                return ast.FString(tuple(parts), span=(start, scan.pos))
            if not scan.mark("{"):
                return None
            scan.space()
            expr = self.expr()
            if expr is None or not scan.closed("}"):
                return None
            parts.append(expr)


def balanced(op: str, operands: list[ast.Expr]) -> ast.Expr:
    """One tree of a chain of `and` or `or`; wide rather than deep, so that it may be of any length."""
    if len(operands) <= 8:
        tree = operands[0]
        for right in operands[1:]:
            tree = ast.Binary(op, tree, right, span=(tree.span[0], right.span[1]))
        return tree
    half = len(operands) // 2
    left, right = balanced(op, operands[:half]), balanced(op, operands[half:])
    return ast.Binary(op, left, right, span=(left.span[0], right.span[1]))
