"""The interpreter: it defines what a plan means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from shoal.engines.interp.environment import Env, Run, StackOverflow
from shoal.engines.interp.operators.compiler import Compiler
from shoal.engines.interp.type_names import needs_names, observed
from shoal.lang import plan
from shoal.lang.frames import deep_frames
from shoal.lang.walk import calls_itself, depth_of, nodes
from shoal.model.values import MISSING, Value

_USUAL_DEPTH = 60


def evaluate(expr: plan.Expr, funcs: Sequence[plan.Func] = (), this: Value = MISSING) -> Value:
    """The value of an expression; without `this` the current value is missing."""
    if isinstance(expr, plan.Literal):
        return expr.value
    program = plan.Program((), tuple(funcs))
    run = Run()
    try:
        with deep_frames(), _overflow_named():
            return Compiler(program).exprs.expr(expr)(this, Env(run))
    finally:
        run.workspace.close()


def sort_order(
    sort: plan.Sort, funcs: Sequence[plan.Func] = ()
) -> tuple[Callable[[Value], list[Value]], Callable[[list[Value], list[Value]], int]]:
    """What gives the keys that a sort sorts a value by, and what compares such keys."""
    order = Compiler(plan.Program((), tuple(funcs))).order(sort)
    env = Env(Run())
    return lambda value: order.keys_of(value, env), order.compare_keys


@contextmanager
def _overflow_named() -> Iterator[None]:
    try:
        yield
    except RecursionError as e:
        raise StackOverflow("stack overflow") from e


def run_program(program: plan.Program, values: Iterable[Value] = (), run: Run | None = None) -> Iterator[Value]:
    """What a program makes of values. Temporary files are gone when the iterator is done or closed."""
    run = run or Run()
    if needs_names(program):
        run.type_names.update(program.types)
        values = observed(values, run.type_names)
        open_scan, names = run.open_scan, run.type_names
        run.open_scan = lambda scan: observed(open_scan(scan), names)
    try:
        with deep_frames():
            is_deep = goes_deep(program)
            stream = Compiler(program).seq(program.body)(iter(values), Env(run))
        with _overflow_named():
            yield from _pulled_deeply(stream) if is_deep else stream
    finally:
        run.workspace.close()


def goes_deep(program: plan.Program) -> bool:
    """Whether a program may need more frames than Python usually allows."""
    length = sum(isinstance(node, plan.Op) for node in nodes(program))
    if depth_of(program) + length > _USUAL_DEPTH:
        return True
    return any(calls_itself(i, program.funcs) for i in range(len(program.funcs)))


def _pulled_deeply(stream: Iterator[Value]) -> Iterator[Value]:
    """A stream that has many frames at its disposal while it works, and only then."""
    while True:
        with deep_frames():
            value = next(stream, None)
        if value is None:
            return
        yield value
