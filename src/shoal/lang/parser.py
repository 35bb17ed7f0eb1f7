"""Programs: text to syntax tree. What has no keyword is tried in this order: assignment, aggregation,
search, expression; the first that fits is it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from shoal.errors import InvalidInput
from shoal.lang import ast
from shoal.lang.parse_expr import Expressions
from shoal.lang.parse_literals import Literals
from shoal.lang.parse_ops import Operators
from shoal.lang.parse_search import Searches
from shoal.lang.parse_sources import Sources
from shoal.lang.recursion import deep_frames
from shoal.lang.scanner import MAX_LENGTH, MAX_NESTING, Scanner, memoized, too_deep
from shoal.lang.source import Part, Source
from shoal.model.literals import is_identifier


def parse(text: str) -> ast.Seq:
    """The syntax tree of a program."""
    return parse_source(Source([Part("", text)]))


def parse_source(source: Source) -> ast.Seq:
    """The syntax tree of a program that may come from several files."""
    check_size(source)
    parser = Parser(source.text)
    with deep_frames():
        tree = parser.program()
    if tree is None:
        raise source.error("error parsing Zed", parser.scan.farthest)
    return tree


def parse_search(text: str) -> ast.Expr | None:
    """The search that a text is; None if it is not a search."""
    return Parser(text).search()


def parse_path(text: str) -> tuple[str, ...] | None:
    """The field that a path names, as `a.b`, `this["a b"].c`, `["a.b"]` or `"a.b"`; None for anything else."""
    names = tuple(text.removeprefix("this.").split("."))
    if names != ("this",) and all(map(is_identifier, names)):
        return names  # also those that are words of the language
    check_size(Source([Part("", text)]))
    parser = Parser(f"this{text}" if text.startswith("[") else text)
    with deep_frames():
        return parser.path()


def check_size(source: Source) -> None:
    """Refuse a program that is too long or nests too deep, before it is parsed."""
    if len(source.text) > MAX_LENGTH:
        raise InvalidInput(f"program is longer than {MAX_LENGTH} characters")
    position = too_deep(source.text)
    if position is not None:
        raise source.error(f"program nests deeper than {MAX_NESTING} brackets", position)


class Parser:
    """Whole programs. The parts of the grammar share one scanner, and those inside come back to `sequence`."""

    def __init__(self, text: str) -> None:
        self.scan = Scanner(text)
        self._literals = Literals(self.scan)
        self._exprs = Expressions(self.scan, self._literals, self)
        self._searches = Searches(self.scan, self._literals, self._exprs)
        self._sources = Sources(self.scan, self._exprs)
        self._operators = Operators(self.scan, self._exprs, self._sources)

    def program(self) -> ast.Seq | None:
        """The program; None if it cannot be understood."""
        scan = self.scan
        scan.space()
        body = self.scoped_sequence()
        if body is None:
            return None
        scan.space()
        return body if scan.at_end() else None

    def search(self) -> ast.Expr | None:
        """A search that is the whole text; None if it cannot be understood."""
        expr = self._searches.search_or()
        return expr if self.scan.at_end() else None

    def path(self) -> tuple[str, ...] | None:
        """The path of a field that is the whole text; None if it is anything else."""
        expr = self._exprs.expr()
        if expr is None or not self.scan.at_end():
            return None
        return (expr.text,) if _is_string(expr) else _names_of(expr) or None

    def scoped_sequence(self) -> ast.Seq | None:
        """Operators, with declarations before them or not."""
        scan = self.scan
        start = scan.pos
        decls = self._declarations()
        body = self.sequence()
        if body is None:
            scan.pos = start
            return None
        if not decls:
            return body
        return (ast.Scope(decls, body, span=(start, scan.pos)),)

    @memoized
    def sequence(self) -> ast.Seq | None:
        """Operators with `|` between them."""
        scan = self.scan
        first = self.operation()
        if first is None:
            return None
        ops = [first]
        while True:
            end = scan.pos
            if self._pipe():
                scan.space()
                more = self.operation()
                if more is not None:
                    ops.append(more)
                    continue
            scan.pos = end
            return tuple(ops)

    def _pipe(self) -> bool:
        scan = self.scan
        scan.space()
        if scan.at("|{") or scan.at("|["):
            scan.miss()
            return False
        return scan.mark("|")

    def end_of_op(self) -> bool:
        """Whether an operator may end here; takes nothing."""
        scan = self.scan
        start = scan.pos
        is_end = self._pipe()
        if not is_end:
            scan.pos = start
            scan.space()
            is_end = scan.at_end() or scan.mark("=>") or scan.mark(")") or self.keyword_guard()
        scan.pos = start
        return is_end

    def keyword_guard(self) -> bool:
        """Whether the next case of a switch or the next source of a `from` begins here; takes nothing."""
        scan = self.scan
        start = scan.pos
        is_guard = self._case() is not None
        if not is_guard:
            scan.pos = start
            is_guard = self._sources.source() is not None and scan.spaced("=>")
        scan.pos = start
        return is_guard

    # ---- declarations

    def _declarations(self) -> tuple[ast.Decl, ...]:
        scan = self.scan
        decls: list[ast.Decl] = []
        while True:
            start = scan.pos
            decl = self._declaration(start)
            if decl is None or not scan.gap():
                scan.pos = start
                return tuple(decls)
            decls.append(decl)

    def _declaration(self, start: int) -> ast.Decl | None:
        scan = self.scan
        for parse in (self._const, self._func, self._op, self._type):
            decl: ast.Decl | None = parse(start)
            if decl is not None:
                return decl
            scan.pos = start
        return None

    def _const(self, start: int) -> ast.Decl | None:
        scan = self.scan
        if scan.word("const") and scan.gap():
            name = scan.identifier()
            if name is not None and scan.spaced("="):
                expr = self._exprs.expr()
                if expr is not None:
                    return ast.ConstDecl(name, expr, span=(start, scan.pos))
        return None

    def _func(self, start: int) -> ast.Decl | None:
        scan = self.scan
        head = self._head_of("func")
        if head is None:
            return None
        expr = self._exprs.expr()
        if expr is not None and scan.closed(")"):
            return ast.FuncDecl(*head, expr, span=(start, scan.pos))
        return None

    def _op(self, start: int) -> ast.Decl | None:
        scan = self.scan
        head = self._head_of("op")
        if head is None:
            return None
        body = self.scoped_sequence()
        if body is not None and scan.closed(")"):
            return ast.OpDecl(*head, body, span=(start, scan.pos))
        return None

    def _head_of(self, word: str) -> tuple[str, tuple[str, ...]] | None:
        """`func name(params): (`, with the white space after it."""
        scan = self.scan
        if not (scan.word(word) and scan.gap()):
            return None
        name = scan.identifier()
        if name is None or not scan.spaced("("):
            return None
        self._searches.declared.add(name)
        params = scan.listed(scan.identifier) or ()
        if scan.closed(")") and scan.spaced(":") and scan.mark("("):
            scan.space()
            return name, params
        return None

    def _type(self, start: int) -> ast.Decl | None:
        scan = self.scan
        if scan.word("type") and scan.gap():
            name = scan.field_name()
            if name is not None and scan.spaced("="):
                typ = self._literals.type()
                if typ is not None:
                    return ast.TypeDecl(name, typ, span=(start, scan.pos))
        return None

    # ---- operations

    @memoized
    def operation(self) -> ast.Op | None:
        """One operator, with or without its keyword."""
        scan = self.scan
        start = scan.pos
        alternatives: tuple[Callable[[int], ast.Op | None], ...] = (
            self._fork, self._switch, self._from_legs, self._scope, self._keyword_op, self._op_assignment,
            self._aggregation, self._search, self._implied_search, self._implied_cast, self._implied_expr,
        )  # fmt: skip
        for parse in alternatives:
            op = parse(start)
            if op is not None:
                return op
            scan.pos = start
        return None

    def _keyword_op(self, start: int) -> ast.Op | None:
        return self._operators.operator()

    def _fork(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not (scan.keyword("fork") and scan.spaced("(")):
            return None
        legs: list[ast.Seq] = []
        while (leg := self._leg()) is not None:
            legs.append(leg)
        return ast.Fork(tuple(legs), span=(start, scan.pos)) if legs and scan.closed(")") else None

    def _leg(self) -> ast.Seq | None:
        scan = self.scan
        start = scan.pos
        seq = self.sequence() if scan.spaced("=>") else None
        if seq is None:
            scan.pos = start
        return seq

    def _switch(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not scan.keyword("switch"):
            return None
        begin = scan.pos
        for with_expr in (True, False):
            scan.pos = begin
            expr = self._exprs.expr() if with_expr and scan.gap() else None
            if with_expr and (expr is None or not scan.gap()):
                continue
            if not scan.spaced("("):
                continue
            cases = self._switch_cases()
            if cases and scan.closed(")"):
                return ast.Switch(expr, cases, span=(start, scan.pos))
        return None

    def _switch_cases(self) -> tuple[ast.Case, ...]:
        scan = self.scan
        cases: list[ast.Case] = []
        while True:
            end = scan.pos
            scan.space()
            start = scan.pos
            head = self._case()
            body = self._leg() if head is not None else None
            if head is None or body is None:
                scan.pos = end
                return tuple(cases)
            cases.append(ast.Case(head[0], body, span=(start, scan.pos)))

    def _case(self) -> tuple[ast.Expr | None] | None:
        """`case e` or `default`."""
        scan = self.scan
        start = scan.pos
        if scan.word("default"):
            return (None,)
        if scan.word("case") and scan.gap():
            expr = self._exprs.expr()
            if expr is not None:
                return (expr,)
        scan.pos = start
        return None

    def _from_legs(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not (scan.keyword("from") and scan.spaced("(")):
            return None
        trunks: list[ast.Trunk] = []
        while True:
            scan.space()
            begin = scan.pos
            source = self._sources.source()
            if source is None:
                break
            body = self._leg()
            trunks.append(ast.Trunk(source, body, span=(begin, scan.pos)))
        return ast.From(tuple(trunks), span=(start, scan.pos)) if trunks and scan.closed(")") else None

    def _scope(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not scan.mark("("):
            return None
        scan.space()
        decls = self._declarations()
        body = self.sequence() if decls else None
        if body is not None and scan.closed(")"):
            return ast.Scope(decls, body, span=(start, scan.pos))
        return None

    def _op_assignment(self, start: int) -> ast.Op | None:
        scan = self.scan
        assignments = self._operators.assignments()
        if assignments is not None and self.end_of_op():
            return ast.OpAssignment(assignments, span=(start, scan.pos))
        return None

    def _aggregation(self, start: int) -> ast.Op | None:
        scan = self.scan
        if self._exprs.function() is not None and self.end_of_op():
            return None
        scan.pos = start
        if scan.word("summarize") and not scan.gap():
            return None
        aggs: tuple[ast.Assignment, ...] = ()
        keys = self._group_keys()
        if keys is None:
            aggs = scan.listed(self._agg_assignment) or ()
            if not aggs:
                return None
            end = scan.pos
            keys = self._group_keys() if scan.gap() else None
            if keys is None:
                scan.pos = end
        limit = self._operators.limit()
        return ast.Summarize(aggs, keys or (), limit, span=(start, scan.pos)) if self.end_of_op() else None

    def _group_keys(self) -> tuple[ast.Assignment, ...] | None:
        scan = self.scan
        start = scan.pos
        keys = self._operators.flex_assignments() if scan.word("by") and scan.gap() else None
        if keys is None:
            scan.pos = start
        return keys

    def _agg_assignment(self) -> ast.Assignment | None:
        scan = self.scan
        start = scan.pos
        target = self._exprs.deref()
        agg = self._agg() if target is not None and scan.spaced(":=") else None
        if agg is None:
            scan.pos = start
            target, agg = None, self._agg()
        return None if agg is None else ast.Assignment(target, agg, span=(start, scan.pos))

    def _agg(self) -> ast.Agg | None:
        scan = self.scan
        start = scan.pos
        name = scan.identifier()
        if name is None or name in ("not", "select") or not scan.spaced("("):
            scan.pos = start
            return None
        expr = self._exprs.over_expr() or self._exprs.expr()
        if not scan.closed(")"):
            scan.pos = start
            return None
        end = scan.pos
        scan.space()
        if scan.at("."):
            scan.pos = start
            return None
        scan.pos = end
        where = self._exprs.where_clause()
        return ast.Agg(name, expr, where, span=(start, end))

    def _search(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("search") and scan.gap():
            expr = self._searches.search_or()
            if expr is not None:
                return ast.Search(expr, span=(start, scan.pos))
        return None

    def _implied_search(self, start: int) -> ast.Op | None:
        return self._implied(self._searches.search_or())

    def _implied_cast(self, start: int) -> ast.Op | None:
        return self._implied(self._exprs.cast())

    def _implied_expr(self, start: int) -> ast.Op | None:
        return self._implied(self._exprs.expr())

    def _implied(self, expr: ast.Expr | None) -> ast.Op | None:
        """An expression as an operator, if nothing is left of it."""
        if expr is not None and self.end_of_op():
            return ast.OpExpr(expr, span=expr.span)
        return None


def _is_string(expr: ast.Expr) -> TypeGuard[ast.Primitive]:
    return isinstance(expr, ast.Primitive) and expr.type == "string"


def _names_of(expr: ast.Expr) -> tuple[str, ...] | None:
    """The names along a path from `this`; None for anything else."""
    match expr:
        case ast.Id("this"):
            return ()
        case ast.Id(name):
            return (name,)
        case ast.Dot(inner, name):
            outer = _names_of(inner)
            return None if outer is None else (*outer, name)
        case ast.Index(inner, index) if _is_string(index):
            outer = _names_of(inner)
            return None if outer is None else (*outer, index.text)
        case _:
            return None
