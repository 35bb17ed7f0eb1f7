"""The interpreter: it defines what a plan means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from shoal.engines.interp.environment import Env, Run, StackOverflow
from shoal.engines.interp.functions.table import NEED_NAMES
from shoal.engines.interp.operators.compiler import Compiler
from shoal.lang import plan
from shoal.lang.recursion import deep_frames
from shoal.lang.walk import calls_itself, depth_of, nodes
from shoal.model import types as t
from shoal.model.values import MISSING, Value


def needs_names(program: plan.Program) -> bool:
    """Whether a program asks for types by name."""
    return any(isinstance(node, plan.Call) and node.name in NEED_NAMES for node in nodes(program))


def observed(values: Iterable[Value], names: dict[str, t.Type]) -> Iterator[Value]:
    """Values, with the names of their types noted; the last type of a name counts."""
    seen: set[t.Type] = set()
    for value in values:
        if value.type not in seen:
            note(value.type, names, seen)
        if value.type is t.TYPE and value.data is not None:
            note(value.data, names, seen)
        yield value


def note(typ: t.Type, names: dict[str, t.Type], seen: set[t.Type]) -> None:
    """Note the names in a type that was not seen before."""
    if typ in seen:
        return
    seen.add(typ)
    for child in typ.children():
        note(child, names, seen)
    if isinstance(typ, t.Named):
        names[typ.name] = typ


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


def evaluator(expr: plan.Expr) -> Callable[[Value], Value]:
    """What computes an expression, which calls no function of a program, for one value after the other."""
    with deep_frames():
        compiled, is_deep = Compiler(plan.Program((), ())).exprs.expr(expr), depth_of(expr) > _USUAL_DEPTH
    env = Env(Run())

    def value_for(this: Value) -> Value:
        if not is_deep:
            return compiled(this, env)
        with deep_frames(), _overflow_named():
            return compiled(this, env)

    return value_for


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
