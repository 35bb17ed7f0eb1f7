"""Sources: files, URLs and pools to scans."""

from __future__ import annotations

from shoal.errors import InvalidInput, NotFound, ShoalError, Unsupported
from shoal.lang import ast, plan
from shoal.lang.analyze_expr import Expressions
from shoal.lang.catalog import Catalog, PoolInfo
from shoal.lang.context import Context
from shoal.lang.regexps import compile_regexp, glob_to_regexp
from shoal.model import types as t
from shoal.model.order import compare_values
from shoal.suggestions import did_you_mean


class Sources:
    """Resolves sources."""

    def __init__(self, context: Context, exprs: Expressions, catalog: Catalog) -> None:
        self._context = context
        self._exprs = exprs
        self._catalog = catalog

    def scans(self, node: ast.Source) -> list[plan.Seq]:
        """What to scan, and through which filter; a pattern may name several pools."""
        match node:
            case ast.File(path, form, key):
                return [(plan.FileScan(self._text(path), form or "auto", self._sort_key(key)),)]
            case ast.Get():
                return [(self._http(node),)]
            case ast.Pool():
                return self._pools(node)
            case ast.Pass():
                return [(plan.Pass(),)]

    def default_scan(self) -> plan.Op:
        """What a program without a source reads: the pool that is in use, or its input."""
        if self._catalog.head is None:
            return plan.DefaultScan()
        name, commit = self._catalog.head
        pool = self._catalog.pool(name)
        return plan.PoolScan(pool.id, self._catalog.commit(pool, commit), pool.order)

    def _text(self, node: ast.Text) -> str:
        """A path or name; a bare one may be the name of a constant."""
        if node.quoted:
            return node.text
        with self._context.at(node):
            bound = self._context.scope.lookup_expr(node.text)
            if bound is None:
                return node.text
            if isinstance(bound, plan.Literal) and bound.value.type is t.STRING:
                return str(bound.value.data)
            raise InvalidInput(f"{node.text}: string value required")

    def _sort_key(self, key: ast.SortKeyArg | None) -> tuple[plan.SortKey, ...]:
        if key is None:
            return ()
        order: plan.Order = "desc" if key.order == "desc" else "asc"
        return tuple(plan.SortKey(self._exprs.expr(k), order) for k in key.keys)

    def _http(self, node: ast.Get) -> plan.Op:
        url = self._text(node.url)
        if not url.startswith(("http://", "https://", "s3://")):
            raise self._context.error(f"invalid URL {url}", node.url.span)
        key, form = self._sort_key(node.sort_key), node.format or "auto"
        if url.startswith("s3://"):
            return plan.FileScan(url, form, key)
        headers = () if node.headers is None else self._headers(node.headers)
        return plan.HttpScan(url, form, node.method or "GET", headers, node.body, key)

    def _headers(self, node: ast.RecordExpr) -> tuple[tuple[str, str], ...]:
        value = self._context.constant(self._exprs.expr(node))
        typ = value.type.under
        if not isinstance(typ, t.Record):
            raise self._context.error("headers value must be a record", node.span)
        out: list[tuple[str, str]] = []
        for field, data in zip(typ.fields, value.data or (), strict=True):
            if t.inner_of(field.type) is not t.STRING:
                raise self._context.error("headers field value must be an array or set of strings", node.span)
            out.extend((field.name, text) for text in data or () if text is not None)
        return tuple(out)

    # ---- pools

    def _pools(self, node: ast.Pool) -> list[plan.Seq]:
        try:
            if node.name is None:
                return [(self._lake_meta(node),)]
            if isinstance(node.name, ast.Text):
                return [self._pool(node, self._text(node.name))]
            return [self._pool(node, name) for name in self._matching(node.name)]
        except (NotFound, Unsupported) as e:
            raise self._context.error(str(e), node.span) from e

    def _matching(self, node: ast.Glob | ast.Regexp) -> list[str]:
        is_glob = isinstance(node, ast.Glob)
        with self._context.at(node):
            pattern = compile_regexp(glob_to_regexp(node.pattern) if is_glob else node.pattern)
        names = [pool.name for pool in self._catalog.pools() if pattern.search(pool.name)]
        if not names:
            kind = "glob" if is_glob else "regexp"
            raise self._context.error(f"{node.pattern}: pool matching {kind} not found", node.span)
        return names

    def _lake_meta(self, node: ast.Pool) -> plan.Op:
        if node.meta not in self._catalog.lake_metas():
            hint = did_you_mean(node.meta or "", sorted(self._catalog.lake_metas()))
            raise self._context.error(f'unknown lake metadata type "{node.meta}" in from operator{hint}', node.span)
        return plan.MetaScan(node.meta)

    def _pool(self, node: ast.Pool, name: str) -> plan.Seq:
        commit = node.commit
        if name == "HEAD":
            if self._catalog.head is None:
                self._catalog.pools()
                raise self._context.error("cannot scan from unknown HEAD", (node.name or node).span)
            name, commit = self._catalog.head
        try:
            pool = self._catalog.pool(name)
        except NotFound as e:
            raise self._context.error(str(e), (node.name or node).span) from e
        if node.meta:
            return (self._pool_meta(node, pool, commit),)
        scan = plan.PoolScan(pool.id, self._catalog.commit(pool, commit), pool.order)
        return (scan,) if node.range is None else (scan, self._range(node.range, pool))

    def _range(self, bounds: tuple[ast.Expr, ast.Expr], pool: PoolInfo) -> plan.Op:
        """The filter that a range over the pool key is; either bound may come first, as in a pool that descends."""
        key = pool.order[0].expr
        one, other = (plan.Literal(self._context.constant(self._exprs.expr(bound))) for bound in bounds)
        if compare_values(one.value, other.value) > 0:
            one, other = other, one
        return plan.Filter(plan.Binary("and", plan.Binary(">=", key, one), plan.Binary("<=", key, other)))

    def _pool_meta(self, node: ast.Pool, pool: PoolInfo, commit: str) -> plan.Op:
        if node.since:
            ends = (self._catalog.commit(pool, end) for end in (commit, node.since))
            return plan.MetaScan(node.meta, pool.id, next(ends), node.tap, since=next(ends))
        if node.meta in self._catalog.commit_metas():
            return plan.MetaScan(node.meta, pool.id, self._catalog.commit(pool, commit), node.tap)
        if node.meta in self._catalog.pool_metas():
            return plan.MetaScan(node.meta, pool.id)
        hint = did_you_mean(node.meta, sorted(self._catalog.commit_metas() | self._catalog.pool_metas()))
        raise self._context.error(f'unknown metadata type "{node.meta}"{hint}', node.span)

    def load(self, node: ast.Load) -> plan.Op:
        """A load into a pool."""
        try:
            pool = self._catalog.pool(self._text(node.pool))
        except Unsupported:
            raise self._context.error("load operator cannot be used without a lake", node.span) from None
        except ShoalError as e:
            raise self._context.error(str(e), node.span) from e
        return plan.Load(pool.id, node.branch, node.author, node.message, node.meta)
