"""How far a sequence of operators goes in SQL: the longest beginning that has a columnar form for all layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.engines.sql.frames import Flat, Frame, flatten
from shoal.engines.sql.inlining import inlined
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.sql.operators import apply, filtered, projected
from shoal.engines.sql.orders import Order, key_order, sort_order
from shoal.engines.sql.summaries import Summary, summarize
from shoal.lang import plan
from shoal.lang.rules.project_fields import used_fields
from shoal.lang.walk import has_aggregate


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
    order: tuple[Order, ...] = ()
    """What the rows of each frame are sorted by, where they are not in order by themselves."""
    is_sorted: bool = False
    """Whether that is another order than that of the pool."""


def compile_fragment(
    scan: plan.PoolScan,
    ops: plan.Seq,
    frames: Sequence[Frame],
    funcs: Sequence[plan.Func],
    key: plan.SortKey | None,
) -> Fragment:
    """The fragment of a scan and what follows it. With a `key`, rows have to be merged by it."""
    begun, left = list(frames), [inlined(op, funcs) for op in ops]
    if scan.filter is not None:
        left.insert(0, inlined(plan.Filter(scan.filter), funcs))
    # Nulls are the greatest keys of a pool.
    order = () if key is None else key_order(key.expr, begun, key.order == "desc", nulls_first=key.order == "desc")
    while left:
        op = left[0]
        try:
            if isinstance(op, plan.Summarize):
                return Fragment(None, tuple(summarize(op, frame) for frame in begun), None, tuple(left[1:]))
            if isinstance(op, plan.Head):
                return Fragment(_flat(begun), None, op.count, tuple(left[1:]), order)
            if isinstance(op, plan.Sort | plan.TopK | plan.Top):
                return _sorted(op, begun, order, tuple(left[1:]), funcs)
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
    return Fragment(_flat(begun), None, None, tuple(left), order)


def _sorted(
    op: plan.Sort | plan.TopK | plan.Top,
    frames: list[Frame],
    order: tuple[Order, ...],
    rest: plan.Seq,
    funcs: Sequence[plan.Func],
) -> Fragment:
    """Rows in another order than that of the pool, which decides where they are equal."""
    limit = None if isinstance(op, plan.Sort) else op.count
    if isinstance(op, plan.Top):
        if op.flush:
            raise NotColumnar("a top that is flushed")
        sort = plan.Sort(tuple(plan.SortKey(key, "desc") for key in op.keys))
    else:
        sort = op if isinstance(op, plan.Sort) else op.sort
    if any(has_aggregate(key.expr, funcs) for key in sort.keys):
        raise NotColumnar("an aggregate that runs along")
    first = sort_order(sort, frames)
    after = order or ((),) * len(frames)
    fields = used_fields(rest)
    shown = frames if fields is None else [projected(frame, fields) for frame in frames]
    combined = tuple((*a, *b) for a, b in zip(first, after, strict=True))
    return Fragment(_flat(shown), None, limit, rest, combined, is_sorted=True)


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
