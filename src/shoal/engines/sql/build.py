"""Small pieces of SQL, as trees. Conditions that are known fold away: they are Python's own True and False."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from sqlglot import exp

Sql: TypeAlias = exp.Expr
Cond: TypeAlias = Sql | bool
"""A condition. Where it stands alone, NULL is as good as false."""

TRUE, FALSE, NULL = exp.true(), exp.false(), exp.null()


def column(name: str) -> Sql:
    """A column by its name."""
    return exp.column(exp.to_identifier(name, quoted=True))


def nested(names: Sequence[str]) -> Sql:
    """A column inside of structs, by their names and its own."""
    sql = column(names[0])
    for name in names[1:]:
        sql = call("struct_extract", sql, text(name))
    return sql


def call(name: str, *args: Sql) -> Sql:
    """A function of the engine, called by its own name."""
    return exp.Anonymous(this=name, expressions=list(args))


def part(sql: Sql, name: str) -> Sql:
    """A part of a struct."""
    return call("struct_extract", sql, text(name))


def text(value: str) -> Sql:
    """A string."""
    return exp.Literal.string(value)


def integer(value: int) -> Sql:
    """A whole number."""
    return exp.Neg(this=exp.Literal.number(-value)) if value < 0 else exp.Literal.number(value)


def cast(sql: Sql, kind: str) -> Sql:
    """A value as another type."""
    return exp.Cast(this=sql, to=exp.DataType.build(kind, dialect="duckdb"))


def try_cast(sql: Sql, kind: str) -> Sql:
    """A value as another type, or NULL if it cannot be cast."""
    return exp.TryCast(this=sql, to=exp.DataType.build(kind, dialect="duckdb"))


def null(kind: str) -> Sql:
    """No value of a type."""
    return cast(NULL.copy(), kind)


def binary(op: str, a: Sql, b: Sql) -> Sql:
    """Two operands and what is between them."""
    return _BINARY[op](this=exp.paren(a, copy=False), expression=exp.paren(b, copy=False))


_BINARY: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "%": exp.Mod, "//": exp.IntDiv,
}  # fmt: skip


def divided(a: Sql, b: Sql) -> Sql:
    """The quotient of two fractions."""
    return exp.Div(this=exp.paren(a, copy=False), expression=exp.paren(b, copy=False), typed=False, safe=False)


def minus(sql: Sql) -> Sql:
    """A number with the other sign."""
    return exp.Neg(this=exp.paren(sql, copy=False))


def both(*conditions: Cond) -> Cond:
    """Whether all hold."""
    open_ones = [c for c in conditions if c is not True]
    if any(c is False for c in open_ones):
        return False
    sqls = list(dict.fromkeys(c for c in open_ones if not isinstance(c, bool)))
    return exp.and_(*sqls, copy=False) if sqls else True


def either(*conditions: Cond) -> Cond:
    """Whether one holds."""
    open_ones = [c for c in conditions if c is not False]
    if any(c is True for c in open_ones):
        return True
    sqls = list(dict.fromkeys(c for c in open_ones if not isinstance(c, bool)))
    return exp.or_(*sqls, copy=False) if sqls else False


def negated(condition: Cond) -> Cond:
    """Whether it does not hold; NULL counts as not holding."""
    if isinstance(condition, bool):
        return not condition
    return exp.not_(known(condition), copy=False)


def known(condition: Cond) -> Sql:
    """A condition that is never NULL."""
    if isinstance(condition, bool):
        return exp.true() if condition else exp.false()
    if isinstance(condition, exp.Is | exp.Not):
        return condition
    return exp.Coalesce(this=condition, expressions=[exp.false()])


def is_null(sql: Sql) -> Sql:
    """Whether there is no value."""
    return exp.Is(this=exp.paren(sql, copy=False), expression=exp.null())


def is_present(sql: Sql) -> Sql:
    """Whether there is a value."""
    return exp.not_(is_null(sql), copy=False)


def is_nan(sql: Sql) -> Sql:
    """Whether a float is NaN. DuckDB's own `isnan` trusts the statistics of files, which ignore NaN."""
    parts = (binary("=", call(name, sql), FALSE.copy()) for name in ("isfinite", "isinf"))
    return exp.and_(*parts, copy=False)


def among(sql: Sql, numbers: Iterable[int]) -> Sql:
    """Whether a whole number is one of these."""
    values = sorted(numbers)
    if len(values) == 1:
        return binary("=", sql, integer(values[0]))
    return exp.In(this=sql, expressions=[integer(n) for n in values])


def or_zero(sql: Sql, zero: Sql) -> Sql:
    """The value, or a default where there is none."""
    return exp.Coalesce(this=sql, expressions=[zero])


def choose(cases: Sequence[tuple[Cond, Sql]], otherwise: Sql | None = None) -> Sql:
    """The value of the first condition that holds."""
    case = exp.Case(ifs=[], default=otherwise)
    for condition, value in cases:
        if condition is True:
            if not case.args["ifs"]:
                return value
            case.set("default", value)
            return case
        if condition is not False:
            case.args["ifs"].append(exp.If(this=condition, true=value))
    if not case.args["ifs"]:
        return exp.null() if otherwise is None else otherwise
    return case
