"""One stream into several and back. Legs are pulled, not pushed: what a leg is not ready for waits in its queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.expressions.calls import Stream
from shoal.engines.interp.expressions.logic import is_true
from shoal.engines.interp.operators.simple import close
from shoal.engines.interp.spill import SpillingQueue
from shoal.model import types as t
from shoal.model.values import Value, is_missing
from shoal.model.zcode import encode

Split: TypeAlias = Callable[[Iterator[Value], Env], "Legs"]
"""A compiled fork or switch: from one stream to several."""
Route: TypeAlias = Callable[[Value], Sequence[int]]


class Legs:
    """The legs of a fork or switch, fed from one stream."""

    def __init__(self, stream: Iterator[Value], bodies: Sequence[Stream], route: Route, env: Env) -> None:
        self._stream = stream
        self._route = route
        self._queues = [SpillingQueue(env.run.workspace, env.run.memory.sort) for _ in bodies]
        self._is_open = [True] * len(bodies)
        self.streams = [self._guard(i, body(self._feed(i), env)) for i, body in enumerate(bodies)]

    def _feed(self, leg: int) -> Iterator[Value]:
        """The input of one leg: its queue, then whatever the common stream has for it."""
        queue = self._queues[leg]
        while True:
            if len(queue):
                yield queue.pop()
            elif not self._pull():
                return

    def _pull(self) -> bool:
        """Hand the next value of the common stream to the legs that it is for."""
        for value in self._stream:
            for leg in self._route(value):
                if self._is_open[leg]:
                    self._queues[leg].push(value)
            return True
        return False

    def _guard(self, leg: int, stream: Iterator[Value]) -> Iterator[Value]:
        """The output of one leg; when it is over, nothing more is kept for it."""
        try:
            yield from stream
        finally:
            self._is_open[leg] = False
            self._queues[leg].clear()
            if not any(self._is_open):
                close(self._stream)

    def combined(self) -> Iterator[Value]:
        """The outputs of all legs; the leg with most to do goes first, so that no queue grows long."""
        live = list(range(len(self.streams)))
        try:
            while live:
                leg = max(live, key=lambda i: (len(self._queues[i]), -i))
                for value in self.streams[leg]:
                    yield value
                    break
                else:
                    live.remove(leg)
        finally:
            self.close()

    def close(self) -> None:
        """Close the legs and their common stream."""
        for stream in self.streams:
            close(stream)
        close(self._stream)


def fork(bodies: Sequence[Stream]) -> Split:
    """Every value into every leg."""
    every = tuple(range(len(bodies)))
    return lambda stream, env: Legs(stream, bodies, lambda value: every, env)


def switch(tests: Sequence[Eval | None], bodies: Sequence[Stream]) -> Split:
    """Every value into the first leg whose test it passes; a leg without a test takes what is left."""
    default = next((i for i, test in enumerate(tests) if test is None), None)

    def split(stream: Iterator[Value], env: Env) -> Legs:
        scope = env.fresh()

        def route(value: Value) -> Sequence[int]:
            for i, test in enumerate(tests):
                if test is not None and is_true(test(value, scope)):
                    return (i,)
            return () if default is None else (default,)

        return Legs(stream, bodies, route, env)

    return split


def switch_on(expr: Eval, cases: Sequence[Value | None], bodies: Sequence[Stream]) -> Split:
    """Every value into the leg of the case that the expression equals."""
    legs_by_case: dict[Any, int] = {}
    for i, case in enumerate(cases):
        if case is not None:
            legs_by_case.setdefault(_case_key(case), i)
    default = next((i for i, case in enumerate(cases) if case is None), None)

    def split(stream: Iterator[Value], env: Env) -> Legs:
        scope = env.fresh()

        def route(value: Value) -> Sequence[int]:
            subject = expr(value, scope)
            if is_missing(subject):
                return ()
            leg = legs_by_case.get(_case_key(subject), default)
            return () if leg is None else (leg,)

        return Legs(stream, bodies, route, env)

    return split


def _case_key(value: Value) -> Any:
    """What two values that are equal have in common: numbers differ by value, not by type."""
    value = value.under()
    if t.is_number(value.type) or value.data is None:
        return value.data
    return value.type, encode(value.type, value.data)
