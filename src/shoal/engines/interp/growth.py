"""How large values may become. Every expression that can make a value larger than what it is made of is measured here.

The compiler of expressions asks `is_measured` about each node, so a new function is measured unless it is listed as one
that keeps sizes. A limit is what one value may take: the memory of a query, shared among its steps. Records are put
together from parts that exist already and are shared; these are measured only in programs that copy their input often
enough for the copies to matter, since nothing else in a program of a few steps can grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, prod

from shoal.engines.interp.environment import Env, Eval
from shoal.lang import plan
from shoal.lang.walk import nodes
from shoal.model.extent import TooLarge, size_of
from shoal.model.values import Value

KEEPS_SIZE = frozenset((
    "abs", "bucket", "ceil", "cidr_match", "coalesce", "compare", "every", "floor", "has", "has_error", "is",
    "is_error", "kind", "ksuid", "len", "log", "max", "min", "missing", "nameof", "network_of", "now", "pow", "quiet",
    "round", "rune_len", "sqrt", "typename", "typeof", "typeunder", "under",
))  # fmt: skip
"""Functions whose result has a fixed size, or is one of their arguments or a part of one."""
FREE_COPIES = 16
"""How often a program may copy a part of its input without the copies being measured."""
OF_ANY_SIZE = (str, bytes, tuple)
"""What the data of values consists of that can be large."""
_CONSTRUCTORS = plan.ArrayExpr | plan.SetExpr | plan.MapExpr | plan.MapCall | plan.Subquery | plan.Agg


def is_measured(expr: plan.Expr, with_records: bool) -> bool:
    """Whether an expression can make a value that is larger than what it is made of."""
    match expr:
        case plan.Call(name):
            return name not in KEEPS_SIZE
        case plan.Binary(op):
            return op == "+"
        case plan.RecordExpr():
            return with_records
    return isinstance(expr, _CONSTRUCTORS)


def measured(compute: Eval) -> Eval:
    """An expression whose values are measured."""

    def run(this: Value, env: Env) -> Value:
        try:
            value = compute(this, env)
        except TooLarge as e:
            raise env.run.too_large(e) from None
        if type(value.data) in OF_ANY_SIZE and size_of(value) > env.limit:
            raise env.run.too_large()
        return value

    return run


class Tally:
    """The size of values that one value is made of."""

    __slots__ = ("_env", "_room")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._room = env.limit

    def add(self, value: Value) -> Value:
        """Account for a value and return it; fails if they are too large."""
        self._room -= size_of(value)
        if self._room < 0:
            raise self._env.run.too_large()
        return value


def within_memory(values: Iterable[Value], env: Env, limit: int) -> Iterator[Value]:
    """Values of which all are about to be in memory. Where memory is limited, they fail beyond the limit."""
    stop = env.run.stop
    if not env.run.memory.is_strict:
        yield from stop.checked(values)
        return
    for value in stop.checked(values):
        limit -= size_of(value)
        if limit < 0:
            raise stop.out_of_memory()
        yield value


# ---- how often a program copies its input


def copies(program: plan.Program) -> float:
    """How often a part of the input may be in one value of the output, at most."""
    if any(isinstance(node, plan.UserCall | plan.Subquery) for node in nodes(program)):
        return inf
    return _copies(program.body)


def _copies(ops: plan.Seq) -> float:
    return prod(map(_copies_of, ops))


def _copies_of(op: plan.Op) -> float:
    match op:
        case plan.Yield(exprs):
            return max((_most_used(_uses(expr)) for expr in exprs), default=1)
        case plan.Cut(args):
            return _most_used([path for arg in args for path in _uses(arg.expr)])
        case plan.Put(args):
            return _most_used([(), *(path for arg in args for path in _uses(arg.expr))])
        case plan.Over(exprs, names, body):
            return (1 + len(names)) * (_copies(body) if body else 1)
        case plan.Fork(legs):
            return max(map(_copies, legs), default=1)
        case plan.Switch(_, cases):
            return max((_copies(case.body) for case in cases), default=1)
        case plan.Summarize(aggs, keys):
            used = [*(agg.expr for _, agg in aggs if agg.expr is not None), *(expr for _, expr in keys)]
            return _most_used([path for expr in used for path in _uses(expr)])
        case plan.Join():
            return 2
    return 1


def _uses(expr: plan.Expr) -> list[tuple[object, ...]]:
    """The paths in the input whose values become parts of the result."""
    match expr:
        case plan.This(path):
            return [path]
        case plan.Var(_, slot):
            return [(slot,)]
        case plan.RecordExpr(elems) | plan.ArrayExpr(elems) | plan.SetExpr(elems):
            parts = (e.expr if isinstance(e, plan.Field | plan.Spread) else e for e in elems)
            return [path for part in parts for path in _uses(part)]
        case plan.MapExpr(entries):
            return [path for entry in entries for part in entry for path in _uses(part)]
        case plan.Literal():
            return []
    # A value of its own, which is measured where it is made, or a part of one.
    return [path for node in nodes(expr) if isinstance(node, plan.This | plan.Var) for path in _uses(node)]


def _most_used(paths: list[tuple[object, ...]]) -> float:
    """How many of the paths lead to one part, or to something around it."""
    return max((sum(path[: len(other)] == other for other in paths) for path in set(paths)), default=1)
