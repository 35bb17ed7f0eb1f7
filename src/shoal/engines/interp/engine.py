"""The interpreter: it defines what a program means. Text to plan, plan to values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shoal.engines.interp.environment import MAX_DEPTH, Env, Run, StackOverflow
from shoal.engines.interp.expressions.compiler import ExpressionCompiler
from shoal.engines.interp.operators.compiler import Compiler
from shoal.lang import plan
from shoal.lang.analyze import analyze
from shoal.lang.catalog import Catalog
from shoal.lang.frames import allow_frames
from shoal.lang.optimize import optimize
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, Source
from shoal.lang.walk import calls_itself
from shoal.model.values import MISSING, Value

_FRAMES_A_CALL = 12


def compile_program(text: str, catalog: Catalog | None = None) -> plan.Program:
    """The plan of a program."""
    return compile_source(Source([Part("", text)]), catalog)


def compile_source(source: Source, catalog: Catalog | None = None) -> plan.Program:
    """The plan of a program that may come from several files."""
    return optimize(analyze(parse_source(source), source, evaluate, catalog), evaluate)


def evaluate(expr: plan.Expr, funcs: Sequence[plan.Func] = ()) -> Value:
    """The value of an expression that needs no data; where it does need some, it finds it missing."""
    if isinstance(expr, plan.Literal):
        return expr.value
    program = plan.Program((), tuple(funcs))
    compiled = ExpressionCompiler(program.funcs, Compiler(program).seq).expr(expr)
    return _guarded(lambda: compiled(MISSING, Env(Run())))


def _guarded(compute: object) -> Value:
    try:
        return compute()  # type: ignore[operator, no-any-return]
    except RecursionError as e:
        raise StackOverflow("stack overflow") from e


def run_program(program: plan.Program, values: Iterable[Value] = (), run: Run | None = None) -> Iterator[Value]:
    """What a program makes of values. Temporary files are gone when the iterator is done or closed."""
    run = run or Run()
    if any(calls_itself(i, program.funcs) for i in range(len(program.funcs))):
        allow_frames(MAX_DEPTH * _FRAMES_A_CALL)
    stream = Compiler(program).seq(program.body)(iter(values), Env(run))
    try:
        yield from stream
    except RecursionError as e:
        raise StackOverflow("stack overflow") from e
    finally:
        run.workspace.close()
