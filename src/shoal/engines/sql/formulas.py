"""Expressions without SQL, as functions of columns: an engine has the interpreter compute them, and goes on in SQL.

A call of such a function is a piece of SQL like any other until a query is made. There each one becomes a column of
a query inside, so that it is computed once for a row, however often its value is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeAlias

from sqlglot import exp

from shoal.engines.interp.engine import evaluate
from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Outcome, Outcomes, Rec, always, const, narrowed
from shoal.formats.columns.layouts import physical_names
from shoal.lang import plan
from shoal.lang.recursion import deep_frames
from shoal.lang.rules.project_fields import paths_in
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value

CODE = "code"
"""The part of a result that says which of several it is; the others are named by their indexes."""


@frozen
class Column:
    """A value that is an argument of a formula, in its physical form."""

    type: t.Type
    position: int


@frozen
class Record:
    """A record whose fields are arguments."""

    type: t.Type
    fields: tuple[Input, ...]
    valid: int | None
    """The argument that says whether it is not null; None if it never is null."""


Input: TypeAlias = Column | Record | Const
Result: TypeAlias = t.Type | Value
"""What may come out of a formula: anything of a type, or one known value."""


@frozen
class Formula:
    """An expression, how the current value is put together from arguments, and what may come out."""

    expr: plan.Expr
    this: Input
    results: tuple[Result, ...]


_DEEPEST = 4
"""How deep formulas nest: each is used several times in the one around it, so that SQL doubles with each level."""


class Computed(exp.Anonymous):
    """A call of a formula."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "formula": True, "depth": True}

    @property
    def formula(self) -> Formula:
        """What is called."""
        formula = self.args["formula"]
        assert isinstance(formula, Formula)
        return formula


def computed(expr: plan.Expr, this: Node, results: Iterable[Result]) -> Outcomes:
    """What the interpreter computes of a row, given all results that it may have."""
    possible = tuple(dict.fromkeys(results))
    if any(isinstance(input_, t.Type) and is_text_error(input_) for input_ in possible):
        raise NotColumnar("an error of any text")
    if len(possible) == 1 and isinstance(possible[0], Value):
        return const(possible[0])
    sqls: list[Sql] = []
    paths = paths_in(expr)
    input_ = _input(this if paths is None else narrowed(this, paths), sqls)
    if not sqls:
        return const(evaluate(expr, this=_known(input_)))
    depth = 1 + max((call.args["depth"] for sql in sqls for call in sql.find_all(Computed)), default=0)
    if depth > _DEEPEST:
        raise NotColumnar("formulas of formulas")
    sql = Computed(this=_name(expr), expressions=sqls, formula=Formula(expr, input_, possible), depth=depth)
    if len(possible) == 1:
        return always(node_of(possible[0], sql))
    code = build.call("struct_extract", sql, build.text(CODE))
    return tuple(
        Outcome(
            build.binary("=", code, build.integer(index)),
            node_of(input_, build.call("struct_extract", sql, build.text(str(index)))),
        )
        for index, input_ in enumerate(possible)
    )


def is_text_error(typ: t.Type) -> bool:
    """Whether values of a type are errors of a mere text. Some of these have a meaning, so the text has to be known."""
    under = typ.under
    return isinstance(under, t.Error) and under.inner.under is t.STRING


def _name(expr: plan.Expr) -> str:
    return f"zed_{expr.name if isinstance(expr, plan.Call) else type(expr).__name__.lower()}"


def _input(node: Node, sqls: list[Sql]) -> Input:
    """A value as arguments, which are added to those before."""
    match node:
        case Const():
            return node
        case Leaf(typ, sql):
            return Column(typ, _place(sql, sqls))
        case Rec(typ, fields, valid):
            index = None if valid is None else _place(valid, sqls)
            return Record(typ, tuple(_input(f, sqls) for f in fields), index)


def _known(input_: Input) -> Value:
    """A value without arguments."""
    if isinstance(input_, Const):
        return input_.value
    assert isinstance(input_, Record)
    return Value(input_.type, tuple(_known(f).data for f in input_.fields))


def _place(sql: Sql, sqls: list[Sql]) -> int:
    if sql not in sqls:
        sqls.append(sql)
    return sqls.index(sql)


def node_of(result: Result, sql: Sql) -> Node:
    """A result in its physical form, the fields of records as values of their own."""
    if isinstance(result, Value):
        return Const(result)
    under = result.under
    if under is t.NULL:
        return Const(Value(result, None))
    if not isinstance(under, t.Record):
        return Leaf(result, sql)
    parts = zip(under.fields, physical_names(under), strict=True)
    fields = tuple(node_of(f.type, build.call("struct_extract", sql, build.text(name))) for f, name in parts)
    return Rec(result, fields, build.is_present(sql))


# ---- queries inside


def is_computed(sql: Cond) -> bool:
    """Whether there is a formula in it."""
    return isinstance(sql, exp.Expr) and sql.find(Computed) is not None


def select(source: Sql, columns: Sequence[tuple[str, Sql]], where: Cond) -> exp.Select:
    """A query for some columns of those rows of a source that meet a condition."""
    if not is_computed(where) and not any(is_computed(sql) for _, sql in columns):
        return _plain_select(source, columns, where)
    with deep_frames():
        source, columns, where = _with_computed(source, columns, where)
    return _plain_select(source, columns, where)


def _with_computed(
    source: Sql, columns: Sequence[tuple[str, Sql]], where: Cond
) -> tuple[Sql, Sequence[tuple[str, Sql]], Cond]:
    """A source that computes the formulas in a condition, then those in columns; and what these are over it."""
    names, sqls = [name for name, _ in columns], [sql for _, sql in columns]
    first, where = _split(where)
    while isinstance(where, exp.Expr) and is_computed(where):
        source, (where, *sqls) = _computed_first(source, first, [where, *sqls], _ready([where]))
        first = True
    where = build.both(first, where)
    while ready := _ready(sqls):
        source, sqls = _computed_first(source, where, sqls, ready)
        where = True
    return source, list(zip(names, sqls, strict=True)), where


def _plain_select(source: Sql, columns: Sequence[tuple[str, Sql]], where: Cond) -> exp.Select:
    query = exp.select(*(exp.alias_(sql, name, quoted=True, copy=False) for name, sql in columns), copy=False)
    query = query.from_(source, copy=False)
    if where is True:
        return query
    return query.where(build.known(where) if isinstance(where, bool) else where, copy=False)


def _split(where: Cond) -> tuple[Cond, Cond]:
    """The parts of a condition without formulas, and those with some."""
    parts = list(where.flatten()) if isinstance(where, exp.And) else [where]
    return (
        build.both(*(part for part in parts if not is_computed(part))),
        build.both(*(part for part in parts if is_computed(part))),
    )


def _ready(sqls: Iterable[Sql]) -> list[Computed]:
    """The formulas whose arguments hold no others."""
    calls = dict.fromkeys(call for sql in sqls for call in sql.find_all(Computed))
    return [call for call in calls if not any(is_computed(arg) for arg in call.expressions)]


def _computed_first(source: Sql, where: Cond, sqls: list[Sql], calls: list[Computed]) -> tuple[Sql, list[Sql]]:
    """A source that has these calls as columns beside those that it needs, and pieces of SQL over it."""
    names: dict[Sql, str] = {call: f"f{i}" for i, call in enumerate(calls)}

    def over(node: Sql) -> Sql:
        if isinstance(node, exp.Lambda):
            return node.copy()  # what looks like a column there is an element of a list
        if isinstance(node, exp.Column) or node in names:
            return build.column(names.setdefault(node, f"x{len(names)}"))
        return node

    outer = [sql.transform(over) for sql in sqls]
    inner = _plain_select(source, [(name, sql) for sql, name in names.items()], where)
    return inner.subquery("computed", copy=False), outer
