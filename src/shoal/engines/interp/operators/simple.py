"""Operators that need no more than the values as they pass by."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.expressions.calls import Stream, lateral
from shoal.engines.interp.expressions.logic import is_true
from shoal.engines.interp.reshape import FuseState, ShapeState, unroll
from shoal.engines.interp.reshape import explode as explode_value
from shoal.engines.interp.spill import SpillingList, SpillingQueue
from shoal.model import types as t
from shoal.model import values
from shoal.model.values import TRUE, Value, is_error, is_missing, is_quiet


def passed(stream: Iterator[Value], env: Env) -> Iterator[Value]:
    """Everything."""
    return stream


def checked(stage: Stream) -> Stream:
    """An operator that may make many values of one: it ends when the run is stopped, though no new value comes in."""
    return lambda stream, env: env.run.stop.checked(stage(stream, env))


def filtered(expr: Eval) -> Stream:
    """What the expression is true for."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        for value in stream:
            verdict = expr(value, env)
            if verdict is TRUE or is_true(verdict):
                yield value

    return run


def yielded(exprs: tuple[Eval, ...]) -> Stream:
    """One value an expression; quiet ones are dropped."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        for value in stream:
            for expr in exprs:
                result = expr(value, env)
                if not is_quiet(result):
                    yield result

    return run


def head(count: int) -> Stream:
    """The first values; what comes before is closed as soon as they are there."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        try:
            yield from islice(stream, count)
        finally:
            close(stream)

    return run


def close(stream: Iterator[Value]) -> None:
    """Close a stream, so that it releases what it holds."""
    stop = getattr(stream, "close", None)
    if stop is not None:
        stop()


def tail(count: int) -> Stream:
    """The last values."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        queue = SpillingQueue(env.run.workspace, env.run.memory.sort)
        for value in stream:
            queue.push(value)
            if len(queue) > count:
                queue.pop()
        for _ in env.run.stop.checked(range(len(queue))):
            yield queue.pop()

    return run


def uniq(with_count: bool) -> Stream:
    """Equal neighbours as one."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        last: Value | None = None
        count = 0
        for value in stream:
            if last is not None and value == last:
                count += 1
                continue
            if last is not None:
                yield counted(last, count) if with_count else last
            last, count = value, 1
        if last is not None:
            yield counted(last, count) if with_count else last

    return run


def counted(value: Value, count: int) -> Value:
    """A value and how often it came."""
    return values.record((("value", value), ("count", Value(t.UINT64, count))))


def fused(stream: Iterator[Value], env: Env) -> Iterator[Value]:
    """Everything in one type."""
    return reshaped(stream, env, FuseState())


def shaped(stream: Iterator[Value], env: Env) -> Iterator[Value]:
    """Everything, with types that differ in nulls only made one."""
    return reshaped(stream, env, ShapeState())


def reshaped(stream: Iterator[Value], env: Env, state: FuseState | ShapeState) -> Iterator[Value]:
    """All values are seen before the first one is changed."""
    buffer = SpillingList(env.run.workspace, env.run.memory.fuse)
    for value in stream:
        state.observe(value)
        buffer.append(value)
    for value in env.run.stop.checked(buffer):
        yield state.convert(value)


def exploded(exprs: tuple[Eval, ...], typ: t.Type, name: str) -> Stream:
    """The embedded values of one type."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        for value in stream:
            for expr in exprs:
                subject = expr(value, env)
                if is_missing(subject):
                    continue
                if is_error(subject):
                    yield subject
                    continue
                for element in env.run.stop.checked(explode_value(subject, typ)):
                    yield values.record(((name, element),))

    return run


def debugged(expr: Eval) -> Stream:
    """Everything, with a copy to the side."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        for value in stream:
            shown = expr(value, env)
            if not is_quiet(shown):
                env.run.emit("debug", shown)
            yield value

    return run


def put_out(name: str) -> Stream:
    """The end of a stream in a named channel; the main one is what comes out of the program."""
    if name == "main":
        return passed

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        for value in stream:
            env.run.emit(name, value)
        yield from ()

    return run


def over(exprs: tuple[Eval, ...], local: tuple[Eval, ...], body: Stream | None) -> Stream:
    """What is inside of values, through a query of its own for each of them."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        for value in stream:
            scope = lateral(local, value, env) if local else env
            elements = list(unroll(exprs, value, scope))
            if body is None:
                yield from env.run.stop.checked(elements)
            elif elements:
                yield from body(env.run.stop.checked(elements), scope)

    return run
