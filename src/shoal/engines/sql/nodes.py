"""A value of a known type that is not known itself: what SQL would compute for it.

An expression over rows of one shape has one type, or one of a few that depend on the data, such as an error where
it divides by zero. Its outcomes are all of these, each with the condition on which it is the one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from shoal.engines.sql.build import Cond, Sql, binary, both, text
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.values import is_error as is_error_value


class NotColumnar(Exception):
    """Something that has no columnar form here; the interpreter does it."""


def refuse_exact(*types: t.Type) -> None:
    """NotColumnar for decimals and dates, which only the interpreter computes with."""
    for typ in types:
        under = typ.under
        if isinstance(under, t.Decimal) or under is t.DATE:
            raise NotColumnar("decimals and dates")
        if isinstance(under, t.Union):
            refuse_exact(*under.types)


@frozen
class Leaf:
    """A value in the physical form of its type; NULL is its null."""

    type: t.Type
    sql: Sql


@frozen
class Rec:
    """A record whose fields are values of their own."""

    type: t.Type
    fields: tuple[Node, ...]
    valid: Sql | None = None
    """Whether it is not null; None if it never is."""


@frozen
class Const:
    """A value that is known."""

    value: Value

    @property
    def type(self) -> t.Type:
        """Its type."""
        return self.value.type


Node: TypeAlias = Leaf | Rec | Const


@frozen
class Outcome:
    """A value, and the condition on which it is the one."""

    when: Cond
    node: Node


Outcomes: TypeAlias = tuple[Outcome, ...]
"""Conditions exclude each other, and one of them holds."""
_MOST = 64
_LONGEST = 5000


def always(node: Node) -> Outcomes:
    """The one outcome."""
    return (Outcome(True, node),)


def const(value: Value) -> Outcomes:
    """A known outcome."""
    return always(Const(value))


def on(when: Cond, outcomes: Outcomes) -> Outcomes:
    """Outcomes under one more condition."""
    return tuple(Outcome(condition, o.node) for o in outcomes if (condition := both(when, o.when)) is not False)


def bounded(outcomes: Iterable[Outcome]) -> Outcomes:
    """Outcomes, unless there are too many."""
    possible = tuple(o for o in outcomes if o.when is not False)
    if len(possible) > _MOST:
        raise NotColumnar("too many outcomes")
    return possible


def fields_of(node: Node) -> tuple[Node, ...]:
    """The fields of a record; those of a null are null."""
    if isinstance(node, Rec):
        return node.fields
    if isinstance(node, Const):
        under = node.value.type.under
        assert isinstance(under, t.Record)
        data = node.value.data or (None,) * len(under.fields)
        return tuple(Const(Value(f.type, d)) for f, d in zip(under.fields, data, strict=True))
    raise NotColumnar("a record in one column")


def is_valid(node: Node) -> Cond:
    """Whether a record is not null."""
    if isinstance(node, Const):
        return node.value.data is not None
    return True if not isinstance(node, Rec) or node.valid is None else node.valid


def is_long(outcomes: Outcomes) -> bool:
    """Whether the SQL of outcomes is too long to be written: operands that are used twice double it at each step."""
    lengths: dict[int, int] = {}
    return sum(_length(sql, lengths) for o in outcomes for sql in (o.when, *_sqls(o.node))) > _LONGEST


def _sqls(node: Node) -> list[Sql]:
    match node:
        case Leaf(_, sql):
            return [sql]
        case Rec(_, fields, valid):
            return [sql for f in fields for sql in _sqls(f)] + ([] if valid is None else [valid])
    return []


def _length(sql: Cond, lengths: dict[int, int]) -> int:
    """How many parts there are; those that are shared count each time."""
    if isinstance(sql, bool):
        return 0
    if id(sql) not in lengths:
        lengths[id(sql)] = 1 + sum(_length(part, lengths) for part in sql.iter_expressions())
    return lengths[id(sql)]


def is_error(node: Node) -> bool:
    """Whether it is an error for certain; what may be one is an outcome of its own."""
    return isinstance(node.type.under, t.Error)


def equals_error(node: Node, value: Value) -> Cond:
    """On which condition it is this very error, one of a text: a column of errors may hold it among others."""
    if isinstance(node, Leaf) and node.type is value.type:
        return binary("=", node.sql, text(value.data))
    return is_known_error(node, value)


def is_known_error(node: Node, value: Value) -> bool:
    """Whether it is this very error, for certain. NotColumnar for a column of errors, which may hold it or not."""
    if isinstance(node, Const):
        return is_error_value(node.value) and node.value == value
    if node.type is value.type:
        raise NotColumnar("a column of errors")
    return False


def narrowed(node: Node, paths: Sequence[tuple[str, ...]]) -> Node:
    """A record of just the fields at some paths."""
    under = node.type.under
    if () in paths or not isinstance(node, Rec) or not isinstance(under, t.Record):
        return node
    kept = []
    for f, inner in zip(under.fields, node.fields, strict=True):
        inside = [p[1:] for p in paths if p[0] == f.name]
        if inside:
            kept.append((f.name, narrowed(inner, inside)))
    return Rec(t.record((name, x.type) for name, x in kept), tuple(x for _, x in kept), node.valid)
