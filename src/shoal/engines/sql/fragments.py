"""How far a sequence of operators goes in SQL: the longest beginning that has a columnar form for all layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.engines.sql.build import Sql
from shoal.engines.sql.expressions import at_path
from shoal.engines.sql.frames import Flat, Frame, flatten
from shoal.engines.sql.nodes import Const, Leaf, NotColumnar
from shoal.engines.sql.operators import apply, filtered, projected
from shoal.engines.sql.summaries import Summary, summarize
from shoal.lang import plan
from shoal.lang.rules.project_fields import used_fields
from shoal.lang.walk import has_aggregate
from shoal.model import types as t

_SORTED = frozenset((*t.SIGNED, *t.UNSIGNED, t.DURATION, t.TIME, t.STRING, t.BYTES, t.IP, t.BOOL))


@dataclass(frozen=True, slots=True)
class Fragment:
    """The SQL of the first operators of a sequence, for each frame that they begin with."""

    rows: tuple[tuple[Frame, Flat], ...] | None
    """Rows in the order of the pool; None if groups come out."""
    groups: tuple[Summary, ...] | None
    limit: int | None
    """How many rows are wanted."""
    rest: plan.Seq
    """The operators that are left to the interpreter."""
    keys: tuple[Sql | None, ...] = ()
    """The pool key of each frame, to merge by; None if it is null in all of its rows."""


def compile_fragment(
    scan: plan.PoolScan, ops: plan.Seq, frames: Sequence[Frame], funcs: Sequence[plan.Func], key: plan.Path | None
) -> Fragment:
    """The fragment of a scan and what follows it. With a `key`, rows have to be merged by it."""
    begun, left = list(frames), list(ops)
    if scan.filter is not None:
        left.insert(0, plan.Filter(scan.filter))
    keys = () if key is None else _keys(begun, key)
    while left:
        op = left[0]
        try:
            if isinstance(op, plan.Summarize):
                return Fragment(None, tuple(summarize(op, frame) for frame in begun), None, tuple(left[1:]))
            if isinstance(op, plan.Head):
                return Fragment(_flat(begun), None, op.count, tuple(left[1:]), keys)
            begun, remains = _apply(op, begun, funcs)
        except NotColumnar:
            break
        left.pop(0)
        if remains is not None:
            left.insert(0, remains)
            break
    fields = used_fields(tuple(left))
    if fields is not None:
        begun = [projected(frame, fields) for frame in begun]
    return Fragment(_flat(begun), None, None, tuple(left), keys)


def _flat(frames: Sequence[Frame]) -> tuple[tuple[Frame, Flat], ...]:
    return tuple((frame, flatten(frame.cases)) for frame in frames)


def _apply(op: plan.Op, frames: list[Frame], funcs: Sequence[plan.Func]) -> tuple[list[Frame], plan.Op | None]:
    """Frames after an operator, and what of it is still to be done: those parts of a filter that have no SQL."""
    if any(has_aggregate(expr, funcs) for expr in _expressions(op)):
        raise NotColumnar("an aggregate that runs along")
    if not isinstance(op, plan.Filter):
        after = [apply(op, frame) for frame in frames]
        _flat(after)
        return after, None
    remains: list[plan.Expr] = []
    for part in _conjuncts(op.expr):
        try:
            frames = [filtered(frame, part) for frame in frames]
        except NotColumnar:
            remains.append(part)
    if not remains:
        return frames, None
    joined = remains[0]
    for part in remains[1:]:
        joined = plan.Binary("and", joined, part)
    return frames, plan.Filter(joined)


def _conjuncts(expr: plan.Expr) -> list[plan.Expr]:
    match expr:
        case plan.Binary("and", left, right):
            return [*_conjuncts(left), *_conjuncts(right)]
    return [expr]


def _expressions(op: plan.Op) -> list[plan.Expr]:
    match op:
        case plan.Filter(expr):
            return [expr]
        case plan.Yield(exprs):
            return list(exprs)
        case plan.Cut(args) | plan.Put(args):
            return [a.expr for a in args]
    return []


def _keys(frames: Sequence[Frame], path: plan.Path) -> tuple[Sql | None, ...]:
    """The pool key of the rows of each frame, as one column of a type that SQL and Python order alike."""
    made: list[Sql | None] = []
    types: set[t.Type] = set()
    for frame in frames:
        found: dict[Sql, None] = {}
        for case in frame.cases:
            node = at_path(case.node, path)
            if isinstance(node, Const):
                continue
            if not isinstance(node, Leaf) or node.type.under not in _SORTED:
                raise NotColumnar("rows to be merged by a key of some other kind")
            found[node.sql] = None
            types.add(node.type.under)
        if len(found) > 1 or len(types) > 1:
            raise NotColumnar("rows to be merged by keys of several types")
        made.append(next(iter(found), None))
    return tuple(made)
