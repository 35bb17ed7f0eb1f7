"""What tasks can do with rows by the interpreter: operators on one row at a time, and a share of what follows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from shoal.engines.interp.engine import needs_names, run_program
from shoal.engines.interp.environment import Run
from shoal.lang import plan
from shoal.lang.aggregates import split_aggregates
from shoal.lang.rules.order_joins import turned
from shoal.lang.walk import has_aggregate
from shoal.model.values import TRUE, Value


class Tail(NamedTuple):
    """Operators after a fragment."""

    rows: plan.Seq = ()
    """Those on one row at a time."""
    last: plan.Summarize | plan.Sort | plan.Head | plan.TopK | plan.Top | None = None
    """What brings rows together: tasks do their share, and the driver, or other tasks, the rest."""

    @property
    def length(self) -> int:
        """How many operators it has."""
        return len(self.rows) + (self.last is not None)

    @property
    def is_reduced(self) -> bool:
        """Whether groups come out, or the first rows."""
        return isinstance(self.last, plan.Summarize | plan.Head | plan.TopK | plan.Top)

    def in_tasks(self) -> plan.Seq:
        """What each task does."""
        if self.last is None:
            return self.rows
        last = split_aggregates(self.last)[0] if isinstance(self.last, plan.Summarize) else self.last
        return (*self.rows, last)


NO_TAIL = Tail()


def tail_of(ops: plan.Seq, funcs: Sequence[plan.Func]) -> Tail:
    """As many operators from the first on as tasks can do."""
    if needs_names(plan.Program(ops, tuple(funcs))):
        return NO_TAIL  # what a name means depends on the rows before
    count = 0
    while count < len(ops) and _is_by_row(ops[count], funcs):
        count += 1
    after = ops[count] if count < len(ops) else None
    return Tail(ops[:count], after if _is_shared(after, funcs) else None)  # type: ignore[arg-type]


def finished(last: plan.Op, rows: Iterator[Value], funcs: tuple[plan.Func, ...], run: Run) -> Iterator[Value]:
    """What the driver makes of what tasks have done of an operator that brings rows together."""
    if isinstance(last, plan.Summarize):
        _, last = split_aggregates(last)
    return run_program(plan.Program((plan.DefaultScan(), last), funcs), rows, Run(memory=run.memory))


def before_join(tail: Tail, key: plan.Expr, order: plan.Order) -> Tail:
    """What tasks do with one side of a join: its rows that have a key, sorted by that, then as they were."""
    keys: tuple[plan.SortKey, ...] = (plan.SortKey(key, order),)
    if isinstance(tail.last, plan.Sort):
        keys += tuple(plan.SortKey(k.expr, turned(k.order, tail.last.reverse)) for k in tail.last.keys)
    return Tail((*tail.rows, plan.Filter(_is_there(key))), plan.Sort(keys))


def is_for_join(tail: Tail) -> bool:
    """Whether tasks can sort its rows by a key as well."""
    return tail.last is None or (isinstance(tail.last, plan.Sort) and not tail.last.nulls_first)


def _is_there(key: plan.Expr) -> plan.Expr:
    """Whether a key is not missing. Of any other error `missing` gives that error, which is a key like any other."""
    missing = plan.Call("missing", (key,))
    return plan.Conditional(plan.Call("is_error", (missing,)), plan.Literal(TRUE), plan.Unary("!", missing))


def _is_by_row(op: plan.Op, funcs: Sequence[plan.Func]) -> bool:
    exprs: tuple[Any, ...]
    match op:
        case plan.Pass() | plan.Drop():
            return True
        case plan.Filter(expr):
            exprs = (expr,)
        case plan.Yield(args_) | plan.Explode(args_):
            exprs = args_
        case plan.Over(args_, locals_):  # the lateral query starts from the beginning for each row
            exprs = (*args_, *locals_)
        case plan.Cut(args) | plan.Put(args) | plan.Rename(args):
            exprs = tuple(x for arg in args for x in (arg.target, arg.expr))
        case _:
            return False
    return not any(has_aggregate(expr, funcs) for expr in exprs)


def _is_shared(op: plan.Op | None, funcs: Sequence[plan.Func]) -> bool:
    match op:
        case plan.Summarize(limit=0, partials_in=False, partials_out=False):
            return True
        case plan.Head():
            return True
        case plan.Sort(keys) | plan.TopK(_, plan.Sort(keys)):
            # Without keys, the very first row decides what to sort by.
            return bool(keys) and not any(has_aggregate(key.expr, funcs) for key in keys)
        case plan.Top(_, keys, flush):
            return not flush and not any(has_aggregate(key, funcs) for key in keys)
    return False
