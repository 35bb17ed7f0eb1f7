"""Operators by their keyword, one method each."""

from __future__ import annotations

import re
from collections.abc import Callable

from shoal.lang import ast
from shoal.lang.parse_expr import Expressions
from shoal.lang.parse_sources import Sources
from shoal.lang.scanner import Scanner

_KEYWORD = re.compile(r"[a-z]+")
_UINT = re.compile(r"\d{1,18}")
_FLUSHED = re.compile(r"\d{1,18}\s+-flush\b")
_JOIN_STYLES = ("anti", "inner", "left", "right")


class Operators:
    """Operators that begin with their own keyword."""

    def __init__(self, scan: Scanner, exprs: Expressions, sources: Sources) -> None:
        self.scan = scan
        self._exprs = exprs
        self._literals = exprs.literals
        self._sequences = exprs.sequences
        self._rules: dict[str, Callable[[int], ast.Op | None]] = {
            "assert": self._assert,
            "cut": self._cut,
            "debug": self._debug,
            "drop": self._drop,
            "explode": self._explode,
            "file": sources.file,
            "from": sources.from_pool,
            "fuse": self._fuse,
            "get": sources.get,
            "head": self._head,
            "join": self._join,
            "load": sources.load,
            "merge": self._merge,
            "output": self._output,
            "over": self._over,
            "pass": sources.pass_,
            "put": self._put,
            "rename": self._rename,
            "sample": self._sample,
            "shape": self._shape,
            "sort": self._sort,
            "tail": self._tail,
            "top": self._top,
            "uniq": self._uniq,
            "where": self._where,
            "yield": self._yield,
            **dict.fromkeys(_JOIN_STYLES, self._join),
        }

    def operator(self) -> ast.Op | None:
        """An operator by its keyword."""
        scan = self.scan
        scan.miss()
        word = _KEYWORD.match(scan.text, scan.pos)
        parse = self._rules.get(word[0]) if word else None
        return None if parse is None else parse(scan.pos)

    def _assert(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not (scan.keyword("assert") and scan.gap()):
            return None
        begin = scan.pos
        expr = self._exprs.expr()
        return None if expr is None else ast.Assert(expr, scan.text[begin : scan.pos], span=(start, scan.pos))

    def _sort(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not scan.keyword("sort"):
            return None
        reverse = nulls_first = False
        while True:
            end = scan.pos
            if scan.gap() and scan.flag("-r"):
                reverse = True
            elif self.clause_flag(end, "-nulls"):
                where = scan.word("first", "last")
                if where is None:
                    return None
                nulls_first = where == "first"
            else:
                scan.pos = end
                break
        end = scan.pos
        keys = self._exprs.sort_keys() if scan.gap() and not self._sequences.end_of_op() else None
        if keys is None:
            scan.pos = end
        return ast.Sort(keys or (), reverse, nulls_first, span=(start, scan.pos))

    def clause_flag(self, position: int, flag: str) -> bool:
        """Take ` -flag ` from this position."""
        scan = self.scan
        scan.pos = position
        return scan.gap() and scan.flag(flag) and scan.gap()

    def _top(self, start: int) -> ast.Op | None:
        """`top [limit] [-flush] keys`: a first expression is the limit if keys follow it."""
        scan = self.scan
        if not scan.keyword("top"):
            return None
        end = scan.pos
        limit = (
            self._top_limit() if scan.gap() and not scan.flag("-flush") and not self._sequences.end_of_op() else None
        )
        if limit is None:
            scan.pos = end
        flush = self.clause_flag_end(scan.pos, "-flush")
        keys = self._keys_after_gap()
        if keys is None and limit is not None and not flush:
            scan.pos = end
            limit, keys = None, self._keys_after_gap()
        return ast.Top(keys or (), limit, flush, span=(start, scan.pos))

    def _top_limit(self) -> ast.Expr | None:
        """A limit; a number before `-flush` is not to be subtracted from."""
        scan = self.scan
        start = scan.pos
        if _FLUSHED.match(scan.text, start):
            number = scan.match(_UINT) or ""
            return ast.Primitive("int64", number, span=(start, scan.pos))
        return self._exprs.expr()

    def clause_flag_end(self, position: int, flag: str) -> bool:
        """Take ` -flag` from this position, or nothing."""
        scan = self.scan
        if scan.gap() and scan.flag(flag):
            return True
        scan.pos = position
        return False

    def _keys_after_gap(self) -> tuple[ast.Expr, ...] | None:
        scan = self.scan
        end = scan.pos
        keys: tuple[ast.Expr, ...] | None = scan.listed(self._exprs.deref) if scan.gap() else None
        if keys is None:
            scan.pos = end
        return keys

    def _cut(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("cut") and scan.gap():
            args = self.flex_assignments()
            if args is not None:
                return ast.Cut(args, span=(start, scan.pos))
        return None

    def _drop(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("drop") and scan.gap():
            args: tuple[ast.Expr, ...] | None = scan.listed(self._exprs.deref)
            if args is not None:
                return ast.Drop(args, span=(start, scan.pos))
        return None

    def _head(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not scan.keyword("head"):
            return None
        count = self._optional_expr()
        return ast.Head(count, span=(start, scan.pos))

    def _tail(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not scan.keyword("tail"):
            return None
        count = self._optional_expr()
        return ast.Tail(count, span=(start, scan.pos))

    def _optional_expr(self) -> ast.Expr | None:
        scan = self.scan
        end = scan.pos
        expr = self._exprs.expr() if scan.gap() and not self._sequences.end_of_op() else None
        if expr is None:
            scan.pos = end
        return expr

    def _where(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("where") and scan.gap():
            expr = self._exprs.expr()
            if expr is not None:
                return ast.Where(expr, span=(start, scan.pos))
        return None

    def _uniq(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not scan.keyword("uniq"):
            return None
        count = self.clause_flag_end(scan.pos, "-c")
        return ast.Uniq(count, span=(start, scan.pos))

    def _put(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("put") and scan.gap():
            args = self.assignments()
            if args is not None:
                return ast.Put(args, span=(start, scan.pos))
        return None

    def _rename(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("rename") and scan.gap():
            args = self.assignments()
            if args is not None:
                return ast.Rename(args, span=(start, scan.pos))
        return None

    def _fuse(self, start: int) -> ast.Op | None:
        scan = self.scan
        return ast.Fuse(span=(start, scan.pos)) if self._bare("fuse") else None

    def _shape(self, start: int) -> ast.Op | None:
        scan = self.scan
        return ast.Shape(span=(start, scan.pos)) if self._bare("shape") else None

    def _bare(self, word: str) -> bool:
        """A keyword that is a function, too, if parentheses follow."""
        scan = self.scan
        if not scan.keyword(word):
            return False
        end = scan.pos
        if scan.spaced("("):
            return False
        scan.pos = end
        return True

    def _join(self, start: int) -> ast.Op | None:
        scan = self.scan
        style = scan.word(*_JOIN_STYLES)
        if style is not None and not scan.gap():
            return None
        if not scan.keyword("join"):
            return None
        right = None
        if scan.spaced("("):
            right = self._sequences.sequence()
            if right is None or not scan.closed(")"):
                return None
            scan.space()
        elif not scan.gap():
            return None
        if not (scan.word("on") and scan.gap()):
            return None
        left_key = self._join_key()
        if left_key is None:
            return None
        right_key = self._right_key()
        args = self._join_args()
        return ast.Join(style or "inner", right, left_key, right_key, args, span=(start, scan.pos))

    def _join_key(self) -> ast.Expr | None:
        return self._exprs.deref()

    def _right_key(self) -> ast.Expr | None:
        scan = self.scan
        end = scan.pos
        key = self._join_key() if scan.spaced("=") else None
        if key is None:
            scan.pos = end
        return key

    def _join_args(self) -> tuple[ast.Assignment, ...]:
        scan = self.scan
        end = scan.pos
        args = self.flex_assignments() if scan.gap() and not self._sequences.end_of_op() else None
        if args is None:
            scan.pos = end
        return args or ()

    def _sample(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not scan.keyword("sample"):
            return None
        end = scan.pos
        expr = self._exprs.deref() if scan.gap() and not self._sequences.end_of_op() else None
        if expr is None:
            scan.pos = end
        return ast.Sample(expr, span=(start, scan.pos))

    # ---- the others

    def _explode(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not (scan.keyword("explode") and scan.gap()):
            return None
        args = self._exprs.exprs()
        if args is None or not scan.clause("by"):
            return None
        typ = self._literals.type()
        if typ is None:
            return None
        end = scan.pos
        name = self._exprs.deref() if scan.clause("as") else None
        if name is None:
            scan.pos = end
        return ast.Explode(args, typ, name, span=(start, scan.pos))

    def _merge(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("merge") and scan.gap():
            expr = self._exprs.expr()
            if expr is not None:
                return ast.Merge(expr, span=(start, scan.pos))
        return None

    def _over(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not (scan.keyword("over") and scan.gap()):
            return None
        exprs = self._exprs.exprs()
        if exprs is None:
            return None
        names = self._exprs.locals()
        body = self._lateral()
        return ast.Over(exprs, names, body, span=(start, scan.pos))

    def _lateral(self) -> ast.Seq | None:
        """` => ( seq )`, or nothing."""
        scan = self.scan
        end = scan.pos
        if scan.spaced("=>") and scan.mark("("):
            scan.space()
            body = self._sequences.scoped_sequence()
            if body is not None and scan.closed(")"):
                return body
        scan.pos = end
        return None

    def _yield(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("yield") and scan.gap():
            exprs = self._exprs.exprs()
            if exprs is not None:
                return ast.Yield(exprs, span=(start, scan.pos))
        return None

    def _debug(self, start: int) -> ast.Op | None:
        scan = self.scan
        if not scan.keyword("debug"):
            return None
        return ast.Debug(self._optional_expr(), span=(start, scan.pos))

    def _output(self, start: int) -> ast.Op | None:
        scan = self.scan
        if scan.keyword("output") and scan.gap():
            name = scan.identifier()
            if name is not None:
                return ast.Output(name, span=(start, scan.pos))
        return None

    # ---- assignments

    def assignments(self) -> tuple[ast.Assignment, ...] | None:
        """`a:=e, b:=e`."""
        scan = self.scan
        return scan.listed(self.assignment)

    def assignment(self) -> ast.Assignment | None:
        """`a:=e`."""
        scan = self.scan
        start = scan.pos
        target = self._exprs.deref()
        if target is not None and scan.spaced(":="):
            expr = self._exprs.expr()
            if expr is not None:
                return ast.Assignment(target, expr, span=(start, scan.pos))
        scan.pos = start
        return None

    def flex_assignments(self) -> tuple[ast.Assignment, ...] | None:
        """`a:=e, b`."""
        scan = self.scan
        return scan.listed(self._flex_assignment)

    def _flex_assignment(self) -> ast.Assignment | None:
        scan = self.scan
        start = scan.pos
        assignment = self.assignment()
        if assignment is not None:
            return assignment
        expr = self._exprs.expr()
        return None if expr is None else ast.Assignment(None, expr, span=(start, scan.pos))

    def limit(self) -> int:
        """` with -limit n`."""
        scan = self.scan
        end = scan.pos
        if scan.clause("with") and scan.flag("-limit") and scan.gap():
            number = scan.match(_UINT)
            if number is not None:
                return int(number)
        scan.pos = end
        return 0
