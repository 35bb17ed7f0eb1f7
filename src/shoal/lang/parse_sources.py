"""Sources of data: files, URLs and pools, and `load`, which names a pool as well."""

from __future__ import annotations

import re

from shoal.lang import ast
from shoal.lang.parse_expr import Expressions
from shoal.lang.scanner import Scanner

_PATH = re.compile(r"[0-9a-zA-Z!@$%^&*_=<>,./?:\[\]{}~+-]+")
_META = re.compile(r"(?:[^\W\d]|[$.])[\w$.]*")
_POOL_IDENTIFIER = re.compile(r"(?:[^\W\d]|[$.])[\w$.]*(?:-[\w$.]+)*")
_COMMIT_NAME = re.compile(r"[\w$.]+(?:[-/][\w$.]+)*")
_POOL_ID = re.compile(r"[0-9a-zA-Z]+")
_END_OF_RANGE = re.compile(r"(?:[\w$]|\.(?!\.))+(?:[-/](?:[\w$]|\.(?!\.))+)*")
"""A commit in `since..until`: the same without two dots."""
_CHANGES = "changes"
_COMMIT_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


class Sources:
    """Sources, each by its keyword."""

    def __init__(self, scan: Scanner, exprs: Expressions) -> None:
        self.scan = scan
        self._exprs = exprs
        self._literals = exprs.literals

    def source(self) -> ast.Source | None:
        """A source inside `from ( )`."""
        scan = self.scan
        start = scan.pos
        for parse in (self.file, self.get, self._pool, self.pass_):
            source: ast.Source | None = parse(start)
            if source is not None:
                return source
            scan.pos = start
        return None

    def file(self, start: int) -> ast.File | None:
        """`file path`."""
        scan = self.scan
        if scan.keyword("file") and scan.gap():
            path = self._path()
            if path is not None:
                return ast.File(path, self._format(), self._order(), span=(start, scan.pos))
        return None

    def get(self, start: int) -> ast.Get | None:
        """`get url`."""
        scan = self.scan
        if not (scan.keyword("get") and scan.gap()):
            return None
        url = self._path()
        if url is None:
            return None
        form, order, method = self._format(), self._order(), self._named("method")
        headers = None
        end = scan.pos
        if scan.clause("headers"):
            headers = self._exprs.record()
        if headers is None:
            scan.pos = end
        body = self._named("body")
        return ast.Get(url, form, order, method, headers, body, span=(start, scan.pos))

    def _path(self) -> ast.Text | None:
        scan = self.scan
        start = scan.pos
        quoted = scan.quoted()
        if quoted is not None:
            return ast.Text(quoted, True, span=(start, scan.pos))
        bare = scan.match(_PATH)
        return None if bare is None else ast.Text(bare, False, span=(start, scan.pos))

    def _format(self) -> str:
        scan = self.scan
        end = scan.pos
        name = scan.identifier() if scan.clause("format") else None
        if name is None:
            scan.pos = end
        return name or ""

    def _order(self) -> ast.SortKeyArg | None:
        scan = self.scan
        start = scan.pos
        keys = self._exprs.sort_keys() if scan.clause("order") else None
        if keys is None:
            scan.pos = start
            return None
        order = keys[0].order or "asc"
        return ast.SortKeyArg(tuple(key.expr for key in keys), order, span=(start, scan.pos))

    def _named(self, word: str) -> str:
        """` word text`: an option of a source, quoted or not."""
        scan = self.scan
        end = scan.pos
        text = scan.field_name() if scan.clause(word) else None
        if text is None:
            scan.pos = end
        return text or ""

    def from_pool(self, start: int) -> ast.Pool | None:
        """`from pool`."""
        scan = self.scan
        return self._pool_spec(start) if scan.keyword("from") and scan.gap() else None

    def _pool(self, start: int) -> ast.Pool | None:
        scan = self.scan
        return self._pool_spec(start) if scan.keyword("pool") and scan.gap() else None

    def _pool_spec(self, start: int) -> ast.Pool | None:
        scan = self.scan
        name = self._pool_name()
        if name is None:
            meta = self._after(":", _META)
            return ast.Pool(None, "", meta, span=(start, scan.pos)) if meta else None
        commit = ""
        if scan.at("@"):
            scan.pos += 1
            ends = self._commit_range()
            if ends is not None:
                return ast.Pool(name, ends[1], _CHANGES, since=ends[0], span=(start, scan.pos))
            commit = scan.match(_COMMIT_TIME) or self._commit_name()
            if not commit:
                return None
        meta = self._after(":", _META)
        end = scan.pos
        bounds = None if meta else self._range()
        if bounds is not None:
            return ast.Pool(name, commit, range=bounds, span=(start, scan.pos))
        scan.pos = end
        tap = bool(scan.gap() and scan.word("tap"))
        if not tap:
            scan.pos = end
        return ast.Pool(name, commit, meta, tap, span=(start, scan.pos))

    def _commit_range(self) -> tuple[str, str] | None:
        """`since..until:changes`; None for anything else, such as the name of a branch with two dots in it."""
        scan = self.scan
        start = scan.pos
        since = self._end_of_range()
        if scan.mark(".."):
            until = self._end_of_range()
            if self._after(":", _META) == _CHANGES:
                return since, until
        scan.pos = start
        return None

    def _end_of_range(self) -> str:
        scan = self.scan
        return scan.match(_COMMIT_TIME) or scan.match(_END_OF_RANGE) or scan.quoted() or ""

    def _range(self) -> tuple[ast.Expr, ast.Expr] | None:
        """` range x to y`."""
        scan = self.scan
        if not (scan.clause("range") and (low := self._exprs.expr()) and scan.clause("to")):
            return None
        high = self._exprs.expr()
        return None if high is None else (low, high)

    def _after(self, mark: str, pattern: re.Pattern[str]) -> str:
        scan = self.scan
        start = scan.pos
        if scan.mark(mark):
            text = scan.match(pattern)
            if text is not None:
                return text
        scan.pos = start
        return ""

    def _pool_name(self) -> ast.Text | ast.Glob | ast.Regexp | None:
        scan = self.scan
        start = scan.pos
        pattern = self._literals.regexp() or self._literals.glob()
        if pattern is not None:
            return pattern
        if scan.mark("*"):
            return ast.Glob("*", span=(start, scan.pos))
        quoted = scan.quoted()
        if quoted is not None:
            return ast.Text(quoted, True, span=(start, scan.pos))
        text = self._pool_text()
        return None if text is None else ast.Text(text, False, span=(start, scan.pos))

    def _pool_text(self) -> str | None:
        scan = self.scan
        for pattern in (_POOL_IDENTIFIER, _POOL_ID):
            text = scan.match(pattern)
            if text is not None:
                return text
        return scan.quoted()

    def _commit_name(self) -> str:
        """A branch, a tag or an id; "" if there is none."""
        scan = self.scan
        return scan.match(_COMMIT_NAME) or scan.quoted() or ""

    def pass_(self, start: int) -> ast.Pass | None:
        """`pass`."""
        scan = self.scan
        return ast.Pass(span=(start, scan.pos)) if scan.keyword("pass") else None

    def load(self, start: int) -> ast.Load | None:
        """`load pool`."""
        scan = self.scan
        if not (scan.keyword("load") and scan.gap()):
            return None
        begin = scan.pos
        quoted = scan.at('"') or scan.at("'")
        pool = self._pool_text()
        if pool is None:
            return None
        name = ast.Text(pool, quoted, span=(begin, scan.pos))
        branch = ""
        if scan.mark("@"):
            branch = self._commit_name()
        author, message, meta = self._named("author"), self._named("message"), self._named("meta")
        return ast.Load(name, branch, author, message, meta, span=(start, scan.pos))
