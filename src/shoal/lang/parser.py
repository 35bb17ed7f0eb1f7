"""Programs: text to syntax tree. What has no keyword is tried in this order: assignment, aggregation,
search, expression; the first that fits is it."""

from __future__ import annotations

from collections.abc import Callable

from shoal.errors import InvalidInput
from shoal.lang import ast
from shoal.lang.frames import deep_frames
from shoal.lang.parse_ops import OperatorParser
from shoal.lang.scanner import MAX_LENGTH, MAX_NESTING, memoized, too_deep
from shoal.lang.source import Part, Source


def parse(text: str) -> ast.Seq:
    """The syntax tree of a program."""
    return parse_source(Source([Part("", text)]))


def parse_source(source: Source) -> ast.Seq:
    """The syntax tree of a program that may come from several files."""
    check_size(source)
    parser = Parser(source.text)
    with deep_frames():
        made = parser.program()
    if made is None:
        raise source.error("error parsing Zed", parser.farthest)
    return made


def check_size(source: Source) -> None:
    """Refuse a program that is too long or nests too deep, before it is parsed."""
    if len(source.text) > MAX_LENGTH:
        raise InvalidInput(f"program is longer than {MAX_LENGTH} characters")
    place = too_deep(source.text)
    if place is not None:
        raise source.error(f"program nests deeper than {MAX_NESTING} brackets", place)


class Parser(OperatorParser):
    """Whole programs."""

    def program(self) -> ast.Seq | None:
        """The program; None if it cannot be understood."""
        self.space()
        body = self.scoped_sequence()
        if body is None:
            return None
        self.space()
        return body if self.at_end() else None

    def scoped_sequence(self) -> ast.Seq | None:
        start = self.pos
        decls = self._declarations()
        body = self.sequence()
        if body is None:
            self.pos = start
            return None
        if not decls:
            return body
        return (ast.Scope(decls, body, span=(start, self.pos)),)

    @memoized
    def sequence(self) -> ast.Seq | None:
        first = self.operation()
        if first is None:
            return None
        ops = [first]
        while True:
            end = self.pos
            if self._pipe():
                self.space()
                more = self.operation()
                if more is not None:
                    ops.append(more)
                    continue
            self.pos = end
            return tuple(ops)

    def _pipe(self) -> bool:
        self.space()
        if self.at("|{") or self.at("|["):
            self.miss()
            return False
        return self.mark("|")

    def end_of_op(self) -> bool:
        start = self.pos
        found = self._pipe()
        if not found:
            self.pos = start
            self.space()
            found = self.at_end() or self.mark("=>") or self.mark(")") or self.keyword_guard()
        self.pos = start
        return found

    def keyword_guard(self) -> bool:
        start = self.pos
        found = self._case() is not None
        if not found:
            self.pos = start
            found = self.source() is not None and self.spaced("=>")
        self.pos = start
        return found

    # ---- declarations

    def _declarations(self) -> tuple[ast.Decl, ...]:
        decls: list[ast.Decl] = []
        while True:
            start = self.pos
            decl = self._declaration(start)
            if decl is None or not self.gap():
                self.pos = start
                return tuple(decls)
            decls.append(decl)

    def _declaration(self, start: int) -> ast.Decl | None:
        for parse in (self._const, self._func, self._op, self._type):
            made: ast.Decl | None = parse(start)
            if made is not None:
                return made
            self.pos = start
        return None

    def _const(self, start: int) -> ast.Decl | None:
        if self.word("const") and self.gap():
            name = self.identifier()
            if name is not None and self.spaced("="):
                expr = self.expr()
                if expr is not None:
                    return ast.ConstDecl(name, expr, span=(start, self.pos))
        return None

    def _func(self, start: int) -> ast.Decl | None:
        head = self._head_of("func")
        if head is None:
            return None
        expr = self.expr()
        if expr is not None and self.closed(")"):
            return ast.FuncDecl(*head, expr, span=(start, self.pos))
        return None

    def _op(self, start: int) -> ast.Decl | None:
        head = self._head_of("op")
        if head is None:
            return None
        body = self.scoped_sequence()
        if body is not None and self.closed(")"):
            return ast.OpDecl(*head, body, span=(start, self.pos))
        return None

    def _head_of(self, word: str) -> tuple[str, tuple[str, ...]] | None:
        """`func name(params): (`, with the white space after it."""
        if not (self.word(word) and self.gap()):
            return None
        name = self.identifier()
        if name is None or not self.spaced("("):
            return None
        self.declared.add(name)
        params = self.listed(self.identifier) or ()
        if self.closed(")") and self.spaced(":") and self.mark("("):
            self.space()
            return name, params
        return None

    def _type(self, start: int) -> ast.Decl | None:
        if self.word("type") and self.gap():
            name = self.field_name()
            if name is not None and self.spaced("="):
                typ = self.type()
                if typ is not None:
                    return ast.TypeDecl(name, typ, span=(start, self.pos))
        return None

    # ---- operations

    @memoized
    def operation(self) -> ast.Op | None:
        """One operator, with or without its keyword."""
        start = self.pos
        alternatives: tuple[Callable[[int], ast.Op | None], ...] = (
            self._fork, self._switch, self._from_legs, self._scope, self._keyword_op, self._op_assignment,
            self._aggregation, self._search, self._implied_search, self._implied_cast, self._implied_expr,
        )  # fmt: skip
        for parse in alternatives:
            made = parse(start)
            if made is not None:
                return made
            self.pos = start
        return None

    def _keyword_op(self, start: int) -> ast.Op | None:
        return self.operator()

    def _fork(self, start: int) -> ast.Op | None:
        if not (self.keyword("fork") and self.spaced("(")):
            return None
        legs: list[ast.Seq] = []
        while (leg := self._leg()) is not None:
            legs.append(leg)
        return ast.Fork(tuple(legs), span=(start, self.pos)) if legs and self.closed(")") else None

    def _leg(self) -> ast.Seq | None:
        start = self.pos
        seq = self.sequence() if self.spaced("=>") else None
        if seq is None:
            self.pos = start
        return seq

    def _switch(self, start: int) -> ast.Op | None:
        if not self.keyword("switch"):
            return None
        begin = self.pos
        for with_expr in (True, False):
            self.pos = begin
            expr = self.expr() if with_expr and self.gap() else None
            if with_expr and (expr is None or not self.gap()):
                continue
            if not self.spaced("("):
                continue
            cases = self._switch_cases()
            if cases and self.closed(")"):
                return ast.Switch(expr, cases, span=(start, self.pos))
        return None

    def _switch_cases(self) -> tuple[ast.Case, ...]:
        cases: list[ast.Case] = []
        while True:
            end = self.pos
            self.space()
            start = self.pos
            head = self._case()
            body = self._leg() if head is not None else None
            if head is None or body is None:
                self.pos = end
                return tuple(cases)
            cases.append(ast.Case(head[0], body, span=(start, self.pos)))

    def _case(self) -> tuple[ast.Expr | None] | None:
        """`case e` or `default`."""
        start = self.pos
        if self.word("default"):
            return (None,)
        if self.word("case") and self.gap():
            expr = self.expr()
            if expr is not None:
                return (expr,)
        self.pos = start
        return None

    def _from_legs(self, start: int) -> ast.Op | None:
        if not (self.keyword("from") and self.spaced("(")):
            return None
        trunks: list[ast.Trunk] = []
        while True:
            self.space()
            begin = self.pos
            source = self.source()
            if source is None:
                break
            body = self._leg()
            trunks.append(ast.Trunk(source, body, span=(begin, self.pos)))
        return ast.From(tuple(trunks), span=(start, self.pos)) if trunks and self.closed(")") else None

    def _scope(self, start: int) -> ast.Op | None:
        if not self.mark("("):
            return None
        self.space()
        decls = self._declarations()
        body = self.sequence() if decls else None
        if body is not None and self.closed(")"):
            return ast.Scope(decls, body, span=(start, self.pos))
        return None

    def _op_assignment(self, start: int) -> ast.Op | None:
        made = self.assignments()
        if made is not None and self.end_of_op():
            return ast.OpAssignment(made, span=(start, self.pos))
        return None

    def _aggregation(self, start: int) -> ast.Op | None:
        if self.function() is not None and self.end_of_op():
            return None
        self.pos = start
        if self.word("summarize") and not self.gap():
            return None
        aggs: tuple[ast.Assignment, ...] = ()
        keys = self._group_keys()
        if keys is None:
            aggs = self.listed(self._agg_assignment) or ()
            if not aggs:
                return None
            end = self.pos
            keys = self._group_keys() if self.gap() else None
            if keys is None:
                self.pos = end
        limit = self.limit()
        return ast.Summarize(aggs, keys or (), limit, span=(start, self.pos)) if self.end_of_op() else None

    def _group_keys(self) -> tuple[ast.Assignment, ...] | None:
        start = self.pos
        keys = self.flex_assignments() if self.word("by") and self.gap() else None
        if keys is None:
            self.pos = start
        return keys

    def _agg_assignment(self) -> ast.Assignment | None:
        start = self.pos
        target = self.deref()
        agg = self._agg() if target is not None and self.spaced(":=") else None
        if agg is None:
            self.pos = start
            target, agg = None, self._agg()
        return None if agg is None else ast.Assignment(target, agg, span=(start, self.pos))

    def _agg(self) -> ast.Agg | None:
        start = self.pos
        name = self.identifier()
        if name is None or name in ("not", "select") or not self.spaced("("):
            self.pos = start
            return None
        expr = self.over_expr() or self.expr()
        if not self.closed(")"):
            self.pos = start
            return None
        end = self.pos
        self.space()
        if self.at("."):
            self.pos = start
            return None
        self.pos = end
        where = self.where_clause()
        return ast.Agg(name, expr, where, span=(start, end))

    def _search(self, start: int) -> ast.Op | None:
        if self.keyword("search") and self.gap():
            expr = self.search_or()
            if expr is not None:
                return ast.Search(expr, span=(start, self.pos))
        return None

    def _implied_search(self, start: int) -> ast.Op | None:
        return self._implied(self.search_or())

    def _implied_cast(self, start: int) -> ast.Op | None:
        return self._implied(self.cast())

    def _implied_expr(self, start: int) -> ast.Op | None:
        return self._implied(self.expr())

    def _implied(self, expr: ast.Expr | None) -> ast.Op | None:
        """An expression as an operator, if nothing is left of it."""
        if expr is not None and self.end_of_op():
            return ast.OpExpr(expr, span=expr.span)
        return None
