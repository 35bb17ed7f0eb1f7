"""From the plan of an expression to a closure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from shoal.engines.aggregates import AGGREGATES
from shoal.engines.interp.environment import Eval
from shoal.engines.interp.expressions import access, arithmetic, calls, compare, construct, logic, search
from shoal.engines.interp.expressions.calls import Stream
from shoal.engines.interp.functions.table import FUNCTIONS, NEED_LIMIT, NEED_NAMES, NEED_STOP
from shoal.engines.interp.growth import is_measured, measured
from shoal.errors import InvalidInput
from shoal.lang import plan
from shoal.lang.walk import calls_itself, has_aggregate
from shoal.model.values import Value, is_error

MAX_COPIES = 1000
"""How often bodies of functions are compiled: those that count, once for each call site."""
_COMPARISONS = frozenset(compare.OPERATORS)


class ExpressionCompiler:
    """Compiles the expressions of one program."""

    def __init__(
        self, funcs: Sequence[plan.Func], compile_seq: Callable[[plan.Seq], Stream], measures_records: bool = True
    ) -> None:
        self.measures_records = measures_records
        """Whether the records that expressions put together are measured."""
        self._funcs = funcs
        self._compile_seq = compile_seq
        self._bodies: dict[int, list[Eval]] = {}
        self._slots = self._copies = 0

    def exprs(self, exprs: Sequence[plan.Expr]) -> tuple[Eval, ...]:
        """Several expressions."""
        return tuple(self.expr(e) for e in exprs)

    def optional(self, expr: plan.Expr | None) -> Eval | None:
        """An expression that may be left out."""
        return None if expr is None else self.expr(expr)

    def expr(self, expr: plan.Expr) -> Eval:
        """One expression. What can make large values is measured."""
        compute = self._expr(expr)
        return measured(compute) if is_measured(expr, self.measures_records) else compute

    def record(self, change: Eval) -> Eval:
        """What puts a record together for an operator: like an expression that does."""
        return measured(change) if self.measures_records else change

    def _expr(self, expr: plan.Expr) -> Eval:
        match expr:
            case plan.Literal(value):
                return _constant(value)
            case plan.This(path):
                return access.path(path)
            case plan.Var(_, slot):
                return lambda this, env: env.vars[slot]
            case plan.Dot(inner, name):
                return access.dot(self.expr(inner), name)
            case plan.Index(inner, index):
                return access.index(self.expr(inner), self.expr(index))
            case plan.Slice(inner, start, stop):
                return access.cut_out(self.expr(inner), self.optional(start), self.optional(stop))
            case plan.Unary(op, operand):
                return (logic.negated if op == "!" else arithmetic.minus)(self.expr(operand))
            case plan.Binary():
                return self._binary(expr)
            case plan.Conditional(cond, then, otherwise):
                return logic.conditional(self.expr(cond), self.expr(then), self.expr(otherwise))
            case plan.Call(name, args):
                return _caller(name)(FUNCTIONS[name], self.exprs(args))
            case plan.UserCall(func, _, args):
                return calls.user(self._body(func), self.exprs(args))
            case plan.MapCall(inner, function):
                return calls.map_call(self.expr(inner), self.expr(function))
            case plan.Agg():
                return self._running(expr)
            case plan.Search(text, value, inner):
                return search.search(self.expr(inner), text, value)
            case plan.RegexpSearch(pattern, inner):
                return search.regexp_search(self.expr(inner), pattern)
            case plan.RegexpMatch(pattern, inner):
                return search.regexp_match(self.expr(inner), pattern)
            case plan.RecordExpr(elems):
                return self._record(elems)
            case plan.ArrayExpr(elems):
                return construct.array(self._elems(elems))
            case plan.SetExpr(elems):
                return construct.set_of(self._elems(elems))
            case plan.MapExpr(entries):
                return construct.map_of(tuple((self.expr(k), self.expr(v)) for k, v in entries))
            case plan.Subquery(names, exprs, body):
                return calls.subquery(self.exprs(names), self.exprs(exprs), self._compile_seq(body))
            case _:
                assert_never(expr)

    def _binary(self, expr: plan.Binary) -> Eval:
        op, left, right = expr.op, expr.left, expr.right
        if op in _COMPARISONS and isinstance(right, plan.Literal) and compare.is_comparable(right.value, op):
            if isinstance(left, plan.This):
                return compare.compare_path(op, left.path, right.value)
            return compare.compare_literal(op, self.expr(left), right.value)
        if op == "in" and isinstance(right, plan.Literal) and not is_error(right.value):
            return compare.contained_in_literal(self.expr(left), right.value)
        if op == "in" and isinstance(left, plan.Literal) and compare.is_comparable(left.value, "=="):
            return compare.contained_literal(left.value, self.expr(right))
        a, b = self.expr(left), self.expr(right)
        match op:
            case "and":
                return logic.both(a, b)
            case "or":
                return logic.either(a, b)
            case "in":
                return compare.contained(a, b)
            case _ if op in _COMPARISONS:
                return compare.compare(op, a, b)
        return arithmetic.arithmetic(op, a, b)

    def _record(self, elems: tuple[plan.Field | plan.Spread, ...]) -> Eval:
        if any(isinstance(e, plan.Spread) for e in elems):
            return construct.record_with_spread(
                tuple((e.name if isinstance(e, plan.Field) else "", self.expr(e.expr)) for e in elems)
            )
        fields = [e for e in elems if isinstance(e, plan.Field)]
        return construct.record(tuple(f.name for f in fields), self.exprs([f.expr for f in fields]))

    def _elems(self, elems: tuple[plan.Expr | plan.Spread, ...]) -> tuple[construct.Elem, ...]:
        return tuple((self.expr(e.expr), True) if isinstance(e, plan.Spread) else (self.expr(e), False) for e in elems)

    def _running(self, expr: plan.Agg) -> Eval:
        self._slots += 1
        state = AGGREGATES[expr.name].state
        return calls.running(self._slots, state, self.optional(expr.expr), self.optional(expr.where))

    def _body(self, index: int) -> list[Eval]:
        """The body of a function. One that counts has its own state at each call site."""
        if index in self._bodies:
            return self._bodies[index]
        self._copies += 1
        if self._copies > MAX_COPIES:
            raise InvalidInput("functions with aggregates call each other in too many ways")
        body: list[Eval] = []
        func = self._funcs[index]
        is_shared = not has_aggregate(func.body, self._funcs) or calls_itself(index, self._funcs)
        if is_shared:
            self._bodies[index] = body
        body.append(self.expr(func.body))
        return body


def _caller(name: str) -> Callable[[Callable[..., Value], tuple[Eval, ...]], Eval]:
    """What calls a built-in function with all that it needs."""
    if name in NEED_NAMES:
        return calls.builtin_with_names
    if name in NEED_LIMIT:
        return calls.builtin_with_limit
    return calls.builtin_with_stop if name in NEED_STOP else calls.builtin


def _constant(value: Value) -> Eval:
    return lambda this, env: value
