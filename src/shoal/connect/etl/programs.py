"""The text of programs: pieces that a user wrote, checked one by one, put into what the lake is asked.

A piece is checked alone before it is put between parentheses, so it cannot reach beyond them. Errors name the setting,
with line and column in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from shoal.connect.etl.seqnos import Leg
from shoal.engines.interp.engine import evaluate
from shoal.errors import InvalidInput
from shoal.lang import ast
from shoal.lang.aggregates import AGGREGATES
from shoal.lang.compile import compile_source
from shoal.lang.parser import parse_source
from shoal.lang.printer import explicit, print_expr
from shoal.lang.source import Part, Source
from shoal.lang.walk import nodes
from shoal.model.literals import quote


def require_program(text: str, where: str) -> str:
    """A program that compiles; InvalidInput with its position if it does not."""
    compile_source(Source([Part(where, text)]), evaluate)
    return text


def require_expression(text: str, where: str) -> str:
    """A single expression that compiles; InvalidInput with its position if it does not."""
    source = Source([Part("", "yield"), Part(where, text)])
    tree = parse_source(source)
    match tree:
        case (ast.Yield((_,)),):
            compile_source(source, evaluate)
            return text
    raise InvalidInput(f"{where}: expecting a single expression, not {text!r}")


def require_compiled(text: str, where: str) -> None:
    """InvalidInput if pieces that compile alone do not compile together."""
    try:
        compile_source(Source([Part("", text)]), evaluate)
    except InvalidInput as e:
        raise InvalidInput(f"{where}: {e}") from None


def within(text: str) -> str:
    """A piece between parentheses, also if it ends with a comment."""
    return f"({text}\n)"


def is_topic(topics: Iterable[str]) -> str:
    """A condition: records of any of these topics."""
    return within(" or ".join(f"kafka.topic=={quote(topic)}" for topic in topics))


def holds(condition: str) -> str:
    """A condition that is false where the given one is an error, null or no boolean, as in `where`."""
    return f"(is({within(condition)},<bool>) and {within(condition)})"


def each_of(condition: str, others: Iterable[str]) -> str:
    """A condition: what one takes, and none of the others, which are asked first."""
    return " and ".join([within(condition), *(f"not {holds(other)}" for other in others)])


def running(expression: str) -> tuple[list[str], str]:
    """The aggregates of an expression, and the expression with their names, `shoal_0` and so on, in their place.

    In an expression, an aggregate runs along the values that it is computed for. `and`, `or` and `? :` leave out what
    does not matter, so an aggregate within them would miss values.
    """
    tree = parse_source(Source([Part("", f"yield {within(expression)}")]))
    match tree:
        case (ast.Yield((parsed,)),):
            aggregates: list[str] = []
            return aggregates, print_expr(_without_aggregates(parsed, aggregates))
    raise AssertionError("it was checked before")


def _without_aggregates(part: Any, aggregates: list[str]) -> Any:
    """A part of an expression with names in place of its aggregates; those of queries within it are not ours."""
    match part:
        case ast.OverExpr():
            return part
        case ast.Agg() | ast.Call(args=() | (_,)) if part.name in AGGREGATES:
            aggregates.append(print_expr(part))
            return ast.Id(f"shoal_{len(aggregates) - 1}")
        case tuple():
            return tuple(_without_aggregates(item, aggregates) for item in part)
        case ast.Node():
            changes = {f.name: _without_aggregates(getattr(part, f.name), aggregates) for f in fields(part)}
            return replace(part, **changes)
    return part


def single_value(program: str) -> str | None:
    """The expression that a program yields, if it does no more: engines run that in columns. Else None."""
    tree = parse_source(Source([Part("", program)]))
    if len(tree) != 1 or not isinstance(tree[0], ast.Yield | ast.OpExpr):
        return None
    op = explicit(tree[0]) if isinstance(tree[0], ast.OpExpr) else tree[0]
    match op:
        case ast.Yield((expr,)) if not any(map(_is_aggregate, nodes(expr))):
            return print_expr(expr)
    return None


def _is_aggregate(part: Any) -> bool:
    return isinstance(part, ast.Agg | ast.Call) and part.name in AGGREGATES


def results_of(over: str, program: str, key: str | None) -> str:
    """An expression: the results of a program that reads the value of an expression, each as `{value,key}`.

    An array, always, or null: the value of a query in an expression would be the result itself if there is one.
    """
    each = "{value:this}" if key is None else f"{{value:this,key:{within(key)}}}"
    return f"(over [{over}] | over [this] => {within(program)} | collect({each}))"


def source_of(pool: str, legs: Sequence[Leg]) -> str:
    """The source of a program: some ranges of a pool. Only ranges of their own are read alone, not those in an `or`."""
    if len(legs) == 1 and not legs[0].mask:
        return f"from {pool} | {_range(legs[0])}"
    return f"from ( {' '.join(f'pool {pool} => {_range(leg)}' for leg in legs)} )"


def _range(leg: Leg) -> str:
    text = f"where seqno>={leg.first} and seqno<={leg.last}"
    if leg.mask:
        text += f' | where "{leg.mask}"[seqno-{leg.first}:seqno-{leg.first - 1}]=="1"'
    return text
