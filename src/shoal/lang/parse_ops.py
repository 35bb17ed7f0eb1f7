"""Operators by their keyword, one method each."""

from __future__ import annotations

import re

from shoal.lang import ast
from shoal.lang.parse_search import SearchParser

_PATH = re.compile(r"[0-9a-zA-Z!@$%^&*_=<>,./?:\[\]{}~+-]+")
_META = re.compile(r"(?:[^\W\d]|[$.])[\w$.]*")
_POOL_IDENTIFIER = re.compile(r"(?:[^\W\d]|[$.])[\w$.]*(?:-[\w$.]+)*")
_COMMIT_NAME = re.compile(r"[\w$.]+(?:[-/][\w$.]+)*")
_POOL_ID = re.compile(r"[0-9a-zA-Z]+")
_COMMIT_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_UINT = re.compile(r"\d{1,18}")
_FLUSHED = re.compile(r"\d{1,18}\s+-flush\b")
_JOIN_STYLES = ("anti", "inner", "left", "right")


class OperatorParser(SearchParser):
    """Operators that begin with their own keyword."""

    def end_of_op(self) -> bool:
        """Whether an operator may end here; takes nothing."""
        raise NotImplementedError

    def operator(self) -> ast.Op | None:
        """An operator by its keyword."""
        start = self.pos
        for parse in (
            self._assert, self._sort, self._top, self._cut, self._drop, self._head, self._tail, self._where,
            self._uniq, self._put, self._rename, self._fuse, self._shape, self._join, self._sample, self.file,
            self.get, self._from_pool, self.pass_, self._explode, self._merge, self._over, self._yield, self._load,
            self._debug, self._output,
        ):  # fmt: skip
            made: ast.Op | None = parse(start)
            if made is not None:
                return made
            self.pos = start
        return None

    def _assert(self, start: int) -> ast.Op | None:
        if not (self.keyword("assert") and self.gap()):
            return None
        begin = self.pos
        expr = self.expr()
        return None if expr is None else ast.Assert(expr, self.text[begin : self.pos], span=(start, self.pos))

    def _sort(self, start: int) -> ast.Op | None:
        if not self.keyword("sort"):
            return None
        reverse = nulls_first = False
        while True:
            end = self.pos
            if self.gap() and self._flag("-r"):
                reverse = True
            elif self.clause_flag(end, "-nulls"):
                where = self.word("first", "last")
                if where is None:
                    return None
                nulls_first = where == "first"
            else:
                self.pos = end
                break
        end = self.pos
        keys = self.sort_keys() if self.gap() and not self.end_of_op() else None
        if keys is None:
            self.pos = end
        return ast.Sort(keys or (), reverse, nulls_first, span=(start, self.pos))

    def _flag(self, flag: str) -> bool:
        if self.at(flag) and not re.match(r"\w", self.text[self.pos + len(flag) : self.pos + len(flag) + 1]):
            self.pos += len(flag)
            return True
        self.miss()
        return False

    def clause_flag(self, position: int, flag: str) -> bool:
        """Take ` -flag ` from this position."""
        self.pos = position
        return self.gap() and self._flag(flag) and self.gap()

    def sort_keys(self) -> tuple[ast.SortExpr, ...] | None:
        """`a desc, b`."""
        return self.listed(self._sort_key)

    def _sort_key(self) -> ast.SortExpr | None:
        start = self.pos
        expr = self.expr()
        if expr is None:
            return None
        end = self.pos
        order = self.word("asc", "desc") if self.gap() else None
        if order is None:
            self.pos = end
        return ast.SortExpr(expr, order or "", span=(start, self.pos))

    def _top(self, start: int) -> ast.Op | None:
        """`top [limit] [-flush] keys`: a first expression is the limit if keys follow it."""
        if not self.keyword("top"):
            return None
        end = self.pos
        limit = self._top_limit() if self.gap() and not self._flag("-flush") and not self.end_of_op() else None
        if limit is None:
            self.pos = end
        flush = self.clause_flag_end(self.pos, "-flush")
        keys = self._keys_after_gap()
        if keys is None and limit is not None and not flush:
            self.pos = end
            limit, keys = None, self._keys_after_gap()
        return ast.Top(keys or (), limit, flush, span=(start, self.pos))

    def _top_limit(self) -> ast.Expr | None:
        """A limit; a number before `-flush` is not to be subtracted from."""
        start = self.pos
        if _FLUSHED.match(self.text, start):
            number = self.match(_UINT) or ""
            return ast.Primitive("int64", number, span=(start, self.pos))
        return self.expr()

    def clause_flag_end(self, position: int, flag: str) -> bool:
        """Take ` -flag` from this position, or nothing."""
        if self.gap() and self._flag(flag):
            return True
        self.pos = position
        return False

    def _keys_after_gap(self) -> tuple[ast.Expr, ...] | None:
        end = self.pos
        keys: tuple[ast.Expr, ...] | None = self.listed(self.deref) if self.gap() else None
        if keys is None:
            self.pos = end
        return keys

    def _cut(self, start: int) -> ast.Op | None:
        if self.keyword("cut") and self.gap():
            args = self.flex_assignments()
            if args is not None:
                return ast.Cut(args, span=(start, self.pos))
        return None

    def _drop(self, start: int) -> ast.Op | None:
        if self.keyword("drop") and self.gap():
            args: tuple[ast.Expr, ...] | None = self.listed(self.deref)
            if args is not None:
                return ast.Drop(args, span=(start, self.pos))
        return None

    def _head(self, start: int) -> ast.Op | None:
        if not self.keyword("head"):
            return None
        count = self._optional_expr()
        return ast.Head(count, span=(start, self.pos))

    def _tail(self, start: int) -> ast.Op | None:
        if not self.keyword("tail"):
            return None
        count = self._optional_expr()
        return ast.Tail(count, span=(start, self.pos))

    def _optional_expr(self) -> ast.Expr | None:
        end = self.pos
        expr = self.expr() if self.gap() and not self.end_of_op() else None
        if expr is None:
            self.pos = end
        return expr

    def _where(self, start: int) -> ast.Op | None:
        if self.keyword("where") and self.gap():
            expr = self.expr()
            if expr is not None:
                return ast.Where(expr, span=(start, self.pos))
        return None

    def _uniq(self, start: int) -> ast.Op | None:
        if not self.keyword("uniq"):
            return None
        count = self.clause_flag_end(self.pos, "-c")
        return ast.Uniq(count, span=(start, self.pos))

    def _put(self, start: int) -> ast.Op | None:
        if self.keyword("put") and self.gap():
            args = self.assignments()
            if args is not None:
                return ast.Put(args, span=(start, self.pos))
        return None

    def _rename(self, start: int) -> ast.Op | None:
        if self.keyword("rename") and self.gap():
            args = self.assignments()
            if args is not None:
                return ast.Rename(args, span=(start, self.pos))
        return None

    def _fuse(self, start: int) -> ast.Op | None:
        return ast.Fuse(span=(start, self.pos)) if self._bare("fuse") else None

    def _shape(self, start: int) -> ast.Op | None:
        return ast.Shape(span=(start, self.pos)) if self._bare("shape") else None

    def _bare(self, word: str) -> bool:
        """A keyword that is a function, too, if parentheses follow."""
        if not self.keyword(word):
            return False
        end = self.pos
        if self.spaced("("):
            return False
        self.pos = end
        return True

    def _join(self, start: int) -> ast.Op | None:
        style = self.word(*_JOIN_STYLES)
        if style is not None and not self.gap():
            return None
        if not self.keyword("join"):
            return None
        right = None
        if self.spaced("("):
            right = self.sequence()
            if right is None or not self.closed(")"):
                return None
            self.space()
        elif not self.gap():
            return None
        if not (self.word("on") and self.gap()):
            return None
        left_key = self._join_key()
        if left_key is None:
            return None
        right_key = self._right_key()
        args = self._join_args()
        return ast.Join(style or "inner", right, left_key, right_key, args, span=(start, self.pos))

    def _join_key(self) -> ast.Expr | None:
        return self.deref()

    def _right_key(self) -> ast.Expr | None:
        end = self.pos
        key = self._join_key() if self.spaced("=") else None
        if key is None:
            self.pos = end
        return key

    def _join_args(self) -> tuple[ast.Assignment, ...]:
        end = self.pos
        args = self.flex_assignments() if self.gap() and not self.end_of_op() else None
        if args is None:
            self.pos = end
        return args or ()

    def _sample(self, start: int) -> ast.Op | None:
        if not self.keyword("sample"):
            return None
        end = self.pos
        expr = self.deref() if self.gap() and not self.end_of_op() else None
        if expr is None:
            self.pos = end
        return ast.Sample(expr, span=(start, self.pos))

    # ---- sources

    def source(self) -> ast.Source | None:
        """A source inside `from ( )`."""
        start = self.pos
        for parse in (self.file, self.get, self._pool, self.pass_):
            made: ast.Source | None = parse(start)
            if made is not None:
                return made
            self.pos = start
        return None

    def file(self, start: int) -> ast.File | None:
        """`file path`."""
        if self.keyword("file") and self.gap():
            path = self._path()
            if path is not None:
                return ast.File(path, self._format(), self._order(), span=(start, self.pos))
        return None

    def get(self, start: int) -> ast.Get | None:
        """`get url`."""
        if not (self.keyword("get") and self.gap()):
            return None
        url = self._path()
        if url is None:
            return None
        form, order, method = self._format(), self._order(), self._named("method")
        headers = None
        end = self.pos
        if self.clause("headers"):
            headers = self.record()
        if headers is None:
            self.pos = end
        body = self._named("body")
        return ast.Get(url, form, order, method, headers, body, span=(start, self.pos))

    def _path(self) -> ast.Text | None:
        start = self.pos
        quoted = self.quoted()
        if quoted is not None:
            return ast.Text(quoted, True, span=(start, self.pos))
        bare = self.match(_PATH)
        return None if bare is None else ast.Text(bare, False, span=(start, self.pos))

    def _format(self) -> str:
        end = self.pos
        name = self.identifier() if self.clause("format") else None
        if name is None:
            self.pos = end
        return name or ""

    def _order(self) -> ast.SortKeyArg | None:
        start = self.pos
        keys = self.sort_keys() if self.clause("order") else None
        if keys is None:
            self.pos = start
            return None
        order = keys[0].order or "asc"
        return ast.SortKeyArg(tuple(key.expr for key in keys), order, span=(start, self.pos))

    def _named(self, word: str) -> str:
        """` word text`: an option of a source, quoted or not."""
        end = self.pos
        text = self.field_name() if self.clause(word) else None
        if text is None:
            self.pos = end
        return text or ""

    def _from_pool(self, start: int) -> ast.Pool | None:
        return self._pool_spec(start) if self.keyword("from") and self.gap() else None

    def _pool(self, start: int) -> ast.Pool | None:
        return self._pool_spec(start) if self.keyword("pool") and self.gap() else None

    def _pool_spec(self, start: int) -> ast.Pool | None:
        name = self._pool_name()
        if name is None:
            meta = self._after(":", _META)
            return ast.Pool(None, "", meta, span=(start, self.pos)) if meta else None
        commit = ""
        if self.at("@"):
            self.pos += 1
            commit = self.match(_COMMIT_TIME) or self._commit_name()
            if not commit:
                return None
        meta = self._after(":", _META)
        end = self.pos
        bounds = None if meta else self._range()
        if bounds is not None:
            return ast.Pool(name, commit, range=bounds, span=(start, self.pos))
        self.pos = end
        tap = bool(self.gap() and self.word("tap"))
        if not tap:
            self.pos = end
        return ast.Pool(name, commit, meta, tap, span=(start, self.pos))

    def _range(self) -> tuple[ast.Expr, ast.Expr] | None:
        """` range x to y`."""
        if not (self.clause("range") and (low := self.expr()) and self.clause("to")):
            return None
        high = self.expr()
        return None if high is None else (low, high)

    def _after(self, mark: str, pattern: re.Pattern[str]) -> str:
        start = self.pos
        if self.mark(mark):
            found = self.match(pattern)
            if found is not None:
                return found
        self.pos = start
        return ""

    def _pool_name(self) -> ast.Text | ast.Glob | ast.Regexp | None:
        start = self.pos
        pattern = self.regexp() or self.glob()
        if pattern is not None:
            return pattern
        if self.mark("*"):
            return ast.Glob("*", span=(start, self.pos))
        quoted = self.quoted()
        if quoted is not None:
            return ast.Text(quoted, True, span=(start, self.pos))
        text = self._pool_text()
        return None if text is None else ast.Text(text, False, span=(start, self.pos))

    def _pool_text(self) -> str | None:
        for pattern in (_POOL_IDENTIFIER, _POOL_ID):
            found = self.match(pattern)
            if found is not None:
                return found
        return self.quoted()

    def _commit_name(self) -> str:
        """A branch, a tag or an id; "" if there is none."""
        return self.match(_COMMIT_NAME) or self.quoted() or ""

    def pass_(self, start: int) -> ast.Pass | None:
        """`pass`."""
        return ast.Pass(span=(start, self.pos)) if self.keyword("pass") else None

    # ---- the others

    def _explode(self, start: int) -> ast.Op | None:
        if not (self.keyword("explode") and self.gap()):
            return None
        args = self.exprs()
        if args is None or not self.clause("by"):
            return None
        typ = self.type()
        if typ is None:
            return None
        end = self.pos
        name = self.deref() if self.clause("as") else None
        if name is None:
            self.pos = end
        return ast.Explode(args, typ, name, span=(start, self.pos))

    def _merge(self, start: int) -> ast.Op | None:
        if self.keyword("merge") and self.gap():
            expr = self.expr()
            if expr is not None:
                return ast.Merge(expr, span=(start, self.pos))
        return None

    def _over(self, start: int) -> ast.Op | None:
        if not (self.keyword("over") and self.gap()):
            return None
        exprs = self.exprs()
        if exprs is None:
            return None
        names = self.locals()
        body = self._lateral()
        return ast.Over(exprs, names, body, span=(start, self.pos))

    def _lateral(self) -> ast.Seq | None:
        """` => ( seq )`, or nothing."""
        end = self.pos
        if self.spaced("=>") and self.mark("("):
            self.space()
            body = self.scoped_sequence()
            if body is not None and self.closed(")"):
                return body
        self.pos = end
        return None

    def scoped_sequence(self) -> ast.Seq | None:
        """Operators, with declarations before them or not."""
        raise NotImplementedError

    def _yield(self, start: int) -> ast.Op | None:
        if self.keyword("yield") and self.gap():
            exprs = self.exprs()
            if exprs is not None:
                return ast.Yield(exprs, span=(start, self.pos))
        return None

    def _load(self, start: int) -> ast.Op | None:
        if not (self.keyword("load") and self.gap()):
            return None
        begin = self.pos
        quoted = self.at('"') or self.at("'")
        pool = self._pool_text()
        if pool is None:
            return None
        name = ast.Text(pool, quoted, span=(begin, self.pos))
        branch = ""
        if self.mark("@"):
            branch = self._commit_name()
        author, message, meta = self._named("author"), self._named("message"), self._named("meta")
        return ast.Load(name, branch, author, message, meta, span=(start, self.pos))

    def _debug(self, start: int) -> ast.Op | None:
        if not self.keyword("debug"):
            return None
        return ast.Debug(self._optional_expr(), span=(start, self.pos))

    def _output(self, start: int) -> ast.Op | None:
        if self.keyword("output") and self.gap():
            name = self.identifier()
            if name is not None:
                return ast.Output(name, span=(start, self.pos))
        return None

    # ---- assignments

    def assignments(self) -> tuple[ast.Assignment, ...] | None:
        """`a:=e, b:=e`."""
        return self.listed(self.assignment)

    def assignment(self) -> ast.Assignment | None:
        """`a:=e`."""
        start = self.pos
        target = self.deref()
        if target is not None and self.spaced(":="):
            expr = self.expr()
            if expr is not None:
                return ast.Assignment(target, expr, span=(start, self.pos))
        self.pos = start
        return None

    def flex_assignments(self) -> tuple[ast.Assignment, ...] | None:
        """`a:=e, b`."""
        return self.listed(self._flex_assignment)

    def _flex_assignment(self) -> ast.Assignment | None:
        start = self.pos
        made = self.assignment()
        if made is not None:
            return made
        expr = self.expr()
        return None if expr is None else ast.Assignment(None, expr, span=(start, self.pos))

    def limit(self) -> int:
        """` with -limit n`."""
        end = self.pos
        if self.clause("with") and self._flag("-limit") and self.gap():
            found = self.match(_UINT)
            if found is not None:
                return int(found)
        self.pos = end
        return 0
