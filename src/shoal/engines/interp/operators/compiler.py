"""From a plan to a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from shoal.engines.aggregates import AGGREGATES
from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.expressions.calls import Stream
from shoal.engines.interp.expressions.compiler import ExpressionCompiler
from shoal.engines.interp.growth import FREE_COPIES, copies
from shoal.engines.interp.operators import flow, ordering, records, simple
from shoal.engines.interp.operators.flow import Split
from shoal.engines.interp.operators.join import Side, join
from shoal.engines.interp.operators.scan import default_scan, opened_scan, physical_scan
from shoal.engines.interp.operators.summarize import Aggregation, summarized
from shoal.errors import InvalidInput
from shoal.lang import plan
from shoal.model.values import Value

JOIN_NEEDS_TWO = "join requires two upstream parallel query paths"


class Compiler:
    """Compiles the operators of one program."""

    def __init__(self, program: plan.Program) -> None:
        self.program = program
        self.exprs = ExpressionCompiler(program.funcs, self.seq, not program.body or copies(program) > FREE_COPIES)

    def seq(self, ops: plan.Seq) -> Stream:
        """A sequence of operators as one stream."""
        stages: list[Stream] = []
        i = 0
        while i < len(ops):
            op = ops[i]
            if isinstance(op, plan.Fork | plan.Switch):
                follower = ops[i + 1] if i + 1 < len(ops) else None
                stage, is_used = self._rejoined(self._split(op), follower)
                stages.append(simple.checked(stage))
                i += 2 if is_used else 1
            else:
                stages.append(simple.checked(self._op(op)) if op.traits.multiplies else self._op(op))
                i += 1
        return chained(stages)

    def _split(self, op: plan.Fork | plan.Switch) -> Split:
        if isinstance(op, plan.Fork):
            return flow.fork([self.seq(leg) for leg in op.legs])
        bodies = [self.seq(case.body) for case in op.cases]
        if op.expr is None:
            return flow.switch([self.exprs.optional(case.expr) for case in op.cases], bodies)
        cases = [case.expr.value if isinstance(case.expr, plan.Literal) else None for case in op.cases]
        return flow.switch_on(self.exprs.expr(op.expr), cases, bodies)

    def _rejoined(self, split: Split, follower: plan.Op | None) -> tuple[Stream, bool]:
        """Legs brought together by what follows them; whether it was used up for that."""
        match follower:
            case plan.Merge(expr):
                merge = ordering.merged(self.exprs.expr(expr))
                return (lambda stream, env: merge(split(stream, env).streams, env)), True
            case plan.Join():
                return self._joined(split, follower), True
        return (lambda stream, env: split(stream, env).combined()), False

    def _joined(self, split: Split, op: plan.Join) -> Stream:
        left = Side(self.exprs.expr(op.left_key), op.left_order)
        right = Side(self.exprs.expr(op.right_key), op.right_order)
        run = join(op.style, left, right, self._cut(op.args))

        def stream(values: Iterator[Value], env: Env) -> Iterator[Value]:
            legs = split(values, env).streams
            if len(legs) != 2:
                raise InvalidInput(JOIN_NEEDS_TWO)
            return run(legs[0], legs[1], env)

        return stream

    def _op(self, op: plan.Op) -> Stream:
        match op:
            case plan.DefaultScan(condition):
                return default_scan(self._keep(condition))
            case plan.FileScan() | plan.HttpScan() | plan.PoolScan():
                return opened_scan(op, self._keep(op.filter))
            case plan.Physical():
                return physical_scan(op)
            case plan.MetaScan():
                # The filter of a tap is about the data: it says which objects to list, it does not test them.
                return opened_scan(op, self._keep(None))
            case plan.Pass() | plan.Merge():
                return simple.passed
            case plan.Filter(expr):
                return simple.filtered(self.exprs.expr(expr))
            case plan.Yield(exprs):
                return simple.yielded(self.exprs.exprs(exprs))
            case plan.Cut(args):
                return records.applied(self._cut(args))
            case plan.Put(args):
                put = records.put(self._targets(args), [self.exprs.expr(a.expr) for a in args])
                return records.applied(self.exprs.record(put))
            case plan.Drop(paths):
                return records.applied(records.drop(paths))
            case plan.Rename(args):
                return records.applied(records.rename(self._targets(args), [self._target(a.expr) for a in args]))
            case plan.Sort():
                return ordering.sorted_stream(*self._sort(op))
            case plan.Head(count):
                return simple.head(count)
            case plan.Tail(count):
                return simple.tail(count)
            case plan.Top(count, keys, flush):
                return ordering.top(count, self.exprs.exprs(keys), flush)
            case plan.TopK(count, sort):
                return ordering.first_of_sort(count, *self._sort(sort))
            case plan.Uniq(count):
                return simple.uniq(count)
            case plan.Summarize():
                return self._summarize(op)
            case plan.Fuse():
                return simple.fused
            case plan.Shape():
                return simple.shaped
            case plan.Explode(args, typ, name):
                return simple.exploded(self.exprs.exprs(args), typ, name)
            case plan.Debug(expr):
                return simple.debugged(self.exprs.expr(expr))
            case plan.Output(name):
                return simple.put_out(name)
            case plan.Load():
                return self._load(op)
            case plan.Over(exprs, names, body):
                inner = None if body is None else self.seq(body)
                return simple.over(self.exprs.exprs(exprs), self.exprs.exprs(names), inner)
            case plan.Join():
                raise InvalidInput(JOIN_NEEDS_TWO)
            case plan.Fork() | plan.Switch():
                return self._rejoined(self._split(op), None)[0]
            case _:
                assert_never(op)

    def _keep(self, condition: plan.Expr | None) -> Stream:
        return simple.passed if condition is None else simple.filtered(self.exprs.expr(condition))

    def _load(self, op: plan.Load) -> Stream:
        return lambda values, env: env.run.load(op, values)

    def _cut(self, args: tuple[plan.Assignment, ...]) -> Eval:
        if not args:
            return self.exprs.expr(plan.RecordExpr(()))
        return self.exprs.record(records.cut(self._targets(args), [self.exprs.expr(a.expr) for a in args]))

    def _targets(self, args: tuple[plan.Assignment, ...]) -> list[records.Target]:
        return [self._target(a.target) for a in args]

    def _target(self, expr: plan.Expr) -> records.Target:
        return records.Target(self._parts(expr))

    def _parts(self, expr: plan.Expr) -> list[str | Eval]:
        match expr:
            case plan.This(path):
                return list(path)
            case plan.Dot(inner, name):
                return [*self._parts(inner), name]
            case plan.Index(inner, index):
                return [*self._parts(inner), self.exprs.expr(index)]
        raise InvalidInput("illegal left-hand side of assignment")

    def order(self, op: plan.Sort) -> ordering.Order:
        """The order of a sort that has keys."""
        return ordering.make_order(*self._sort(op))

    def _sort(self, op: plan.Sort) -> tuple[list[tuple[Eval, bool]], bool, bool]:
        return [(self.exprs.expr(key.expr), key.order == "desc") for key in op.keys], op.reverse, op.nulls_first

    def _summarize(self, op: plan.Summarize) -> Stream:
        aggs = [self._aggregation(path, agg) for path, agg in op.aggs]
        keys = [(path, self.exprs.expr(expr)) for path, expr in op.keys]
        return summarized(aggs, keys, op.limit, op.partials_in, op.partials_out)

    def _aggregation(self, path: plan.Path, agg: plan.Agg) -> Aggregation:
        expr, where = self.exprs.optional(agg.expr), self.exprs.optional(agg.where)
        spec = AGGREGATES[agg.name]
        return Aggregation(path, spec.state, expr, where, spec.grows)


def chained(stages: list[Stream]) -> Stream:
    """One stream after the other."""
    if len(stages) == 1:
        return stages[0]

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        for stage in stages:
            stream = stage(stream, env)
        return stream

    return run
