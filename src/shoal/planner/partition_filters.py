"""Filters over partitions: what a filter is for all records of a partition, as far as the value of that one tells.

A part of a filter that speaks of the partition expression alone is computed for its value. The field of a bucket has a
range. In doubt nothing is said: pruning reads the object, and a deletion looks at its records.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from shoal.engines.interp.engine import evaluator
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lang import plan
from shoal.lang.walk import nodes, rewrite
from shoal.model import types as t
from shoal.model.values import MISSING, Value
from shoal.planner.pool_partitions import bucket_of, compile_partition

_FLIPPED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CHANGING = frozenset(("now", "ksuid", "is", "typename"))
_SIMPLE = (
    plan.Literal, plan.Binary, plan.Unary, plan.Conditional, plan.Call, plan.Dot, plan.Index, plan.Slice,
    plan.RegexpMatch, plan.ArrayExpr, plan.SetExpr, plan.RecordExpr, plan.Field,
)  # fmt: skip
"""What a part of a filter may be made of to be computed for a partition."""


class Verdict(Enum):
    """What a filter is for the records of a partition."""

    ALWAYS = "true for all"
    NEVER = "true for none"
    UNKNOWN = "true for some, perhaps"


Judge = Callable[[DataObject], Verdict]


def judge(pool: Pool, condition: plan.Expr | None) -> Judge | None:
    """What tells of objects whether a filter is true for their records; None if it says nothing of partitions."""
    text = pool.config.settings.partition
    return None if not text or condition is None else _judge(text, condition)


@lru_cache(maxsize=64)
def _judge(text: str, condition: plan.Expr) -> Judge | None:
    part = _part(condition, _components(compile_partition(text)))
    if part is None:
        return None
    verdicts: dict[Value, Verdict] = {}

    def verdict_of(o: DataObject) -> Verdict:
        if o.partition is None:
            return Verdict.UNKNOWN
        if part.depends_on_types:
            return part.verdict(o.partition, o)
        verdict = verdicts.get(o.partition)
        if verdict is None:
            verdict = verdicts[o.partition] = part.verdict(o.partition, o)
        return verdict

    return verdict_of


class _Part(NamedTuple):
    """What is known of a part of a filter."""

    verdict: Callable[[Value, DataObject], Verdict]
    depends_on_types: bool = False


class _Component(NamedTuple):
    """An expression of which a partition tells the value: that of the pool, or one in a record of several."""

    expr: plan.Expr
    name: str = ""
    """The field of the record."""

    def value(self, partition: Value) -> Value | None:
        """Its value; None if it is not known."""
        return partition.field(self.name) if self.name else partition


def _components(expr: plan.Expr) -> tuple[_Component, ...]:
    match expr:
        case plan.RecordExpr(elems):
            fields = [elem for elem in elems if isinstance(elem, plan.Field)]
            if len({field.name for field in fields}) == len(elems):
                return (_Component(expr), *(_Component(field.expr, field.name) for field in fields if field.name))
    return (_Component(expr),)


def _part(condition: plan.Expr, components: tuple[_Component, ...]) -> _Part | None:
    """What is known of a filter, given what a partition tells; None if that is nothing."""
    match condition:
        case plan.Binary("and" | "or" as op, left, right):
            sides = _part(left, components), _part(right, components)
            known = [side for side in sides if side is not None]
            if not known or (op == "or" and len(known) < 2):
                return None
            combine = _all if op == "and" else _any
            is_whole = len(known) == 2
            return _Part(
                lambda value, o: combine([side.verdict(value, o) for side in known], is_whole),
                any(side.depends_on_types for side in known),
            )
    parts = (make(condition, component) for component in components for make in (_computed, _ranged))
    return next((part for part in parts if part is not None), None)


def _all(verdicts: list[Verdict], is_whole: bool) -> Verdict:
    if Verdict.NEVER in verdicts:
        return Verdict.NEVER
    return Verdict.ALWAYS if is_whole and set(verdicts) == {Verdict.ALWAYS} else Verdict.UNKNOWN


def _any(verdicts: list[Verdict], is_whole: bool) -> Verdict:
    """True on the left decides; an error there makes the whole an error, whatever is on the right."""
    if verdicts[0] is Verdict.ALWAYS:
        return Verdict.ALWAYS
    return Verdict.NEVER if set(verdicts) == {Verdict.NEVER} else Verdict.UNKNOWN


# ---- parts that speak of the expression alone


def _computed(condition: plan.Expr, component: _Component) -> _Part | None:
    expr = component.expr
    substituted = _substituted(condition, expr)
    if substituted is None:
        return None
    compute = evaluator(substituted)
    is_comparison = _compares(condition, expr) and (isinstance(expr, plan.This) or bucket_of(expr) is not None)

    def verdict(partition: Value, o: DataObject) -> Verdict:
        value = component.value(partition)
        if value is None:
            return Verdict.UNKNOWN
        if value.data is None or value == MISSING:
            # These stand for nulls of all types, and for errors. A comparison with a value is true for none of them.
            return Verdict.NEVER if is_comparison else Verdict.UNKNOWN
        result = compute(value).under()
        return Verdict.ALWAYS if result.type is t.BOOL and result.data is True else Verdict.NEVER

    return _Part(verdict)


def _compares(condition: plan.Expr, expr: plan.Expr) -> bool:
    match condition:
        case plan.Binary(op, left, plan.Literal(value)) if left == expr and op in _FLIPPED:
            return _is_plain(value)
        case plan.Binary(op, plan.Literal(value), right) if right == expr and op in _FLIPPED:
            return _is_plain(value)
        case plan.Binary("in", left, plan.Literal(value)) if left == expr:
            elem = t.inner_of(value.type)
            return elem is not None and all(_is_plain(Value(elem, data)) for data in value.data or ())
    return False


def _is_plain(value: Value) -> bool:
    return value.data is not None and isinstance(value.type.under, t.Primitive) and value.type.under is not t.NULL


def _substituted(condition: plan.Expr, expr: plan.Expr) -> plan.Expr | None:
    """A part of a filter with `this` in place of the partition expression; None if it speaks of anything else."""
    condition = rewrite(condition, lambda node: _HOLE if node == expr else node)
    for node in nodes(condition):
        if isinstance(node, Value):
            continue
        if node != _HOLE and not isinstance(node, _SIMPLE):
            return None
        if isinstance(node, plan.Call) and node.name in _CHANGING:
            return None
    if not any(node == _HOLE for node in nodes(condition)):
        return None
    return rewrite(condition, lambda node: plan.This(()) if node == _HOLE else node)


_HOLE = plan.This(("the partition",))


# ---- ranges of the field of a bucket


class _Range(NamedTuple):
    """Whole numbers between two others, which are in it."""

    least: int
    greatest: int


def _ranged(condition: plan.Expr, component: _Component) -> _Part | None:
    bucket = bucket_of(component.expr)
    if bucket is None:
        return None
    path, step = bucket
    match condition:
        case plan.Binary(op, plan.This(field), plan.Literal(bound)) if field == path and op in _FLIPPED:
            pass
        case plan.Binary(op, plan.Literal(bound), plan.This(field)) if field == path and op in _FLIPPED:
            op = _FLIPPED[op]
        case _:
            return None
    kind = bound.type.under
    if kind not in (t.TIME, t.DURATION) or bound.data is None:
        return None

    def verdict(partition: Value, o: DataObject) -> Verdict:
        value = component.value(partition)
        if value is None:
            return Verdict.UNKNOWN
        if value.data is None or value == MISSING:
            return Verdict.NEVER  # the field is null, missing or an error there
        if value.type is not kind or not _all_are(o, path, kind):
            return Verdict.UNKNOWN
        return _compared(_numbers(value.data, step), op, bound.data)

    return _Part(verdict, depends_on_types=True)


def _numbers(cut: int, step: int) -> _Range:
    """The numbers that are cut to one, towards zero."""
    return _Range(cut - step + 1 if cut <= 0 else cut, cut + step - 1 if cut >= 0 else cut)


def _compared(numbers: _Range, op: str, bound: int) -> Verdict:
    least, greatest = numbers
    match op:
        case "<":
            always, never = greatest < bound, least >= bound
        case "<=":
            always, never = greatest <= bound, least > bound
        case ">":
            always, never = least > bound, greatest <= bound
        case ">=":
            always, never = least >= bound, greatest < bound
        case _:
            always, never = least == greatest == bound, not least <= bound <= greatest
    return Verdict.ALWAYS if always else Verdict.NEVER if never else Verdict.UNKNOWN


def _all_are(o: DataObject, path: tuple[str, ...], kind: t.Type) -> bool:
    """Whether a field has this type in all records that have it: others compare with numbers of all kinds."""
    return o.shapes is not None and all(_type_at(shape, path) in (kind, None) for shape, _ in o.shapes)


def _type_at(shape: t.Type, path: tuple[str, ...]) -> t.Type | None:
    """The type of a field, without names; None if records of the shape do not have it."""
    for name in path:
        under = shape.under
        if isinstance(under, t.Union | t.Map):
            return under  # it depends on the record
        if not isinstance(under, t.Record) or name not in under.index:
            return None
        shape = under.fields[under.index[name]].type
    return shape.under
