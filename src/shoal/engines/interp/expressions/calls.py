"""Calls: of built-in functions, of the program's own, of aggregates, and of lateral queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeAlias

from shoal.engines.interp.aggregates.contract import Aggregate, Limits, feed
from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.expressions.construct import bounded
from shoal.engines.interp.expressions.logic import is_true
from shoal.engines.interp.growth import Tally
from shoal.engines.interp.reshape import unroll
from shoal.model import types as t
from shoal.model import values
from shoal.model.extent import MAX_PARTS
from shoal.model.values import NULL, TRUE, Value, is_error, structured_error

Stream: TypeAlias = Callable[[Iterator[Value], Env], Iterator[Value]]
"""A compiled sequence of operators: from values to values."""

LATERAL_WEIGHT = 50
"""How many calls of functions a lateral query inside an expression counts for: it takes more stack than they do."""


def builtin(function: Callable[..., Value], args: tuple[Eval, ...]) -> Eval:
    """A call of a built-in function."""
    match args:
        case ():
            return lambda this, env: function()
        case (a,):
            return lambda this, env: function(a(this, env))
        case (a, b):
            return lambda this, env: function(a(this, env), b(this, env))
    return lambda this, env: function(*[arg(this, env) for arg in args])


def builtin_with_names(function: Callable[..., Value], args: tuple[Eval, ...]) -> Eval:
    """A call of a function that knows the named types in the data."""
    return lambda this, env: function(*[arg(this, env) for arg in args], names=env.run.type_names)


def builtin_with_stop(function: Callable[..., Value], args: tuple[Eval, ...]) -> Eval:
    """A call of a function that may take long, and make much of its arguments."""
    return lambda this, env: function(*[arg(this, env) for arg in args], stop=env.run.stop, limit=env.limit)


def builtin_with_limit(function: Callable[..., Value], args: tuple[Eval, ...]) -> Eval:
    """A call of a function that may make much of its arguments."""
    return lambda this, env: function(*[arg(this, env) for arg in args], limit=env.limit)


def user(body: list[Eval], args: tuple[Eval, ...]) -> Eval:
    """A call of a function of the program; its body may not be compiled yet."""

    def call(this: Value, env: Env) -> Value:
        return body[0](NULL, env.call(tuple([arg(this, env) for arg in args])))

    return call


def map_call(expr: Eval, inner: Eval) -> Eval:
    """A function applied to each element of an array or set."""

    def call(this: Value, env: Env) -> Value:
        container = expr(this, env)
        if is_error(container):
            return container
        container = container.under()
        elem = t.inner_of(container.type)
        if elem is None:
            return structured_error("map: first argument must be array or set", container)
        if container.data is None:
            return container
        results, tally = [], Tally(env)
        for data in env.run.stop.checked(container.data):  # a generator would take stack from each call of a function
            results.append(tally.add(inner(Value(elem, data).under(), env)))  # noqa: PERF401
        return bounded(values.array(results) if isinstance(container.type, t.Array) else values.set_of(results))

    return call


def running(slot: int, make: Callable[[Limits], Aggregate], expr: Eval | None, where: Eval | None) -> Eval:
    """An aggregate as a running value: what it is after each value it has seen."""

    def step(this: Value, env: Env) -> Value:
        state = env.states.get(slot)
        if state is None:
            state = env.states[slot] = make(env.run.limits)
        if where is None or is_true(where(this, env)):
            feed(state, TRUE if expr is None else expr(this, env))
        return state.result()

    return step


def lateral(local: tuple[Eval, ...], this: Value, env: Env) -> Env:
    """The surroundings of a lateral query: its locals, each of which sees those before it."""
    scope = env.inner(env.vars, LATERAL_WEIGHT)
    scope.states = env.states
    for expr in local:
        scope.vars += (expr(this, scope),)
    return scope


def subquery(local: tuple[Eval, ...], exprs: tuple[Eval, ...], body: Stream) -> Eval:
    """A lateral query as a value: null, the one value that comes out, or an array of all of them."""

    def call(this: Value, env: Env) -> Value:
        scope = lateral(local, this, env)
        elements = env.run.stop.checked(list(unroll(exprs, this, scope)))
        out, tally = [], Tally(env)
        for value in islice(body(elements, scope), MAX_PARTS + 1):  # an array of more is too large anyway
            out.append(tally.add(value))  # noqa: PERF401 - as above
        if not out:
            return NULL
        return out[0] if len(out) == 1 else bounded(values.array(out))

    return call
