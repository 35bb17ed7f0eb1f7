"""Programs as text, each operator on a line of its own with its keyword: the canonical form.

Whether a lone call is a function or an operator of the user's own cannot be decided here: it stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from shoal.lang import ast
from shoal.lang.aggregates import is_aggregate
from shoal.lang.functions import is_boolean
from shoal.lang.print_expr import ExprPrinter, Level, field_name, identifier, level_of, print_type
from shoal.model.literals import quote

_LIKE_SORT_FLAG = re.compile(r"-(?:r|nulls)(?!\w)")
_POOL_WORD = re.compile(r"(?:[^\W\d]|[$.])[\w$.]*|[0-9a-zA-Z]+")


def print_program(seq: ast.Seq) -> str:
    """The canonical text of a program, without a newline at its end."""
    return _scoped(seq, "")


def print_expr(expr: ast.Expr) -> str:
    """The canonical text of an expression."""
    return _at("").expr(expr)


# ---- operators without their keyword


def explicit(op: ast.OpExpr | ast.OpAssignment) -> ast.Op:
    """The operator with its keyword, as far as the syntax alone decides which it is."""
    if isinstance(op, ast.OpAssignment):
        return _explicit_assignment(op)
    agg = _aggregate(op.expr)
    if agg is not None:
        return ast.Summarize((ast.Assignment(None, agg, span=op.span),), (), span=op.span)
    if _is_search(op.expr):
        return ast.Search(op.expr, span=op.span)
    if _is_boolean(op.expr):
        return ast.Where(op.expr, span=op.span)
    return op if _is_unknown(op.expr) else ast.Yield((op.expr,), span=op.span)


def _explicit_assignment(op: ast.OpAssignment) -> ast.Put | ast.Summarize:
    aggs = tuple(replace(a, expr=agg) for a in op.assignments if (agg := _aggregate(a.expr)) is not None)
    if len(aggs) == len(op.assignments):
        return ast.Summarize(aggs, (), span=op.span)
    return ast.Put(op.assignments, span=op.span)


def _aggregate(expr: ast.Expr) -> ast.Agg | None:
    """The aggregate that a call means; `max` of two values is a function."""
    if isinstance(expr, ast.Call) and is_aggregate(expr.name) and len(expr.args) <= 1:
        return ast.Agg(expr.name, expr.args[0] if expr.args else None, expr.where, span=expr.span)
    return None


def _is_search(expr: ast.Expr) -> bool:
    match expr:
        case ast.Regexp() | ast.Glob() | ast.Term():
            return True
        case ast.Binary(op="and" | "or"):
            return _is_search(expr.left) or _is_search(expr.right)
        case ast.Unary(op="!"):
            return _is_search(expr.operand)
        case _:
            return False


def _is_boolean(expr: ast.Expr) -> bool:
    match expr:
        case ast.Primitive(type="bool") | ast.Grep():
            return True
        case ast.Cast(type=ast.TypeValue(type=ast.TypePrimitive(name="bool"))):
            return True
        case ast.Unary(op="!"):
            return _is_boolean(expr.operand)
        case ast.Binary():
            return level_of(expr) <= Level.COMPARISON
        case ast.Conditional():
            return _is_boolean(expr.then) and _is_boolean(expr.otherwise)
        case ast.Call():
            return is_boolean(expr.name)
        case _:
            return False


def _is_unknown(expr: ast.Expr) -> bool:
    """Whether a declaration may make it boolean: a call, or what is as boolean as the calls in it."""
    match expr:
        case ast.Call():
            return True
        case ast.Unary(op="!"):
            return _is_unknown(expr.operand)
        case ast.Conditional():
            return all(_is_boolean(value) or _is_unknown(value) for value in (expr.then, expr.otherwise))
        case _:
            return False


# ---- sequences and declarations


def _at(margin: str) -> ExprPrinter:
    return ExprPrinter(_seq, margin)


def _seq(seq: ast.Seq, margin: str) -> str:
    return f"\n{margin}| ".join(_op(op, margin) for op in seq)


def _scoped(seq: ast.Seq, margin: str) -> str:
    """Operators where declarations may come before them without parentheses."""
    match seq:
        case (ast.Scope() as scope,):
            return _scope(scope, margin)
        case _:
            return _seq(seq, margin)


def _scope(scope: ast.Scope, margin: str) -> str:
    body = _seq(scope.body, margin)
    *decls, last = scope.decls
    lines = [*(_decl(decl, margin, "") for decl in decls), _decl(last, margin, body), body]
    return f"\n{margin}".join(lines)


def _decl(decl: ast.Decl, margin: str, following: str) -> str:
    match decl:
        case ast.ConstDecl():
            return f"const {identifier(decl.name)} = {_const_value(_at(margin).expr(decl.expr), following)}"
        case ast.FuncDecl():
            body = _at(f"{margin}  ").expr(decl.body)
            return f"func {identifier(decl.name)}({_names(decl.params)}): {_block(body, margin)}"
        case ast.OpDecl():
            body = _scoped(decl.body, f"{margin}  ")
            return f"op {identifier(decl.name)}({_names(decl.params)}): {_block(body, margin)}"
        case ast.TypeDecl():
            return f"type {field_name(decl.name)} = {print_type(decl.type)}"
        case _:
            assert_never(decl)


def _const_value(text: str, following: str) -> str:
    """The value of a constant, in parentheses if it would go on in the operator that follows."""
    goes_on = following.startswith("(") or (following.startswith("where ") and text.endswith(")"))
    return f"({text})" if goes_on else text


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(identifier, names))


def _block(text: str, margin: str) -> str:
    """Parentheses around lines that begin further in."""
    return f"(\n{margin}  {text}\n{margin})"


def _legs(legs: Sequence[tuple[str, ast.Seq | None]], margin: str) -> str:
    """Parentheses around legs: what each begins with, and its operators further in."""
    inner = f"{margin}    "
    texts = (head if body is None else f"{head}\n{inner}{_seq(body, inner)}" for head, body in legs)
    return _block(f"\n{margin}  ".join(texts), margin)


# ---- operators


def _op(op: ast.Op, margin: str) -> str:
    at, further = _at(margin), _at(f"{margin}  ")
    match op:
        case ast.OpExpr() | ast.OpAssignment():
            meant = explicit(op)
            return at.expr(meant.expr) if isinstance(meant, ast.OpExpr) else _op(meant, margin)
        case ast.Scope():
            return _block(_scope(op, further.margin), margin)
        case ast.Fork():
            return f"fork {_legs([('=>', leg) for leg in op.legs], margin)}"
        case ast.Switch():
            return f"switch{_optional(op.expr, at)} {_cases(op.cases, margin)}"
        case ast.From():
            return f"from {_trunks(op.trunks, margin)}"
        case ast.Pool():
            return f"from {_pool(op)}"
        case ast.File() | ast.Get() | ast.Pass():
            return _source(op, at)
        case ast.Summarize():
            return f"summarize\n{margin}    {_summary(op, _at(f'{margin}    '))}"
        case ast.Search():
            return f"search {further.search(op.expr)}"
        case ast.Where():
            return f"where {further.expr(op.expr)}"
        case ast.Assert():
            return f"assert {op.text}"  # as it was written: the text is in the error that the operator makes
        case ast.Sort():
            return _sort(op, at)
        case ast.Top():
            return _top(op, at)
        case ast.Cut():
            return f"cut {at.assignments(op.args)}"
        case ast.Drop():
            return f"drop {at.exprs(op.args, Level.POSTFIX)}"
        case ast.Head():
            return f"head{_optional(op.count, further)}"
        case ast.Tail():
            return f"tail{_optional(op.count, further)}"
        case ast.Uniq():
            return "uniq -c" if op.count else "uniq"
        case ast.Put():
            return f"put {at.assignments(op.args)}"
        case ast.Rename():
            return f"rename {at.assignments(op.args)}"
        case ast.Fuse():
            return "fuse"
        case ast.Shape():
            return "shape"
        case ast.Join():
            return _join(op, at)
        case ast.Sample():
            return f"sample{_optional(op.expr, at, Level.POSTFIX)}"
        case ast.Load():
            return f"load {_text(op.pool)}{_mark('@', op.branch)}{_load_options(op)}"
        case ast.Explode():
            name = "" if op.name is None else f" as {at.expr(op.name, Level.POSTFIX)}"
            return f"explode {at.exprs(op.args)} by {print_type(op.type)}{name}"
        case ast.Merge():
            return f"merge {at.expr(op.expr)}"
        case ast.Over():
            body = "" if op.body is None else f" => {_block(_scoped(op.body, further.margin), margin)}"
            return f"over {at.exprs(op.exprs)}{at.with_clause(op.locals)}{body}"
        case ast.Yield():
            return f"yield {at.exprs(op.exprs)}"
        case ast.Debug():
            return f"debug{_optional(op.expr, at)}"
        case ast.Output():
            return f"output {identifier(op.name)}"
        case _:
            assert_never(op)


def _optional(expr: ast.Expr | None, at: ExprPrinter, level: Level = Level.CONDITIONAL) -> str:
    return "" if expr is None else f" {at.expr(expr, level)}"


def _cases(cases: Sequence[ast.Case], margin: str) -> str:
    at = _at(f"{margin}  ")
    heads = ("default" if case.expr is None else f"case {at.expr(case.expr)}" for case in cases)
    return _legs([(f"{head} =>", case.body) for head, case in zip(heads, cases, strict=True)], margin)


def _trunks(trunks: Sequence[ast.Trunk], margin: str) -> str:
    at = _at(f"{margin}  ")
    heads = (_source(trunk.source, at) + ("" if trunk.body is None else " =>") for trunk in trunks)
    return _legs([(head, trunk.body) for head, trunk in zip(heads, trunks, strict=True)], margin)


def _summary(op: ast.Summarize, at: ExprPrinter) -> str:
    keys = f"by {at.assignments(op.keys)}" if op.keys else ""
    limit = f"with -limit {op.limit}" if op.limit else ""
    return " ".join(filter(None, (at.assignments(op.aggs), keys, limit)))


def _sort(op: ast.Sort, at: ExprPrinter) -> str:
    texts = [at.expr(key.expr) for key in op.keys]
    if texts and _LIKE_SORT_FLAG.match(texts[0]):
        texts[0] = f"({texts[0]})"
    keys = ", ".join(f"{text} {key.order}".rstrip() for text, key in zip(texts, op.keys, strict=True))
    flags = ("-r" if op.reverse else "", "-nulls first" if op.nulls_first else "")
    return " ".join(filter(None, ("sort", *flags, keys)))


def _top(op: ast.Top, at: ExprPrinter) -> str:
    keys = at.exprs(op.keys, Level.POSTFIX)
    limit = "" if op.limit is None else _beside(at.expr(op.limit), keys)
    return " ".join(filter(None, ("top", limit, "-flush" if op.flush else "", keys)))


def _join(op: ast.Join, at: ExprPrinter) -> str:
    style = "" if op.style == "inner" else f"{op.style} "
    right = "" if op.right is None else f"{_block(_seq(op.right, f'{at.margin}  '), at.margin)} "
    args = at.assignments(op.args)
    keys = [at.expr(key, Level.POSTFIX) for key in (op.left_key, op.right_key) if key is not None]
    keys[-1] = _beside(keys[-1], args)
    return f"{style}join {right}on {'='.join(keys)} {args}".rstrip()


def _beside(text: str, following: str) -> str:
    """An expression that is not a call of what follows it."""
    return f"({text})" if following.startswith("(") else text


# ---- sources


def _source(source: ast.Source, at: ExprPrinter) -> str:
    match source:
        case ast.File():
            return f"file {_text(source.path)}{_format(source, at)}"
        case ast.Get():
            method, body = (field_name(text) if text else "" for text in (source.method, source.body))
            options = f"{_clause('method', method)}{_headers(source, at)}{_clause('body', body)}"
            return f"get {_text(source.url)}{_format(source, at)}{options}"
        case ast.Pool():
            return f"pool {_pool(source)}"
        case ast.Pass():
            return "pass"
        case _:
            assert_never(source)


def _text(text: ast.Text) -> str:
    return quote(text.text) if text.quoted else text.text


def _clause(word: str, text: str) -> str:
    return f" {word} {text}" if text else ""


def _mark(mark: str, text: str) -> str:
    """A part of a pool's address after its mark."""
    if not text:
        return ""
    return f"{mark}{text if _POOL_WORD.fullmatch(text) else quote(text)}"


def _format(source: ast.File | ast.Get, at: ExprPrinter) -> str:
    form = _clause("format", identifier(source.format) if source.format else "")
    if source.sort_key is None:
        return form
    order = "" if source.sort_key.order == "asc" else f" {source.sort_key.order}"
    return form + _clause("order", ", ".join(f"{at.expr(key)}{order}" for key in source.sort_key.keys))


def _headers(source: ast.Get, at: ExprPrinter) -> str:
    return "" if source.headers is None else f" headers {at.expr(source.headers)}"


def _pool(pool: ast.Pool) -> str:
    match pool.name:
        case None:
            name = ""
        case ast.Text():
            name = _text(pool.name)
        case ast.Glob() | ast.Regexp():
            name = print_expr(pool.name)
        case _:
            assert_never(pool.name)
    span = "" if pool.range is None else " range {} to {}".format(*map(print_expr, pool.range))
    return f"{name}{_commits(pool)}{_mark(':', pool.meta)}{span}{' tap' if pool.tap else ''}"


def _commits(pool: ast.Pool) -> str:
    if pool.since is None:
        return f"@{quote(pool.commit)}" if ".." in pool.commit and pool.meta == "changes" else _mark("@", pool.commit)
    ends = (quote(end) if ".." in end or end.endswith(".") else _mark("", end) for end in (pool.since, pool.commit))
    return "@{}..{}".format(*ends)


def _load_options(op: ast.Load) -> str:
    options = {"author": op.author, "message": op.message, "meta": op.meta}
    return "".join(f" {word} {quote(text)}" for word, text in options.items() if text)
