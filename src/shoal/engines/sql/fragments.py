"""Compiles the longest prefix of a pipeline that has a columnar form for all layouts into one fragment of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from shoal.engines.aggregates import Kept, rows_kept
from shoal.engines.sql.aggregation import grouped, summarize, without_quiet_keys
from shoal.engines.sql.algebra import Fragment, Fuse, Groups, Last, Limit, RowOrder, Rows
from shoal.engines.sql.fan_out import forked, switched, unrolled, yielded
from shoal.engines.sql.flat_tables import MOST_UNITED, first_rows, uniq, united
from shoal.engines.sql.joins import joined
from shoal.engines.sql.kept_rows import halves, reductions, row_types
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.sql.operators import apply, filtered, projected
from shoal.engines.sql.relations import Flat, Order, Relation, flatten
from shoal.engines.sql.sort_keys import key_order, sort_order
from shoal.lang import plan
from shoal.lang.rules.project_fields import used_fields
from shoal.lang.walk import calls_itself, has_aggregate, legs_of, nodes, rewrite
from shoal.model.node import frozen

MOST_PARTS = 500
"""How large an expression may become."""
Part = TypeVar("Part", bound=plan.Op | plan.Expr)


def inlined(part: Part, funcs: Sequence[plan.Func]) -> Part:
    """A part of a plan without calls of functions, as far as these are plain expressions of their parameters."""
    return rewrite(part, lambda node: _body(node, funcs) if isinstance(node, plan.UserCall) else node)


def _body(call: plan.UserCall, funcs: Sequence[plan.Func]) -> plan.Expr:
    if calls_itself(call.func, funcs):
        return call
    body = inlined(funcs[call.func].body, funcs)
    if any(isinstance(part, _NOT_PLAIN) for part in nodes(body)):
        return call
    body_: plan.Expr = rewrite(body, lambda node: call.args[node.slot] if isinstance(node, plan.Var) else node)
    return body_ if sum(1 for _ in nodes(body_)) <= MOST_PARTS else call


_NOT_PLAIN = (plan.Agg, plan.MapCall, plan.Subquery, plan.This, plan.UserCall)
"""What sees another current value, or keeps something between calls."""


@frozen
class _Rows:
    """Rows between two operators."""

    relations: tuple[Relation, ...]
    order: RowOrder = RowOrder.STORED
    are_groups: bool = False

    def merged(self, relations: Sequence[Relation]) -> _Rows:
        """Rows of other relations, which do not have to be one for each table."""
        order = RowOrder.POOL if self.order is RowOrder.STORED else self.order
        return replace(self, relations=tuple(relations), order=order)


@frozen
class ScanRows:
    """The rows of a scan."""

    scan: plan.PoolScan
    relations: Sequence[Relation]
    key: plan.SortKey | None
    """What rows have to be merged by, if they have to."""


@frozen
class _Program:
    """What operators may refer to."""

    funcs: Sequence[plan.Func]
    others: Sequence[ScanRows | None]
    """The scans that sides of joins begin with, as far as they are known."""
    is_split: bool


def compile_fragment(
    scan_rows: ScanRows,
    ops: plan.Seq,
    funcs: Sequence[plan.Func],
    others: Sequence[ScanRows | None] = (),
    is_split: bool = False,
    keep_last: int = 0,
) -> Fragment:
    """The fragment of a scan and what follows it; `others` are the scans that sides of joins begin with.

    Where the work is split among tasks, groups are partial and no operator can follow them. The last `keep_last`
    operators are always left to the interpreter: other tasks may have no SQL for them.
    """
    program = _Program(funcs, [b and replace(b, scan=inlined(b.scan, funcs)) for b in others], is_split)
    used: list[int] = []
    rows, rest = _advanced(*_beginning(scan_rows, ops, funcs), program, used, keep_last)
    fragment = _ended(rows, rest, program) if len(rest) > keep_last else Fragment(_output(rows, rest), rest)
    return replace(fragment, joined=tuple(used))


def _beginning(scan_rows: ScanRows, ops: plan.Seq, funcs: Sequence[plan.Func]) -> tuple[_Rows, plan.Seq]:
    """The rows of a scan, and all that is to be done with them."""
    before = () if scan_rows.scan.filter is None else (plan.Filter(scan_rows.scan.filter),)
    return _Rows(_in_order_of(scan_rows.key, scan_rows.relations)), tuple(inlined(op, funcs) for op in (*before, *ops))


def _ended(rows: _Rows, left: plan.Seq, program: _Program) -> Fragment:
    """The fragment that ends with the first of the operators that are left, if that has SQL, or before it."""
    op, rest = left[0] if left else None, left[1:]
    try:
        match op:
            case plan.Head(count):
                return Fragment(Limit(_output(rows, rest), count), rest)
            case plan.Fuse():
                return Fragment(
                    Fuse(Rows(_flat(rows.relations), rows.order, rows.are_groups), row_types(rows.relations)), rest
                )
            case plan.Tail(count):
                return Fragment(Last(_output(_backwards(rows), rest), count), rest)
            case plan.TopK(count) | plan.Top(count):
                sort = _sort_of(op)
                first = _output(_sorted(sort, rows, program.funcs, program.is_split), rest)
                return Fragment(Limit(first, count, len(sort.keys)), rest)
            case plan.Summarize():
                groups = _summarized(op, rows, program.is_split)
                if isinstance(groups, Groups):
                    return Fragment(groups, rest)
    except NotColumnar:
        pass
    return Fragment(_output(rows, left), left)


def _advanced(
    rows: _Rows, ops: plan.Seq, program: _Program, used: list[int], keep_last: int = 0
) -> tuple[_Rows, plan.Seq]:
    """Rows after as many operators as make rows of rows, and the operators from there on.

    The scans that joins have brought in are noted by their indexes.
    """
    left = list(ops)
    while len(left) > keep_last:
        op, following = left[0], left[1] if len(left) > 1 else None
        remains: plan.Op | None = None
        try:
            if op.traits.limits or isinstance(op, plan.Fuse):
                break
            if isinstance(op, plan.Fork | plan.Switch) and isinstance(following, plan.Merge):
                break
            if isinstance(op, plan.Fork | plan.Switch) and isinstance(following, plan.Join):
                rows, indexes = _joined(op, following, rows, program)
                used.extend(indexes)
                left.pop(0)
            elif isinstance(op, plan.Summarize):
                groups = _summarized(op, rows, program.is_split)
                if isinstance(groups, Groups):
                    break
                rows = groups
            else:
                rows, remains = _step(op, rows, program.funcs)
        except NotColumnar:
            break
        left.pop(0)
        if remains is not None:
            left.insert(0, remains)
            break
    return rows, tuple(left)


def _joined(split: plan.Fork | plan.Switch, op: plan.Join, rows: _Rows, program: _Program) -> tuple[_Rows, list[int]]:
    """The rows of a join, and the scans that its sides begin with."""
    exprs = (op.left_key, op.right_key, *(arg.expr for arg in op.args))
    if program.is_split or any(has_aggregate(expr, program.funcs) for expr in exprs):
        raise NotColumnar("rows that come together, or an aggregate that runs along")
    used: list[int] = []
    sides = [_side(leg, rows, program, used) for leg in legs_of(split)]
    if len(sides) != 2:
        raise NotColumnar("a join of other than two sides")
    relations = joined(op, *sides)
    _flat(relations)
    return _Rows(tuple(relations), RowOrder.SORTED), used


def _side(leg: plan.Seq, rows: _Rows, program: _Program, used: list[int]) -> Sequence[Relation]:
    """The rows of one side of a join."""
    if leg and isinstance(leg[0], plan.PoolScan):
        index, scan_rows = next(((i, b) for i, b in enumerate(program.others) if b and b.scan == leg[0]), (0, None))
        if scan_rows is None:
            raise NotColumnar("a scan of which the data is not known")
        used.append(index)
        rows, leg = _beginning(scan_rows, leg[1:], program.funcs)
    rows, rest = _advanced(rows, leg, program, used)
    if len(rest) == 1 and isinstance(rest[0], plan.Head | plan.TopK | plan.Top):
        op = rest[0]
        return [
            first_rows(
                (rows if isinstance(op, plan.Head) else _sorted(_sort_of(op), rows, program.funcs)).relations, op.count
            )
        ]
    if rest:
        raise NotColumnar("a side of a join that has no columnar form")
    return rows.relations


def _in_order_of(key: plan.SortKey | None, relations: Sequence[Relation]) -> tuple[Relation, ...]:
    if key is None:
        return tuple(relations)
    # Nulls are the greatest keys of a pool.
    orders = key_order(key.expr, relations, key.order == "desc", nulls_first=key.order == "desc")
    return tuple(replace(f, order=(*order, *f.order)) for f, order in zip(relations, orders, strict=True))


def _output(rows: _Rows, rest: plan.Seq) -> Rows:
    """The end of a fragment: rows with just the fields that the operators after it use."""
    return Rows(_flat(_used_by(rest, rows.relations)), rows.order, rows.are_groups)


def _used_by(ops: plan.Seq, relations: Sequence[Relation]) -> Sequence[Relation]:
    """Rows with just the fields that operators look at."""
    fields = used_fields(ops)
    return relations if fields is None else [projected(relation, fields) for relation in relations]


def _step(op: plan.Op, rows: _Rows, funcs: Sequence[plan.Func]) -> tuple[_Rows, plan.Op | None]:
    """Rows after an operator, and what of it is still to be done."""
    match op:
        case plan.Sort():
            return _sorted(op, rows, funcs), None
        case plan.Uniq(count):
            return rows.merged([uniq(rows.relations, count)]), None
    several = _several(op, rows.relations, funcs)
    if several is not None:
        if len(several) > max(MOST_UNITED, len(rows.relations)):
            raise NotColumnar("too many relations")
        _flat(several)
        return rows.merged(several), None
    relations, remains = _apply(op, list(rows.relations), funcs)
    return replace(rows, relations=tuple(relations)), remains


def _several(op: plan.Op, relations: Sequence[Relation], funcs: Sequence[plan.Func]) -> Sequence[Relation] | None:
    """Relations after an operator that makes several of one; None if it is none of these."""

    def run(body: plan.Seq, before: Sequence[Relation]) -> Sequence[Relation]:
        for inner in body:
            if not (inner.traits.is_row_wise or inner.traits.splits):
                raise NotColumnar("rows that come together in a leg")
            after, remains = _step(inner, _Rows(tuple(before)), funcs)
            if remains is not None:
                raise NotColumnar("a filter of which a part is left")
            before = after.relations
        return before

    match op:
        case plan.Yield(exprs) if len(exprs) > 1:
            _check_running(op, funcs)
            return yielded(exprs, relations)
        case plan.Over(exprs, _, body):
            _check_running(op, funcs)
            return run(body or (), unrolled(exprs, relations))
        case plan.Fork():
            return forked(op, relations, run)
        case plan.Switch():
            _check_running(op, funcs)
            return switched(op, relations, run)
    return None


def _sort_of(op: plan.TopK | plan.Top) -> plan.Sort:
    if isinstance(op, plan.TopK):
        return op.sort
    if op.flush:
        raise NotColumnar("a top that is flushed")
    return plan.Sort(tuple(plan.SortKey(key, "desc") for key in op.keys))


def _sorted(op: plan.Sort, rows: _Rows, funcs: Sequence[plan.Func], is_split: bool = False) -> _Rows:
    """Rows in another order; where they are equal, the one that they had decides."""
    if any(has_aggregate(key.expr, funcs) for key in op.keys):
        raise NotColumnar("an aggregate that runs along")
    orders = sort_order(op, rows.relations, is_split)
    relations = (replace(f, order=(*order, *f.order)) for f, order in zip(rows.relations, orders, strict=True))
    return replace(rows, relations=tuple(relations), order=RowOrder.SORTED)


def _backwards(rows: _Rows) -> _Rows:
    """Rows from the last one on."""
    if not all(relation.order for relation in rows.relations):
        raise NotColumnar("the last of rows in no order")
    return replace(rows, relations=tuple(replace(f, order=_turned(f.order)) for f in rows.relations))


def _turned(order: Order) -> Order:
    return tuple(replace(item, is_descending=not item.is_descending) for item in order)


def _summarized(op: plan.Summarize, rows: _Rows, is_split: bool) -> Groups | _Rows:
    """Groups as rows if SQL makes them whole, else partial results."""
    if not is_split and op.aggs and all(rows_kept(agg.name) is Kept.ALL for _, agg in op.aggs):
        raise NotColumnar("aggregates that take all rows, in order: nothing is gained")
    rows = replace(rows, relations=tuple(without_quiet_keys(op, relation) for relation in rows.relations))
    plain, kept = halves(op)
    summaries = tuple(summarize(plain, relation) for relation in rows.relations)
    is_count = all(a.name == "count" and a.expr is None and a.where is None for _, a in plain.aggs)
    is_stored = rows.order is RowOrder.STORED
    is_known = is_stored and is_count and all(summary.by_shape is not None for summary in summaries)
    groups = Groups(op, plain, summaries, kept, reductions(op, rows.relations), is_known)
    if is_split or kept or is_known or not rows.relations:
        return groups
    try:
        whole = summaries[0] if len(rows.relations) == 1 else summarize(op, united(_used_by((op,), rows.relations)))
        if whole.is_final:
            return _Rows((grouped(op, whole),), RowOrder.SORTED, are_groups=True)
    except NotColumnar:
        pass
    return groups


def _flat(relations: Sequence[Relation]) -> tuple[tuple[Relation, Flat], ...]:
    return tuple((relation, flatten(relation.cases)) for relation in relations)


def _apply(op: plan.Op, relations: list[Relation], funcs: Sequence[plan.Func]) -> tuple[list[Relation], plan.Op | None]:
    """Relations after an operator, and what of it is still to be done: those parts of a filter that have no SQL."""
    _check_running(op, funcs)
    if not isinstance(op, plan.Filter):
        after = [apply(op, relation) for relation in relations]
        _flat(after)
        return after, None
    remains: list[plan.Expr] = []
    for part in _conjuncts(op.expr):
        try:
            relations = [filtered(relation, part) for relation in relations]
        except NotColumnar:
            remains.append(part)
    if not remains:
        return relations, None
    joined = remains[0]
    for part in remains[1:]:
        joined = plan.Binary("and", joined, part)
    return relations, plan.Filter(joined)


def _check_running(op: plan.Op, funcs: Sequence[plan.Func]) -> None:
    if any(has_aggregate(expr, funcs) for expr in _expressions(op)):
        raise NotColumnar("an aggregate that runs along")


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
        case plan.Over(exprs, names):
            return [*exprs, *names]
        case plan.Switch(expr, cases):
            return [e for e in (expr, *(case.expr for case in cases)) if e is not None]
        case plan.Cut(args) | plan.Put(args):
            return [a.expr for a in args]
    return []
